//! A process that reads an object forks; parent and child continue reading.
#![expect(unsafe_code, reason = "fork has no safe interface")]
#![expect(clippy::unwrap_used, reason = "a broken promise ends the test")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::remote::{RemoteOptions, RemoteSource};
use stook::source::{FileSource, Session, SessionOptions, read_range};
use stook_testing::conformance::noise;
use stook_testing::web::{Page, WebServer};

const LEN: u64 = 50_000;

fn main() {
    // It runs without the harness, so it answers the one question of those who list tests.
    if std::env::args().any(|argument| argument == "--list") {
        println!("parent_and_child_go_on: test");
        return;
    }
    let page = Page::new(noise(70, LEN as usize));
    // It runs on in the parent, and also serves the child.
    let server = WebServer::start(move |request, _| page.reply(request));
    let source = RemoteSource::open(&server.url("/a"), &RemoteOptions::default()).unwrap();
    look(&source);
    let requests = source.statistics().requests;
    let mut session = Session::new(&Backend::Threads, SessionOptions::default()).unwrap();
    session.submit(0, &source, ByteRange::to(LEN), Access::Cached).unwrap();
    // SAFETY: what threads of the library hold, the child must do without: that is what is tested.
    // The child ends with `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let went_on = catch_unwind(AssertUnwindSafe(|| in_child(&source, session, &server.url("/a"))));
        // SAFETY: nothing of the parent's is to be run at the end.
        unsafe { libc::_exit(i32::from(went_on.is_err())) };
    }
    assert!(child > 0, "{}", std::io::Error::last_os_error());
    look(&source);
    let mut status = 0;
    // SAFETY: the child is ours, and the status is written to memory that lives.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(waited == child && status == 0, "the child ended with {status}");
    assert!(session.next().unwrap().1.unwrap() == noise(70, LEN as usize), "what was asked for before came");
    look(&source);
    assert_eq!(source.statistics().requests, requests + 3, "the child counts for itself");
    for engine in [Backend::Threads, Backend::Uring] {
        what_is_read_is_left_to_the_parent(&engine);
    }
    println!("parent and child went on");
}

/// A child drops an engine with reads in flight, and the parent gets them.
fn what_is_read_is_left_to_the_parent(engine: &Backend) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, noise(71, LEN as usize)).unwrap();
    let source = FileSource::open(file.path()).unwrap();
    // Some systems refuse io_uring, and then there is nothing to be tested.
    let Ok(mut session) = Session::new(engine, SessionOptions::default()) else { return };
    (0..8).for_each(|token| {
        session.submit(token, &source, ByteRange::to(LEN), Access::Cached).unwrap();
    });
    // SAFETY: as above.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(session)));
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(dropped.is_err())) };
    }
    let mut status = 0;
    // SAFETY: as above.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(waited == child && status == 0, "the child ended with {status}");
    for _ in 0..8 {
        assert!(session.next().unwrap().1.unwrap() == noise(71, LEN as usize));
    }
    assert!(session.next().is_none());
}

fn in_child(source: &RemoteSource, mut session: Session, url: &str) {
    assert_eq!(source.statistics().requests, 0);
    let orphaned = session.next().unwrap().1;
    assert!(orphaned.is_err(), "what the parent asked is not answered in the child");
    // Threads that its engine would wait for are not there.
    drop(session);
    look(source);
    look(source);
    assert_eq!(source.statistics().requests, 2);
    drop(source.clone());
    look(&RemoteSource::open(url, &RemoteOptions::default()).unwrap());
}

fn look(source: &RemoteSource) {
    let read = read_range(&Backend::Threads, source, ByteRange::to(LEN), Access::Cached).unwrap();
    assert!(read == noise(70, LEN as usize));
}
