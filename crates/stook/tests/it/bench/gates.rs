//! Each gate fires on its case, passes on the neighbour, and says when it has nothing to go by.

use proptest::prelude::*;
use stook::bench::gates::{
    CellFacts, Gate, GateName, Load, Outcome, QuotaStop, Sampled, Series, State, Throttled, check, find_fall,
    reasons, state, steadiness,
};
use stook_testing::device::{Costs, Device, Workload, WriteCache};

use super::{facts, gate, outcome, unknown};

const FLAT: &[f64] = &[100e6; 20];

/// What many looks saw that all saw the same.
pub(super) fn sampled(mean: f64) -> Result<Sampled, String> {
    Ok(Sampled { mean, standard_error: 0.0, looks: 20_000 })
}

/// A cell of 20 s in which all is well: 1250 reads of 80 KB per second, eight at a time.
pub(super) fn good() -> CellFacts<'static> {
    CellFacts {
        load: Load::Closed { in_flight: 8.0 },
        jobs: 1,
        time_s: 20.0,
        steady_s: 20.0,
        requests: 25_000,
        latency_mean_s: 8.0 / 1250.0,
        earlier_s: 0.0,
        in_flight: sampled(8.0),
        read_bytes: 2_000_000_000,
        written_bytes: 0,
        device_read_bytes: Ok(2_000_000_000),
        device_written_bytes: Ok(4096),
        disks: None,
        link_limit_bytes_per_s: Ok(500e6),
        thread_cpu_share_max: Ok(0.3),
        processors_share: 0.2,
        processor_wait_share_max: Ok(0.01),
        processor_wait_unsure: 0.0,
        quota_stop: None,
        stopped_share: 0.0,
        tracer: None,
        throttled: Vec::new(),
        durable_after_s: None,
        series: Series { window_s: 1.0, rates_bytes_per_s: FLAT },
        long_run: None,
    }
}

pub(super) fn open(due: u64, done: u64, held_back: u64, unserved: u64) -> Load {
    let latency_mean_s = good().latency_mean_s;
    Load::Open {
        due,
        done,
        held_back,
        unserved,
        is_random: false,
        late_mean_s: 0.0,
        latency_mean_s,
        latency_median_s: latency_mean_s,
    }
}

/// This many requests, each completed in time, with the mean delay of the tool in beginning them,
/// and the mean latency from when they were due.
fn arriving(requests: u64, late_mean_s: f64, latency_mean_s: f64) -> Load {
    Load::Open {
        due: requests,
        done: requests,
        held_back: 0,
        unserved: 0,
        is_random: false,
        late_mean_s,
        latency_mean_s,
        latency_median_s: latency_mean_s,
    }
}

fn writing() -> CellFacts<'static> {
    let (read_bytes, written_bytes) = (0, good().read_bytes);
    let (device_written_bytes, durable_after_s) = (Ok(written_bytes), Some(0.1));
    CellFacts { read_bytes, written_bytes, device_written_bytes, durable_after_s, ..good() }
}

/// Exactly this gate fails for `bad`, and passes for `neighbour`, which is valid as a whole.
fn fires(name: GateName, bad: &CellFacts<'_>, neighbour: &CellFacts<'_>, why: &str) {
    ends(name, (State::Invalid, Outcome::Failed), bad, neighbour, why);
}

/// Exactly this gate is unverified for `bad`, where no gate fails, and passes for `neighbour`.
fn doubts(name: GateName, bad: &CellFacts<'_>, neighbour: &CellFacts<'_>, why: &str) {
    ends(name, (State::Unverified, Outcome::Unverified), bad, neighbour, why);
    assert!(!check(bad).iter().any(|gate| gate.is_failed()), "{bad:?}");
}

fn ends(
    name: GateName,
    expected: (State, Outcome),
    bad: &CellFacts<'_>,
    neighbour: &CellFacts<'_>,
    why: &str,
) {
    let gates = check(bad);
    let found: Vec<GateName> =
        gates.iter().filter(|gate| gate.outcome == expected.1).map(|gate| gate.name).collect();
    assert_eq!((state(&gates), found), (expected.0, vec![name]), "{bad:?}");
    assert!(reasons(&gates)[0].contains(why), "{:?}", reasons(&gates));
    assert_eq!(outcome(neighbour, name), Outcome::Passed, "{:?}", gate(neighbour, name));
    let gates = check(neighbour);
    assert!(state(&gates).is_valid() && reasons(&gates).is_empty(), "{:?}", reasons(&gates));
}

