//! The arithmetic of the line of progress that the document prints, computed again.

use stook::report::table::{Table, Tone};
use stook::report::units;

use super::published::{CARD_BYTES, DETAILS, DISKS};
use crate::frame::NONE;
use crate::text::numbers;

/// What the document prints, and the same from its other figures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Computed {
    /// What it is.
    pub(super) what: &'static str,
    /// As it is printed; empty where it is not.
    pub(super) printed: &'static str,
    /// The same, computed.
    pub(super) value: f64,
    /// Its unit.
    pub(super) unit: &'static str,
}

impl Computed {
    /// Whether it is what is printed, to the last digit that is; `None` where nothing is.
    pub(super) fn agrees(&self) -> Option<bool> {
        let end = self.printed.find(|letter: char| !matches!(letter, '0'..='9' | '.'));
        let number = self.printed.get(..end.unwrap_or(self.printed.len()))?;
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let printed: f64 = number.parse().ok()?;
        let half = 0.5 / 10_f64.powi(decimals as i32);
        // What lies halfway may be rounded either way.
        Some((self.value - printed).abs() <= half * (1.0 + 1e-9))
    }
}

/// A figure of the text, by its name.
fn detail(what: &str) -> &'static str {
    let row = DETAILS.rows.iter().find(|row| row.first() == Some(&what));
    row.and_then(|row| row.get(1)).copied().unwrap_or_default()
}

/// The number with which a figure begins.
fn number(text: &str) -> f64 {
    let end = text.find(|letter: char| !matches!(letter, '0'..='9' | '.')).unwrap_or(text.len());
    text.get(..end).and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

/// `235GiB 78MiB 512KiB` in bytes.
fn bytes(text: &str) -> Option<u64> {
    text.split(' ').try_fold(0_u64, |sum, part| {
        let (digits, unit) = part.split_at(part.find(|letter: char| !letter.is_ascii_digit())?);
        let factor = match unit {
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return None,
        };
        sum.checked_add(digits.parse::<u64>().ok()?.checked_mul(factor)?)
    })
}

/// Bytes of the line.
pub(super) fn copied_bytes() -> Option<u64> {
    bytes(detail("Line of progress, data"))
}

/// Files of the line.
pub(super) fn copied_files() -> f64 {
    number(detail("Line of progress, files"))
}

/// The rate of the drive that copies within itself, as it is given a second time.
pub(super) fn other_own_rate() -> Option<f64> {
    Some(number(detail("Samsung EVO 870 EVO, copying files"))).filter(|rate| rate.is_finite())
}

/// Everything that its figures imply.
pub(super) fn computed() -> Vec<Computed> {
    let bytes = copied_bytes().map_or(f64::NAN, |bytes| bytes as f64);
    let rate = bytes / number(detail("Line of progress, time"));
    let rated = number(detail("Kingston SDR2V6/256GB, rated reads"));
    let printed_share = DISKS.rows.get(3).and_then(|row| row.get(3)).copied().unwrap_or_default();
    let mebi = f64::from(1 << 20);
    let of = |what, printed, value, unit| Computed { what, printed, value, unit };
    vec![
        of("Data, in decimal units", detail("Line of progress, data in GB"), bytes / 1e9, "GB"),
        of("Data ÷ time", detail("Line of progress, rate"), rate / 1e6, "MB/s"),
        of("The same in binary units", detail("The same in MiB/s"), rate / mebi, "MiB/s"),
        of("Of the rating for reads, 280 MB/s", printed_share, rate / 1e6 / rated * 100.0, "%"),
        of("Of 280, if MiB/s were meant", "", rate / mebi / rated * 100.0, "%"),
        of(
            "Time at that rate, if MiB/s were meant",
            "",
            bytes / (number(detail("Line of progress, rate")) * mebi),
            "s",
        ),
        of("Each file", "", bytes / copied_files() / 1e6, "MB"),
        of("Of a card of 256 GB", "", bytes / CARD_BYTES as f64 * 100.0, "%"),
    ]
}

/// The same as a table.
pub(super) fn table(caption: &str) -> Table {
    let head = numbers(caption, ["", "Printed", "Computed", "Agrees"]);
    let exact = copied_bytes().map_or_else(|| NONE.to_owned(), units::bytes_exact);
    let first = ["Data".to_owned(), detail("Line of progress, data").to_owned(), exact, NONE.to_owned()];
    computed().into_iter().fold(head.row(first, Tone::Plain), |table, one| {
        let agrees = one.agrees().map_or(NONE, |agrees| if agrees { "to the last digit" } else { "no" });
        let printed = if one.printed.is_empty() { NONE } else { one.printed };
        let value = format!("{:.3} {}", one.value, one.unit);
        table.row([one.what.to_owned(), printed.to_owned(), value, agrees.to_owned()], Tone::Plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_several_units_add_up() {
        assert_eq!(bytes("235GiB 78MiB 512KiB"), Some(252_411_641_856));
        assert_eq!(bytes("1KiB"), Some(1024));
        for wrong in ["", "12", "3TiB", "GiB", "99999999999999GiB"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_printed_agrees_to_its_last_digit_or_does_not() {
        let one = |printed, value| Computed { what: "", printed, value, unit: "" }.agrees();
        assert_eq!(one("281.5 MiB/s", 281.54), Some(true));
        assert_eq!(one("281.5 MiB/s", 281.56), Some(false));
        assert_eq!(one("105% `2`", 105.4), Some(true));
        assert_eq!(one("105% `2`", 105.6), Some(false));
        assert_eq!(one("", 1.0), None);
    }

    /// 252,411,641,856 bytes in 855 s: by hand.
    #[test]
    fn its_figures_agree_with_one_another() {
        let found = computed();
        let agree: Vec<Option<bool>> = found.iter().map(Computed::agrees).collect();
        assert_eq!(agree, [Some(true), Some(true), Some(true), Some(true), None, None, None, None]);
        for (one, expected) in
            found.iter().zip([252.412, 295.218, 281.542, 105.435, 100.551, 815.392, 978.340, 98.598])
        {
            assert!((one.value - expected).abs() < 2e-3, "{one:?}");
        }
        assert_eq!(table("").rows().next().unwrap()[2], "252,411,641,856 bytes");
    }
}
