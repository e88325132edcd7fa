//! [`Plan`] against a flat buffer and against trying every choice of reads.

use proptest::prelude::*;
use stook::extent::ByteRange;
use stook::plan::{Plan, PlanError, PlanOptions, PlanPiece};
use stook_testing::model::plan::{BlockRules, fewest_reads};

/// The longest offset that the small plans speak of.
const LEN: u64 = 200;

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}

fn a_range() -> impl Strategy<Value = ByteRange> {
    let any = (0..=LEN, 0..=LEN).prop_map(|(a, b)| range(a.min(b), a.max(b)));
    let short = (0..LEN, 0..8_u64).prop_map(|(start, len)| range(start, start + len));
    prop_oneof![1 => any, 4 => short]
}

fn wanted() -> impl Strategy<Value = Vec<ByteRange>> {
    prop::collection::vec(a_range(), 0..12)
}

fn options() -> impl Strategy<Value = PlanOptions> {
    (0..40_u64, 1..80_u64, 0..4_u32, prop_oneof![Just(u64::MAX), 0..=LEN]).prop_map(
        |(max_gap, max_len, power, end)| {
            let alignment = 1 << power;
            PlanOptions { max_gap, min_len: 0, max_len: max_len.max(alignment), alignment, end }
        },
    )
}

/// Every byte of every wanted range before the end is in exactly one piece, in the right place.
fn assert_served_once(wanted: &[ByteRange], plan: &Plan, end: u64) {
    assert_eq!(plan.wanted_len(), wanted.len());
    let mut all: Vec<PlanPiece> = Vec::new();
    for (index, range) in wanted.iter().enumerate() {
        let mut next = 0;
        for piece in plan.pieces_of(index) {
            assert_eq!((piece.wanted, piece.wanted_offset), (index, next), "a gap or an overlap");
            assert!(piece.len > 0);
            let read = plan.reads()[piece.read];
            assert_eq!(read.start() + piece.read_offset, range.start() + piece.wanted_offset);
            assert!(piece.read_offset + piece.len <= read.len());
            next += piece.len;
        }
        let served = range.end().min(end).saturating_sub(range.start());
        assert_eq!(next, served, "range {index} is not served");
        all.extend(plan.pieces_of(index));
    }
    assert_eq!(plan.pieces(), all);
    let mut by_read: Vec<PlanPiece> = Vec::new();
    for read in 0..plan.reads().len() {
        let pieces: Vec<PlanPiece> = plan.pieces_in(read).collect();
        assert!(!pieces.is_empty() && pieces.iter().all(|piece| piece.read == read));
        assert!(pieces.is_sorted_by_key(|piece| piece.wanted));
        by_read.extend(pieces);
    }
    by_read.sort_by_key(|piece| (piece.wanted, piece.wanted_offset));
    assert_eq!(by_read, all);
}

/// Which aligned blocks hold a wanted byte.
fn wanted_blocks(wanted: &[ByteRange], options: &PlanOptions) -> Vec<bool> {
    let mut blocks = vec![false; LEN as usize + 16];
    for range in wanted {
        for offset in range.start()..range.end().min(options.end) {
            blocks[(offset / options.alignment) as usize] = true;
        }
    }
    blocks
}

