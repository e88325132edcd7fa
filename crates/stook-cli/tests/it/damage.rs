//! Damage × command × exit code: no command ends with 0 that knows of damage, and none gives
//! something else than what is in the pack without a word.
//!
//! No cell is filled in by hand. The behaviour of a command on a damaged pack is compared with that
//! on the same intact pack, and with what the library knows when it opens it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use stook::pack::format::footer::{FOOTER_LEN, Footer, FooterKind};
use stook::pack::{Attributes, FileKind, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use tempfile::TempDir;

use super::packs::key;
use super::stook;

/// Chunks of bodies are as short as they may be.
const CHUNK: usize = 4096;
/// A command that has not ended by then hangs.
const HANGS: Duration = Duration::from_secs(60);

/// What is where in the files of the pack that is hit.
struct Fixture {
    dir: TempDir,
    /// Sealed, with a deletion vector.
    sealed: PathBuf,
    /// Active, the beginning of it in a checkpoint.
    active: PathBuf,
    /// Frame, body and length of the body of `a/one`.
    frame: u64,
    body: u64,
    /// The same of `active/first`, which the manifest commits.
    active_body: u64,
    footer: Footer,
}

fn body(seed: u8, len: usize) -> Vec<u8> {
    (0..len as u32)
        .flat_map(|n| (n.wrapping_mul(2_654_435_761) ^ u32::from(seed)).to_le_bytes())
        .take(len)
        .collect()
}

fn options() -> WriterOptions {
    WriterOptions { chunk_log2: 12, checkpoint_len: 16 << 10, ..WriterOptions::default() }
}

/// Files as `stook pack` makes them: a sealed segment with replaced and deleted records, and an
/// active one.
fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let pack = dir.path().join("p.stook");
    let tree = dir.path().join("tree");
    let file = Attributes::of_file(FileKind::File, 0o640, 1_700_000_000_000_000_000, None);
    let storage = |make: bool| {
        let open = if make { LocalStorage::create } else { LocalStorage::open };
        std::sync::Arc::new(open(&pack, LocalStorageOptions::default()).unwrap())
    };
    let mut writer = PackWriter::create(storage(true), options()).unwrap();
    let sealed =
        [("a/one", 1, 3 * CHUNK), ("a/old", 2, 600), ("b/gone", 3, 500), ("b/two", 4, 2 * CHUNK + 7)];
    for (name, seed, len) in sealed {
        writer.put("", &key(name), &file, &body(seed, len)).unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let mut writer = PackWriter::open(storage(false), options()).unwrap();
    assert!(writer.delete(&key("b/gone")).unwrap());
    writer.put("", &key("active/first"), &file, &body(5, 2 * CHUNK)).unwrap();
    writer.put("", &key("a/old"), &file, &body(6, 700)).unwrap();
    writer.publish().unwrap();
    for (name, seed, len) in
        [("active/second", 7, 4 * CHUNK), ("active/third", 8, 4 * CHUNK), ("active/last", 9, 40)]
    {
        writer.put("", &key(name), &file, &body(seed, len)).unwrap();
    }
    writer.finish(false).unwrap();
    let opened = Pack::open_path(&pack, OpenOptions::default()).unwrap();
    for entry in opened.keys(&[]).unwrap() {
        let key = entry.unwrap().key;
        let record = opened.get(&key).unwrap().unwrap();
        let path = tree.join(std::ffi::OsStr::from_bytes(key.as_bytes().unwrap()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, record.body).unwrap();
    }
    let segment = |id: u64| pack.join(format!("segment-{id:016x}"));
    let at = |name: &str, seed, len| {
        let head = opened.get(&key(name)).unwrap().unwrap().head;
        let bytes = fs::read(segment(head.segment)).unwrap();
        let wanted = body(seed, len);
        let found = bytes.windows(len).position(|part| part == wanted).unwrap();
        (head.offset, found as u64)
    };
    let (frame, body_at) = at("a/one", 1, 3 * CHUNK);
    let (_, active_body) = at("active/first", 5, 2 * CHUNK);
    let bytes = fs::read(segment(1)).unwrap();
    let footer = &bytes[bytes.len() - FOOTER_LEN..];
    let footer = Footer::decode(footer, FooterKind::Sealed, bytes.len() as u64).unwrap();
    let (sealed, active) = (segment(1), segment(2));
    Fixture { dir, sealed, active, frame, body: body_at, active_body, footer }
}

/// Something that happens to a pack.
type Damage = (&'static str, Box<dyn Fn(&Fixture, &Path) + Send + Sync>);

fn flip(path: &Path, at: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at as usize] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// Exchanges the first two pieces of this length, at this offset in the body of `a/one`.
fn exchange(fixture: &Fixture, pack: &Path, len: usize, from: usize) {
    let path = of(&fixture.sealed, pack);
    let mut bytes = fs::read(&path).unwrap();
    let at = fixture.body as usize + from;
    let (one, two) = bytes[at..at + 2 * len].split_at_mut(len);
    one.swap_with_slice(two);
    fs::write(path, bytes).unwrap();
}

fn zeros(path: &Path) {
    let len = fs::metadata(path).unwrap().len();
    fs::write(path, vec![0; len as usize]).unwrap();
}

/// The files of a pack whose names begin so, in order.
fn named(pack: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(pack).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
    all.sort();
    assert!(!all.is_empty(), "{prefix}");
    all
}

/// The same file in the pack that is hit.
fn of(path: &Path, pack: &Path) -> PathBuf {
    pack.join(path.file_name().unwrap())
}

fn damage(name: &'static str, hit: impl Fn(&Fixture, &Path) + Send + Sync + 'static) -> Damage {
    (name, Box::new(hit))
}
/// One bit of the sealed segment.
fn bit(name: &'static str, at: impl Fn(&Fixture) -> u64 + Send + Sync + 'static) -> Damage {
    damage(name, move |fixture, pack| flip(&of(&fixture.sealed, pack), at(fixture)))
}
fn in_first(name: &'static str, prefix: &'static str, last: bool, hit: fn(&Path)) -> Damage {
    damage(name, move |_, pack| {
        let all = named(pack, prefix);
        hit(if last { &all[all.len() - 1] } else { &all[0] });
    })
}
fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

fn middle(path: &Path) {
    flip(path, fs::metadata(path).unwrap().len() / 2);
}

fn cut(path: &Path, len: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn pipe(path: &Path) {
    fs::remove_file(path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
}

/// What happens to segments.
fn of_segments() -> Vec<Damage> {
    vec![
        damage("nothing", |_, _| {}),
        in_first("the sealed segment is missing", "segment", false, remove),
        in_first("the active segment is missing", "segment", true, remove),
        in_first("a segment is a directory", "segment", false, |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        damage("the sealed segment is cut in its frames", move |f, pack| {
            cut(&of(&f.sealed, pack), f.body + 5000)
        }),
        in_first("the sealed segment is cut at its end", "segment", false, |path| {
            let len = fs::metadata(path).unwrap().len();
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len - 1).unwrap();
        }),
        damage("the active segment is cut", move |f, pack| cut(&of(&f.active, pack), f.active_body + 100)),
        bit("a bit of the segment header", |_| 40),
        bit("a bit of a frame header", |f| f.frame + 20),
        bit("a bit of a used flag", |f| f.frame + 4),
        bit("a bit of a body", |f| f.body + 5000),
        bit("a bit of a chunk sum", |f| f.body + 3 * CHUNK as u64 + 1),
        bit("a bit of an index page", |f| f.footer.index.start() + 30),
        bit("a bit of the top", |f| f.footer.top.start() + 5),
        bit("a bit of the footer", |f| f.footer.top.end().next_multiple_of(8) + 90),
        damage("a bit of an active body", |f, pack| flip(&of(&f.active, pack), f.active_body + 5000)),
        damage("two chunks of a body are exchanged", |f, pack| exchange(f, pack, CHUNK, 0)),
        damage("two chunks of a body are exchanged with their sums", |f, pack| {
            exchange(f, pack, CHUNK, 0);
            exchange(f, pack, 4, 3 * CHUNK);
        }),
        in_first("a segment is a pipe", "segment", false, pipe),
        in_first("a segment is a link", "segment", true, |path| {
            let elsewhere = path.with_file_name("../elsewhere");
            fs::rename(path, &elsewhere).unwrap();
            std::os::unix::fs::symlink(elsewhere, path).unwrap();
        }),
    ]
}

/// What happens to the other files.
fn of_other_files() -> Vec<Damage> {
    vec![
        in_first("a bit of the deletion vector", "deletes", true, middle),
        in_first("the deletion vector is missing", "deletes", true, remove),
        in_first("a bit of the newest manifest", "manifest", true, middle),
        in_first("a bit of the older manifest", "manifest", false, middle),
        in_first("the newest manifest is missing", "manifest", true, remove),
        damage("all manifests are missing", move |_, pack| {
            named(pack, "manifest").iter().for_each(|path| fs::remove_file(path).unwrap());
        }),
        in_first("a bit of the checkpoint", "checkpoint", false, middle),
        in_first("the newest manifest is zeros", "manifest", true, zeros),
        in_first("the deletion vector is zeros", "deletes", true, zeros),
        in_first("the deletion vector is a pipe", "deletes", true, pipe),
        damage("strays with the highest numbers", |_, pack| {
            for name in [
                "segment-ffffffffffffffff",
                "manifest-ffffffffffffffff",
                "deletes-ffffffffffffffff-ffffffffffffffff",
            ] {
                fs::write(pack.join(name), "").unwrap();
            }
        }),
    ]
}

/// What a command is compared by.
enum Gives {
    /// Its output, except for the times in it.
    Stdout,
    /// A file or a tree that it makes.
    Output,
    /// Nothing: only what the pack is afterwards.
    Pack,
    /// It reports the state of the pack, so that 0 means that nothing is known to be wrong.
    Verdict,
}

use Gives::{Output, Pack as Pack_, Stdout, Verdict};

/// Commands, `P` the pack, `O` a place for what they make, `T` the tree that is in the pack.
const COMMANDS: &[(Gives, &str)] = &[
    (Stdout, "ls P"),
    (Stdout, "ls P -l"),
    (Stdout, "ls P --json"),
    (Stdout, "ls P --order disk"),
    (Verdict, "info P"),
    (Verdict, "info P --json"),
    (Stdout, "get P a/one"),
    (Stdout, "get P b/two"),
    (Stdout, "get P a/old"),
    (Stdout, "get P active/second"),
    (Output, "get P a/one a/old b/two active/first active/last --output O"),
    (Output, "get P a/one b/two --output O --json"),
    (Stdout, "cat P//a/one"),
    (Stdout, "cat P//b/two --range 4000..5000"),
    (Stdout, "load P --json"),
    (Stdout, "load P --in-memory --json"),
    (Stdout, "load P --order key --json"),
    (Stdout, "load P --threads 2 --json"),
    (Output, "unpack P O"),
    (Output, "unpack P O --json"),
    (Output, "unpack P --tar O"),
    (Stdout, "unpack P --tar -"),
    (Verdict, "check P"),
    (Verdict, "check P --json"),
    (Output, "check P --repair O"),
    (Verdict, "compact P --dry-run"),
    (Pack_, "compact P"),
    (Pack_, "compact P --json"),
    (Pack_, "rm P b/two"),
    (Pack_, "rm P b/two --json"),
    (Pack_, "put P new T/a/one"),
    (Pack_, "put P new T/a/one --json"),
    (Pack_, "pack T P"),
    (Pack_, "pack T P --json"),
    (Pack_, "pack T P --delete"),
];

/// What came of it.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

fn run(command: &str, dir: &Path) -> Ended {
    let place = |word: &str| {
        let names = [("P", "p.stook"), ("O", "out"), ("T", "tree")];
        let found = names.iter().find_map(|(short, name)| {
            let rest = word.strip_prefix(short)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{name}{rest}"))
        });
        found.unwrap_or_else(|| word.to_owned())
    };
    let mut made = stook(command.split(' ').map(place));
    let files = ["stdout", "stderr"].map(|name| fs::File::create(dir.join(name)).unwrap());
    let [stdout, stderr] = files;
    let child =
        made.current_dir(dir).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr)).spawn().unwrap();
    let code = wait(child);
    let read = |name: &str| fs::read(dir.join(name)).unwrap();
    Ended { code, stdout: read("stdout"), stderr: read("stderr") }
}

/// Its exit code; `None` when it had to be killed.
fn wait(mut child: Child) -> Option<i32> {
    let started = Instant::now();
    while started.elapsed() < HANGS {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let into = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &into);
        } else {
            // `fs::copy` keeps no times, and what is unchanged is known by them.
            fs::copy(&path, &into).unwrap();
        }
    }
}

/// All files below a path, by name; of packs their records.
fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    if path.is_file() {
        all.insert(PathBuf::new(), fs::read(path).unwrap());
    } else if fs::read_dir(path).is_ok_and(|mut files| files.any(|file| is_of_pack(&file.unwrap().path()))) {
        for (key, body) in records(path) {
            let name = PathBuf::from(key.to_string());
            all.insert(name, body.unwrap_or_else(|error| error.into_bytes()));
        }
    } else if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            for (below, bytes) in contents(&entry.path()) {
                all.insert(Path::new(&entry.file_name()).join(below), bytes);
            }
        }
    }
    all
}

