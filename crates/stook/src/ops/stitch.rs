//! Archives of anything that is given, without writing them, or written out.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::given::Given;
use crate::format::layout::Encoder;
use crate::report::units;
use crate::source::Source as _;
use crate::stitch::{self, Laid, Layout, Members, Patch, Wds};
use crate::storage::free_at;
use crate::tree::{CaseRule, Draft, Failure, Kind, remove_if_empty, room};
use crate::verify::Branch;

/// A result of stitching.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing was laid out, or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What laying out refuses.
    #[error(transparent)]
    Stitch(#[from] stitch::Error),
    /// A tree that cannot be opened.
    #[error(transparent)]
    Open(#[from] super::copy::Error),
    /// A tree, or what is written.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// What cannot be meant.
    #[error("{0}")]
    Invalid(String),
}

/// What is stitched together.
#[derive(Debug)]
pub struct StitchGiven {
    /// The trees: what is in the only one, or each of several under its name. A file has its name.
    pub trees: Vec<Given>,
    /// What is made of them.
    pub layout: Box<dyn Layout>,
    /// Where it will be written, which is then left out of it.
    pub target: Option<PathBuf>,
}

/// What was stitched together.
#[derive(Debug)]
pub struct Stitched {
    /// It.
    pub laid: Laid,
    /// What packs and archives have, or should have, that is not in it.
    pub misplaced: Vec<Failure<crate::Error>>,
}

impl Stitched {
    /// How much of what was asked for is not in it. What is left out because the layout has no way
    /// to hold it counts, too.
    pub fn undone(&self) -> u64 {
        let (failures, left_out) = (self.laid.members.failures(), self.laid.members.left_out());
        (self.misplaced.len() + failures.len() + left_out.len()) as u64
    }

    /// Writes it into a file, which appears when it is whole: see [`Draft::named`]. A file that is
    /// there is replaced only if nothing is [missing](Self::undone), or with `force`; else it
    /// stays, and the answer is `false`. `progress` is called with the bytes so far, and ends it by
    /// returning `false`.
    ///
    /// # Errors
    /// That there is not enough room, unless `force`; what cannot be read or written;
    /// [`stitch::Error::Interrupted`].
    pub fn write(&self, path: &Path, force: bool, progress: &mut dyn FnMut(u64) -> bool) -> Result<bool> {
        let len = self.laid.file.len();
        let is_other = path.metadata().is_ok_and(|found| !found.is_file());
        if !force && !is_other {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let free = free_at(parent.unwrap_or(Path::new(".")))?;
            if let Some(why) = room::too_little(path, len, free) {
                return Err(Error::Invalid(why));
            }
        }
        let mut draft = Draft::named(path, &mut || progress(0))?;
        let mut at = 0;
        draft.fill(len, |write| {
            self.laid.file.read_through(&mut |bytes| {
                write(bytes, &mut || progress(at))?;
                at = at.saturating_add(bytes.len() as u64);
                Ok(progress(at))
            })
        })?;
        if at != len {
            let what = format!("{} were to be written, and {} came", units::count(len), units::count(at));
            return Err(Error::Invalid(what));
        }
        Ok(draft.finish_or_keep(force || self.undone() == 0)?)
    }

    /// Writes a layout that describes it, as [`write`](Self::write) writes its bytes: those of
    /// files on disk stay where they are. It has one file with the name of the layout, and its own
    /// ending in place of `.toml`.
    ///
    /// # Errors
    /// As [`VirtualFile::describe`](stitch::VirtualFile::describe); what cannot be written.
    pub fn save_layout(
        &self,
        path: &Path,
        force: bool,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let mut name = path.file_stem().unwrap_or(path.as_os_str()).as_encoded_bytes().to_vec();
        let ending = self.laid.file.path().extension().unwrap_or_default().as_encoded_bytes();
        let has_it = name.strip_suffix(ending).is_some_and(|before| before.ends_with(b"."));
        if !ending.is_empty() && !has_it {
            name.push(b'.');
            name.extend_from_slice(ending);
        }
        save_all(path, &[(name, self)], force, progress)
    }
}

/// Writes a layout of several files, each with its name.
fn save_all(
    path: &Path,
    files: &[(Vec<u8>, &Stitched)],
    force: bool,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<bool> {
    let io = |error| crate::Error::io("open", path, error);
    // Where a link has the name, the layout lies beside what that leads to.
    let led_to = match path.symlink_metadata() {
        Ok(_) => path.canonicalize().map_err(io)?,
        Err(_) => path.to_path_buf(),
    };
    let is_other = led_to.is_file() && !stitch::is_layout_file(&led_to)?;
    let is_source = |of: &Stitched| of.laid.file.path().canonicalize().is_ok_and(|of| of == led_to);
    if is_other && (!force || files.iter().any(|(_, stitched)| is_source(stitched))) {
        let what = format!("{} is there, and is no layout: give another name", path.display());
        return Err(Error::Invalid(what));
    }
    let mut draft = Draft::named(path, &mut || progress(0))?;
    let parent = led_to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let (mut encoder, mut before) = (Encoder::new(), 0_u64);
    for (name, stitched) in files {
        let file = &stitched.laid.file;
        file.describe(parent.unwrap_or(Path::new(".")), name, &mut encoder, &mut |text, described| {
            draft.write(text)?;
            Ok(progress(before.saturating_add(described)))
        })?;
        before = before.saturating_add(file.len());
    }
    let has_all = files.iter().all(|(_, stitched)| stitched.undone() == 0);
    Ok(draft.finish_or_keep(force || has_all)?)
}

/// Samples that are put into shards.
#[derive(Debug)]
pub struct ShardsGiven {
    /// The trees, as those of [`StitchGiven`].
    pub trees: Vec<Given>,
    /// How.
    pub wds: Wds,
    /// Where they will be written: a file there is left out.
    pub target: Option<PathBuf>,
}

/// Shards, each a file with its name.
#[derive(Debug)]
pub struct Sharded(Vec<Stitched>);

impl ShardsGiven {
    /// Lays them out: lists the trees, and reads nothing else. `go_on` is asked now and then, with
    /// the members so far.
    ///
    /// # Errors
    /// What cannot be opened or listed; what [`Wds::lay_out`] refuses.
    pub fn lay_out(self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Sharded> {
        let Self { trees, wds, target } = self;
        let (members, misplaced, _) = members_of(trees, target.as_deref(), go_on)?;
        let mut misplaced = Some(misplaced);
        let of = |laid| Stitched { laid, misplaced: misplaced.take().unwrap_or_default() };
        Ok(Sharded(wds.lay_out(members)?.into_iter().map(of).collect()))
    }
}

impl Sharded {
    /// Each shard.
    pub fn shards(&self) -> &[Stitched] {
        &self.0
    }

    /// How many bytes all have.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|shard| shard.laid.file.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How much of what was asked for is in none of them.
    pub fn undone(&self) -> u64 {
        self.0.iter().map(Stitched::undone).sum()
    }

    /// Writes them into a directory, which is made or has to be empty; with `force` files with
    /// their names are replaced. Each appears when it is whole. `progress` is called with the bytes
    /// so far, and ends it by returning `false`: what was written is removed then, and so it is
    /// where an error ends it, unless it replaced something.
    ///
    /// # Errors
    /// A directory that is not empty; as [`Stitched::write`].
    pub fn write(&self, path: &Path, force: bool, progress: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        let failed = |operation, error| crate::Error::io(operation, path, error);
        let is_made = !path.is_dir();
        if is_made {
            std::fs::create_dir(path).map_err(|error| failed("make", error))?;
        } else if !force && std::fs::read_dir(path).map_err(|error| failed("list", error))?.next().is_some() {
            let what = format!(
                "{} is not empty: shards that are there would be mixed with new ones",
                path.display()
            );
            return Err(Error::Invalid(what));
        }
        let (mut before, mut done) = (0_u64, Vec::new());
        let written = self.0.iter().try_for_each(|shard| {
            let file = path.join(shard.laid.file.path());
            shard.write(&file, true, &mut |at| progress(before.saturating_add(at)))?;
            before = before.saturating_add(shard.laid.file.len());
            done.push(file);
            Ok(())
        });
        if written.is_err() && !force {
            done.iter().for_each(|file| _ = std::fs::remove_file(file));
            if is_made {
                let _ = remove_if_empty(path);
            }
        }
        written
    }

    /// Writes a layout that describes them.
    ///
    /// # Errors
    /// As [`Stitched::save_layout`].
    pub fn save_layout(
        &self,
        path: &Path,
        force: bool,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let name = |shard: &Stitched| shard.laid.file.path().as_os_str().as_encoded_bytes().to_vec();
        let files: Vec<(Vec<u8>, &Stitched)> = self.0.iter().map(|shard| (name(shard), shard)).collect();
        save_all(path, &files, force, progress)
    }
}

impl StitchGiven {
    /// Lays it out: lists the trees, and reads nothing else. `go_on` is asked now and then, with
    /// the members so far.
    ///
    /// # Errors
    /// What cannot be opened or listed; two members with one path; what is too long.
    pub fn lay_out(self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Stitched> {
        let Self { trees, layout, target } = self;
        let (members, misplaced, path) = members_of(trees, target.as_deref(), go_on)?;
        let laid = layout.lay_out(path.with_extension(layout.ending()), members)?;
        Ok(Stitched { laid, misplaced })
    }
}

/// What is in the only tree, or each of several under its name, but for a file; what packs and
/// archives should have, and have not; and the path of the last tree.
fn members_of(
    trees: Vec<Given>,
    without: Option<&Path>,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<(Members, Vec<Failure<crate::Error>>, PathBuf)> {
    let is_only = trees.len() == 1;
    let (mut members, mut misplaced) = (Members::new(), Vec::new());
    let mut path = PathBuf::from("stitched");
    for given in trees {
        let branch = branch_of(given, &mut misplaced)?;
        path = branch.path();
        if let Some(file) = without {
            refuse_source(&branch, file)?;
        }
        let is_directory = branch.tree.node(branch.id)?.kind == Kind::Directory;
        let key = if is_only && is_directory { &b""[..] } else { &branch.name };
        members.add((branch.tree, branch.is_on_disk), branch.id, key, go_on)?;
    }
    if let Some(file) = without {
        members.leave_out_file(file);
    }
    // `.` has no name that a file could have.
    let path = if path.file_name().is_some() { path } else { PathBuf::from("stitched") };
    Ok((members, misplaced, path))
}

/// Refuses to write over a file that was named, and would be missing in it.
fn refuse_source(branch: &Branch, target: &Path) -> Result<()> {
    let numbers = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let is_file = branch.tree.node(branch.id)?.kind == Kind::File;
    let own = branch.lies_in.as_deref().filter(|_| is_file || !branch.is_on_disk).and_then(numbers);
    match own.is_some() && own == numbers(target) {
        true => {
            let what = format!("{} is what it is made of, and would be written over", target.display());
            Err(Error::Invalid(what))
        }
        false => Ok(()),
    }
}

/// What was opened; what it should have, and has not, is noted.
fn branch_of(given: Given, misplaced: &mut Vec<Failure<crate::Error>>) -> Result<Branch> {
    let (branch, lacking) = given.into_branch()?;
    let path = branch.path();
    misplaced.extend(lacking.into_iter().map(|one| {
        let error = crate::Error::io("read", &path, io::Error::other(one.why));
        Failure { key: one.path, error }
    }));
    Ok(branch)
}

/// What an archive is patched with.
#[derive(Debug)]
pub struct PatchGiven {
    /// A tar, a zip or an AFS.
    pub archive: Given,
    /// What is in them replaces, adds and deletes members, as [`Patch`] says. A later one counts
    /// more.
    pub folders: Vec<Given>,
    /// Whether names that differ only in case are one.
    pub case: CaseRule,
    /// Where it will be written, which is no member then.
    pub target: Option<PathBuf>,
}

impl PatchGiven {
    /// Lays it out: reads where members of the archive are, lists the folders, and reads nothing
    /// else. `go_on` is asked now and then, with the members so far.
    ///
    /// # Errors
    /// What cannot be opened or listed; what [`Patch`] refuses.
    pub fn lay_out(self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Stitched> {
        let Self { archive, folders, case, target } = self;
        let mut misplaced = Vec::new();
        let archive = branch_of(archive, &mut Vec::new())?;
        let path = archive.path();
        if archive.tree.node(archive.id)?.kind != Kind::File {
            let what = format!("{} is no archive, but a directory or a pack", path.display());
            return Err(Error::Invalid(what));
        }
        let patch = Patch::open(archive.tree.open(archive.id)?, case, go_on)?;
        let mut members = Members::new();
        for folder in folders {
            let branch = branch_of(folder, &mut misplaced)?;
            if branch.tree.node(branch.id)?.kind != Kind::Directory {
                let what = format!("{} is no folder with members", branch.path().display());
                return Err(Error::Invalid(what));
            }
            members.add((branch.tree, branch.is_on_disk), branch.id, b"", go_on)?;
        }
        // It is not meant to be in itself.
        members.leave_out_file(&path);
        if let Some(target) = &target {
            let before = members.all().len();
            members.leave_out_file(target);
            if members.all().len() < before {
                let what = format!("{} is one of the changes, and would be written over", target.display());
                return Err(Error::Invalid(what));
            }
        }
        Ok(Stitched { laid: patch.lay_out(path, members)?, misplaced })
    }
}