/// Before: what could not be checked was "not applicable", and counted as valid: memory at 4,951
/// MB/s, say.
#[test]
fn a_good_cell_passes_and_what_is_unknown_makes_it_unverified() {
    let gates = check(&good());
    assert_eq!(state(&gates), State::Valid);
    for gate in &gates {
        let nothing_to_check = [
            GateName::RateReached,
            GateName::Punctual,
            GateName::DeviceBytesWritten,
            GateName::WriteBurst,
            GateName::Throttle,
            GateName::Durable,
        ];
        let expected = nothing_to_check.contains(&gate.name);
        assert_eq!(gate.outcome == Outcome::NotApplicable, expected, "{gate:?}");
        assert!(!gate.reason.is_empty());
    }
    let blind = CellFacts {
        in_flight: unknown(),
        device_read_bytes: unknown(),
        link_limit_bytes_per_s: unknown(),
        thread_cpu_share_max: unknown(),
        processor_wait_share_max: unknown(),
        ..good()
    };
    let doubted =
        [GateName::LittleSampled, GateName::DeviceBytesRead, GateName::ThreadCpu, GateName::ProcessorWait];
    for name in doubted {
        assert_eq!(outcome(&blind, name), Outcome::Unverified);
    }
    // A bound from above that is not known takes nothing away.
    assert_eq!(outcome(&blind, GateName::LinkLimit), Outcome::NotApplicable);
    let gates = check(&blind);
    assert_eq!(state(&gates), State::Unverified);
    assert_eq!(reasons(&gates), ["a simulated device has none"], "what they have in common is reported once");
}

#[test]
fn a_check_that_failed_decides_over_one_that_could_not_be_made() {
    let both = CellFacts { device_read_bytes: unknown(), thread_cpu_share_max: Ok(1.0), ..good() };
    let gates = check(&both);
    assert_eq!(state(&gates), State::Invalid);
    assert!(reasons(&gates).len() == 1 && reasons(&gates)[0].contains("the tool is the limit"));
}

#[test]
fn states_have_names_for_people_and_for_programs() {
    let names = [(State::Valid, "valid", "valid"), (State::Unverified, "unverified", "unverified")];
    for (state, reported, written) in names.into_iter().chain([(State::Invalid, "not valid", "invalid")]) {
        assert_eq!(
            (state.to_string().as_str(), serde_json::to_value(state).unwrap()),
            (reported, written.into())
        );
    }
}

#[test]
fn the_published_depth_table_does_not_prove_littles_law() {
    // Depth, requests per second, mean latency in µs, and the share of the depth that they account
    // for.
    for (depth, rate, latency_us, share) in [
        (1.0, 46_500.0, 20.7, 0.96),
        (4.0, 101_000.0, 29.28, 0.74),
        (32.0, 108_000.0, 155.56, 0.53),
        (256.0, 106_000.0, 1200.89, 0.50),
        (1024.0, 94_300.0, 5363.49, 0.49),
    ] {
        let cell = CellFacts {
            load: Load::Closed { in_flight: depth },
            time_s: 60.0,
            requests: (rate * 60.0) as u64,
            latency_mean_s: latency_us * 1e-6,
            in_flight: sampled(depth),
            ..good()
        };
        for name in [GateName::LittleRequested, GateName::LittleSampled] {
            let gate = gate(&cell, name);
            assert!((gate.measured.unwrap() - share).abs() < 0.006, "{gate:?}");
            assert_eq!(gate.outcome, Outcome::Failed);
            assert!(gate.reason.contains("latencies leave out"), "{gate:?}");
        }
    }
}

#[test]
fn latencies_that_leave_something_out_break_littles_law() {
    let device = Device::nvme();
    for depth in [1, 4, 32] {
        let run = device.run(Workload { window_s: 0.05, ..Workload::reads(depth, 4096.0, 1.0) });
        let rates = run.window_rates_bytes_per_s();
        let whole = facts(&run, &rates);
        assert!(!state(&check(&whole)).is_invalid(), "{:?}", reasons(&check(&whole)));
        let left_out = CellFacts { latency_mean_s: whole.latency_mean_s * 0.96, ..whole };
        assert_eq!(outcome(&left_out, GateName::LittleRequested), Outcome::Failed);
        assert_eq!(outcome(&left_out, GateName::LittleSampled), Outcome::Failed);
    }
}

#[test]
fn a_depth_that_was_not_reached_is_told_apart_from_latencies_left_out() {
    let depth_of_five = CellFacts { latency_mean_s: 5.0 / 1250.0, in_flight: sampled(5.0), ..good() };
    fires(GateName::LittleRequested, &depth_of_five, &good(), "the depth was not reached, 5.00");
    assert_eq!(outcome(&depth_of_five, GateName::LittleSampled), Outcome::Passed);
    let unsampled = CellFacts { in_flight: unknown(), ..depth_of_five };
    assert!(gate(&unsampled, GateName::LittleRequested).reason.contains("or the latencies leave out"));
}

