//! Every option of every command, with invalid values.
//!
//! The table of commands is the program's own, so that an option that is added later is tried, too:
//! as a number, unless it is entered in [`TEXTS`].

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::packs::Place;
use super::stook;

/// A command line that runs, for each command that takes options.
const RUNS: [(&str, &str); 36] = [
    ("advise", "advise tree --keep-caches --rounds 1"),
    ("bench", "bench . --file-size 256K --time 5ms --ramp 1ms"),
    ("bench compare", "bench compare results.json results.json"),
    (
        "study all",
        "study all --skip solid-reads --skip bulk-copy --skip ssd-profile --skip sparse-file --size 60K --keep-caches --work . --out out",
    ),
    (
        "study many-small-files",
        "study many-small-files --files 3 --size 100 --runs 1 --keep-caches --work work --out out",
    ),
    (
        "study ssd-profile",
        "study ssd-profile --size 16M --runs 1 --time 2ms --ramp 1ms --p99 1ms --work . --out out",
    ),
    ("study bulk-copy", "study bulk-copy --size 60K --runs 1 --keep-caches --from . --out out"),
    (
        "study solid-reads",
        "study solid-reads --size 64M --archives 1 --time 2ms --runs 1 --keep-caches --work . --out out",
    ),
    ("study sparse-file", "study sparse-file --trace trace.csv --latency 0 --out out"),
    ("pack", "pack tree new.stook"),
    ("unpack", "unpack tree.stook out"),
    ("copy", "copy tree out --force"),
    ("stitch tar", "stitch tar tree --write new.tar"),
    ("stitch zip", "stitch zip tree --write new.zip"),
    ("stitch wds", "stitch wds tree --write shards"),
    ("stitch raw", "stitch raw tree --write new.raw"),
    ("stitch afs", "stitch afs tree --write new.afs"),
    ("stitch safetensors", "stitch safetensors shard.safetensors --write new.safetensors"),
    ("stitch patch", "stitch patch x.tar --write new.tar --with tree"),
    ("stitch routes", "stitch routes set --write out --with routes"),
    ("serve", "serve tree --listen 127.0.0.1:0 --time 5ms"),
    ("verify", "verify tree --against tree"),
    ("ls", "ls p.stook"),
    ("info", "info p.stook"),
    ("get", "get p.stook a/one"),
    ("put", "put p.stook new file"),
    ("rm", "rm p.stook"),
    ("load", "load p.stook"),
    ("compact", "compact p.stook"),
    ("check", "check p.stook"),
    ("cat", "cat file"),
    // Neither mounts anything: these tests are not for root alone.
    ("mount", "mount tree file"),
    ("umount", "umount tree"),
    ("man", "man"),
    ("stook", ""),
    ("help", "help"),
];

/// What an option wants beside it; what begins with `=` is the whole command line.
const BESIDE: [(&str, &str); 25] = [
    ("serve --port", "=serve tree --time 5ms"),
    ("pack --max-delete", "--delete"),
    ("copy --max-delete", "=copy tree out --mirror"),
    ("cat --cache-size", "--cache-dir cache"),
    ("ls --cache-size", "--cache-dir cache"),
    ("get --cache-size", "--cache-dir cache"),
    ("load --cache-size", "--cache-dir cache"),
    ("unpack --cache-size", "--cache-dir cache"),
    ("copy --cache-size", "--cache-dir cache"),
    ("verify --cache-size", "--cache-dir cache"),
    ("info --cache-size", "--cache-dir cache"),
    ("mount --cache-size", "--cache-dir cache"),
    ("mount --merged-cache", "--with tree"),
    ("mount --merged-cache-size", "--with tree --merged-cache cache"),
    ("mount --merge", "--with tree --merged-cache cache"),
    ("bench --arrival", "--rate 1000"),
    ("bench --read-share", "--rw randrw"),
    ("bench --fsync-every", "--rw randwrite"),
    ("bench --compressibility", "--rw randwrite"),
    ("bench --zipf", "--rw randread"),
    ("bench --long-run", "--rw randwrite"),
    ("bench --preset", "=bench ."),
    ("study sparse-file --source", "=study sparse-file --trace trace.csv --out out"),
    ("study sparse-file --rounds", "=study sparse-file --trace trace.csv --out out"),
    ("unpack --tar", "=unpack tree.stook"),
];

