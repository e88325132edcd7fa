//! Archives of anything that is given, without writing them, or written out.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::given::Given;
use super::shards::Left;
use crate::copy::Misplaced;
use crate::format::layout::Encoder;
use crate::report::units;
use crate::source::{Inodes, Source as _};
use crate::stitch::{self, Laid, Layout, Members, OpenedLayout, Patch, Wds};
use crate::storage::free_at;
use crate::tree::{CaseRule, Draft, Failure, Kind, room};
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
    /// What it has no room for.
    #[error("{0}")]
    NoRoom(String),
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
    /// What must not be written over.
    named: Named,
}

/// Files on disk that were named, those that hold packs and archives, and what archives are made of
/// that layouts describe.
#[derive(Debug, Clone, Default)]
struct Named(Inodes);

fn numbers_of(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|found| (found.dev(), found.ino()))
}

impl Named {
    /// Notes one that is opened. `is_whole` says that a file counts which is what was named itself.
    fn add(&mut self, branch: &Branch, is_whole: bool) -> Result<()> {
        let is_file = is_whole && branch.tree.node(branch.id)?.kind == Kind::File;
        let own = branch.lies_in.as_deref().filter(|_| is_file || !branch.is_on_disk);
        self.0.extend(own.and_then(numbers_of));
        branch.tree.note_files(&mut self.0);
        Ok(())
    }

    fn refuse(&self, target: &Path) -> Result<()> {
        match numbers_of(target).is_some_and(|own| self.0.contains(&own)) {
            true => Err(written_over(target)),
            false => Ok(()),
        }
    }
}

fn written_over(target: &Path) -> Error {
    Error::Invalid(format!("{} is what it is made of, and would be written over", target.display()))
}

/// Opens a file that a layout describes: the one with a name, or the only one. Its members are not
/// known.
///
/// # Errors
/// As [`OpenedLayout::open`] and [`OpenedLayout::file`].
pub fn open_layout(path: &Path, name: Option<&[u8]>) -> Result<Stitched> {
    let layout = OpenedLayout::open(path)?;
    let file = layout.file(name)?;
    let mut named = Named(numbers_of(path).into_iter().collect());
    file.note_files(&mut named.0);
    let laid = Laid { file, members: Arc::new(Members::new()), starts: Arc::default() };
    Ok(Stitched { laid, misplaced: Vec::new(), named })
}

