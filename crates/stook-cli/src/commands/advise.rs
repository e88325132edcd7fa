//! `stook advise`: what is slow about trees and archives, why, and what to run.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use stook::ops::advise::{AdviceReport, AdviseError, AdviseOptions, advise, lines, page};
use stook::report::json::Document;
use stook::report::units;

use crate::context::Context;
use crate::exit::{self, UsageError};
use crate::interrupt::{self, Interrupted};
use crate::progress::Unit;

const EXAMPLES: &str = "\
A tree is listed once. Then some of its files are read cold, by one reader and
by several, and packed into a small pack beside the tree, which is loaded and
removed. As root, for which the caches of the system are emptied several times;
without root what is read may be in memory: that is said, and nothing is
predicted. What the device gives is measured, too; `stook bench PATH --save`
keeps more of that.

Examples:
  stook advise ~/photos
  sudo stook advise /data/train --confirm      one measured pair beside the prediction
  stook advise train.tar.gz                    whether an index, a pack or nothing helps
  stook advise /data/train --html advice.html
  stook advise /data/train --json > advice.json";

/// What `stook advise` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Trees, files or archives
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Measure files and a pack of them once more, beside what was predicted
    #[arg(long)]
    confirm: bool,
    /// Where a pack of a sample is made and removed, on the same file system [default: beside the
    /// tree]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Bytes of files in that pack, at most; 0 for no pack
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = parse_size)]
    sample: u64,
    /// How often everything is measured, in rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Write the advice into a page, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Leave the caches of the system alone: then nothing is cold, and nothing is predicted
    #[arg(long)]
    keep_caches: bool,
}

fn parse_size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|error| exit::chain(&error))
}

/// All advice, in JSON.
#[derive(Serialize)]
struct All {
    advice: Vec<AdviceReport>,
}

/// Runs it.
///
/// # Errors
/// Returns an error if nothing can be said of any path. Where something can be of others, failures
/// are listed.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let options = AdviseOptions {
        work: args.work,
        sample_bytes: args.sample,
        rounds: args.rounds as usize,
        keep_caches: args.keep_caches,
        confirm: args.confirm,
    };
    if let Some(work) = options.work.as_deref().filter(|work| !work.is_dir()) {
        let shown = work.display();
        return Err(UsageError::new(format!("--work wants a directory, and {shown} is none")).into());
    }
    let mut advice = Vec::new();
    let mut failures = 0;
    for path in &args.paths {
        let progress = context.progress("looking at files", Unit::Bytes, None);
        let found = advise(path, &options, &interrupt::interrupted);
        drop(progress);
        match found {
            Ok(found) => advice.push(found),
            Err(AdviseError::Interrupted) => return Err(Interrupted.into()),
            Err(error) if args.paths.len() == 1 => return Err(error.into()),
            Err(error) => {
                context.failure(&error);
                failures += 1;
            }
        }
    }
    if let Some(path) = args.html.as_deref().filter(|_| !advice.is_empty()) {
        stook_study::sample::publish(path, page(&advice)?.render().as_bytes())?;
    }
    let mut output = context.output();
    if context.json() {
        output.json(&Document::new("advise", All { advice }))?;
    } else {
        for line in advice.iter().flat_map(lines) {
            output.line(line)?;
        }
    }
    output.finish()?;
    Ok(exit::code_for(failures))
}
