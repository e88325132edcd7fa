//! States: ETags, conditions, and what changes while it is read.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use super::{Reply, Served, pattern, send, settle};

fn etag(reply: &Reply) -> String {
    reply.header("etag").unwrap().to_owned()
}

#[test]
fn a_client_that_has_it_gets_nothing_and_one_that_has_another_state_gets_the_whole() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x");
    fs::write(&file, "one state").unwrap();
    settle();
    let served = Served::new(directory.path());
    let first = served.get("/x");
    let (tag, modified) = (etag(&first), first.header("last-modified").unwrap().to_owned());
    assert_eq!(served.ask("GET", "/x", &[("If-None-Match", &tag)]).status, 304);
    assert_eq!(served.ask("GET", "/x", &[("If-Modified-Since", &modified)]).status, 304);
    assert_eq!(served.ask("GET", "/x", &[("If-Match", &tag)]).status, 200);
    assert_eq!(served.ask("GET", "/x", &[("If-Match", "\"other\"")]).status, 412);
    let part = served.ask("GET", "/x", &[("If-Range", &tag), ("Range", "bytes=4-")]);
    assert_eq!((part.status, part.text()), (206, "state"));
    // A date may be that of two states.
    let part = served.ask("GET", "/x", &[("If-Range", &modified), ("Range", "bytes=4-")]);
    assert_eq!((part.status, part.text()), (200, "one state"));

    fs::write(&file, "two state").unwrap();
    settle();
    let part = served.ask("GET", "/x", &[("If-Range", &tag), ("Range", "bytes=4-")]);
    assert_eq!((part.status, part.text()), (200, "two state"));
    assert_ne!(etag(&part), tag);
    assert_eq!(served.ask("GET", "/x", &[("If-None-Match", &tag)]).status, 200);
    assert_eq!(served.ask("GET", "/x", &[("If-Match", &tag)]).status, 412);
    assert_eq!(served.end().failures, 0);
}

#[test]
fn what_changed_a_moment_ago_has_no_etag_that_could_be_of_two_states() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path());
    for round in 0..50 {
        let text = format!("{round:04}");
        fs::write(directory.path().join("x"), &text).unwrap();
        let reply = served.get("/x");
        assert_eq!(reply.text(), text);
        // Where there is one, it is of these bytes alone.
        if let Some(tag) = reply.header("etag") {
            fs::write(directory.path().join("x"), "late").unwrap();
            assert_eq!(served.ask("GET", "/x", &[("If-None-Match", tag)]).status, 200);
        }
    }
}

/// Reads the head and some of a body, changes the file, and reads the rest.
fn changed_within(change: impl FnOnce(&Path)) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x");
    let bytes = pattern(24 << 20);
    fs::write(&file, &bytes).unwrap();
    settle();
    let served = Served::new(directory.path());
    let mut stream = served.connect();
    send(&mut stream, "GET", "/x", &[]);
    let mut all = vec![0; 300_000];
    stream.read_exact(&mut all).unwrap();
    change(&file);
    // It may end by a reset.
    let _ = stream.read_to_end(&mut all);
    let reply = Reply::parse(&all);
    assert_eq!(reply.status, 200);
    assert!(!reply.is_whole, "it ends short of its length");
    assert!(bytes.starts_with(&reply.body), "what came is of one state");
    let failures = served.failures();
    assert!(failures.len() == 1 && failures[0].starts_with("/x: "), "{failures:?}");
    // And it is served anew as it is.
    assert_eq!(served.get("/x").status, 200);
    assert_eq!(served.end().failures, 1);
}

#[test]
fn a_file_that_is_written_over_while_it_is_sent_ends_short() {
    changed_within(|file| {
        use std::os::unix::fs::FileExt as _;
        let opened = fs::OpenOptions::new().write(true).open(file).unwrap();
        opened.write_all_at(&vec![0; 24 << 20], 0).unwrap();
    });
}

#[test]
fn a_file_that_is_cut_while_it_is_sent_ends_short() {
    changed_within(|file| fs::OpenOptions::new().write(true).open(file).unwrap().set_len(1 << 20).unwrap());
}

#[test]
fn a_single_file_is_served_by_its_name_also_after_it_was_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("notes.txt");
    fs::write(&file, "one").unwrap();
    let served = Served::new(&file);
    assert!(served.get("/").text().contains("<a href=\"notes.txt\">"));
    assert_eq!(served.get("/notes.txt").text(), "one");
    fs::write(directory.path().join("new"), "two").unwrap();
    fs::rename(directory.path().join("new"), &file).unwrap();
    assert_eq!(served.get("/notes.txt").text(), "two");
    assert_eq!((served.get("/new").status, served.get("/?as=tar").status), (404, 400));
    fs::remove_file(&file).unwrap();
    assert_eq!(served.get("/notes.txt").status, 404);
}
