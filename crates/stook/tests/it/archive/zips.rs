//! Zips of Info-ZIP and of Python, and compressed tars, compared with the trees they were made of;
//! and zips that lie.

use std::fs;
use std::path::Path;

use stook::archive::{Archive, Error, Format, MemberKind, Method, OpenOptions, Origin};
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::{Source as _, read_range};

use super::{contents, open, run};

fn tree(root: &Path) {
    fs::create_dir_all(root.join("d/empty")).unwrap();
    fs::write(root.join("a"), b"alpha").unwrap();
    fs::write(root.join("nothing"), b"").unwrap();
    fs::write(root.join("d/text"), "many words ".repeat(200_000)).unwrap();
    let noise: Vec<u8> =
        (0..3_000_000_u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    fs::write(root.join("d/noise"), noise).unwrap();
    std::os::unix::fs::symlink("d/text", root.join("link")).unwrap();
}

const FILES: [&str; 4] = ["a", "nothing", "d/text", "d/noise"];

#[test]
fn zips_of_info_zip_read_as_the_trees_they_were_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("t");
    tree(&root);
    for (name, level) in [("stored.zip", "-0"), ("deflated.zip", "-6")] {
        run("zip", &["-qry", level, &format!("../{name}"), "."], &root);
        let archive = open(&dir.path().join(name)).unwrap();
        assert_eq!((archive.format(), archive.origin()), (Format::Zip, &Origin::Directory));
        let all = contents(&archive);
        assert_eq!(all.len(), 7, "{:?}", all.keys());
        for file in FILES {
            let (kind, bytes) = &all[file.as_bytes()];
            assert!(
                *kind == MemberKind::File && *bytes == fs::read(root.join(file)).unwrap(),
                "{name}: {file}"
            );
        }
        assert_eq!(all[&b"link"[..]], (MemberKind::Symlink, b"d/text".to_vec()));
        assert_eq!(all[&b"d/empty"[..]].0, MemberKind::Directory);
        let member = archive.find(b"a").unwrap();
        let found = fs::metadata(root.join("a")).unwrap();
        use std::os::unix::fs::MetadataExt as _;
        assert_eq!(member.node.mode, Some(found.mode() & 0o7777));
        assert_eq!(member.node.owner, Some((found.uid(), found.gid())));
        assert_eq!(member.node.mtime_ns, Some(found.mtime() * 1_000_000_000));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "a zip has no index beside it");
}

#[test]
fn a_stored_member_is_a_source_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    tree(&dir.path().join("t"));
    run("zip", &["-qr0", "../s.zip", "."], &dir.path().join("t"));
    let archive = open(&dir.path().join("s.zip")).unwrap();
    let source = archive.source(&archive.find(b"d/noise").unwrap()).unwrap().unwrap();
    let range = ByteRange::new(1_000_001, 2_500_000).unwrap();
    let bytes = read_range(&Backend::Auto, &source, range, Access::Cached).unwrap();
    assert!(bytes == fs::read(dir.path().join("t/d/noise")).unwrap()[1_000_001..2_500_000]);
    assert_eq!(source.len(), 3_000_000);
}

#[test]
fn python_zips_of_every_kind_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let script = "
import zipfile
z = zipfile.ZipFile('many.zip', 'w')
for i in range(66000): z.writestr('f%d' % i, b'%d' % i)
z.close()
z = zipfile.ZipFile('wide.zip', 'w', zipfile.ZIP_DEFLATED)
with z.open('wide', 'w', force_zip64=True) as f: f.write(b'w' * 3000000)
z.comment = b'PK\\x05\\x06 in a comment' * 10
z.close()
z = zipfile.ZipFile('twice.zip', 'w')
z.writestr('a', b'old'); z.writestr('./a', b'newer'); z.writestr('\\u00e9', b'accent')
info = zipfile.ZipInfo('padded'); info.extra = b'\\xfe\\xca' + (9000).to_bytes(2, 'little') + bytes(9000)
z.writestr(info, b'p' * 2000000)
z.close()
z = zipfile.ZipFile('bz.zip', 'w', zipfile.ZIP_BZIP2); z.writestr('b', b'b'); z.writestr('c', b''); z.close()
zipfile.ZipFile('empty.zip', 'w').close()
";
    run("python3", &["-W", "ignore", "-c", script], dir.path());
    let opened = |name: &str| open(&dir.path().join(name)).unwrap();
    let many = opened("many.zip");
    assert_eq!(many.len(), 66_000);
    assert!(contents(&many).iter().all(|(key, (_, bytes))| key[1..] == bytes[..]));
    assert_eq!(contents(&opened("wide.zip"))[&b"wide"[..]].1, vec![b'w'; 3_000_000]);
    let twice = contents(&opened("twice.zip"));
    assert_eq!(twice[&b"a"[..]].1, b"newer");
    assert_eq!(twice["é".as_bytes()].1, b"accent");
    assert_eq!(twice[&b"padded"[..]].1, vec![b'p'; 2_000_000]);
    let bz = opened("bz.zip");
    assert_eq!(bz.find(b"b").unwrap().method, Method::Unknown(12));
    assert!(!contents(&bz).contains_key(&b"b"[..]));
    assert!(opened("empty.zip").is_empty());
    // A program before it moves a zip, and this is recorded nowhere.
    let moved = [vec![b'#'; 70_001], fs::read(dir.path().join("twice.zip")).unwrap()].concat();
    fs::write(dir.path().join("moved.zip"), moved).unwrap();
    assert_eq!(contents(&opened("moved.zip")), twice);
}

