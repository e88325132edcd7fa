//! [`Reading`]: many members one after another, with reads running ahead across them.

mod front;
mod random;

use self::front::Front;
use self::random::Random;
use super::error::{Error, Result};
use super::member::{Member, MemberKind, Method};
use super::open::Archive;

/// Reads members in the order in which they were asked for.
///
/// Of a compressed tar, a member that stands before the one read last costs a new pass from the front.
#[derive(Debug)]
pub struct Reading<'a> {
    archive: &'a Archive,
    way: Way<'a>,
    /// What is known without reading: the target of a link.
    ready: Option<&'a [u8]>,
    refused: Option<Error>,
}

#[derive(Debug)]
enum Way<'a> {
    Random(Box<Random<'a>>),
    Front(Box<Front<'a>>),
}

impl<'a> Reading<'a> {
    pub(super) fn new(archive: &'a Archive, numbers: Vec<u64>) -> Result<Self> {
        let way = match archive.is_sequential() {
            true => Way::Front(Box::new(Front::new(archive, numbers))),
            false => Way::Random(Box::new(Random::new(archive, numbers)?)),
        };
        Ok(Self { archive, way, ready: None, refused: None })
    }

    /// The next member; what was not read of the one before is passed over. Its bytes come from
    /// [`chunk`](Self::chunk).
    ///
    /// # Errors
    /// What reading meets.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not lend the bytes of a member")]
    pub fn next(&mut self) -> Result<Option<Member<'a>>> {
        let number = match &mut self.way {
            Way::Random(random) => random.next()?,
            Way::Front(front) => front.next(),
        };
        let Some(number) = number else { return Ok(None) };
        let archive = self.archive;
        let member = archive.index().member(number);
        let member = member.ok_or_else(|| Error::Invalid(format!("there is no member {number}")))?;
        self.ready = (member.kind == MemberKind::Symlink && !member.link.is_empty()).then_some(member.link);
        self.refused = refusal(&member).map(Error::Invalid);
        Ok(Some(member))
    }

    /// The next bytes of the member; none after the last. Those of a zip are the right ones only when none follow:
    /// its checksum is over all of them.
    ///
    /// # Errors
    /// What reading meets, or why its bytes cannot be had. The next member can be.
    pub fn chunk(&mut self) -> Result<Option<&[u8]>> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        if let Some(link) = self.ready.take() {
            return Ok(Some(link));
        }
        match &mut self.way {
            Way::Random(random) => random.chunk(),
            Way::Front(front) => front.chunk(),
        }
    }
}

/// Whether the bytes of a member are read from the file.
fn is_read(member: &Member<'_>) -> bool {
    refusal(member).is_none()
        && member.has_body
        && (member.kind != MemberKind::Symlink || member.link.is_empty())
}

/// Why the bytes of a member cannot be had.
fn refusal(member: &Member<'_>) -> Option<String> {
    let key = String::from_utf8_lossy(member.key);
    Some(match (member.kind, member.method) {
        (MemberKind::Directory, _) => return None,
        (MemberKind::Other, _) => format!("{key} is a pipe, a device or something of its program's own"),
        (MemberKind::HardLink, _) if !member.has_body => {
            let link = String::from_utf8_lossy(member.link);
            format!("{key} is a further name of {link}, and there is no such file before it")
        }
        (_, Method::Encrypted) => format!("{key} is encrypted"),
        (_, Method::Unknown(method)) => {
            format!("{key} is compressed by method {method}, which is not known here")
        }
        _ => return None,
    })
}