/// Before: of 256 requests one at a time "more than was allowed was in flight", because the first
/// had begun in the ramp.
#[test]
fn what_had_passed_before_measuring_began_does_not_break_littles_law() {
    let short = CellFacts {
        load: Load::Closed { in_flight: 1.0 },
        time_s: 0.256,
        steady_s: 0.256,
        requests: 256,
        latency_mean_s: 0.280 / 256.0,
        earlier_s: 0.024,
        in_flight: sampled(1.0),
        ..good()
    };
    assert_eq!(outcome(&short, GateName::LittleRequested), Outcome::Passed);
    // Before: what is too short to be believed at all was refused by a law.
    let broken = CellFacts { earlier_s: 0.0, ..short };
    let reported = gate(&broken, GateName::LittleRequested);
    assert_eq!(reported.outcome, Outcome::Unverified);
    assert!(reported.reason.starts_with("the run is too short to tell: "), "{reported:?}");
    assert_eq!(outcome(&CellFacts { steady_s: 1.0, ..broken }, GateName::LittleRequested), Outcome::Failed);
    // It makes up for the depth that is not full while the last are waited for.
    let deep = CellFacts { latency_mean_s: 8.0 * 1.05 / 1250.0, earlier_s: 16.0, ..good() };
    assert_eq!(outcome(&deep, GateName::LittleRequested), Outcome::Passed);
}

#[test]
fn the_sampled_count_alone_can_contradict() {
    let mut cell = CellFacts { in_flight: sampled(8.0 / 1.031), ..good() };
    let neighbour = CellFacts { in_flight: sampled(8.0 / 1.029), ..good() };
    fires(GateName::LittleSampled, &cell, &neighbour, "was not in flight");
    // In an open loop it is the only one there is.
    cell.load = open(25_000, 25_000, 0, 0);
    assert_eq!(outcome(&cell, GateName::LittleRequested), Outcome::NotApplicable);
    assert_eq!(outcome(&cell, GateName::LittleSampled), Outcome::Failed);
}

/// Before: compared with rate × time, which a random schedule does not match; and "the device does
/// not keep up" was reported for an idle device.
#[test]
fn a_rate_that_is_not_reached_fails_and_the_device_is_blamed_only_where_the_depth_was_reached() {
    let cell = |due, held_back| {
        let load = open(due, 25_000, held_back, 0);
        CellFacts { load, ..good() }
    };
    let (due, enough) = ((25_000.0 / 0.969) as u64, (25_000.0 / 0.971) as u64);
    fires(GateName::RateReached, &cell(due, 1), &cell(enough, 1), "there was a stall, or it is more than");
    let waiting = |unserved| CellFacts { load: open(50_000, 25_000, 25_000, unserved), ..good() };
    let reported = |cell: CellFacts<'_>| gate(&cell, GateName::RateReached).reason;
    assert!(reported(waiting(20_000)).contains("the device does not keep up"));
    // Before: the device was blamed for one stall, and for a thread without time left.
    assert!(reported(waiting(1_000)).contains("there was a stall"), "it had caught up but for 2%");
    let busy = CellFacts { thread_cpu_share_max: Ok(0.95), ..waiting(20_000) };
    assert!(reported(busy).contains("the tool had no time left"));
    fires(GateName::RateReached, &cell(due, 0), &cell(enough, 0), "the tool began them late");
    assert!(!gate(&cell(due, 0), GateName::RateReached).reason.contains("does not keep up"));
    // Of few, four may just be in flight when the time is over.
    let few = |done| CellFacts { load: open(100, done, 0, 0), ..good() };
    fires(GateName::RateReached, &few(95), &few(96), "100 requests were due in the measured time, and 95 ");
}

#[test]
fn bytes_at_the_device_tell_caches_and_other_traffic() {
    let read = |share: f64| CellFacts { device_read_bytes: Ok((2e9 * share) as u64), ..good() };
    fires(GateName::DeviceBytesRead, &read(0.0), &read(0.96), "a cache or compression");
    fires(GateName::DeviceBytesRead, &read(0.94), &read(1.0), "a cache or compression");
    fires(GateName::DeviceBytesRead, &read(1.11), &read(1.09), "other programs read");
    // Before: "the device says that 12.626 of the bytes asked for were read".
    let reported = |share| gate(&read(share), GateName::DeviceBytesRead).reason;
    assert!(
        reported(0.05).starts_with("the device read 0.05 of the bytes requested: "),
        "{}",
        reported(0.05)
    );
    assert!(
        reported(12.626).starts_with("the device read 12.6 times the bytes requested: "),
        "{}",
        reported(12.626)
    );
    // Before: of 1 MiB in 10 ms, "a cache or compression stood in between": the counters of the
    // device lagged a little.
    let short = CellFacts { steady_s: 0.01, requests: 256, ..read(0.83) };
    let found = gate(&short, GateName::DeviceBytesRead);
    assert_eq!(found.outcome, Outcome::Unverified);
    assert!(found.reason.starts_with("the run is too short to tell: the device read 0.83"), "{found:?}");
    let written = |share: f64| CellFacts { device_written_bytes: Ok((2e9 * share) as u64), ..writing() };
    fires(GateName::DeviceBytesWritten, &written(0.5), &written(0.96), "a cache or compression");
    fires(GateName::DeviceBytesWritten, &written(2.0), &written(1.09), "amplified");
}

