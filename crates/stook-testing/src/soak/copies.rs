//! Copies that are killed at random moments, and run again until one ends: what has a name is whole
//! throughout, and rsync finds nothing to do in the end.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{XattrFlags, setxattr};

use super::Chance;
use crate::conformance::noise;
use crate::trees::{rsync_would, write_with_holes};

/// Kills of a destination in a row, unless a copy ends before.
const ROW: u64 = 10;

/// What temporary names begin with.
const TEMPORARY: &str = ".stook-";

/// How often, and with what.
#[derive(Debug, Clone)]
pub struct Copies {
    /// The built `stook`.
    pub program: PathBuf,
    /// An empty directory; source and destinations are made in it.
    pub directory: PathBuf,
    /// What everything random follows from.
    pub seed: u64,
    /// Copies to kill at least.
    pub kills: u64,
    /// Small files of the source.
    pub files: u64,
}

/// The counts of such copies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Completed {
    /// Copies that were killed.
    pub kills: u64,
    /// Sets of destinations that were brought to an end, and are the same as the source.
    pub rounds: u64,
    /// The most kills of one of them.
    pub row_max: u64,
    /// Files that had their name after a kill, each time that they were looked at.
    pub named: u64,
}

/// How a round copies.
#[derive(Debug, Clone, Copy)]
struct Way {
    args: &'static [&'static str],
    /// Whether files with other content have the names before.
    is_old: bool,
    /// Whether there are two destinations.
    is_double: bool,
}

const WAYS: [Way; 5] = [
    Way { args: &[], is_old: false, is_double: false },
    Way { args: &["--durability", "file"], is_old: false, is_double: true },
    Way { args: &["--overwrite", "different"], is_old: true, is_double: false },
    Way { args: &["--durability", "none", "--hash", "xxh3"], is_old: false, is_double: false },
    Way { args: &["--overwrite", "always", "--durability", "file"], is_old: true, is_double: true },
];

/// Kills copies until there were enough kills.
///
/// # Panics
/// Panics if a name has something else than the whole file, the last copy of a round fails, or
/// rsync finds a difference after it.
pub fn run_copies(copies: &Copies) -> Completed {
    let from = copies.directory.join("from");
    make_source(&from, copies.files);
    let mut chance = Chance(copies.seed);
    let mut completed = Completed::default();
    let whole = copies.whole_run(&from);
    while completed.kills < copies.kills || completed.row_max < ROW {
        let way = WAYS[completed.rounds as usize % WAYS.len()];
        let round = Round::begin(copies, &from, way, completed.rounds);
        let row = round.kill(&mut chance, whole, &mut completed);
        round.finish();
        completed.row_max = completed.row_max.max(row);
        completed.rounds += 1;
        // A moment after zero is always early enough: else no copy was ever caught on its way.
        assert!(completed.rounds <= copies.kills + 100, "copies end before they can be killed");
    }
    completed
}

impl Copies {
    /// How long a copy takes that is not killed: kills come within a part of that.
    fn whole_run(&self, from: &Path) -> Duration {
        let to = self.directory.join("whole");
        let started = Instant::now();
        let ended = Command::new(&self.program).arg("copy").args([from, &to]).output();
        let ended = ended.expect("a copy starts");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let whole = started.elapsed();
        fs::remove_dir_all(to).expect("a copy is removed");
        whole
    }
}

/// Destinations until they are complete.
struct Round<'a> {
    program: &'a Path,
    from: &'a Path,
    to: Vec<PathBuf>,
    way: Way,
}

