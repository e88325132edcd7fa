//! Hard links: the other names of what has several in its source.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use rustix::fs::FileType;

use super::destination::{Noted, Receiver, Spot};
use super::events::Action;
use super::finish::{new_name, why_of};
use super::listing::Found;
use super::others::kind_of;
use super::run::Run;
use crate::tree::existing::{self, Plan};
use crate::tree::target;
use crate::tree::{Kind, NodeId, Overwrite};

/// The first names of what has several, by source and node.
#[derive(Debug, Default)]
pub(super) struct FirstNames(HashMap<(usize, NodeId), Arc<[u8]>>);

impl FirstNames {
    /// The first name of something, if this is another one.
    pub(super) fn first_of(&mut self, found: &Found) -> Option<Arc<[u8]>> {
        if found.node.links < 2 {
            return None;
        }
        let known = (found.source, found.id);
        match self.0.get(&known) {
            Some(first) => Some(first.clone()),
            None => {
                self.0.insert(known, found.key.as_slice().into());
                None
            }
        }
    }
}

/// What hard links lead to.
#[derive(Debug, Clone)]
pub(super) struct FirstName {
    /// Usually the first name itself; another one where something else has that, and stays.
    pub(super) key: Vec<u8>,
    /// Whether it was not there before this run.
    pub(super) is_new: bool,
}

/// What became of another name.
enum Linked {
    /// It is there, or is not for a reason that was reported.
    Done,
    /// What has it is compared with the source.
    NotYetCompared,
    /// What the first name leads to is not there, or cannot have another one: it is copied.
    CannotBe,
}

impl Run<'_> {
    /// Hard links to what is there.
    pub(super) fn make_links(&self, links: &[(Found, Arc<[u8]>)]) {
        for (found, first) in links {
            for receiver in &self.receivers {
                if self.is_stopped() {
                    return;
                }
                match receiver.hard_link(found, first) {
                    Linked::Done => {}
                    Linked::NotYetCompared => self.copy_alone(receiver.index, found),
                    Linked::CannotBe => {
                        self.copy_alone(receiver.index, found);
                        receiver.note_instead(first, &found.key);
                    }
                }
            }
        }
    }

    /// Copies to one destination what cannot be a hard link there.
    fn copy_alone(&self, index: usize, found: &Found) {
        match found.node.kind {
            Kind::File => self.copy_file_alone(index, found),
            _ => self.make_other(found, Some(index)),
        }
    }
}

impl Receiver {
    /// Gives what is there one more name.
    fn hard_link(&self, found: &Found, first: &[u8]) -> Linked {
        if self.is_stopped() {
            return Linked::Done;
        }
        let there = self.state().firsts.get(first).cloned();
        let Some(there) = there else { return self.has_other_first(found, first) };
        self.share_digests(&there.key, &found.key);
        let from = match self.spot(&there.key) {
            Ok(from) => from,
            Err(Noted) => return Linked::Done,
        };
        // What a dry run would put there is not what is there now.
        let is_there = !(there.is_new && self.options.dry_run);
        let stays = matches!(self.options.overwrite, Overwrite::Never | Overwrite::Older);
        let same = |spot: &Spot| match from.as_ref().filter(|_| is_there) {
            Some(from) if is_same_file(from, spot)? => Ok(true),
            _ => Ok(stays && self.is_alike(spot, found)?),
        };
        if self.options.dry_run && self.is_in_order() {
            return Linked::CannotBe;
        }
        match self.compares(found, from.as_ref().filter(|_| is_there)) {
            Ok(false) => {}
            Ok(true) => return Linked::NotYetCompared,
            Err(error) => {
                self.fail_io("look for", &found.key, error);
                return Linked::Done;
            }
        }
        if self.is_that_file(found, from.as_ref().filter(|_| is_there)) {
            // It stays, and is listed if the bytes of that file were read.
            self.list_link(found, &there.key, false);
        }
        // What is another file with the same bytes is replaced where it may be.
        let placed = self.place_other(found, Action::HardLink, same);
        let (Some((spot, plan)), Some(from)) = (placed, &from) else { return Linked::Done };
        self.list_link(found, &there.key, true);
        let linked = self.made_other(found, (&spot, plan), |backup| {
            let new = new_name(&spot, plan, backup);
            self.outbox.hard_link((&from.parent, &from.name), &new)
        });
        match linked {
            Ok(()) => self.note_hard_link(found, plan),
            // File systems without hard links, and files with as many names as they can have.
            Err(error) if cannot_link(&error) => return Linked::CannotBe,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.keep_what_came(found, &spot),
            Err(error) => self.fail_io("link", &found.key, error),
        }
        Linked::Done
    }

