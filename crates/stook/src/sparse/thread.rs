//! Small numbers for threads.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Numbers of ended threads, and the next unused number.
static NUMBERS: Mutex<(BTreeSet<usize>, usize)> = Mutex::new((BTreeSet::new(), 0));

/// The number of a thread, given back when it ends.
struct Number(usize);

impl Number {
    fn take() -> Self {
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let (free, next) = &mut *numbers;
        Self(free.pop_first().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        }))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).0.insert(self.0);
    }
}

thread_local! {
    static NUMBER: Number = Number::take();
}

/// A number that no other thread has while the calling one runs, as small as can be; `usize::MAX`
/// for any number of threads that are just ending.
#[inline]
pub(super) fn thread_number() -> usize {
    NUMBER.try_with(|number| number.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_at_the_same_time_have_different_numbers() {
        let mut numbers = vec![thread_number()];
        let all = std::sync::Barrier::new(8);
        let one = || {
            let number = thread_number();
            all.wait();
            number
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            numbers.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        });
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 9);
        assert_eq!(thread_number(), thread_number());
    }
}
