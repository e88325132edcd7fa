//! What is slow about a tree or an archive, why, and what to do: numbers turned into a decision.
//!
//! A tree is looked at once (`scan`, bounded memory), then files are drawn and read cold in
//! clusters of those that a reader would read after one another (`cluster`, `measure`), by one
//! reader and by several, in rounds with loads of a small pack of them (`sample_pack`) and
//! reference reads, because devices drift. [`model`] and [`predict`] turn that into times; they do
//! no I/O. Where the caches of the system cannot be emptied, what was read may have been in memory:
//! then it is called warm, and nothing is predicted of it.

mod archive;
mod cluster;
mod confirm;
mod measure;
pub mod model;
mod page;
pub mod predict;
mod sample_pack;
mod scan;
mod text;

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use self::archive::{ArchiveAction, ArchiveAdvice};
use self::cluster::{Bounds, Cluster};
pub use self::confirm::Confirmed;
use self::measure::{Coldness, Lying, ReadBounds, read_alone, read_together};
use self::model::TogetherCost;
pub use self::page::page;
use self::predict::{Action, Loads, Prediction, Sampled};
use self::sample_pack::SamplePack;
pub use self::scan::{Scan, scan};
pub use self::text::lines;
use crate::profile::{Medium, Profile, Profiles};
use crate::tree;

/// Asked whether to end.
pub type Stopping<'a> = &'a (dyn Fn() -> bool + Sync);

/// Files of a cluster, and bytes after which it ends.
const CLUSTER: Bounds = Bounds { files: 512, bytes: 32 << 20 };
/// A tree of no more than that is read as a whole.
const WHOLE: Bounds = Bounds { files: 3000, bytes: 256 << 20 };
/// Clusters that one reader reads in a round, drawn by files; and long files, drawn by bytes.
const ALONE_PER_ROUND: usize = 6;
const LONG_PER_ROUND: usize = 3;
/// Clusters that several readers share in a round.
const TOGETHER_PER_ROUND: usize = 8;
/// Clusters of which the system is asked where they lie and what is in memory.
const ASKED_MAX: usize = 16;
/// How much is read of a file, when a cluster ends, and from where on it counts.
const READ: ReadBounds =
    ReadBounds { file_bytes: 32 << 20, cluster_s: 2.0, warm_up_files: 192, warm_up_bytes: 8 << 20 };

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// The tree, or the system below it.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// The pack of a sample.
    #[error(transparent)]
    Pack(#[from] crate::pack::Error),
    /// The same, read for comparison.
    #[error(transparent)]
    Contents(crate::ops::contents::Error),
    /// The archive.
    #[error(transparent)]
    Archive(#[from] crate::archive::Error),
    /// It is a pack, or holds nothing that could be read.
    #[error("{} {what}", path.display())]
    Subject {
        /// What was to be looked at.
        path: PathBuf,
        /// A predicate that fits after the path.
        what: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// How to look at something.
#[derive(Debug, Clone, PartialEq)]
pub struct AdviseOptions {
    /// Where the pack of a sample is made, on the same file system; beside the tree if `None`.
    pub work: Option<PathBuf>,
    /// Bytes of files that are packed for that, at most; 0 for none.
    pub sample_bytes: u64,
    /// Rounds, each with everything once.
    pub rounds: usize,
    /// Leave the caches of the system as they are. Then nothing is cold.
    pub keep_caches: bool,
    /// Measure one pair, files and a pack of them, beside the prediction.
    pub confirm: bool,
}

impl Default for AdviseOptions {
    fn default() -> Self {
        Self { work: None, sample_bytes: 128 << 20, rounds: 5, keep_caches: false, confirm: false }
    }
}

/// What there is to say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdviceReport {
    /// What was looked at.
    pub path: String,
    /// `tree` or `archive`.
    pub kind: &'static str,
    /// A tree, or a single file.
    pub tree: Option<TreeAdvice>,
    /// An archive.
    pub archive: Option<ArchiveAdvice>,
}

/// What there is to say of a tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TreeAdvice {
    /// What it consists of.
    pub facts: TreeFacts,
    /// What it lies on.
    pub storage: Storage,
    /// `cold`, or `warm` where caches could not be emptied: then nothing is predicted.
    pub state: &'static str,
    /// Why it is not cold.
    pub warm_because: Option<String>,
    /// What was read for the advice.
    pub sample: SampleFacts,
    /// What follows from it; `None` where nothing was cold.
    pub prediction: Option<Prediction>,
    /// What was measured beside it.
    pub confirmed: Option<Confirmed>,
    /// The command to run.
    pub command: Option<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// What a tree consists of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TreeFacts {
    /// Names of regular files.
    pub names: u64,
    /// Files: several names of one count as one.
    pub files: f64,
    /// Names of files that have several.
    pub hard_links: u64,
    /// Bytes of files.
    pub bytes: f64,
    /// Bytes that these take on the medium.
    pub stored_bytes: f64,
    /// Directories.
    pub directories: u64,
    /// Links, which are not followed.
    pub symlinks: u64,
    /// Pipes, sockets and devices, which are not opened.
    pub specials: u64,
    /// Directories above the deepest file.
    pub depth_max: u64,
    /// Entries that could not be looked at.
    pub unreadable: u64,
    /// The first of these, with what is wrong.
    pub unreadable_examples: Vec<String>,
    /// The share of bytes in memory before anything was read, of files that were drawn.
    pub cached_share: Option<f64>,
    /// Pieces of a file on the medium, on average, of files that were drawn.
    pub extents_mean: Option<f64>,
    /// Files by length.
    pub lengths: Vec<LengthRow>,
}

/// Files of a class of length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LengthRow {
    /// All of them are shorter than that.
    pub below_bytes: u64,
    /// How many.
    pub files: f64,
    /// Their bytes.
    pub bytes: f64,
}

