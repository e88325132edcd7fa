//! [`PerProcess`]: a value that a forked child must make again.

use std::sync::OnceLock;

/// A value for each process that asks. What holds threads and connections is of no use in a forked
/// child, and must not even be dropped there: locks in it may have been held by a thread that the
/// child does not have. So the child appends a value of its own to the list and leaves those before
/// it alone. No lock is held while a value is made.
#[derive(Debug)]
pub(super) struct PerProcess<T>(OnceLock<Box<Node<T>>>);

#[derive(Debug)]
struct Node<T> {
    process: u32,
    /// `None` only while it is dropped.
    value: Option<T>,
    next: PerProcess<T>,
}

impl<T> PerProcess<T> {
    pub(super) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The value of this process, made when it has none.
    pub(super) fn get_or_try_init<E>(&self, build: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let process = std::process::id();
        let mut build = Some(build);
        let mut at = self;
        loop {
            match at.0.get().map(Box::as_ref) {
                Some(Node { process: of, value: Some(value), .. }) if *of == process => return Ok(value),
                Some(node) => at = &node.next,
                None => {
                    let Some(build) = build.take() else { continue };
                    let node = Node { process, value: Some(build()?), next: Self::new() };
                    // Another thread may have been faster; then its value is found in the next
                    // round.
                    drop(at.0.set(Box::new(node)));
                }
            }
        }
    }

    /// The value of this process, if it has one.
    pub(super) fn get(&self) -> Option<&T> {
        let process = std::process::id();
        let mut at = self;
        while let Some(node) = at.0.get() {
            if node.process == process {
                return node.value.as_ref();
            }
            at = &node.next;
        }
        None
    }
}

impl<T> Drop for Node<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn a_value_is_made_once_and_what_fails_is_made_again() {
        let values = PerProcess::new();
        assert_eq!(values.get(), None::<&u8>);
        assert_eq!(values.get_or_try_init(|| Err("no")), Err("no"));
        assert_eq!(values.get_or_try_init(|| Ok::<_, Infallible>(5)), Ok(&5));
        assert_eq!(values.get_or_try_init(|| Ok::<_, Infallible>(6)), Ok(&5));
        assert_eq!(values.get(), Some(&5));
    }

    #[test]
    fn the_value_of_another_process_is_neither_used_nor_dropped() {
        struct Loud;
        impl Drop for Loud {
            fn drop(&mut self) {
                panic!("it belongs to another process");
            }
        }
        let values = PerProcess::new();
        let node = Node { process: 0, value: Some(Some(Loud)), next: PerProcess::new() };
        assert!(values.0.set(Box::new(node)).is_ok());
        assert!(values.get().is_none());
        assert!(values.get_or_try_init(|| Ok::<_, Infallible>(None)).is_ok_and(Option::is_none));
        assert!(values.get().is_some_and(Option::is_none));
    }
}
