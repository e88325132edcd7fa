//! Objects as sources of copies: as files, and what is in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

use stook::Error as CoreError;
use stook::copy::{CopyOptions, CopyReport, HashKind};
use stook::ops::contents;
use stook::ops::copy::{CopyGiven, OpenGiven};
use stook::source::remote::RemoteOptions;
use stook::tree::Overwrite;
use stook_testing::conformance::noise;
use stook_testing::s3::S3Server;
use stook_testing::web::{End, Page, Reply, WebServer};

use super::quick;

/// What `Page::new` says of its time.
const MODIFIED_S: u64 = 1_445_412_480;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn copy(&self, address: &str, remote: RemoteOptions, options: CopyOptions) -> CopyReport {
        let contents = contents::OpenOptions { remote, ..contents::OpenOptions::default() };
        let open = OpenGiven { contents, ..OpenGiven::default() };
        let given = open.open(Path::new(address), &mut |_| true).unwrap();
        let copy =
            CopyGiven { sources: vec![given], destinations: vec![self.at("to")], options, read_back: false };
        copy.run(&mut ()).unwrap()
    }

    /// The names in the destination.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.at("to")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A tree with this many files of 50,000 bytes, and the same as a tar.
    fn tar(&self, count: u64) -> Vec<u8> {
        let tree = self.at("tree");
        fs::create_dir_all(tree.join("d/empty")).unwrap();
        fs::write(tree.join("a"), b"alpha").unwrap();
        for number in 0..count {
            fs::write(tree.join(format!("d/{number:02}")), noise(number, 50_000)).unwrap();
        }
        std::os::unix::fs::symlink("d/00", tree.join("link")).unwrap();
        self.run(&["tar", "--format=pax", "--sort=name", "-cf", "x.tar", "-C", "tree", "."]);
        fs::read(self.at("x.tar")).unwrap()
    }

    /// Each file of the directory that was copied is as it is in the tree: how many there are.
    fn whole_files(&self) -> usize {
        let whole = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.unwrap().path();
            let of_tree = self.at("tree/d").join(path.file_name().unwrap());
            assert!(path.is_dir() || fs::read(&path).unwrap() == fs::read(of_tree).unwrap(), "{path:?}");
            path.is_file()
        };
        fs::read_dir(self.at("to/d")).unwrap().map(whole).filter(|is_file| *is_file).count()
    }

    fn run(&self, command: &[&str]) {
        let done = Command::new(command[0]).args(&command[1..]).current_dir(self.0.path()).output().unwrap();
        let said =
            String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{command:?}: {said}");
    }
}

/// Copied file by file, and not unpacked.
fn file_by_file() -> CopyOptions {
    CopyOptions { hashes: vec![HashKind::Xxh3], ..CopyOptions::default() }
}

fn serve(page: Page) -> WebServer {
    WebServer::start(move |request, _| page.reply(request))
}

#[test]
fn an_object_becomes_a_file_with_its_time_and_is_not_read_again() {
    for len in [0, 1, 200_000, 9_000_001] {
        let place = Place::new();
        let bytes = noise(70, len);
        let server = serve(Page::new(bytes.clone()));
        let address = server.url("/d/x.bin?token=a/b");
        let report = place.copy(&address, quick(), CopyOptions::default());
        assert_eq!((report.undone(), report.destinations[0].files), (0, 1), "{report:?}");
        assert!(fs::read(place.at("to/x.bin")).unwrap() == bytes, "{len}");
        let modified = fs::metadata(place.at("to/x.bin")).unwrap().modified().unwrap();
        assert_eq!(modified, SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED_S));
        let again = place.copy(&address, quick(), CopyOptions::default());
        assert_eq!((again.undone(), again.read_bytes, again.destinations[0].unchanged), (0, 0, 1));
        assert_eq!(place.names(), ["x.bin"]);
    }
}

#[test]
fn what_is_in_an_object_is_copied_as_from_a_file() {
    let place = Place::new();
    let tar = place.tar(20);
    fs::create_dir_all(place.at("server/bucket")).unwrap();
    fs::write(place.at("server/bucket/x.tar"), &tar).unwrap();
    fs::write(place.at("server/bucket/plain"), noise(71, 300_000)).unwrap();
    let s3 = S3Server::start(&place.at("server"), Duration::ZERO);
    let web = serve(Page::new(tar));
    let settings = RemoteOptions { settings: s3.settings(), ..quick() };
    for (address, remote) in
        [("s3://bucket/x.tar".to_owned(), settings.clone()), (web.url("/x.tar"), quick())]
    {
        for options in [CopyOptions::default(), file_by_file()] {
            let _ = fs::remove_dir_all(place.at("to"));
            let report = place.copy(&format!("{address}//"), remote.clone(), options.clone());
            assert_eq!(report.undone(), 0, "{address}: {report:?}");
            place.run(&["diff", "-r", "--no-dereference", "tree", "to"]);
            // One directory of it.
            fs::remove_dir_all(place.at("to")).unwrap();
            let report = place.copy(&format!("{address}//d"), remote.clone(), options);
            assert_eq!(report.undone(), 0, "{address}: {report:?}");
            place.run(&["diff", "-r", "tree/d", "to"]);
        }
    }
    let report = place.copy("s3://bucket/plain", settings, CopyOptions::default());
    assert_eq!(report.undone(), 0, "{report:?}");
    assert!(fs::read(place.at("to/plain")).unwrap() == noise(71, 300_000));
}

