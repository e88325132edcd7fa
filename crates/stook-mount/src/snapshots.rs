//! The file that has the status: made anew each time that its name is looked up, as a file of its
//! own, so that the kernel has no old bytes of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::INodeNo;

/// Numbers of inodes from here on are of such files. No tree has so many nodes.
const FIRST: u64 = 1 << 63;
/// The last that were made are kept, for who reads slowly.
const KEPT: usize = 16;

/// The last of them.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    count: u64,
    last: VecDeque<(u64, Arc<[u8]>)>,
}

impl Snapshots {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps one, and says its number.
    pub(crate) fn add(&self, text: Vec<u8>) -> INodeNo {
        let mut state = self.state();
        let number = FIRST | state.count;
        state.count += 1;
        if state.last.len() >= KEPT {
            state.last.pop_front();
        }
        state.last.push_back((number, text.into()));
        INodeNo(number)
    }

    /// What one has, if it is still there; `None` for any other file.
    pub(crate) fn get(&self, number: INodeNo) -> Option<Arc<[u8]>> {
        if number.0 < FIRST {
            return None;
        }
        let found = self.state().last.iter().find(|(of, _)| *of == number.0).map(|(_, text)| text.clone());
        // One that was dropped is empty by now.
        Some(found.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_number_of_its_own_and_the_last_are_kept() {
        let all = Snapshots::default();
        let numbers: Vec<INodeNo> = (0..KEPT as u8 + 1).map(|byte| all.add(vec![byte; 3])).collect();
        assert_eq!(all.get(numbers[1]).as_deref(), Some(&[1, 1, 1][..]));
        assert_eq!(all.get(numbers[0]).as_deref(), Some(&[][..]));
        assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(all.get(INodeNo(7)), None);
    }
}
