//! Every gate of `stook bench` that needs a device, on its case: figures that are not what they
//! seem to be.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use stook_testing::privileged::{BTRFS, LoopDevice, Quota, Throttle};

use super::measured::{
    assert_fired, assert_passed, assert_unverified, bench, gate, measured, only_run, report,
};

const MIB: u64 = 1 << 20;

#[test]
fn a_file_in_the_page_cache_is_not_the_device() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let file = device.path().join("file");
    // So small that reading it once, if the cache is dropped meanwhile, is negligible.
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    let cached = measured(&mut bench(&file, &["--buffered", "--time", "1s"]));
    assert_fired(&cached, "device_bytes_read", "a cache or compression stood in between");
    // The same file past the cache.
    let direct = measured(&mut bench(&file, &["--time", "1s"]));
    assert_passed(&direct, &["device_bytes_read"]);
}

#[test]
fn compression_is_not_the_device() {
    for (options, compressed) in [("compress-force=zstd", true), ("compress=no", false)] {
        let device = LoopDevice::mount_with(BTRFS, 512 * MIB, 512, options).unwrap();
        let file = device.path().join("file");
        let text: Vec<u8> = b"the same words again and again, ".repeat(1 << 20);
        fs::write(&file, text.repeat(4)).unwrap();
        stook::engine::drop_system_caches().unwrap();
        // Once through the file, so that nothing is read twice and no cache can help; and slowly,
        // so that the moment at which the counters of the device are read makes no difference.
        let flags =
            ["--rw", "read", "--block-size", "64K", "--size", "128M", "--rate", "500", "--depth", "8"];
        let found = measured(&mut bench(&file, &flags));
        if compressed {
            assert_fired(&found, "device_bytes_read", "a cache or compression stood in between");
        } else {
            assert_passed(&found, &["device_bytes_read"]);
        }
    }
}

#[test]
fn a_rate_that_the_device_does_not_take_is_reported() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let throttle = Throttle::of(&device).unwrap();
    throttle.limit(100).unwrap();
    let flags = ["--file-size", "16M", "--rate", "1000", "--depth", "8", "--time", "2s"];
    let found = measured(&mut throttle.command(&bench(device.path(), &flags)));
    assert_fired(&found, "rate_reached", "the device does not keep up");
    assert!(found["open_loop"]["unserved"].as_u64().unwrap() > 0, "{found}");
    // It is the device: everything came from it, and the tool was idle.
    assert_passed(&found, &["device_bytes_read", "thread_cpu"]);
}

#[test]
fn a_device_that_gets_slower_is_not_steady() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let throttle = Throttle::of(&device).unwrap();
    let flags = ["--file-size", "16M", "--time", "4s"];
    let mut command = throttle.command(&bench(device.path(), &flags));
    // The counters of a loop device continue from its previous use.
    let before = reads(&device);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Writing the file reads next to nothing, so this many reads are those of the cell.
    while reads(&device) < before + 1000 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was slowed down");
        std::thread::sleep(Duration::from_millis(1));
    }
    throttle.limit(20).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = only_run(&serde_json::from_slice(&output.stdout).unwrap());
    assert_fired(&found, "steady_spread", "the storage was not in a steady state");
    assert_passed(&found, &["device_bytes_read"]);
}

#[test]
fn a_limit_that_was_reached_is_reported_and_not_taken_for_the_device() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let throttle = Throttle::of(&device).unwrap();
    throttle.limit(200).unwrap();
    let flags = ["--file-size", "16M", "--depth", "8", "--time", "1.5s"];
    let found = report(&mut throttle.command(&bench(device.path(), &flags)));
    assert_eq!(found["environment"]["throttle"], "reads 200/s in the control group");
    assert_unverified(&only_run(&found), "throttle", "the control group allows reads up to 200 a second");
    // Far from the limit it says nothing.
    throttle.limit(1_000_000).unwrap();
    let found = measured(&mut throttle.command(&bench(device.path(), &flags)));
    assert_passed(&found, &["throttle"]);
}

/// The limits of both directions, in the figures for programs and in the text for people.
#[test]
fn a_limit_of_bytes_that_are_written_is_named_as_the_limit() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let throttle = Throttle::of(&device).unwrap();
    throttle.limit_write_bytes(MIB).unwrap();
    let flags = ["--file-size", "1M", "--rw", "randwrite", "--block-size", "16K", "--depth", "8"];
    let flags = [&flags[..], &["--time", "2s"]].concat();
    let found = report(&mut throttle.command(&bench(device.path(), &flags)));
    assert_eq!(found["environment"]["throttle"], "writes 1.05 MB/s in the control group");
    let run = only_run(&found);
    assert_unverified(&run, "throttle", "the control group allows writes up to 1.05 MB/s");
    assert!(run["direct"].as_bool().unwrap(), "{run}");
    // Reads have no limit.
    let reads = ["--file-size", "1M", "--time", "1s"];
    let found = measured(&mut throttle.command(&bench(device.path(), &reads)));
    assert_eq!(gate(&found, "throttle")["outcome"], "not_applicable", "{found}");
    let mut plain = super::program::stook(["bench"]);
    plain.arg(device.path()).args(&flags).args(["--ramp", "0"]);
    let output = throttle.command(&plain).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Limited: writes 1.05 MB/s in the control group"), "{text}");
}