/// Options that take any text: a name, a key, a path. What becomes of it is the text's business,
/// but it ends, and with a message where it does not succeed.
const TEXTS: [&str; 40] = [
    "--token",
    "--token-file",
    "--accept",
    "--layout",
    "--prefix",
    "--write",
    "--with",
    "--list",
    "--against",
    "--include",
    "--exclude",
    "--prefix",
    "--from",
    "--to",
    "--glob",
    "--group",
    "--attr",
    "--batch",
    "--from-file",
    "--files-from",
    "--link-dest",
    "--backup",
    "--output",
    "--tar",
    "--cursor",
    "--repair",
    "--cache-dir",
    "--merged-cache",
    "--trace",
    "--source",
    "--python",
    "--work",
    "--dir",
    "--out",
    "--job",
    "--from-fio",
    "--html",
    "--report",
    "--into",
    "--log",
];

/// Valid values that look out of range, and why. `huge` means each large number that the option can
/// parse.
const MEANT: [(&str, &str, &str); 25] = [
    ("advise --sample", "0", "no pack of a sample"),
    ("advise --sample", "huge", "a bound, of which only what is needed is taken"),
    ("serve --port", "0", "any port that is free"),
    ("bench --ramp", "0", "nothing runs before it is measured"),
    ("bench --seed", "0", "any number is a seed"),
    ("bench --seed", "huge", "any number is a seed"),
    ("bench --read-share", "0", "all requests are writes"),
    ("bench --compressibility", "0", "nothing of what is written is zeroes"),
    ("bench --long-run", "0", "no long run, as the help says"),
    ("bench --size", "huge", "the time ends the cell"),
    ("study many-small-files --size", "0", "empty files are files"),
    ("study ssd-profile --ramp", "0", "nothing runs before it is measured"),
    ("study sparse-file --latency", "0", "a server that answers at once"),
    ("pack --max-delete", "0", "nothing may be deleted"),
    ("pack --max-delete", "huge", "anything may be deleted"),
    ("copy --max-delete", "0", "nothing may be deleted"),
    ("copy --max-delete", "huge", "anything may be deleted"),
    ("load --max-records", "huge", "more than there are"),
    ("compact --extra-space", "huge", "more than there is: what is free bounds it"),
    ("compact --memory", "huge", "a bound, of which only what is needed is taken"),
    ("copy --bwlimit", "huge", "no limit that is met"),
    ("cat --cache-size", "0", "a cache that keeps nothing"),
    ("cat --cache-size", "huge", "a bound, of which only what is needed is taken"),
    // What is shown is a directory, and its place a file: nothing is mounted by these tests.
    ("mount --merged-cache-size", "0", "a cache that keeps nothing"),
    ("mount --merged-cache-size", "huge", "a bound, of which only what is needed is taken"),
];

const HUGE: [&str; 5] = ["1e30", "99999999999999999999", "1EiB", "16777215T", "18446744073709551615"];

/// Nothing that is refused or meaningful takes longer than this: a watchdog, not a measurement.
const HANGS_AFTER: Duration = Duration::from_secs(60);

