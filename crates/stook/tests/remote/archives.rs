//! Archives that are objects: what is in them is what is in the same file here, in few requests.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use stook::Error as CoreError;
use stook::archive::{Archive, Error, Format, MemberKind, OpenOptions, Origin};
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::ops::contents::{self, Found, GetOptions, Listed, LoadEvents, LoadOptions, Piece};
use stook::ops::unpack::{self, PathFilter, Unpack};
use stook::pack::Key;
use stook::source::remote::{RemoteOptions, RemoteSource};
use stook::source::{Source as _, read_range};
use stook::sparse::{DiskCache, DiskCacheOptions};
use stook::tree::{GatherOptions, Gathered, NodeId, Overwrite, Tree as _};
use stook_testing::conformance::noise;
use stook_testing::s3::S3Server;
use stook_testing::web::{Page, Reply, WebServer};

use super::quick;

/// Runs a program in a directory, and fails with its message.
fn run(program: &str, args: &[&str], directory: &Path) {
    let output = Command::new(program).args(args).current_dir(directory).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
}

/// A zip of 10,000 members of 600 bytes.
fn many(directory: &Path) -> Vec<u8> {
    let script = "
import zipfile
with zipfile.ZipFile('many.zip', 'w') as z:
    for i in range(10000): z.writestr('d/%05d.bin' % i, (b'%05d ' % i) * 100)
";
    run("python3", &["-c", script], directory);
    fs::read(directory.join("many.zip")).unwrap()
}

/// A tree as archives of every format, all longer than what is held of their ends.
fn tree(directory: &Path) -> [&'static str; 4] {
    let root = directory.join("t");
    fs::create_dir_all(root.join("d/empty")).unwrap();
    fs::write(root.join("a"), b"alpha").unwrap();
    fs::write(root.join("d/nothing"), b"").unwrap();
    fs::write(root.join("d/words"), "many words ".repeat(100_000)).unwrap();
    for number in 0..40 {
        fs::write(root.join(format!("d/noise-{number:02}")), noise(number, 100_000)).unwrap();
    }
    fs::hard_link(root.join("a"), root.join("further")).unwrap();
    std::os::unix::fs::symlink("d/words", root.join("link")).unwrap();
    run("tar", &["--format=pax", "--sort=name", "-cf", "x.tar", "-C", "t", "."], directory);
    run("tar", &["--sort=name", "-czf", "x.tar.gz", "-C", "t", "."], directory);
    run("zip", &["-qry", "../x.zip", "."], &root);
    run("zip", &["-qry0", "../stored.zip", "."], &root);
    ["x.tar", "x.tar.gz", "x.zip", "stored.zip"]
}

fn serve(bytes: Vec<u8>) -> WebServer {
    let page = Page::new(bytes);
    WebServer::start(move |request, _| page.reply(request))
}

fn open(address: &str) -> Result<Archive, Error> {
    let source = RemoteSource::open(address, &quick())?;
    Archive::from_source(Arc::new(source), OpenOptions::default())
}

fn local(path: &Path) -> Archive {
    Archive::open(path, OpenOptions { sidecar: false, ..OpenOptions::default() }).unwrap()
}

/// Members by key: what they are, and their bytes.
type All = BTreeMap<Vec<u8>, (MemberKind, Vec<u8>)>;

/// What members are, and their bytes, of those with these numbers.
fn read(archive: &Archive, numbers: Vec<u64>) -> Result<All, Error> {
    let mut reading = archive.read(numbers)?;
    let mut all = BTreeMap::new();
    while let Some(member) = reading.next()? {
        let mut bytes = Vec::new();
        while let Some(chunk) = reading.chunk()? {
            bytes.extend_from_slice(chunk);
        }
        assert_eq!(bytes.len() as u64, member.node.len);
        all.insert(member.key.to_vec(), (member.kind(), bytes));
    }
    Ok(all)
}

fn everything(archive: &Archive) -> Result<All, Error> {
    // As they lie: then neighbours are wanted one after another.
    let mut members: Vec<_> = archive.members(b"").collect();
    members.sort_by_key(|member| member.data_at);
    read(archive, members.iter().map(|member| member.number).collect())
}

