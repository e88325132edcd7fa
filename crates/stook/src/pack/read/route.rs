//! Which way a long range is read: directly or through the page cache, decided for each span of it.

use crate::engine::Access;
use crate::extent::ByteRange;
use crate::source::{AccessRule, Source};

/// The unit of a long range that is read one way. Asking the kernel about this much takes a quarter
/// of a millisecond at most; a cache that holds the newest or the oldest part of a segment is still
/// used.
pub(crate) const SPAN_LEN: u64 = 64 << 20;

/// The way each span of a range is read.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    start: u64,
    ways: Vec<Access>,
}

impl Route {
    /// Applies a rule to each part of a range.
    pub(crate) fn new(rule: AccessRule, source: &dyn Source, range: ByteRange) -> Self {
        let mut ways = Vec::new();
        let mut at = range.start();
        while at < range.end() {
            let end = at.saturating_add(SPAN_LEN).min(range.end());
            ways.push(rule.decide(source, ByteRange::new(at, end).unwrap_or_default()));
            at = end;
        }
        Self { start: range.start(), ways }
    }

    /// How bytes at this offset are read.
    pub(crate) fn at(&self, offset: u64) -> Access {
        let span = offset.saturating_sub(self.start) / SPAN_LEN;
        let way = usize::try_from(span).ok().and_then(|span| self.ways.get(span));
        way.or(self.ways.last()).copied().unwrap_or(Access::Cached)
    }

    /// The way for which a window is laid out: any span that comes from the device needs reads far
    /// ahead.
    pub(crate) fn layout(&self) -> Access {
        if self.ways.contains(&Access::Direct) { Access::Direct } else { Access::Cached }
    }
}

impl From<Access> for Route {
    fn from(access: Access) -> Self {
        Self { start: 0, ways: vec![access] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_span_has_a_way_and_what_is_past_the_end_goes_the_last() {
        use Access::{Cached, Direct};
        let route = Route { start: 4096, ways: vec![Cached, Direct] };
        let ways = [0, 4096, 4095 + SPAN_LEN, 4096 + SPAN_LEN, 4096 + 9 * SPAN_LEN];
        let found = ways.map(|offset| route.at(offset));
        assert_eq!(found, [Cached, Cached, Cached, Direct, Direct]);
        assert_eq!(route.layout(), Direct);
        assert_eq!(Route::from(Cached).layout(), Cached);
    }
}