#[test]
fn an_object_that_changes_meanwhile_is_a_failure_and_leaves_what_was_there() {
    for (len, is_there) in [(3000, false), (9_000_001, false), (9_000_001, true)] {
        let place = Place::new();
        fs::create_dir(place.at("to")).unwrap();
        if is_there {
            fs::write(place.at("to/x"), "the old bytes").unwrap();
        }
        let first = Page::new(noise(72, len));
        let then = Page::new(noise(73, len)).etag(Some("\"second\""));
        let is_over = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_over);
        // The opening, and of a long object the first piece, are of the first state.
        let left = if len > 10_000 { 2 } else { 1 };
        let server = WebServer::start(move |request, number| {
            if number >= left || asked.load(SeqCst) {
                asked.store(true, SeqCst);
                return then.reply(request);
            }
            first.reply(request)
        });
        let options = CopyOptions { overwrite: Overwrite::Always, ..CopyOptions::default() };
        let report = place.copy(&server.url("/x"), quick(), options.clone());
        assert_eq!((report.failures.len(), report.undone()), (1, 1), "{report:?}");
        let error = &report.failures[0].error;
        assert!(matches!(error, CoreError::SourceChanged { .. }), "{error:?}");
        assert_eq!(place.names(), if is_there { vec!["x"] } else { vec![] });
        assert!(!is_there || fs::read(place.at("to/x")).unwrap() == b"the old bytes");
        // Run again, it is the new one.
        let report = place.copy(&server.url("/x"), quick(), options);
        assert_eq!(report.undone(), 0, "{report:?}");
        assert!(fs::read(place.at("to/x")).unwrap() == noise(73, len));
    }
}

#[test]
fn an_object_that_is_cut_off_is_fetched_on_or_is_a_failure_and_never_a_short_file() {
    let bytes = noise(74, 9_000_001);
    for is_always in [false, true] {
        for end in [End::Closed(1000), End::Reset(1000)] {
            let place = Place::new();
            let page = Page::new(bytes.clone());
            let server = WebServer::start(move |request, number| {
                let reply = page.reply(request);
                // The opening is answered.
                let is_cut = number > 0 && (is_always || number < 3);
                if is_cut { reply.end(end) } else { reply }
            });
            let report = place.copy(&server.url("/x"), quick(), CopyOptions::default());
            if is_always {
                assert_eq!((report.failures.len(), report.undone()), (1, 1), "{end:?}: {report:?}");
                assert!(place.names().is_empty(), "{end:?}: {:?}", place.names());
            } else {
                assert_eq!(report.undone(), 0, "{end:?}: {report:?}");
                assert!(fs::read(place.at("to/x")).unwrap() == bytes, "{end:?}");
            }
        }
    }
}

/// A server that refuses in the middle.
#[test]
fn members_of_an_archive_that_the_server_no_longer_gives_are_failures() {
    let place = Place::new();
    let page = Page::new(place.tar(120));
    let is_over = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_over);
    let server = WebServer::start(move |request, _| match asked.load(SeqCst) {
        false => page.reply(request),
        true => Reply::status(403),
    });
    let contents = contents::OpenOptions { remote: quick(), ..contents::OpenOptions::default() };
    let open = OpenGiven { contents, ..OpenGiven::default() };
    let given = open.open(Path::new(&server.url("/x.tar//")), &mut |_| true).unwrap();
    is_over.store(true, SeqCst);
    let (destinations, options) = (vec![place.at("to")], file_by_file());
    let report =
        CopyGiven { sources: vec![given], destinations, options, read_back: false }.run(&mut ()).unwrap();
    // Both ends of the archive were read when it was opened.
    assert!(report.failures.len() >= 20, "{report:?}");
    let failed = report.failures.iter().filter(|failure| failure.key.starts_with(b"d/")).count();
    assert_eq!(place.whole_files() + failed, 120, "{report:?}");
}

/// The mark of the end is missing, and with it how many members is not known.
#[test]
fn an_archive_that_was_cut_off_is_a_failure_and_its_mirror_deletes_nothing() {
    let place = Place::new();
    let mut tar = place.tar(20);
    let last = tar.iter().rposition(|byte| *byte != 0).unwrap();
    tar.truncate((last + 1).next_multiple_of(512));
    let server = serve(Page::new(tar));
    for options in [
        CopyOptions::default(),
        file_by_file(),
        CopyOptions { mirror: true, overwrite: Overwrite::Different, ..CopyOptions::default() },
    ] {
        let _ = fs::remove_dir_all(place.at("to"));
        fs::create_dir(place.at("to")).unwrap();
        fs::write(place.at("to/precious"), "x").unwrap();
        let report = place.copy(&server.url("/x.tar//"), quick(), options.clone());
        assert!(report.undone() > 0, "{options:?}: {report:?}");
        assert!(place.at("to/precious").exists() && place.at("to/a").exists(), "{options:?}");
        assert_eq!(place.whole_files(), 20, "{options:?}");
    }
}
