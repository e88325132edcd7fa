//! `stook bench PATH --save` and `stook bench --profiles`: what is known of the user's devices.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use stook::bench::survey::{DeviceSurvey, Surveyed};
use stook::engine::EngineFactory;
use stook::profile::survey::{Figure, Survey, Validity};
use stook::profile::{Measured, Medium, Profiles, SavedProfile};
use stook::report::json::Document;
use stook::report::units;

use super::{Args, Watcher, as_usage};
use crate::context::Context;
use crate::exit::{self, UsageError};
use crate::interrupt::Interrupted;
use crate::output::{Align, Output, Table};

/// One profile, in JSON.
#[derive(Serialize)]
struct ProfileLine<'a> {
    file: String,
    of: &'a str,
    measured: &'a Measured,
    survey: Option<&'a Survey>,
}

/// All of them.
#[derive(Serialize)]
struct ProfileList<'a> {
    profiles: Vec<ProfileLine<'a>>,
    unusable: Vec<String>,
}

impl<'a> ProfileLine<'a> {
    fn of(saved: &'a SavedProfile) -> Self {
        let SavedProfile { path, of, measured, survey } = saved;
        Self { file: path.display().to_string(), of, measured, survey: survey.as_ref() }
    }
}

/// Measures a device and keeps what was found.
pub(super) fn save(args: &Args, directory: &Path, context: &Context) -> anyhow::Result<ExitCode> {
    if !directory.is_dir() {
        let shown = directory.display();
        return Err(UsageError::new(format!(
            "--save measures the device below a directory, in which test files are made, and {shown} is none"
        ))
        .into());
    }
    let (profiles, medium) = (Profiles::of_user(), Medium::of_path(directory)?);
    profiles.check(&medium)?;
    let plain = DeviceSurvey::default();
    let survey = DeviceSurvey {
        file_bytes: args.run.file_size.unwrap_or(plain.file_bytes),
        cell_s: args.cell.time.unwrap_or(plain.cell_s),
        ramp_s: args.cell.ramp.unwrap_or(plain.ramp_s),
        may_drop_caches: !args.profile.keep_caches,
        ..plain
    };
    let bench = survey.bench();
    bench.check().map_err(as_usage)?;
    if let Some(seconds) = bench.expected_s() {
        let time = units::duration(Duration::from_secs_f64(seconds));
        context.note(format_args!("Cells take {time}, and then small files are read"));
    }
    let engines = stook::engine::Backend::from(args.run.engine);
    let Surveyed { measured, survey, interrupted } = run(&survey, &bench, directory, &engines, context)?;
    if interrupted {
        return Err(Interrupted.into());
    }
    let path = profiles.keep_survey(&medium, measured, Some(survey.clone()))?;
    let of = medium.key().unwrap_or_default().to_owned();
    let saved = SavedProfile { path, of, measured, survey: Some(survey) };
    let mut output = context.output();
    match context.json() {
        true => output.json(&Document::new("profile", ProfileLine::of(&saved)))?,
        false => print(&saved, &mut output)?,
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn run(
    survey: &DeviceSurvey,
    bench: &stook::bench::Bench,
    directory: &Path,
    engines: &dyn EngineFactory,
    context: &Context,
) -> anyhow::Result<Surveyed> {
    let watcher = Watcher::new(bench.file_bytes, bench.expected_s(), context);
    match survey.run(directory, engines, &watcher) {
        Err(stook::bench::Error::Interrupted) => Err(Interrupted.into()),
        surveyed => surveyed.map_err(as_usage),
    }
}

/// Lists what was kept.
pub(super) fn list(context: &Context) -> anyhow::Result<ExitCode> {
    let all = Profiles::of_user().all()?;
    let saved: Vec<&SavedProfile> = all.iter().filter_map(|one| one.as_ref().ok()).collect();
    let unusable: Vec<String> =
        all.iter().filter_map(|one| one.as_ref().err()).map(|error| exit::chain(error)).collect();
    let mut output = context.output();
    if context.json() {
        let profiles = saved.iter().map(|saved| ProfileLine::of(saved)).collect();
        output.json(&Document::new("profiles", ProfileList { profiles, unusable }))?;
    } else {
        if saved.is_empty() {
            output.line("No profile was kept: `stook bench PATH --save` measures one")?;
        } else {
            output.table(&table(&saved))?;
        }
        unusable.iter().for_each(|why| context.note(why));
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn table(saved: &[&SavedProfile]) -> Table {
    let (left, right) = (Align::Left, Align::Right);
    let columns = [
        ("storage", left),
        ("measured", left),
        ("depth", right),
        ("block", right),
        ("readers", right),
        ("in order", right),
        ("short reads/s", right),
        ("opening", right),
    ];
    let mut table = Table::new(columns);
    let or = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    for SavedProfile { of, measured, survey, .. } in saved.iter().copied() {
        table.row([
            of.clone(),
            or(survey.as_ref().map(|survey| survey.taken.time.clone())),
            or(measured.depth.map(|depth| depth.to_string())),
            or(measured.block_bytes.map(units::bytes_binary)),
            or(measured.opens.map(|opens| opens.to_string())),
            or(measured.sequential_bytes_per_s.map(units::rate)),
            or(measured.random_reads_per_s.map(|rate| units::count(rate as u64))),
            or(measured.open_ns.map(units::duration_ns)),
        ]);
    }
    table
}

fn print(saved: &SavedProfile, output: &mut Output) -> anyhow::Result<()> {
    let SavedProfile { path, of, survey, measured } = saved;
    output.line(format_args!("Profile of {of}"))?;
    if let Some(survey) = survey {
        for line in lines(survey, measured) {
            output.line(line)?;
        }
    }
    output.line(format_args!("Kept in {}", path.display()))?;
    Ok(())
}

/// A line for each part, and one for each that is missing.
fn lines(survey: &Survey, measured: &Measured) -> Vec<String> {
    let mut lines = Vec::new();
    let taken = &survey.taken;
    let named = [&taken.model, &taken.device, &taken.file_system];
    let named: Vec<&str> = named.into_iter().flatten().map(String::as_str).collect();
    lines.push(format!("  on: {}; {}; {}", named.join(", "), taken.kernel, taken.time));
    if let Some(doubt) = &taken.doubt {
        lines.push(format!("  in doubt: {doubt}"));
    }
    if let Some(line) = &survey.block {
        let fixed = of_figure(line.fixed_s, time);
        let carried = of_figure(line.bandwidth_bytes_per_s, units::rate);
        lines.push(format!("  one read: {fixed} + bytes ÷ {carried}"));
    }
    if let Some(curve) = &survey.depth {
        let or = |depth: Option<u64>| depth.map_or_else(|| "none".to_owned(), |depth| depth.to_string());
        lines.push(format!(
            "  depth: {} for latency, {} for throughput, {} for 99% within {}; {} short reads/s at most",
            curve.latency,
            or(curve.balanced),
            or(curve.service_level),
            time(curve.p99_target_s),
            of_figure(curve.rate_max_per_s, |rate| units::count(rate as u64)),
        ));
    }
    if let (Some(block), Some(most)) = (measured.block_bytes, measured.sequential_bytes_per_s) {
        let block = units::bytes_binary(block);
        lines.push(format!("  in order: {} from reads of {block} on", units::rate(most)));
    }
    if let Some(mix) = &survey.mix {
        let interference = units::percent(mix.interference.abs());
        let what = if mix.interference < 0.0 { "less" } else { "more" };
        lines.push(format!("  reads and writes at once: {interference} {what} than each alone predicts"));
    }
    if let Some(files) = &survey.small_files {
        let open = files.open_s.map_or_else(|| "-".into(), |open| of_figure(open, time));
        let rates = files
            .readers
            .iter()
            .map(|point| format!("{} by {}", units::count(point.files_per_s.value as u64), point.readers));
        lines.push(format!("  opening a cold file: {open}; listing: {} an entry", time(files.list_s.value)));
        lines.push(format!("  small files/s: {}", rates.collect::<Vec<_>>().join(", ")));
    }
    lines.extend(survey.notes.iter().map(|note| format!("  not measured: {note}")));
    lines
}

/// A figure with its interval, and whether it is in doubt.
fn of_figure(figure: Figure, shown: impl Fn(f64) -> String) -> String {
    let interval = match (figure.low, figure.high) {
        (Some(low), Some(high)) => format!(" ({} to {})", shown(low.max(0.0)), shown(high)),
        _ => String::new(),
    };
    let mark = match figure.state {
        Validity::Valid => "",
        Validity::Unverified => " ?",
        Validity::Invalid => " ✗",
    };
    format!("{}{interval}{mark}", shown(figure.value))
}

fn time(seconds: f64) -> String {
    units::duration_ns((seconds * 1e9).max(0.0) as u64)
}
