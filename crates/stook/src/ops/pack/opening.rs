//! The pack that sources go into: opened or made, finished, or taken back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use super::hooks::{Reporting, Stage};
use super::making::{Made, Making, OpenedWriter, look_at, open_or_make, report_opening};
use super::{Error, NothingSelected, PackSources, Result};
use crate::ops::contents::is_object;
use crate::ops::import::{self, Source};
use crate::pack::tree::{Delete, PackSummary, PackTree};
use crate::pack::{self, OpenOptions, Pack, PackWriter};
use crate::source;
use crate::storage::{Storage, free_bytes};

/// Free space below which sources are counted before anything is written, in bytes.
const COUNT_FIRST_BELOW: u64 = 32 << 30;

/// What head, checksums and index of a record take, about, in bytes.
const RECORD_LEN: u64 = 150;

/// What goes into a pack.
#[derive(Clone, Copy)]
pub(super) enum Input<'t> {
    Tree(&'t PackTree<'t>),
    Archives(&'t [Source<'t>]),
}

/// A pack that sources go into.
pub(super) struct OpenedPack {
    /// `None` if nothing is to be done.
    pub(super) writer: Option<PackWriter>,
    /// The directory that it writes to; `None` if nothing is to be done.
    pub(super) storage: Option<Arc<dyn Storage>>,
    /// Its previous state.
    pub(super) before: Option<Pack>,
    /// What was created for this run, if there was no pack.
    made: Option<Made>,
}

impl OpenedPack {
    fn was_complete(&self) -> bool {
        self.before.as_ref().is_some_and(Pack::is_complete)
    }
}

