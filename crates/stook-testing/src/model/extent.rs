//! A map from bytes to values that stores one value per byte.

use std::ops::Range;

/// What an insertion into a [`FlatMap`] does with existing bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlatPolicy {
    /// Fails at the first byte that is there.
    Refuse,
    /// Fails at the first byte that is there and is another.
    Compare,
    /// Keeps existing bytes.
    Keep,
    /// Replaces existing bytes.
    Replace,
}

/// One optional value for each of a fixed number of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlatMap<T> {
    bytes: Vec<Option<T>>,
}

impl<T: Clone + PartialEq> FlatMap<T> {
    /// A map of `len` bytes without values.
    pub fn new(len: usize) -> Self {
        Self { bytes: vec![None; len] }
    }

    /// Sets the bytes from `start` on to these values, all or none.
    ///
    /// # Errors
    /// Returns the first byte that the policy refuses.
    pub fn insert(&mut self, start: usize, values: &[T], policy: FlatPolicy) -> Result<(), usize> {
        for (index, value) in (start..).zip(values) {
            let objection = match (&self.bytes[index], policy) {
                (None, _) | (_, FlatPolicy::Keep | FlatPolicy::Replace) => false,
                (Some(_), FlatPolicy::Refuse) => true,
                (Some(old), FlatPolicy::Compare) => old != value,
            };
            if objection {
                return Err(index);
            }
        }
        for (index, value) in (start..).zip(values) {
            if self.bytes[index].is_none() || policy == FlatPolicy::Replace {
                self.bytes[index] = Some(value.clone());
            }
        }
        Ok(())
    }

    /// Takes the values of a range away.
    pub fn remove(&mut self, range: Range<usize>) -> Vec<Option<T>> {
        self.bytes[range].iter_mut().map(Option::take).collect()
    }

    /// The value of every byte of a range.
    pub fn values(&self, range: Range<usize>) -> &[Option<T>] {
        &self.bytes[range]
    }

    /// How many bytes of a range have a value.
    pub fn covered(&self, range: Range<usize>) -> usize {
        self.bytes[range].iter().flatten().count()
    }

    /// The longest runs of bytes without a value in a range, ascending.
    pub fn gaps(&self, range: Range<usize>) -> Vec<Range<usize>> {
        self.runs(range, |value| value.is_none())
    }

    /// The longest runs of bytes with a value in a range, ascending.
    pub fn spans(&self, range: Range<usize>) -> Vec<Range<usize>> {
        self.runs(range, |value| value.is_some())
    }

    fn runs(&self, range: Range<usize>, belongs: impl Fn(&Option<T>) -> bool) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for index in range {
            if !belongs(&self.bytes[index]) {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == index => run.end += 1,
                _ => runs.push(index..index + 1),
            }
        }
        runs
    }
}
