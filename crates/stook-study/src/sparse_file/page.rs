//! The study of sparse files as a page to show.

use stook::report::chart::{Axis, Lines, Point, Series, TickFormat};
use stook::report::page::{Block, Figure, Page};
use stook::report::table::{Table, Tone};
use stook::report::units;

use super::growth::By;
use super::text::{growth, python};
use super::work::{NEED_BLOCKS, NEED_COUNTS, SIZES, SIZES_ABOVE, THREADS, TOTAL_BYTES};
use super::{Findings, Row, Work, conclusions, locks, row};
use crate::frame::NONE;
use crate::text::{numbers, spread};

pub(super) fn page(findings: &Findings) -> Page {
    let page = Page::new("Sparse files in memory").lead(super::frame::frame(findings).verdict).lead(
        "What has been fetched of a file that is elsewhere is held with gaps between: what do small reads, small writes \
         and questions cost?",
    );
    let page = match findings.has_python() {
        true => findings.packages().into_iter().fold(page, Page::lead),
        false => page.lead(findings.without_python()),
    };
    page.section("", vec![Block::Figures(figures(findings))])
        .section("Reading", reading(findings))
        .section("Writing", writing(findings))
        .section("What is missing of a range?", asking(findings))
        .section("Threads", in_threads(findings))
        .section("What locks cost", vec![
            Block::Text(locks::EXPLAINED.to_owned()),
            Block::Table(locks::table(findings)),
        ])
        .section("From Python, and beside svfsc", match findings.has_python() {
            false => vec![Block::Note(findings.without_python())],
            true => vec![
            Block::Text(
                "The same calls are made from Rust, and from Python by one interpreter for each package. The C++ of svfsc \
                 is reached only through Python here, so what Python adds to it is estimated: its time against the same \
                 less what the interpreter takes for as many calls that do nothing. What its module does to arguments and \
                 results is left in, so it adds at least that much."
                    .to_owned(),
            ),
            Block::Table(beside(findings)),
        ]})
        .section("How it was measured", vec![Block::Text(format!(
            "Each figure is the median of {}. Every write compares what it overlaps; every read touches what it reads, for \
             eviction. A question about few blocks is asked so often that they are 131,072 together, and its time is that of \
             one. What was written is read back once, from Python, too; from Rust ranges are counted: one where blocks touch, \
             as many as blocks where they do not.",
            units::count_of(findings.rounds as u64, "round", "rounds"),
        ))])
}

fn reading(findings: &Findings) -> Vec<Block> {
    let caption = "Reading 1 MiB by the size of the blocks that it is held in, the largest all of it";
    let apart = lines(findings, "read-apart", caption, |work| match work {
        Work::ReadApart { block_bytes } => Some(block_bytes),
        Work::Read { block_bytes: TOTAL_BYTES } => Some(TOTAL_BYTES),
        _ => None,
    });
    let caption = "Reading 1 MiB that is held without a gap, by the size of the blocks";
    let joined = lines(findings, "read", caption, |work| match work {
        Work::Read { block_bytes } if block_bytes < TOTAL_BYTES => Some(block_bytes),
        _ => None,
    });
    vec![Block::Lines(apart), Block::Lines(joined)]
}

/// Both kinds in one chart, as the document has them.
fn writing(findings: &Findings) -> Vec<Block> {
    let apart = |work: Work| match work {
        Work::WriteApart { block_bytes } => Some(block_bytes),
        _ => None,
    };
    let joined = |work: Work| match work {
        Work::WriteJoined { block_bytes } => Some(block_bytes),
        _ => None,
    };
    let named = |series: Vec<Series>, kind: &str, is_plain: bool| -> Vec<Series> {
        let series = series.into_iter().map(|one| one.renamed(|name| format!("{name}, {kind}")));
        series.map(|one| if is_plain { one.tone(Tone::Plain) } else { one }).collect()
    };
    let all =
        [named(series(findings, apart), "apart", false), named(series(findings, joined), "touching", true)];
    let ticks = findings.rows.iter().filter_map(|row| apart(row.work)).map(|size| size as f64);
    let x = Axis::logarithmic("Block").format(TickFormat::BytesBinary).ticks(ticks);
    let y = Axis::logarithmic("Time for all of it").format(TickFormat::DurationNs);
    let caption = "Writing 1 MiB in blocks that do not touch, and in blocks that do";
    vec![Block::Lines(Lines::new(caption, x, y, all.concat()).id("write"))]
}

