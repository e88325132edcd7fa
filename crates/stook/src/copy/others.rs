//! What is neither a file nor a directory: symbolic links, pipes and devices.

use std::io;
use std::sync::Arc;

use rustix::fs::FileType;

use super::attributes::Corrected;
use super::destination::{Noted, Receiver, Spot};
use super::events::{Action, Why};
use super::finish::{new_name, why_of};
use super::listing::Found;
use super::report::NotCopied;
use super::run::Run;
use crate::tree::existing::{self, Plan};
use crate::tree::outbox::Backup;
use crate::tree::target::{self, FileMetadata, Unset};
use crate::tree::{Kind, Xattrs};

impl Run<'_> {
    /// Whether something is made that is no file, directory or link. What is not is listed.
    pub(super) fn makes_special(&self, found: &Found) -> bool {
        let is_device = matches!(found.node.kind, Kind::BlockDevice | Kind::CharDevice);
        let can_be = found.node.kind == Kind::Fifo || is_device && rustix::process::geteuid().is_root();
        let is_made = self.options.specials && can_be;
        if !is_made {
            self.own().not_copied.push(NotCopied { key: found.key.clone(), kind: found.node.kind });
        }
        is_made
    }

    /// Makes a link, a pipe or a device in all destinations, or in one.
    pub(super) fn make_other(&self, found: &Found, only: Option<usize>) {
        let Some(source) = self.sources.get(found.source) else { return };
        let link_to = match found.node.kind {
            Kind::Symlink => source.tree.link_target(found.id).map(Some),
            _ => Ok(None),
        };
        let xattrs = match self.options.xattrs {
            true => source.tree.xattrs(found.id),
            false => Ok(Xattrs::default()),
        };
        match link_to.and_then(|link_to| Ok((link_to, xattrs?))) {
            Ok((link_to, xattrs)) => {
                let all = self.receivers.iter();
                let receivers = all.filter(|one| only.is_none_or(|only| only == one.index));
                receivers.for_each(|one| match &link_to {
                    Some(link_to) => one.symlink(found, link_to, xattrs.clone()),
                    None => one.special(found, xattrs.clone()),
                });
            }
            Err(error) => self.fail(&found.key, error),
        }
    }
}

