//! Whose bytes the cache on disk serves: those of the same object, the same user, the same state.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use stook::Error;
use stook::engine::{Access, Backend};
use stook::source::remote::{RemoteOptions, RemoteSource};
use stook::source::{Source, read_range};
use stook::sparse::{DiskCache, DiskCacheOptions, SparseFile, SparseFileOptions, SparseStatistics};
use stook_testing::conformance::noise;
use stook_testing::web::{End, Page, Reply, WebRequest, WebServer};

use super::stores::{s3, settings};
use super::{quick, range};

const LEN: u64 = 9000;

fn cache(directory: &Path) -> Arc<DiskCache> {
    DiskCache::open(directory, DiskCacheOptions::default()).unwrap()
}

/// A file that reads nothing ahead.
fn file(address: &str, options: &RemoteOptions, cache: &Arc<DiskCache>) -> SparseFile {
    let source = RemoteSource::open(address, options).unwrap();
    let mut options = SparseFileOptions { disk: Some(Arc::clone(cache)), ..SparseFileOptions::default() };
    options.ahead.max_window = 0;
    options.ahead.max_gap = 0;
    SparseFile::with_options(Arc::new(source), Arc::default(), options)
}

/// All of an object, as the next process reads it.
fn all(address: &str, options: &RemoteOptions, directory: &Path) -> (Vec<u8>, SparseStatistics) {
    let file = file(address, options, &cache(directory));
    let bytes = file.read(range(0, LEN)).unwrap().to_vec();
    (bytes, file.statistics())
}

/// Two pages that differ only in their bytes.
fn alike(first: u64) -> (Page, Page) {
    (Page::new(noise(first, LEN as usize)), Page::new(noise(first + 1, LEN as usize)))
}

/// Everything that is in the directory: names and bytes.
fn everything(directory: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        all.extend(path.file_name().unwrap().as_encoded_bytes());
        all.extend(fs::read(&path).unwrap());
    }
    all
}

fn holds(directory: &Path, text: &str) -> bool {
    everything(directory).windows(text.len()).any(|part| part == text.as_bytes())
}

fn with_headers(pairs: &[(&str, &str)]) -> RemoteOptions {
    let headers = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    RemoteOptions { headers, ..quick() }
}

/// The two addresses, or ways to request one, have separate entries, and find them again.
fn have_their_own(a: (&str, &RemoteOptions, &[u8]), b: (&str, &RemoteOptions, &[u8])) {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..2 {
        for (address, options, bytes) in [a, b] {
            let (read, reported) = all(address, options, directory.path());
            assert!(read == bytes, "{address} gives the bytes of another, round {round}");
            assert_eq!(reported.from_disk_bytes, LEN * round, "{address}, round {round}");
        }
    }
}

#[test]
fn what_a_session_reads_of_a_file_is_kept_as_if_the_file_had_asked_for_it() {
    let page = Page::new(noise(230, LEN as usize));
    let bytes = page.bytes.clone();
    let server = WebServer::start(move |request, _| page.reply(request));
    let directory = tempfile::tempdir().unwrap();
    let first = file(&server.url("/k"), &quick(), &cache(directory.path()));
    let read = |file: &SparseFile, from, to| {
        read_range(&Backend::Auto, file, range(from, to), Access::Cached).unwrap()
    };
    assert!(read(&first, 1000, 4000) == bytes[1000..4000]);
    assert!(read(&first, 0, LEN) == bytes, "what is held, between what is not");
    assert!(read(&first, 500, 8000) == bytes[500..8000]);
    let mut four = [0; 4];
    assert_eq!(first.read_at_once(2000, &mut four), Some(4));
    assert_eq!(server.requests().len(), 4, "its first byte, and what was missing");
    let reported = first.statistics();
    assert_eq!((reported.requests, reported.fetched_bytes), (3, LEN));
    drop(first);
    let (read, reported) = all(&server.url("/k"), &quick(), directory.path());
    assert!(read == bytes);
    assert_eq!((reported.from_disk_bytes, server.requests().len()), (LEN, 5));
}

