//! The ways of reading that are compared. All have the same options: pieces, memory, depth.

use std::ops::ControlFlow;

use stook::engine::Backend;
use stook::extent::ByteRange;
use stook::source::{Session, Source};
use stook::tree::{GatherOptions, Gathered, NodeId, Tree as _};
use stook::walk::DirectoryTree;
use stook_study::digest::{Digest, Fingerprint};

/// Reads all of a source through one session, as a gather reads a long body; how many bytes.
pub(crate) fn by_session(source: &dyn Source) -> anyhow::Result<u64> {
    let options = GatherOptions::default();
    let mut session = Session::new(&Backend::Auto, options.session)?;
    let (mut next, mut under_way, mut bytes) = (0, 0, 0);
    loop {
        let has_room = |under_way: u64| under_way + options.piece_bytes <= options.memory_bytes;
        while next < source.len() && !session.is_full() && has_room(under_way) {
            let end = next.saturating_add(options.piece_bytes).min(source.len());
            let range = ByteRange::new(next, end).unwrap_or_default();
            let access = options.access.decide(source, range);
            session.submit(next, source, range, access)?;
            under_way += range.len();
            next = end;
        }
        let Some((from, read)) = session.next() else { return Ok(bytes) };
        let len = read?.len() as u64;
        // As after each piece of a gather.
        source.check_ranges(&[ByteRange::at(from, len).unwrap_or_default()])?;
        under_way -= len;
        bytes += len;
    }
}

/// Reads files through a directory as a tree; how many bytes.
pub(super) fn gather(tree: &DirectoryTree, ids: &[NodeId]) -> anyhow::Result<u64> {
    let mut bytes = 0;
    gather_each(tree, ids, |_, body| bytes += body.len() as u64)?;
    Ok(bytes)
}

/// The bytes of files of these lengths that lie one after another in a source.
pub(crate) fn fingerprint(source: &dyn Source, lens: &[u64]) -> anyhow::Result<Fingerprint> {
    let digest = Digest::default();
    let mut session = Session::new(&Backend::Auto, GatherOptions::default().session)?;
    let mut at = 0;
    for (index, &len) in lens.iter().enumerate() {
        let range = ByteRange::at(at, len).unwrap_or_default();
        let access = GatherOptions::default().access.decide(source, range);
        for bytes in session.read_batch(source, &[range], access)? {
            digest.piece(&index.to_le_bytes(), 0, &bytes);
        }
        at += len;
    }
    Ok(digest.finish())
}

/// The bytes of files as a gather delivers them.
pub(super) fn gather_fingerprint(tree: &DirectoryTree, ids: &[NodeId]) -> anyhow::Result<Fingerprint> {
    let digest = Digest::default();
    gather_each(tree, ids, |index, body| digest.piece(&index.to_le_bytes(), 0, body))?;
    Ok(digest.finish())
}

fn gather_each(
    tree: &DirectoryTree,
    ids: &[NodeId],
    mut each: impl FnMut(usize, &[u8]),
) -> anyhow::Result<()> {
    let mut failure = None;
    let mut take = |one: Gathered| -> ControlFlow<()> {
        match one.result {
            Ok(piece) if piece.is_whole() => each(one.index, &piece.bytes),
            Ok(_) => failure = Some(anyhow::anyhow!("a body came in pieces")),
            Err(error) => failure = Some(error.into()),
        }
        if failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    tree.gather(ids, &Backend::Auto, &GatherOptions::default(), &mut take)?;
    match failure {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
