//! The study of an SSD on a simulated device whose costs are known.

use serde_json::Value;
use stook::bench::gates::{self, CellFacts, Load, Looks, Sampled, Series, State};
use stook::bench::{
    BenchResult, CellResult, CompactHistogram, CpuResult, Figures, InFlightResult, Pattern, RunResult,
    Second, Window, Workload,
};
use stook::report::histogram::LatencyHistogram;
use stook_study::render;
use stook_study::ssd_profile::charts::CHARTS;
use stook_study::ssd_profile::unstated::OtherWay;
use stook_study::ssd_profile::{Beside, Findings, Ratings, SsdProfile};
use stook_testing::conformance::page_conformance;
use stook_testing::device::{Arrival, Costs, Device, Finished, Run};

fn assert_whole(html: &str, findings: &Value) {
    let data: Value = serde_json::from_str(page_conformance(html, &CHARTS)).unwrap();
    // All of it would be too long for a message.
    assert!(&data == findings, "the data of the page is not the result");
}

/// How long each cell of a simulated device is measured.
const TIME_S: f64 = 6.0;
/// How finely its rate is looked at: two windows are a second.
const WINDOW_S: f64 = 0.5;
/// Costs of a read and of a write, and how many requests are served at a time.
const READ: Costs = Costs::new(200e-6, 1e9);
const WRITE: Costs = Costs::new(100e-6, 500e6);
const PARALLEL: usize = 8;

/// What `bench` would have found on a device with these costs.
fn simulated(change: impl Fn(&Workload, &mut CellFacts<'_>)) -> BenchResult {
    let device = Device { write: WRITE, chance: 0.2, ..Device::new(READ, PARALLEL) };
    let study = SsdProfile {
        work: ".".into(),
        file_bytes: 1 << 30,
        rounds: 1,
        time_s: TIME_S,
        ramp_s: 1.0,
        p99_target_s: 1e-3,
        long_run_s: None,
        rated: Ratings::default(),
    };
    let cells = study.bench().cells.into_iter();
    let cells = cells.map(|cell| cell_of(&device, cell, &change)).collect();
    BenchResult {
        path: "/disk".to_owned(),
        file_bytes: 1 << 30,
        own_file: true,
        environment: stook::bench::Environment {
            kernel: "Linux".to_owned(),
            device: Some("simulated".to_owned()),
            ..Default::default()
        },
        time: "2024-01-01T00:00:00Z".to_owned(),
        interrupted: false,
        cells,
    }
}

fn cell_of(
    device: &Device,
    workload: Workload,
    change: impl Fn(&Workload, &mut CellFacts<'_>),
) -> CellResult {
    let run = device.run(stook_testing::device::Workload {
        arrival: Arrival::Closed(workload.depth as usize),
        block_bytes: workload.block_size as f64,
        read_share: f64::from(workload.read_share) / 100.0,
        time_s: TIME_S,
        window_s: WINDOW_S,
        seed: 1,
    });
    let part = |reads: bool| {
        let figures = figures(&run, &workload, |request| request.is_read == reads);
        (figures.count > 0).then_some(figures)
    };
    let (total, read, write) = (figures(&run, &workload, |_| true), part(true), part(false));
    let rates = run.window_rates_bytes_per_s();
    let mut facts = facts(&run, &workload, &rates);
    change(&workload, &mut facts);
    let gates = gates::check(&facts);
    let (state, reasons) = (gates::state(&gates), gates::reasons(&gates));
    let run = run_of(&run, &workload, (total.clone(), read.clone(), write.clone()), gates);
    let rw = workload.rw().to_owned();
    CellResult {
        rw,
        workload,
        total,
        read,
        write,
        sync: None,
        sizes: Vec::new(),
        state,
        reasons,
        long_run: None,
        runs: vec![run],
    }
}

fn figures(run: &Run, workload: &Workload, belongs: impl Fn(&Finished) -> bool) -> Figures {
    let mut histogram = LatencyHistogram::new();
    let latencies = run.finished.iter().filter(|request| belongs(request)).map(Finished::latency_s);
    latencies.for_each(|latency_s| histogram.record((latency_s * 1e9).round() as u64));
    let mut compact = CompactHistogram::default();
    for bucket in histogram.buckets() {
        compact.upper_ns.push(bucket.to_ns);
        compact.count.push(bucket.count);
    }
    let (count, bytes) = (histogram.count(), histogram.count() * workload.block_size);
    Figures {
        count,
        bytes,
        iops: count as f64 / TIME_S,
        bandwidth_bytes_per_s: bytes as f64 / TIME_S,
        latency_min_ns: histogram.min_ns(),
        latency_mean_ns: histogram.mean_ns(),
        latency_p50_ns: histogram.quantile_ns(0.5),
        latency_p90_ns: histogram.quantile_ns(0.9),
        latency_p99_ns: histogram.quantile_ns(0.99),
        latency_p999_ns: histogram.quantile_ns(0.999),
        latency_max_ns: histogram.max_ns(),
        histogram: compact,
    }
}

fn facts<'a>(run: &Run, workload: &Workload, rates: &'a [f64]) -> CellFacts<'a> {
    let unknown = || "a simulated device has none".to_owned();
    let (read, written) = run.bytes();
    let mut looks = Looks::default();
    run.in_flight.iter().for_each(|&in_flight| looks.add(in_flight));
    CellFacts {
        load: Load::Closed { in_flight: f64::from(workload.depth) },
        jobs: 1,
        time_s: TIME_S,
        steady_s: TIME_S,
        requests: run.finished.len() as u64,
        latency_mean_s: run.latency_mean_s(),
        earlier_s: 0.0,
        in_flight: looks.sampled(),
        read_bytes: read as u64,
        written_bytes: written as u64,
        device_read_bytes: Ok(read as u64),
        device_written_bytes: Ok(written as u64),
        disks: None,
        link_limit_bytes_per_s: Err(unknown()),
        processors_share: 0.2,
        thread_cpu_share_max: Ok(0.1),
        processor_wait_share_max: Ok(0.0),
        processor_wait_unsure: 0.0,
        quota_stop: None,
        stopped_share: 0.0,
        tracer: None,
        throttled: Vec::new(),
        durable_after_s: Some(0.0),
        series: Series { window_s: WINDOW_S, rates_bytes_per_s: rates },
        long_run: None,
    }
}

