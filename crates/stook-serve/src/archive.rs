//! [`Layouts`]: whole directories as archives that are not written. What was laid out is kept for a
//! while, so that a download can be resumed without listing the directory again.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stook::format::MemberKind;
use stook::source::Identity;
use stook::stitch::{self, Laid, Layout, Member, Members, Tar, Zip};
use stook::tree::NodeId;

use crate::served::Opened;
use crate::state::{State, Tag};
use crate::target::SentAs;

/// Layouts that are kept.
const KEPT_MAX: usize = 8;
/// Members that an archive may have, and all that are kept together: each takes about 250 bytes,
/// and its path.
const MEMBERS_MAX: u64 = 1 << 20;

/// Longer than a tick of any clock that file systems take times from.
const SETTLING: Duration = Duration::from_millis(25);

/// A directory, laid out.
#[derive(Debug, Clone)]
pub(crate) struct Archive {
    pub(crate) laid: Laid,
    pub(crate) state: State,
    /// Whether something in it is not what it was: then it is laid out anew.
    is_outdated: Arc<AtomicBool>,
}

impl Archive {
    /// Notes that it cannot be read as it was laid out.
    pub(crate) fn outdated(&self) {
        self.is_outdated.store(true, Ordering::Relaxed);
    }
}

/// Why there is no archive.
#[derive(Debug)]
pub(crate) enum NoArchive {
    /// An error of laying out.
    Stitch(stitch::Error),
    /// Entries that cannot be read: an archive that lacks them looks whole.
    Lacking(usize, String),
    /// It is an archive that was cut off, or a pack that is not finished: the same.
    Incomplete,
    /// More members than are held in memory.
    TooMany,
    /// The client is gone, or the server ends.
    CalledOff,
}

/// What is laid out: a path, and its form.
pub(crate) type LayoutKey = (Vec<Vec<u8>>, SentAs);

/// What was laid out lately.
pub(crate) struct Layouts {
    kept: Mutex<Vec<Kept>>,
    keep: Duration,
    /// What distinguishes this run of the server from others: trees that are not on disk do not say
    /// enough of a file to recognise it later.
    run: [u8; 32],
}

struct Kept {
    key: LayoutKey,
    archive: Archive,
    used: Instant,
}

