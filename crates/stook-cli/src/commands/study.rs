//! `stook study NAME`: makes a published measurement again, here.

mod many_small_files;
mod sparse_file;
mod ssd_profile;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;
use stook::report::units;

use crate::context::Context;
use crate::study::sample;

/// Measures again what a published study measured
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    study: Study,
}

#[derive(Debug, clap::Subcommand)]
enum Study {
    /// Loose files against one file and against a pack
    ManySmallFiles(many_small_files::Args),
    /// Block size, depth and mix, and whether the figures add up
    SsdProfile(ssd_profile::Args),
    /// Sparse files in memory, or a trace of reads through the cache
    SparseFile(sparse_file::Args),
}

fn parse_size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|error| crate::exit::chain(&error))
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    units::parse_seconds(text).map_err(|error| crate::exit::chain(&error))
}

fn parse_some_seconds(text: &str) -> Result<f64, String> {
    match parse_seconds(text)? {
        0.0 => Err("nothing takes no time; expected more than 0, like 1ms".to_owned()),
        seconds => Ok(seconds),
    }
}

/// Runs a study.
///
/// # Errors
/// What making, measuring or writing the result meets.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    match args.study {
        Study::ManySmallFiles(args) => many_small_files::run(args, context),
        Study::SsdProfile(args) => ssd_profile::run(&args, context),
        Study::SparseFile(args) => sparse_file::run(&args, context),
    }
}

/// Whoever waited for a measurement must not learn at its end that there is no place for the result.
fn prepare_out(out: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    rustix::fs::access(out, rustix::fs::Access::WRITE_OK)
        .with_context(|| format!("cannot write to {}", out.display()))
}

/// What a study has written.
struct Written {
    json: Vec<u8>,
    paths: [PathBuf; 2],
}

/// Writes study.json and study.html.
fn write(out: &Path, document: &impl Serialize, html: &str) -> anyhow::Result<Written> {
    let mut json = serde_json::to_vec_pretty(document)?;
    json.push(b'\n');
    let paths = ["study.json", "study.html"].map(|name| out.join(name));
    for (path, bytes) in paths.iter().zip([&json[..], html.as_bytes()]) {
        sample::publish(path, bytes)?;
    }
    Ok(Written { json, paths })
}

impl Written {
    fn note_paths(&self, context: &Context) {
        for path in &self.paths {
            context.note(format_args!("Written: {}", path.display()));
        }
    }
}