#[test]
fn no_value_of_an_option_is_taken_for_what_it_cannot_mean() {
    let model = model();
    let mut wrong = Vec::new();
    let root = stook_cli::cli::command();
    let mut tried = 0;
    for (name, option, has_equals) in options(&root) {
        // To a text a number is a text like any other.
        let huge: &[&str] = if TEXTS.contains(&option.as_str()) { &[] } else { &HUGE };
        for value in ["0", "-1", ""].iter().chain(huge) {
            tried += 1;
            let run = Run::new(&name, &option, value, has_equals);
            if let Err(why) = run.judged(&model) {
                wrong.push(format!("stook {}: {why}", run.words.join(" ")));
            }
        }
    }
    assert!(tried > 300, "the table of commands was not walked: {tried}");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every option that takes a value, with the command that takes it, and whether the value follows
/// an equals sign.
fn options(root: &clap::Command) -> Vec<(String, String, bool)> {
    fn below(command: &clap::Command, path: &str, all: &mut Vec<(String, String, bool)>) {
        for argument in command.get_arguments() {
            if let (Some(long), true) = (argument.get_long(), argument.get_action().takes_values()) {
                all.push((path.to_owned(), format!("--{long}"), argument.is_require_equals_set()));
            }
        }
        for command in command.get_subcommands() {
            let name = format!("{path} {}", command.get_name());
            below(command, name.trim(), all);
        }
    }
    let mut all = Vec::new();
    below(root, "", &mut all);
    all
}

/// One option of one command, with one value.
struct Run {
    full: String,
    option: String,
    value: &'static str,
    words: Vec<String>,
}

impl Run {
    fn new(command: &str, option: &str, value: &'static str, has_equals: bool) -> Self {
        let full = format!("{command} {option}");
        let (_, line) = RUNS.iter().find(|(name, _)| *name == command).unwrap_or_else(|| {
            panic!("{command} takes {option}: give a command line that runs in RUNS");
        });
        let beside = BESIDE.iter().find(|(name, _)| *name == full).map_or("", |(_, beside)| beside);
        let line = match beside.strip_prefix('=') {
            Some(line) => line.to_owned(),
            None => format!("{line} {beside}"),
        };
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if let Some(at) = words.iter().position(|word| word == option) {
            words.drain(at..at + 2);
        }
        match has_equals {
            true => words.push(format!("{option}={value}")),
            false => words.extend([option.to_owned(), value.to_owned()]),
        }
        Self { full, option: option.to_owned(), value, words }
    }

    /// Runs it where everything is as in `model`.
    fn judged(&self, model: &Path) -> Result<(), String> {
        let place = tempfile::tempdir().unwrap();
        copy(model, place.path());
        let before = listed(place.path());
        let Ended { code, stderr } = self.end(place.path())?;
        if stderr.contains("panicked") {
            return Err(format!("panics: {stderr}"));
        }
        let is_text = TEXTS.contains(&self.option.as_str());
        let is_meant = MEANT.iter().any(|(option, value, _)| {
            let is_value = *value == self.value || *value == "huge" && HUGE.contains(&self.value);
            *option == self.full && is_value
        });
        match code {
            0 if is_text || is_meant => return Ok(()),
            0 => return Err(format!("is taken; {stderr}")),
            1 | 2 => {}
            code => return Err(format!("ends with {code}: {stderr}")),
        }
        if listed(place.path()) != before {
            let new: Vec<_> = listed(place.path()).symmetric_difference(&before).cloned().collect();
            return Err(format!("is refused, and changed {new:?}: {stderr}"));
        }
        let words = self.option.trim_start_matches('-').replace('-', " ");
        let is_named = stderr.contains(&self.option) || stderr.contains(&words);
        match stderr.trim().is_empty() || !(is_text || is_meant || is_named) {
            true => Err(format!("ends with {code}, and does not name the option: {stderr}")),
            false => Ok(()),
        }
    }

    fn end(&self, place: &Path) -> Result<Ended, String> {
        let reported = tempfile::NamedTempFile::new().unwrap();
        // A value that is believed fills no memory and no disk of who runs this.
        let limits = "ulimit -v 33554432 && ulimit -f 4194304 && exec \"$0\" \"$@\"";
        let mut command = std::process::Command::new("bash");
        command.args(["-c", limits]).arg(stook([""; 0]).get_program()).args(&self.words);
        command.current_dir(place).stdin(Stdio::null()).stdout(Stdio::null());
        command.env("HOME", place).env("TMPDIR", place).stderr(File::create(reported.path()).unwrap());
        let mut child = command.spawn().unwrap();
        let started = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if started.elapsed() > HANGS_AFTER => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    return Err(format!("runs on and on: {}", fs::read_to_string(reported.path()).unwrap()));
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let stderr = fs::read_to_string(reported.path()).unwrap();
        let code = status.code().ok_or_else(|| format!("is ended by {status}: {stderr}"))?;
        Ok(Ended { code, stderr })
    }
}

struct Ended {
    code: i32,
    stderr: String,
}

/// A pack, a tree, a file, a trace and results, to be copied for each run.
fn model() -> PathBuf {
    static MADE: std::sync::OnceLock<Place> = std::sync::OnceLock::new();
    let place = MADE.get_or_init(|| {
        let place = Place::filled();
        fs::create_dir_all(place.path("tree/sub")).unwrap();
        fs::write(place.path("tree/sub/one"), "one").unwrap();
        fs::write(place.path("tree/two"), "two").unwrap();
        fs::write(place.path("file"), vec![7; 10_000]).unwrap();
        let mut trace = File::create(place.path("trace.csv")).unwrap();
        trace.write_all(b"# a trace; file size 10000\n0,10\n20,5\n").unwrap();
        let shard = br#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
        let shard = [&(shard.len() as u64).to_le_bytes()[..], shard, b"a"].concat();
        fs::write(place.path("shard.safetensors"), shard).unwrap();
        fs::create_dir_all(place.path("routes/x.tar")).unwrap();
        fs::write(place.path("routes/x.tar/two"), "2").unwrap();
        let tar = stook(["stitch", "tar", "tree", "--write", "x.tar"]).current_dir(place.dir.path()).output();
        assert!(tar.unwrap().status.success());
        let packed = stook(["pack", "tree", "tree.stook"]).current_dir(place.dir.path()).output().unwrap();
        assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
        let bench = ["bench", ".", "--file-size", "256K", "--time", "5ms", "--ramp", "1ms", "--json"];
        let results = stook(bench).current_dir(place.dir.path()).output().unwrap();
        assert!(results.status.success(), "{}", String::from_utf8_lossy(&results.stderr));
        fs::write(place.path("results.json"), results.stdout).unwrap();
        place
    });
    place.dir.path().to_owned()
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

/// All names below a directory, with lengths.
fn listed(below: &Path) -> BTreeSet<(PathBuf, u64)> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(listed(&path));
        }
        let len = if path.is_dir() { 0 } else { fs::metadata(&path).unwrap().len() };
        all.insert((path, len));
    }
    all
}

