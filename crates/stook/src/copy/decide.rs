//! What becomes of a file in a destination: decided before it is read.

use std::io;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, Stat};

use super::body::FileJob;
use super::destination::{Noted, Receiver, Spot};
use super::events::{Action, Why};
use crate::tree::existing::{Plan, mtime_of};
use crate::tree::outbox::{NewName, Replaces};
use crate::tree::target::{self, FileMetadata};
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
}

impl Receiver {
    /// Whether a destination needs the bytes of a file, and what for. What is decided without them
    /// is done and noted.
    pub(super) fn decide(&self, job: &FileJob) -> Option<Place> {
        if self.is_stopped() || job.only.is_some_and(|only| only != self.index) {
            return None;
        }
        let spot = match self.spot(&job.key) {
            Ok(Some(spot)) => spot,
            Ok(None) => {
                match self.earlier_spot(job) {
                    Some(_) => self.report_file(job, (Action::LinkEarlier, Why::New)),
                    None => self.would(job, Why::New),
                }
                return None;
            }
            Err(Noted) => return None,
        };
        match target::status(&spot.parent, &spot.name) {
            Ok(None) => self.decide_new(job, spot),
            Ok(Some(_)) if self.continues_chain(job, &spot) => {
                self.note_continued(job);
                None
            }
            Ok(Some(there)) => self.decide_existing(job, spot, &there),
            Err(error) => {
                self.fail_io("look for", &job.key, error);
                None
            }
        }
    }

    /// Nothing has the name.
    fn decide_new(&self, job: &FileJob, spot: Spot) -> Option<Place> {
        let place = |plan, compared: Option<Spot>| {
            let is_earlier = compared.is_some();
            Place { job: job.clone(), spot: spot.clone(), plan, why: Why::New, compared, is_earlier }
        };
        let earlier = self.earlier_spot(job);
        match earlier {
            Some(_) if self.options.dry_run => {
                self.report_file(job, (Action::LinkEarlier, Why::New));
                None
            }
            Some(earlier) if self.options.checksum => Some(place(Plan::Write, Some(earlier))),
            Some(earlier) if self.link_earlier(job, &spot, &earlier) => None,
            _ if self.options.dry_run => {
                self.would(job, Why::New);
                None
            }
            _ => Some(place(Plan::Write, None)),
        }
    }

    /// Something has the name.
    fn decide_existing(&self, job: &FileJob, spot: Spot, there: &Stat) -> Option<Place> {
        let kind = FileType::from_raw_mode(there.st_mode);
        if kind.is_dir() {
            self.fail_io("write", &job.key, io::ErrorKind::IsADirectory.into());
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
            _ if is_alike && has_time && !self.options.checksum => {
                self.skip(job, &spot, there);
                return None;
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
        Some(Place { job: job.clone(), spot, plan, why, compared, is_earlier: false })
    }

    /// What a dry run says.
    fn would(&self, job: &FileJob, why: Why) {
        self.report_file(job, (Action::Copy, why));
    }

    pub(super) fn report_file(&self, job: &FileJob, what: (Action, Why)) {
        self.report(&job.key, (Kind::File, job.node.len), what, Arc::default());
    }

    /// What is there is the file that is copied.
    pub(super) fn skip(&self, job: &FileJob, spot: &Spot, there: &Stat) {
        let is_corrected = match self.corrects(job, spot, there) {
            Ok(is_corrected) => is_corrected,
            Err(error) => return self.fail_io("set mode and time of", &job.key, error),
        };
        self.add_file();
        {
            let mut state = self.state();
            state.report.unchanged += 1;
            state.report.corrected += u64::from(is_corrected);
            if job.node.links > 1 {
                state.firsts.insert(job.key.to_vec());
            }
        }
        let what = if is_corrected { (Action::Correct, Why::Metadata) } else { (Action::Skip, Why::Same) };
        self.report_file(job, what);
    }

    /// Gives a file that is there the attributes of its source, where that is asked; whether it had
    /// others. `never` and `older` leave what stays as it is.
    fn corrects(&self, job: &FileJob, spot: &Spot, there: &Stat) -> io::Result<bool> {
        if self.options.overwrite != Overwrite::Different {
            return Ok(false);
        }
        let wanted = self.wanted((job.source, job.id), &job.node).map_err(io::Error::other)?;
        if self.has_all_attributes(spot, there, &wanted)? {
            return Ok(false);
        }
        if !self.options.dry_run {
            self.correct(spot, there, &wanted)?;
        }
        Ok(true)
    }

    /// Sets all attributes of the very file that was looked at: with the time of the source
    /// another one would be taken for the same from now on.
    fn correct(&self, spot: &Spot, seen: &Stat, wanted: &FileMetadata) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&spot.parent, &spot.name, flags, Mode::empty())?;
        if !is_unchanged(seen, &rustix::fs::fstat(&opened)?) {
            return Err(io::Error::other(CHANGED));
        }
        self.set_all_attributes(&opened, wanted)
    }

    /// What was compared is the same, or another that stays.
    pub(super) fn compared(&self, place: &Place, is_same: bool, seen: Option<&Stat>) {
        let job = &place.job;
        if !is_same {
            // Only a dry run comes here with what would be replaced.
            match self.options.overwrite {
                Overwrite::Different => self.would(job, place.why),
                _ => self.keep(&job.key, (Kind::File, job.node.len), place.why),
            }
            return;
        }
        match target::status(&place.spot.parent, &place.spot.name) {
            Ok(Some(there)) if seen.is_some_and(|seen| is_unchanged(seen, &there)) => {
                self.skip(job, &place.spot, &there);
            }
            Ok(Some(_)) => self.fail_io("compare", &job.key, io::Error::other(CHANGED)),
            Ok(None) => self.fail_io("look for", &job.key, rustix::io::Errno::NOENT.into()),
            Err(error) => self.fail_io("look for", &job.key, error),
        }
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
        let wanted = self.wanted((job.source, job.id), &job.node).ok().filter(|_| is_alike)?;
        self.has_all_attributes(&spot, &there, &wanted).ok()?.then_some(spot)
    }

    /// Makes a file of an earlier copy this one as well; whether that could be.
    pub(super) fn link_earlier(&self, job: &FileJob, spot: &Spot, earlier: &Spot) -> bool {
        let (parent, name) = (&spot.parent, spot.name.as_os_str());
        let new = NewName { parent, name, replaces: Replaces::Nothing, backup: None };
        let linked = self.making(parent, || self.outbox.hard_link((&earlier.parent, &earlier.name), &new));
        // On another file system, or with as many names as a file can have: it is copied.
        if linked.is_err() {
            return false;
        }
        self.add_file();
        {
            let mut state = self.state();
            state.report.linked += 1;
            if job.node.links > 1 {
                state.firsts.insert(job.key.to_vec());
            }
        }
        self.report_file(job, (Action::LinkEarlier, Why::New));
        true
    }
}

/// Why what was compared is not taken for the same.
const CHANGED: &str = "another program changed it meanwhile";

/// Whether a file is the one that was seen, with the bytes that it had then.
fn is_unchanged(seen: &Stat, now: &Stat) -> bool {
    let of = |status: &Stat| (status.st_dev, status.st_ino, status.st_size, mtime_of(status));
    of(seen) == of(now)
}