fn is_of_pack(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with("segment-")
}

type Records = BTreeMap<Key, Result<Vec<u8>, String>>;

/// What a pack gives for each key: what is not there is left out.
fn records(path: &Path) -> Records {
    const KEYS: [&str; 9] = [
        "a/one",
        "a/old",
        "b/gone",
        "b/two",
        "active/first",
        "active/second",
        "active/third",
        "active/last",
        "new",
    ];
    let pack = match Pack::open_path(path, OpenOptions::default()) {
        Ok(pack) => pack,
        Err(error) => return KEYS.iter().map(|name| (key(name), Err(error.to_string()))).collect(),
    };
    // A message that the pack is damaged implies that more may be missing.
    let lost = pack.damages().first().map(ToString::to_string);
    let mut all = Records::new();
    for name in KEYS {
        let got = match pack.get(&key(name)) {
            Ok(Some(record)) => Some(Ok(record.body.to_vec())),
            Ok(None) => lost.clone().map(Err),
            Err(error) => Some(Err(error.to_string())),
        };
        all.extend(got.map(|got| (key(name), got)));
    }
    all
}

/// Its output, without the parts that differ from run to run.
fn printed(stdout: &[u8]) -> String {
    let text = String::from_utf8_lossy(stdout);
    let steady = |line: &&str| {
        !["seconds", "bytes_per_s", "device_share", "cached_share"].iter().any(|name| line.contains(name))
    };
    text.lines().filter(steady).collect::<Vec<_>>().join("\n")
}

