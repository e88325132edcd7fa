//! Bad sectors under the real program: one block of one file of a pack cannot be read, on a file
//! system that reports the error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use stook::extent::ByteRange;
use stook::pack::{Key, OpenOptions, Pack};
use stook_testing::fuse::{Mirror, PageCache};
use tempfile::TempDir;

use super::program::{ended, stook};
use super::trees::noise;

const BLOCK: u64 = 4096;

/// Blocks that are tried, unless `STOOK_BAD_BLOCKS=all` requests all.
const SAMPLED: usize = 16;

/// What there is, and where its records are.
struct Sample {
    dir: TempDir,
    /// Of each file in the tree its content.
    files: BTreeMap<String, Vec<u8>>,
    /// Of each key its segment and frame.
    frames: Vec<(String, String, ByteRange)>,
}

impl Sample {
    /// A pack of a tree, which was packed twice: sealed segments with an index of several pages, a
    /// deletion vector, and a segment that grows.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (tree, pack) = (dir.path().join("tree"), dir.path().join("p.stook"));
        let mut files = BTreeMap::new();
        let mut write = |name: String, content: Vec<u8>| {
            let path = tree.join(&name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &content).unwrap();
            files.insert(name, content);
        };
        for number in 0..120_usize {
            let len = if number % 30 == 7 { 80_000 } else { number * 37 };
            write(format!("{}/{number:03}-{}", number % 4, "n".repeat(90)), noise(number as u64 + 1, len));
        }
        let run = |args: &[&Path]| {
            let (code, _, stderr) = ended(&mut stook(args));
            assert_eq!(code, 0, "{stderr}");
        };
        run(&[Path::new("pack"), &tree, &pack]);
        for number in (0..120_usize).step_by(9) {
            write(format!("{}/{number:03}-{}", number % 4, "n".repeat(90)), noise(number as u64 + 500, 900));
        }
        run(&[Path::new("pack"), &tree, &pack]);
        let mut frames = Vec::new();
        let opened = Pack::open_path(&pack, OpenOptions::default()).unwrap();
        for entry in opened.keys(&[]).unwrap().map(Result::unwrap) {
            let head = opened.heads(std::slice::from_ref(&entry)).unwrap().remove(0).unwrap();
            let range = ByteRange::at(head.offset, entry.stored_bytes.unwrap()).unwrap();
            frames.push((text(&entry.key), format!("segment-{:016x}", head.segment), range));
        }
        Self { dir, files, frames }
    }

    fn pack(&self) -> PathBuf {
        self.dir.path().join("p.stook")
    }

    /// Keys of the records that have a byte in this block.
    fn hit(&self, name: &str, bad: ByteRange) -> BTreeSet<&str> {
        let touches = |frame: &ByteRange| frame.start() < bad.end() && bad.start() < frame.end();
        let hit = self.frames.iter().filter(|(_, segment, frame)| segment == name && touches(frame));
        hit.map(|(key, ..)| key.as_str()).collect()
    }

    fn blocks(&self) -> Vec<(String, ByteRange)> {
        let mut blocks = Vec::new();
        for file in fs::read_dir(self.pack()).unwrap().map(Result::unwrap) {
            let (name, len) = (file.file_name().into_string().unwrap(), file.metadata().unwrap().len());
            let at = (0..len).step_by(BLOCK as usize);
            blocks.extend(at.map(|at| (name.clone(), ByteRange::new(at, (at + BLOCK).min(len)).unwrap())));
        }
        blocks.sort();
        blocks
    }

    /// What is wrong with files that were made from the pack, but for those in the bad block.
    fn wrong(&self, made: &Path, hit: &BTreeSet<&str>) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, content) in &self.files {
            match fs::read(made.join(name)) {
                Ok(found) if found == *content => {}
                Ok(_) => wrong.push(format!("{name} is another")),
                Err(_) if hit.contains(name.as_str()) => {}
                // A directory whose record is in the bad block is made all the same.
                Err(error) => wrong.push(format!("{name}: {error}")),
            }
        }
        wrong
    }

    /// Whether nothing is missing.
    fn is_all(&self, made: &Path) -> bool {
        self.files
            .iter()
            .all(|(name, content)| fs::read(made.join(name)).is_ok_and(|found| found == *content))
    }
}

fn text(key: &Key) -> String {
    String::from_utf8(key.as_bytes().unwrap().to_vec()).unwrap()
}

/// One command line on a pack with a bad block, and its results.
struct Ran {
    what: String,
    code: i32,
    stdout: String,
    said: String,
}

impl Ran {
    fn new(what: &str, args: &[&Path]) -> Self {
        let (code, stdout, stderr) = ended(&mut stook(args));
        assert!(!stderr.contains("panicked"), "{what}: {stderr}");
        let said = format!("{stdout}{stderr}");
        Self { what: what.to_owned(), code, stdout, said }
    }