fn run_of(
    run: &Run,
    workload: &Workload,
    (total, read, write): (Figures, Option<Figures>, Option<Figures>),
    gates: Vec<gates::Gate>,
) -> RunResult {
    let second = |windows: &[stook_testing::device::Window]| {
        let reads: u64 = windows.iter().map(|window| window.reads).sum();
        let writes: u64 = windows.iter().map(|window| window.writes).sum();
        Second { reads, writes, bytes: (reads + writes) * workload.block_size, latency_sum_ns: 0 }
    };
    let window = |second: &Second| {
        let count = second.reads + second.writes;
        Window { seconds: 1.0, count, iops: count as f64 }
    };
    let series: Vec<Second> = run.windows.chunks(2).map(second).collect();
    RunResult {
        round: 0,
        engine: "simulated".to_owned(),
        direct: true,
        seconds: TIME_S,
        steady_s: TIME_S,
        total,
        read,
        write,
        sync: None,
        windows: series.iter().take(5).map(window).collect(),
        series,
        in_flight: InFlightResult { requested: u64::from(workload.depth), ..InFlightResult::default() },
        cpu: CpuResult::default(),
        device: None,
        open_loop: None,
        verified_bytes: 0,
        durable_after_s: None,
        state: gates::state(&gates),
        reasons: gates::reasons(&gates),
        gates,
    }
}

fn rendered(findings: &Findings) -> (String, Value) {
    let rendered = render::<SsdProfile>(findings).unwrap();
    (rendered.html, serde_json::from_slice(&rendered.json).unwrap())
}

fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found} instead of {expected}");
}

