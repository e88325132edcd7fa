//! What layouts may be, and what comes back of what was written.

use proptest::prelude::*;

use super::*;

fn decoded(text: &str) -> Result<Vec<LayoutFile>, String> {
    decode(text.as_bytes()).map_err(|fault| fault.to_string())
}

/// A layout with one file of one piece.
fn with_piece(piece: &str) -> String {
    format!("stook-layout = 1\n[[file]]\nname = \"x\"\npieces = [{{ {piece} }}]\n")
}

#[test]
fn each_piece_says_one_thing() {
    let of = |piece: &str| decoded(&with_piece(piece)).unwrap().remove(0).pieces.remove(0);
    let path = |path: &str, offset, length, size, mtime_ns| {
        LayoutPiece::Path(PathPiece { path: path.to_owned(), offset, length, size, mtime_ns })
    };
    assert_eq!(of("path = './a//b'"), path("a/b", 0, None, None, None));
    assert_eq!(
        of("path = \"a\", offset = 5, length = 10, size = 99, mtime_ns = -3"),
        path("a", 5, Some(10), Some(99), Some(-3))
    );
    let file = LayoutPiece::File { name: "y".to_owned(), offset: 1, length: None };
    assert_eq!(of("file = \"y\", offset = 1"), file);
    assert_eq!(of("text = \"a\\nb\""), LayoutPiece::Bytes("a\nb".into()));
    assert_eq!(of("base64 = \"AAH/\""), LayoutPiece::Bytes(Bytes::from_static(&[0, 1, 255])));
    assert_eq!(of("fill = 7, length = 3"), LayoutPiece::Fill { byte: 7, length: 3 });
    for (piece, why) in [
        ("", "it needs one of"),
        ("length = 5", "it needs one of"),
        ("path = \"a\", fill = 0", "it needs one of"),
        ("text = \"a\", base64 = \"\"", "it needs one of"),
        ("fill = 0", "needs a `length`"),
        ("fill = 0, length = 1, offset = 0", "has no `offset`"),
        ("fill = 256, length = 1", "line 4"),
        ("text = \"a\", length = 1", "no `offset` and no `length`"),
        ("base64 = \"***\"", "`base64`"),
        ("base64 = \"AAH\"", "`base64`"),
        ("file = \"y\", size = 3", "are of a `path`"),
        ("path = \"a\", offset = -1", "line 4"),
        ("path = \"a\", offset = 9223372036854775807, length = 1", "2^63 - 1"),
        ("path = \"a\", lenght = 1", "unknown field `lenght`"),
        ("path = \"\"", "no name"),
        ("path = \"/etc/passwd\"", "absolute"),
        ("path = \"a/../../b\"", "lead out"),
        ("path = \"a\\u0000\"", "zero"),
        ("file = \"../x\"", "lead out"),
    ] {
        let found = decoded(&with_piece(piece)).unwrap_err();
        assert!(found.contains(why), "{piece}: {found}");
    }
}

#[test]
fn a_layout_begins_with_its_version_and_has_files_that_fit_together() {
    for (text, why) in [
        ("", "no layout"),
        ("[[file]]\nname = \"x\"\n", "no layout"),
        ("# a note\nstook-layout = 1\n", "no layout"),
        ("stook-layout = one\n", "no layout"),
        ("stook-layout = 2\nwhat = 'ever'\n", "version 2"),
        ("stook-layout = 99999999999999999999\n", "no layout"),
        ("stook-layout = 1\nfile = 3\n", "line 2"),
        ("stook-layout = 1\n[[file]]\n", "name"),
        ("stook-layout = 1\n[[file]]\nname = \"\"\n", "no name"),
        ("stook-layout = 1\n[[file]]\nname = \"a\"\n[[file]]\nname = \"./a\"\n", "two files"),
        ("stook-layout = 1\n[[file]]\nname = \"a/b\"\n[[file]]\nname = \"a/b/c/d\"\n", "is a file, too"),
        ("stook-layout = 1\n[[file]\n", "line 2"),
    ] {
        let found = decoded(text).unwrap_err();
        assert!(found.contains(why), "{text}: {found}");
    }
    assert_eq!(decoded("stook-layout=1\n").unwrap(), []);
    let long = format!("stook-layout = 1\n[[file]]\nname = \"{}\"\n", "x".repeat(PATH_LEN_MAX + 1));
    let found = decoded(&long).unwrap_err();
    assert!(found.len() < 200 && found.contains("longer"), "{found}");
    let odd = [b"stook-layout = 1\n[[file]]\nname = \"".as_slice(), b"\xff\"\n"].concat();
    assert!(decode(&odd).unwrap_err().to_string().contains("line 3: it is not UTF-8"));
    assert!(is_layout(b"stook-layout = 7") && is_layout(b"stook-layout=") && !is_layout(b"stook"));
}

#[test]
fn names_that_are_not_utf8_are_refused() {
    let refused = Encoder::new().file(b"a\xff").unwrap_err();
    assert!(refused.to_string().contains("not UTF-8"), "{refused}");
}

/// A path that a layout may have.
fn a_path() -> impl Strategy<Value = String> {
    let part = "[^/\\x00]{1,8}".prop_filter("it is a part", |part| part != "." && part != "..");
    proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

fn a_piece() -> impl Strategy<Value = LayoutPiece> {
    let number = || prop_oneof![0_u64..5, 0..i64::MAX as u64 / 2];
    let cut = move || (number(), proptest::option::of(number()));
    let of_path = (a_path(), cut(), proptest::option::of(number()), proptest::option::of(any::<i64>()));
    let bytes = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..600),
        "\\PC{0,300}".prop_map(String::into_bytes),
        "[ -~\n\t\"\\\\\u{7f}]{0,20}".prop_map(String::into_bytes),
    ];
    prop_oneof![
        of_path.prop_map(|(path, (offset, length), size, mtime_ns)| {
            LayoutPiece::Path(PathPiece { path, offset, length, size, mtime_ns })
        }),
        (a_path(), cut()).prop_map(|(name, (offset, length))| LayoutPiece::File { name, offset, length }),
        bytes.prop_map(|bytes| LayoutPiece::Bytes(bytes.into())),
        (any::<u8>(), number()).prop_map(|(byte, length)| LayoutPiece::Fill { byte, length }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        name in a_path(),
        pieces in proptest::collection::vec(a_piece(), 0..20),
    ) {
        let mut encoder = Encoder::new();
        encoder.file(name.as_bytes()).unwrap();
        pieces.iter().for_each(|piece| encoder.piece(piece));
        encoder.end_file();
        let text = encoder.take();
        let expected = vec![LayoutFile { name, pieces }];
        prop_assert_eq!(decoded(&text), Ok(expected), "{}", text);
    }

    #[test]
    fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&[b"stook-layout = 1\n[[file]]\nname = \"".as_slice(), &bytes].concat());
        let _ = decode(&bytes);
    }
}
