//! A sparse file that stores one optional byte per position, and the same changes done to it and to
//! the real one.

use std::ops::Range;

use stook::extent::ByteRange;
use stook::plan::{Plan, PlanOptions};
use stook::sparse::{OnDifference, SparseBuffer, SparseError, SparseOptions, Written};

use super::extent::{FlatMap, FlatPolicy};

/// One change or question, in positions of the model.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names of the fields say it")]
pub enum Operation {
    /// Bytes that mostly match their positions; `odd` selects one that does not.
    Write {
        range: Range<usize>,
        odd: Option<usize>,
        policy: OnDifference,
        adopt: bool,
    },
    Erase {
        range: Range<usize>,
    },
    Read {
        range: Range<usize>,
    },
    Evict {
        budget: usize,
        pinned: Range<usize>,
    },
    Touch {
        range: Range<usize>,
    },
    /// Serialised and read back.
    Renew,
    Clear,
}

/// The real file and its model.
#[derive(Debug)]
pub struct Both {
    base: u64,
    file: SparseBuffer,
    model: FlatMap<u8>,
    len: usize,
}

impl Both {
    /// Empty files with positions from `base` on, `len` of them.
    pub fn new(base: u64, len: usize, options: SparseOptions) -> Self {
        let file = SparseBuffer::with_options(options).expect("the options are fine");
        Self { base, file, model: FlatMap::new(len), len }
    }

    /// The real file.
    pub fn file(&self) -> &SparseBuffer {
        &self.file
    }

    fn range(&self, range: &Range<usize>) -> ByteRange {
        ByteRange::new(self.base + range.start as u64, self.base + range.end as u64)
            .expect("it runs forwards")
    }

