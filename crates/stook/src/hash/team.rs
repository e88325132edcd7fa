//! [`HashingTeam`]: several hashes of the same bytes, each slow one by a thread of its own.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use bytes::Bytes;

use super::{Digest, HashKind, Hashing};

/// Blocks that wait for a thread.
const WAITING: usize = 4;

/// Takes the bytes of one file, in order, and computes hashes of them. Those that take longer than
/// reading are computed side by side: by the thread that calls, and by one for each further of
/// them.
#[derive(Debug)]
pub struct HashingTeam {
    /// What the thread that calls computes.
    own: Hashing,
    helpers: Vec<Helper>,
    kinds: Vec<HashKind>,
}

/// A thread and what it is handed.
#[derive(Debug)]
struct Helper {
    parts: SyncSender<Part>,
    thread: JoinHandle<Vec<Digest>>,
}

#[derive(Debug, Clone)]
enum Part {
    Bytes(Bytes),
    Zeroes(u64),
}

/// Whether a function is no faster than disks are.
const fn is_slow(kind: HashKind) -> bool {
    matches!(kind, HashKind::Sha256 | HashKind::Sha1 | HashKind::Md5 | HashKind::C4)
}

impl HashingTeam {
    /// By these functions. Where a thread cannot be had, the one that calls does its work.
    pub fn new(kinds: &[HashKind]) -> Self {
        let mut slow = kinds.iter().copied().filter(|kind| is_slow(*kind));
        // The fast ones take little time beside a slow one.
        let mut own: Vec<HashKind> = kinds.iter().copied().filter(|kind| !is_slow(*kind)).collect();
        own.extend(slow.next());
        let mut helpers = Vec::new();
        for kind in slow {
            match Helper::new(kind) {
                Ok(helper) => helpers.push(helper),
                Err(_) => own.push(kind),
            }
        }
        Self { own: Hashing::new(&own), helpers, kinds: kinds.to_vec() }
    }

    /// The next bytes.
    pub fn take(&mut self, bytes: &Bytes) {
        self.hand_over(&Part::Bytes(bytes.clone()));
        self.own.take(bytes);
    }

    /// This many zeros of a hole.
    pub fn take_zeroes(&mut self, len: u64) {
        self.hand_over(&Part::Zeroes(len));
        self.own.take_zeroes(len);
    }

    fn hand_over(&self, part: &Part) {
        // A thread ends only after it is handed nothing more, or by a panic, which `finish` raises.
        self.helpers.iter().for_each(|helper| drop(helper.parts.send(part.clone())));
    }

    /// No more bytes: the values, in the order of the functions given.
    pub fn finish(mut self) -> Vec<Digest> {
        let mut found = std::mem::replace(&mut self.own, Hashing::new(&[])).finish();
        for Helper { parts, thread } in std::mem::take(&mut self.helpers) {
            drop(parts);
            found.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        let of = |kind: &HashKind| found.iter().find(|digest| digest.kind == *kind).cloned();
        self.kinds.iter().filter_map(of).collect()
    }
}

impl Drop for HashingTeam {
    /// Waits for threads of a file that was given up: none outlives the team.
    fn drop(&mut self) {
        for Helper { parts, thread } in std::mem::take(&mut self.helpers) {
            drop(parts);
            let _ = thread.join();
        }
    }
}

impl Helper {
    fn new(kind: HashKind) -> std::io::Result<Self> {
        let (parts, incoming) = sync_channel(WAITING);
        let run = move || run(kind, &incoming);
        let thread = Builder::new().name(format!("hash {}", kind.name())).spawn(run)?;
        Ok(Self { parts, thread })
    }
}

fn run(kind: HashKind, incoming: &Receiver<Part>) -> Vec<Digest> {
    let mut hashing = Hashing::new(&[kind]);
    while let Ok(part) = incoming.recv() {
        match part {
            Part::Bytes(bytes) => hashing.take(&bytes),
            Part::Zeroes(len) => hashing.take_zeroes(len),
        }
    }
    hashing.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_computes_what_one_thread_does_in_the_order_asked_for() {
        for kinds in
            [&HashKind::ALL[..], &[HashKind::Md5], &[HashKind::C4, HashKind::Xxh3, HashKind::Sha1], &[]]
        {
            let (mut team, mut one) = (HashingTeam::new(kinds), Hashing::new(kinds));
            for part in 0..20_u8 {
                let bytes = Bytes::from(vec![part; 10_000]);
                team.take(&bytes);
                one.take(&bytes);
                team.take_zeroes(u64::from(part) * 1000);
                one.take_zeroes(u64::from(part) * 1000);
            }
            assert_eq!(team.finish(), one.finish());
        }
    }

    #[test]
    fn a_team_that_is_given_up_leaves_no_thread_with_its_bytes() {
        let bytes = Bytes::from(vec![7; 1 << 20]);
        let mut team = HashingTeam::new(&HashKind::ALL);
        assert_eq!(team.helpers.len(), 3);
        team.take(&bytes);
        drop(team);
        assert!(bytes.is_unique());
    }
}
