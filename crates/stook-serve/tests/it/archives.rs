//! Directories as archives that are not written.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use stook::extent::ByteRange;
use stook::source::Source as _;
use stook::stitch::{Layout, Members, Tar, Zip};
use stook::walk::DirectoryTree;
use stook_serve::ServeOptions;

use super::{Reply, Served, pattern, settle};

fn tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("tree");
    fs::create_dir_all(root.join("a/deep")).unwrap();
    for (name, len) in [("a/one", 1), ("a/deep/long", 700_000), ("b", 513), ("empty", 0), ("c", 262_144)] {
        fs::write(root.join(name), pattern(len)).unwrap();
    }
    std::os::unix::fs::symlink("b", root.join("link")).unwrap();
    fs::hard_link(root.join("b"), root.join("b2")).unwrap();
    settle();
    directory
}

/// The archive as the library has it.
fn expected(root: &Path, layout: &dyn Layout) -> Vec<u8> {
    let mut members = Members::new();
    members.add_tree(Arc::new(DirectoryTree::open(root).unwrap()), true, b"", &mut |_| true).unwrap();
    let file = layout.lay_out("x".into(), members).unwrap().file;
    file.read_at(ByteRange::to(file.len())).unwrap().to_vec()
}

#[test]
fn a_directory_is_sent_as_the_archive_that_stitching_makes() {
    let directory = tree();
    let root = directory.path().join("tree");
    let served = Served::new(&root);
    for (form, layout, kind) in [
        ("tar", &Tar::default() as &dyn Layout, "application/x-tar"),
        ("zip", &Zip::default(), "application/zip"),
    ] {
        let expected = expected(&root, layout);
        let whole = served.get(&format!("/?as={form}"));
        assert!(whole.status == 200 && whole.body == expected, "{form}");
        assert_eq!(whole.header("content-type"), Some(kind));
        let name = format!("attachment; filename=\"tree.{form}\"; filename*=UTF-8''tree.{form}");
        assert_eq!(whole.header("content-disposition"), Some(name.as_str()));
        let tag = whole.header("etag").unwrap();
        let head = served.ask("HEAD", &format!("/?as={form}"), &[]);
        assert_eq!((head.header("etag"), head.body.len()), (Some(tag), 0));
        assert_eq!(head.header("content-length").unwrap().parse(), Ok(expected.len()));
        assert_eq!(served.ask("GET", &format!("/?as={form}"), &[("If-None-Match", tag)]).status, 304);
        // The rest first, so that checksums are asked for before anything was read.
        let served = Served::new(&root);
        let half = expected.len() / 2;
        let rest = served.ask(
            "GET",
            &format!("/?as={form}"),
            &[("If-Range", tag), ("Range", &format!("bytes={half}-"))],
        );
        assert!(rest.status == 206 && rest.body == expected[half..], "{form}");
    }
    let below = expected(&root.join("a"), &Tar::default());
    assert!(served.get("/a?as=tar").body == below && served.get("/a/?as=tar").body == below);
    assert_eq!((served.get("/b?as=tar").status, served.get("/a?as=rar").status), (400, 400));
    assert_eq!(served.end().failures, 0);
}

#[test]
fn a_download_goes_on_only_where_nothing_has_changed() {
    let directory = tree();
    let root = directory.path().join("tree");
    let short = ServeOptions { keep_layouts: Duration::from_millis(1), ..ServeOptions::default() };
    for options in [ServeOptions::default(), short] {
        let served = Served::with(&root, options);
        let whole = served.get("/?as=tar");
        let tag = whole.header("etag").unwrap();
        let go_on = || served.ask("GET", "/?as=tar", &[("If-Range", tag), ("Range", "bytes=1000-")]);
        // The same where it was forgotten, and is laid out again.
        std::thread::sleep(Duration::from_millis(120));
        let rest = go_on();
        assert!(rest.status == 206 && rest.body == whole.body[1000..]);

        fs::write(root.join("a/one"), "x").unwrap();
        settle();
        // What is kept cannot be read any more, or is not kept: it ends short, and is never mixed.
        let mut rest = go_on();
        if rest.status == 206 || rest.status == 409 {
            assert!(!rest.is_whole || rest.status == 409);
            assert!(rest.status == 409 || whole.body[1000..].starts_with(&rest.body));
            rest = go_on();
        }
        assert_eq!(rest.status, 200);
        assert!(rest.body == expected(&root, &Tar::default()));
        assert_ne!(rest.header("etag"), Some(tag));
    }
}

#[test]
fn a_change_costs_one_answer_and_not_those_after_it() {
    let directory = tree();
    let root = directory.path().join("tree");
    let served = Served::new(&root);
    let whole = served.get("/?as=tar");
    let last = whole.body.len() - 1;
    let range = || served.range("/?as=tar", &format!("bytes=0-{last}"));
    assert!(range().body == whole.body);
    fs::write(root.join("a/one"), "x").unwrap();
    settle();
    let cut = range();
    assert!(cut.status == 409 || !cut.is_whole, "{}", cut.status);
    let again = range();
    let now = expected(&root, &Tar::default());
    assert_eq!(again.status, 206);
    assert!(again.body == now[..now.len().min(last + 1)]);
}

#[test]
fn an_archive_of_an_archive_and_of_a_pack_is_that_of_its_tree() {
    let directory = tree();
    let root = directory.path().join("tree");
    let tar = directory.path().join("x.tar");
    fs::write(&tar, expected(&root, &Tar::default())).unwrap();
    settle();
    let served = Served::new(&directory.path().join("x.tar//"));
    let whole = served.get("/?as=tar");
    assert!(whole.status == 200 && whole.body == fs::read(&tar).unwrap());
    assert!(served.get("/a/deep/long").body == pattern(700_000));
    assert_eq!(served.get("/link").body, pattern(513));
    // Members of an archive have the state of the archive.
    let member = served.get("/b");
    assert_eq!(served.ask("GET", "/b", &[("If-None-Match", member.header("etag").unwrap())]).status, 304);
}

#[test]
fn what_cannot_be_read_is_not_left_out_of_an_archive_in_silence() {
    let directory = tree();
    let root = directory.path().join("tree");
    let served = Served::new(&root);
    let whole = served.get("/?as=zip");
    // The member is gone when its bytes are asked for.
    fs::remove_file(root.join("a/deep/long")).unwrap();
    let reply: Reply = served.ask("GET", "/?as=zip", &[("Range", "bytes=200000-400000")]);
    assert!(reply.status >= 400 || !reply.is_whole, "{reply:?}");
    assert!(!served.failures().is_empty() || reply.status == 404);
    let fresh = served.get("/?as=zip");
    assert!(fresh.status == 200 && fresh.body.len() < whole.body.len() - 700_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn ranges_of_an_archive_are_those_of_its_bytes(first in 0.0..1.0_f64, len in 1..400_000_usize) {
        use std::sync::LazyLock;
        static SERVED: LazyLock<(tempfile::TempDir, Served, Vec<u8>)> = LazyLock::new(|| {
            let directory = tree();
            let root = directory.path().join("tree");
            let (served, bytes) = (Served::new(&root), expected(&root, &Zip::default()));
            (directory, served, bytes)
        });
        let (_, served, bytes) = &*SERVED;
        let first = (bytes.len() as f64 * first) as usize;
        let last = (first + len - 1).min(bytes.len() - 1);
        let reply = served.range("/?as=zip", &format!("bytes={first}-{last}"));
        prop_assert!(reply.status == 206 && reply.body == bytes[first..=last], "{first}-{last}");
    }
}
