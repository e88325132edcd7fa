//! The lists that a tree has: those of checksums at its top, and the history of an ASC MHL.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::lists::{ListFile, ListReport};
use crate::error::{Result, chain};
use crate::format::{mhl, sums};
use crate::hash::{Digest, HashKind, Hashing};
use crate::tree::descent::joined;
use crate::tree::history::add_kinds;
use crate::tree::{Cursor, Kind, NodeId, Page};
use crate::verify::Branch;

/// Bytes of a list that are hashed at once.
const BLOCK_BYTES: usize = 256 << 10;

/// The lists of a tree.
#[derive(Debug, Default)]
pub(super) struct OwnLists {
    pub(super) lists: Vec<ListFile>,
    /// Their names, and that of the folder of an ASC MHL.
    pub(super) names: BTreeSet<Vec<u8>>,
    /// Directories with proofs, the newest first.
    pub(super) proofs: Vec<NodeId>,
    /// What is wrong with the chain of an ASC MHL.
    pub(super) problems: Vec<ListReport>,
}

/// Whether a name is one that lists have that were made here, or the folder of an ASC MHL.
pub(super) fn is_written_here(name: &[u8]) -> bool {
    sums::is_own_list_name(name) || sums::is_own_proofs_name(name) || name == mhl::FOLDER.as_bytes()
}

/// Whether a report is of the chain of a history, or of the directory that it is in.
pub(super) fn is_chain(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == mhl::FOLDER || name == mhl::CHAIN_NAME)
}

/// Finds the lists at the top of a tree. A file has none.
pub(super) fn lists_of(branch: &Branch) -> Result<OwnLists> {
    let (mut own, mut proofs) = (OwnLists::default(), Vec::new());
    if branch.tree.node(branch.id)?.kind != Kind::Directory {
        return Ok(own);
    }
    for (name, id, kind) in entries(branch, branch.id)? {
        if kind == Kind::File && sums::is_list_name(&name) {
            match branch.tree.open(id) {
                Ok(source) => own.lists.push(ListFile::of(source, &name, b"")),
                // It costs only itself.
                Err(error) => own.problems.push(unusable(branch, id, &error)),
            }
            own.names.insert(name);
        } else if kind == Kind::Directory && sums::is_own_proofs_name(&name) {
            proofs.push((name.clone(), id));
            own.names.insert(name);
        } else if kind == Kind::Directory && name == mhl::FOLDER.as_bytes() {
            match history(branch, id, b"") {
                Ok((lists, problems)) => {
                    own.lists.extend(lists);
                    own.problems.extend(problems);
                }
                Err(error) => own.problems.push(unusable(branch, id, &error)),
            }
            own.names.insert(name);
        }
    }
    // Their names begin with their dates.
    proofs.sort_by(|one, other| other.cmp(one));
    own.proofs = proofs.into_iter().map(|(_, id)| id).collect();
    Ok(own)
}

/// A list that cannot be opened, or a folder of lists.
fn unusable(branch: &Branch, id: NodeId, error: &crate::Error) -> ListReport {
    let mut report = ListReport::new(branch.tree.path_of(id));
    (report.tree, report.has_lost) = (branch.path(), true);
    report.add(None, chain(error));
    report
}

/// Names, ids and kinds of what is in a directory.
fn entries(branch: &Branch, directory: NodeId) -> Result<Vec<(Vec<u8>, NodeId, Kind)>> {
    let (mut page, mut found, mut from) = (Page::new(), Vec::new(), Some(Cursor::Start));
    while let Some(cursor) = from {
        from = branch.tree.list(directory, &cursor, &mut page)?;
        // What could not be asked for is met again when the tree is gone through.
        for entry in page.iter() {
            let is_named_so = sums::is_list_name(entry.name)
                || sums::is_own_proofs_name(entry.name)
                || entry.name == mhl::FOLDER.as_bytes()
                || entry.name == mhl::CHAIN_NAME.as_bytes()
                || mhl::generation_of(entry.name).is_some();
            if is_named_so {
                let kind = entry.kind.map_or_else(|| branch.tree.node(entry.id).map(|node| node.kind), Ok)?;
                found.push((entry.name.to_vec(), entry.id, kind));
            }
        }
    }
    Ok(found)
}

/// The lists in the folder of an ASC MHL, for paths below a directory of the tree, and what is
/// wrong with their chain. A later generation is a later list, whatever its date says.
pub(super) fn history(
    branch: &Branch,
    folder: NodeId,
    below: &[u8],
) -> Result<(Vec<ListFile>, Option<ListReport>)> {
    let (mut lists, mut chain_id) = (Vec::new(), None);
    for (name, id, kind) in entries(branch, folder)? {
        if kind == Kind::File && name == mhl::CHAIN_NAME.as_bytes() {
            chain_id = Some(id);
        } else if let Some(generation) = mhl::generation_of(&name).filter(|_| kind == Kind::File) {
            lists.push((generation, ListFile::of(branch.tree.open(id)?, &name, below)));
        }
    }
    lists.sort_by(|one, other| (one.0, &one.1.name).cmp(&(other.0, &other.1.name)));
    let mut before: Option<(u32, i64)> = None;
    for (generation, list) in &mut lists {
        if let Some((earlier, date_ns)) = before {
            let least = if *generation == earlier { date_ns } else { date_ns.saturating_add(1) };
            list.date_ns = list.date_ns.max(least);
        }
        before = Some((*generation, list.date_ns));
    }
    let mut lists: Vec<ListFile> = lists.into_iter().map(|(_, list)| list).collect();
    let mut report = ListReport::new(branch.tree.path_of(folder));
    check_chain(branch, chain_id, &lists, &mut report);
    lists.iter_mut().for_each(|list| list.is_vouched = report.bad_lines == 0);
    Ok((lists, Some(report).filter(|report| report.bad_lines > 0)))
}