/// What a command made of the whole pack.
struct Right {
    printed: String,
    output: BTreeMap<PathBuf, Vec<u8>>,
    records: Records,
}

/// Everything that is wrong with what a command did to a pack that was hit.
fn judge(gives: &Gives, ended: &Ended, dir: &Path, known: bool, right: &Right) -> Vec<String> {
    let mut wrong = Vec::new();
    let reported = String::from_utf8_lossy(&ended.stderr);
    match ended.code {
        Some(0) => {
            if known {
                wrong.push("0, and damage is known when the pack is opened".into());
            }
            match gives {
                Stdout if printed(&ended.stdout) != right.printed => {
                    wrong.push("0, and it prints something else".into())
                }
                Output if contents(&dir.join("out")) != right.output => {
                    wrong.push("0, and it made something else".into())
                }
                _ => {}
            }
        }
        Some(1) => {
            if reported.trim().is_empty() && !matches!(gives, Verdict) && ended.stdout.is_empty() {
                wrong.push("1 without a word".into());
            }
        }
        other => wrong.push(format!("{other:?}")),
    }
    if known && ended.stdout.starts_with(b"{") && !tells_damage(&ended.stdout) {
        wrong.push(format!("{:?}, and its JSON has no damages", ended.code));
    }
    for text in [&reported, &String::from_utf8_lossy(&ended.stdout)] {
        if text.contains("panicked") {
            wrong.push("a panic".into());
        }
    }
    // Whatever its exit code: reads of the pack afterwards are correct, or an error.
    if let Pack_ = gives
        && ended.code == Some(0)
    {
        let after = records(&dir.join("p.stook"));
        for (key, body) in &right.records {
            match after.get(key) {
                Some(Ok(found)) if Ok(found) != body.as_ref() => {
                    wrong.push(format!("{key} is another afterwards"))
                }
                None => wrong.push(format!("{key} is gone without a word afterwards")),
                _ => {}
            }
        }
        for key in after.iter().filter(|(_, got)| got.is_ok()).map(|(key, _)| key) {
            if !right.records.contains_key(key) {
                wrong.push(format!("{key} is there again"));
            }
        }
    }
    wrong
}