impl Receiver {
    /// Where something goes that is no file, or a hard link to one, and whether it replaces what is
    /// there; `None` where nothing is done, which is noted.
    pub(super) fn place_other(
        &self,
        found: &Found,
        action: Action,
        is_same: impl Fn(&Spot) -> io::Result<bool>,
    ) -> Option<(Spot, Plan)> {
        let (key, of) = (found.key.as_slice(), kind_of(found));
        if self.is_stopped() {
            return None;
        }
        let spot = match self.spot(key) {
            Ok(Some(spot)) => spot,
            Ok(None) => {
                self.note_would(found, action, Why::New);
                return None;
            }
            Err(Noted) => return None,
        };
        if let Ok(Some(there)) = target::status(&spot.parent, &spot.name) {
            // Other names of what is replaced have to know that they were several.
            self.has_other_names(&there);
        }
        let decided = self.plan(key, &spot, found.node.mtime_ns);
        let decided = decided.and_then(|plan| Ok((plan, plan.compares() && is_same(&spot)?)));
        let (plan, is_same) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                self.fail_io("write", key, error);
                return None;
            }
        };
        if is_same {
            self.note_same(found, &spot);
        } else if plan == Plan::Compare {
            self.keep(key, of, Why::Content);
        } else if self.options.dry_run {
            self.note_would(found, action, why_of(plan, self.options.overwrite));
        } else {
            return Some((spot, plan));
        }
        None
    }

    /// What a dry run says.
    fn note_would(&self, found: &Found, action: Action, why: Why) {
        self.note_first(&found.key, &found.node, true);
        self.report(&found.key, kind_of(found), (action, why), Arc::default());
    }

    /// Notes that something is there that is no file, after it got the attributes of its source.
    fn note_same(&self, found: &Found, spot: &Spot) {
        let (key, of) = (found.key.as_slice(), kind_of(found));
        // Of a hard link all attributes are those of its file.
        let corrected = match found.node.kind {
            Kind::File => Ok(Corrected::default()),
            _ => self.correct_other(found, spot),
        };
        match corrected {
            Ok(Corrected { is_corrected, unset }) => {
                {
                    let mut state = self.state();
                    state.report.unchanged += 1;
                    state.report.corrected += u64::from(is_corrected);
                    state.report.unset_xattrs.note(key, unset);
                }
                self.note_first(key, &found.node, false);
                let what =
                    if is_corrected { (Action::Correct, Why::Metadata) } else { (Action::Skip, Why::Same) };
                self.report(key, of, what, Arc::default());
            }
            Err(error) => self.fail_io("set the time of", key, error),
        }
    }

    /// Makes a symbolic link.
    fn symlink(&self, found: &Found, link_to: &[u8], xattrs: Xattrs) {
        let same = |spot: &Spot| {
            let leads_there = existing::is_link_to(&spot.parent, &spot.name, link_to)?;
            Ok(leads_there && self.link_may_stay(found, spot)?)
        };
        let Some((spot, plan)) = self.place_other(found, Action::Copy, same) else { return };
        let metadata = self.metadata(&found.node, xattrs);
        let made = self.made_other(found, (&spot, plan), |backup| {
            self.outbox.symlink(&new_name(&spot, plan, backup), link_to, &metadata)
        });
        self.note_other(found, (&spot, plan), made);
    }

    /// Makes a pipe or a device.
    fn special(&self, found: &Found, xattrs: Xattrs) {
        let file_type = match found.node.kind {
            Kind::Fifo => FileType::Fifo,
            Kind::BlockDevice => FileType::BlockDevice,
            _ => FileType::CharacterDevice,
        };
        let same = |spot: &Spot| {
            let there = target::status(&spot.parent, &spot.name)?;
            Ok(there.is_some_and(|there| {
                FileType::from_raw_mode(there.st_mode) == file_type && there.st_rdev == found.node.device
            }))
        };
        let Some((spot, plan)) = self.place_other(found, Action::Copy, same) else { return };
        let metadata: FileMetadata = self.metadata(&found.node, xattrs);
        let what = (file_type, found.node.device);
        let made = self.made_other(found, (&spot, plan), |backup| {
            self.outbox.special(&new_name(&spot, plan, backup), what, &metadata)
        });
        self.note_other(found, (&spot, plan), made);
    }

    /// Makes something in place of what is kept under another name, if that is asked.
    pub(super) fn made_other<T>(
        &self,
        found: &Found,
        (spot, plan): (&Spot, Plan),
        make: impl Fn(Option<&Backup>) -> io::Result<T>,
    ) -> io::Result<T> {
        let there = target::status(&spot.parent, &spot.name)?;
        let of = there.map(|there| (there.st_dev, there.st_ino));
        let backup = self.backup_of(&found.key, spot, plan, of)?;
        self.making(&spot.parent, || make(backup.as_ref()))
    }

    fn note_other(&self, found: &Found, (spot, plan): (&Spot, Plan), made: io::Result<Unset>) {
        let (key, of) = (found.key.as_slice(), kind_of(found));
        match made {
            Ok(unset) => {
                {
                    let mut state = self.state();
                    state.report.add_other(found.node.kind);
                    state.report.backups +=
                        u64::from(self.options.backup.is_some() && plan.replaces().is_any());
                    state.report.unset_xattrs.note(key, unset);
                }
                self.note_first(key, &found.node, true);
                let why = why_of(plan, self.options.overwrite);
                self.report(key, of, (Action::Copy, why), Arc::default());
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.keep_what_came(found, spot),
            Err(error) => self.fail_io("make", key, error),
        }
    }

    /// Something came to have the name meanwhile, and stays.
    pub(super) fn keep_what_came(&self, found: &Found, spot: &Spot) {
        let came = target::status(&spot.parent, &spot.name).ok().flatten();
        let spelled = came.map(|came| self.check_spelling(&found.key, (&spot.parent, &spot.name), &came));
        match spelled {
            Some(Err(taken)) => self.fail_io("write", &found.key, taken),
            _ => self.keep(&found.key, kind_of(found), Why::Content),
        }
    }
}

/// What an item says of an entry: its kind, and its length where it is a file.
pub(super) fn kind_of(found: &Found) -> (Kind, u64) {
    let len = if found.node.kind == Kind::File { found.node.len } else { 0 };
    (found.node.kind, len)
}