    /// The deviations: without damage it succeeds, with damage that it found it reports it.
    fn faults(&self, is_all: bool, wrong: Vec<String>) -> Vec<String> {
        let is_reported = self.said.contains("damaged") || self.said.contains("cannot be read");
        let mut faults = wrong;
        if !is_all && (self.code != 1 || !is_reported) {
            faults.push(format!("something is missing, and the code is {}", self.code));
        }
        if self.code > 1 || (self.code == 1) != is_reported {
            faults.push(format!("code {}", self.code));
        }
        faults.into_iter().map(|fault| format!("{}: {fault}\n{}", self.what, self.said)).collect()
    }
}

fn tried(sample: &Sample, mirror: &Mirror, name: &str, bad: ByteRange) -> Vec<String> {
    let hit = sample.hit(name, bad);
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let pack = mirror.path();
    let path = Path::new;
    let mut faults = Vec::new();
    let keys = out.join("keys");
    fs::write(&keys, sample.files.keys().map(|key| format!("{key}\n")).collect::<String>()).unwrap();

    let made = out.join("got");
    let ran = Ran::new("get", &[path("get"), pack, path("--from-file"), &keys, path("--output"), &made]);
    faults.extend(ran.faults(sample.is_all(&made), sample.wrong(&made, &hit)));

    let made = out.join("unpacked");
    let ran = Ran::new("unpack", &[path("unpack"), pack, &made]);
    faults.extend(ran.faults(sample.is_all(&made), sample.wrong(&made, &hit)));

    let (made, tar) = (out.join("of tar"), out.join("tar"));
    let ran = Ran::new("unpack --tar", &[path("unpack"), pack, path("--tar"), &tar]);
    fs::create_dir(&made).unwrap();
    let status =
        std::process::Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&made).status().unwrap();
    assert!(status.success(), "tar cannot read it");
    faults.extend(ran.faults(sample.is_all(&made), sample.wrong(&made, &hit)));

    let ran = Ran::new("ls", &[path("ls"), pack]);
    let missing = sample.files.keys().filter(|key| !ran.said.lines().any(|line| line == *key));
    let wrong: Vec<String> = missing.filter(|key| !hit.contains(key.as_str())).cloned().collect();
    faults.extend(ran.faults(wrong.is_empty(), wrong));

    let ran = Ran::new("load", &[path("load"), pack]);
    faults.extend(ran.faults(true, Vec::new()));

    let ran = Ran::new("check", &[path("check"), pack]);
    // Nothing depends on a checkpoint, nor on the contents of the lock.
    let is_needed = !name.starts_with("checkpoint-") && !name.starts_with("writer");
    faults.extend((ran.code != i32::from(is_needed)).then(|| format!("check: code {}", ran.code)));
    faults.extend(ran.faults(true, Vec::new()));
    let ran = Ran::new("check --json", &[path("check"), pack, path("--json")]);
    let report: Result<serde_json::Value, _> = serde_json::from_str(&ran.stdout);
    let listed = report.ok().and_then(|report| report.get("damages")?.as_array().map(Vec::len));
    faults.extend(
        (listed.is_none_or(|listed| (listed > 0) != is_needed)).then(|| format!("--json: {}", ran.said)),
    );

    let (saved, made) = (out.join("saved"), out.join("of saved"));
    let ran = Ran::new("repair", &[path("check"), pack, path("--repair"), &saved]);
    let unpacked = Ran::new("unpack what was saved", &[path("unpack"), &saved, &made]);
    faults.extend(ran.faults(sample.is_all(&made), sample.wrong(&made, &hit)));
    faults.extend((unpacked.code != 0).then_some(unpacked.said));
    faults
}

#[test]
fn a_bad_block_costs_what_is_in_it_whatever_command_reads() {
    let sample = Sample::new();
    let all = sample.blocks();
    let step = match std::env::var("STOOK_BAD_BLOCKS") {
        Ok(wanted) if wanted == "all" => 1,
        _ => (all.len() / SAMPLED).max(1),
    };
    let mirrors = [PageCache::Off, PageCache::On].map(|cache| Mirror::mount(&sample.pack(), cache).unwrap());
    for mirror in &mirrors {
        let (code, stdout, stderr) = ended(&mut stook([Path::new("check"), mirror.path()]));
        assert_eq!(code, 0, "{stdout}{stderr}");
    }
    let mut faults = Vec::new();
    for (number, (name, bad)) in all.iter().step_by(step).enumerate() {
        let mirror = &mirrors[number % 2];
        mirror.spoil(name, *bad);
        let here = tried(&sample, mirror, name, *bad);
        faults.extend(here.into_iter().map(|fault| format!("{name} at {}: {fault}", bad.start())));
        mirror.heal();
    }
    println!("{} of {} blocks tried", all.len().div_ceil(step), all.len());
    assert!(mirrors.iter().all(|mirror| mirror.refused() > 0));
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
