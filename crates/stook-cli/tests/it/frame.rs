//! What holds for the program as a whole, whichever command runs.

use super::{ended, stook};

#[test]
fn the_version_is_reported_on_stdout() {
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
fn a_reader_that_left_shows_in_the_exit_code_alone() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = stook(["--help"]).stdout(writer).output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(141), &b""[..]));
}

#[test]
fn help_of_a_command_is_got_in_either_way() {
    let (code, stdout, stderr) = ended(&mut stook(["help"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout, ended(&mut stook(["--help"])).1);
    let (code, stdout, _) = ended(&mut stook(["help", "pack"]));
    assert!(code == 0 && stdout.contains("Usage: stook pack [OPTIONS]"), "{stdout}");
    let (code, stdout, _) = ended(&mut stook(["help", "study", "ssd-profile"]));
    assert!(code == 0 && stdout.contains("--p99"), "{stdout}");
}

#[test]
fn what_is_nearly_right_is_told_what_it_might_mean() {
    for (args, reported) in [
        (&["pack", "a", "b", "--exlude", "x"][..], "'--exclude'"),
        (&["unpak", "a", "b"], "'unpack'"),
        (&["ls", "a", "--order", "dsk"], "'disk'"),
        (&["compact", "a", "--max-deat", "3%"], "'--max-dead'"),
    ] {
        let (code, _, stderr) = ended(&mut stook(args));
        assert_eq!(code, 2, "{args:?}");
        assert!(stderr.contains("tip: ") && stderr.contains(reported), "{stderr}");
    }
}

/// Before: the lines of `load`, `compact` and `cat` were wider.
#[test]
fn the_list_of_commands_fits_into_80_columns() {
    let (code, stdout, _) = ended(stook(["--help"]).env("COLUMNS", "80"));
    assert_eq!(code, 0);
    for line in stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn help_is_as_wide_as_the_terminal_and_wrapped_once() {
    for command in stook_cli::cli::command().get_subcommands() {
        for columns in [60, 80, 100] {
            let mut help = stook([command.get_name(), "--help"]);
            let (code, stdout, _) = ended(help.env("COLUMNS", columns.to_string()));
            assert_eq!(code, 0);
            for lines in stdout.lines().collect::<Vec<_>>().windows(2) {
                let [line, next] = lines else { continue };
                assert!(line.chars().count() <= columns, "{columns} columns: {line}");
                // Examples and lists are indented; a paragraph continues where the next word did
                // not fit.
                let word = next.split(' ').next().unwrap_or_default().chars().count();
                let is_prose = !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
                let goes_on =
                    is_prose && !next.is_empty() && !next.starts_with(' ') && !line.starts_with("Usage");
                let fits = line.chars().count() + 1 + word <= columns;
                assert!(
                    !goes_on || !fits,
                    "{}, {columns} columns, broken early:\n{line}\n{next}",
                    command.get_name()
                );
            }
        }
    }
}

/// Before: the description of an example was wrapped into a column of one word, or continued at the
/// left edge.
#[test]
fn examples_stand_side_by_side_or_one_below_the_other() {
    for command in stook_cli::cli::command().get_subcommands() {
        for columns in [40, 60, 80, 100] {
            let mut help = stook([command.get_name(), "--help"]);
            let (_, stdout, _) = ended(help.env("COLUMNS", columns.to_string()));
            let Some((_, examples)) = stdout.split_once("Examples:\n") else { continue };
            let examples: Vec<&str> = examples.lines().take_while(|line| !line.is_empty()).collect();
            let is_stacked =
                examples.iter().any(|line| line.starts_with("      ") && !line.starts_with("       "));
            let beside = examples.iter().filter(|line| line.trim_start().contains("   ")).count();
            assert!(
                !is_stacked || beside == 0,
                "{} at {columns} columns:\n{examples:#?}",
                command.get_name()
            );
        }
    }
}

#[test]
fn a_time_that_nothing_can_record_is_refused_as_too_far_away() {
    for time in ["2262-04-12", "@9223372037", "9999-12-31T00:00:00Z", "@99999999999999999999"] {
        let (code, _, stderr) = ended(&mut stook(["ls", "p.stook", "--at", time]));
        assert_eq!(code, 2);
        assert!(stderr.contains("--at") && stderr.contains("too far away"), "{stderr}");
    }
}

#[test]
fn options_of_a_measurement_that_would_be_ignored_are_refused() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("file"), vec![7; 1 << 20]).unwrap();
    for (line, reported) in [
        ("bench file --file-size 1M", "--file-size is for the test file that is made in a directory"),
        ("bench file --keep", "--keep is for the test file that is made in a directory"),
        ("bench . --overwrite-file", "--overwrite-file is for an existing file"),
        ("bench file --arrival poisson", "--rate"),
        ("bench file --overwrite-file", "--overwrite-file is for cells that write"),
    ] {
        let (code, _, stderr) = ended(stook(line.split(' ')).current_dir(place.path()));
        assert_eq!(code, 2, "{line}: {stderr}");
        assert!(stderr.contains(reported), "{line}: {stderr}");
    }
}