/// Before: directories `s3:` and `bucket` were made, with exit code 0, or it was said that there is
/// no such file.
#[test]
fn an_address_is_no_path_of_what_is_written_nor_of_a_pack() {
    let place = Place::filled();
    let address = "s3://bucket/y?sig=1";
    for args in [
        &["unpack", "p.stook", address][..],
        &["unpack", "p.stook", "--tar", address],
        &["get", "p.stook", "a/one", "--output", address],
        &["get", "p.stook", "a/one", "a/two", "--output", address],
        &["pack", "p.stook", address, "--as-file"],
        &["put", address, "key", "/dev/null"],
        &["check", address],
        &["check", "p.stook", "--repair", address],
        &["rm", address, "key"],
        &["compact", address],
    ] {
        let (code, _, stderr) = super::ended(stook(args).current_dir(place.dir.path()));
        assert_eq!(code, 2, "{args:?}: {stderr}");
        assert!(stderr.contains("s3://bucket/y?… is an address"), "{args:?}: {stderr}");
    }
    // As other programs that copy take them.
    for args in [
        &["unpack", "p.stook", "user@host:backup"][..],
        &["unpack", "p.stook", "--tar", "host:/backup/x.tar"],
        &["get", "p.stook", "a/one", "--output", "host:/backup"],
        &["pack", "p.stook", "host:/backup", "--as-file"],
    ] {
        let (code, _, stderr) = super::ended(stook(args).current_dir(place.dir.path()));
        assert_eq!(code, 2, "{args:?}: {stderr}");
        assert!(stderr.contains("looks like a path on another machine"), "{args:?}: {stderr}");
    }
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 1, "nothing was made");
}