/// Bytes of all answers.
fn answered(server: &WebServer) -> usize {
    server.requests().iter().filter_map(|request| request.range()).map(|(from, to)| to - from).sum()
}

#[test]
fn a_zip_of_ten_thousand_members_is_listed_in_three_requests() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(many(directory.path()));
    let archive = open(&server.url("/many.zip")).unwrap();
    assert_eq!(server.requests().len(), 3, "its first byte, and both ends");
    assert_eq!((archive.len(), archive.format()), (10_000, Format::Zip));
    assert_eq!((archive.origin(), archive.index_path()), (&Origin::Directory, None));
    let here = local(&directory.path().join("many.zip"));
    assert!(archive.members(b"").eq(here.members(b"")));
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_member_is_one_request_and_so_are_its_neighbours() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(many(directory.path()));
    let archive = open(&server.url("/many.zip")).unwrap();
    let requests = |numbers: Vec<u64>| {
        let before = server.requests().len();
        let count = numbers.len();
        let found = read(&archive, numbers).unwrap();
        assert_eq!(found.len(), count);
        for (key, (_, bytes)) in found {
            let number = std::str::from_utf8(&key[2..7]).unwrap();
            assert_eq!(bytes, format!("{number} ").repeat(100).into_bytes());
        }
        server.requests().len() - before
    };
    assert_eq!(requests(vec![5]), 1);
    assert_eq!(requests((100..400).collect()), 1);
    assert_eq!(requests(vec![10, 12, 14, 16]), 1, "what lies between is read over");
    assert_eq!(requests(vec![2000, 10]), 2, "nothing is put into another order");
    assert_eq!(requests(vec![9_999]), 0, "its end is here already");
    assert_eq!(requests((0..10_000).collect()), 1, "all that is not at its end");
}

#[test]
fn a_stored_member_of_an_object_is_a_source_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    tree(directory.path());
    for name in ["x.tar", "stored.zip"] {
        let server = serve(fs::read(directory.path().join(name)).unwrap());
        let archive = open(&server.url("/x")).unwrap();
        let member = archive.find(b"d/noise-01").unwrap();
        let before = server.requests().len();
        let source = archive.source(&member).unwrap().unwrap();
        let range = ByteRange::new(1000, 99_000).unwrap();
        let bytes = read_range(&Backend::Auto, &source, range, Access::Cached).unwrap();
        assert!(bytes == noise(1, 100_000)[1000..99_000], "{name}");
        assert!(server.requests().len() - before <= 2, "{name}: a header and the bytes, at most");
        assert!(source.reads_by_request() && source.checks_reads());
    }
}

#[test]
fn the_tree_of_an_object_is_gathered_in_few_requests() {
    let directory = tempfile::tempdir().unwrap();
    for name in tree(directory.path()) {
        let server = serve(fs::read(directory.path().join(name)).unwrap());
        let tree = open(&server.url("/x")).unwrap().tree();
        let before = server.requests().len();
        let id = |number: u64| tree.find(format!("d/noise-{number:02}").as_bytes()).unwrap().unwrap();
        let ids: Vec<NodeId> = (0..40).rev().map(id).collect();
        assert_eq!(server.requests().len(), before, "{name}: names are here already");
        let mut arrived = 0;
        let mut take = |gathered: Gathered| -> ControlFlow<()> {
            arrived += 1;
            assert!(gathered.result.unwrap().bytes == noise(39 - gathered.index as u64, 100_000), "{name}");
            ControlFlow::Continue(())
        };
        tree.gather(&ids, &Backend::Auto, &GatherOptions::default(), &mut take).unwrap();
        assert_eq!(arrived, 40);
        let requests = server.requests().len() - before;
        // A compressed tar is gone through from its front, by requests that grow.
        let most = if tree.archive().is_sequential() { 5 } else { 2 };
        assert!(requests <= most, "{name}: {requests} requests");
    }
}

