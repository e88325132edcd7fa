//! `stook mount SOURCE… MOUNTPOINT`: any tree as a directory, for any program.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use stook::names::escaped;
use stook::ops::contents::{is_object, is_on_disk};
use stook::ops::copy::OpenGiven;
use stook::ops::present::{PresentGiven, Presented};
use stook::report::time::time_of;
use stook::report::units;
use stook::stitch::MergedCache;
use stook::tree::{CaseRule, Failure};
use stook_mount::{Merged, Mode, MountOptions, Mounted, Status, status_of};

use super::stitch::error_of;
use crate::context::Context;
use crate::exit::{FAILURES, UsageError, chain, check_places, code_for};
use crate::fetch::FetchArgs;
use crate::interrupt::{interrupted, stop_with_quit, stop_with_stdin};
use crate::merged::MergedArgs;
use crate::output::{Align, Table, printable};
use crate::progress::Unit;
use crate::{failures, given, packs};

/// Shows a tree, pack or archive to any program, as a directory
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "stook mount [OPTIONS] <SOURCE>... <MOUNTPOINT>",
    after_help = "\
Examples:
  stook mount photos.stook mnt         a pack; `stook umount mnt` ends it
  stook mount x.tar mnt                what is in an archive
  stook mount s3://bucket/x.zip mnt    also of one on a server
  stook mount base.stook changes mnt   several as one, in which the later counts
  stook mount game mnt --with mod      what `stook stitch routes` would write
  stook mount l.toml//set.tar mnt      what is in a file of a layout
  stook mount --status mnt             what it did so far

It is read-only, and shows the state that the source has when it is mounted; only directories on disk, and packs with
--follow, show what they are by now. A file that is damaged, or has changed, is an error for programs that read it (EIO), and a line of the log.
It ends with `stook umount`, and when its process is asked to end."
)]
pub struct Args {
    /// A directory, a pack, an archive, a layout; or several. Then the directory to show it at; of
    /// one file, a file
    #[arg(value_name = "PATH", required = true, num_args = 1..)]
    paths: Vec<PathBuf>,
    /// Show archives with members replaced by what these folders have, as `stook stitch routes`
    #[arg(long, value_name = "FOLDER", num_args = 1.., value_delimiter = None)]
    with: Vec<PathBuf>,
    /// With --with, take names that differ only in case for one
    #[arg(long, requires = "with")]
    ignore_case: bool,
    #[command(flatten)]
    merged: MergedArgs,
    /// Show what others write to a pack, within seconds
    #[arg(long, conflicts_with_all = ["at", "with"])]
    follow: bool,
    /// Stay in the foreground; Ctrl-C ends it
    #[arg(long, short)]
    foreground: bool,
    /// Stay in the foreground, and end when stdin ends: for programs that run this one
    #[arg(long, conflicts_with = "foreground")]
    while_stdin: bool,
    /// Let other users see it, as far as the modes of the files allow
    #[arg(long)]
    allow_other: bool,
    /// Let no program be started from it
    #[arg(long)]
    no_exec: bool,
    /// Threads that answer; requests that wait for long get threads of their own
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = packs::number::<usize>(1..=256))]
    threads: usize,
    /// How many seconds a read from a server may take, tries included
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = packs::number::<u64>(1..=86_400))]
    timeout: u64,
    /// Do not put small files into the page cache before they are asked for
    #[arg(long)]
    no_push: bool,
    /// Answer reads of whole files on disk, too, instead of handing these files to the kernel
    #[arg(long)]
    no_passthrough: bool,
    /// Have user.stook.key, .group and .checksum of members, which no list has
    #[arg(long)]
    member_xattrs: bool,
    /// Append the log to this file: what could not be read, and why
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Show what a mount did so far, instead of mounting
    #[arg(long, conflicts_with_all = ["with", "merged_cache", "follow", "foreground", "while_stdin", "allow_other", "no_push", "no_passthrough", "member_xattrs", "log", "at"])]
    status: bool,
    /// Say how it answers, and what of it cannot be shown
    #[arg(long)]
    verbose: bool,
    /// Say on stdout when it can be used, and go on
    #[arg(long, hide = true)]
    daemon: bool,
    #[command(flatten)]
    view: packs::View,
    #[command(flatten, next_help_heading = "Objects on servers")]
    fetch: FetchArgs,
}

/// How often it is looked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Mounts, or says what a mount did.
///
/// # Errors
/// Returns an error if a source cannot be opened, or the system refuses.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.status {
        let [mountpoint] = args.paths.as_slice() else {
            return Err(
                UsageError::new("--status is of one mountpoint: `stook mount --status MOUNTPOINT`").into()
            );
        };
        return print_status(&status_of(mountpoint)?, &args, context);
    }
    check_places(&args.paths, "mount", "the directory to show it at")?;
    if args.while_stdin {
        stop_with_stdin()?;
    }
    match args.foreground || args.while_stdin || args.daemon {
        true => serve(&args, context),
        false => begin(&args, context),
    }
}