#[test]
fn a_file_that_a_session_finds_changed_gives_nothing_more() {
    let first = Page::new(noise(232, LEN as usize));
    let then = Page::new(noise(233, LEN as usize)).etag(Some("\"second\""));
    let server = WebServer::start(
        move |request, nth| if nth < 2 { first.reply(request) } else { then.reply(request) },
    );
    let directory = tempfile::tempdir().unwrap();
    let file = file(&server.url("/k"), &quick(), &cache(directory.path()));
    let read = |from, to| read_range(&Backend::Auto, &file, range(from, to), Access::Cached);
    read(0, 1000).unwrap();
    for (from, to) in [(500, 2000), (0, 1000)] {
        let error = read(from, to).unwrap_err();
        assert!(matches!(error, Error::SourceChanged { .. }), "{error:?}");
    }
    assert!(file.read(range(0, 1000)).unwrap_err().is_changed_source());
}

#[test]
fn another_query_is_another_object() {
    let (a, b) = alike(200);
    let (bytes_a, bytes_b) = (a.bytes.clone(), b.bytes.clone());
    let server =
        WebServer::start(
            move |request, _| {
                if request.target.contains("id=A") { a.reply(request) } else { b.reply(request) }
            },
        );
    let url = |query: &str| server.url(&format!("/dl?{query}"));
    have_their_own((&url("id=A"), &quick(), &bytes_a), (&url("id=B"), &quick(), &bytes_b));
    // What is ignored of signed addresses means something elsewhere.
    for name in ["st", "se", "sig", "Expires", "Signature"] {
        let (first, second) = (url(&format!("{name}=id=A")), url(&format!("{name}=id=B")));
        have_their_own((&first, &quick(), &bytes_a), (&second, &quick(), &bytes_b));
    }
}

#[test]
fn another_user_is_another_source() {
    for etag in [Some("\"first\""), None] {
        let (a, b) = alike(202);
        let (a, b) = (a.etag(etag), b.etag(etag));
        let (bytes_a, bytes_b) = (a.bytes.clone(), b.bytes.clone());
        // `alice:pw` and `Bearer alice` in base 64 or as they are.
        let is_alice = |request: &WebRequest| {
            let who = request.header("authorization").unwrap_or_default();
            who == "Basic YWxpY2U6cHc=" || who == "Bearer alice-token"
        };
        let server = WebServer::start(
            move |request, _| {
                if is_alice(request) { a.reply(request) } else { b.reply(request) }
            },
        );
        let by = |user: &str| server.url("/me").replace("://", &format!("://{user}@"));
        let (alice, bob) = (by("alice:pw"), by("bob:pw"));
        have_their_own((&alice, &quick(), &bytes_a), (&bob, &quick(), &bytes_b));
        let url = server.url("/me");
        let alice = with_headers(&[("Authorization", "Bearer alice-token")]);
        let bob = with_headers(&[("authorization", "Bearer bob-token")]);
        have_their_own((&url, &alice, &bytes_a), (&url, &bob, &bytes_b));
        let alice = with_headers(&[("Authorization", "Basic YWxpY2U6cHc=")]);
        let bob = with_headers(&[("Authorization", "Basic Ym9iOnB3")]);
        have_their_own((&url, &alice, &bytes_a), (&url, &bob, &bytes_b));
    }
}

#[test]
fn two_open_files_do_not_reach_into_each_other() {
    let (a, b) = alike(204);
    let (bytes_a, bytes_b) = (a.bytes.clone(), b.bytes.clone());
    let server =
        WebServer::start(
            move |request, _| {
                if request.target.contains("id=A") { a.reply(request) } else { b.reply(request) }
            },
        );
    let directory = tempfile::tempdir().unwrap();
    let shared = cache(directory.path());
    let open = |id: &str| file(&server.url(&format!("/dl?id={id}")), &quick(), &shared);
    let (one, other) = (open("A"), open("B"));
    for at in (0..LEN).step_by(1000) {
        let (start, end) = (at as usize, at as usize + 1000);
        assert!(one.read(range(at, at + 1000)).unwrap() == bytes_a[start..end], "at {at}");
        assert!(other.read(range(at, at + 1000)).unwrap() == bytes_b[start..end], "at {at}");
    }
}