/// What a tree lies on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Storage {
    /// `local`, `rotating`, `network`.
    pub class: &'static str,
    /// What it is recognised by.
    pub of: Option<String>,
    /// Whether a profile was kept of it.
    pub has_profile: bool,
    /// How many readers were tried.
    pub readers: usize,
}

/// What was read for the advice.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SampleFacts {
    /// Rounds.
    pub rounds: usize,
    /// Clusters that one reader read.
    pub clusters: usize,
    /// Files that one reader read.
    pub files: usize,
    /// Bytes of these.
    pub bytes: u64,
    /// Files that several readers read.
    pub files_together: usize,
    /// Files that were gone, had changed or could not be read.
    pub missed: u64,
    /// Records of the pack that was made.
    pub pack_records: u64,
    /// Bytes of its files.
    pub pack_bytes: u64,
}

/// Looks at a tree or an archive.
///
/// # Errors
/// [`AdviseError`]. Nothing that was made for it remains.
pub fn advise(
    path: &Path,
    options: &AdviseOptions,
    stopping: Stopping<'_>,
) -> Result<AdviceReport, AdviseError> {
    let metadata = std::fs::metadata(path).map_err(|error| crate::Error::io("look at", path, error))?;
    let subject = |what: &str| AdviseError::Subject { path: path.to_path_buf(), what: what.into() };
    if metadata.is_dir() && tree::is_pack(path).map_err(|error| crate::Error::io("list", path, error))? {
        return Err(subject("is a pack: `stook info` says what to do about it"));
    }
    if !metadata.is_dir() && !metadata.is_file() {
        return Err(subject("is neither a directory nor a regular file"));
    }
    let shown = path.display().to_string();
    if metadata.is_file()
        && let Some(archive) = archive::advise(path, stopping)?
    {
        return Ok(AdviceReport { path: shown, kind: "archive", tree: None, archive: Some(archive) });
    }
    let tree = Looking { path, options, stopping }.tree(metadata.dev())?;
    Ok(AdviceReport { path: shown, kind: "tree", tree: Some(tree), archive: None })
}

/// A tree that is looked at.
struct Looking<'a> {
    path: &'a Path,
    options: &'a AdviseOptions,
    stopping: Stopping<'a>,
}