    /// Does it to both, and checks that they answered the same.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Write { range, odd, policy, adopt } => self.write(range, *odd, *policy, *adopt),
            Operation::Erase { range } => {
                let held = self.model.covered(range.clone());
                assert_eq!(self.file.erase(self.range(range)), held as u64);
                self.model.remove(range.clone());
            }
            Operation::Read { range } => self.read(range),
            Operation::Evict { budget, pinned } => self.evict(*budget, pinned),
            Operation::Touch { range } => self.file.touch(self.range(range)),
            Operation::Renew => self.renew(),
            Operation::Clear => {
                let held = self.model.covered(0..self.len);
                assert_eq!(self.file.clear(), held as u64);
                self.model.remove(0..self.len);
            }
        }
        assert_eq!(self.file.held_bytes(), self.model.covered(0..self.len) as u64);
    }

    fn write(&mut self, range: &Range<usize>, odd: Option<usize>, policy: OnDifference, adopt: bool) {
        let mut bytes: Vec<u8> = range.clone().map(|at| (at * 7 + at / 251) as u8).collect();
        if let Some(byte) = odd.and_then(|odd| bytes.get_mut(odd)) {
            *byte ^= 0x55;
        }
        let position = self.base + range.start as u64;
        let held = self.model.covered(range.clone()) as u64;
        let written = match adopt {
            true => self.file.adopt(position, bytes.clone().into(), policy),
            false => self.file.write(position, &bytes, policy),
        };
        let flat = match policy {
            OnDifference::Error => FlatPolicy::Compare,
            OnDifference::Keep => FlatPolicy::Keep,
            OnDifference::Replace => FlatPolicy::Replace,
        };
        match (written, self.model.insert(range.start, &bytes, flat)) {
            (Ok(written), Ok(())) => {
                let added = range.len() as u64 - held;
                let replace = policy == OnDifference::Replace;
                let (kept, replaced) = if replace { (0, held) } else { (held, 0) };
                assert_eq!(written, Written { added, kept, replaced });
            }
            (Err(SparseError::Differs { range: whole, overlap, offset, held }), Err(at)) => {
                assert_eq!(self.model.values(at..at + 1), [Some(held)]);
                assert_eq!((whole, offset), (self.range(range), self.base + at as u64));
                assert!(whole.covers(&overlap) && overlap.contains(offset));
            }
            (real, model) => panic!("the file says {real:?}, the model {model:?}"),
        }
    }

    fn read(&self, range: &Range<usize>) {
        let values = self.model.values(range.clone());
        let mut out = vec![0xaa; range.len()];
        let read = self.file.read(self.base + range.start as u64, &mut out);
        let whole = self.range(range);
        if let Some(expected) = values.iter().copied().collect::<Option<Vec<u8>>>() {
            read.expect("all of it is held");
            assert_eq!(out, expected);
            assert_eq!(self.file.read_bytes(whole).expect("all of it is held"), expected);
            let mut pieces = Vec::new();
            self.file.with_pieces(whole, |piece| pieces.extend_from_slice(piece)).expect("all of it is held");
            assert_eq!(pieces, expected);
        } else {
            let gap = self.range(&self.model.gaps(range.clone())[0]);
            let refused =
                |error: SparseError| matches!(error, SparseError::NotHeld { gap: first, .. } if first == gap);
            assert!(refused(read.expect_err("a part is not held")));
            assert!(out.iter().all(|byte| *byte == 0xaa), "a read that failed wrote");
            assert!(refused(self.file.read_bytes(whole).expect_err("a part is not held")));
        }
    }

    /// Checks that evicted bytes were held and not pinned, and are enough.
    fn evict(&mut self, budget: usize, pinned: &Range<usize>) {
        let before = self.model.covered(0..self.len);
        let pinned_len = self.model.covered(pinned.clone());
        let gone = {
            let _pin = self.file.pin(self.range(pinned));
            self.file.evict_to(budget as u64)
        };
        let spans: Vec<ByteRange> = self.file.extents();
        for at in 0..self.len {
            let still = spans.iter().any(|span| span.contains(self.base + at as u64));
            let was = self.model.values(at..at + 1)[0].is_some();
            assert!(was || !still, "{at} was not held and is");
            assert!(still || !was || !pinned.contains(&at), "{at} was pinned and is gone");
            if was && !still {
                self.model.remove(at..at + 1);
            }
        }
        let after = self.model.covered(0..self.len);
        assert_eq!(before - after, gone as usize);
        assert!(after <= budget.max(pinned_len), "{after} are left of {before}");
        let grain = self.file.options().grain as usize;
        assert!(gone == 0 || after + grain > budget, "{gone} went of {before}, {budget} could have stayed");
    }

    fn renew(&mut self) {
        let mut bytes = Vec::new();
        self.file.to_writer(&mut bytes).expect("writing to memory does not fail");
        let read = SparseBuffer::from_reader(bytes.as_slice()).expect("what was written is read");
        assert_eq!(read.segments(), self.file.segments());
        assert_eq!(read.counters(), self.file.counters());
        assert_eq!(read.modified_ns(), self.file.modified_ns());
        assert_eq!(read.options(), self.file.options());
        self.file = read;
    }

    /// Everything that can be asked, against the model.
    pub fn check(&self, plan: &PlanOptions) {
        let all = 0..self.len;
        let spans: Vec<ByteRange> =
            self.model.spans(all.clone()).iter().map(|span| self.range(span)).collect();
        assert_eq!(self.file.extents(), spans);
        assert_eq!(self.file.end(), spans.last().map_or(0, ByteRange::end));
        let mut from_segments: Vec<ByteRange> = Vec::new();
        for segment in self.file.segments() {
            assert!(!segment.range.is_empty() && segment.range.len() <= u64::from(self.file.options().grain));
            match from_segments.last_mut().filter(|last| last.end() == segment.range.start()) {
                Some(last) => *last = ByteRange::new(last.start(), segment.range.end()).expect("they rise"),
                None => from_segments.push(segment.range),
            }
        }
        assert_eq!(from_segments, spans);
        for from in (0..=self.len).step_by(self.len / 9 + 1) {
            for to in (from..=self.len).step_by(self.len / 7 + 1) {
                let range = from..to;
                self.read(&range);
                let gaps: Vec<ByteRange> =
                    self.model.gaps(range.clone()).iter().map(|gap| self.range(gap)).collect();
                let asked = self.range(&range);
                assert_eq!(self.file.gaps(asked), gaps);
                assert_eq!(self.file.has(asked), gaps.is_empty());
                let needed = self.file.need(asked, plan).expect("the plan is small");
                assert_eq!(needed, Plan::new(&gaps, plan).expect("the plan is small").reads());
            }
            let at = self.base + from as u64;
            let span = spans.iter().find(|span| span.contains(at));
            assert_eq!(self.file.extent_at(at).map(|extent| extent.range).as_ref(), span);
        }
    }
}