impl Layouts {
    pub(crate) fn new(keep: Duration, run: [u8; 32]) -> Self {
        Self { kept: Mutex::default(), keep, run }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was not used for long.
    pub(crate) fn forget_old(&self) {
        self.kept().retain(|kept| kept.used.elapsed() < self.keep);
    }

    fn find(&self, key: &LayoutKey) -> Option<Archive> {
        let mut all = self.kept();
        all.retain(|kept| !kept.archive.is_outdated.load(Ordering::Relaxed));
        let found = all.iter_mut().find(|kept| kept.key == *key)?;
        found.used = Instant::now();
        Some(found.archive.clone())
    }

    /// A directory as an archive. One that is kept is used where the download goes on, or nothing
    /// in it can have changed. Says whether it was known before. `is_wanted` is asked now and then.
    pub(crate) fn get(
        &self,
        key: LayoutKey,
        opened: &Opened,
        directory: NodeId,
        goes_on: bool,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<(Archive, bool), NoArchive> {
        let before = self.find(&key);
        if let Some(archive) = before.as_ref().filter(|_| goes_on || !opened.is_on_disk) {
            return Ok((archive.clone(), true));
        }
        let mut laid = lay_out(&key, opened, directory, is_wanted)?;
        let mut etag = self.etag(&key, opened, &laid.members);
        if etag.is_none() {
            // Something in it was changed a moment ago, and a change in this one might not show.
            std::thread::sleep(SETTLING);
            laid = lay_out(&key, opened, directory, is_wanted)?;
            etag = self.etag(&key, opened, &laid.members);
        }
        let state = State { etag, modified: None };
        // The one that was there knows checksums that it computed.
        if let Some(archive) = before.filter(|before| state.etag.is_some() && before.state == state) {
            return Ok((archive, true));
        }
        let archive = Archive { laid, state, is_outdated: Arc::default() };
        self.keep(key, archive.clone());
        Ok((archive, false))
    }

    fn keep(&self, key: LayoutKey, archive: Archive) {
        let mut all = self.kept();
        all.retain(|kept| kept.key != key);
        all.push(Kept { key, archive, used: Instant::now() });
        all.sort_by_key(|kept| std::cmp::Reverse(kept.used));
        let mut members = 0_u64;
        all.retain(|kept| {
            members = members.saturating_add(kept.archive.laid.members.all().len() as u64);
            members <= MEMBERS_MAX
        });
        all.truncate(KEPT_MAX);
    }

    /// Of all that decides the bytes; none where a file may change without a trace.
    fn etag(&self, key: &LayoutKey, opened: &Opened, members: &Members) -> Option<String> {
        let mut tag = Tag::new(key.1.ending());
        tag.bytes(env!("CARGO_PKG_VERSION").as_bytes());
        if !opened.is_on_disk {
            tag.bytes(&self.run);
        }
        key.0.iter().for_each(|name| tag.bytes(name));
        tag.number(members.all().len() as u64);
        for member in members.all() {
            if opened.is_on_disk && !is_proven(member) {
                return None;
            }
            tag_member(&mut tag, member);
        }
        Some(tag.finish())
    }
}

/// Whether a later change of a file would show.
fn is_proven(member: &Member) -> bool {
    let of_inode = |inode: stook::tree::InodeState| Identity {
        len: member.len,
        device: inode.device,
        inode: inode.inode,
        mtime_ns: member.mtime_ns,
        ctime_ns: inode.ctime_ns,
        ..Identity::default()
    };
    member.kind != MemberKind::File || member.inode().is_some_and(|inode| of_inode(inode).is_settled())
}

fn tag_member(tag: &mut Tag, member: &Member) {
    tag.bytes(&member.key);
    tag.bytes(&member.link);
    let kind = match member.kind {
        MemberKind::File => 0,
        MemberKind::Directory => 1,
        MemberKind::Symlink => 2,
        MemberKind::HardLink => 3,
        MemberKind::Other => 4,
    };
    let owner = member.owner.map_or([0, 0, 0], |(user, group)| [1, u64::from(user), u64::from(group)]);
    let inode = member.inode().map_or([0, 0, 0], |of| [of.device, of.inode, of.ctime_ns.cast_unsigned()]);
    let numbers = [kind, u64::from(member.mode), member.mtime_ns.cast_unsigned(), member.len];
    numbers.into_iter().chain(owner).chain(inode).for_each(|number| tag.number(number));
}

fn lay_out(
    (names, form): &LayoutKey,
    opened: &Opened,
    directory: NodeId,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Laid, NoArchive> {
    if opened.is_incomplete {
        return Err(NoArchive::Incomplete);
    }
    // Whether it lies below this directory is not known.
    let hiding = opened.tree.hiding();
    if let Some(first) = hiding.first() {
        return Err(NoArchive::Lacking(hiding.len(), stook::error::chain(first)));
    }
    let (mut members, mut too_many) = (Members::new(), false);
    let listed = members.add((opened.tree.clone(), opened.is_on_disk), directory, b"", &mut |count| {
        too_many = count > MEMBERS_MAX;
        !too_many && is_wanted()
    });
    match listed {
        Ok(()) => {}
        Err(stitch::Error::Interrupted) if too_many => return Err(NoArchive::TooMany),
        Err(stitch::Error::Interrupted) => return Err(NoArchive::CalledOff),
        Err(error) => return Err(NoArchive::Stitch(error)),
    }
    if let Some(first) = members.failures().first() {
        let what = stook::error::chain(&first.error);
        return Err(NoArchive::Lacking(members.failures().len(), what));
    }
    let layout: Box<dyn Layout> = match form {
        SentAs::Zip => Box::new(Zip::default()),
        _ => Box::new(Tar::default()),
    };
    let name = names.last().unwrap_or(&opened.name);
    let path = PathBuf::from(format!("{}.{}", stook::names::escaped(name), layout.ending()));
    layout.lay_out(path, members).map_err(NoArchive::Stitch)
}