#[test]
fn the_page_tells_what_a_device_of_known_costs_does() {
    let findings = Findings::of(simulated(|_, _| {}), 1e-3);
    let (html, json) = rendered(&findings);
    assert_whole(&html, &json);
    // What was not printed is not published.
    let small = &json["data"]["published"]["small_writes"];
    assert_eq!(
        [&small["bandwidth_bytes_per_s"], &small["write"]["bandwidth_bytes_per_s"]],
        [&Value::Null; 2]
    );
    let page = shown(&html);
    let (_, row) = page.split_once(">writes\u{a0}of\u{a0}4.00\u{a0}KiB</th>").unwrap();
    let (row, _) = row.split_once("</tr>").unwrap();
    // None in order, and no share of a mix.
    assert_eq!(row.matches(">–</td>").count(), 5, "{row}");
    let block = findings.fits.block.model().unwrap();
    near(block.fixed_cost_s.value, READ.fixed_s, 0.02);
    near(block.bandwidth_bytes_per_s.value, READ.bandwidth_bytes_per_s, 0.02);
    near(block.half_bandwidth_block_bytes.value, 200e3, 0.03);
    let depth = findings.fits.depth.model().unwrap();
    near(depth.depth_star.value, PARALLEL as f64, 0.03);
    assert!(depth.saturated && depth.answers.balanced.is_some());
    assert!(findings.fits.mix.model().unwrap().interference.abs() < 0.05);
    let verdicts: Vec<&str> =
        findings.conclusions.iter().map(|conclusion| conclusion.verdict.text()).collect();
    let (yes, no) = ("holds", "does not hold");
    // Its fixed cost is large, its writes are much quicker than its reads, and nothing is lost at
    // great depth; what is not measured is not judged, and of an SSD nothing is said where the kind
    // of the device is not known.
    let none = "not measured here";
    assert_eq!(
        verdicts,
        [
            [yes, no, none, none].as_slice(),
            &[yes, no, no, no, yes],
            &[yes, yes, no, no, no, yes, no],
            &[none, none, none, yes, none, none],
        ]
        .concat()
    );
    for reported in [
        "In order, as it was published: a read waits 200 µs",
        "At random places, which is ours: every read waits 200 µs",
        "Reads and writes per second, each ÷ its share of the mix",
        "On a simulated one it would not hold",
        "--long-run 5m",
        "All 38 measurements passed their checks.",
        "<dt>Block</dt><dd>The piece that a program asks for in one go",
        "<dt>Latency</dt><dd>How long one request takes",
        "<dt>IOPS</dt><dd>Requests completed per second",
        "<dt>Queue depth</dt><dd>How many requests a program has asked for and not yet got",
        "<dt>p99</dt><dd>The latency that 99 of 100 requests kept to",
        "<dt>Gate</dt><dd>A check that a measurement has to pass",
        ">RND4K\u{a0}Q1</th>",
        "Here the easiest of the four brings",
        "Here a read of 4 KiB takes 204 µs and one of 512 KiB takes",
        "The least to be asked for at once for nine tenths of that is",
        ">t₀: 200 µs</text>",
        ">half of B: ",
        ">N* = ",
        "<dt>Device</dt><dd>simulated</dd>",
        "rwmixread=70",
    ] {
        assert!(html.contains(reported), "{reported}");
    }
    assert!(!html.contains("Not valid"));
}

#[test]
fn cells_that_fail_a_check_are_marked_and_used_for_nothing() {
    let cached = |workload: &Workload| {
        let map = (workload.block_size, workload.depth) == (128 << 10, 256);
        let is_cached = workload.block_size == 32 << 10 || workload.depth == 1024 || map;
        is_cached && workload.pattern == Pattern::Random
    };
    let findings = Findings::of(
        simulated(|workload, facts| {
            if cached(workload) {
                facts.device_read_bytes = Ok(0);
            }
        }),
        1e-3,
    );
    let (html, json) = rendered(&findings);
    assert_whole(&html, &json);
    assert!(findings.verdict.contains("35 of 38 measurements passed their checks"), "{}", findings.verdict);
    let reason = "the device read 0.00 of the bytes requested: a cache or compression stood in between";
    // The reason is reported once, with all cells that have it.
    let (_, reported) = html.split_once("Not valid: 3 cells (").unwrap();
    let (names, rest) = reported.split_once("): ").unwrap();
    assert!(rest.starts_with(reason), "{rest}");
    for name in ["reads, 32.0 KiB, depth 1", "reads, 16.0 KiB, depth 1,024", "reads, 128 KiB, depth 256"] {
        assert!(names.split("; ").any(|reported| reported == name), "{name}: {names}");
    }
    assert_eq!(html.matches("0.00 ✗").count(), 3);
    let block = findings.fits.block.model().unwrap();
    assert_eq!((block.cells_invalid, block.residuals.len()), (1, 4));
    let depth = findings.fits.depth.model().unwrap();
    assert_eq!((depth.cells_invalid, depth.residuals.len()), (1, 4));
    let map = html.split_once("<figure id=\"block-depth\"").unwrap().1.split_once("</figure>").unwrap().0;
    let fields = ["\"field\"", "\"field doubt\"", "\"field empty\""];
    assert_eq!(fields.map(|class| map.matches(&format!("<g class={class}>")).count()), [14, 1, 1]);
    assert!(map.contains("Block 128 KiB, Depth 256: ") && map.contains(&format!("; not valid: {reason}")));
    // Neither is drawn but against the law that is itself a check.
    let chart = |id: &str| {
        let (_, rest) = html.split_once(&format!("<figure id=\"{id}\"")).unwrap();
        rest.split_once("</figure>").unwrap().0
    };
    let drawn = |id: &str| chart(id).matches("<title>Here, at random: ").count();
    assert_eq!([drawn("latency-block"), drawn("latency-depth"), drawn("little")], [4, 4, 5]);
    assert_eq!(chart("latency-block").matches("<title>At random, not valid: ").count(), 1);
}

