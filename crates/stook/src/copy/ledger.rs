//! [`Ledger`]: the bytes of files that are in memory, over all threads.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// How many bytes may be in memory. What is taken comes back when the last who holds the bytes lets
/// go of them: the slowest destination holds up the reading.
#[derive(Debug)]
pub(super) struct Ledger {
    most: u64,
    free: Mutex<u64>,
    returned: Condvar,
}

/// This many bytes that are taken.
#[derive(Debug)]
pub(super) struct Permit {
    ledger: Arc<Ledger>,
    bytes: u64,
}

impl Ledger {
    pub(super) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, free: Mutex::new(most), returned: Condvar::new() })
    }

    fn free(&self) -> MutexGuard<'_, u64> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room. More than there is at all counts as all there is. A thread that waits holds
    /// nothing that only it gives back.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Permit {
        let bytes = bytes.min(self.most);
        let mut free = self.free();
        while *free < bytes {
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= bytes;
        Permit { ledger: self.clone(), bytes }
    }

    /// Takes room if there is some now.
    pub(super) fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Permit> {
        let bytes = bytes.min(self.most);
        let mut free = self.free();
        *free = free.checked_sub(bytes)?;
        Some(Permit { ledger: self.clone(), bytes })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.ledger.free() += self.bytes;
        self.ledger.returned.notify_all();
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
        assert_eq!(*ledger.free(), 10);
    }
}
