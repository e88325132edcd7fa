//! A table whose slots are reused: tokens for requests in flight, without hashing.

/// Values by small numbers that it assigns itself.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The number that the next value gets.
    pub(super) fn next_number(&self) -> usize {
        self.free.last().copied().unwrap_or(self.slots.len())
    }

    /// Keeps a value; returns its number.
    pub(super) fn insert(&mut self, value: T) -> usize {
        if let Some(at) = self.free.pop() {
            self.slots[at] = Some(value);
            return at;
        }
        self.slots.push(Some(value));
        self.slots.len() - 1
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.slots.get_mut(at)?.as_mut()
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<T> {
        let value = self.slots.get_mut(at)?.take()?;
        self.free.push(at);
        Some(value)
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().flatten()
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_never_twice_at_once() {
        let mut slab = Slab::new();
        let (first, second) = (slab.insert('a'), slab.insert('b'));
        assert_ne!(first, second);
        assert_eq!(slab.remove(first), Some('a'));
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.next_number(), first);
        assert_eq!(slab.insert('c'), first);
        assert_eq!(slab.next_number(), 2);
        assert_eq!((slab.len(), slab.get_mut(second).copied()), (2, Some('b')));
        assert_eq!(slab.into_values().collect::<Vec<_>>(), ['c', 'b']);
    }
}
