//! `stook completions` and `stook man`: what is made from the table of commands for shells and
//! readers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{ended, stook};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// Every command below `command`, itself first, with the names that lead to it.
fn commands(command: &clap::Command, name: &str) -> Vec<(String, clap::Command)> {
    let mut all = vec![(name.to_owned(), command.clone())];
    for below in command.get_subcommands() {
        all.extend(commands(below, &format!("{name} {}", below.get_name())));
    }
    all
}

fn all_commands() -> Vec<(String, clap::Command)> {
    commands(&stook_cli::cli::command(), "stook")
}

fn printed(args: &[&str]) -> String {
    let (code, stdout, stderr) = ended(&mut stook(args));
    assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}");
    stdout
}

#[test]
fn the_script_of_every_shell_knows_every_command_and_long_option() {
    for shell in SHELLS {
        let script = printed(&["completions", shell]);
        for (name, command) in all_commands() {
            assert!(script.contains(command.get_name()), "{shell}: {name}");
            for long in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(script.contains(long), "{shell}: {name} --{long}");
            }
        }
    }
}

/// What bash offers for the last of these words.
fn offered(script: &Path, words: &[&str]) -> Vec<String> {
    let line = "source \"$0\" && COMP_WORDS=(\"$@\") && COMP_CWORD=$(($# - 1)) \
        && _stook stook \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\" \
        && printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", line]).arg(script).args(words);
    let (code, stdout, stderr) = ended(&mut bash);
    assert_eq!((code, stderr.as_str()), (0, ""), "{words:?}");
    stdout.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_their_options() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("stook.bash");
    fs::write(&script, printed(&["completions", "bash"])).unwrap();
    let (code, _, stderr) = ended(Command::new("bash").arg("-n").arg(&script));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(offered(&script, &["stook", "unp"]), ["unpack"]);
    assert_eq!(offered(&script, &["stook", "study", "ssd"]), ["ssd-profile"]);
    assert_eq!(offered(&script, &["stook", "man", "--ou"]), ["--out"]);
    assert_eq!(offered(&script, &["stook", "completions", "po"]), ["powershell"]);
}

#[test]
fn an_unknown_shell_is_refused_with_those_that_are_known() {
    let (code, stdout, stderr) = ended(&mut stook(["completions", "csh"]));
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(SHELLS.iter().all(|shell| stderr.contains(shell)), "{stderr}");
}

#[test]
fn every_command_has_a_page_with_its_arguments_and_options() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("share/man1");
    let summary = printed(&["man", "--out", out.to_str().unwrap()]);
    let mut expected = BTreeSet::new();
    for (name, command) in all_commands() {
        let file = format!("{}.1", name.replace(' ', "-"));
        let page = fs::read_to_string(out.join(&file)).unwrap();
        let head =
            format!(".TH {} 1 \"\" \"stook {}\" Stook", &file[..file.len() - 2], env!("CARGO_PKG_VERSION"));
        assert!(page.contains(&head), "{file}:\n{page}");
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let in_roff = match argument.get_long() {
                Some(long) => format!("\\fB\\-\\-{}\\fR", long.replace('-', "\\-")),
                None => argument.get_value_names().unwrap()[0].replace('-', "\\-"),
            };
            assert!(page.contains(&in_roff), "{file}: {in_roff} is missing in:\n{page}");
        }
        expected.insert(file);
    }
    assert!(summary.contains(&format!("{} pages", expected.len())), "{summary}");
    let listed = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(listed.collect::<BTreeSet<_>>(), expected);
}

#[test]
fn pages_hold_no_request_that_man_does_not_know_and_examples_keep_their_lines() {
    const REQUESTS: [&str; 12] =
        [".ie", ".el", ".TH", ".SH", ".PP", ".TP", ".IP", ".RS", ".RE", ".br", ".nf", ".fi"];
    let place = tempfile::tempdir().unwrap();
    printed(&["man", "--out", place.path().to_str().unwrap()]);
    for entry in fs::read_dir(place.path()).unwrap() {
        let path = entry.unwrap().path();
        let page = fs::read_to_string(&path).unwrap();
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            let request = line.split(' ').next().unwrap();
            assert!(REQUESTS.contains(&request), "{}: {line}", path.display());
        }
        let count = |request: &str| page.lines().filter(|line| *line == request).count();
        assert_eq!(count(".nf"), count(".fi"), "{}", path.display());
    }
    let page = fs::read_to_string(place.path().join("stook-info.1")).unwrap();
    assert!(page.contains(".SH EXAMPLES\n.nf\n  stook info photos.stook\n"), "{page}");
}

#[test]
fn the_page_of_the_program_goes_to_stdout_and_is_the_same_in_every_terminal() {
    let page = printed(&["man"]);
    assert!(page.contains(".SH NAME\nstook \\- "), "{page}");
    for (name, _) in commands(&stook_cli::cli::command(), "stook").into_iter().skip(1) {
        if name.split(' ').count() == 2 {
            assert!(page.contains(&name.replace(' ', "\\-")), "{name} is missing in:\n{page}");
        }
    }
    for columns in ["40", "200"] {
        let (code, stdout, _) = ended(stook(["man"]).env("COLUMNS", columns));
        assert_eq!((code, &stdout), (0, &page), "{columns} columns");
    }
}

#[test]
fn json_has_the_script_the_page_and_the_names_of_the_pages() {
    let json = |args: &[&str]| serde_json::from_str::<serde_json::Value>(&printed(args)).unwrap();
    let script = json(&["completions", "fish", "--json"]);
    assert_eq!((&script["schema"], &script["shell"]), (&"stook.completions/1".into(), &"fish".into()));
    assert_eq!(script["script"], printed(&["completions", "fish"]));
    let page = json(&["man", "--json"]);
    assert_eq!((&page["schema"], &page["pages"]), (&"stook.man/1".into(), &serde_json::json!(["stook.1"])));
    assert_eq!(page["text"], printed(&["man"]));
    let place = tempfile::tempdir().unwrap();
    let written = json(&["man", "--json", "--out", place.path().to_str().unwrap()]);
    assert_eq!(written["text"], serde_json::Value::Null);
    assert_eq!(written["pages"].as_array().unwrap().len(), fs::read_dir(place.path()).unwrap().count());
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    let (code, stdout, stderr) = ended(stook(["man", "--out"]).arg(file.join("man1")));
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("file/man1"), "{stderr}");
}
