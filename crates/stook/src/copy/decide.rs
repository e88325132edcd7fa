//! What becomes of a file in a destination: decided before it is read.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};

use super::attributes::Corrected;
use super::body::FileJob;
use super::destination::{Noted, Receiver, Spot};
use super::events::{Action, Why};
use super::finish::shown;
use super::mirror::is_mounted;
use super::refuse::Inode;
use crate::hash::Digest;
use crate::tree::existing::{Plan, mtime_of};
use crate::tree::outbox::{NewName, Replaces};
use crate::tree::target;
use crate::tree::{Kind, Overwrite};

/// Where a file goes, and what is done there.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) job: FileJob,
    pub(super) spot: Spot,
    pub(super) plan: Plan,
    pub(super) why: Why,
    /// The file that its bytes are compared with, if they are.
    pub(super) compared: Option<Spot>,
    /// Whether that is of an earlier copy, to become this one as well.
    pub(super) is_earlier: bool,
    /// What has the name, if something has.
    pub(super) there: Option<Inode>,
}

impl Place {
    /// The same, where the bytes that are there were compared, and it is written all the same.
    pub(super) fn compared(self, is_same: bool) -> Self {
        // What is there has other names and other attributes.
        let why = if is_same && !self.is_earlier { Why::Metadata } else { self.why };
        Self { why, ..self }
    }
}

impl Receiver {
    /// Whether a destination needs the bytes of a file, and what for. What is decided without them
    /// is done and noted.
    pub(super) fn decide(&self, job: &FileJob) -> Option<Place> {
        if self.is_stopped() || job.only.is_some_and(|only| only != self.index) {
            return None;
        }
        if self.has_other_history(job) {
            let what = "the destination has a history of its own (ascmhl), which this one does not continue; \
                        it is kept: copy into a directory of its own, or leave ascmhl/ out";
            self.fail_io("copy", &job.key, io::Error::other(what));
            return None;
        }
        let spot = match self.spot(&job.key) {
            Ok(Some(spot)) => spot,
            Ok(None) => return self.decide_new(job, None),
            Err(Noted) => return None,
        };
        match target::status(&spot.parent, &spot.name) {
            Ok(None) => self.decide_new(job, Some(spot)),
            Ok(Some(_)) if self.continues_chain(job, &spot) => {
                self.note_continued(job);
                None
            }
            Ok(Some(there)) => match self.check_there(&job.key, (&spot.parent, &spot.name), &there) {
                Ok(()) => self.decide_existing(job, spot, &there),
                Err(error) => {
                    self.fail_io("write", &job.key, error);
                    None
                }
            },
            Err(error) => {
                self.fail_io("look for", &job.key, error);
                None
            }
        }
    }

    /// Nothing has the name. Without a place for it, which only a dry run has, it may still be in
    /// an earlier copy.
    fn decide_new(&self, job: &FileJob, spot: Option<Spot>) -> Option<Place> {
        let dry_run = self.options.dry_run;
        let place = |spot, compared: Option<Spot>| {
            // A dry run only compares.
            let plan = if dry_run { Plan::Compare } else { Plan::Write };
            let is_earlier = compared.is_some();
            Place { job: job.clone(), spot, plan, why: Why::New, compared, is_earlier, there: None }
        };
        match self.earlier_spot(job) {
            Some(earlier) if self.options.checksum => {
                Some(place(spot.unwrap_or_else(|| earlier.clone()), Some(earlier)))
            }
            Some(earlier) if self.link_earlier(job, spot.as_ref(), &earlier, &Arc::default()) => None,
            _ if dry_run => {
                self.would(job, Why::New);
                None
            }
            _ => spot.map(|spot| place(spot, None)),
        }
    }