/// Leaves what this process has inherited, such as a locked file, out of those that it starts,
/// which outlive it: all but stdin, stdout and stderr.
fn keep_nothing_open() {
    close_fds::set_fds_cloexec(3, &[]);
}

/// What is said when it can be used.
#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    source: String,
    /// As it is shown.
    mountpoint: String,
    process: u32,
    mode: Mode,
    /// Where copies of changed archives are kept, as it is shown; or nowhere.
    #[serde(default)]
    merged_cache: Option<String>,
}

/// Starts a process that serves it, and waits until it can be used.
fn begin(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    keep_nothing_open();
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut words = crate::fstab::translated(std::env::args_os().collect())?;
    // What comes before the command has no values.
    let after = words.iter().skip(1).position(|word| word == "mount").map_or(1, |command| command + 2);
    words.insert(after, "--daemon".into());
    // Not by the name that it was called by, which may mean other arguments.
    let mut child = Command::new(program)
        .arg0("stook")
        .args(words.into_iter().skip(1))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start a process that serves it")?;
    let relay = child
        .stderr
        .take()
        .map(|mut stderr| std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::stderr())));
    let begun = first_line(&mut child)?;
    match begun {
        Some(begun) => {
            print_begun(&begun, args, context)?;
            Ok(code_for(0))
        }
        None => {
            let ended = child.wait().context("cannot wait for the process that serves it")?;
            if let Some(relay) = relay {
                // What it had to say has been said when it has ended.
                let _said = relay.join();
            }
            let code = ended.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
            Ok(ExitCode::from(code.unwrap_or(FAILURES)))
        }
    }
}

/// What the process says when it can be used; `None` when it ended before.
fn first_line(child: &mut Child) -> anyhow::Result<Option<Begun>> {
    let Some(stdout) = child.stdout.take() else { return Ok(None) };
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        // It may have been interrupted, and hear nothing.
        let _left = said.send(read.map(|_| line));
    });
    loop {
        match heard.recv_timeout(LOOK_EVERY) {
            Ok(line) => return Ok(serde_json::from_str(&line.context("cannot hear from the process")?).ok()),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(None),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) if interrupted() => {
                // It takes away what it has mounted.
                let process = rustix::process::Pid::from_child(child);
                let _gone = rustix::process::kill_process(process, rustix::process::Signal::TERM);
                crate::interrupt::check()?;
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

fn print_begun(begun: &Begun, args: &Args, context: &Context) -> anyhow::Result<()> {
    let mut output = context.output();
    if context.json() {
        packs::print_json_line(&mut output, "mount", begun, context)?;
    } else if !context.quiet() {
        let (source, at) = (printable(begun.source.as_bytes()), &begun.mountpoint);
        let copies = begun.merged_cache.iter().map(|at| format!(", with copies in {at}")).collect::<String>();
        let how = if args.verbose { format!(" ({}{copies})", mode_text(begun.mode)) } else { String::new() };
        output.line(format_args!(
            "{source} is mounted at {at}{how}; `stook umount {at}` ends process {}",
            begun.process
        ))?;
    }
    Ok(output.finish()?)
}

fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Small => "small: it never changes, and its files are short, so none is opened",
        Mode::Large => "large: it never changes, and has long files, which are opened",
        Mode::Live => "live: as it is on disk by now",
    }
}

/// What is to be mounted, what it is called, and the cache that it uses.
type Opened = (Presented, String, Option<Arc<MergedCache>>);

