//! The pack that sources go into: opened or made, finished, or taken back.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use super::completing::{Packed, RunEnd};
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
            writer.set_roots(self.roots()?);
            return Ok(OpenedPack { writer: Some(writer), storage: Some(storage), before: None, made });
        }
        report_opening(&writer, reporting.hooks);
        // Through the same opening of the directory: another may have taken its place.
        let before = Pack::open(storage.clone(), OpenOptions::default())?;
        reporting.hooks.watch(before.damage_log());
        self.check_roots(input, &before)?;
        // Not earlier: what a run that was cut off left in the pack is known only now.
        self.check_space(input, Some(&before), reporting)?;
        writer.set_incomplete_on_change(self.unfinished_with(&before)?);
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
        self.check_roots(input, &before)?;
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

    /// Ends the writing, or removes a pack that was made for nothing; returns whether this run came
    /// to its end, and the pack is complete.
    ///
    /// What was packed is kept even if the rest could not be: the next run continues from there.
    pub(super) fn close(
        &self,
        opened: OpenedPack,
        packed: Option<Packed<'_>>,
        nothing: Option<NothingSelected>,
        reporting: &mut Reporting<'_>,
    ) -> Result<bool> {
        let was_complete = opened.was_complete();
        let is_abandoned = reporting.is_abandoned();
        let is_in_vain = is_abandoned || nothing.is_some_and(|nothing| nothing.is_error);
        let end = match packed {
            Some(packed) if !is_abandoned => RunEnd::of(packed.summary),
            _ => RunEnd::CutOff,
        };
        let complete = end == RunEnd::Done
            && match &opened.before {
                Some(before) => self.may_complete(before, packed, nothing, reporting)?,
                None => true,
            };
        if let Some(before) = opened.before.as_ref().filter(|_| end == RunEnd::Done && !complete) {
            reporting.hooks.note(&self.stays_incomplete(before));
        }
        match (opened.writer, opened.made, packed) {
            (Some(writer), Some(made), _) if is_in_vain => made.take_back(writer, &self.pack)?,
            (Some(mut writer), _, Some(_)) => {
                self.mark(&mut writer, opened.before.as_ref(), end, complete)?;
                if self.move_originals && end != RunEnd::CutOff {
                    writer.set_moved(self.roots()?);
                }
                // What a build leaves is sealed; what later runs add stays open for the next.
                writer.finish(complete && !was_complete).map_err(Error::Finish)?;
            }
            (Some(writer), _, None) => {
                // An error ended the run, and is reported. What came whole before it is kept: of a
                // stream it cannot be read again. Where that fails, too, nothing is lost but this,
                // and the pack says that it is incomplete.
                let _ = writer.finish(false);
            }
            _ => {}
        }
        // Where nothing was done, nothing was completed.
        if is_abandoned { Err(Error::Abandoned) } else { Ok(complete && !is_in_vain) }
    }

    /// Has the writer say what is known of the pack at the end of a run.
    fn mark(
        &self,
        writer: &mut PackWriter,
        before: Option<&Pack>,
        end: RunEnd,
        complete: bool,
    ) -> Result<()> {
        match end {
            // It found out nothing about the pack: its mark stays, or is incomplete from the first
            // change on.
            RunEnd::CutOff | RunEnd::Refused => {}
            RunEnd::Done if complete => writer.set_complete(true),
            // Others are unfinished still, and this one is not.
            RunEnd::Done => writer.set_unfinished(before.map_or(&[][..], Pack::unfinished).to_vec()),
            RunEnd::Failed => {
                writer.set_complete(false);
                if let Some(before) = before {
                    writer.set_unfinished(self.unfinished_with(before)?);
                }
            }
        }
        Ok(())
    }

    /// What cannot be deleted, and what would be packed again under other keys, is reported before
    /// anything is packed.
    fn check_roots(&self, input: Input<'_>, before: &Pack) -> Result<()> {
        match input {
            Input::Tree(tree) if tree.delete != Delete::Nothing => {
                tree.check_roots(before).map_err(Error::Roots)
            }
            Input::Tree(_) => self.check_keys(before).map_err(Error::Roots),
            Input::Archives(_) => Ok(()),
        }
    }
}

/// What a pack says that it was made from: a path as it was given, an address without its secrets.
pub(super) fn root_of(source: &Path) -> Vec<u8> {
    match source.to_str().filter(|_| is_object(source)) {
        Some(address) => source::shown(address).into_bytes(),
        None => source.as_os_str().as_bytes().to_vec(),
    }
}
