//! The supervisor: starts writers, kills them, and compares the rest with what they acknowledged.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use stook::pack::{OpenOptions, Pack};

use super::reader::versions_of;
use super::{Action, Chance, STOP};
use crate::model::pack::{assert_holds, scanned};

/// How long, and with what.
#[derive(Debug, Clone)]
pub struct Siege {
    /// The program that `write` and `read` are run by: see the `soak` binary.
    pub program: PathBuf,
    /// An empty directory; the pack is `pack.stook` in it.
    pub directory: PathBuf,
    /// What everything random follows from.
    pub seed: u64,
    /// Writers to kill at least.
    pub kills: u64,
    /// How long it lasts at least.
    pub time: Duration,
    /// Readers that live throughout.
    pub readers: u64,
}

/// The counts of a siege.
#[derive(Debug, Clone, Copy, Default)]
pub struct Survived {
    /// Writers that were killed.
    pub kills: u64,
    /// Actions that were begun.
    pub actions: u64,
    /// Records at the end.
    pub records: u64,
    /// States that readers opened.
    pub states: u64,
}

/// For each key the action that determines it, and whether it leaves a record.
type Model = BTreeMap<u64, (u64, bool)>;

/// Runs a siege to its end.
///
/// # Panics
/// Panics if anything acknowledged is lost, anything is found that was not put, or a reader reports
/// an error.
pub fn run_soak(siege: &Siege) -> Survived {
    let pack = siege.directory.join("pack.stook");
    fs::create_dir(&pack).expect("an empty directory");
    let mut chance = Chance(siege.seed);
    let mut readers = Readers((0..siege.readers).map(|number| siege.reader(&pack, number)).collect());
    let (mut survived, mut model, mut next) = (Survived::default(), Model::new(), 1);
    let started = Instant::now();
    while survived.kills < siege.kills || started.elapsed() < siege.time {
        let lives = Duration::from_micros(chance.below(400_000));
        let (begun, acknowledged) = siege.writer(&pack, next, lives);
        survived.kills += 1;
        for reader in &mut readers.0 {
            assert_eq!(reader.try_wait().expect("it can be asked"), None, "a reader complained");
        }
        let found = found(&pack);
        model = after(siege.seed, &model, next..begun + 1, acknowledged, &found);
        next = begun.max(next - 1) + 1;
    }
    let (begun, acknowledged) = siege.finish(&pack, next, 200);
    assert_eq!(begun, acknowledged, "a writer that ends has acknowledged everything");
    let last = found(&pack);
    let model = after(siege.seed, &model, next..begun + 1, acknowledged, &last);
    survived.actions = begun;
    survived.records = model.values().filter(|(_, is_there)| *is_there).count() as u64;
    fs::write(siege.directory.join(STOP), "").expect("the readers are asked to stop");
    for reader in readers.0.drain(..) {
        let ended = reader.wait_with_output().expect("a reader ends");
        assert!(ended.status.success(), "a reader complained");
        let reported = String::from_utf8_lossy(&ended.stdout);
        survived.states += reported.trim().parse::<u64>().expect("a reader says how many states it saw");
    }
    let pack = Pack::open_path(&pack, OpenOptions::default()).expect("it opens");
    assert_holds(&pack, &scanned(&pack).expect("it is read"));
    survived
}

/// Readers that end with the siege, however it ends.
struct Readers(Vec<Child>);

impl Drop for Readers {
    fn drop(&mut self) {
        for reader in &mut self.0 {
            // One that has ended already cannot be killed, and that is all that is wanted.
            let _ = reader.kill().and_then(|()| reader.wait());
        }
    }
}

impl Siege {
    fn reader(&self, pack: &Path, number: u64) -> Child {
        let mut command = Command::new(&self.program);
        command.arg("read").arg(pack).arg(&self.directory).arg((self.seed + number).to_string());
        command.stdout(Stdio::piped()).spawn().expect("a reader starts")
    }

    fn start(&self, pack: &Path, first: u64, count: u64) -> Child {
        let mut command = Command::new(&self.program);
        command.arg("write").arg(pack);
        command.args([self.seed, first, count].map(|number| number.to_string()));
        command.stdout(Stdio::piped()).spawn().expect("a writer starts")
    }

    /// Runs a writer for this long; returns the last action that it began and the last that it
    /// acknowledged.
    fn writer(&self, pack: &Path, first: u64, lives: Duration) -> (u64, u64) {
        let mut child = self.start(pack, first, u64::MAX);
        let output = child.stdout.take().expect("it is piped");
        let log = thread::spawn(move || logged(output, first));
        thread::sleep(lives);
        assert_eq!(child.try_wait().expect("it can be asked"), None, "a writer ended by itself");
        child.kill().expect("it is killed");
        child.wait().expect("it is dead");
        log.join().expect("the log is read")
    }

    fn finish(&self, pack: &Path, first: u64, count: u64) -> (u64, u64) {
        let mut child = self.start(pack, first, count);
        let log = logged(child.stdout.take().expect("it is piped"), first);
        assert!(child.wait().expect("it ends").success(), "the last writer failed");
        log
    }
}

fn logged(output: std::process::ChildStdout, first: u64) -> (u64, u64) {
    let (mut begun, mut acknowledged) = (first - 1, first - 1);
    for line in BufReader::new(output).lines() {
        let line = line.expect("the pipe is read");
        match line.split_once(' ').map(|(what, number)| (what, number.parse())) {
            Some(("B", Ok(number))) => begun = number,
            Some(("A", Ok(number))) => acknowledged = number,
            // The truncated output of a killed process.
            _ => break,
        }
    }
    (begun, acknowledged)
}

fn found(pack: &Path) -> BTreeMap<u64, u64> {
    match Pack::open_path(pack, OpenOptions::default()) {
        Err(stook::pack::Error::NotAPack { .. }) => BTreeMap::new(),
        pack => {
            let pack = pack.expect("it opens after a kill");
            assert_eq!(pack.damages(), [], "a kill is no damage");
            versions_of(&scanned(&pack).expect("it is read after a kill"))
        }
    }
}

/// The possible states after some actions, if all up to `acknowledged` are durable: for every key
/// its previous value, or that of one of the actions, but nothing older than the acknowledged one.
fn after(
    seed: u64,
    before: &Model,
    actions: std::ops::Range<u64>,
    acknowledged: u64,
    found: &BTreeMap<u64, u64>,
) -> Model {
    let mut possible: BTreeMap<u64, Vec<(u64, bool)>> =
        before.iter().map(|(&key, &state)| (key, vec![state])).collect();
    for number in actions {
        let action = Action::of(seed, number);
        let is_there = !matches!(action, Action::Delete { .. });
        for key in action.keys() {
            let states = possible.entry(key).or_insert_with(|| vec![(0, false)]);
            if number <= acknowledged {
                states.clear();
            }
            states.push((number, is_there));
        }
    }
    assert!(found.keys().all(|key| possible.contains_key(key)), "a record that was never put");
    let state = |(key, states): (&u64, &Vec<(u64, bool)>)| {
        let now = found.get(key);
        let matches = |(number, is_there): &&(u64, bool)| match now {
            Some(version) => *is_there && version == number,
            None => !is_there,
        };
        let state = states.iter().rev().find(matches);
        let state = state.unwrap_or_else(|| panic!("key {key} holds {now:?}, possible are {states:?}"));
        (*key, *state)
    };
    possible.iter().map(state).collect()
}