/// Refuses to write over what files are made of.
pub(super) fn refuse_sources(files: &[Stitched], targets: &[PathBuf]) -> Result<()> {
    for target in targets.iter().filter(|target| target.symlink_metadata().is_ok()) {
        files.iter().try_for_each(|file| file.named.refuse(target))?;
        if files.iter().any(|file| file.laid.members.has_file(target)) {
            return Err(written_over(target));
        }
    }
    Ok(())
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
    /// That there is not enough room, unless `force`; that it is made of the file that is there;
    /// what cannot be read or written; [`stitch::Error::Interrupted`].
    pub fn write(&self, path: &Path, force: bool, progress: &mut dyn FnMut(u64) -> bool) -> Result<bool> {
        refuse_sources(std::slice::from_ref(self), &[path.to_path_buf()])?;
        let is_other = path.metadata().is_ok_and(|found| !found.is_file());
        if !force && !is_other {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            refuse_too_little_room(path, parent.unwrap_or(Path::new(".")), self.laid.file.len())?;
        }
        let draft = self.fill(Draft::named(path, &mut || progress(0))?, progress)?;
        Ok(draft.finish_or_keep(force || self.undone() == 0)?)
    }

    /// Writes all its bytes.
    pub(super) fn fill(&self, mut draft: Draft, progress: &mut dyn FnMut(u64) -> bool) -> Result<Draft> {
        let (len, mut at) = (self.laid.file.len(), 0);
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
        Ok(draft)
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

/// Refuses to write more than there is room for in a directory.
pub(super) fn refuse_too_little_room(path: &Path, directory: &Path, len: u64) -> Result<()> {
    let (needed, free) = (room::of_file(len), free_at(directory)?);
    if needed <= free {
        return Ok(());
    }
    let what = format!(
        "{} would be needed for {}, and {} are free: make room, or choose another place",
        units::bytes_decimal(needed),
        path.display(),
        units::bytes_decimal(free)
    );
    Err(Error::Invalid(what))
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
    for (_, stitched) in files {
        refuse_sources(std::slice::from_ref(stitched), std::slice::from_ref(&led_to))?;
    }
    if is_other && (!force || files.iter().any(|(_, stitched)| is_source(stitched))) {
        let way = if force { "" } else { ", or `--force`" };
        let what = format!("{} is there, and is no layout: give another name{way}", path.display());
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
    /// Where they will be written: a file there is left out, and what a killed run left in this
    /// directory.
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
        let Opened { mut members, misplaced, named, .. } = members_of(trees, target.as_deref(), go_on)?;
        if let Some(target) = &target {
            let left = Left { prefix: wds.prefix.as_bytes() };
            members.leave_out_in(target, |name| left.is_unfinished(OsStr::from_bytes(name)));
        }
        let mut misplaced = Some(misplaced);
        let of =
            |laid| Stitched { laid, misplaced: misplaced.take().unwrap_or_default(), named: named.clone() };
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
        let Opened { members, misplaced, named, path } = members_of(trees, target.as_deref(), go_on)?;
        let laid = layout.lay_out(path.with_extension(layout.ending()), members)?;
        Ok(Stitched { laid, misplaced, named })
    }
}

/// What is in trees.
struct Opened {
    members: Members,
    /// What packs and archives should have, and have not.
    misplaced: Vec<Failure<crate::Error>>,
    named: Named,
    /// The path of the last tree.
    path: PathBuf,
}

/// What is in the only tree, or each of several under its name, but for a file.
fn members_of(
    trees: Vec<Given>,
    without: Option<&Path>,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Opened> {
    let is_only = trees.len() == 1;
    let (mut members, mut misplaced, mut named) = (Members::new(), Vec::new(), Named::default());
    let mut path = PathBuf::from("stitched");
    for given in trees {
        let branch = branch_of(given, &mut misplaced)?;
        path = branch.path();
        named.add(&branch, true)?;
        let is_directory = branch.tree.node(branch.id)?.kind == Kind::Directory;
        let key = if is_only && is_directory { &b""[..] } else { &branch.name };
        members.add((branch.tree, branch.is_on_disk), branch.id, key, go_on)?;
    }
    if let Some(file) = without {
        named.refuse(file)?;
        members.leave_out_file(file);
    }
    // `.` has no name that a file could have.
    let path = if path.file_name().is_some() { path } else { PathBuf::from("stitched") };
    Ok(Opened { members, misplaced, named, path })
}

/// What was opened; what it should have, and has not, is noted.
pub(super) fn branch_of(given: Given, misplaced: &mut Vec<Failure<crate::Error>>) -> Result<Branch> {
    let (branch, lacking) = given.into_branch()?;
    misplaced.extend(failures_of(&branch.path(), lacking));
    Ok(branch)
}

/// What has no place in a tree, as failures of it.
pub(super) fn failures_of(
    path: &Path,
    lacking: Vec<Misplaced>,
) -> impl Iterator<Item = Failure<crate::Error>> {
    lacking.into_iter().map(move |one| {
        let mut of = path.as_os_str().to_owned();
        if !one.path.is_empty() {
            of.push("//");
            of.push(OsStr::from_bytes(&one.path));
        }
        let error = crate::Error::io("read", of, io::Error::other(one.why));
        Failure { key: one.path, error }
    })
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
        let (mut misplaced, mut named) = (Vec::new(), Named::default());
        let archive = branch_of(archive, &mut Vec::new())?;
        let path = archive.path();
        // The archive itself may be replaced, but nothing that it is a part of.
        named.add(&archive, false)?;
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
            named.add(&branch, false)?;
            members.add((branch.tree, branch.is_on_disk), branch.id, b"", go_on)?;
        }
        // It is not meant to be in itself.
        members.leave_out_file(&path);
        if let Some(target) = &target {
            named.refuse(target)?;
            let before = members.all().len();
            members.leave_out_file(target);
            if members.all().len() < before {
                let what = format!("{} is one of the changes, and would be written over", target.display());
                return Err(Error::Invalid(what));
            }
        }
        Ok(Stitched { laid: patch.lay_out(path, members)?, misplaced, named })
    }
}