#[test]
fn archives_of_every_format_are_what_they_are_here() {
    let directory = tempfile::tempdir().unwrap();
    for name in tree(directory.path()) {
        let path = directory.path().join(name);
        let server = serve(fs::read(&path).unwrap());
        let (here, there) = (local(&path), open(&server.url("/x")).unwrap());
        assert_eq!(here.format(), there.format(), "{name}");
        assert!(here.members(b"").eq(there.members(b"")), "{name}");
        assert_eq!(everything(&here).unwrap(), everything(&there).unwrap(), "{name}");
        // The first byte, both ends, a pass for the index if there is one, and the bodies.
        let requests = server.requests().len();
        assert!(requests <= 20, "{name}: {requests} requests");
    }
}

#[test]
fn members_of_a_tar_that_are_long_are_jumped_over() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..4_u64 {
        fs::write(directory.path().join(format!("{number}")), noise(number, 12 << 20)).unwrap();
    }
    run("tar", &["-cf", "long.tar", "0", "1", "2", "3"], directory.path());
    let server = serve(fs::read(directory.path().join("long.tar")).unwrap());
    let archive = open(&server.url("/long.tar")).unwrap();
    assert_eq!(archive.len(), 4);
    let (requests, bytes) = (server.requests().len(), answered(&server));
    assert!(requests <= 8 && bytes < 8 << 20, "{requests} requests of {bytes} bytes");
    assert!(matches!(archive.origin(), Origin::Made { useless: None, not_kept: Some(_) }));
}

#[test]
fn an_archive_that_changes_is_an_error_and_never_a_mix() {
    let directory = tempfile::tempdir().unwrap();
    let names = tree(directory.path());
    for name in names {
        let first = Page::new(fs::read(directory.path().join(name)).unwrap());
        let then = first.clone().etag(Some("\"second\""));
        for after in 1..8 {
            let (first, then) = (first.clone(), then.clone());
            let server =
                WebServer::start(
                    move |request, nth| {
                        if nth < after { first.reply(request) } else { then.reply(request) }
                    },
                );
            let read = open(&server.url("/x")).and_then(|archive| everything(&archive));
            if server.requests().len() <= after {
                assert!(read.is_ok(), "{name}: all of it was read before the change");
                continue;
            }
            let error = read.unwrap_err();
            let reported = error.to_string();
            assert!(reported.contains("ETag \"second\""), "{name}, after {after}: {error:?}");
            let is_change = matches!(error, Error::Core(CoreError::SourceChanged { .. }));
            assert!(is_change || name == "x.tar.gz", "{name}, after {after}: {error:?}");
        }
    }
}

#[test]
fn an_archive_whose_server_knows_no_ranges_is_read_as_a_whole_where_that_is_wanted() {
    let directory = tempfile::tempdir().unwrap();
    for name in tree(directory.path()) {
        let path = directory.path().join(name);
        let page = Page::new(fs::read(&path).unwrap());
        let server = WebServer::start(move |_, _| page.whole());
        let address = server.url("/x");
        let open = |whole_file| {
            let remote = RemoteOptions { whole_file, ..quick() };
            let options = contents::OpenOptions { remote, ..contents::OpenOptions::default() };
            contents::open(&address, options, &mut |_| true)
        };
        let error = open(false).unwrap_err().to_string();
        assert!(error.contains("200 instead of 206"), "{error}");
        let before = server.requests().len();
        let contents::Opened::Archive(archive) = open(true).unwrap() else { panic!("{name} is no pack") };
        assert_eq!(everything(&archive).unwrap(), everything(&local(&path)).unwrap(), "{name}");
        assert!(server.requests().len() - before <= 2, "{name}: what it is, and all of it");
    }
}

