//! Paths that would lead out, and links.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use super::Served;

/// Paths that lead nowhere, or out.
const NOWHERE: &[&str] = &[
    "/../secret",
    "/sub/../../secret",
    "/%2e%2e/secret",
    "/..%2fsecret",
    "/%2e%2e%2fsecret",
    "/sub/%2E%2E/%2e%2e/secret",
    "//secret",
    "/./../secret",
    "/file%00",
    "/%00",
    "/out",
    "/sub/out",
    "/sub/up/",
    "/sub/up/secret",
    "/absolute/passwd",
    "/around",
    "/loop",
    "/one",
    "/dangling",
    "/through",
    "/file/",
    "/file/x",
    "/..",
    "/...",
    "/%ff",
    "/%5c..%5csecret",
    "/out?as=tar",
    "/sub/up?as=tar",
];

#[test]
fn no_path_and_no_link_leads_out() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    fs::create_dir_all(root.join("sub/below")).unwrap();
    fs::write(directory.path().join("secret"), "secret").unwrap();
    fs::write(root.join("file"), "file").unwrap();
    for (target, link) in [
        ("../secret", "out"),
        ("../../secret", "sub/out"),
        ("../..", "sub/up"),
        ("/etc", "absolute"),
        ("sub/../../root/file", "around"),
        ("loop", "loop"),
        ("two", "one"),
        ("one", "two"),
        ("../file", "sub/inside"),
        (".//sub/./below/..", "winding"),
        ("nowhere", "dangling"),
        ("file/x", "through"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    let served = Served::new(&root);
    let absolute = format!("{}", directory.path().join("secret").display());
    for path in NOWHERE.iter().copied().chain([absolute.as_str()]) {
        let reply = served.get(path);
        assert_eq!(reply.status, 404, "{path}: {}", reply.text());
        assert!(!reply.text().contains("root") && !reply.text().contains(directory.path().to_str().unwrap()));
    }
    for path in ["/%", "/%zz", "/%2"] {
        assert_eq!(served.get(path).status, 400, "{path}");
    }
    assert_eq!(served.get("/sub/inside").text(), "file");
    let page = served.get("/winding/");
    assert!(page.status == 200 && page.text().contains("below/"), "{page:?}");
    // A redirect stays here, whatever the path looks like.
    for (path, to) in
        [("/sub", "/sub/"), ("/winding", "/winding/"), ("/sub/below?x=//evil.example", "/sub/below/")]
    {
        let reply = served.get(path);
        assert_eq!((reply.status, reply.header("location")), (301, Some(to)));
    }
    assert_eq!(served.end().failures, 0);
}

#[test]
fn other_methods_are_refused_and_what_has_no_bytes_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("x"), "x").unwrap();
    let fifo = rustix::fs::CWD;
    rustix::fs::mknodat(fifo, directory.path().join("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let served = Served::new(directory.path());
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND", "TRACE"] {
        let reply = served.ask(method, "/x", &[]);
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    let reply = served.get("/fifo");
    assert_eq!((reply.status, reply.text()), (403, "this is a named pipe, and has no bytes to send\n"));
    assert_eq!(fs::read(directory.path().join("x")).unwrap(), b"x");
}

#[test]
fn names_of_any_bytes_are_led_to_by_the_links_of_their_page() {
    let directory = tempfile::tempdir().unwrap();
    let names: [&[u8]; 12] = [
        b"plain",
        b"with space",
        b"a%2fb",
        b"<b>&\"'",
        b"?query",
        b"#fragment",
        b"javascript:alert(1)",
        b"\xff\xfe",
        "\u{fc}\u{202e}x".as_bytes(),
        b"new\nline",
        b"...",
        b"\\back",
    ];
    for name in names {
        fs::write(directory.path().join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let served = Served::new(directory.path());
    let page = served.get("/");
    let html = page.text();
    assert!(!html.contains("<b>") && !html.contains('\u{202e}'));
    let mut found: Vec<Vec<u8>> = html
        .split("<td><a href=\"")
        .skip(1)
        .map(|rest| served.get(&format!("/{}", rest.split('"').next().unwrap())).body)
        .collect();
    found.sort();
    let mut expected: Vec<Vec<u8>> = names.iter().map(|name| name.to_vec()).collect();
    expected.sort();
    assert_eq!(found, expected);
}
