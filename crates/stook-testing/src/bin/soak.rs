//! The soak tests of packs and copies: see `stook_testing::soak`.
//!
//! `soak DIRECTORY [--kills N] [--seconds N] [--readers N] [--seed N]`, and
//! `soak copies DIRECTORY STOOK [--kills N] [--seed N]`; DIRECTORY must be empty.
#![expect(clippy::expect_used, clippy::panic, reason = "a wrong argument or a broken promise ends the test")]

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stook_testing::soak::{Copies, Siege, read, run_copies, run_soak, write};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match texts.as_slice() {
        ["write", directory, seed, first, count] => {
            let [seed, first, count] = [seed, first, count].map(|text| number(text));
            write(Path::new(directory), seed, first, count, &mut io::stdout()).expect("a writer writes");
        }
        ["read", directory, stop_in, seed] => {
            println!("{}", read(Path::new(directory), Path::new(stop_in), number(seed)));
        }
        ["copies", directory, program, options @ ..] => kill_copies(directory, program, options),
        [directory, options @ ..] => supervise(directory, options),
        [] => panic!("soak DIRECTORY [--kills N] [--seconds N] [--readers N] [--seed N]"),
    }
}

fn kill_copies(directory: &str, program: &str, options: &[&str]) {
    let mut copies = Copies {
        program: PathBuf::from(program),
        directory: PathBuf::from(directory),
        seed: 1,
        kills: 200,
        files: 4_000,
    };
    for option in options.chunks(2) {
        match option {
            ["--kills", value] => copies.kills = number(value),
            ["--seed", value] => copies.seed = number(value),
            other => panic!("{other:?} is no option"),
        }
    }
    let started = Instant::now();
    let completed = run_copies(&copies);
    println!(
        "{{\"kills\": {}, \"rounds\": {}, \"row_max\": {}, \"named\": {}, \"seed\": {}, \"seconds\": {:.1}}}",
        completed.kills,
        completed.rounds,
        completed.row_max,
        completed.named,
        copies.seed,
        started.elapsed().as_secs_f64()
    );
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn supervise(directory: &str, options: &[&str]) {
    let mut siege = Siege {
        program: std::env::current_exe().expect("this program has a path"),
        directory: PathBuf::from(directory),
        seed: 1,
        kills: 20,
        time: Duration::ZERO,
        readers: 2,
    };
    for option in options.chunks(2) {
        match option {
            ["--kills", value] => siege.kills = number(value),
            ["--seconds", value] => siege.time = Duration::from_secs(number(value)),
            ["--readers", value] => siege.readers = number(value),
            ["--seed", value] => siege.seed = number(value),
            other => panic!("{other:?} is no option"),
        }
    }
    let started = Instant::now();
    let survived = run_soak(&siege);
    println!(
        "{{\"kills\": {}, \"actions\": {}, \"records\": {}, \"states\": {}, \"seed\": {}, \"seconds\": {:.1}}}",
        survived.kills,
        survived.actions,
        survived.records,
        survived.states,
        siege.seed,
        started.elapsed().as_secs_f64()
    );
}