/// Before: the law could not be refuted, nor time between requests be seen, because cells that show
/// either fail a check.
#[test]
fn cells_that_fail_the_law_alone_decide_about_it_and_about_nothing_else() {
    let is_idle =
        |workload: &Workload| workload.pattern == Pattern::Sequential && [1, 4, 32].contains(&workload.depth);
    let mut result = simulated(|workload, facts| {
        if !is_idle(workload) {
            return;
        }
        facts.requests = facts.requests * 8 / 10;
        facts.in_flight = facts.in_flight.clone().map(|seen| Sampled { mean: 0.8 * seen.mean, ..seen });
        if workload.depth == 32 {
            facts.device_read_bytes = Ok(0);
        }
    });
    result.cells.iter_mut().filter(|cell| is_idle(&cell.workload)).for_each(|cell| cell.total.iops *= 0.8);
    let findings = Findings::of(result, 1e-3);
    let of = |words: &str| findings.conclusions.iter().find(|one| one.published.contains(words)).unwrap();
    let (law, idle) = (of("Little's law"), of("Throughput at depth 1 is low"));
    assert_eq!((law.verdict.text(), idle.verdict.text()), ("does not hold", "holds"));
    assert_eq!(law.here, "Of the depth: 0.80 at 1, 0.80 at 4, 1.00 at 256, 1.00 at 1,024.");
    // Before: it held on the two that are left.
    let constant = of("relatively constant in depth");
    assert_eq!(constant.verdict.text(), "not measured here");
    let said = "Needed for it, and not valid: depth 1, depth 4, depth 32. Of the others: The lowest rate is 0.0% below \
                the highest.";
    assert_eq!(constant.here, said);
}

#[test]
fn without_a_valid_cell_the_page_says_so_and_fits_nothing() {
    let elsewhere = Sampled { mean: 1e9, standard_error: 0.0, looks: 10_000 };
    let findings = Findings::of(simulated(|_, facts| facts.in_flight = Ok(elsewhere)), 1e-3);
    let (html, json) = rendered(&findings);
    assert_whole(&html, &json);
    let first =
        "None of the 38 measurements passed their checks, so what the device does cannot be answered. ";
    assert!(findings.verdict.starts_with(first), "{}", findings.verdict);
    assert!(findings.verdict.ends_with(", or for longer."), "{}", findings.verdict);
    assert!(
        html.contains("Latency against block size could not be fitted: 3 different block sizes are needed")
    );
    assert!(findings.fits.block.model().is_none() && json["data"]["fits"]["block"]["model"].is_null());
}