/// Before: 20 writes of 4 KiB a second on ext4 were refused: "the device wrote 1.33 times the bytes
/// requested: other programs wrote, or writes were amplified".
#[test]
fn the_journal_of_a_file_system_does_not_count_against_a_light_load() {
    let outcome_of = |written_bytes: u64, share: f64| {
        let device_written_bytes = Ok((written_bytes as f64 * share) as u64);
        outcome(&CellFacts { written_bytes, device_written_bytes, ..writing() }, GateName::DeviceBytesWritten)
    };
    // In 20 s.
    assert_eq!(outcome_of(400 * 4096, 1.33), Outcome::Passed);
    assert_eq!(outcome_of(400 * 4096, 3.0), Outcome::Failed);
    assert_eq!(outcome_of(400 * 4096, 0.9), Outcome::Failed, "a cache is one");
    assert_eq!(outcome_of(400 << 20, 1.33), Outcome::Failed, "that much is no journal");
}

#[test]
fn more_than_the_link_can_carry_did_not_come_from_the_device() {
    let cell = |limit| CellFacts { link_limit_bytes_per_s: Ok(limit), ..good() };
    fires(GateName::LinkLimit, &cell(99e6), &cell(100e6), "cannot have come from the device");
}

#[test]
fn a_thread_without_time_left_is_the_limit_itself() {
    let cell = |share| CellFacts { thread_cpu_share_max: Ok(share), ..good() };
    fires(GateName::ThreadCpu, &cell(0.90), &cell(0.8999), "the tool is the limit");
}

/// Before: for jobs that competed for the processors, the advice was to leave the machine alone.
#[test]
fn threads_that_use_up_all_processors_are_the_limit_though_none_is_busy() {
    let cell = |jobs, processors_share| CellFacts { jobs, processors_share, ..good() };
    let why = "the threads of the run used 95% of all processors: the tool is the limit, not the device; \
               ask for fewer jobs";
    fires(GateName::ThreadCpu, &cell(8, 0.95), &cell(8, 0.89), why);
    let one = gate(&cell(1, 0.95), GateName::ThreadCpu).reason;
    assert!(one.ends_with("not the device"), "{one}");
}

/// Before: beside a busy loop on the same processor p99 was 885 µs against 52–121 µs, and the run
/// was valid.
#[test]
fn a_thread_that_waits_for_a_processor_makes_latencies_longer() {
    let cell = |share| CellFacts { processor_wait_share_max: Ok(share), ..good() };
    fires(
        GateName::ProcessorWait,
        &cell(0.23),
        &cell(0.049),
        "a thread waited 23% of the time for a processor",
    );
    let short = CellFacts { time_s: 0.09, ..cell(0.5) };
    assert_eq!(outcome(&short, GateName::ProcessorWait), Outcome::Unverified, "one turn of another thread");
}

/// Before: "the latencies leave out part of the time", if the observer had woken late.
#[test]
fn looks_that_had_to_wait_for_a_processor_do_not_contradict_latencies() {
    let cell = |share| CellFacts {
        processor_wait_share_max: Ok(share),
        load: open(25_000, 25_000, 0, 0),
        in_flight: sampled(4.0 * 8.0),
        ..good()
    };
    assert_eq!(outcome(&cell(0.01), GateName::LittleSampled), Outcome::Failed);
    let found = gate(&cell(0.3), GateName::LittleSampled);
    assert_eq!(found.outcome, Outcome::Unverified);
    assert!(found.reason.starts_with("the sampling thread had to wait for a processor, too: "), "{found:?}");
    assert_eq!(reasons(&check(&cell(0.3))).len(), 1, "only that a thread waited");
}

/// A hundred requests a second for ten seconds, one at a time.
fn light(latency_mean_s: f64, waited_share: f64) -> CellFacts<'static> {
    CellFacts {
        load: arriving(1000, 0.0, latency_mean_s),
        time_s: 10.0,
        steady_s: 10.0,
        requests: 1000,
        latency_mean_s,
        in_flight: sampled(100.0 * latency_mean_s),
        processor_wait_share_max: Ok(waited_share),
        ..good()
    }
}

/// Before: beside two busy loops on the same processor the mean was 577 µs instead of 150 µs, and
/// the run was valid, because 300 µs for each request were 3% of the time.
#[test]
fn in_a_light_load_waiting_for_a_processor_is_held_against_the_latencies() {
    // Of the 0.3 s that a thread waited, waking it for each request is 0.01 s; 0.29 ÷ 0.577.
    let why = "a thread waited 50% of the time in which requests were in flight for a processor that other";
    fires(GateName::ProcessorWait, &light(577e-6, 0.03), &light(577e-6, 0.0038), why);
    let measured = |cell: &CellFacts<'_>| gate(cell, GateName::ProcessorWait).measured.unwrap();
    assert!((measured(&light(577e-6, 0.03)) - 0.29 / 0.577).abs() < 1e-9);
    // Requests of 20 µs that wait 8 µs each for an idle processor.
    assert_eq!(measured(&light(20e-6, 0.0008)), 0.0008);
    // Four jobs share the requests, so each waited for a quarter of the latencies.
    let four = CellFacts { jobs: 4, ..light(577e-6, 0.03) };
    assert!((measured(&four) - 4.0 * 0.2975 / 0.577).abs() < 1e-9);
    // Where requests are in flight all of the time, the time is what counts, at any depth.
    assert_eq!(measured(&CellFacts { processor_wait_share_max: Ok(0.03), ..good() }), 0.03);
    let deep = CellFacts { load: arriving(1000, 0.0, 2.0), ..light(2.0, 0.03) };
    assert_eq!(measured(&deep), 0.03);
    // What was late to begin is a part of the latency, although it was not in flight.
    let late = CellFacts { load: arriving(1000, 0.0, 0.577), ..light(577e-6, 0.03) };
    assert_eq!(measured(&late), 0.03);
    let nothing = CellFacts { requests: 0, load: arriving(0, 0.0, 0.0), ..light(0.0, 0.03) };
    assert_eq!(measured(&nothing), 0.03);
}