/// Compares lists with the chain that has their hashes.
fn check_chain(branch: &Branch, chain_id: Option<NodeId>, lists: &[ListFile], report: &mut ListReport) {
    let Some(id) = chain_id else {
        if !lists.is_empty() {
            let taken_up = taken_up(lists, &mhl::Chain::default());
            let what = format!("there is no {}, which should have the hashes of the lists", mhl::CHAIN_NAME);
            report.add(None, what + taken_up.map_or("", |_| TAKEN_UP));
        }
        return;
    };
    report.path = branch.tree.path_of(id);
    let opened = branch.tree.open(id).and_then(crate::source::Forwards::new);
    let decoded = opened
        .map_err(|error| chain(&error))
        .and_then(|bytes| mhl::Chain::decode(bytes).map_err(|error| chain(&error)));
    let named = match decoded {
        Ok(chain) => chain,
        Err(why) => return report.add(None, why),
    };
    let taken_up = taken_up(lists, &named);
    let named = named.entries;
    for entry in &named {
        if !lists.iter().any(|list| list.name == entry.name) {
            report.has_lost = true;
            report.add(None, format!("{} is not there", crate::names::escaped(&entry.name)));
        }
    }
    for list in lists {
        let shown = crate::names::escaped(&list.name);
        let Some(entry) = named.iter().find(|entry| entry.name == list.name) else {
            let is_taken_up = taken_up == Some(&list.name[..]);
            let more = if is_taken_up { TAKEN_UP } else { "" };
            report.add(None, format!("{shown} is not in the chain{more}"));
            continue;
        };
        match digest_of(list, entry.digest.kind) {
            Ok(digest) if digest == entry.digest => {}
            Ok(_) => report.add(None, format!("{shown} is not the list that the chain has the hash of")),
            Err(why) => report.add(None, why),
        }
    }
}

/// What becomes of a list that a killed run has left.
const TAKEN_UP: &str =
    ": the last list is as a run leaves it that was killed, and the next `--mhl` takes it up";

/// The list that the next generation takes up, as `tree::history` does: the only one that is not in
/// the chain, if it has the number that follows.
fn taken_up<'l>(lists: &'l [ListFile], chain: &mhl::Chain) -> Option<&'l [u8]> {
    let mut new = lists.iter().filter(|list| !chain.entries.iter().any(|entry| entry.name == list.name));
    let last = new.next().filter(|_| new.next().is_none())?;
    let follows = mhl::generation_of(&last.name) == Some(chain.next_generation());
    follows.then_some(&last.name[..])
}

/// Adds the functions of all histories in a directory tree to those that are computed: whether
/// that was not ended.
pub(super) fn add_kinds_below(
    branch: &Branch,
    kinds: &mut BTreeSet<HashKind>,
    go_on: &mut dyn FnMut() -> bool,
) -> bool {
    // What cannot be listed is reported when the tree is gone through.
    let (mut page, mut waiting) = (Page::new(), vec![(branch.id, false)]);
    while let Some((directory, is_history)) = waiting.pop() {
        if !go_on() {
            return false;
        }
        let mut from = Some(Cursor::Start);
        while let Some(cursor) = from {
            from = branch.tree.list(directory, &cursor, &mut page).ok().flatten();
            for entry in page.iter() {
                let kind = entry.kind.map_or_else(|| branch.tree.node(entry.id).map(|node| node.kind), Ok);
                match kind {
                    Ok(Kind::Directory) if !is_history => {
                        waiting.push((entry.id, entry.name == mhl::FOLDER.as_bytes()));
                    }
                    Ok(Kind::File) if is_history && mhl::generation_of(entry.name).is_some() => {
                        let list = branch.tree.open(entry.id).and_then(crate::source::Forwards::new);
                        list.into_iter().for_each(|list| add_kinds(list, kinds));
                    }
                    _ => {}
                }
            }
        }
    }
    true
}

/// The digest of a list.
pub(super) fn digest_of(list: &ListFile, kind: HashKind) -> Result<Digest, String> {
    let mut bytes = list.open().map_err(|error| chain(&error))?;
    let (mut hashing, mut block) = (Hashing::new(&[kind]), vec![0; BLOCK_BYTES]);
    loop {
        let count = bytes.read(&mut block).map_err(|error| chain(&error))?;
        if count == 0 {
            let digest = hashing.finish().pop();
            return Ok(digest.unwrap_or(Digest { kind, value: Vec::new() }));
        }
        hashing.take(block.get(..count).unwrap_or_default());
    }
}

/// The folder that a list in a tree is in, and the directory that the folder is in.
pub(super) fn folder_of(reference: &[u8], below: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let path = joined(below, reference);
    let parent = |path: &[u8]| {
        let end = path.iter().rposition(|byte| *byte == b'/')?;
        path.get(..end).map(<[u8]>::to_vec)
    };
    let folder = parent(&path)?;
    let is_folder = folder.rsplit(|byte| *byte == b'/').next() == Some(mhl::FOLDER.as_bytes());
    let directory = parent(&folder).filter(|_| is_folder)?;
    Some((folder, directory))
}

/// Where a path of a tree is, for messages.
pub(super) fn shown(branch: &Branch, key: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    branch.path().join(std::ffi::OsStr::from_bytes(key))
}
