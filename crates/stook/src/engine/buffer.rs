//! Memory the kernel may write to while an operation is in flight.
//!
//! A [`Buffer`] owns its bytes alone: it is moved into a request and comes back with the completion,
//! so nobody can look at it, or free it, in between. An [`Arena`] is one large contiguous mapping that
//! lends disjoint buffers, so that neighbouring reads land side by side and a record that crosses the
//! border between two of them is still one slice.