/// Before: "other threads used" the processor, and the machine was to be left to the measurement.
#[test]
fn a_quota_of_processors_is_named_where_threads_had_to_wait_for_it() {
    let cell = |share| {
        let quota_stop = Some(QuotaStop { limit: "cpu.max 20000 100000".to_owned(), stopped_s: 0.35 });
        CellFacts { processor_wait_share_max: Ok(share), quota_stop, ..good() }
    };
    let why = "the control group's processor quota stopped the program for 350 ms (cpu.max 20000 100000), \
               and a thread waited 23% of the time for a processor: latencies hold that time; raise the \
               quota";
    fires(GateName::ProcessorWait, &cell(0.23), &cell(0.049), why);
    let passed = gate(&cell(0.049), GateName::ProcessorWait).reason;
    assert!(!passed.contains("quota"), "{passed}");
}

/// Before: what threads of the run may have waited for each other was blamed on other programs.
#[test]
fn waiting_that_may_have_been_for_the_run_itself_proves_nothing() {
    let cell = |share, processor_wait_unsure| CellFacts {
        processor_wait_share_max: Ok(share),
        processor_wait_unsure,
        ..good()
    };
    let why = "a thread waited up to 28% of the time for a processor, and what kept it is not known: other \
               programs, a quota that cannot be seen from here, or threads of the run itself";
    doubts(GateName::ProcessorWait, &cell(0.28, 0.24), &cell(0.04, 0.04), why);
    assert_eq!(outcome(&cell(0.28, 0.2), GateName::ProcessorWait), Outcome::Failed, "8% are sure");
}

/// Before: a run that SIGSTOP or a freezer stopped for half of its time was valid at half the rate.
#[test]
fn time_in_which_the_program_was_stopped_is_not_the_device() {
    let cell = |stopped_share| CellFacts { stopped_share, ..good() };
    let why = "the program was stopped for 49% of the time (by a signal, a debugger, a freezer of control \
               groups, or the host below): rates and latencies hold that time";
    doubts(GateName::ProcessorWait, &cell(0.49), &cell(0.05), why);
    assert_eq!(gate(&cell(0.49), GateName::ProcessorWait).measured, Some(0.49));
    // What other programs surely did is what it fails for.
    let busy = CellFacts { processor_wait_share_max: Ok(0.23), ..cell(0.49) };
    assert!(gate(&busy, GateName::ProcessorWait).is_failed());
    let unsure = CellFacts { processor_wait_unsure: 0.23, ..busy };
    assert!(gate(&unsure, GateName::ProcessorWait).reason.starts_with("the program was stopped"));
    // Looks are late with everything else.
    let looks = CellFacts { in_flight: sampled(4.0 * 8.0), ..cell(0.49) };
    assert_eq!(outcome(&looks, GateName::LittleSampled), Outcome::Unverified);
}

/// Before: a debugger stopped the one thread of a job again and again, and the run was valid.
#[test]
fn a_run_whose_threads_are_traced_is_never_valid() {
    let traced = CellFacts { tracer: std::num::NonZeroU32::new(4711), ..good() };
    let found = gate(&traced, GateName::ProcessorWait);
    assert_eq!(found.outcome, Outcome::Unverified);
    assert!(found.reason.starts_with("process 4711 traces a thread of the run"), "{}", found.reason);
    // What is known of other programs, or of stops of the whole program, says more.
    let busy = CellFacts { processor_wait_share_max: Ok(0.23), ..traced };
    assert!(gate(&busy, GateName::ProcessorWait).is_failed());
    let stopped = CellFacts { processor_wait_share_max: Ok(0.0), stopped_share: 0.49, ..busy };
    assert!(gate(&stopped, GateName::ProcessorWait).reason.starts_with("the program was stopped"));
}