fn asking(findings: &Findings) -> Vec<Block> {
    let sizes = SIZES.into_iter().chain(SIZES_ABOVE).map(|block_bytes| (TOTAL_BYTES / block_bytes) as f64);
    let x = Axis::logarithmic("Blocks").ticks(sizes);
    let y = Axis::logarithmic("Time of one question").format(TickFormat::DurationNs);
    let caption = "Asking what is missing of 1 MiB that is held in blocks of 16 KiB to 1 byte, 800 bytes between them, by \
                   their number (`need` of the document)";
    let of_sizes = series(findings, |work| match work {
        Work::NeedOf { block_bytes } => Some(TOTAL_BYTES / block_bytes),
        _ => None,
    });
    let of_sizes = Lines::new(caption, x, y, of_sizes).id("need-of");
    let x = Axis::linear("Blocks").ticks(NEED_COUNTS.map(|blocks| blocks as f64));
    let y = Axis::linear("Time of one question").format(TickFormat::DurationNs);
    let of_counts = series(findings, |work| match work {
        Work::NeedAll { blocks } => Some(blocks),
        _ => None,
    });
    let caption = "Asking what is missing of all of it, by the number of blocks that are held, 800 bytes from one to the next";
    let of_counts = Lines::new(caption, x, y, of_counts).id("need-all");
    let caption = format!(
        "Asking all over a file of {} blocks, 800 bytes from one to the next, by the length of an ask",
        units::count(NEED_BLOCKS)
    );
    let asks = lines_by("Length of an ask", findings, "need", &caption, |work| match work {
        Work::Need { ask_bytes } => Some(ask_bytes),
        _ => None,
    });
    vec![Block::Lines(of_sizes), Block::Lines(of_counts), Block::Table(growth(findings)), Block::Lines(asks)]
}

fn in_threads(findings: &Findings) -> Vec<Block> {
    let overwrite = |work: Work| match work {
        Work::Overwrite { threads, is_joined } => Some((threads, is_joined)),
        _ => None,
    };
    let caption = "Writing and overwriting 1 MiB in blocks of 8 bytes by several threads, each all of it";
    let mut blocks = vec![Block::Lines(threads(findings, "overwrite", caption, &[By::Stook], overwrite))];
    let caption = "The same from Python";
    let python =
        threads(findings, "overwrite-python", caption, &[By::StookPython, By::SvfscPython], overwrite);
    if findings.has_python() {
        blocks.push(Block::Lines(python));
    }
    let caption = "Writing 1 MiB in blocks of 8 bytes by several threads, each a part of it";
    let parts = threads(findings, "threads", caption, &[By::Stook], |work| match work {
        Work::Threads { threads, is_joined } => Some((threads, is_joined)),
        _ => None,
    });
    blocks.push(Block::Lines(parts));
    blocks
}

fn figures(findings: &Findings) -> Vec<Figure> {
    let all = [
        (Work::Read { block_bytes: 1 }, TOTAL_BYTES, "for a read of one byte"),
        (Work::WriteApart { block_bytes: 1 }, TOTAL_BYTES, "for a write of one byte that touches no other"),
        (Work::WriteJoined { block_bytes: 1 }, TOTAL_BYTES, "for a write of one byte after the last"),
    ];
    let figure = |(work, count, label): (Work, u64, &str)| {
        let row = row(&findings.rows, work)?;
        let each = |seconds: f64| format!("{:.0} ns", seconds * 1e9 / count as f64);
        let spread = spread(&[row.least_s, row.most_s], each);
        Some(Figure { value: each(row.seconds), label: format!("{label}{spread}") })
    };
    all.into_iter().filter_map(figure).collect()
}

/// Times of everybody who was measured, by a number.
fn series(findings: &Findings, number: impl Fn(Work) -> Option<u64>) -> Vec<Series> {
    let one = |by: By| {
        let point = |row: &Row| Some(Point::new(number(row.work)? as f64, by.seconds(row)? * 1e9));
        // Rows are in the order in which they were measured.
        let number = |row: &&Row| number(row.work);
        let mut rows: Vec<&Row> = findings.rows.iter().filter(|row| number(row).is_some()).collect();
        rows.sort_by_key(number);
        let points: Vec<Point> = rows.into_iter().filter_map(point).collect();
        let tone = if by == By::Stook { Tone::Highlight } else { Tone::Plain };
        (!points.is_empty()).then(|| Series::new(by.label(), points).tone(tone))
    };
    By::ALL.into_iter().filter_map(one).collect()
}

/// The same by the size of blocks.
fn lines(findings: &Findings, id: &str, caption: &str, size: impl Fn(Work) -> Option<u64>) -> Lines {
    lines_by("Block", findings, id, caption, size)
}