#[test]
fn an_object_that_was_cut_off_is_refused_as_the_file_is() {
    let directory = tempfile::tempdir().unwrap();
    for name in tree(directory.path()) {
        let whole = fs::read(directory.path().join(name)).unwrap();
        for len in [0, 1, 511, 512, 700, whole.len() / 2, whole.len() - 30] {
            let path = directory.path().join("cut");
            fs::write(&path, &whole[..len]).unwrap();
            let here = Archive::open(&path, OpenOptions { sidecar: false, ..OpenOptions::default() });
            let server = serve(whole[..len].to_vec());
            let there = open(&server.url("/cut"));
            let reported = |opened: Result<Archive, Error>, place: &str| {
                let text = opened.map_or_else(|error| error.to_string(), |all| format!("{}", all.len()));
                let text = text.replace(place, "cut");
                // Where a decompressor notices depends on how much it is given at once.
                let is_exact = name != "x.tar.gz";
                text.chars().filter(|c| is_exact || !c.is_numeric()).collect::<String>()
            };
            let (here, there) =
                (reported(here, path.to_str().unwrap()), reported(there, &server.url("/cut")));
            assert_eq!(here, there, "{name}, {len} bytes");
        }
    }
}

/// What is in a pack or an archive, by the calls of the surfaces.
fn listed(opened: &contents::Opened) -> Vec<(Key, Vec<u8>)> {
    let options = contents::ListOptions::default();
    let mut keys = Vec::new();
    for batch in opened.contents().list(&options).unwrap() {
        for listed in batch.unwrap() {
            let Listed::Entry(entry) = listed else { panic!("nothing is hidden") };
            keys.push(entry.key);
        }
    }
    let options = GetOptions { any_order: true, ..GetOptions::default() };
    let mut getting = opened.contents().get(&keys, &options).unwrap();
    let mut all = Vec::new();
    while let Some((key, found)) = getting.next().unwrap() {
        assert!(matches!(found, Found::Body(_)), "{key}: {found:?}");
        let mut bytes = Vec::new();
        loop {
            match getting.piece().unwrap() {
                Piece::Bytes(piece) => bytes.extend_from_slice(piece),
                Piece::Hole(len) => bytes.resize(bytes.len() + len as usize, 0),
                Piece::End => break,
                Piece::Failed(failure) => panic!("{key}: {failure}"),
            }
        }
        all.push((key.clone(), bytes));
    }
    all.sort();
    all
}

fn unpack(opened: &contents::Opened, target: &Path) -> unpack::Result<unpack::Unpacked> {
    let unpack = Unpack {
        target: target.to_path_buf(),
        filter: PathFilter::default(),
        overwrite: Overwrite::Never,
        with_owner: false,
        xattrs: true,
        threads: 1,
        durability: Default::default(),
        force: false,
    };
    unpack.run(opened.into(), &mut |_| true)
}

/// A load in which no member fails alone.
struct Whole;

impl LoadEvents for Whole {
    fn total(&self, _bytes: u64) {}

    fn passed(&self, _bytes: u64) {}

    fn failed(&self, key: &[u8], error: &Error) {
        panic!("{}: {error}", String::from_utf8_lossy(key));
    }
}

#[test]
fn what_goes_through_all_members_ends_where_the_object_changes_or_its_server_refuses() {
    let directory = tempfile::tempdir().unwrap();
    for name in tree(directory.path()) {
        for is_refused in [false, true] {
            let page = Page::new(fs::read(directory.path().join(name)).unwrap());
            let then = page.clone().etag(Some("\"second\""));
            let is_over = Arc::new(AtomicBool::new(false));
            let asked = Arc::clone(&is_over);
            let server = WebServer::start(move |request, _| match asked.load(SeqCst) {
                false => page.reply(request),
                true if is_refused => Reply::status(403),
                true => then.reply(request),
            });
            let options = contents::OpenOptions { remote: quick(), ..contents::OpenOptions::default() };
            let opened = contents::open(server.url("/x"), options, &mut |_| true).unwrap();
            is_over.store(true, SeqCst);
            let is_meant = |error: &Error| match error {
                Error::Core(CoreError::SourceChanged { .. }) => !is_refused,
                Error::Core(CoreError::Remote(_)) => is_refused,
                _ => false,
            };
            let loaded = opened.contents().load(&LoadOptions::default(), &Whole).unwrap_err();
            let is_it = matches!(&loaded, contents::Error::Archive(error) if is_meant(error));
            assert!(is_it, "{name}: {loaded:?}");
            let target = directory.path().join(format!("{name}-{is_refused}"));
            let unpacked = unpack(&opened, &target).unwrap_err();
            let is_it = matches!(&unpacked, unpack::Error::Archive(error) if is_meant(error));
            assert!(is_it, "{name}: {unpacked:?}");
            assert!(!target.join("a").exists(), "{name}");
        }
    }
}

