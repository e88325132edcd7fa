//! Media types by the ending of a name.

/// What a name is sent as. What is not known is bytes.
pub(crate) fn of(name: &[u8]) -> &'static str {
    const BYTES: &str = "application/octet-stream";
    let Some(dot) = name.iter().rposition(|byte| *byte == b'.') else { return BYTES };
    let ending = name.get(dot + 1..).unwrap_or_default().to_ascii_lowercase();
    let known = |(endings, _): &&(&[&str], &str)| endings.iter().any(|known| known.as_bytes() == ending);
    TYPES.iter().find(known).map_or(BYTES, |(_, kind)| kind)
}

const TYPES: &[(&[&str], &str)] = &[
    (
        &[
            "txt", "log", "md", "rst", "toml", "yaml", "yml", "ini", "cfg", "conf", "rs", "py", "c", "h",
            "cpp", "hpp", "go", "java", "sh", "diff", "patch", "tex", "srt", "sha256", "md5",
        ],
        "text/plain; charset=utf-8",
    ),
    (&["html", "htm"], "text/html; charset=utf-8"),
    (&["css"], "text/css; charset=utf-8"),
    (&["csv"], "text/csv; charset=utf-8"),
    (&["tsv"], "text/tab-separated-values; charset=utf-8"),
    (&["js", "mjs"], "text/javascript; charset=utf-8"),
    (&["vtt"], "text/vtt; charset=utf-8"),
    (&["json", "map"], "application/json"),
    (&["jsonl", "ndjson"], "application/x-ndjson"),
    (&["geojson"], "application/geo+json"),
    (&["xml", "xsd"], "application/xml"),
    (&["pdf"], "application/pdf"),
    (&["wasm"], "application/wasm"),
    (&["zip"], "application/zip"),
    (&["tar"], "application/x-tar"),
    (&["gz", "tgz"], "application/gzip"),
    (&["zst"], "application/zstd"),
    (&["xz"], "application/x-xz"),
    (&["bz2"], "application/x-bzip2"),
    (&["7z"], "application/x-7z-compressed"),
    (&["parquet"], "application/vnd.apache.parquet"),
    (&["arrow"], "application/vnd.apache.arrow.file"),
    (&["sqlite"], "application/vnd.sqlite3"),
    (&["epub"], "application/epub+zip"),
    (&["jpg", "jpeg"], "image/jpeg"),
    (&["png"], "image/png"),
    (&["gif"], "image/gif"),
    (&["webp"], "image/webp"),
    (&["avif"], "image/avif"),
    (&["svg"], "image/svg+xml"),
    (&["bmp"], "image/bmp"),
    (&["ico"], "image/x-icon"),
    (&["tif", "tiff"], "image/tiff"),
    (&["mp3"], "audio/mpeg"),
    (&["ogg", "oga", "opus"], "audio/ogg"),
    (&["wav"], "audio/wav"),
    (&["flac"], "audio/flac"),
    (&["m4a"], "audio/mp4"),
    (&["mp4", "m4v"], "video/mp4"),
    (&["webm"], "video/webm"),
    (&["mkv"], "video/x-matroska"),
    (&["mov"], "video/quicktime"),
    (&["ogv"], "video/ogg"),
    (&["woff"], "font/woff"),
    (&["woff2"], "font/woff2"),
    (&["ttf"], "font/ttf"),
    (&["otf"], "font/otf"),
];

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_last_ending_counts_in_any_case() {
        assert_eq!(of(b"a.tar.GZ"), "application/gzip");
        assert_eq!(of(b"x.JPG"), "image/jpeg");
        assert_eq!(of("ü.html".as_bytes()), "text/html; charset=utf-8");
        for bytes in [&b"a"[..], b"", b".", b"a.", b"a.\xff", b"txt"] {
            assert_eq!(of(bytes), "application/octet-stream");
        }
    }
}
