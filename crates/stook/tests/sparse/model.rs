//! Any sequence of operations against a file that stores one optional byte per position.

use std::ops::Range;

use proptest::prelude::*;
use stook::plan::PlanOptions;
use stook::sparse::{OnDifference, SparseOptions};
use stook_testing::model::sparse::{Both, Operation};

/// Three sizes: a few bytes that meet often, a few leaves of tiny segments, and adopted memory.
const SIZES: [(usize, u32); 3] = [(64, 5), (3000, 4), (60_000, 1 << 16)];

fn a_range(len: usize) -> impl Strategy<Value = Range<usize>> {
    let any = (0..=len, 0..=len).prop_map(|(a, b)| a.min(b)..a.max(b));
    let short = (0..len - 4, 0..4_usize).prop_map(|(start, len)| start..start + len);
    let middle = (0..len - len / 4, 0..len / 4).prop_map(|(start, len)| start..start + len);
    prop_oneof![1 => any, 4 => short, 2 => middle]
}

fn an_operation(len: usize) -> impl Strategy<Value = Operation> {
    let policy = prop::sample::select(vec![OnDifference::Error, OnDifference::Keep, OnDifference::Replace]);
    let odd = prop::option::weighted(0.2, 0..len / 4);
    let write = (a_range(len), odd, policy, any::<bool>())
        .prop_map(|(range, odd, policy, adopt)| Operation::Write { range, odd, policy, adopt });
    let erase = a_range(len).prop_map(|range| Operation::Erase { range });
    let read = a_range(len).prop_map(|range| Operation::Read { range });
    let touch = a_range(len).prop_map(|range| Operation::Touch { range });
    let evict = (0..len, a_range(len)).prop_map(|(budget, pinned)| Operation::Evict { budget, pinned });
    prop_oneof![
        30 => write, 8 => erase, 8 => read, 4 => touch, 3 => evict,
        1 => Just(Operation::Renew), 1 => Just(Operation::Clear),
    ]
}

fn a_case() -> impl Strategy<Value = (usize, u64, Vec<Operation>)> {
    (0..SIZES.len()).prop_flat_map(|size| {
        let len = SIZES[size].0;
        let base = prop::sample::select(vec![0, (1 << 40) + 3, u64::MAX - len as u64]);
        (Just(size), base, prop::collection::vec(an_operation(len), 1..60))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_operations_leave_what_a_flat_file_would_have((size, base, operations) in a_case()) {
        let (len, grain) = SIZES[size];
        let options = SparseOptions { grain, adopt_min: 4096, ..SparseOptions::default() };
        let mut both = Both::new(base, len, options);
        for operation in &operations {
            both.apply(operation);
        }
        both.check(&PlanOptions { max_gap: 7, min_len: 11, max_len: 64, alignment: 8, end: u64::MAX });
    }

    #[test]
    fn thousands_of_tiny_segments_are_split_joined_and_swept(
        seed in any::<u64>(), backwards in any::<bool>(), stride in 1..4_usize, width in 1..4_usize,
    ) {
        let len = 6000;
        let options = SparseOptions { grain: 64, ..SparseOptions::default() };
        let mut both = Both::new(0, len, options);
        let mut order: Vec<usize> = (0..(len - width) / stride).map(|at| at * stride).collect();
        if backwards {
            order.reverse();
        }
        let mut random = seed;
        for at in order {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let range = at..at + width;
            let write = Operation::Write { range, odd: None, policy: OnDifference::Keep, adopt: false };
            both.apply(&write);
            let elsewhere = (random >> 33) as usize % (len - 40);
            match random >> 60 {
                0 => both.apply(&Operation::Erase { range: elsewhere..elsewhere + 40 }),
                1 => {
                    let range = elsewhere..elsewhere + 9;
                    let policy = OnDifference::Replace;
                    both.apply(&Operation::Write { range, odd: Some(3), policy, adopt: false });
                }
                _ => {}
            }
        }
        both.check(&PlanOptions::default());
    }
}

#[test]
fn files_of_nothing_answer_everything() {
    let mut both = Both::new(5, 100, SparseOptions::default());
    for operation in [
        Operation::Read { range: 3..3 },
        Operation::Read { range: 3..4 },
        Operation::Write { range: 7..7, odd: None, policy: OnDifference::Error, adopt: true },
        Operation::Erase { range: 0..0 },
        Operation::Erase { range: 0..100 },
        Operation::Evict { budget: 0, pinned: 4..4 },
        Operation::Touch { range: 0..0 },
        Operation::Renew,
        Operation::Clear,
    ] {
        both.apply(&operation);
        both.check(&PlanOptions::default());
    }
    assert!(both.file().is_empty());
    assert_eq!(both.file().counters().writes, 1, "a write of nothing is a write");
}
