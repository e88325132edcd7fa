//! [`CallFaults`]: system calls that fail, or do less than requested, on demand.
//!
//! Tests pass them in, so that rare outcomes of a kernel occur in either backend as often as
//! needed, and are handled by the production code.

use super::OperationKind;

/// Decides what becomes of system calls: asked before each, in the order in which they would be
/// made.
pub trait CallFaults: Send + Sync + std::fmt::Debug {
    /// What happens to the next call of an operation of this kind; `None` for nothing special. An
    /// operation has as many calls as it takes.
    fn meet(&self, kind: OperationKind) -> Option<CallFault>;
}

/// What happens to a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFault {
    /// It is not made; the system says this number.
    Errno(i32),
    /// Moves at most this many bytes (at least 1); with direct I/O, rounded up to whole blocks.
    /// Calls that move no bytes are unaffected.
    AtMost(u64),
}