/// Before: a mean of 44 µs was valid although 32 of them were the timer of the tool.
#[test]
fn latencies_that_are_mostly_a_late_timer_are_not_those_of_the_device() {
    let late = |late_mean_s| {
        let load = arriving(25_000, late_mean_s, 44e-6);
        let (latency_mean_s, in_flight) = (44e-6 - late_mean_s, sampled(1250.0 * (44e-6 - late_mean_s)));
        CellFacts { load, latency_mean_s, in_flight, ..good() }
    };
    let why = "requests were handed over 32.0 µs after they were due (73% of the mean latency): the timers \
               of this machine, not the device; use a closed loop (--depth) for latencies";
    doubts(GateName::Punctual, &late(32e-6), &late(8.7e-6), why);
    assert_eq!(outcome(&late(8.9e-6), GateName::Punctual), Outcome::Unverified);
    assert_eq!(outcome(&good(), GateName::Punctual), Outcome::NotApplicable);
    // Before: a few slow requests made a median valid that was mostly the timer.
    let Load::Open { due, done, held_back, unserved, is_random, late_mean_s, latency_mean_s, .. } =
        arriving(25_000, 8.7e-6, 44e-6)
    else {
        unreachable!("an open loop")
    };
    let latency_median_s = 17.4e-6;
    let load = Load::Open {
        due,
        done,
        held_back,
        unserved,
        is_random,
        late_mean_s,
        latency_mean_s,
        latency_median_s,
    };
    let reason = gate(&CellFacts { load, ..late(8.7e-6) }, GateName::Punctual).reason;
    assert!(reason.contains("(50% of the median latency)"), "{reason}");
    // Where nothing was done there is no latency that could be late.
    let nothing = CellFacts { load: arriving(0, 0.0, 0.0), ..good() };
    assert_eq!(outcome(&nothing, GateName::Punctual), Outcome::Unverified);
}

/// Before: 256 requests, or 0.4 s without a ramp, were valid.
#[test]
fn a_run_that_is_too_short_is_unverified() {
    let timed = |steady_s| CellFacts { steady_s, ..good() };
    doubts(
        GateName::Length,
        &timed(0.4),
        &timed(0.96),
        "too short to be believed: 0.4 s and 25,000 requests",
    );
    let counted = |requests: u64| {
        let latency_mean_s = 8.0 * 20.0 / requests as f64;
        CellFacts { requests, latency_mean_s, ..good() }
    };
    let why = "20.0 s and 94 requests; at least 1 s and 100 requests are needed (--time)";
    doubts(GateName::Length, &counted(94), &counted(95), why);
}

#[test]
fn a_run_at_the_limit_of_its_control_group_says_nothing_of_the_device() {
    let reads = |share| Throttled { allowed: "reads up to 20.0 MB/s".to_owned(), share };
    let cell = |share| CellFacts { throttled: vec![reads(0.1), reads(share), reads(0.2)], ..good() };
    let why = "the control group allows reads up to 20.0 MB/s on this device, and 0.99 of that was reached: the limit \
               was measured, not the device";
    doubts(GateName::Throttle, &cell(0.99), &cell(0.89), why);
    assert_eq!(outcome(&cell(0.90), GateName::Throttle), Outcome::Unverified);
}

/// Before: btrfs writes were measured before its metadata were written, and buffered writes before
/// anything was.
#[test]
fn writes_that_the_file_system_has_yet_to_write_are_not_measured() {
    let cell = |after_s| CellFacts { durable_after_s: Some(after_s), ..writing() };
    fires(GateName::Durable, &cell(2.1), &cell(1.9), "took 2.1 s more to make them durable");
    let unknown = CellFacts { durable_after_s: None, ..writing() };
    doubts(GateName::Durable, &unknown, &cell(0.0), "no sync waited");
}

/// A good cell with this series.
fn with_series(rates: &[f64]) -> CellFacts<'_> {
    CellFacts { series: Series { window_s: 1.0, rates_bytes_per_s: rates }, ..good() }
}

#[test]
fn a_run_that_is_not_steady_fails() {
    // Up and down without a slope: only the spread shows it.
    let waves = |height: f64| -> Vec<f64> {
        [0.0, 1.0, 0.0, 1.0, 0.0].iter().flat_map(|up| [100e6 + height * up; 4]).collect()
    };
    fires(GateName::SteadySpread, &with_series(&waves(23e6)), &with_series(&waves(21e6)), "steady");
    let rising = |rise: f64| -> Vec<f64> { (0..5).map(|i| 100e6 + rise * f64::from(i) / 4.0).collect() };
    fires(GateName::SteadySlope, &with_series(&rising(11e6)), &with_series(&rising(10e6)), "steady");
    let falling: Vec<f64> = rising(11e6).into_iter().rev().collect();
    assert_eq!(outcome(&with_series(&falling), GateName::SteadySlope), Outcome::Failed);
}

#[test]
fn too_few_windows_leave_steadiness_unverified() {
    for rates in [&FLAT[..4], &[], &[0.0; 8], &[f64::NAN; 8]] {
        let cell = with_series(rates);
        assert_eq!(outcome(&cell, GateName::SteadySpread), Outcome::Unverified);
        assert_eq!(outcome(&cell, GateName::SteadySlope), Outcome::Unverified);
    }
    assert_eq!(outcome(&with_series(&FLAT[..5]), GateName::SteadySlope), Outcome::Passed);
}