#[test]
fn another_endpoint_account_or_key_is_another_source() {
    let (a, b) = alike(206);
    let (bytes_a, bytes_b) = (a.bytes.clone(), b.bytes.clone());
    let is_second = |request: &WebRequest| {
        let signed = request.header("authorization").unwrap_or_default();
        request.target.starts_with("/second") || signed.contains("Credential=second/")
    };
    let (a_again, b_again) = (a.clone(), b.clone());
    let server = WebServer::start(
        move |request, _| {
            if is_second(request) { b.reply(request) } else { a.reply(request) }
        },
    );
    let elsewhere =
        WebServer::start(
            move |request, _| {
                if is_second(request) { a_again.reply(request) } else { b_again.reply(request) }
            },
        );
    let s3_of = |server: &WebServer, key: &str| {
        let mut options = s3(server);
        options.settings.push(("AWS_ACCESS_KEY_ID".into(), key.into()));
        options
    };
    let address = "s3://bucket/key";
    let first = s3_of(&server, "first");
    have_their_own((address, &first, &bytes_a), (address, &s3_of(&elsewhere, "first"), &bytes_b));
    have_their_own((address, &first, &bytes_a), (address, &s3_of(&server, "second"), &bytes_b));
    let azure = |account: &str| {
        settings(&[
            ("AZURE_STORAGE_ACCOUNT_NAME", account),
            ("AZURE_STORAGE_ACCOUNT_KEY", "aGlkZGVu"),
            ("AZURE_STORAGE_ENDPOINT", &server.url(&format!("/{account}"))),
            ("AZURE_ALLOW_HTTP", "true"),
        ])
    };
    let address = "az://container/key";
    have_their_own((address, &azure("first"), &bytes_a), (address, &azure("second"), &bytes_b));
}

#[test]
fn a_signature_that_was_made_anew_finds_what_was_kept() {
    let page = Page::new(noise(208, LEN as usize));
    let bytes = page.bytes.clone();
    let server = WebServer::start(move |request, _| page.reply(request));
    let aws = |day: &str, key: &str, more: &str| {
        format!(
            "/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={key}%2F{day}%2Fx%2Fs3%2Faws4_request\
             &X-Amz-Date={day}T000000Z&X-Amz-Expires=60&X-Amz-Signature={day}{more}"
        )
    };
    let azure = |day: &str| format!("/k?sv=2024-08-04&sr=b&sp=r&st={day}&se={day}&sig={day}");
    let old = |day: &str| format!("/k?AWSAccessKeyId=who&Expires={day}&Signature={day}");
    for (first, again, is_same) in [
        (aws("20260101", "who", ""), aws("20260202", "who", ""), true),
        (azure("2026-01-01"), azure("2026-02-02"), true),
        (old("1"), old("2"), true),
        (aws("20260101", "who", ""), aws("20260101", "other", ""), false),
        (aws("20260101", "who", ""), aws("20260101", "who", "&versionId=2"), false),
    ] {
        let directory = tempfile::tempdir().unwrap();
        assert!(all(&server.url(&first), &quick(), directory.path()).0 == bytes);
        let (read, reported) = all(&server.url(&again), &quick(), directory.path());
        assert!(read == bytes);
        assert_eq!(reported.from_disk_bytes, if is_same { LEN } else { 0 }, "{again}");
    }
}

#[test]
fn what_was_found_at_another_address_is_another_entry() {
    let (a, b) = alike(222);
    let (bytes_a, bytes_b) = (a.bytes.clone(), b.bytes.clone());
    let is_second = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_second);
    let server = WebServer::start(move |request, nth| match request.target.as_str() {
        // The signature is another one each time.
        "/latest" if asked.load(SeqCst) => {
            Reply::status(302).header("Location", format!("/v2?sv=1&sr=b&sp=r&sig={nth}"))
        }
        "/latest" => Reply::status(302).header("Location", format!("/v1?sv=1&sr=b&sp=r&sig={nth}")),
        target if target.starts_with("/v1") => a.reply(request),
        _ => b.reply(request),
    });
    let directory = tempfile::tempdir().unwrap();
    for round in 0..2 {
        for (second, bytes) in [(false, &bytes_a), (true, &bytes_b)] {
            is_second.store(second, SeqCst);
            let (read, reported) = all(&server.url("/latest"), &quick(), directory.path());
            assert!(&read == bytes, "round {round}, {second}");
            assert_eq!(reported.from_disk_bytes, LEN * round, "round {round}, {second}");
        }
    }
    assert!(!holds(directory.path(), "sig="));
}