/// Opens the sources: in a tree of its own, so that a relative path is the same after this process
/// has left its directory.
fn open(args: &Args, context: &Context) -> anyhow::Result<Opened> {
    let Some((mountpoint, sources)) = args.paths.split_last() else {
        return Err(UsageError::new("at least one source and a mountpoint are needed").into());
    };
    if args.fetch.is_given() && !sources.iter().any(is_object) {
        args.fetch.refuse(sources.first().map_or(mountpoint, |first| first))?;
    }
    let here = std::env::current_dir().context("cannot find the current directory")?;
    // What looks like an address, and is none, is refused as it was given.
    let absolute = |path: &PathBuf| if is_on_disk(path) { here.join(path) } else { path.clone() };
    let mut how = OpenGiven { into_archives: mountpoint.is_dir(), ..OpenGiven::default() };
    how.contents.pack.at_ns = args.view.at_ns();
    let remote = &mut how.contents.remote;
    remote.deadline = Duration::from_secs(args.timeout);
    remote.stall = remote.stall.min(remote.deadline);
    // What is put together with others, or followed, is looked through at once.
    how.names_first = sources.len() == 1 && args.with.is_empty() && !args.follow;
    let mut opened = Vec::new();
    for source in sources {
        opened.push(given::open(
            &absolute(source),
            &how,
            &args.fetch,
            |error| error_of(error.into()),
            context,
        )?);
    }
    how.into_archives = true;
    let mut routes = Vec::new();
    for folder in &args.with {
        routes.push(given::open(
            &absolute(folder),
            &how,
            &args.fetch,
            |error| error_of(error.into()),
            context,
        )?);
    }
    let shown = |path: &PathBuf| stook::source::shown(&absolute(path).to_string_lossy());
    let source = sources.iter().map(shown).collect::<Vec<_>>().join(" + ");
    let case = if args.ignore_case { CaseRule::Ignored } else { CaseRule::Exact };
    let bar = context.progress("listing", Unit::Items, None);
    let follow = args.follow.then_some(how.contents.pack);
    let target = Some(absolute(mountpoint));
    // What is going to be refused, because the mountpoint is no directory, makes none.
    let merged = if mountpoint.is_dir() { args.merged.cache(&here)? } else { None };
    let given = PresentGiven { sources: opened, routes, case, follow, target, merged: merged.clone() };
    let presented = given.open(&mut |entries| bar.go_on(entries, None)).map_err(error_of)?;
    Ok((presented, source, merged))
}

/// The file of the log, once it is there.
type LogFile = Arc<OnceLock<Mutex<File>>>;

/// Says a line of the log: on stderr, as long as that is read, or in the file.
fn say(line: &str, file: &LogFile) {
    // A full disk ends no mount; the status has the last lines.
    let _full = match file.get() {
        Some(file) => {
            // Who reads stderr has the time of each line.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
            let now = time_of(now.saturating_mul(1_000_000_000));
            writeln!(file.lock().unwrap_or_else(PoisonError::into_inner), "{now} stook mount: {line}")
        }
        None => writeln!(std::io::stderr(), "stook mount: {line}"),
    };
}

/// Opens the file of the log: only for what is mounted, so that what is refused makes none.
fn open_log(args: &Args, to: &LogFile) -> anyhow::Result<()> {
    let Some(path) = &args.log else { return Ok(()) };
    // A pipe that nobody reads is an error, and not waited for.
    let file =
        OpenOptions::new().create(true).append(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    let file = file.map_err(|error| stook::Error::io("open", path, error))?;
    to.get_or_init(|| Mutex::new(file));
    Ok(())
}

/// Mounts, and serves until it is unmounted.
fn serve(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.daemon {
        // A session of its own: what ends the terminal does not end it.
        let _leads_already = rustix::process::setsid();
    }
    stop_with_quit()?;
    let log_file = LogFile::default();
    let ((Presented { tree, root, followed, misplaced }, source, merged), mountpoint) =
        (open(args, context)?, place(args)?);
    let merged_cache = merged.as_ref().map(|cache| printable_path(cache.directory()));
    failures::print(context, &misplaced, args.verbose);
    let lacking = |one: &Failure<stook::Error>| match one.key.is_empty() {
        true => chain(&one.error),
        false => format!("{}: {}", escaped(&one.key), chain(&one.error)),
    };
    let options = MountOptions {
        allow_other: args.allow_other,
        no_exec: args.no_exec,
        threads: args.threads,
        push: !args.no_push,
        pass_through: !args.no_passthrough,
        merged: merged.clone(),
        followed,
        facts: args.member_xattrs,
        missing: misplaced.iter().map(lacking).collect(),
        log: {
            let file = log_file.clone();
            Arc::new(move |line| say(line, &file))
        },
    };
    let bar = context.progress("mounting", Unit::Items, None);
    let mut mounted = Mounted::new(tree, root, &source, &mountpoint, &options)?;
    drop(bar);
    open_log(args, &log_file)?;
    let mut watcher = watch(&mountpoint)?;
    let status = mounted.status();
    if args.verbose {
        // The others were named above.
        let hidden = usize::try_from(status.hidden.entries)?.saturating_sub(misplaced.len());
        for hidden in status.hidden.named.iter().take(hidden) {
            context.note(format_args!("not shown: {hidden}"));
        }
    }
    let mountpoint = printable_path(&mountpoint);
    let begun = Begun { source, mountpoint, process: status.process, mode: status.mode, merged_cache };
    announce(&begun, args, context)?;
    while !mounted.has_ended() && !interrupted() {
        std::thread::sleep(LOOK_EVERY);
    }
    // What should be shown and is not, and what could not be read.
    let mut failures = misplaced.len() as u64;
    if let Err(error) = mounted.unmount() {
        context.failure(&error);
        failures += 1;
        mounted.abort()?;
    }
    failures += mounted.status().log_lines;
    if let Some(cache) = merged {
        // All that was wanted was opened by now. What cannot be removed stays for the next.
        cache.purge().map(drop).unwrap_or_else(|error| say(&chain(&error), &log_file));
    }
    if let Some(watcher) = &mut watcher {
        // It may have been killed.
        let _gone = watcher.write_all(b".");
    }
    Ok(code_for(failures))
}

/// Says that it can be used: to the process that has started this one, or to people and to a
/// service manager.
fn announce(begun: &Begun, args: &Args, context: &Context) -> anyhow::Result<()> {
    if !args.daemon {
        print_begun(begun, args, context)?;
        // Where a service manager waits for it; others are not told.
        return sd_notify::notify(&[sd_notify::NotifyState::Ready])
            .context("cannot tell the service manager");
    }
    let mut line = serde_json::to_string(begun)?;
    line.push('\n');
    let mut stdout = std::io::stdout();
    stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).context("cannot say so")?;
    std::env::set_current_dir("/").context("cannot leave the current directory")
}

