//! `stook serve`: any tree over HTTP, read-only.

use std::ffi::OsString;
use std::fmt;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde::Serialize;
use stook::ops::contents::is_object;
use stook::ops::copy::{self, OpenGiven};
use stook::report::json::Document;
use stook::report::units;
use stook_serve::{Error, Report, ServeOptions, Server, Summary, Token};

use crate::context::Context;
use crate::exit::{UsageError, code_for};
use crate::fetch::FetchArgs;
use crate::interrupt::{Interruptible, interrupted, stop_with_stdin};
use crate::{contents, failures, given, packs};

const EXAMPLES: &str = "\
Examples:
  stook serve photos                     at http://127.0.0.1:8080/
  stook serve photos.stook --at 2026-11-01
  stook serve s3://bucket/train.tar// --port 0 --json
  stook serve project --listen 0.0.0.0 --token-file secret
  curl -O http://127.0.0.1:8080/a/b.jpg
  curl -C - -o sub.tar 'http://127.0.0.1:8080/sub/?as=tar'

A directory is a page with its entries, and with ?as=tar or ?as=zip an archive of all that is below it, which is written
nowhere: ranges and `curl -C -` work. Links are followed within SOURCE, and never out of it. Nothing can be changed.

Others can connect only where --listen says so, and then a token is needed: `curl -H 'Authorization: Bearer TOKEN'`, or
the password that a browser asks for. It is --token, what is in --token-file, or the environment's STOOK_SERVE_TOKEN.
What is sent is not encrypted.

It ends at Ctrl-C or SIGTERM, which is what it waits for: the exit code is 0 then, and 1 when something could not be read
or is missing; each failure is a line on stderr. A download that was on its way is cut off, and counted there.";

/// The port, if none is given.
const PORT: u16 = 8080;
/// Where a token may be, so that no list of processes shows it.
const TOKEN_VARIABLE: &str = "STOOK_SERVE_TOKEN";
/// No token is longer.
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// Failures that wait to be printed. More of them are counted, and not shown.
const SHOWN_AT_ONCE: usize = 1000;

/// What `stook serve` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A directory, a file, a pack, an archive with two slashes (`x.tar//`), also at an address:
    /// s3://bucket/x.tar//
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// Where to listen: an address of this machine, with or without a port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = parse_listen)]
    listen: Listen,
    /// The port, 8080 if none is given; 0 is any that is free
    #[arg(long, value_name = "PORT", value_parser = packs::number::<u16>(0..=65_535))]
    port: Option<u16>,
    /// What clients have to give, as a bearer's token or a password
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<OsString>,
    /// The same in a file, whose last line break does not count
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let everybody read who can connect, without a token
    #[arg(long)]
    public: bool,
    /// Connections at a time; more of them wait
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = packs::number::<u16>(1..=10_000))]
    connections: u16,
    /// End when stdin ends: for programs that run this one
    #[arg(long)]
    while_stdin: bool,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
    #[command(flatten)]
    view: packs::View,
    #[command(flatten)]
    fetch: FetchArgs,
}

/// Without the token.
impl fmt::Debug for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Args")
            .field("source", &self.source)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// An address of this machine, and perhaps a port.
#[derive(Debug, Clone, Copy)]
struct Listen(IpAddr, Option<u16>);

fn parse_listen(text: &str) -> Result<Listen, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Listen(address.ip(), Some(address.port())));
    }
    let of_localhost = text.strip_prefix("localhost").map(|rest| (rest, IpAddr::from(Ipv4Addr::LOCALHOST)));
    match (text.parse::<IpAddr>(), of_localhost) {
        (Ok(ip), _) => Ok(Listen(ip, None)),
        (_, Some(("", ip))) => Ok(Listen(ip, None)),
        (_, Some((rest, ip))) if rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()) => {
            Ok(Listen(ip, rest.strip_prefix(':').and_then(|port| port.parse().ok())))
        }
        _ => Err("expected an address as 127.0.0.1, 0.0.0.0:80 or [::1]:8080".to_owned()),
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let seconds = units::parse_seconds(text).map_err(|error| error.to_string())?;
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| "expected some time, as 90s".to_owned())
}

#[derive(Debug, Serialize)]
struct Ready {
    url: String,
    address: IpAddr,
    port: u16,
    token: bool,
}