#[test]
fn no_secret_is_in_the_directory() {
    let page = Page::new(noise(210, LEN as usize));
    let server = WebServer::start(move |request, _| page.reply(request));
    let directory = tempfile::tempdir().unwrap();
    let url = server.url("/me?X-Amz-Signature=secret-signature&token=secret-token");
    let url = url.replace("://", "://alice:secret-word@");
    all(&url, &with_headers(&[("X-Api-Key", "secret-key")]), directory.path());
    all("s3://bucket/key", &s3(&server), directory.path());
    assert!(holds(directory.path(), "/me") && holds(directory.path(), "s3://bucket/key"), "it is used");
    for secret in ["secret", "hidden", "alice"] {
        assert!(!holds(directory.path(), secret), "{secret}");
    }
}

const MODIFIED: &str = "Wed, 21 Oct 2015 07:28:00 GMT";

/// A server on which an object is replaced, with as little difference between both states as
/// possible.
fn replaced(pages: (Page, Page), date: Option<&'static str>) -> (WebServer, Arc<AtomicBool>) {
    let is_second = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_second);
    let server = WebServer::start(move |request, _| {
        let page = if asked.load(SeqCst) { &pages.1 } else { &pages.0 };
        let reply = page.reply(request);
        date.map_or_else(|| reply.clone(), |date| reply.clone().header("Date", date))
    });
    (server, is_second)
}

/// After half of one state was read, the next opening reads the other state, all of it.
fn is_not_kept(etag: Option<&str>, modified: Option<&str>, date: Option<&'static str>) {
    let (a, b) = alike(212);
    let bytes = b.bytes.clone();
    let dress = |page: Page| page.etag(etag).modified(modified);
    let (server, is_second) = replaced((dress(a), dress(b)), date);
    let directory = tempfile::tempdir().unwrap();
    let first = file(&server.url("/a"), &quick(), &cache(directory.path()));
    first.read(range(0, LEN / 2)).unwrap();
    is_second.store(true, SeqCst);
    let (read, reported) = all(&server.url("/a"), &quick(), directory.path());
    assert!(read == bytes, "{etag:?} {modified:?} {date:?}: a mix of two states");
    assert_eq!(reported.from_disk_bytes, 0, "{etag:?} {modified:?} {date:?} is kept");
    assert!(reported.disk_remark.is_some_and(|note| note.contains("prove")), "and that is reported");
}

#[test]
fn weak_etags_are_not_kept() {
    is_not_kept(Some("W/\"weak\""), Some(MODIFIED), None);
    is_not_kept(Some("W/\"weak\""), None, None);
}

#[test]
fn objects_without_a_proof_of_sameness_are_not_kept() {
    is_not_kept(None, None, None);
}

#[test]
fn a_time_counts_as_proof_two_seconds_later_by_the_clock_of_the_server() {
    // By the clock of this machine all of them are years old.
    let dates = [
        ("Wed, 21 Oct 2015 07:28:00 GMT", false),
        ("Wed, 21 Oct 2015 07:28:01 GMT", false),
        ("Wed, 21 Oct 2015 07:27:55 GMT", false),
        ("Wed, 21 Oct 2015 07:28:02 GMT", true),
    ];
    // An ETag of a time and a length may be the same for two states within a second.
    for etag in [None, Some("\"56273f40-2328\"")] {
        for (date, is_kept) in dates {
            if !is_kept {
                is_not_kept(etag, Some(MODIFIED), Some(date));
                continue;
            }
            let page = Page::new(noise(214, LEN as usize)).etag(etag);
            let (server, _) = replaced((page.clone(), page), Some(date));
            let directory = tempfile::tempdir().unwrap();
            for round in 0..2 {
                let (_, reported) = all(&server.url("/a"), &quick(), directory.path());
                assert_eq!(reported.from_disk_bytes, LEN * round, "{etag:?} {date}");
                assert_eq!(reported.disk_remark, None);
            }
        }
    }
    // Not without a clock of the server either.
    let page = Page::new(noise(215, LEN as usize)).etag(None);
    let server = WebServer::start(move |request, _| page.reply(request).header("Date", "none"));
    let directory = tempfile::tempdir().unwrap();
    all(&server.url("/a"), &quick(), directory.path());
    assert!(!holds(directory.path(), "STKSPC"));
}