    /// Something has the name.
    fn decide_existing(&self, job: &FileJob, spot: Spot, there: &Stat) -> Option<Place> {
        let kind = FileType::from_raw_mode(there.st_mode);
        self.has_other_names(there);
        if kind.is_dir() {
            let what = "a directory is there, and the source has a file: remove it, or rename it";
            self.fail_io("write", &job.key, io::Error::new(io::ErrorKind::IsADirectory, what));
            return None;
        }
        let has_len = u64::try_from(there.st_size).is_ok_and(|len| len == job.node.len);
        let has_time = self.has_time(&spot.parent, there, job.node.mtime_ns);
        let kept_ns = self.kept_time(&spot.parent, there, job.node.mtime_ns);
        let newer_ns = kept_ns.filter(|ns| mtime_of(there) < i128::from(*ns));
        let overwrite = self.options.overwrite;
        let is_alike = kind.is_file() && has_len;
        let other = if kind.is_file() { Why::Len } else { Why::OtherKind };
        let (plan, why) = match (overwrite, newer_ns) {
            (Overwrite::Always, _) => (Plan::Replace, Why::Asked),
            _ if is_alike && has_time && !self.options.checksum && self.is_still_there(job) => {
                if self.skip(job, &spot, there, &Arc::default()) {
                    return None;
                }
                (Plan::Replace, Why::Metadata)
            }
            (Overwrite::Older, Some(ns)) => (Plan::ReplaceOlder(ns), Why::Older),
            (Overwrite::Different, _) if !is_alike => (Plan::Replace, other),
            (Overwrite::Different, _) => (Plan::ReplaceIfOther, Why::Content),
            (Overwrite::Never | Overwrite::Older, _) if !is_alike => {
                self.keep(&job.key, (Kind::File, job.node.len), other);
                return None;
            }
            (Overwrite::Never | Overwrite::Older, _) => (Plan::Compare, Why::Content),
        };
        if self.options.dry_run && !plan.compares() {
            self.would(job, why);
            return None;
        }
        // A dry run only compares.
        let plan = if self.options.dry_run { Plan::Compare } else { plan };
        let compared = plan.compares().then(|| spot.clone());
        let there = Some((there.st_dev, there.st_ino));
        Some(Place { job: job.clone(), spot, plan, why, compared, is_earlier: false, there })
    }

    /// Whether the source is still what was listed, where more is asked of it than that: else it is
    /// read, as what it is now.
    fn is_still_there(&self, job: &FileJob) -> bool {
        let is_asked = self.options.xattrs || self.options.overwrite == Overwrite::Different;
        let source = self.sources.get(job.source).filter(|_| is_asked);
        source.is_none_or(|source| source.tree.node(job.id).is_ok())
    }

    /// What a dry run says.
    fn would(&self, job: &FileJob, why: Why) {
        self.note_first(&job.key, &job.node, true);
        self.report_file(job, (Action::Copy, why));
    }

    pub(super) fn report_file(&self, job: &FileJob, what: (Action, Why)) {
        self.report_read(job, what, &Arc::default());
    }

    /// The same of a file of which all bytes are known.
    pub(super) fn report_read(&self, job: &FileJob, what: (Action, Why), digests: &Arc<[Digest]>) {
        self.note_digests(job, digests);
        self.report(&job.key, (Kind::File, job.node.len), what, digests.clone());
    }

    /// What is there is the file that is copied. Its digests are known if it was read. Whether it
    /// can stay: it may have other names, which keep its attributes.
    fn skip(&self, job: &FileJob, spot: &Spot, there: &Stat, digests: &Arc<[Digest]>) -> bool {
        let Corrected { is_corrected, unset } = match self.correct_file(job, spot, there) {
            Ok(Some(corrected)) => corrected,
            Ok(None) => return false,
            Err(error) => {
                self.fail_io("set mode and time of", &job.key, error);
                return true;
            }
        };
        self.add_file();
        {
            let mut state = self.state();
            state.report.unchanged += 1;
            state.report.corrected += u64::from(is_corrected);
            state.report.unset_xattrs.note(&job.key, unset);
        }
        self.note_first(&job.key, &job.node, false);
        self.forget_partial(job, spot);
        let what = if is_corrected { (Action::Correct, Why::Metadata) } else { (Action::Skip, Why::Same) };
        self.report_read(job, what, digests);
        true
    }

    /// Does what a comparison decides; whether nothing is left to be written.
    pub(super) fn settle(
        &self,
        place: &Place,
        is_same: bool,
        seen: Option<&Stat>,
        digests: &Arc<[Digest]>,
    ) -> bool {
        if let Some(earlier) = place.compared.as_ref().filter(|_| place.is_earlier) {
            let is_linked = is_same && self.link_earlier(&place.job, Some(&place.spot), earlier, digests);
            if !is_linked && self.options.dry_run {
                self.would(&place.job, place.why);
            }
            return is_linked || self.options.dry_run;
        }
        (is_same || place.plan == Plan::Compare) && self.compared(place, is_same, seen, digests)
    }

    /// What a file was to be compared with cannot be read; whether that is taken for another file.
    /// What may be replaced is, and so the damage is gone. That an earlier copy is damaged is
    /// reported, and the file is copied all the same. Neither says anything of writing.
    pub(super) fn takes_for_other(&self, place: &Place, error: io::Error) -> bool {
        let key = &place.job.key;
        let below = place.is_earlier.then_some(self.options.link_dest.as_ref()).flatten();
        let path = below.map_or_else(|| self.path_of(key), |earlier| earlier.join(shown(key)));
        let may_go = self.options.overwrite == Overwrite::Different && !place.is_earlier;
        if !may_go {
            self.fail_reading(key, crate::Error::io("read", path, error));
        }
        may_go || place.is_earlier
    }