/// The same, with a name of what grows.
fn lines_by(
    of: &str,
    findings: &Findings,
    id: &str,
    caption: &str,
    size: impl Fn(Work) -> Option<u64>,
) -> Lines {
    let ticks = findings.rows.iter().filter_map(|row| size(row.work)).map(|size| size as f64);
    let x = Axis::logarithmic(of).format(TickFormat::BytesBinary).ticks(ticks);
    let y = Axis::logarithmic("Time for all of it").format(TickFormat::DurationNs);
    Lines::new(caption, x, y, series(findings, &size)).id(id)
}

/// Two lines over threads for each of these: blocks that touch, and blocks that do not.
fn threads(
    findings: &Findings,
    id: &str,
    caption: &str,
    all: &[By],
    of: impl Fn(Work) -> Option<(u64, bool)>,
) -> Lines {
    let series = |by: By, (words, wanted): (&str, bool)| {
        let point = |row: &Row| match of(row.work) {
            Some((threads, is_joined)) if is_joined == wanted => {
                Some(Point::new(threads as f64, by.seconds(row)? * 1e9))
            }
            _ => None,
        };
        let points: Vec<Point> = findings.rows.iter().filter_map(point).collect();
        let tone = if by != By::SvfscPython && !wanted { Tone::Highlight } else { Tone::Plain };
        let name = if all.len() == 1 { words.to_owned() } else { format!("{}, {words}", by.label()) };
        (!points.is_empty()).then(|| Series::new(name, points).tone(tone))
    };
    let kinds = [("apart", false), ("touching", true)];
    let all = all.iter().flat_map(|by| kinds.map(|kind| series(*by, kind))).flatten().collect();
    let x = Axis::logarithmic("Threads").ticks(THREADS.map(|threads| threads as f64));
    let y = Axis::logarithmic("Time for all of it").format(TickFormat::DurationNs);
    Lines::new(caption, x, y, all).id(id)
}

fn beside(findings: &Findings) -> Table {
    let names = [
        "",
        "Stook",
        "Stook, Python",
        "÷",
        "svfsc, Python",
        "÷ without the interpreter",
        "svfsc, Python ÷ Stook",
    ];
    findings.rows.iter().fold(numbers("", names), |table, row| {
        let factor = |ratio: Option<f64>| ratio.map_or_else(|| NONE.to_owned(), units::factor);
        let against = row.svfsc_python_s.map(|theirs_s| theirs_s / row.seconds);
        let ratios = vec![factor(conclusions::of_svfsc(row)), factor(against)];
        table.row([vec![row.work.short_label()], python(row), ratios].concat(), Tone::Plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_begins_with_the_answer() {
        let html = page(&Findings::of_rows(Row::all_taking(|_| 0.5, |_| None))).render();
        let answer = "in blocks of one byte is read at 2.10 MB/s, in blocks of 512 bytes at 2.10 MB/s.";
        assert!(html.find(answer).is_some_and(|at| at < html.find("<section").unwrap()), "{html}");
    }

    /// Before: the greatest came first, and a line ran from it to the smallest.
    #[test]
    fn the_points_of_a_chart_ascend() {
        let found = Findings::of_rows(Row::all_taking(|_| 0.5, |_| None));
        let html = page(&found).render();
        let (_, numbers) = html.split_once("id=\"read-apart\"").unwrap();
        let (_, numbers) = numbers.split_once("<tbody>").unwrap();
        let (numbers, _) = numbers.split_once("</tbody>").unwrap();
        let at = |size: &str| numbers.find(&format!(">{size}</td>")).unwrap();
        assert!(at("1 B") < at("512 B") && at("512 B") < at("1 MiB"), "{numbers}");
    }

    /// Before: some ninety rows of dashes, and the same reason again and again.
    #[test]
    fn without_packages_for_python_one_line_says_what_to_do() {
        let found = Findings::of_rows(Row::all_taking(|_| 0.5, |_| None));
        let html = page(&found).render();
        assert!(!html.contains("svfsc, Python ÷ Stook"), "{html}");
        assert_eq!(html.matches("<code>stook study sparse-file --python").count(), 2, "{html}");
        let tables = super::super::text::text(&found).into_iter().filter_map(|text| match text {
            crate::Text::Table(table) => Some(table),
            crate::Text::Line(_) => None,
        });
        let columns = |table: Table| table.columns().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert!(tables.map(columns).all(|names| !names.iter().any(|name| name.contains("Python"))));
    }
}