/// A zip of two stored members, by Python, to be spoiled.
fn small(dir: &Path) -> Vec<u8> {
    let script = "
import zipfile
z = zipfile.ZipFile('s.zip', 'w')
z.writestr('one', b'1' * 100)
z.writestr('two', b'2' * 100, compress_type=zipfile.ZIP_DEFLATED)
z.close()";
    run("python3", &["-c", script], dir);
    fs::read(dir.join("s.zip")).unwrap()
}

/// Where the entries of a directory are.
fn entries(zip: &[u8]) -> Vec<usize> {
    (0..zip.len() - 4).filter(|at| zip[*at..].starts_with(b"PK\x01\x02")).collect()
}

fn refused(dir: &Path, bytes: &[u8]) -> String {
    let path = dir.join("bad.zip");
    fs::write(&path, bytes).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. } | Error::Unsupported { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn zips_that_lie_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = small(dir.path());
    let [one, two] = entries(&good)[..] else { panic!("two entries") };
    let end = good.len() - 22;
    let with = |changes: &[(usize, &[u8])]| {
        let mut bytes = good.clone();
        for (at, change) in changes {
            bytes[*at..*at + change.len()].copy_from_slice(change);
        }
        refused(dir.path(), &bytes)
    };
    assert!(with(&[(two + 42, &[0, 0, 0, 0])]).contains("overlap"), "both are at the same place");
    assert!(with(&[(two + 42, &[40, 0, 0, 0])]).contains("overlap"));
    assert!(with(&[(one + 42, &[0, 0, 0, 0x7f])]).contains("directory"));
    assert!(with(&[(one + 20, &[0, 0, 0, 0x7f]), (one + 24, &[0, 0, 0, 0x7f])]).contains("directory"));
    assert!(with(&[(end + 8, &[9, 0, 9, 0])]).contains("its end states 9"));
    assert!(with(&[(end + 8, &[1, 0, 1, 0])]).contains("its end states 1"));
    assert!(with(&[(end + 12, &[0xff, 0xff, 0, 0])]).contains("past its own end"));
    assert!(with(&[(end + 4, &[1, 0])]).contains("parts"));
    assert!(with(&[(one, b"XX")]).contains("entry"));
    assert!(with(&[(two + 28, &[0xff, 0xff])]).contains("past its end"));
}

#[test]
fn members_that_are_not_what_the_directory_says_are_reported_and_the_others_read() {
    let dir = tempfile::tempdir().unwrap();
    let good = small(dir.path());
    let [one, two] = entries(&good)[..] else { panic!("two entries") };
    let body = good.windows(100).position(|window| window == [b'1'; 100]).unwrap();
    let path = dir.path().join("bad.zip");
    let left = |changes: &[(usize, u8)]| {
        let mut bytes = good.clone();
        for (at, byte) in changes {
            bytes[*at] = *byte;
        }
        fs::write(&path, &bytes).unwrap();
        contents(&open(&path).unwrap())
            .into_keys()
            .map(|key| String::from_utf8(key).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(left(&[]), ["one", "two"]);
    assert_eq!(left(&[(body + 7, b'x')]), ["two"], "its checksum does not match");
    assert_eq!(left(&[(0, b'x')]), ["two"], "there is no header before it");
    assert_eq!(left(&[(two + 24, 99)]), ["one"], "it is longer");
    assert_eq!(left(&[(two + 24, 101)]), ["one"], "it is shorter");
    assert_eq!(left(&[(two + 16, good[two + 16] ^ 1)]), ["one"], "another checksum");
    assert_eq!(left(&[(two + 8, 1)]), ["one"], "it is encrypted");
    assert_eq!(left(&[(one + 20, 99)]), ["two"], "it is stored as it is, and has two lengths");
    assert_eq!(left(&[24, 25, 26, 27].map(|at| (one + at, 0xff))), ["two"], "the same, without zip64");
    assert_eq!(left(&[(one + 48, b'/')]), ["two"], "it is named like a directory, and has bytes");
    assert_eq!(left(&[(body - 33, 0xff)]), ["two"], "a name before it that never ends");
}

#[test]
fn any_bit_of_a_zip_may_flip_and_any_end_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let good = small(dir.path());
    let path = dir.path().join("bad.zip");
    fs::write(&path, &good).unwrap();
    let before = contents(&open(&path).unwrap());
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        let Ok(archive) = open(&path) else { continue };
        for (key, (_, bytes)) in contents(&archive) {
            // A name may be another one then; bytes never are.
            assert!(before.get(&key).is_none_or(|(_, known)| *known == bytes), "byte {at}");
        }
    }
    for len in 0..good.len() {
        fs::write(&path, &good[..len]).unwrap();
        assert!(open(&path).is_err(), "cut to {len}");
    }
}