impl Looking<'_> {
    fn check(&self) -> Result<(), AdviseError> {
        if (self.stopping)() { Err(AdviseError::Interrupted) } else { Ok(()) }
    }

    fn tree(&self, device: u64) -> Result<TreeAdvice, AdviseError> {
        let (profile, storage) = self.storage()?;
        let scan = scan(self.path, profile.opens, self.stopping)?;
        if scan.names == 0 {
            let what = match scan.unreadable {
                0 => "has no files".to_owned(),
                number => {
                    format!("has no files that can be seen, and {number} entries that cannot be looked at")
                }
            };
            return Err(AdviseError::Subject { path: self.path.to_path_buf(), what });
        }
        let drawn = Drawn::of(self.path, &scan);
        let mut lying = Lying::default();
        drawn.by_files.iter().take(ASKED_MAX).for_each(|cluster| lying.add(cluster));
        let mut notes = Vec::new();
        let coldness = Coldness::found(self.options.keep_caches);
        let pack = match coldness {
            Coldness::Cold => self.sample_pack(device, &drawn, &mut notes)?,
            Coldness::Warm(_) => None,
        };
        let mut sampled = Sampled {
            classes: scan.classes.clone(),
            known_bytes_per_s: profile.measured.sequential_bytes_per_s,
            ..Sampled::default()
        };
        let facts = self.rounds(&drawn, pack.as_ref(), &coldness, profile.opens, &mut sampled)?;
        let is_cold = coldness == Coldness::Cold;
        let prediction = if is_cold { Prediction::of(&sampled) } else { None };
        if is_cold && prediction.is_none() {
            let what = "has no file that could be read".to_owned();
            return Err(AdviseError::Subject { path: self.path.to_path_buf(), what });
        }
        let confirmed = match (&prediction, &pack) {
            (Some(_), Some(pack)) if self.options.confirm => {
                Some(confirm::measure(self.path, &drawn, pack, &sampled, self.stopping)?)
            }
            _ => None,
        };
        if self.options.confirm && confirmed.is_none() {
            notes.push("nothing was confirmed: that needs cold files, and a pack of a sample".to_owned());
        }
        let command = prediction.as_ref().map(|prediction| self.command(prediction.action, profile.opens));
        Ok(TreeAdvice {
            facts: facts_of(&scan, &lying),
            storage,
            state: if is_cold { "cold" } else { "warm" },
            warm_because: match coldness {
                Coldness::Cold => None,
                Coldness::Warm(why) => Some(why),
            },
            sample: facts,
            prediction,
            confirmed,
            command: command.flatten(),
            notes,
        })
    }

    fn storage(&self) -> Result<(Profile, Storage), AdviseError> {
        let medium = Medium::of_path(self.path)?;
        let profile = Profile::of_path(self.path);
        let has_profile = Profiles::of_user().saved(&medium).is_ok_and(|saved| saved.is_some());
        let class = match medium.class() {
            crate::profile::Class::Local => "local",
            crate::profile::Class::Rotating => "rotating",
            crate::profile::Class::Network => "network",
            crate::profile::Class::Object => "object",
        };
        let of = medium.key().map(str::to_owned);
        Ok((profile, Storage { class, of, has_profile, readers: profile.opens }))
    }

    /// Makes the pack of a sample, where there is room on the same file system.
    fn sample_pack(
        &self,
        device: u64,
        drawn: &Drawn,
        notes: &mut Vec<String>,
    ) -> Result<Option<SamplePack>, AdviseError> {
        if self.options.sample_bytes == 0 {
            return Ok(None);
        }
        let work = match &self.options.work {
            Some(work) => work.clone(),
            None => beside(self.path, device),
        };
        let looked = std::fs::metadata(&work).map_err(|error| crate::Error::io("look at", &work, error))?;
        if looked.dev() != device {
            let what = "is on another file system than what is looked at: name a directory on the same one";
            return Err(AdviseError::Subject { path: work, what: what.into() });
        }
        let bytes = self.options.sample_bytes.min(drawn.bytes());
        let free = crate::storage::free_at(&work)?;
        if free / 4 < bytes {
            let shown = work.display();
            notes.push(format!(
                "no pack of a sample was made: {shown} has {} free, and four times {} is wanted",
                crate::report::units::bytes_decimal(free),
                crate::report::units::bytes_decimal(bytes)
            ));
            return Ok(None);
        }
        let clusters = drawn.all();
        match SamplePack::make(&work, self.path, &clusters, bytes, self.stopping) {
            Ok(pack) => Ok((pack.records > 0).then_some(pack)),
            Err(AdviseError::Interrupted) => Err(AdviseError::Interrupted),
            // Where nothing can be written all else can still be said.
            Err(error) => {
                let why = crate::error::chain(&error);
                notes.push(format!(
                    "no pack of a sample was made: {why}; --work names another directory of the same file system"
                ));
                Ok(None)
            }
        }
    }

    /// Everything once in each round, so that what changes with time meets all of it.
    fn rounds(
        &self,
        drawn: &Drawn,
        pack: Option<&SamplePack>,
        coldness: &Coldness,
        readers: usize,
        sampled: &mut Sampled,
    ) -> Result<SampleFacts, AdviseError> {
        let mut facts = SampleFacts { rounds: self.options.rounds, ..SampleFacts::default() };
        let mut loads = pack.map(|pack| Loads {
            pack_bytes: pack.pack_bytes as f64,
            overhead_bytes: pack.overhead_bytes(),
            made_bytes_per_s: pack.pack_bytes as f64 / pack.made_s.max(1e-9),
            ..Loads::default()
        });
        for round in 0..self.options.rounds {
            self.check()?;
            coldness.prepare()?;
            for cluster in drawn.alone(round) {
                let number = facts.clusters;
                let costs = read_alone(&cluster, number, drawn.bounds(), self.stopping, &mut facts.missed);
                facts.clusters += 1;
                sampled.alone.extend(costs);
            }
            self.check()?;
            if let (Some(pack), Some(loads)) = (pack, &mut loads) {
                let cost = pack.load()?;
                loads.open_s.push(cost.open_s);
                loads.load_s.push(cost.load_s);
                loads.reference_bytes_per_s.push(pack.reference_bytes_per_s(self.stopping)?);
            }
            coldness.prepare()?;
            let together = drawn.together(round);
            let seen = read_together(&together, readers.max(2), READ, self.stopping, &mut facts.missed);
            sampled.together.extend(Some(seen).filter(|seen| !seen.read_bytes.is_empty()));
        }
        self.check()?;
        sampled.loads = loads;
        facts.files = sampled.alone.len();
        facts.bytes = sampled.alone.iter().map(|cost| cost.read_bytes).sum();
        facts.files_together = sampled.together.iter().map(TogetherCost::len).sum();
        facts.pack_records = pack.map_or(0, |pack| pack.records);
        facts.pack_bytes = pack.map_or(0, |pack| pack.pack_bytes);
        Ok(facts)
    }

    fn command(&self, action: Action, readers: usize) -> Option<String> {
        let shown = shell_quoted(self.path);
        match action {
            Action::Pack => Some(format!("stook pack {shown} {}", shell_quoted(&self.pack_path()))),
            Action::Readers => Some(match self.path.is_dir() {
                true => format!("find {shown} -type f -print0 | xargs -0 -n 64 -P {readers} PROGRAM"),
                false => return None,
            }),
            Action::None => None,
        }
    }

    /// Where the pack of a command goes: beside the tree.
    fn pack_path(&self) -> PathBuf {
        let real = std::fs::canonicalize(self.path).unwrap_or_else(|_| self.path.to_path_buf());
        let mut name = real.file_name().unwrap_or_else(|| std::ffi::OsStr::new("tree")).to_owned();
        name.push(".stook");
        match self.path.file_name() {
            Some(_) => self.path.with_file_name(name),
            None => PathBuf::from("..").join(name),
        }
    }
}

