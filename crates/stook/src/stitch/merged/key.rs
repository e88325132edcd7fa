//! What an entry is found by: all that decides the bytes of a virtual file.

use std::collections::HashSet;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::error::{self, chain};
use crate::format::MemberKind;
use crate::source::{Identity, Source};
use crate::stitch::file::VirtualFile;
use crate::stitch::members::Members;
use crate::stitch::pieces::Piece;
use crate::tree::ahead::OpenAhead;

/// The layout that computes what a virtual file has beside the bytes of its bodies, its version,
/// and all that decides what it computes, but for the pieces and the states of bodies.
#[derive(Clone)]
pub struct MadeBy {
    layout: &'static str,
    version: u32,
    rest: blake3::Hasher,
}

impl fmt::Debug for MadeBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layout, version) = (self.layout, self.version);
        f.debug_struct("MadeBy").field("layout", &layout).field("version", &version).finish_non_exhaustive()
    }
}

impl MadeBy {
    /// A layout by its name. Its version is another one as soon as it makes other bytes of the
    /// same.
    pub fn new(layout: &'static str, version: u32) -> Self {
        Self { layout, version, rest: blake3::Hasher::new() }
    }

    /// With something else that decides what it computes, such as an option.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl AsRef<[u8]>) -> Self {
        put(&mut self.rest, field.as_bytes());
        put(&mut self.rest, value.as_ref());
        self
    }

    /// With all that listings say of members.
    #[must_use]
    pub fn with_members(mut self, members: &Members) -> Self {
        put(&mut self.rest, b"members");
        number(&mut self.rest, members.all().len() as u64);
        for member in members.all() {
            put(&mut self.rest, &member.key);
            let kind = match member.kind {
                MemberKind::File => 0,
                MemberKind::Directory => 1,
                MemberKind::Symlink => 2,
                MemberKind::HardLink => 3,
                MemberKind::Other => 4,
            };
            let owner =
                member.owner.map_or([0, 0, 0], |(user, group)| [1, u64::from(user), u64::from(group)]);
            let numbers = [kind, u64::from(member.mode), member.mtime_ns.cast_unsigned(), member.len];
            numbers.into_iter().chain(owner).for_each(|value| number(&mut self.rest, value));
            put(&mut self.rest, &member.link);
        }
        self
    }
}

/// Bytes with their length before them, so that no two lists of them are the same bytes.
fn put(hash: &mut blake3::Hasher, bytes: &[u8]) {
    number(hash, bytes.len() as u64);
    hash.update(bytes);
}

fn number(hash: &mut blake3::Hasher, number: u64) {
    hash.update(&number.to_le_bytes());
}

/// The bodies that pieces are of, each once, in the order in which they are first used.
pub(super) fn numbers_of(file: &VirtualFile) -> Vec<u32> {
    let mut seen = HashSet::new();
    let numbers = file.pieces_in_order().filter_map(|(piece, _)| match piece {
        Piece::Body { number, .. } => Some(number),
        _ => None,
    });
    numbers.filter(|number| seen.insert(*number)).collect()
}

/// The key of a virtual file, for which all its bodies are opened; or why it has none now.
pub(super) fn key_of(file: &VirtualFile, numbers: &[u32], salt: &[u8; 32]) -> Result<[u8; 32], String> {
    let mut hash = blake3::Hasher::new_keyed(salt);
    put(&mut hash, b"merged 1");
    put(&mut hash, file.path().as_os_str().as_bytes());
    let made_by = file.bodies().parts().made_by();
    let is_made = file.pieces_in_order().any(|(piece, _)| matches!(piece, Piece::Made { .. }));
    if is_made && made_by.is_none() {
        return Err("its layout does not say what decides the bytes that it makes".to_owned());
    }
    put(&mut hash, made_by.as_ref().map_or("", |made_by| made_by.layout).as_bytes());
    number(&mut hash, made_by.as_ref().map_or(0, |made_by| u64::from(made_by.version)));
    hash.update(&made_by.map_or([0; 32], |made_by| *made_by.rest.finalize().as_bytes()));
    put_pieces(&mut hash, file);
    number(&mut hash, numbers.len() as u64);
    let parts = file.bodies().parts();
    let is_virtual = |body: &&u32| parts.virtual_body(**body).is_some();
    let (others, plain): (Vec<u32>, Vec<u32>) = numbers.iter().partition(is_virtual);
    let open = |at: usize| as_it_is(file, plain.get(at).copied().unwrap_or(u32::MAX));
    let ahead = OpenAhead::new(file.path(), plain.len(), &open);
    ahead.run(|| {
        for body in &plain {
            let Some((_, opened)) = ahead.take_next() else { break };
            number(&mut hash, u64::from(*body));
            put_body(&mut hash, opened, salt)?;
        }
        Ok::<_, String>(())
    })?;
    for body in others {
        let Some(inner) = parts.virtual_body(body) else { continue };
        number(&mut hash, u64::from(body));
        put_state(&mut hash, &key_of(&inner, &numbers_of(&inner), salt)?, &inner.identity());
    }
    Ok(*hash.finalize().as_bytes())
}

/// A body as it is now. One that has been open for long may have changed since.
fn as_it_is(file: &VirtualFile, body: u32) -> error::Result<Arc<dyn Source>> {
    let source = file.bodies().get(body)?;
    let (now, before) = (source.current_identity()?, source.identity());
    match before.same_content(&now) {
        true => Ok(source),
        false => Err(error::Error::changed(source.path(), before, now)),
    }
}

fn put_pieces(hash: &mut blake3::Hasher, file: &VirtualFile) {
    number(hash, file.pieces() as u64);
    for (piece, len) in file.pieces_in_order() {
        let (kind, one, two) = match piece {
            Piece::Body { number, offset } => (0, u64::from(number), offset),
            Piece::Held { .. } => (1, 0, 0),
            Piece::Fill(byte) => (2, u64::from(byte), 0),
            Piece::Made { number, offset } => (3, u64::from(number), offset),
        };
        [kind, len, one, two].into_iter().for_each(|value| number(hash, value));
        if let Piece::Held { block, offset } = piece {
            hash.update(&file.held(block, offset, len));
        }
    }
}

/// Where a body comes from, and its state: only such as no later change can leave as it is.
fn put_body(
    hash: &mut blake3::Hasher,
    opened: error::Result<Arc<dyn Source>>,
    salt: &[u8; 32],
) -> Result<(), String> {
    let source = opened.map_err(|error| chain(&error))?;
    let origin = source.origin();
    if !source.identity().can_be_proof() {
        return Err(format!("nothing would show that {} changes", origin.name()));
    }
    if !source.is_proven() {
        return Err(format!("{} changed a moment ago, and may change again unseen", origin.name()));
    }
    put_state(hash, &origin.salted(salt), &source.identity());
    Ok(())
}

fn put_state(hash: &mut blake3::Hasher, origin: &[u8; 32], identity: &Identity) {
    hash.update(origin);
    let Identity { len, device, inode, mtime_ns, ctime_ns, etag, version } = identity;
    let times = [mtime_ns.cast_unsigned(), ctime_ns.cast_unsigned()];
    [*len, *device, *inode].into_iter().chain(times).for_each(|value| number(hash, value));
    for text in [etag, version] {
        number(hash, u64::from(text.is_some()));
        put(hash, text.as_deref().unwrap_or("").as_bytes());
    }
}

/// What a virtual file is called where it may be shown.
pub(super) fn shown(path: &Path) -> String {
    crate::source::shown(&path.to_string_lossy())
}
