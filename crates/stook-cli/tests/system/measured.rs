//! The report of `stook bench` on one cell, and on each of its checks.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::program::stook;

/// `stook bench` of a file or directory, without a ramp, for a program.
pub(crate) fn bench(path: &Path, flags: &[&str]) -> Command {
    let mut command = stook(["bench"]);
    command.arg(path).args(flags).args(["--json", "--ramp", "0"]);
    command
}

/// Its report.
pub(crate) fn report(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The only run of the only cell of a report.
pub(crate) fn only_run(report: &Value) -> Value {
    report["cells"][0]["runs"][0].clone()
}

pub(crate) fn measured(command: &mut Command) -> Value {
    only_run(&report(command))
}

pub(crate) fn gate<'a>(run: &'a Value, name: &str) -> &'a Value {
    run["gates"].as_array().unwrap().iter().find(|gate| gate["name"] == name).unwrap()
}

/// Checks that a gate failed with these words, that they are reported, and that the run counts for
/// nothing.
pub(crate) fn assert_fired(run: &Value, name: &str, words: &str) {
    let gate = gate(run, name);
    assert_eq!(gate["outcome"], "failed", "{gate}");
    assert!(gate["reason"].as_str().unwrap().contains(words), "{gate}");
    assert!(run["reasons"].as_array().unwrap().contains(&gate["reason"]), "{run}");
    assert_eq!(run["state"], "invalid");
}

/// Checks that a gate was unverified, for a reason with these words, and that the run does not
/// count as checked.
pub(crate) fn assert_unverified(run: &Value, name: &str, words: &str) {
    let gate = gate(run, name);
    assert_eq!(gate["outcome"], "unverified", "{gate}");
    assert!(gate["reason"].as_str().unwrap().contains(words), "{gate}");
    // On a machine with other work another gate may fail as well.
    assert_ne!(run["state"], "valid");
    if run["state"] == "unverified" {
        assert!(run["reasons"].as_array().unwrap().contains(&gate["reason"]), "{run}");
    }
}

pub(crate) fn assert_passed(run: &Value, names: &[&str]) {
    for name in names {
        let gate = gate(run, name);
        // Tests beside this one use the disk below its loop device, too.
        let is_shared = gate["reason"].as_str().is_some_and(|reason| reason.starts_with("others moved "));
        assert!(gate["outcome"] == "passed" || (gate["outcome"] == "unverified" && is_shared), "{gate}");
    }
}
