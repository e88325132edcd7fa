//! What holds for the program as a whole, whichever command runs.

use std::process::Stdio;

use super::{ended, stook};

#[test]
fn the_version_is_told_on_stdout() {
    let (code, stdout, stderr) = ended(&mut stook(["--version"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout, format!("stook {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_goes_to_stdout_and_tells_flags_and_exit_codes() {
    let (code, stdout, stderr) = ended(&mut stook(["--help"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    for part in [
        "Usage: stook",
        "--json",
        "--quiet",
        "--version",
        "0 done, 1 finished with failures",
        "2 wrong usage",
    ] {
        assert!(stdout.contains(part), "{part} is missing in:\n{stdout}");
    }
}

#[test]
fn wrong_usage_exits_2_and_says_so_on_stderr() {
    for args in [&["--nonsense"][..], &["no-such-command"], &[]] {
        let (code, stdout, stderr) = ended(&mut stook(args));
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(stderr.contains("Usage: stook"), "{args:?}: {stderr}");
    }
}

#[test]
fn a_pipe_has_no_colours_and_neither_has_anything_under_no_color() {
    for (variable, value) in [("TERM", "xterm-256color"), ("NO_COLOR", "1")] {
        let (_, stdout, _) = ended(stook(["--help"]).env(variable, value));
        assert!(!stdout.contains('\x1b'), "{stdout}");
    }
}

#[test]
fn a_reader_that_left_is_told_by_the_exit_code_alone() {
    let mut child = stook(["--help"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(141), &b""[..]));
}
