//! Files that grow, against a plain vector of bytes.

use proptest::prelude::*;
use stook::engine::Backend;
use stook::storage::{Appender, LocalStorage, Storage, WriteAccess};
use stook_testing::conformance::{contents, pattern};
use stook_testing::sim::SimStorage;

use super::storage::options;

#[derive(Debug, Clone)]
enum Step {
    Append {
        lens: Vec<usize>,
        zeros: bool,
    },
    Flush,
    Sync,
    /// To this many thousandths of its length.
    Truncate(u64),
    Reopen,
    /// Let go without a flush: what was not flushed is lost from some byte on.
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![0..600_usize, Just(4096), 0..70_000_usize, Just(65_536), 0..400_000_usize];
    let step = prop_oneof![
        6 => (prop::collection::vec(len, 0..4), prop::bool::weighted(0.2))
            .prop_map(|(lens, zeros)| Step::Append { lens, zeros }),
        1 => Just(Step::Flush),
        1 => Just(Step::Sync),
        1 => (0..=1000_u64).prop_map(Step::Truncate),
        1 => Just(Step::Reopen),
        1 => Just(Step::Forget),
    ];
    prop::collection::vec(step, 1..24)
}

/// A file of a storage and its expected contents.
struct Modelled<'a> {
    storage: &'a dyn Storage,
    appender: Box<dyn Appender>,
    model: Vec<u8>,
    /// Bytes of the model that were flushed, and not cut since.
    flushed: usize,
}

impl<'a> Modelled<'a> {
    fn new(storage: &'a dyn Storage) -> Self {
        Self { storage, appender: storage.create("file").unwrap(), model: Vec::new(), flushed: 0 }
    }

    fn step(&mut self, number: usize, step: &Step) {
        match step {
            Step::Append { lens, zeros } => self.append(number, lens, *zeros),
            Step::Flush => self.appender.flush().unwrap(),
            Step::Sync => self.appender.sync().unwrap(),
            Step::Truncate(thousandths) => {
                let len = self.model.len() as u64 * thousandths / 1000;
                self.appender.truncate(len).unwrap();
                self.model.truncate(len as usize);
                self.flushed = self.flushed.min(self.model.len());
            }
            Step::Reopen => {
                self.appender.flush().unwrap();
                self.appender = self.storage.open_append("file").unwrap();
            }
            Step::Forget => self.forget(),
        }
        assert_eq!(self.appender.len(), self.model.len() as u64);
        if matches!(step, Step::Flush | Step::Sync | Step::Reopen) {
            self.flushed = self.model.len();
            assert!(contents(self.storage, "file") == self.model, "after step {number}");
        }
    }

    fn append(&mut self, number: usize, lens: &[usize], zeros: bool) {
        let part = |(index, len): (usize, &usize)| match zeros {
            true => vec![0; *len],
            false => pattern(*len, (number * 10 + index) as u64),
        };
        let parts: Vec<Vec<u8>> = lens.iter().enumerate().map(part).collect();
        let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        self.appender.append(&slices).unwrap();
        self.model.extend(parts.concat());
    }

    fn forget(&mut self) {
        // Letting go comes before opening again: only then has all of it arrived.
        self.appender = self.storage.open_append("file").unwrap();
        self.appender = self.storage.open_append("file").unwrap();
        let found = contents(self.storage, "file");
        assert!(found.len() >= self.flushed && found.len() <= self.model.len());
        assert!(found == self.model[..found.len()]);
        self.flushed = found.len();
        self.model = found;
    }
}

fn follows_the_model(storage: &dyn Storage, steps: &[Step]) {
    let mut file = Modelled::new(storage);
    for (number, step) in steps.iter().enumerate() {
        file.step(number, step);
    }
    file.step(steps.len(), &Step::Sync);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_growing_local_file_holds_what_a_vector_would(
        steps in steps(),
        direct in any::<bool>(),
        large in any::<bool>(),
    ) {
        let access = if direct { WriteAccess::Direct } else { WriteAccess::Cached };
        let block_len = if large { 256 << 10 } else { 64 << 10 };
        let directory = tempfile::tempdir().unwrap();
        let storage =
            LocalStorage::open(directory.path(), options(Backend::Auto, access, block_len)).unwrap();
        follows_the_model(&storage, &steps);
    }

    #[test]
    fn a_growing_simulated_file_holds_what_a_vector_would(steps in steps()) {
        follows_the_model(&SimStorage::new(), &steps);
    }
}