#[test]
fn archives_in_s3_are_listed_got_and_unpacked_as_files_are() {
    let directory = tempfile::tempdir().unwrap();
    let names = tree(directory.path());
    let bucket = directory.path().join("server/bucket");
    fs::create_dir_all(&bucket).unwrap();
    let server = S3Server::start(&directory.path().join("server"), Duration::ZERO);
    for name in names {
        fs::copy(directory.path().join(name), bucket.join(name)).unwrap();
        let remote = RemoteOptions { settings: server.settings(), ..quick() };
        let archive = OpenOptions { sidecar: false, ..OpenOptions::default() };
        let options = contents::OpenOptions { remote, archive, ..contents::OpenOptions::default() };
        let here = contents::open(directory.path().join(name), options.clone(), &mut |_| true).unwrap();
        let there = contents::open(format!("s3://bucket/{name}"), options, &mut |_| true).unwrap();
        let opened = server.requests();
        assert_eq!(listed(&here), listed(&there), "{name}");
        let target = directory.path().join(format!("{name}-out"));
        let done = unpack(&there, &target).unwrap();
        assert!(done.summary.failures.is_empty(), "{name}: {:?}", done.summary.failures);
        run("diff", &["-r", "--no-dereference", "t", target.to_str().unwrap()], directory.path());
        let all = server.take_log();
        assert!(all.iter().all(|request| request.status == 206), "{name}: {all:?}");
        let (opened, all) = (opened, all.len());
        assert!(opened <= 14 && all <= 40, "{name}: {opened} requests for opening, {all} for all");
    }
}

#[test]
fn the_second_opening_finds_in_the_cache_directory_what_the_first_fetched() {
    let directory = tempfile::tempdir().unwrap();
    for name in tree(directory.path()) {
        let path = directory.path().join(name);
        let server = serve(fs::read(&path).unwrap());
        let here = everything(&local(&path)).unwrap();
        for round in 0..2 {
            let cache = directory.path().join(format!("cache-of-{name}"));
            let cache = Some(DiskCache::open(cache, DiskCacheOptions::default()).unwrap());
            let options =
                contents::OpenOptions { remote: quick(), cache, ..contents::OpenOptions::default() };
            let before = server.requests().len();
            let opened = contents::open(server.url("/x"), options, &mut |_| true).unwrap();
            let contents::Opened::Archive(archive) = opened else { panic!("{name} is no pack") };
            assert_eq!(everything(&archive).unwrap(), here, "{name}, round {round}");
            let requests = server.requests().len() - before;
            assert!(round == 0 || requests == 1, "{name}: {requests} requests the second time");
        }
    }
}

#[test]
fn what_is_no_archive_is_reported_without_what_is_secret() {
    let server = serve(noise(3, 5000));
    let address = server.url("/x?signature=secret");
    let options = contents::OpenOptions { remote: quick(), ..contents::OpenOptions::default() };
    let error = contents::open(&address, options, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("is no archive") && !error.contains("secret"), "{error}");
    let error = contents::open("ftp://host/x.tar", contents::OpenOptions::default(), &mut |_| true);
    assert!(error.unwrap_err().to_string().contains("`ftp` is not among"));
}

#[test]
fn a_file_address_means_the_file() {
    let directory = tempfile::tempdir().unwrap();
    tree(directory.path());
    let path = directory.path().join("x.tar");
    let address = format!("file://{}", path.display());
    let opened = contents::open(&address, contents::OpenOptions::default(), &mut |_| true).unwrap();
    let contents::Opened::Archive(archive) = opened else { panic!("it is no pack") };
    assert_eq!(archive.path(), path);
    assert!(archive.index_path().unwrap().exists(), "it is a file, and has an index beside it");
}
