//! [`Changes`]: what becomes of each member of an archive whose members have paths.

use std::collections::{BTreeMap, BTreeSet};

use super::super::error::Result;
use super::super::members::{Changed, Member, order};
use super::change;
use crate::format::MemberKind;
use crate::names::escaped;
use crate::tree::CaseRule;

/// What the name of a file ends in that deletes a member.
const DELETES: &[u8] = b".del";

/// A member of the archive.
pub(super) struct Known<'a> {
    pub(super) key: &'a [u8],
    pub(super) kind: MemberKind,
    /// The path that a hard link leads to.
    pub(super) link: Option<&'a [u8]>,
}

/// What a table has of each member.
pub(super) trait AsKnown {
    fn as_known(&self) -> Known<'_>;
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    Gone,
    /// Its place is that of a file that was given, by its position.
    Replaced(usize),
}

/// What becomes of an archive.
#[derive(Debug)]
pub(super) struct Changes {
    /// Of each member, in order.
    pub(super) fates: Vec<Fate>,
    /// Files that are added, in order.
    pub(super) added: Vec<usize>,
}

impl Changes {
    /// How many there are.
    pub(super) fn count(&self) -> Changed {
        let count = |is: fn(&Fate) -> bool| self.fates.iter().filter(|fate| is(fate)).count() as u64;
        Changed {
            replaced: count(|fate| matches!(fate, Fate::Replaced(_))),
            added: self.added.len() as u64,
            deleted: count(|fate| *fate == Fate::Gone),
        }
    }

    /// Whether everything stays.
    pub(super) fn is_none(&self) -> bool {
        self.added.is_empty() && self.fates.iter().all(|fate| *fate == Fate::Kept)
    }
}

/// Whether a file that was given deletes something: the path of that.
///
/// # Errors
/// It does, and does not say what.
pub(in super::super) fn deleted(file: &Member, case: CaseRule) -> Result<Option<&[u8]>> {
    let Some((name, ending)) = file.key.split_last_chunk::<4>() else { return Ok(None) };
    if case.folded(ending) != DELETES {
        return Ok(None);
    }
    if name.is_empty() || name.ends_with(b"/") {
        return Err(change(&file.key, "it deletes a member that has no name"));
    }
    Ok(Some(name))
}

/// What is given for one path.
#[derive(Debug, Default)]
struct Act {
    file: Option<usize>,
    /// The file that deletes what was there before, whether that was there, and whether the file
    /// has a place of a member.
    deletes: Option<usize>,
    is_found: bool,
    is_placed: bool,
}

/// What is given, by folded path.
type Acts = BTreeMap<Vec<u8>, Act>;

/// What changes in an archive with these members, where these files are given, those of each tree
/// side by side.
///
/// # Errors
/// What contradicts itself, or the archive.
pub(super) fn changes<M: AsKnown>(members: &[M], given: &[Member], case: CaseRule) -> Result<Changes> {
    let mut acts = Acts::new();
    for files in layers(given) {
        take_layer(&mut acts, given, files, case)?;
    }
    let mut fates = vec![Fate::Kept; members.len()];
    let mut seen = BTreeMap::<Vec<u8>, usize>::new();
    if !acts.is_empty() {
        for (at, member) in members.iter().enumerate() {
            let Some(fate) = fates.get_mut(at) else { break };
            *fate = fate_of(&mut acts, &member.as_known(), given, case)?;
            if let Fate::Replaced(file) = *fate
                && let Some(place) = given.get(file)
                && let Some(before) = seen.insert(case.folded(&place.key).into_owned(), at)
                && let Some(fate) = fates.get_mut(before)
            {
                // The last one counts.
                *fate = Fate::Gone;
            }
        }
    }
    let mut added: Vec<usize> =
        acts.values().filter(|act| !act.is_placed).filter_map(|act| act.file).collect();
    let key = |at: &usize| given.get(*at).map(|file| &*file.key).unwrap_or_default();
    added.sort_by(|one, other| order(key(one), key(other)));
    let unfound = acts.values().filter(|act| !act.is_found).filter_map(|act| act.deletes).min();
    if let Some(file) = unfound.and_then(|at| given.get(at)) {
        let name = deleted(file, case)?.unwrap_or_default();
        return Err(change(&file.key, format!("there is no member {} to delete", escaped(name))));
    }
    check_parents(&acts, members, &fates, given, case)?;
    check_links(members, &fates)?;
    Ok(Changes { fates, added })
}

/// The positions of what was given by each tree.
pub(super) fn layers(given: &[Member]) -> Vec<std::ops::Range<usize>> {
    let (mut layers, mut at) = (Vec::new(), 0_usize);
    for layer in given.chunk_by(|one, other| one.layer() == other.layer()) {
        let end = at.saturating_add(layer.len());
        layers.push(at..end);
        at = end;
    }
    layers
}