proptest! {
    #[test]
    fn every_wanted_byte_is_served_once_from_the_right_place(wanted in wanted(), options in options()) {
        let plan = Plan::new(&wanted, &options).unwrap();
        assert_served_once(&wanted, &plan, options.end);
    }

    #[test]
    fn reads_keep_the_rules(wanted in wanted(), options in options()) {
        let plan = Plan::new(&wanted, &options).unwrap();
        let blocks = wanted_blocks(&wanted, &options);
        for read in plan.reads() {
            prop_assert!(!read.is_empty() && read.len() <= options.max_len && read.end() <= options.end);
            prop_assert!(read.start().is_multiple_of(options.alignment));
            prop_assert!(read.end().is_multiple_of(options.alignment) || read.end() == options.end);
            let inside = read.start() / options.alignment..read.end().div_ceil(options.alignment);
            let inside: Vec<bool> = inside.map(|block| blocks[block as usize]).collect();
            prop_assert!(inside[0] && inside[inside.len() - 1], "a read begins or ends with waste");
            let gap = inside.split(|wanted| *wanted).map(<[bool]>::len).max().unwrap_or(0) as u64;
            prop_assert!(gap * options.alignment <= options.max_gap, "{gap} blocks in {read}");
        }
        prop_assert!(plan.reads().windows(2).all(|pair| pair[0].end() <= pair[1].start()));
        prop_assert_eq!(plan.read_len(), plan.reads().iter().map(ByteRange::len).sum::<u64>());
    }

    #[test]
    fn no_other_choice_needs_fewer_reads(wanted in wanted(), options in options()) {
        let plan = Plan::new(&wanted, &options).unwrap();
        let rules = BlockRules {
            max_gap: (options.max_gap / options.alignment) as usize,
            max_len: (options.max_len / options.alignment) as usize,
        };
        prop_assert_eq!(plan.reads().len(), fewest_reads(&wanted_blocks(&wanted, &options), rules));
    }

    #[test]
    fn order_of_the_wanted_ranges_does_not_change_the_reads(wanted in wanted(), options in options()) {
        let reversed: Vec<ByteRange> = wanted.iter().rev().copied().collect();
        let (plan, other) = (Plan::new(&wanted, &options).unwrap(), Plan::new(&reversed, &options).unwrap());
        prop_assert_eq!(plan.reads(), other.reads());
    }

    #[test]
    fn reads_are_as_long_as_asked_and_no_more_than_they_were(
        wanted in wanted(), options in options(), min_len in 1..90_u64,
    ) {
        let longer = PlanOptions { min_len, ..options };
        let plan = Plan::new(&wanted, &longer).unwrap();
        assert_served_once(&wanted, &plan, options.end);
        let (end, unit) = (options.end, options.alignment);
        let least = min_len.min(options.max_len / unit * unit);
        for read in plan.reads() {
            prop_assert!(read.len() >= least || read.end() == end, "{read} is short");
            prop_assert!(read.len() <= options.max_len && read.end() <= end);
            prop_assert!(read.start().is_multiple_of(unit) && (read.end().is_multiple_of(unit) || read.end() == end));
        }
        prop_assert!(plan.reads().windows(2).all(|pair| pair[0].end() <= pair[1].start()));
        let shorter = Plan::new(&wanted, &options).unwrap();
        prop_assert!(plan.reads().len() <= shorter.reads().len());
    }

    #[test]
    fn offsets_near_the_last_do_not_wrap(
        wanted in wanted(), max_len in 60..u64::MAX, max_gap in any::<u64>(), power in 0..5_u32,
    ) {
        let base = u64::MAX - LEN - 8;
        let far: Vec<ByteRange> =
            wanted.iter().map(|near| range(base + near.start(), base + near.end())).collect();
        let options = PlanOptions { max_gap, min_len: max_len / 2, max_len, alignment: 1 << power, end: u64::MAX };
        let plan = Plan::new(&far, &options).unwrap();
        assert_served_once(&far, &plan, u64::MAX);
        prop_assert!(plan.reads().windows(2).all(|pair| pair[0].end() <= pair[1].start()));
    }
}

#[test]
fn options_that_contradict_themselves_are_refused() {
    let plan = |max_len, alignment| {
        Plan::new(&[range(0, 1)], &PlanOptions { max_len, alignment, ..PlanOptions::default() })
    };
    assert_eq!(plan(0, 1), Err(PlanError::MaxLen { max_len: 0, alignment: 1 }));
    assert_eq!(plan(4095, 4096), Err(PlanError::MaxLen { max_len: 4095, alignment: 4096 }));
    assert_eq!(plan(4096, 0), Err(PlanError::Alignment { alignment: 0 }));
    assert_eq!(plan(4096, 3), Err(PlanError::Alignment { alignment: 3 }));
    assert!(plan(4097, 4096).is_ok());
}

#[test]
fn a_plan_without_bound_is_refused_before_it_takes_memory() {
    let options = PlanOptions { max_len: 1, ..PlanOptions::default() };
    assert_eq!(Plan::new(&[ByteRange::to(u64::MAX)], &options), Err(PlanError::TooManyPieces));
}

#[test]
fn length_after_rounding_down_is_what_limits_reads() {
    let options = PlanOptions { max_len: 10_000, alignment: 4096, end: 20_000, ..PlanOptions::default() };
    let plan = Plan::new(&[range(100, 20_000)], &options).unwrap();
    assert_eq!(plan.reads(), [range(0, 8192), range(8192, 16_384), range(16_384, 20_000)]);
}

#[test]
fn what_was_not_planned_has_no_pieces() {
    let wanted = [range(5, 5), range(90, 110), range(200, 300)];
    let plan = Plan::new(&wanted, &PlanOptions { end: 100, ..PlanOptions::default() }).unwrap();
    assert_eq!(plan.reads(), [range(90, 100)]);
    let lens = [0, 1, 2, 3, usize::MAX - 1].map(|index| plan.pieces_of(index).len());
    assert_eq!(lens, [0, 1, 0, 0, 0]);
    assert_eq!(plan.pieces_in(1).count(), 0);
    let empty = Plan::new(&[], &PlanOptions::default()).unwrap();
    assert_eq!((empty.reads().len(), empty.wanted_len()), (0, 0));
}

#[test]
fn many_repetitions_of_a_long_range_are_refused_too() {
    let options = PlanOptions { max_len: 1, ..PlanOptions::default() };
    let wanted = vec![ByteRange::to(1 << 16); (1 << 8) + 1];
    assert_eq!(Plan::new(&wanted, &options), Err(PlanError::TooManyPieces));
}