#[test]
fn a_weak_etag_beside_another_time_is_another_state() {
    let (a, b) = alike(216);
    let etag = Some("W/\"weak\"");
    let (a, b) = (a.etag(etag), b.etag(etag).modified(Some("Thu, 22 Oct 2015 07:28:00 GMT")));
    let (server, is_second) = replaced((a, b), None);
    let source = RemoteSource::open(&server.url("/a"), &quick()).unwrap();
    is_second.store(true, SeqCst);
    assert!(super::read(&source, range(0, LEN)).is_err(), "two states differ by their times");
    assert!(source.check_unchanged().is_err());
}

#[test]
fn an_object_of_this_second_is_opened_when_the_second_is_over() {
    let (a, b) = alike(218);
    let bytes = b.bytes.clone();
    let dates = ["07:28:00", "07:28:01", "07:28:02"];
    // It is replaced within the second of its time, after the first request.
    let server = WebServer::start(move |request, nth| {
        let page = if nth == 0 { &a } else { &b };
        let date = dates[nth.min(2)];
        page.clone().etag(None).reply(request).header("Date", format!("Wed, 21 Oct 2015 {date} GMT"))
    });
    let source = RemoteSource::open(&server.url("/a"), &quick()).unwrap();
    assert_eq!(server.requests().len(), 3, "it is asked again until no change can hide");
    assert!(super::read(&source, range(0, LEN)).unwrap() == bytes);
}

#[test]
fn a_budget_too_small_for_an_object_is_reported() {
    let page = Page::new(noise(220, 3_000_000));
    let bytes = page.bytes.clone();
    let server = WebServer::start(move |request, _| page.reply(request));
    for budget_bytes in [0, 100_000, 2_000_000, 8_000_000] {
        let directory = tempfile::tempdir().unwrap();
        let disk = DiskCache::open(directory.path(), DiskCacheOptions { budget_bytes }).unwrap();
        let file = file(&server.url("/a"), &quick(), &disk);
        assert!(file.read(range(0, 3_000_000)).unwrap() == bytes);
        let reported = file.statistics();
        let is_reported = reported.disk_remark.as_deref().is_some_and(|note| note.contains("budget"));
        assert_eq!(is_reported, budget_bytes < 3_000_000, "{budget_bytes}: {:?}", reported.disk_remark);
    }
    let directory = tempfile::tempdir().unwrap();
    let disk = DiskCache::open(directory.path(), DiskCacheOptions { budget_bytes: 100_000 }).unwrap();
    let file = file(&server.url("/a"), &quick(), &disk);
    file.read(range(0, 3_000_000)).unwrap();
    assert_eq!(disk.statistics().unkept_bytes, 3_000_000);
}

#[test]
fn a_reply_has_one_date() {
    let server = WebServer::start(|_, _| Reply::status(200).header("Date", MODIFIED));
    assert_eq!(RemoteSource::open(&server.url("/a"), &quick()).unwrap().len(), 0);
}

#[test]
fn of_an_object_that_is_read_as_a_whole_what_came_when_it_was_opened_is_counted() {
    let page = Page::new(noise(222, LEN as usize));
    let bytes = page.bytes.clone();
    // The first try breaks.
    let server = WebServer::start(move |_, nth| match nth {
        1 => page.whole().end(End::Closed(1000)),
        _ => page.whole(),
    });
    let options = RemoteOptions { whole_file: true, ..quick() };
    let directory = tempfile::tempdir().unwrap();
    for (requests, from_disk) in [(2, 0), (1, 6)] {
        let file = file(&server.url("/a"), &options, &cache(directory.path()));
        let came = file.statistics().fetched_bytes;
        assert!((LEN..=LEN * requests).contains(&came), "{came}");
        for start in [0, 5000] {
            assert!(file.read(range(start, start + 3)).unwrap() == bytes[start as usize..][..3]);
        }
        let reported = file.statistics();
        assert_eq!(
            (reported.requests, reported.fetched_bytes),
            (requests, came),
            "reads ask for nothing more"
        );
        assert_eq!((reported.latency_ns.len(), reported.from_disk_bytes), (1, from_disk));
        assert_eq!(reported.amplification(), Some(came as f64 / 6.0));
    }
}
