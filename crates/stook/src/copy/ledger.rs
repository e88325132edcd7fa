//! [`Ledger`]: the bytes of files that are in memory, over all threads.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// How many bytes may be in memory. What is taken comes back when the last who holds the bytes lets
/// go of them: the slowest destination holds up the reading.
#[derive(Debug)]
pub(super) struct Ledger {
    most: u64,
    room: Mutex<Room>,
    returned: Condvar,
}

#[derive(Debug)]
struct Room {
    free: u64,
    /// Threads that wait for more of it: without any, none is woken, which is a system call.
    waiting: usize,
}

/// This many bytes that are taken.
#[derive(Debug)]
pub(super) struct Permit {
    ledger: Arc<Ledger>,
    bytes: u64,
}

impl Ledger {
    pub(super) fn new(most: u64) -> Arc<Self> {
        let room = Mutex::new(Room { free: most, waiting: 0 });
        Arc::new(Self { most, room, returned: Condvar::new() })
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room. More than there is at all counts as all there is. A thread that waits holds
    /// nothing that only it gives back.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Permit {
        let bytes = bytes.min(self.most);
        let mut room = self.room();
        while room.free < bytes {
            room.waiting += 1;
            room = self.returned.wait(room).unwrap_or_else(PoisonError::into_inner);
            room.waiting -= 1;
        }
        room.free -= bytes;
        Permit { ledger: self.clone(), bytes }
    }

    /// Takes room if there is some now.
    pub(super) fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Permit> {
        let bytes = bytes.min(self.most);
        let mut room = self.room();
        room.free = room.free.checked_sub(bytes)?;
        Some(Permit { ledger: self.clone(), bytes })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut room = self.ledger.room();
        room.free += self.bytes;
        let is_awaited = room.waiting > 0;
        drop(room);
        if is_awaited {
            self.ledger.returned.notify_all();
        }
    }
}

/// Bytes with the room that they take.
#[derive(Debug)]
struct Held {
    bytes: Bytes,
    _permit: Permit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// These bytes, in the same memory; the room comes back when the last of their copies is dropped.
pub(super) fn held(bytes: Bytes, permit: Permit) -> Bytes {
    Bytes::from_owner(Held { bytes, _permit: permit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_back_with_the_last_copy_of_the_bytes() {
        let ledger = Ledger::new(10);
        let bytes = held(Bytes::from_static(b"123456"), ledger.take(6));
        let copy = bytes.slice(1..2);
        assert!(ledger.try_take(5).is_none());
        drop(bytes);
        assert!(ledger.try_take(5).is_none());
        let waiting = std::thread::spawn({
            let ledger = ledger.clone();
            move || ledger.take(1000).bytes
        });
        drop(copy);
        assert_eq!(waiting.join().unwrap(), 10);
        assert_eq!(ledger.room().free, 10);
    }
}
