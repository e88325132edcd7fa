//! A server that speaks the language of S3 and checks signatures.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stook::Error;
use stook::engine::{Access, Backend};
use stook::error::RemoteErrorKind;
use stook::extent::ByteRange;
use stook::source::remote::{RemoteOptions, RemoteSource};
use stook::source::{Session, SessionOptions, Source};
use stook_testing::conformance::{noise, source_conformance};
use stook_testing::s3::S3Server;

use super::{quick, range, read, reported};

fn put(directory: &Path, key: &str, bytes: &[u8]) {
    let path = directory.join("bucket").join(key);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn options(server: &S3Server) -> RemoteOptions {
    RemoteOptions { settings: server.settings(), ..quick() }
}

#[test]
fn objects_of_s3_keep_every_promise_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    let server = S3Server::start(directory.path(), Duration::ZERO);
    for (key, len) in [("empty", 0), ("one", 1), ("folder/with spaces & more", 20_000)] {
        let bytes = noise(80, len);
        put(directory.path(), key, &bytes);
        let source = RemoteSource::open(&format!("s3://bucket/{key}"), &options(&server)).unwrap();
        assert!(source.identity().etag.is_some());
        let source: Arc<dyn Source> = Arc::new(source);
        source_conformance(&source, &bytes, &Backend::Threads);
    }
}

#[test]
fn a_distant_store_is_asked_for_many_pieces_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = noise(81, 3 << 20);
    put(directory.path(), "big", &bytes);
    let server = S3Server::start(directory.path(), Duration::from_millis(30));
    let source = RemoteSource::open("s3://bucket/big", &options(&server)).unwrap();
    let way = SessionOptions { requests: 16, max_request_bytes: 100_000, ..SessionOptions::default() };
    let mut session = Session::new(&Backend::Threads, way).unwrap();
    let ranges = [ByteRange::to(3 << 20), range(5, 200_000)];
    let read = session.read_batch(&source, &ranges, Access::Cached).unwrap();
    assert!(read[0] == bytes && read[1] == bytes[5..200_000]);
    assert_eq!(server.requests(), 1 + (3_usize << 20).div_ceil(100_000) + 2);
    assert_eq!(source.statistics().requests, server.requests() as u64);
}

#[test]
fn an_object_of_s3_that_is_replaced_shrinks_grows_or_goes_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let server = S3Server::start(directory.path(), Duration::ZERO);
    for len in [9000, 500, 20_000] {
        put(directory.path(), "k", &noise(82, 9000));
        let source = RemoteSource::open("s3://bucket/k", &options(&server)).unwrap();
        assert!(read(&source, range(1000, 2000)).is_ok());
        put(directory.path(), "k", &noise(83, len));
        let error = read(&source, range(1000, 2000)).unwrap_err();
        assert!(matches!(&error, Error::SourceChanged { after, .. } if after.len == len as u64), "{error:?}");
    }
    put(directory.path(), "k", &noise(82, 9000));
    let source = RemoteSource::open("s3://bucket/k", &options(&server)).unwrap();
    fs::remove_file(directory.path().join("bucket/k")).unwrap();
    let (kind, tries, text) = reported(&read(&source, range(0, 5)).unwrap_err());
    assert_eq!((kind, tries), (RemoteErrorKind::NotFound, 1), "{text}");
    assert!(text.contains("NoSuchKey"), "{text}");
}

#[test]
fn wrong_keys_are_refused_once_and_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "k", b"bytes");
    let server = S3Server::start(directory.path(), Duration::ZERO);
    for (name, expected) in
        [("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"), ("AWS_ACCESS_KEY_ID", "NotSignedUp")]
    {
        let mut options = options(&server);
        options.settings.push((name.into(), "hidden".into()));
        let (kind, tries, text) = reported(&RemoteSource::open("s3://bucket/k", &options).unwrap_err());
        assert_eq!((kind, tries), (RemoteErrorKind::Denied, 1), "{text}");
        assert!(text.contains(expected) && !text.contains("hidden"), "{text}");
    }
}