impl<'a> Round<'a> {
    fn begin(copies: &'a Copies, from: &'a Path, way: Way, number: u64) -> Self {
        let names = if way.is_double { &["to", "also"][..] } else { &["to"] };
        let to = names.iter().map(|name| copies.directory.join(format!("{name}-{number}")));
        let round = Self { program: &copies.program, from, to: to.collect(), way };
        if way.is_old {
            round.to.iter().for_each(|to| make_old(from, to, Path::new("")));
        }
        round
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.arg("copy").arg(self.from).arg(&self.to[0]).args(self.way.args);
        for to in self.to.iter().skip(1) {
            command.arg("--to").arg(to);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Kills one copy after another, until one ends by itself; how many it were.
    fn kill(&self, chance: &mut Chance, whole: Duration, completed: &mut Completed) -> u64 {
        let part = u64::try_from(whole.as_micros() / 4).unwrap_or(u64::MAX);
        for row in 0..ROW {
            let child = self.command().stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
            thread::sleep(Duration::from_micros(chance.below(part)));
            if !was_killed(child.expect("a copy starts")) {
                return row;
            }
            completed.kills += 1;
            for to in &self.to {
                completed.named += self.check_names(to, Path::new(""));
            }
        }
        ROW
    }

    /// How many files have their names. Each has all its bytes, or all those that were there.
    fn check_names(&self, to: &Path, below: &Path) -> u64 {
        let mut named = 0;
        let Ok(entries) = fs::read_dir(to.join(below)) else { return 0 };
        for entry in entries.map(|entry| entry.expect("a destination is listed")) {
            let (name, kind) = (below.join(entry.file_name()), entry.file_type().expect("it has a kind"));
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                continue;
            }
            if kind.is_dir() {
                named += self.check_names(to, &name);
            } else if kind.is_symlink() {
                let led = [self.from, to].map(|root| fs::read_link(root.join(&name)).ok());
                assert!(led[0] == led[1], "{} leads elsewhere", name.display());
            } else {
                let found = fs::read(to.join(&name)).expect("a copy is read");
                let wanted = fs::read(self.from.join(&name)).expect("the source has what is copied");
                let is_old = self.way.is_old && found == old(&name);
                assert!(is_old || found == wanted, "{} has {} bytes", name.display(), found.len());
                named += u64::from(!is_old);
            }
        }
        named
    }

    /// Copies to the end.
    fn finish(self) {
        let ended = self.command().output().expect("a copy starts");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{:?}: {said}", self.way);
        for to in &self.to {
            let left = rsync_would(self.from, to);
            assert!(left.is_empty(), "{:?}: rsync would\n{}", self.way, left.join("\n"));
            fs::remove_dir_all(to).expect("a copy is removed");
        }
    }
}

/// Whether it was killed. It may have ended before, but not with a failure.
fn was_killed(mut child: Child) -> bool {
    // What has ended and was not waited for can be killed as well.
    child.kill().expect("a copy is killed");
    let ended = child.wait_with_output().expect("a copy is dead");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() || ended.status.code().is_none(), "a copy failed by itself: {said}");
    ended.status.code().is_none()
}

/// Small files in a few directories, some with several names, large ones, one of them with holes,
/// and links.
fn make_source(root: &Path, files: u64) {
    for number in 0..files {
        let directory = root.join(format!("{}/deep", number % 7));
        fs::create_dir_all(&directory).expect("a directory is made");
        let path = directory.join(number.to_string());
        fs::write(&path, noise(number, (number % 3_000) as usize)).expect("a file is written");
        if number.is_multiple_of(50) {
            fs::hard_link(&path, root.join(format!("again-{number}"))).expect("a file has two names");
            symlink(&path, root.join(format!("link-{number}"))).expect("a link is made");
            setxattr(&path, "user.number", &number.to_le_bytes(), XattrFlags::empty())
                .expect("an extended attribute is set");
        }
    }
    for number in 0..6_u64 {
        let path = root.join(format!("large-{number}"));
        fs::write(path, noise(number, 300_000 + 700_001 * number as usize)).expect("a file is written");
    }
    let mut holes = vec![0; 5 << 20];
    holes[1 << 20..2 << 20].copy_from_slice(&noise(1, 1 << 20));
    write_with_holes(&root.join("holes"), &holes).expect("a file is written");
}

/// What a file has before it is replaced.
fn old(name: &Path) -> Vec<u8> {
    format!("the old {}", name.display()).into_bytes()
}

/// Other files with the names of the source.
fn make_old(from: &Path, to: &Path, below: &Path) {
    fs::create_dir_all(to.join(below)).expect("a directory is made");
    for entry in fs::read_dir(from.join(below)).expect("the source is listed") {
        let entry = entry.expect("the source is listed");
        let (name, kind) = (below.join(entry.file_name()), entry.file_type().expect("it has a kind"));
        if kind.is_dir() {
            make_old(from, to, &name);
        } else if kind.is_file() {
            fs::write(to.join(&name), old(&name)).expect("a file is written");
        }
    }
}