/// Takes what a tree gives: it deletes first, and then it has files.
fn take_layer(
    acts: &mut Acts,
    given: &[Member],
    files: std::ops::Range<usize>,
    case: CaseRule,
) -> Result<()> {
    let mut own = BTreeSet::new();
    let layer = || files.clone().filter_map(|at| Some((at, given.get(at)?)));
    for (at, file) in layer() {
        let Some(name) = deleted(file, case)? else { continue };
        let path = case.folded(name).into_owned();
        let below = [path.as_slice(), b"/"].concat();
        let mut is_found = false;
        for (_, act) in acts.range_mut(below.clone()..).take_while(|(path, _)| path.starts_with(&below)) {
            is_found |= act.file.take().is_some();
        }
        let act = acts.entry(path.clone()).or_default();
        is_found |= act.file.take().is_some();
        (act.deletes, act.is_found) = (Some(at), act.is_found || is_found);
        own.insert(path);
    }
    let mut files = BTreeSet::new();
    for (at, file) in layer() {
        if deleted(file, case)?.is_some() {
            continue;
        }
        let path = case.folded(&file.key).into_owned();
        let act = acts.entry(path.clone()).or_default();
        let other =
            |at: Option<usize>| at.and_then(|at| given.get(at)).map(|file| escaped(&file.key).to_string());
        if own.contains(&path) {
            let other = other(act.deletes).unwrap_or_default();
            return Err(change(&file.key, format!("the same folder deletes it ({other})")));
        }
        if !files.insert(path) {
            let other = other(act.file).unwrap_or_default();
            return Err(change(&file.key, format!("in the same folder, {other} is the same member")));
        }
        act.file = Some(at);
    }
    Ok(())
}

/// What becomes of a member, of which the last of its name is not known yet.
fn fate_of(acts: &mut Acts, member: &Known<'_>, given: &[Member], case: CaseRule) -> Result<Fate> {
    let path = case.folded(member.key);
    let (mut is_deleted, mut file, mut in_the_way) = (false, None, None);
    for end in ends(&path) {
        let Some(act) = path.get(..end).and_then(|above| acts.get_mut(above)) else { continue };
        if act.deletes.is_some() {
            (act.is_found, is_deleted) = (true, true);
        }
        match end == path.len() {
            true => file = act.file.inspect(|_| act.is_placed = member.kind != MemberKind::Directory),
            false => in_the_way = in_the_way.or(act.file),
        }
    }
    let named = |at: Option<usize>| at.and_then(|at| given.get(at));
    match file {
        Some(_) if member.kind == MemberKind::Directory && is_deleted => Ok(Fate::Gone),
        Some(at) if member.kind == MemberKind::Directory => {
            let key = given.get(at).map(|file| &*file.key).unwrap_or_default();
            Err(change(key, "the archive has a directory with this path"))
        }
        Some(at) => Ok(Fate::Replaced(at)),
        None if is_deleted => Ok(Fate::Gone),
        None => match named(in_the_way) {
            Some(file) => {
                let what = format!("the archive has {}, which would be in it", escaped(member.key));
                Err(change(&file.key, what))
            }
            None => Ok(Fate::Kept),
        },
    }
}

/// Where the paths above a path end, and it.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = path.iter().enumerate().filter(|(at, byte)| **byte == b'/' && *at > 0);
    slashes.map(|(at, _)| at).chain([path.len()])
}

/// Refuses files in what is no directory.
fn check_parents<M: AsKnown>(
    acts: &Acts,
    members: &[M],
    fates: &[Fate],
    given: &[Member],
    case: CaseRule,
) -> Result<()> {
    // The paths above files that are added.
    let mut above = BTreeMap::<&[u8], usize>::new();
    for (path, act) in acts {
        let Some(at) = act.file else { continue };
        let parents = ends(path).filter(|end| *end < path.len()).filter_map(|end| path.get(..end));
        for parent in parents {
            let other = acts.get(parent).and_then(|act| act.file).and_then(|file| given.get(file));
            if let (Some(other), Some(file)) = (other, given.get(at)) {
                let what = format!("{} is a file, and no directory", escaped(&other.key));
                return Err(change(&file.key, what));
            }
            if !act.is_placed {
                above.insert(parent, at);
            }
        }
    }
    if above.is_empty() {
        return Ok(());
    }
    for (member, fate) in members.iter().map(AsKnown::as_known).zip(fates) {
        if *fate != Fate::Kept || member.kind == MemberKind::Directory {
            continue;
        }
        if let Some(file) = above.get(&*case.folded(member.key)).and_then(|at| given.get(*at)) {
            let what = format!("in the archive {} is no directory", escaped(member.key));
            return Err(change(&file.key, what));
        }
    }
    Ok(())
}

/// Refuses to change a member that a hard link leads to, which would lead to something else, or to
/// nothing.
fn check_links<M: AsKnown>(members: &[M], fates: &[Fate]) -> Result<()> {
    let known = || members.iter().map(AsKnown::as_known).zip(fates);
    let changed: BTreeSet<&[u8]> =
        known().filter(|(_, fate)| **fate != Fate::Kept).map(|(member, _)| member.key).collect();
    if changed.is_empty() {
        return Ok(());
    }
    for (member, _) in known().filter(|(_, fate)| **fate == Fate::Kept) {
        if let Some(target) = member.link.filter(|link| changed.contains(link)) {
            let what = format!(
                "it is a hard link to {}, which would be another file: replace or delete it, too",
                escaped(target)
            );
            return Err(change(member.key, what));
        }
    }
    Ok(())
}