/// Through the cache all latencies are a fifth of those of the device, and depth changes nothing.
#[test]
fn what_the_document_does_not_state_is_laid_beside_and_the_conclusions_that_it_changes_are_named() {
    let mut cached = simulated_as_published();
    for cell in &mut cached.cells {
        let parts = [Some(&mut cell.total), cell.read.as_mut(), cell.write.as_mut()];
        for figures in parts.into_iter().flatten() {
            figures.latency_mean_ns = figures.latency_mean_ns.map(|mean| mean / 5.0);
            figures.iops *= 5.0;
            figures.bandwidth_bytes_per_s *= 5.0;
        }
        if cell.workload.depth > 1 {
            let depth = f64::from(cell.workload.depth);
            (cell.total.iops, cell.total.latency_mean_ns) = (1e5, Some(depth / 1e5 * 1e9));
        }
    }
    let unstated = vec![(OtherWay::Threads, simulated_as_published()), (OtherWay::Buffered, cached)];
    let findings = Findings::with(simulated(|_, _| {}), 1e-3, Beside { unstated, ..Beside::default() });
    let [threads, buffered] = findings.unstated.as_slice() else { panic!("there are two") };
    assert_eq!((threads.differs.len(), threads.profile.depths.len()), (0, 5));
    let named: Vec<&str> = buffered.differs.iter().map(|one| one.published).collect();
    assert!(named.contains(&"Latency is linear in depth."), "{named:?}");
    let (html, json) = rendered(&findings);
    assert_whole(&html, &json);
    let page = shown(&html);
    assert!(page.contains("every conclusion about cells comes out the same."), "{page}");
    assert!(page.contains("these conclusions about cells come out otherwise: "), "{page}");
    assert!(page.contains(">writes,\u{a0}4\u{a0}KiB,\u{a0}depth\u{a0}1</th>"), "{page}");
    assert_eq!(json["data"]["unstated"][1]["way"], "buffered");
}

fn simulated_as_published() -> BenchResult {
    let mut result = simulated(|_, _| {});
    result.cells.retain(|cell| {
        let is_small = cell.workload.block_size == 4096 && cell.workload.read_share == 0;
        cell.workload.pattern == Pattern::Sequential && cell.workload.block_size < 1 << 20 || is_small
    });
    result
}

#[test]
fn what_is_advertised_stands_beside_what_was_reached() {
    let rated = Ratings { read_bytes_per_s: Some(1e12), write_bytes_per_s: None };
    let findings = Findings::with(simulated(|_, _| {}), 1e-3, Beside { rated, ..Beside::default() });
    let one = findings.conclusions.iter().find(|one| one.published.contains("7100")).unwrap();
    assert_eq!(one.verdict.text(), "does not hold");
    let (html, json) = rendered(&findings);
    assert_eq!(json["data"]["rated"]["read_bytes_per_s"], 1e12);
    assert!(shown(&html).contains("1,000,000\u{a0}MB/s") || shown(&html).contains("1,000,000 MB/s"));
    // Reads of 1 MiB in order, eight at once, are the fastest.
    let best = findings.best_bytes_per_s[0].unwrap();
    assert_eq!(
        Some(best),
        findings.summary.iter().map(|line| line.cell.bandwidth_bytes_per_s).max_by(f64::total_cmp)
    );
}

/// The page without the data that it embeds.
fn shown(html: &str) -> String {
    let (before, data) = html.split_once("<script").unwrap();
    before.to_owned() + data.split_once("</script>").unwrap().1
}

const MEMORY: &str = "tmpfs keeps files in memory: this is not a device";