#[test]
fn windows_that_do_not_divide_by_five_are_shared() {
    let rates = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    let found = steadiness(Series { window_s: 1.0, rates_bytes_per_s: &rates }).unwrap();
    // 1.4 windows each: the first holds all of 1 and 0.4 of 2.
    assert!((found.means_bytes_per_s[0] - 1.8 / 1.4).abs() < 1e-12, "{found:?}");
    assert!((found.means_bytes_per_s.iter().sum::<f64>() - 20.0).abs() < 1e-9);
}

#[test]
fn a_cell_in_which_nothing_happened_is_invalid() {
    let idle = CellFacts { requests: 0, read_bytes: 0, latency_mean_s: f64::NAN, ..good() };
    let gate = gate(&idle, GateName::LittleRequested);
    assert_eq!((gate.outcome, gate.measured), (Outcome::Failed, None));
}

/// A disk with a cache of 8 GB that takes 1 GB/s and drains 0.2 GB/s.
fn cached() -> Device {
    let costs = Costs { bandwidth_max_bytes_per_s: 1e9, ..Costs::new(20e-6, 2e9) };
    let cache = Some(WriteCache { size_bytes: 8e9, drain_bytes_per_s: 0.2e9 });
    Device { cache, ..Device::new(costs, 32) }
}

#[test]
fn a_cache_that_fills_up_is_found_with_its_size_and_both_rates() {
    let run = cached().run(Workload::writes(16, 131_072.0, 40.0));
    let rates = run.window_rates_bytes_per_s();
    let fall = find_fall(Series { window_s: 1.0, rates_bytes_per_s: &rates }).unwrap();
    // It fills at 0.8 GB/s more than it drains: after 10 s, in which 10 GB were written.
    assert!((fall.burst_s - 10.0).abs() <= 1.0, "{fall:?}");
    assert!((fall.burst_bytes / 10e9 - 1.0).abs() < 0.1, "{fall:?}");
    assert!((fall.burst_bytes_per_s / 1e9 - 1.0).abs() < 0.05, "{fall:?}");
    assert!((fall.sustained_bytes_per_s / 0.2e9 - 1.0).abs() < 0.05, "{fall:?}");
    let gate = gate(&facts(&run, &rates), GateName::WriteBurst);
    assert_eq!(gate.outcome, Outcome::Failed);
    assert!(gate.reason.contains("fell from 1,000 MB/s to") && gate.reason.contains("GB"), "{gate:?}");
}

#[test]
fn a_short_run_is_judged_by_the_long_one() {
    let long = cached().run(Workload::writes(16, 131_072.0, 40.0));
    let long = long.window_rates_bytes_per_s();
    let long_run = Some(Series { window_s: 1.0, rates_bytes_per_s: &long });
    let short = cached().run(Workload::writes(16, 131_072.0, 9.0));
    let rates = short.window_rates_bytes_per_s();
    let alone = facts(&short, &rates);
    assert_eq!(outcome(&alone, GateName::WriteBurst), Outcome::Unverified);
    let cell = CellFacts { long_run, ..alone };
    let reported = gate(&cell, GateName::WriteBurst);
    assert!(reported.is_failed() && reported.reason.contains("too short to leave the cache"), "{reported:?}");
    // The same device once its cache is full.
    let full = cached().run(Workload::writes(16, 131_072.0, 40.0));
    let tail = full.window_rates_bytes_per_s().split_off(15);
    let sustained = CellFacts {
        time_s: 20.0,
        written_bytes: (0.2e9 * 20.0) as u64,
        series: Series { window_s: 1.0, rates_bytes_per_s: &tail },
        long_run,
        ..facts(&full, &tail)
    };
    let reported = gate(&sustained, GateName::WriteBurst);
    assert_eq!(reported.outcome, Outcome::Passed, "{reported:?}");
    assert!(reported.reason.contains("this is the sustained rate"));
}

#[test]
fn a_long_run_that_began_with_a_full_cache_still_shows_what_is_sustained() {
    let all = cached().run(Workload::writes(16, 131_072.0, 40.0)).window_rates_bytes_per_s();
    let long_run = Some(Series { window_s: 1.0, rates_bytes_per_s: &all[15..] });
    let short = cached().run(Workload::writes(16, 131_072.0, 9.0));
    let rates = short.window_rates_bytes_per_s();
    let reported = gate(&CellFacts { long_run, ..facts(&short, &rates) }, GateName::WriteBurst);
    assert!(
        reported.is_failed() && reported.reason.contains("as when it met a cache that had been emptied"),
        "{reported:?}"
    );
    // The other way round there is nothing to be said against the run: it is the slower one.
    let long_run = Some(Series { window_s: 1.0, rates_bytes_per_s: &[1e9; 10] });
    let slow =
        CellFacts { time_s: 9.0, written_bytes: 1_800_000_000, long_run, ..facts(&short, &[0.2e9; 9]) };
    assert_eq!(outcome(&slow, GateName::WriteBurst), Outcome::Passed);
    let long_run = Some(Series { window_s: 1.0, rates_bytes_per_s: &[1e9; 9] });
    let unreported = CellFacts { long_run, ..slow };
    assert_eq!(outcome(&unreported, GateName::WriteBurst), Outcome::Unverified);
}

