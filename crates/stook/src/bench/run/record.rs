//! [`Record`]: what one job counts while it is measured.

use crate::report::histogram::LatencyHistogram;

/// The length of one entry of the series that is kept while measuring.
pub(in crate::bench) const TICK_NS: u64 = 100_000_000;

/// What was done to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) enum Kind {
    Read,
    Write,
    Sync,
}

/// What completed in one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::bench) struct Tick {
    pub(in crate::bench) reads: u64,
    pub(in crate::bench) writes: u64,
    /// Of both.
    pub(in crate::bench) bytes: u64,
    /// Of reads and writes.
    pub(in crate::bench) latency_sum_ns: u64,
}

impl Tick {
    fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes += other.bytes;
        self.latency_sum_ns += other.latency_sum_ns;
    }

    /// The sum of several.
    pub(in crate::bench) fn sum(ticks: &[Self]) -> Self {
        let mut sum = Self::default();
        ticks.iter().for_each(|tick| sum.add(*tick));
        sum
    }
}

/// Histograms, and the series of completions after the ramp.
#[derive(Debug, Clone)]
pub(in crate::bench) struct Record {
    pub(in crate::bench) reads: LatencyHistogram,
    pub(in crate::bench) writes: LatencyHistogram,
    pub(in crate::bench) syncs: LatencyHistogram,
    /// Bytes of all reads, and of all writes.
    pub(in crate::bench) read_bytes: u64,
    pub(in crate::bench) write_bytes: u64,
    /// Of blocks of several sizes: reads and writes of each.
    pub(in crate::bench) sizes: Vec<(u64, LatencyHistogram)>,
    pub(in crate::bench) ticks: Vec<Tick>,
    /// Open loop: how long after they were due requests began, all of them together.
    pub(in crate::bench) waited_ns: u64,
    /// How much of that was the tool's own: nothing kept it from beginning them, and it woke late.
    pub(in crate::bench) late_ns: u64,
    /// How much of all latencies had passed before counting began, for requests that began before.
    pub(in crate::bench) earlier_ns: u64,
    current: Tick,
    current_ends_ns: u64,
}

impl Record {
    /// Counts from `begin_ns` on, and blocks of each of several sizes also by themselves. Room for
    /// `expected_s` is there from the start, so that nothing is allocated while it runs as long as
    /// expected.
    pub(in crate::bench) fn new(begin_ns: u64, expected_s: f64, sizes: &[u64]) -> Self {
        let ticks = (expected_s.clamp(0.0, 86_400.0) * 1e9) as u64 / TICK_NS;
        Self {
            reads: LatencyHistogram::new(),
            writes: LatencyHistogram::new(),
            syncs: LatencyHistogram::new(),
            read_bytes: 0,
            write_bytes: 0,
            sizes: sizes.iter().map(|&size| (size, LatencyHistogram::new())).collect(),
            ticks: Vec::with_capacity(ticks as usize + 50),
            waited_ns: 0,
            late_ns: 0,
            earlier_ns: 0,
            current: Tick::default(),
            current_ends_ns: begin_ns + TICK_NS,
        }
    }

    /// Counts what completed at `now_ns`, which never goes back.
    #[inline]
    pub(in crate::bench) fn count(&mut self, kind: Kind, len: u64, latency_ns: u64, now_ns: u64) {
        while now_ns >= self.current_ends_ns {
            self.close();
        }
        match kind {
            Kind::Read => {
                self.reads.record(latency_ns);
                self.current.reads += 1;
                self.read_bytes += len;
            }
            Kind::Write => {
                self.writes.record(latency_ns);
                self.current.writes += 1;
                self.write_bytes += len;
            }
            Kind::Sync => return self.syncs.record(latency_ns),
        }
        self.current.bytes += len;
        self.current.latency_sum_ns += latency_ns;
        if let Some((_, histogram)) = self.sizes.iter_mut().find(|(size, _)| *size == len) {
            histogram.record(latency_ns);
        }
    }

    fn close(&mut self) {
        self.ticks.push(std::mem::take(&mut self.current));
        self.current_ends_ns += TICK_NS;
    }

    /// Closes the last tick.
    pub(in crate::bench) fn finish(&mut self) {
        if self.current != Tick::default() {
            self.close();
        }
    }

    /// Adds what another job counted.
    pub(in crate::bench) fn merge(&mut self, other: &Self) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.syncs.merge(&other.syncs);
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        for (size, histogram) in &other.sizes {
            match self.sizes.iter_mut().find(|(known, _)| known == size) {
                Some((_, known)) => known.merge(histogram),
                None => self.sizes.push((*size, histogram.clone())),
            }
        }
        self.waited_ns += other.waited_ns;
        self.late_ns += other.late_ns;
        self.earlier_ns += other.earlier_ns;
        if self.ticks.len() < other.ticks.len() {
            self.ticks.resize(other.ticks.len(), Tick::default());
        }
        for (tick, more) in self.ticks.iter_mut().zip(&other.ticks) {
            tick.add(*more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_histograms_count_the_same() {
        let mut record = Record::new(1000, 0.1, &[512, 1024]);
        for (at, latency_ns) in [(1000, 5), (1000 + TICK_NS, 6), (1000 + 4 * TICK_NS, 7)] {
            record.count(Kind::Read, 512, latency_ns, at);
            record.count(Kind::Write, 4096, latency_ns, at);
            record.count(Kind::Sync, 0, 1, at);
        }
        record.finish();
        assert_eq!(record.ticks.iter().map(|tick| tick.reads).collect::<Vec<_>>(), [1, 1, 0, 0, 1]);
        let sum = Tick::sum(&record.ticks);
        assert_eq!((sum.reads, sum.writes, sum.latency_sum_ns), (3, 3, 36));
        assert_eq!((record.read_bytes, record.write_bytes, sum.bytes), (3 * 512, 3 * 4096, 3 * 4608));
        let sizes: Vec<_> = record.sizes.iter().map(|(size, latencies)| (*size, latencies.count())).collect();
        assert_eq!(sizes, [(512, 3), (1024, 0)]);
        assert_eq!((record.reads.count(), record.writes.count(), record.syncs.count()), (3, 3, 3));
    }

    #[test]
    fn records_of_different_length_add_up() {
        let mut short = Record::new(0, 1.0, &[]);
        short.count(Kind::Read, 512, 10, 5);
        short.finish();
        let mut long = Record::new(0, 1.0, &[4096]);
        long.count(Kind::Write, 4096, 20, 2 * TICK_NS);
        long.finish();
        short.merge(&long);
        assert_eq!(short.ticks.len(), 3);
        assert_eq!(Tick::sum(&short.ticks), Tick { reads: 1, writes: 1, bytes: 4608, latency_sum_ns: 30 });
        assert_eq!((short.read_bytes, short.write_bytes, short.sizes.len()), (512, 4096, 1));
    }
}