/// What is found in memory, after some cells have been changed.
fn in_memory(change: impl Fn(&Workload, &mut CellFacts<'_>)) -> Findings {
    let mut result = simulated(|workload, facts| {
        let doubt = || Err(MEMORY.to_owned());
        (facts.device_read_bytes, facts.device_written_bytes) = (doubt(), doubt());
        change(workload, facts);
    });
    result.environment.device = None;
    result.environment.device_doubt = Some(MEMORY.to_owned());
    Findings::of(result, 1e-3)
}

/// Before: "10 of 25 measurements are unverified: tmpfs keeps files in memory", because the others
/// failed another check, too; and then "Every read waits 12.2 µs", out of the 10.
#[test]
fn where_no_device_is_known_it_is_said_of_all_measurements_and_no_law_comes_from_them() {
    let none = format!("No device is known for any of the 38 measurements: {MEMORY}. ");
    let answered = "so what the device does cannot be answered. ";
    for least_failing in [u32::MAX, 32] {
        let elsewhere = Sampled { mean: 1e9, standard_error: 0.0, looks: 10_000 };
        let findings = in_memory(|workload, facts| {
            if workload.depth >= least_failing {
                facts.in_flight = Ok(elsewhere);
            }
        });
        let of = |state| findings.result.cells.iter().filter(|cell| cell.state == state).count();
        let failed = of(State::Invalid);
        assert_eq!((of(State::Valid), of(State::Unverified) + failed), (0, 38));
        assert_eq!(failed > 0, least_failing == 32);
        let failed = match failed {
            0 => String::new(),
            failed => format!("; {failed} failed one and are used for nothing"),
        };
        let first = format!("{none}None of the 38 measurements passed their checks{failed}, {answered}");
        assert!(findings.verdict.starts_with(&first), "{}", findings.verdict);
        let (html, json) = rendered(&findings);
        assert_whole(&html, &json);
        let page = shown(&html);
        let (lead, _) = page.split_once("<h2").unwrap();
        assert!(lead.contains(none.trim_end()), "{lead}");
        for law in ["every read waits", "works on many reads", "wait before the first byte of a read"] {
            assert!(!page.contains(law), "{law}");
        }
    }
}

#[test]
fn a_page_of_unverified_cells_says_first_that_no_device_is_known_and_is_drawn_all_the_same() {
    let (memory, findings) = (MEMORY, in_memory(|_, _| {}));
    let (html, json) = rendered(&findings);
    assert_whole(&html, &json);
    let page = shown(&html);
    let (lead, sections) = page.split_once("<h2").unwrap();
    assert!(lead.contains("No device is known for any of the 38 measurements"), "{lead}");
    assert_eq!(sections.matches(&format!("Unverified: all cells: {memory}.")).count(), 1);
    assert!(!page.contains("Not valid: "));
    // Four lines, and every check that could not be made.
    assert!(page.matches(">?</td>").count() >= 4 + 38, "{page}");
    for note in ["5 of these 5 measurements.", "15 of these 15 measurements."] {
        assert!(page.contains(note), "{note}");
    }
    let figure = |id: &str| {
        page.split_once(&format!("<figure id=\"{id}\"")).unwrap().1.split_once("</figure>").unwrap().0
    };
    assert_eq!(figure("latency-block").matches("<title>Here, at random: ").count(), 5);
    let map = figure("block-depth");
    assert_eq!(
        (map.matches("\"field doubt\"").count(), map.contains(&format!("; unverified: {memory}"))),
        (0, true)
    );
    assert!(
        findings.fits.block.model().is_some() && json["data"]["summary"][0]["cell"]["state"] == "unverified"
    );
}

#[test]
fn some_unverified_cells_are_counted_first_and_signed_where_they_stand() {
    let is_deep = |workload: &Workload| (workload.depth, workload.pattern) == (1024, Pattern::Random);
    let findings = Findings::of(
        simulated(|workload, facts| {
            if is_deep(workload) {
                facts.steady_s = 0.5;
            }
        }),
        1e-3,
    );
    let (html, json) = rendered(&findings);
    assert_whole(&html, &json);
    let first = "1 of 38 measurements is unverified: too short to be believed: 0.5 s";
    assert!(findings.verdict.starts_with(first), "{}", findings.verdict);
    assert!(findings.verdict.ends_with("37 of 38 measurements passed their checks."), "{}", findings.verdict);
    let page = shown(&html);
    assert!(page.contains("1,024\u{a0}(at\u{a0}random\u{a0}unverified)"), "{page}");
    assert!(page.contains("0.50 ?</td>") && page.contains("as the others are: 1 of these 5 measurements."));
    assert_eq!(findings.fits.depth.model().unwrap().residuals.len(), 5);
    let states: Vec<State> = findings.profile.depths.iter().map(|cell| cell.state).collect();
    assert_eq!(states, [State::Valid, State::Valid, State::Valid, State::Valid, State::Unverified]);
}

#[test]
fn cells_that_the_device_bears_out_and_that_are_too_short_are_not_said_to_be_of_no_device() {
    let findings = Findings::of(simulated(|_, facts| facts.steady_s = 0.2), 1e-3);
    let first =
        "Nothing shows that these figures hold for the device: all 38 measurements are unverified: too short";
    assert!(findings.verdict.starts_with(first), "{}", findings.verdict);
    assert!(!findings.verdict.contains("every read waits"), "{}", findings.verdict);
    // Reasons that differ in their figures only are one.
    assert_eq!(findings.verdict.matches("too short to be believed").count(), 1, "{}", findings.verdict);
}
