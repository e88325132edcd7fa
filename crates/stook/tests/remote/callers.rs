//! Who asks: many threads, programs that run a runtime of their own, sessions over several kinds of
//! source.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::remote::{RemoteOptions, RemoteSource};
use stook::source::{FileSource, Session, SessionOptions};
use stook_testing::conformance::noise;
use stook_testing::web::{Page, WebServer};

use super::{quick, range, read};

#[test]
fn programs_with_a_runtime_of_their_own_can_read() {
    let page = Page::new(noise(50, 9000));
    let bytes = page.bytes.clone();
    let server = WebServer::start(move |request, _| page.reply(request));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let source = RemoteSource::open(&server.url("/a"), &quick()).unwrap();
        assert!(read(&source, range(10, 9000)).unwrap() == bytes[10..]);
        drop(source);
    });
}

#[test]
fn many_threads_read_one_object_within_its_limit() {
    let page = Page::new(noise(51, 64_000));
    let bytes = page.bytes.clone();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let server = WebServer::start(move |request, _| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(1));
        now.fetch_sub(1, Ordering::SeqCst);
        page.reply(request)
    });
    let options = RemoteOptions { requests: 5, ..quick() };
    let source = RemoteSource::open(&server.url("/a"), &options).unwrap();
    thread::scope(|scope| {
        for thread in 0..64_u64 {
            let (source, bytes) = (&source, &bytes);
            scope.spawn(move || {
                let options = SessionOptions { requests: 2, ..SessionOptions::default() };
                let mut session = Session::new(&Backend::Threads, options).unwrap();
                let ranges: Vec<_> =
                    (0..4).map(|at| range(at * 16_000 + thread, at * 16_000 + thread + 999)).collect();
                let read = session.read_batch(source, &ranges, Access::Cached).unwrap();
                for (range, read) in ranges.iter().zip(read) {
                    assert!(read == bytes[range.start() as usize..range.end() as usize]);
                }
            });
        }
    });
    assert_eq!(source.statistics().requests, 1 + 64 * 4);
    let most = seen.load(Ordering::SeqCst);
    assert!((2..=5).contains(&most), "{most} at once");
}

#[test]
fn files_and_objects_are_read_by_one_session() {
    let bytes = noise(52, 100_000);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), &bytes).unwrap();
    let file = FileSource::open(directory.path().join("file")).unwrap();
    let page = Page::new(bytes.clone());
    let server = WebServer::start(move |request, _| page.reply(request));
    let object = RemoteSource::open(&server.url("/a"), &quick()).unwrap();
    let options = SessionOptions { depth: 2, max_read_bytes: 4096, requests: 2, max_request_bytes: 5000 };
    let mut session = Session::new(&Backend::Auto, options).unwrap();
    let ranges: Vec<_> = (0..20).map(|at| range(at * 4000, at * 4000 + 11_000)).collect();
    for (token, range) in ranges.iter().enumerate() {
        session.submit(token as u64, &file, *range, Access::Cached).unwrap();
        session.submit(100 + token as u64, &object, *range, Access::Cached).unwrap();
    }
    let mut read = 0;
    while let Some((token, result)) = session.next() {
        let range: ByteRange = ranges[token as usize % 100];
        assert!(result.unwrap() == bytes[range.start() as usize..range.end() as usize]);
        read += 1;
    }
    assert_eq!(read, 40);
}
