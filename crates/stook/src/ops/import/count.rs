//! How much of archives a pack does not have yet: asked where room is scarce, before anything is
//! written.

use super::{Result, Source};
use crate::archive::{Archive, Member, MemberKind};
use crate::pack::format::SEGMENT_LEN_MAX;
use crate::pack::tree::PackSummary;
use crate::pack::{self, Key, Pack};
use crate::walk::Kind;

/// Members looked up in one batch.
const BATCH: usize = 4096;

/// Counts what importing adds at least, without reading a body: what the pack has under the same
/// key and as long may be the same, and how long a tar in a stream is cannot be known. When
/// `progress`, which is given members and bytes, says no, counting ends there.
///
/// # Errors
/// Errors of reading the pack.
pub(crate) fn count(
    sources: &[Source<'_>],
    takes: &dyn Fn(&[u8], Kind) -> bool,
    before: Option<&Pack>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<PackSummary> {
    let mut counting = Counting { before, progress, members: 0, summary: PackSummary::default() };
    for (number, source) in sources.iter().enumerate() {
        let Source::Archive(archive) = source else { continue };
        let later = sources.get(number + 1..).unwrap_or_default();
        // Of members with one key the last counts.
        let comes_again = |key: &[u8]| {
            later.iter().any(|source| matches!(source, Source::Archive(later) if later.find(key).is_some()))
        };
        counting.archive(archive, &|member| {
            let kind = if member.kind() == MemberKind::Directory { Kind::Directory } else { Kind::File };
            (member.key.is_empty() || takes(member.key, kind)) && !comes_again(member.key)
        })?;
    }
    Ok(counting.summary)
}

struct Counting<'a> {
    before: Option<&'a Pack>,
    progress: &'a mut dyn FnMut(u64, u64) -> bool,
    /// What was gone through.
    members: u64,
    summary: PackSummary,
}

impl Counting<'_> {
    fn archive(&mut self, archive: &Archive, is_taken: &dyn Fn(&Member<'_>) -> bool) -> Result<()> {
        let mut members = archive.members(b"").filter(|member| is_taken(member));
        while !self.summary.interrupted {
            let batch: Vec<Member<'_>> = members.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            let lens = self.lens(&batch)?;
            for (member, _) in batch.iter().zip(lens).filter(|(member, len)| *len != Some(member.node.len)) {
                self.add(member);
            }
            self.members += batch.len() as u64;
            self.summary.interrupted = !(self.progress)(self.members, self.summary.bytes);
        }
        Ok(())
    }

    /// How long what the pack has under the keys of members is; `None` where it has nothing that
    /// can be read.
    fn lens(&self, members: &[Member<'_>]) -> Result<Vec<Option<u64>>> {
        let Some(before) = self.before else { return Ok(vec![None; members.len()]) };
        let keys: Vec<Key> =
            members.iter().map(|member| Key::bytes(member.key)).collect::<Result<_, pack::Error>>()?;
        // What damage hides is packed again.
        let located: Vec<_> = before.locate(&keys)?.into_iter().map(|found| found.ok().flatten()).collect();
        let entries: Vec<_> = located.iter().flatten().cloned().collect();
        let mut heads = before.heads(&entries)?.into_iter();
        let mut len = || heads.next()?.ok()?.body_len;
        Ok(located.iter().map(|found| found.as_ref().and_then(|_| len())).collect())
    }

    fn add(&mut self, member: &Member<'_>) {
        *match member.kind() {
            MemberKind::File => &mut self.summary.files,
            MemberKind::Directory => &mut self.summary.directories,
            MemberKind::Symlink => &mut self.summary.symlinks,
            MemberKind::HardLink => &mut self.summary.hard_links,
            // Packs do not hold it.
            MemberKind::Other => return,
        } += 1;
        // What is too long for a segment is not packed; that is reported when it is its turn.
        if member.kind() == MemberKind::File && member.node.len < SEGMENT_LEN_MAX {
            self.summary.bytes = self.summary.bytes.saturating_add(member.node.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::archive::OpenOptions;
    use crate::format::tar::write::{Head, end, padding};
    use crate::ops::pack::PackSources;

    fn tar(path: &Path, files: &[(&str, usize)]) {
        let mut bytes = Vec::new();
        for (key, len) in files {
            let (kind, len) = (MemberKind::File, *len as u64);
            let (key, link, xattrs) = (key.as_bytes(), &b""[..], &[][..]);
            bytes.extend(
                Head { key, kind, mode: 0o644, mtime_ns: 7, owner: None, len, link, xattrs }.encode(),
            );
            bytes.resize(bytes.len() + len as usize, b'x');
            bytes.extend(padding(len));
        }
        bytes.extend(end(bytes.len() as u64));
        std::fs::write(path, bytes).unwrap();
    }

    /// Before: nothing was counted, and the pack was begun wherever there was no room for it.
    #[test]
    fn what_archives_add_is_counted_without_what_comes_again_or_is_there() {
        let place = tempfile::tempdir().unwrap();
        let [one, two, packed] = ["one.tar", "two.tar", "p.stook"].map(|name| place.path().join(name));
        tar(&one, &[("a", 1000), ("b", 200), ("left-out", 7)]);
        tar(&two, &[("b", 30), ("c", 4)]);
        let takes = |key: &[u8], _: Kind| key != b"left-out";
        let counted = |before: Option<&Pack>, goes_on: bool| {
            let sources = [&one, &two]
                .map(|path| Source::Archive(Box::new(Archive::open(path, OpenOptions::default()).unwrap())));
            let counted = count(&sources, &takes, before, &mut |_, _| goes_on).unwrap();
            (counted.files, counted.bytes, counted.interrupted)
        };
        assert_eq!(counted(None, true), (3, 1034, false));
        assert_eq!(counted(None, false), (1, 1000, true));
        PackSources::new(vec![two.clone()], packed.clone()).run(&mut ()).unwrap();
        let before = Pack::open_path(&packed, pack::OpenOptions::default()).unwrap();
        assert_eq!(counted(Some(&before), true), (1, 1000, false));
    }
}