#[test]
fn compressed_tars_are_read_from_their_front() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("t");
    tree(&root);
    run("tar", &["--format=pax", "-cf", "x.tar", "-C", "t", "."], dir.path());
    run(
        "sh",
        &[
            "-c",
            "gzip -c x.tar > x.tar.gz; head -c 100000 x.tar | gzip > y; tail -c +100001 x.tar | gzip >> y; head -c 512 /dev/zero >> y",
        ],
        dir.path(),
    );
    let tar = fs::read(dir.path().join("x.tar")).unwrap();
    fs::write(dir.path().join("x.tar.zst"), zstd::encode_all(&tar[..], 3).unwrap()).unwrap();
    fs::write(dir.path().join("x.tar.xz"), super::spooled::xz(&tar)).unwrap();
    let plain = contents(&open(&dir.path().join("x.tar")).unwrap());
    for (name, format) in [
        ("x.tar.gz", Format::TarGzip),
        ("y", Format::TarGzip),
        ("x.tar.zst", Format::TarZstd),
        ("x.tar.xz", Format::TarXz),
    ] {
        let path = dir.path().join(name);
        for origin in ["made", "sidecar"] {
            let archive = Archive::open(&path, OpenOptions::default()).unwrap();
            assert_eq!(archive.format(), format);
            assert_eq!(*archive.origin() == Origin::Sidecar, origin == "sidecar");
            // By key, so that it has to go back again and again.
            assert!(contents(&archive) == plain, "{name}, {origin}");
            assert!(archive.source(&archive.find(b"a").unwrap()).unwrap().is_none());
        }
    }
}

#[test]
fn compressed_tars_that_are_cut_or_damaged_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("t");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a"), "some text ".repeat(3000)).unwrap();
    run("tar", &["-czf", "x.tar.gz", "-C", "t", "a"], dir.path());
    run("tar", &["-cf", "x.tar", "-C", "t", "a"], dir.path());
    let gzip = fs::read(dir.path().join("x.tar.gz")).unwrap();
    let zst = {
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_checksum(true).unwrap();
        std::io::Write::write_all(&mut encoder, &fs::read(dir.path().join("x.tar")).unwrap()).unwrap();
        encoder.finish().unwrap()
    };
    let path = dir.path().join("bad");
    for good in [&gzip, &zst] {
        fs::write(&path, good).unwrap();
        assert_eq!(contents(&open(&path).unwrap()).len(), 1);
        for len in 0..good.len() {
            fs::write(&path, &good[..len]).unwrap();
            assert!(open(&path).is_err(), "cut to {len} of {}", good.len());
        }
        let last = good.len() - 1;
        for at in [last, last - 5, good.len() / 2] {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, &bytes).unwrap();
            assert!(open(&path).is_err(), "byte {at} of {}", good.len());
        }
    }
    fs::write(&path, [&gzip[..], b"garbage"].concat()).unwrap();
    assert!(open(&path).is_err());
    run("sh", &["-c", "gzip -c t/a > bad"], dir.path());
    assert!(matches!(open(&path), Err(Error::NotAnArchive { .. } | Error::Damaged { .. })));
}

#[test]
fn a_bomb_takes_time_and_no_memory() {
    // 64 MB of members in 100 KB: refused once its index is as large as was allowed.
    let dir = tempfile::tempdir().unwrap();
    let members: Vec<u8> =
        (0..1000).flat_map(|n| super::made::member(format!("{n}").as_bytes(), b'0', b"")).collect();
    let tar = members.repeat(100);
    let path = dir.path().join("bomb.tar.zst");
    fs::write(&path, zstd::encode_all(&tar[..], 3).unwrap()).unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 200_000);
    let options = OpenOptions { max_index_bytes: 1 << 20, ..OpenOptions::default() };
    let error = Archive::open(&path, options).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