/// What a search for a rate ends at is the limit of the control group, and is called that.
#[test]
fn the_highest_rate_under_a_limit_is_that_of_the_control_group() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let throttle = Throttle::of(&device).unwrap();
    throttle.limit(200).unwrap();
    let flags = ["--file-size", "16M", "--depth", "16", "--time", "1.5s", "--slo", "p50=20ms"];
    let found =
        report(&mut throttle.command(&bench(device.path(), &[&flags[..], &["--repeats", "1"]].concat())));
    assert_eq!(found["schema"], "stook.bench_slo/1");
    let cell = &found["cells"][0];
    assert_eq!(cell["limits"][0], "control_group", "{cell}");
    assert_ne!(cell["state"], "valid", "{cell}");
}

/// Reads that the device has completed.
fn reads(device: &LoopDevice) -> u64 {
    let stat = fs::read_to_string(device.sys().join("stat")).unwrap();
    stat.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_thread_that_never_rests_is_the_limit_itself() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let file = device.path().join("file");
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    // First among all that want a processor: a thread that waits for one is not busy.
    let cell = bench(&file, &["--buffered", "--time", "2s"]);
    let mut command = Command::new("chrt");
    command.args(["--fifo", "1"]).arg(cell.get_program()).args(cell.get_args());
    let found = measured(&mut command);
    assert_fired(&found, "thread_cpu", "the tool is the limit, not the device");
}

/// A process that wants all of the first processor; it ends when this goes.
struct Busy(Child);

impl Busy {
    fn on_the_first_processor() -> Self {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It ends by a signal, which is no success.
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait().map(|_status| ())) {
            eprintln!("a busy loop did not end: {error}");
        }
    }
}

/// Before: beside a busy loop on the same processor p99 was 885 µs against 52–121 µs, and valid.
#[test]
fn a_processor_that_others_use_is_not_the_device() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let file = device.path().join("file");
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    // From the page cache, so that the thread wants as much of the processor as the loop beside it.
    let cell = bench(&file, &["--buffered", "--time", "1.5s"]);
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(cell.get_program()).args(cell.get_args());
    let _busy = Busy::on_the_first_processor();
    let found = measured(&mut command);
    assert_fired(&found, "processor_wait", "for a processor that other programs used");
}

/// Before: valid, at half the rate: a stopped thread sleeps, and waits for no processor.
#[test]
fn a_program_that_is_stopped_again_and_again_is_not_the_device() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let file = device.path().join("file");
    fs::write(&file, vec![7; 16 << 20]).unwrap();
    let mut command = bench(&file, &["--time", "2s"]);
    // Its output is not read while it runs: what does not fit in a pipe would block it.
    let out = tempfile::NamedTempFile::new().unwrap();
    let mut child = command.stdout(out.reopen().unwrap()).spawn().unwrap();
    let number = Pid::from_child(&child);
    // As `cpulimit` does it.
    while child.try_wait().unwrap().is_none() {
        for signal in [Signal::STOP, Signal::CONT] {
            // It has not been waited for, so the number is still its own.
            kill_process(number, signal).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(child.wait().unwrap().success());
    let found = only_run(&serde_json::from_slice(&fs::read(out.path()).unwrap()).unwrap());
    let gate = gate(&found, "processor_wait");
    assert_ne!(gate["outcome"], "passed", "{gate}");
    assert_ne!(found["state"], "valid", "{found}");
    // On a machine with other work it may fail for that.
    if gate["outcome"] == "unverified" {
        let reason = gate["reason"].as_str().unwrap();
        assert!(reason.starts_with("the program was stopped for "), "{gate}");
    }
}

/// Before: valid. A tracer stopped the one thread of the job for half of the time, while the thread
/// that watches ran on and found nothing late.
#[test]
fn a_run_that_is_traced_is_not_the_device_alone() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let file = device.path().join("file");
    fs::write(&file, vec![7; 16 << 20]).unwrap();
    let cell = bench(&file, &["--time", "1s"]);
    let mut command = Command::new("strace");
    // Reads of the job's thread are not traced, so that this is not about speed.
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=none", "--"]);
    command.arg(cell.get_program()).args(cell.get_args());
    let found = measured(&mut command);
    assert_ne!(found["state"], "valid", "{found}");
    let gate = gate(&found, "processor_wait");
    assert_ne!(gate["outcome"], "passed", "{gate}");
    // On a machine with other work it may fail for that.
    if gate["outcome"] == "unverified" {
        let reason = gate["reason"].as_str().unwrap();
        assert!(reason.contains("traces a thread of the run"), "{gate}");
    }
}

/// Before: "a thread waited … for a processor that other programs used", where there were none.
#[test]
fn a_quota_of_processors_is_reported_as_one() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let file = device.path().join("file");
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    let quota = Quota::of_a_fifth().unwrap();
    // From the page cache, so that the thread wants a whole processor.
    let found = measured(&mut quota.command(&bench(&file, &["--buffered", "--time", "1.5s"])));
    assert_fired(&found, "processor_wait", "the control group's processor quota stopped the program for");
}
