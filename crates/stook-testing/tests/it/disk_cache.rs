//! Processes that share a cache on disk, are killed, may not write, or have no room.
#![expect(clippy::unwrap_used, reason = "a helper that cannot start a process should fail on the spot")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_disk_cache");
/// All sources have 12 MiB.
const PLENTY: u64 = 64 << 20;
const LITTLE: u64 = 3 << 20;

fn reader(directory: &Path, budget: u64, seed: u64, rounds: u64) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg(directory).args([budget, seed, rounds].map(|number| number.to_string()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn reported(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Ended normally, without a wrong byte or an error.
fn whole(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", reported(&output));
    reported(&output)
}

fn number_after(reported: &str, name: &str) -> u64 {
    let rest = reported.split_once(name).unwrap().1.trim_start_matches([':', ' ']);
    rest.split(|sign: char| !sign.is_ascii_digit()).next().unwrap().parse().unwrap()
}

fn disk_bytes(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
}

#[test]
fn processes_that_are_killed_leave_nothing_wrong_behind() {
    for budget in [PLENTY, LITTLE] {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..25 {
            let start = |number| reader(directory.path(), budget, round * 10 + number, 0).spawn().unwrap();
            let children: Vec<Child> = (0..3).map(start).collect();
            for (number, mut child) in (0..).zip(children) {
                std::thread::sleep(Duration::from_millis(7 * ((round * 5 + number * 3) % 11)));
                child.kill().unwrap();
                let output = child.wait_with_output().unwrap();
                assert_eq!(output.status.signal(), Some(9), "{}", reported(&output));
            }
        }
        let reported = whole(reader(directory.path(), budget, 1, 100).spawn().unwrap());
        assert!(number_after(&reported, "from_disk_bytes") > 0, "{reported}");
        assert!(reported.contains("failures: 0"), "{reported}");
        assert!(disk_bytes(directory.path()) <= budget);
    }
}

#[test]
fn processes_side_by_side_share_what_they_fetch_and_keep_the_budget() {
    for budget in [PLENTY, LITTLE] {
        let directory = tempfile::tempdir().unwrap();
        let start = |seed| reader(directory.path(), budget, seed, 100).spawn().unwrap();
        let children: Vec<Child> = (0..3).map(start).collect();
        for reported in children.into_iter().map(whole) {
            assert!(number_after(&reported, "from_disk_bytes") > 0, "{reported}");
            assert!(reported.contains("failures: 0") && reported.contains("damaged_ranges: 0"), "{reported}");
        }
        assert!(disk_bytes(directory.path()) <= budget + 3 * (budget / 32 + (1 << 20)));
    }
}

#[test]
fn a_directory_that_may_only_be_read_is_read() {
    let directory = tempfile::tempdir().unwrap();
    whole(reader(directory.path(), PLENTY, 1, 10).spawn().unwrap());
    for entry in fs::read_dir(directory.path()).unwrap() {
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o444)).unwrap();
    }
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = reader(directory.path(), PLENTY, 2, 10);
    if fs::metadata(directory.path()).unwrap().uid() == 0 {
        // To root everything is permitted.
        let copied = directory.path().with_extension("program");
        // By another process: a descriptor to write it, inherited by a child that another test
        // forks meanwhile, would make it busy (ETXTBSY).
        assert!(Command::new("cp").arg(PROGRAM).arg(&copied).status().unwrap().success());
        command = Command::new(&copied);
        command.arg(directory.path()).args([PLENTY.to_string(), "2".into(), "10".into()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).uid(65_534).gid(65_534);
        let reported = whole(command.spawn().unwrap());
        fs::remove_file(copied).unwrap();
        check_read_only(&reported);
    } else {
        check_read_only(&whole(command.spawn().unwrap()));
    }
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

fn check_read_only(reported: &str) {
    assert!(number_after(reported, "from_disk_bytes") > 0, "{reported}");
    assert!(
        number_after(reported, "failures") > 0 && reported.contains("cannot write in the cache"),
        "{reported}"
    );
    assert_eq!(number_after(reported, "written_bytes"), 0, "{reported}");
}

#[test]
fn without_room_on_the_disk_reads_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut shell = Command::new("bash");
    // Files may have 400 KiB: what is beyond is refused, as by a disk that is full.
    shell.arg("-c").arg("trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\"").arg(PROGRAM);
    shell.arg(directory.path()).args([PLENTY.to_string(), "3".into(), "60".into()]);
    let reported = whole(shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert!(
        number_after(&reported, "failures") > 0 && reported.contains("cannot write in the cache"),
        "{reported}"
    );
    assert!(reported.contains("damaged_ranges: 0"), "{reported}");
    // With room again, what was kept is still right, and the rest is kept too.
    let reported = whole(reader(directory.path(), PLENTY, 4, 60).spawn().unwrap());
    assert!(reported.contains("failures: 0") && reported.contains("damaged_ranges: 0"), "{reported}");
    assert!(number_after(&reported, "written_bytes") > 0, "{reported}");
}