impl PackSources<'_> {
    /// Opens the pack, or makes it. One that was there says that it is incomplete from the first
    /// change on.
    /// What goes into it is checked against what is in it, and against the room that there is.
    pub(super) fn open(&self, input: Input<'_>, reporting: &mut Reporting<'_>) -> Result<OpenedPack> {
        if self.dry_run {
            return self.open_dry(input, reporting);
        }
        let opened = open_or_make(&self.pack, self.writer_options(), Making::IfMissing, &mut || {
            self.check_space(input, None, reporting)
        })?;
        let OpenedWriter { mut writer, storage, made } = opened;
        if made.is_some() {
            writer.set_roots(self.sources.iter().map(|source| root_of(source)).collect());
            return Ok(OpenedPack { writer: Some(writer), storage: Some(storage), before: None, made });
        }
        report_opening(&writer, reporting.hooks);
        // Through the same opening of the directory: another may have taken its place.
        let before = Pack::open(storage.clone(), OpenOptions::default())?;
        reporting.hooks.watch(before.damage_log());
        check_roots(input, &before)?;
        // Not earlier: what a run that was cut off left in the pack is known only now.
        self.check_space(input, Some(&before), reporting)?;
        writer.set_incomplete_on_change();
        Ok(OpenedPack { writer: Some(writer), storage: Some(storage), before: Some(before), made: None })
    }

    /// What is there, for a run that only says what it would do.
    fn open_dry(&self, input: Input<'_>, reporting: &mut Reporting<'_>) -> Result<OpenedPack> {
        let nothing = OpenedPack { writer: None, storage: None, before: None, made: None };
        let Some(storage) = look_at(&self.pack, Making::IfMissing)? else { return Ok(nothing) };
        storage.check_writable().map_err(pack::Error::from)?;
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let before = match Pack::open(storage.clone(), OpenOptions::default()) {
            Err(pack::Error::NotAPack { .. }) => {
                PackWriter::check_create(storage.as_ref())?;
                return Ok(nothing);
            }
            opened => opened?,
        };
        reporting.hooks.watch(before.damage_log());
        before.check_writable()?;
        check_roots(input, &before)?;
        Ok(OpenedPack { before: Some(before), ..nothing })
    }

    /// Where space is scarce, counts the bytes of the tree or the archives first.
    fn check_space(
        &self,
        input: Input<'_>,
        before: Option<&Pack>,
        reporting: &mut Reporting<'_>,
    ) -> Result<()> {
        if self.scarce_room()?.is_none() {
            return Ok(());
        }
        let choice = reporting.choice;
        let mut progress = |entries: u64, bytes: u64| reporting.goes_on(Stage::Counting, entries, bytes);
        let counted = match input {
            Input::Tree(tree) => tree.run(None, before, &mut progress)?,
            Input::Archives(sources) => {
                import::count(sources, &|key, kind| choice.takes_below(key, kind), before, &mut progress)?
            }
        };
        reporting.finish(Stage::Counting);
        if reporting.is_abandoned() {
            return Err(Error::Abandoned);
        }
        if counted.interrupted {
            return Err(Error::Interrupted);
        }
        // The selection is asked again about everything that is packed.
        reporting.choice.forget();
        self.check_counted(&counted)
    }

    /// The directory that the pack is in, and its free space if that is little.
    fn scarce_room(&self) -> Result<Option<(&Path, u64)>> {
        let place = match self.pack.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let free = free_bytes(place).map_err(pack::Error::from)?;
        Ok((free < COUNT_FIRST_BELOW).then_some((place, free)))
    }

    /// Refuses what was counted where space is scarce and it does not fit.
    pub(super) fn check_counted(&self, counted: &PackSummary) -> Result<()> {
        let Some((place, free)) = self.scarce_room()? else { return Ok(()) };
        let needed = counted.bytes + RECORD_LEN * counted.added();
        match needed > free {
            true => Err(Error::NoSpace { needed, free, place: place.to_path_buf() }),
            false => Ok(()),
        }
    }

    /// Ends the writing, or removes a pack that was made in vain; returns whether the pack is
    /// complete.
    ///
    /// What was packed is kept even if the rest could not be: the next run continues from there.
    pub(super) fn close(
        &self,
        opened: OpenedPack,
        packed: Option<&PackSummary>,
        nothing: Option<NothingSelected>,
        reporting: &mut Reporting<'_>,
    ) -> Result<bool> {
        let was_complete = opened.was_complete();
        let is_abandoned = reporting.is_abandoned();
        let is_in_vain = is_abandoned || nothing.is_some_and(|nothing| nothing.is_error);
        let is_whole = |summary: &PackSummary| {
            // If deleting was refused, nothing was packed: the pack is as it was.
            let is_packed = summary.refused.is_none() || was_complete;
            is_packed && !summary.interrupted && summary.failures.is_empty()
        };
        let is_done = !is_abandoned && packed.is_some_and(is_whole);
        let complete = is_done && self.may_complete(&opened, nothing, reporting)?;
        if is_done && !complete {
            let shown = self.pack.display();
            reporting.hooks.note(&format!(
                "{shown} was incomplete, and stays so until a run packs all of what it was made from; where \
                 that is gone, `stook check --accept` accepts it as it is"
            ));
        }
        match (opened.writer, opened.made, packed) {
            (Some(writer), Some(made), _) if is_in_vain => made.take_back(writer, &self.pack)?,
            (Some(mut writer), _, Some(summary)) => {
                let is_cut_off = is_abandoned || summary.interrupted;
                // An interrupted run found out nothing about the pack: its mark stays, or is
                // incomplete from the first change on. The same holds for a run that may not
                // complete it.
                if !is_cut_off && complete == is_done {
                    writer.set_complete(complete);
                }
                if self.move_originals && !is_cut_off {
                    writer.set_moved();
                }
                // What a build leaves is sealed; what later runs add stays open for the next.
                writer.finish(complete && !was_complete).map_err(Error::Finish)?;
            }
            _ => {}
        }
        if is_abandoned { Err(Error::Abandoned) } else { Ok(complete) }
    }

    /// Whether a fully successful run makes the pack complete: missing records of an incomplete one
    /// are elsewhere if nothing was selected, if the run was of other sources, or if its patterns
    /// exclude records of the pack.
    fn may_complete(
        &self,
        opened: &OpenedPack,
        nothing: Option<NothingSelected>,
        reporting: &Reporting<'_>,
    ) -> Result<bool> {
        let Some(before) = opened.before.as_ref().filter(|before| !before.is_complete()) else {
            return Ok(true);
        };
        let is_in_vain = nothing.is_some() && reporting.choice.is_selective();
        if is_in_vain || !self.has_roots_of(before) {
            return Ok(false);
        }
        if self.patterns.is_all() {
            return Ok(true);
        }
        let takes = |path: &[u8]| [false, true].iter().any(|kind| self.patterns.takes_below(path, || *kind));
        let log = before.damage_log();
        for entry in before.keys(&[])? {
            let Some(entry) = log.unless_damaged(entry)? else { return Ok(false) };
            if entry.key.as_bytes().is_some_and(|path| !self.is_root(path) && !takes(path)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a key is that of a source itself, which is packed regardless of the patterns.
    fn is_root(&self, path: &[u8]) -> bool {
        let mut names = self.sources.iter().filter_map(|source| source.file_name());
        path.is_empty() || names.any(|name| name.as_encoded_bytes() == path)
    }

    /// Whether the sources are those that the pack was made from, if it says which.
    fn has_roots_of(&self, before: &Pack) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        let is_same = |root: &Path, source: &Path| {
            root.as_os_str().as_bytes() == root_of(source)
                || real(root).is_some_and(|root| real(source) == Some(root))
        };
        let is_named = |root: &Vec<u8>| {
            let root = Path::new(OsStr::from_bytes(root));
            self.sources.iter().any(|source| is_same(root, source))
        };
        let roots = before.roots();
        roots.is_empty() || (roots.len() == self.sources.len() && roots.iter().all(is_named))
    }
}

/// What a pack says that it was made from: a path as it was given, an address without its secrets.
pub(super) fn root_of(source: &Path) -> Vec<u8> {
    match source.to_str().filter(|_| is_object(source)) {
        Some(address) => source::shown(address).into_bytes(),
        None => source.as_os_str().as_bytes().to_vec(),
    }
}

/// What cannot be deleted is reported before anything is packed.
fn check_roots(input: Input<'_>, before: &Pack) -> Result<()> {
    match input {
        Input::Tree(tree) if tree.delete != Delete::Nothing => tree.check_roots(before).map_err(Error::Roots),
        _ => Ok(()),
    }
}