/// Whether a document, or the last of JSON lines, lists damage.
fn tells_damage(stdout: &[u8]) -> bool {
    let documents = serde_json::Deserializer::from_slice(stdout).into_iter::<serde_json::Value>();
    let last = documents.map(Result::unwrap).last().unwrap();
    last["damages"].as_array().is_some_and(|damages| !damages.is_empty())
}

/// A pack for one command: hit, with the tree beside it.
fn prepared(fixture: &Fixture, hit: &dyn Fn(&Fixture, &Path)) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture.dir.path().join("p.stook"), &dir.path().join("p.stook"));
    std::os::unix::fs::symlink(fixture.dir.path().join("tree"), dir.path().join("tree")).unwrap();
    hit(fixture, &dir.path().join("p.stook"));
    dir
}

#[test]
fn no_command_exits_0_with_damage_that_it_knows_of_or_gives_something_else_in_silence() {
    let fixture = fixture();
    let damages: Vec<Damage> = of_segments().into_iter().chain(of_other_files()).collect();
    let next = AtomicUsize::new(0);
    let rights: Vec<Right> = COMMANDS
        .iter()
        .map(|(gives, command)| {
            let dir = prepared(&fixture, &|_, _| {});
            let ended = run(command, dir.path());
            assert_eq!(ended.code, Some(0), "{command}: {}", String::from_utf8_lossy(&ended.stderr));
            let output = if let Output = gives { contents(&dir.path().join("out")) } else { BTreeMap::new() };
            Right { printed: printed(&ended.stdout), output, records: records(&dir.path().join("p.stook")) }
        })
        .collect();
    let faults = Mutex::new(Vec::new());
    let work = || {
        while let Some((name, hit)) = damages.get(next.fetch_add(1, Ordering::Relaxed)) {
            let probe = prepared(&fixture, hit);
            let opened = Pack::open_path(probe.path().join("p.stook"), OpenOptions::default());
            let known = opened.map_or(true, |pack| !pack.damages().is_empty());
            assert!(!(known && *name == "nothing"));
            for ((gives, command), right) in COMMANDS.iter().zip(&rights) {
                let dir = prepared(&fixture, hit);
                let ended = run(command, dir.path());
                for wrong in judge(gives, &ended, dir.path(), known, right) {
                    faults.lock().unwrap().push(format!("{name}: `stook {command}` ends with {wrong}"));
                }
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
