//! [`LinkUse`]: how much of the links that bytes passed through a copy used.

use super::report::{CopyReport, DestinationReport};
use super::waits::HeldUpBy;
use crate::device::Attachment;

/// Whose link it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// That of the sources.
    Sources,
    /// That of the destination at this position.
    Destination(usize),
}

/// How much of a link was used.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkUse {
    /// Whose it is.
    pub side: Side,
    /// The link: `the USB 3.0 link of /dev/sdb`.
    pub link: String,
    /// The most bytes a second that fit through it.
    pub limit_bytes_per_s: f64,
    /// What passed, as a part of that.
    pub share: f64,
}

impl CopyReport {
    /// How much of each link was used. What is not known is left out, and so is what cannot be:
    /// more than fits through a link came from memory, or was not written at all.
    pub fn link_uses(&self) -> Vec<LinkUse> {
        let elapsed_s = self.elapsed.as_secs_f64();
        if elapsed_s <= 0.0 || self.read_bytes == 0 {
            return Vec::new();
        }
        let of = |side, attachment: &Attachment, limit: Option<f64>, bytes: u64| {
            let limit_bytes_per_s = limit?;
            let share = bytes as f64 / elapsed_s / limit_bytes_per_s;
            let link = attachment.link_in_words()?;
            (share > 0.0 && share <= 1.0).then_some(LinkUse { side, link, limit_bytes_per_s, share })
        };
        let source = match self.sources.as_slice() {
            // Of several it is not known what came from which.
            [only] => of(Side::Sources, only, only.read_limit_bytes_per_s(), self.read_bytes),
            _ => None,
        };
        let destinations = self.destinations.iter().enumerate().filter(|(_, one)| one.cloned == 0);
        let destinations = destinations.filter_map(|(index, one)| {
            let limit = one.attachment.write_limit_bytes_per_s();
            // Holes are not read, and not written either.
            of(Side::Destination(index), &one.attachment, limit, one.bytes.min(self.read_bytes))
        });
        source.into_iter().chain(destinations).collect()
    }

    /// What was waited for, if one thing held all else up.
    pub fn held_up_by(&self) -> Option<HeldUpBy> {
        self.waits.held_up_by(self.elapsed)
    }

    /// Whether a destination lies on the disks of the source: each byte passes their link twice.
    pub fn is_within_disks(&self, one: &DestinationReport) -> bool {
        self.sources.iter().any(|source| source.is_same_disks(&one.attachment))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn report(source: Attachment, destinations: Vec<(Attachment, u64)>) -> CopyReport {
        let one =
            |(attachment, bytes)| DestinationReport { attachment, bytes, ..DestinationReport::default() };
        CopyReport {
            sources: vec![source],
            destinations: destinations.into_iter().map(one).collect(),
            read_bytes: 3_000_000_000,
            elapsed: Duration::from_secs(10),
            ..CopyReport::default()
        }
    }

    fn shares(report: &CopyReport) -> Vec<(Side, f64)> {
        report.link_uses().iter().map(|one| (one.side, one.share)).collect()
    }

    #[test]
    fn shares_are_those_of_the_links_that_are_known() {
        let usb = Attachment::of_links(&[("/dev/sdb", "USB 3.0", 500e6)], 1);
        let mirror = Attachment::of_links(&[("/dev/sda", "SATA", 600e6), ("/dev/sdc", "SATA", 600e6)], 2);
        let destinations =
            vec![(mirror, 3_000_000_000), (Attachment::default(), 3_000_000_000), (usb.clone(), 0)];
        let all = report(usb.clone(), destinations);
        assert_eq!(shares(&all), [(Side::Sources, 0.6), (Side::Destination(0), 0.5)]);
        assert_eq!(all.link_uses()[0].link, "the USB 3.0 link of /dev/sdb");
        assert_eq!(all.link_uses()[1].link, "the SATA links of /dev/sda and /dev/sdc");
        assert!(all.is_within_disks(&all.destinations[2]) && !all.is_within_disks(&all.destinations[1]));
    }

    #[test]
    fn what_cannot_have_passed_a_link_is_not_held_against_it() {
        let slow = Attachment::of_links(&[("/dev/sdb", "USB 2.0", 53e6)], 1);
        // The page cache gave more than the link could.
        assert_eq!(shares(&report(slow.clone(), Vec::new())), []);
        // Files that share blocks with their source were not written.
        let fast = Attachment::of_links(&[("/dev/sdb", "USB 3.0", 500e6)], 1);
        let mut cloned = report(Attachment::default(), vec![(fast.clone(), 3_000_000_000)]);
        assert_eq!(shares(&cloned), [(Side::Destination(0), 0.6)]);
        cloned.destinations[0].cloned = 1;
        assert_eq!(shares(&cloned), []);
        // Holes were not read.
        let sparse = report(Attachment::default(), vec![(fast.clone(), u64::MAX)]);
        assert_eq!(shares(&sparse), [(Side::Destination(0), 0.6)]);
        let two = CopyReport { sources: vec![fast.clone(), slow], ..report(fast.clone(), Vec::new()) };
        assert_eq!(shares(&two), [], "it is not known which of them");
        let nothing = CopyReport { elapsed: Duration::ZERO, ..report(fast, Vec::new()) };
        assert_eq!(shares(&nothing), []);
    }
}
