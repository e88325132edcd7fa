//! Writes a page that uses every kind of block, to see the style:
//! `cargo run --example page > page.html`.
//!
//! The figures are there to be looked at; nothing was measured for them.

use stook::report::chart::{Axis, Bar, Bars, Lines, Point, Series, TickFormat};
use stook::report::page::{Block, Figure, Page};
use stook::report::table::{Align, Table, Tone};

fn main() -> Result<(), serde_json::Error> {
    let blocks = [(4.0, 17.76), (16.0, 19.78), (32.0, 23.75), (128.0, 44.1), (512.0, 131.29)];
    let page = Page::new("Fifty thousand small files")
        .lead("One pack loads 13 times as fast as the files it was made from: locating and opening files takes the time, not reading them.")
        .lead("Every figure is the median of five runs with cold caches; all readers returned the same bytes.")
        .section("", vec![Block::Figures(figures())])
        .section("Loading 1.00 GB, cold", vec![Block::Bars(bars()), Block::Table(table())])
        .section("Latency grows with the block", vec![
            Block::Text("A request costs a fixed 16.6 µs and then 1 µs for each 4.64 KB.\n\nRun `stook bench --block-size 4K` to see the first point.".into()),
            Block::Lines(latency(&blocks)),
            Block::Lines(depths()),
        ])
        .section("How it was measured", vec![
            Block::Note("Caches could not be dropped for the rows of the example: they are made up.".into()),
            Block::Code("stook study many-small-files --pairs 5\nsync; echo 3 > /proc/sys/vm/drop_caches".into()),
            Block::Facts(facts()),
        ])
        .footer("A sample of the page style: nothing was measured for it. The numbers are embedded in this page as JSON, in the element with the id `data`.")
        .data(&blocks)?;
    print!("{}", page.render());
    Ok(())
}

fn figures() -> Vec<Figure> {
    [
        ("13.2×", "pack against files, one reader"),
        ("1,530 MB/s", "pack, all checksums verified"),
        ("97.1%", "of what the device gives"),
    ]
    .map(|(value, label)| Figure { value: value.into(), label: label.into() })
    .into()
}

fn bars() -> Bars {
    Bars::new(
        "Speed of loading everything into memory",
        "MB/s",
        vec![
            Bar::new("Files, one reader", 116.0).detail("50,000 opens"),
            Bar::new("Files, 32 readers", 830.0).detail("best of 1, 2, 8, 32"),
            Bar::new("Plain composite file", 1360.0).detail("no checksums"),
            Bar::new("Pack", 1530.0).detail("checksums verified").tone(Tone::Highlight),
            Bar::new("Example: files", 12.0).tone(Tone::Muted),
            Bar::new("Example: composite", 540.0).tone(Tone::Muted),
        ],
    )
    .reference(1575.0, "Limit of the device (1 MiB reads, depth 16)")
}

fn table() -> Table {
    Table::new("Medians of five runs")
        .column("Reader", Align::Left)
        .column("Seconds", Align::Right)
        .column("MB/s", Align::Right)
        .column("Against files", Align::Right)
        .column("95% interval", Align::Right)
        .row(["Files, one reader", "8.61", "116", "1.00×", "–"], Tone::Plain)
        .row(["Files, 32 readers", "1.20", "830", "7.16×", "6.91 to 7.33"], Tone::Plain)
        .row(["Pack", "0.65", "1,530", "13.2×", "12.9 to 13.4"], Tone::Highlight)
        .row(["Example: composite", "1.85", "540", "45.0×", ""], Tone::Muted)
}

fn latency(blocks: &[(f64, f64)]) -> Lines {
    let ticks = blocks.iter().map(|block| block.0 * 1024.0);
    let axis = Axis::logarithmic("Block size").format(TickFormat::BytesBinary).ticks(ticks);
    let measured = blocks.iter().map(|&(kib, us)| Point::new(kib * 1024.0, us)).collect();
    let fitted =
        blocks.iter().map(|&(kib, _)| Point::new(kib * 1024.0, 16.6 + kib * 1024.0 / 4640.0)).collect();
    Lines::new(
        "Mean latency of a read at depth 1, against the size of the block",
        axis,
        Axis::linear("Latency, µs"),
        vec![
            Series::new("Measured", measured).tone(Tone::Highlight),
            Series::new("t₀ + b ÷ B", fitted).tone(Tone::Muted),
        ],
    )
}

fn depths() -> Lines {
    let line = |scale: f64| {
        [
            (20.7, 46.5, "1"),
            (29.28, 101.0, "4"),
            (155.56, 108.0, "32"),
            (1200.89, 106.0, "256"),
            (5363.49, 94.3, "1024"),
        ]
        .map(|(us, kiops, depth)| Point::new(us * scale, kiops / scale).label(depth))
        .into()
    };
    let series = vec![
        Series::new("Read", line(1.0)).tone(Tone::Highlight),
        Series::new("Write", line(1.3)),
        Series::new("Mix 70/30", line(1.15)),
        Series::new("Mix 50/50", line(1.2)),
    ];
    Lines::new(
        "Throughput against latency; numbers are queue depths",
        Axis::logarithmic("Mean latency, µs"),
        Axis::linear("Thousand requests per second"),
        series,
    )
}

fn facts() -> Vec<(String, String)> {
    [
        ("Device", "Virtual disk, 2 cores, ext4 with `noatime`"),
        ("Kernel", "Linux 6.1"),
        ("Data", "50,000 files of 20,000 bytes, two directories deep"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into()
}