/// Serves.
///
/// # Errors
/// Returns an error if the source cannot be opened, the address cannot be listened on, or arguments
/// are invalid.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.while_stdin {
        stop_with_stdin()?;
    }
    let Listen(ip, port) = args.listen;
    if let (Some(_), Some(_)) = (port, args.port) {
        return Err(UsageError::new("--port is the port of --listen, which has one already").into());
    }
    let listen = SocketAddr::new(ip, args.port.or(port).unwrap_or(PORT));
    let (token, token_of) = token(&args)?.unzip();
    let has_token = token.is_some();
    let connections = args.connections.into();
    let options = ServeOptions { listen, token, public: args.public, connections, ..ServeOptions::default() };
    if !is_object(&args.source) {
        args.fetch.refuse(&args.source)?;
    }
    let mut open = OpenGiven::default();
    open.contents.pack.at_ns = args.view.at_ns();
    let given = given::open(&args.source, &open, &args.fetch, open_error_of, context)?;
    let cut_off = given.opened().map_or(0, |opened| contents::report_cut_off(opened, context));
    let source = given.into_source()?;
    let misplaced = source.misplaced();
    failures::print(context, &misplaced, false);
    let lacking = cut_off + misplaced.len() as u64;
    let (sender, said) = mpsc::sync_channel(SHOWN_AT_ONCE);
    // One that finds no room is counted all the same.
    let report: Report = Arc::new(move |failure: String| drop(sender.try_send(failure)));
    let server = Server::bind(source, options, report).map_err(|error| match (error, token_of) {
        (Error::TokenAndPublic, Some(of)) => {
            UsageError::new(format!("--public is for serving without a token, and {of} gives one")).into()
        }
        (error, _) => error_of(error),
    })?;
    print_address(&server, has_token, context)?;
    let print = || said.try_iter().for_each(|failure| context.failure(&std::io::Error::other(failure)));
    let started = Instant::now();
    let summary = server.run(&|| {
        print();
        interrupted() || args.time.is_some_and(|time| started.elapsed() >= time)
    });
    print();
    let Summary { failures, cut_off } = summary.map_err(error_of)?;
    if cut_off > 0 {
        let answers = units::count_of(cut_off, "answer was", "answers were");
        context.note(format_args!("{answers} on the way, and ended early."));
    }
    Ok(code_for(failures + lacking))
}

/// Says where it listens, to people and to programs that wait for it.
fn print_address(server: &Server, token: bool, context: &Context) -> anyhow::Result<()> {
    let (url, of) = (server.url(), server.address());
    let mut output = context.output();
    match context.json() {
        true => {
            let ready = Ready { url, address: of.ip(), port: of.port(), token };
            output.json_line(&Document::new("serve", ready))?;
        }
        false => output.line(url)?,
    }
    output.finish()?;
    context.note("Ctrl-C ends it.");
    Ok(())
}

/// The token that is given, if one is, and by what.
fn token(args: &Args) -> anyhow::Result<Option<(Token, &'static str)>> {
    let from_file = args.token_file.as_deref().map(read_token).transpose()?;
    let (secret, of) = match (&args.token, from_file, std::env::var_os(TOKEN_VARIABLE)) {
        (Some(token), ..) => (token.clone().into_vec(), "--token"),
        (_, Some(token), _) => (token, "--token-file"),
        (.., Some(token)) => (token.into_vec(), TOKEN_VARIABLE),
        _ => return Ok(None),
    };
    if secret.is_empty() {
        return Err(UsageError::new(format!("{of} gives an empty token, which keeps nobody out")).into());
    }
    Ok(Some((Token::new(&secret), of)))
}

fn read_token(path: &Path) -> anyhow::Result<Vec<u8>> {
    let of = |error| stook::Error::io("read", path, error);
    let file = Interruptible::open(path).map_err(of)?;
    let mut token = Vec::new();
    file.take(TOKEN_BYTES_MAX + 1).read_to_end(&mut token).map_err(of)?;
    if token.len() as u64 > TOKEN_BYTES_MAX {
        return Err(
            UsageError::new(format!("--token-file: {} is no token, but longer", path.display())).into()
        );
    }
    if token.last() == Some(&b'\n') {
        token.pop();
    }
    if token.last() == Some(&b'\r') {
        token.pop();
    }
    Ok(token)
}

/// What makes no sense is wrong usage.
fn open_error_of(error: copy::Error) -> anyhow::Error {
    match error {
        copy::Error::Copy(stook::copy::Error::Invalid(what)) => UsageError::new(what).into(),
        error => error.into(),
    }
}

fn error_of(error: Error) -> anyhow::Error {
    match error {
        Error::Open(address) => {
            let what =
                "needs --token, --token-file or STOOK_SERVE_TOKEN, or --public, which lets everybody read";
            UsageError::new(format!("others could read it at {address}: --listen {what}")).into()
        }
        Error::Copy(error) => error.into(),
        Error::Core(error) => error.into(),
        error => error.into(),
    }
}