#[test]
fn a_device_without_a_cache_has_no_burst() {
    let device = Device { cache: None, chance: 0.5, ..cached() };
    let run = device.run(Workload::writes(4, 131_072.0, 30.0));
    let rates = run.window_rates_bytes_per_s();
    let gate = gate(&facts(&run, &rates), GateName::WriteBurst);
    assert_eq!((gate.outcome, gate.measured), (Outcome::Passed, None), "{gate:?}");
    assert!(gate.reason.contains("a larger cache would show in a long run only"));
}

#[test]
fn one_bad_moment_a_rise_or_a_small_fall_is_no_burst() {
    let fall = |rates: &[f64]| find_fall(Series { window_s: 1.0, rates_bytes_per_s: rates });
    let mut dip = vec![100.0; 30];
    dip[12] = 10.0;
    assert_eq!(fall(&dip), None);
    let step = |from: f64, to: f64| [[from; 10], [to; 10]].concat();
    assert_eq!(fall(&step(50.0, 100.0)), None, "a rise");
    assert_eq!(fall(&step(100.0, 81.0)), None, "within what counts as the same");
    assert!(fall(&step(100.0, 79.0)).is_some());
    assert_eq!(fall(&[100.0, 100.0, 100.0, 10.0, 10.0, 10.0]), None, "too short");
}

proptest! {
    /// Noise around one rate looks like a fall somewhere; the gate must not believe it.
    #[test]
    fn noise_is_no_fall(noise in prop::collection::vec(0.0_f64..1.0, 10..120)) {
        let rates: Vec<f64> = noise.iter().map(|share| 100.0 + 50.0 * share).collect();
        let series = Series { window_s: 1.0, rates_bytes_per_s: &rates };
        if let Some(fall) = find_fall(series) {
            // Only what chance really made a step of may be called one.
            prop_assert!(fall.sustained_bytes_per_s < 0.8 * fall.burst_bytes_per_s);
            prop_assert!(rates.len() < 20, "{fall:?} in {rates:?}");
        }
    }

    #[test]
    fn a_fall_is_found_where_it_is_in_any_unit(
        (before, after) in (5_usize..40, 5_usize..40),
        noise in prop::collection::vec(0.9_f64..1.1, 80),
        depth in 0.1_f64..0.6,
        unit in prop::sample::select(vec![1.0, 1e-6, 1e9]),
    ) {
        let rates: Vec<f64> = noise.iter().take(before + after).enumerate()
            .map(|(index, noise)| unit * noise * if index < before { 1.0 } else { depth })
            .collect();
        let fall = find_fall(Series { window_s: 0.5, rates_bytes_per_s: &rates }).unwrap();
        prop_assert_eq!(fall.burst_s, before as f64 * 0.5);
        prop_assert!((fall.sustained_bytes_per_s / (unit * depth) - 1.0).abs() <= 0.1);
    }

    #[test]
    fn gates_do_not_depend_on_units_of_time_and_size(scale in 0.001_f64..1000.0, wait in 0.5_f64..2.0) {
        let cell = CellFacts { latency_mean_s: good().latency_mean_s * wait, ..good() };
        let rates: Vec<f64> = FLAT.iter().map(|rate| rate / scale).collect();
        let slow = CellFacts {
            time_s: cell.time_s * scale,
            latency_mean_s: cell.latency_mean_s * scale,
            link_limit_bytes_per_s: Ok(500e6 / scale),
            series: Series { window_s: scale, rates_bytes_per_s: &rates },
            ..cell.clone()
        };
        // How much time is enough is a question of its unit.
        let timeless = |gate: &&Gate| ![GateName::Length, GateName::ProcessorWait].contains(&gate.name);
        let (gates, others) = (check(&cell), check(&slow));
        for (gate, other) in gates.iter().filter(timeless).zip(others.iter().filter(timeless)) {
            prop_assert_eq!(gate.outcome, other.outcome);
            let (a, b) = (gate.measured.unwrap_or(0.0), other.measured.unwrap_or(0.0));
            prop_assert!((a - b).abs() < 1e-9, "{} {}", a, b);
        }
    }
}

#[test]
fn gates_serialise_with_plain_names() {
    let gates = serde_json::to_value(check(&CellFacts { steady_s: 0.5, ..good() })).unwrap();
    let names: Vec<&str> =
        gates.as_array().unwrap().iter().map(|gate| gate["name"].as_str().unwrap()).collect();
    let expected = "little_requested little_sampled rate_reached punctual device_bytes_read \
                    device_bytes_written link_limit thread_cpu processor_wait length steady_spread \
                    steady_slope write_burst throttle durable";
    assert_eq!(names.join(" "), expected);
    assert_eq!(gates[0]["outcome"], "passed");
    assert_eq!(gates[2]["outcome"], "not_applicable");
    assert_eq!(gates[9]["outcome"], "unverified");
    assert_eq!(gates[0]["allowed_min"], 0.97);
    assert!(gates[2]["measured"].is_null());
}