    /// Whether what has the name is the file of the first name.
    fn is_that_file(&self, found: &Found, from: Option<&Spot>) -> bool {
        let spot = from.and_then(|_| self.spot(&found.key).ok().flatten());
        from.zip(spot).is_some_and(|(from, spot)| is_same_file(from, &spot).unwrap_or(false))
    }

    /// Whether the bytes of a file that is there, and would stay, have to be compared before it is
    /// taken for the same.
    fn compares(&self, found: &Found, from: Option<&Spot>) -> io::Result<bool> {
        if !self.options.checksum || found.node.kind != Kind::File {
            return Ok(false);
        }
        let Ok(Some(spot)) = self.spot(&found.key) else { return Ok(false) };
        let Some(there) = target::status(&spot.parent, &spot.name)? else { return Ok(false) };
        let is_file = FileType::from_raw_mode(there.st_mode).is_file();
        let kept_ns = self.kept_time(&spot.parent, &there, found.node.mtime_ns);
        let stays = is_file && self.options.overwrite.plan(&there, kept_ns)? == Plan::Compare;
        Ok(stays && from.map(|from| is_same_file(from, &spot)).transpose()? != Some(true))
    }

    fn note_hard_link(&self, found: &Found, plan: Plan) {
        match found.node.kind {
            Kind::File => {
                self.add_file();
                self.state().report.hard_links += 1;
            }
            kind => self.state().report.add_other(kind),
        }
        self.state().report.backups += u64::from(self.options.backup.is_some() && plan.replaces().is_any());
        let what = (Action::HardLink, why_of(plan, self.options.overwrite));
        self.report(&found.key, kind_of(found), what, Arc::default());
    }

    /// Whether something else has the first name, and stays: then this one is copied. What is not
    /// there for another reason is not copied under this name alone: it would stay another file
    /// when the first one is there.
    fn has_other_first(&self, found: &Found, first: &[u8]) -> Linked {
        let from = match self.spot(first) {
            Ok(from) => from,
            Err(Noted) => return Linked::Done,
        };
        let is_there = |from: &Spot| matches!(target::status(&from.parent, &from.name), Ok(Some(_)));
        if from.as_ref().is_some_and(is_there) {
            return Linked::CannotBe;
        }
        let what = "its first name could not be copied, and it is another name of that file";
        self.fail_io("link", &found.key, io::Error::other(what));
        Linked::Done
    }

    /// Whether what has a name looks like what is to have it: a file with the same length and time,
    /// a link to the same, a pipe or device with the same numbers.
    fn is_alike(&self, spot: &Spot, found: &Found) -> io::Result<bool> {
        let Some(there) = target::status(&spot.parent, &spot.name)? else { return Ok(false) };
        let node = &found.node;
        if Kind::of(FileType::from_raw_mode(there.st_mode)) != node.kind {
            return Ok(false);
        }
        match node.kind {
            Kind::File => Ok(u64::try_from(there.st_size).is_ok_and(|len| len == node.len)
                && self.has_time(&spot.parent, &there, node.mtime_ns)),
            Kind::Symlink => {
                let Some(source) = self.sources.get(found.source) else { return Ok(false) };
                let link_to = source.tree.link_target(found.id).map_err(io::Error::other)?;
                existing::is_link_to(&spot.parent, &spot.name, &link_to)
            }
            _ => Ok(there.st_rdev == node.device),
        }
    }
}

/// Whether two names are of one file.
fn is_same_file(one: &Spot, other: &Spot) -> io::Result<bool> {
    let of = |spot: &Spot| -> io::Result<Option<(u64, u64)>> {
        let status = target::status(&spot.parent, &spot.name)?;
        Ok(status.map(|status| (status.st_dev, status.st_ino)))
    };
    let one = of(one)?;
    Ok(one.is_some() && one == of(other)?)
}

fn cannot_link(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refused = [Errno::PERM, Errno::OPNOTSUPP, Errno::MLINK, Errno::XDEV, Errno::NOSYS];
    Errno::from_io_error(error).is_some_and(|errno| refused.contains(&errno))
}