fn printable_path(path: &Path) -> String {
    printable(path.as_os_str().as_bytes()).to_string()
}

/// The full path of the mountpoint.
fn place(args: &Args) -> anyhow::Result<PathBuf> {
    let Some(mountpoint) = args.paths.last() else { bail!("no mountpoint is given") };
    Ok(std::path::absolute(mountpoint).map_err(|error| stook::Error::io("find", mountpoint, error))?)
}

/// Starts the process that unmounts what this one leaves when it is killed. It waits for the end of
/// what is returned.
fn watch(mountpoint: &Path) -> anyhow::Result<Option<ChildStdin>> {
    keep_nothing_open();
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut watcher = Command::new(program)
        .arg0("stook")
        .args(["umount", "--after", &std::process::id().to_string(), "--"])
        .arg(mountpoint)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start the process that unmounts when this one is killed")?;
    Ok(watcher.stdin.take())
}

fn print_status(status: &Status, args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let mut output = context.output();
    if context.json() {
        packs::print_json(&mut output, "mount_status", status, context)?;
        return Ok(output.finish().map(|()| code_for(0))?);
    }
    output.line(format_args!("{}: {}", printable(status.source.as_bytes()), mode_text(status.mode)))?;
    let nodes = status
        .nodes
        .map_or_else(String::new, |nodes| format!(", {}", units::count_of(nodes, "entry", "entries")));
    output.line(format_args!("process {}, {} threads{nodes}", status.process, status.threads))?;
    let of = status.requests;
    let mut table = Table::new([("requests", Align::Left), ("", Align::Right)]);
    for (name, count) in [
        ("lookup", of.lookup),
        ("getattr", of.getattr),
        ("readlink", of.readlink),
        ("opendir", of.opendir),
        ("readdir", of.readdir),
        ("open", of.open),
        ("read", of.read),
        ("xattr", of.xattr),
        ("statfs", of.statfs),
        ("lseek", of.lseek),
    ] {
        table.row([name.to_owned(), units::count(count)]);
    }
    output.table(&table)?;
    output.line(format_args!(
        "{} read; {} pushed in {} ({}), of which {} read as well",
        units::bytes_decimal(status.read_bytes),
        units::count_of(status.pushed.files, "file", "files"),
        units::count_of(status.pushed.passes, "pass", "passes"),
        units::bytes_decimal(status.pushed.bytes),
        units::count(status.pushed.read_too),
    ))?;
    if status.passed_through > 0 {
        let opens = units::count_of(status.passed_through, "open", "opens");
        output.line(format_args!("{opens} of whole files on disk, which the kernel reads by itself"))?;
    }
    if let Some(Merged { found, built, stitched }) = status.merged {
        let found = units::count_of(found, "open", "opens");
        output.line(format_args!(
            "{found} of archives with a copy, {} without; {} made",
            units::count(stitched),
            units::count_of(built, "copy", "copies"),
        ))?;
    }
    let shown = if args.verbose { usize::MAX } else { 10 };
    for hidden in status.hidden.named.iter().take(shown) {
        output.line(format_args!("not shown: {}", printable(hidden.as_bytes())))?;
    }
    if status.hidden.entries > status.hidden.named.len().min(shown) as u64 {
        output
            .line(format_args!("{} not shown", units::count_of(status.hidden.entries, "entry", "entries")))?;
    }
    for line in status.log.iter().rev().take(shown).rev() {
        output.line(format_args!("log: {}", printable(line.as_bytes())))?;
    }
    output.finish()?;
    Ok(code_for(0))
}
