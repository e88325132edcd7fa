//! [`Crcs`]: the CRC-32 of members, computed when they are asked for, or as their bytes pass.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::Crc;

use super::bodies::Bodies;
use super::members::{Member, Members};
use super::writing::{BodyRange, read_in_order};
use crate::error::Result;
use crate::format::MemberKind;
use crate::format::zip::directory::crc32;

/// A CRC-32 that is known.
const KNOWN: u64 = 1 << 32;

/// The CRC-32 of each member whose body has its number.
pub(super) struct Crcs {
    members: Arc<Members>,
    known: Box<[AtomicU64]>,
    /// The member whose bytes pass, how many of them did, and the CRC-32 so far.
    running: Mutex<Option<(u32, u64, Crc)>>,
}

impl Crcs {
    pub(super) fn new(members: Arc<Members>) -> Self {
        let known = members.all().iter().map(|_| AtomicU64::new(0)).collect();
        Self { members, known, running: Mutex::default() }
    }

    fn member(&self, number: u32) -> Option<&Member> {
        self.members.all().get(number as usize)
    }

    fn note(&self, number: u32, crc: u32) {
        if let Some(slot) = self.known.get(number as usize) {
            slot.store(KNOWN | u64::from(crc), Ordering::Release);
        }
    }

    /// That of a member whose bytes were read.
    pub(super) fn get(&self, number: u32) -> u32 {
        let link = self.member(number).filter(|member| member.kind != MemberKind::File);
        if let Some(member) = link {
            return crc32(&member.link);
        }
        self.known.get(number as usize).map_or(0, |slot| (slot.load(Ordering::Acquire) & !KNOWN) as u32)
    }

    /// Hears the bytes of a body, from its front on.
    pub(super) fn passed(&self, number: u32, at: u64, bytes: &[u8]) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let (body, mut passed, mut crc) = match running.take() {
            Some(before) if at > 0 && (before.0, before.1) == (number, at) => before,
            _ if at == 0 => (number, 0, Crc::new()),
            _ => return,
        };
        crc.update(bytes);
        passed = passed.saturating_add(bytes.len() as u64);
        if self.member(number).is_some_and(|member| member.len == passed) {
            self.note(number, crc.sum());
        } else {
            *running = Some((body, passed, crc));
        }
    }

    /// Reads those of these members whose CRC-32 is not known yet, many at a time.
    pub(super) fn read(&self, bodies: &Bodies, numbers: std::ops::Range<u32>) -> Result<()> {
        let is_unknown = |number: &u32| {
            let slot = self.known.get(*number as usize);
            slot.is_some_and(|slot| slot.load(Ordering::Acquire) & KNOWN == 0)
        };
        let files = numbers.filter(is_unknown).filter_map(|number| {
            let member = self.member(number)?;
            // That of no bytes is 0.
            let is_read = member.kind == MemberKind::File && member.len > 0 && !member.is_kept();
            is_read.then_some((number, member.len))
        });
        let files: Vec<(u32, u64)> = files.collect();
        // A descriptor of which the bytes have just passed asks for nothing: an engine takes longer
        // to make than most members to read.
        if files.is_empty() {
            return Ok(());
        }
        let numbers: Vec<u32> = files.iter().map(|(number, _)| *number).collect();
        let mut crc = Crc::new();
        let ranges = files.into_iter().flat_map(|(number, len)| BodyRange::all(number, 0, len));
        read_in_order(bodies, &numbers, &mut ranges.map(|range| (Some(range), range)), &mut |range, bytes| {
            crc.update(&bytes);
            if range.is_last {
                self.note(range.number, crc.sum());
                crc = Crc::new();
            }
            Ok(())
        })
    }
}