    /// What was compared is the same, or another that stays. Whether nothing is left to be written.
    fn compared(&self, place: &Place, is_same: bool, seen: Option<&Stat>, digests: &Arc<[Digest]>) -> bool {
        let job = &place.job;
        if !is_same {
            // Only a dry run comes here with what would be replaced.
            match self.options.overwrite {
                Overwrite::Different => self.would(job, place.why),
                _ => self.keep(&job.key, (Kind::File, job.node.len), place.why),
            }
            return true;
        }
        match target::status(&place.spot.parent, &place.spot.name) {
            Ok(Some(there)) if seen.is_some_and(|seen| is_unchanged(seen, &there)) => {
                let stays = self.skip(job, &place.spot, &there, digests);
                if !stays && self.options.dry_run {
                    self.would(job, Why::Metadata);
                }
                return stays || self.options.dry_run;
            }
            Ok(Some(_)) => self.fail_io("compare", &job.key, io::Error::other(CHANGED)),
            Ok(None) => self.fail_io("look for", &job.key, rustix::io::Errno::NOENT.into()),
            Err(error) => self.fail_io("look for", &job.key, error),
        }
        true
    }

    /// The file of the same path in an earlier copy, if it looks the same.
    fn earlier_spot(&self, job: &FileJob) -> Option<Spot> {
        let mut earlier = self.earlier.as_ref()?.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let parts = target::parts(&job.key).ok()?;
        let (name, parents) = parts.split_last()?;
        // What cannot be looked at there is copied.
        let parent = earlier.existing(parents).ok()??;
        let there = target::status(&parent, name).ok()??;
        let has_len = u64::try_from(there.st_size).is_ok_and(|len| len == job.node.len);
        let is_file = FileType::from_raw_mode(there.st_mode).is_file();
        let is_alike = is_file && has_len && self.has_time(&parent, &there, job.node.mtime_ns);
        let spot = Spot { parent, name: (*name).to_os_string() };
        // All attributes are shared by all names of a file.
        // One file would be the source and its copy.
        let source = self.sources.get(job.source)?.inode(job.id).ok()?;
        let is_source = source == Some((there.st_dev, there.st_ino));
        let wanted = self.wanted((job.source, job.id), &job.node).ok();
        let wanted = wanted.filter(|_| is_alike && !is_source)?;
        let has_all = self.has_all_attributes(&spot, &there, &wanted).ok()?;
        // What the source does not give now, an earlier copy may have; else it is missed.
        (has_all && self.lost(&spot, &wanted).ok()?.why.is_none()).then_some(spot)
    }

    /// Makes a file of an earlier copy this one as well; whether that could be.
    fn link_earlier(
        &self,
        job: &FileJob,
        spot: Option<&Spot>,
        earlier: &Spot,
        digests: &Arc<[Digest]>,
    ) -> bool {
        if self.options.dry_run {
            let can_be = self.could_link(&job.key, earlier);
            if can_be {
                self.note_first(&job.key, &job.node, true);
                self.report_read(job, (Action::LinkEarlier, Why::New), digests);
            }
            return can_be;
        }
        let Some(spot) = spot else { return false };
        let (parent, name) = (&spot.parent, spot.name.as_os_str());
        let new = NewName { parent, name, replaces: Replaces::Nothing, backup: None };
        let linked = self.making(parent, || self.outbox.hard_link((&earlier.parent, &earlier.name), &new));
        // On another file system, or with as many names as a file can have: it is copied.
        if linked.is_err() {
            return false;
        }
        self.add_file();
        self.state().report.linked += 1;
        self.forget_partial(job, spot);
        self.note_first(&job.key, &job.node, true);
        self.report_read(job, (Action::LinkEarlier, Why::New), digests);
        true
    }

    /// Whether a file of an earlier copy could get one more name where a key goes: on the same
    /// mount of a file system that has hard links.
    fn could_link(&self, key: &[u8], earlier: &Spot) -> bool {
        let path = self.path_of(key);
        let above = path.ancestors().skip(1).map(|above| match above.as_os_str().is_empty() {
            true => Path::new("."),
            false => above,
        });
        let near = above.into_iter().find_map(|above| target::open(above).ok());
        let is_one = near.map(|near| Ok::<_, io::Error>(!is_mounted(&near, &earlier.parent)?));
        !self.is_in_order() && matches!(is_one, Some(Ok(true)))
    }
}

/// Why what was looked at is not taken for the same.
pub(super) const CHANGED: &str = "another program changed it meanwhile";

/// Whether a file is the one that was seen, with the bytes that it had then.
pub(super) fn is_unchanged(seen: &Stat, now: &Stat) -> bool {
    let of = |status: &Stat| (status.st_dev, status.st_ino, status.st_size, mtime_of(status));
    of(seen) == of(now)
}