/// The directory that a tree lies in, where that is on the same device; else the tree itself.
fn beside(path: &Path, device: u64) -> PathBuf {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let above = real.parent().map(Path::to_path_buf).unwrap_or_else(|| real.clone());
    let is_same = std::fs::metadata(&above).is_ok_and(|metadata| metadata.dev() == device);
    if is_same || real.is_file() { above } else { real }
}

fn facts_of(scan: &Scan, lying: &Lying) -> TreeFacts {
    let row = |(below_bytes, files, bytes)| LengthRow { below_bytes, files, bytes };
    TreeFacts {
        names: scan.names,
        files: scan.classes.files(),
        hard_links: scan.hard_links,
        bytes: scan.classes.bytes(),
        stored_bytes: scan.stored_bytes,
        directories: scan.directories,
        symlinks: scan.symlinks,
        specials: scan.specials,
        depth_max: scan.depth_max,
        unreadable: scan.unreadable,
        unreadable_examples: scan.examples.clone(),
        cached_share: lying.cached_share(),
        extents_mean: lying.extents_mean(),
        lengths: scan.classes.rows().map(row).collect(),
    }
}

/// Clusters that were drawn of a tree.
struct Drawn {
    /// By files; the only one, where all of the tree is read.
    by_files: Vec<Cluster>,
    /// One file each, drawn by bytes.
    by_bytes: Vec<Cluster>,
}

impl Drawn {
    fn of(tree: &Path, scan: &Scan) -> Self {
        let is_whole = scan.names <= WHOLE.files as u64 && scan.classes.bytes() <= WHOLE.bytes as f64;
        if is_whole {
            let bounds = Bounds { bytes: u64::MAX, ..WHOLE };
            return Self { by_files: vec![Cluster::whole(tree, bounds)], by_bytes: Vec::new() };
        }
        let from = |keys: Vec<&[u8]>, bounds: Bounds| {
            let clusters = keys.into_iter().map(|key| Cluster::from(tree, &scan::path_of(tree, key), bounds));
            clusters.filter(|cluster| cluster.len() > 0).collect()
        };
        Self {
            by_files: from(scan.drawn_by_files(), CLUSTER),
            by_bytes: from(scan.drawn_by_bytes(), Bounds { files: 1, ..CLUSTER }),
        }
    }

