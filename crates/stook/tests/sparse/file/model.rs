//! Reads in any order return the bytes of the source.

use proptest::prelude::*;
use stook::extent::ByteRange;
use stook::sparse::{AheadOptions, SparseFile, SparseFileOptions, SparseOptions, SparseStore};

use super::{CountedSource, part, range};

#[derive(Debug, Clone)]
enum Step {
    Read(u64, u64),
    ReadAt(u64, usize),
    Many(Vec<(u64, u64)>),
    Evict(u64),
    Erase(u64, u64),
}

const LEN: u64 = 300_000;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0..LEN, 0_u64..20_000);
    let step = prop_oneof![
        4 => place().prop_map(|(at, len)| Step::Read(at, len)),
        4 => (0..LEN + 10, 0_usize..20_000).prop_map(|(at, len)| Step::ReadAt(at, len)),
        2 => prop::collection::vec(place(), 0..6).prop_map(Step::Many),
        1 => (0..LEN).prop_map(Step::Evict),
        1 => place().prop_map(|(at, len)| Step::Erase(at, len)),
    ];
    prop::collection::vec(step, 1..60)
}

fn within(at: u64, len: u64) -> ByteRange {
    range(at, (at + len).min(LEN))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn reads_give_the_bytes_of_the_source(
        steps in steps(),
        budget in 20_000_u64..400_000,
        allowance in 0_u64..200_000,
        max_gap in 0_u64..30_000,
        max_request_bytes in 1_000_usize..100_000,
    ) {
        let (source, bytes) = CountedSource::of_len(LEN as usize);
        let store = SparseStore::new(SparseOptions { budget_bytes: budget, ..SparseOptions::default() }).unwrap();
        let mut options = SparseFileOptions {
            ahead: AheadOptions { max_gap, allowance, ..AheadOptions::default() },
            ..SparseFileOptions::default()
        };
        options.session.max_request_bytes = max_request_bytes;
        let file = SparseFile::in_store(source.clone(), &store, "file", options).unwrap();
        for step in steps {
            match step {
                Step::Read(at, len) => {
                    let wanted = within(at, len);
                    prop_assert_eq!(&file.read(wanted).unwrap()[..], part(&bytes, wanted));
                }
                Step::ReadAt(at, len) => {
                    let mut out = vec![0; len];
                    let read = file.read_at(at, &mut out).unwrap();
                    let wanted = range(at.min(LEN), (at + len as u64).min(LEN).max(at.min(LEN)));
                    prop_assert_eq!(&out[..read], part(&bytes, wanted));
                }
                Step::Many(places) => {
                    let wanted: Vec<_> = places.iter().map(|&(at, len)| within(at, len)).collect();
                    let read = file.read_many(&wanted).unwrap();
                    for (wanted, read) in wanted.iter().zip(read) {
                        prop_assert_eq!(&read[..], part(&bytes, *wanted));
                    }
                }
                Step::Evict(to) => {
                    file.buffer().evict_to(to);
                }
                Step::Erase(at, len) => {
                    file.buffer().erase(within(at, len));
                }
            }
            prop_assert!(store.held_bytes() <= budget);
            let all = source.asked();
            prop_assert!(all.iter().all(|asked| asked.len() <= max_request_bytes as u64));
        }
        let statistics = file.statistics();
        prop_assert_eq!(statistics.hits + statistics.misses, statistics.reads);
        prop_assert_eq!(statistics.requests as usize, source.asked().len());
    }
}