    /// How much of them is read. A whole tree begins where every reader of it does.
    fn bounds(&self) -> ReadBounds {
        let is_whole = self.by_bytes.is_empty();
        if is_whole { ReadBounds { cluster_s: 30.0, warm_up_files: 0, ..READ } } else { READ }
    }

    /// What one reader reads in a round.
    fn alone(&self, round: usize) -> Vec<Cluster> {
        let mut taken = HashSet::new();
        let files = picked(&self.by_files, round, ALONE_PER_ROUND, 0);
        let long = picked(&self.by_bytes, round, LONG_PER_ROUND, 0);
        files.chain(long).map(|cluster| cluster.clone().without(&mut taken)).collect()
    }

    /// What several readers read in a round: others than that.
    fn together(&self, round: usize) -> Vec<Cluster> {
        let mut taken = HashSet::new();
        let from = self.by_files.len() / 2;
        let files = picked(&self.by_files, round, TOGETHER_PER_ROUND, from);
        let long = picked(&self.by_bytes, round, LONG_PER_ROUND, self.by_bytes.len() / 2);
        files.chain(long).map(|cluster| cluster.clone().without(&mut taken)).collect()
    }

    /// All files, each once: those that were drawn by files first.
    fn all(&self) -> Vec<Cluster> {
        let mut taken = HashSet::new();
        let both = self.by_files.iter().chain(&self.by_bytes);
        both.map(|cluster| cluster.clone().without(&mut taken)).collect()
    }

    /// Bytes of all of these, as far as they are packed.
    fn bytes(&self) -> u64 {
        self.all().iter().flat_map(Cluster::files).map(|(_, len)| len).fold(0, u64::saturating_add)
    }
}

/// Some of a list, others in each round as long as there are, from one of them on.
fn picked(all: &[Cluster], round: usize, count: usize, from: usize) -> impl Iterator<Item = &Cluster> {
    let count = count.min(all.len());
    (0..count).filter_map(move |at| all.get((from + round * count + at) % all.len().max(1)))
}

impl TogetherCost {
    fn len(&self) -> usize {
        self.read_bytes.len()
    }
}

/// A path as a word of a shell, whatever bytes it has.
pub fn shell_quoted(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./+=@%,:-".contains(byte);
    match std::str::from_utf8(bytes) {
        Ok("") => "''".to_owned(),
        Ok(text) if bytes.iter().all(is_plain) && !text.starts_with('-') => text.to_owned(),
        Ok(text) if !text.chars().any(char::is_control) => {
            let dashed = if text.starts_with('-') { "./" } else { "" };
            format!("{dashed}'{}'", text.replace('\'', r"'\''"))
        }
        _ => {
            let escaped = bytes.iter().map(|byte| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                0x20..0x7F => char::from(*byte).to_string(),
                byte => format!("\\x{byte:02x}"),
            });
            format!("$'{}'", escaped.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words_of_a_shell() {
        let quoted = |path: &[u8]| shell_quoted(Path::new(std::ffi::OsStr::from_bytes(path)));
        assert_eq!(quoted(b"a/b-c.tar"), "a/b-c.tar");
        assert_eq!(quoted(b"a b"), "'a b'");
        assert_eq!(quoted(b"it's"), r"'it'\''s'");
        assert_eq!(quoted(b"-rf"), "./'-rf'");
        assert_eq!(quoted(b"a\nb\xff"), r"$'a\x0ab\xff'");
    }

    #[test]
    fn rounds_take_turns_and_no_file_twice() {
        let tree = tempfile::tempdir().unwrap();
        for number in 0..50 {
            std::fs::write(tree.path().join(number.to_string()), "x").unwrap();
        }
        let one =
            |name: &str| Cluster::from(tree.path(), &tree.path().join(name), Bounds { files: 1, bytes: 1 });
        let by_files = (0..40).map(|number| one(&number.to_string())).collect();
        let drawn = Drawn { by_files, by_bytes: vec![one("0"), one("1")] };
        let (first, second) = (drawn.alone(0), drawn.alone(1));
        assert!(first.iter().take(ALONE_PER_ROUND).all(|one| !second[..ALONE_PER_ROUND].contains(one)));
        // Those that were drawn by bytes were taken by files in this round.
        assert!(first[ALONE_PER_ROUND..].iter().all(|one| one.len() == 0));
        let all: Vec<PathBuf> = drawn.all().iter().flat_map(Cluster::files).map(|(path, _)| path).collect();
        assert_eq!((all.len(), all.iter().collect::<HashSet<_>>().len()), (40, 40));
        assert!(picked(&[], 3, 5, 0).next().is_none());
    }
}
