//! From a request to an answer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_RANGE, LAST_MODIFIED,
    LOCATION, RANGE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request, Response, StatusCode};
use stook::extent::ByteRange;
use stook::names::escaped;
use stook::report::units::{count, count_of};
use stook::source::{SETTLING_MAX, Source};
use stook::tree::Kind;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::access::{self, Refusal};
use crate::archive::{Archive, Layouts, NoArchive};
use crate::body::{Answer, Ending, Failed, Listing, Part, Parts};
use crate::conditions::{Verdict, may_be_parts, verdict};
use crate::error::Error;
use crate::find::{Found, find};
use crate::listing::Lister;
use crate::options::ServeOptions;
use crate::range::{Wanted, resumes, wanted};
use crate::readers::{Readable, Readers, Unread};
use crate::served::{Opened, Served};
use crate::server::Report;
use crate::state::State;
use crate::target::{NoTarget, SentAs, Target, push_encoded};
use crate::types;

/// What is waited until a change of a file would show, at most. File systems that keep whole
/// seconds would need two; files of them have no ETag for so long.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// What is left out of an archive is named so often.
const LEFT_OUT_SHOWN: usize = 10;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) served: Served,
    pub(crate) options: ServeOptions,
    pub(crate) layouts: Layouts,
    pub(crate) readers: Arc<Readers>,
    pub(crate) report: Report,
    pub(crate) failures: AtomicU64,
    /// Directories are laid out one after another: each may take much memory.
    pub(crate) laying_out: Arc<Semaphore>,
    /// Whether the server ends, and what that cuts off.
    pub(crate) ending: Arc<Ending>,
    /// Whether there is no place for another connection: one that is there makes room after its
    /// answer then.
    pub(crate) is_full: AtomicBool,
    /// Parts of answers are separated by a text that nothing that is served has: it is drawn by
    /// lot, and has a number of its own for each answer.
    pub(crate) boundary: [u8; 16],
    pub(crate) boundaries: AtomicU64,
}

impl Shared {
    /// Tells who serves that something failed.
    pub(crate) fn fail(&self, path: &str, what: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        (self.report)(format!("{path}: {what}"));
    }

    fn next_boundary(&self) -> String {
        let number = self.boundaries.fetch_add(1, Ordering::Relaxed);
        let hash = blake3::Hasher::new().update(&self.boundary).update(&number.to_le_bytes()).finalize();
        hash.to_hex().chars().take(32).collect()
    }
}

/// An answer that is found, and of which nothing is read.
struct Plan {
    status: StatusCode,
    headers: HeaderMap,
    body: Answer,
}

impl Plan {
    /// A short text.
    fn text(status: StatusCode, text: &str) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CONTENT_LENGTH, (text.len() + 1).into());
        Self { status, headers, body: Answer::Bytes(Some(format!("{text}\n").into())) }
    }

    fn with(mut self, name: HeaderName, value: &str) -> Self {
        // What no header can hold is left out: all values are made of letters and digits.
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    fn nowhere() -> Self {
        Self::text(StatusCode::NOT_FOUND, "there is nothing with this path")
    }

    /// The answer instead of one that an error came before. What the error was is told to who
    /// serves: it names paths that are nobody else's business.
    fn failed(why: impl Into<Unread>, failed: &Failed) -> Self {
        let why = why.into();
        match why.error.io_kind() {
            Some(io::ErrorKind::NotFound) => return Self::nowhere(),
            Some(io::ErrorKind::PermissionDenied) => {
                return Self::text(StatusCode::FORBIDDEN, "the server may not read it");
            }
            _ => {}
        }
        failed(&why);
        // That it is in what is listed is known to who asks.
        let what = why.member.as_deref().map_or_else(|| "it".to_owned(), |key| escaped(key).to_string());
        match &why.error {
            stook::Error::SourceChanged { .. } => {
                Self::text(StatusCode::CONFLICT, &format!("{what} changed while it was read: ask again"))
            }
            stook::Error::Io { source, .. } if has_no_descriptor(source) => {
                let plan = Self::text(StatusCode::SERVICE_UNAVAILABLE, "too much is open now: ask again");
                plan.with(RETRY_AFTER, "1")
            }
            stook::Error::Damaged { .. } => {
                Self::text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{what} is damaged"))
            }
            _ => Self::text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{what} cannot be read")),
        }
    }
}

/// Whether this process, or this machine, has as many files open as it may.
fn has_no_descriptor(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// What a request asks for.
struct Asked {
    method: Method,
    target: Target,
    headers: HeaderMap,
    /// The path as it was asked for, for messages.
    path: String,
    /// Whether the client is still there.
    is_wanted: Arc<AtomicBool>,
}

/// Notes that nobody waits for an answer any more.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Answers a request.
pub(crate) async fn answer<B>(shared: Arc<Shared>, request: Request<B>) -> Response<Answer> {
    let is_head = request.method() == Method::HEAD;
    let plan = match check(&shared.options, &request) {
        Ok(target) => carry_out(&shared, request, target).await,
        Err(plan) => *plan,
    };
    let Plan { status, headers, mut body } = plan;
    if is_head {
        body = Answer::Bytes(None);
    }
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Asked again each time: it may have changed.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if shared.is_full.load(Ordering::Relaxed) {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// What is asked for, or why it is not answered.
fn check<B>(options: &ServeOptions, request: &Request<B>) -> Result<Target, Box<Plan>> {
    match access::check(options, request.uri(), request.headers()) {
        Ok(()) => {}
        Err(Refusal::NoToken) => {
            let plan =
                Plan::text(StatusCode::UNAUTHORIZED, "a token is needed, as the password or as the bearer's");
            return Err(Box::new(plan.with(WWW_AUTHENTICATE, "Basic realm=\"stook\", charset=\"UTF-8\"")));
        }
        Err(Refusal::OtherHost) => {
            let text = "only this machine may ask, by its address or as localhost";
            return Err(Box::new(Plan::text(StatusCode::FORBIDDEN, text)));
        }
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let plan = Plan::text(StatusCode::METHOD_NOT_ALLOWED, "it is only read here: GET and HEAD");
        return Err(Box::new(plan.with(ALLOW, "GET, HEAD")));
    }
    Target::parse(request.uri().path(), request.uri().query()).map_err(|why| {
        Box::new(match why {
            NoTarget::Nowhere => Plan::nowhere(),
            NoTarget::Malformed => Plan::text(StatusCode::BAD_REQUEST, "this is no path"),
            NoTarget::UnknownForm => {
                Plan::text(StatusCode::BAD_REQUEST, "a directory is sent as tar or as zip: ?as=tar")
            }
        })
    })
}

/// Finds what is asked for on a thread that may wait, and reads the first piece of it.
async fn carry_out<B>(shared: &Arc<Shared>, request: Request<B>, target: Target) -> Plan {
    let (head, _) = request.into_parts();
    let is_wanted = Arc::new(AtomicBool::new(true));
    let _waiting = Waiting(is_wanted.clone());
    let turn = match target.sent_as {
        SentAs::Itself => None,
        _ => shared.laying_out.clone().acquire_owned().await.ok(),
    };
    let path = head.uri.path().to_owned();
    let failed = failed_at(shared, path.clone(), None);
    let asked = Asked { method: head.method, target, headers: head.headers, path, is_wanted };
    let finding = shared.clone();
    let is_get = asked.method == Method::GET;
    let found = spawn_blocking(move || {
        let plan = plan(&finding, &asked);
        drop(turn);
        plan
    });
    let mut plan = match found.await {
        Ok(plan) => plan,
        Err(error) => {
            let error = stook::Error::io("find", "what is served", io::Error::other(error));
            Plan::failed(error, &failed)
        }
    };
    if let (Answer::Parts(parts), true) = (&mut plan.body, is_get)
        && let Err(why) = parts.begin().await
    {
        return Plan::failed(why, &parts.failed);
    }
    plan
}

/// Hears what ends an answer, and notes that an archive is not what it was.
fn failed_at(shared: &Arc<Shared>, path: String, archive: Option<Archive>) -> Failed {
    let shared = shared.clone();
    Arc::new(move |why| {
        if let Some(archive) = &archive {
            archive.outdated();
        }
        let of = why.member.as_deref().map(|key| format!("{}: ", escaped(key))).unwrap_or_default();
        shared.fail(&path, &format!("{of}{}", stook::error::chain(&why.error)));
    })
}

fn plan(shared: &Arc<Shared>, asked: &Asked) -> Plan {
    let failed = failed_at(shared, asked.path.clone(), None);
    let opened = match shared.served.reopen() {
        Ok(opened) => opened,
        Err(error) => return Plan::failed(error, &failed),
    };
    let outside = "this is a link that leads out of what is served";
    match find(&opened, &asked.target.names) {
        Ok(Found::Node(_, Kind::File)) if asked.target.sent_as != SentAs::Itself => {
            Plan::text(StatusCode::BAD_REQUEST, "only a directory is sent as an archive, and this is a file")
        }
        // A file is no directory.
        Ok(Found::Node(_, Kind::File)) if asked.target.has_slash => Plan::nowhere(),
        Ok(Found::Node(id, Kind::File)) => match file(shared, asked, &opened, id) {
            Ok(plan) => plan,
            Err(error) => Plan::failed(error, &failed),
        },
        Ok(found @ (Found::Node(_, Kind::Directory) | Found::Around)) => {
            directory(shared, asked, opened, found)
        }
        Ok(Found::Node(_, kind)) => {
            Plan::text(StatusCode::FORBIDDEN, &format!("this is {}, and has no bytes to send", kind.noun()))
        }
        Ok(Found::Nothing) => Plan::nowhere(),
        Ok(Found::Outside) => Plan::text(StatusCode::NOT_FOUND, outside),
        Ok(Found::Loop) => Plan::text(StatusCode::NOT_FOUND, "this is a link that leads to too many others"),
        Err(error) => Plan::failed(error, &failed),
    }
}

fn file(
    shared: &Arc<Shared>,
    asked: &Asked,
    opened: &Opened,
    id: stook::tree::NodeId,
) -> stook::Result<Plan> {
    let node = opened.tree.node(id)?;
    let source = open_settled(opened, id)?;
    let path = opened.tree.path_of(id);
    let state = State::of(&*source, path.as_os_str().as_encoded_bytes(), node.mtime_ns);
    let kind = types::of(asked.target.names.last().map_or(b"", Vec::as_slice));
    let failed = failed_at(shared, asked.path.clone(), None);
    Ok(body(shared, (asked, &asked.headers), Readable::Source(source), &state, kind, failed))
}

/// Opens a file. Where it was changed a moment ago, and might be again without a trace, that moment
/// is waited for.
fn open_settled(opened: &Opened, id: stook::tree::NodeId) -> stook::Result<Arc<dyn Source>> {
    for _ in 1..SETTLING_MAX {
        let source = opened.tree.open(id)?;
        let wait = source.identity().unsettled_for(now_ns());
        if source.is_proven() || wait.is_zero() || wait > LONGEST_WAIT {
            return Ok(source);
        }
        std::thread::sleep(wait);
    }
    opened.tree.open(id)
}

fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

fn directory(shared: &Arc<Shared>, asked: &Asked, opened: Opened, found: Found) -> Plan {
    let target = &asked.target;
    match (target.sent_as, found) {
        (SentAs::Itself, _) if !target.has_slash => {
            let plan =
                Plan::text(StatusCode::MOVED_PERMANENTLY, "it is a directory, whose path ends in a slash");
            plan.with(LOCATION, &format!("{}/", target.path()))
        }
        (SentAs::Itself, _) => listing(shared, asked, opened, found),
        (form, Found::Node(id, _)) => {
            let goes_on = asked.headers.contains_key(RANGE);
            let is_wanted = || {
                asked.is_wanted.load(Ordering::Relaxed) && !shared.ending.has_begun.load(Ordering::Relaxed)
            };
            match shared.layouts.get((target.names.clone(), form), &opened, id, goes_on, &is_wanted) {
                Ok((archive, is_known)) => whole(shared, asked, &opened, archive, is_known),
                Err(why) => no_archive(shared, asked, why),
            }
        }
        (_, _) => Plan::text(StatusCode::BAD_REQUEST, "a single file is served, which is no archive"),
    }
}

/// A whole directory as an archive. Where it was not known before, what a download would go on with
/// may be of another state than its beginning: all of it is sent then, unless the request says of
/// which state it is.
fn whole(shared: &Arc<Shared>, asked: &Asked, opened: &Opened, archive: Archive, is_known: bool) -> Plan {
    let mut headers = asked.headers.clone();
    let is_resumed = headers.get(RANGE).is_some_and(|field| resumes(field.as_bytes()));
    if is_resumed && !is_known && !headers.contains_key(IF_RANGE) {
        headers.remove(RANGE);
    }
    let form = asked.target.sent_as;
    let kind = if form == SentAs::Zip { "application/zip" } else { "application/x-tar" };
    let source = Readable::Archive(archive.laid.clone());
    let state = archive.state.clone();
    let laid = archive.laid.members.clone();
    let failed = failed_at(shared, asked.path.clone(), Some(archive));
    let plan = body(shared, (asked, &headers), source, &state, kind, failed);
    // Once for a download: not where it goes on, or nothing is sent.
    let of = plan.headers.get(CONTENT_RANGE);
    let begins = plan.status == StatusCode::OK || of.is_some_and(|of| of.as_bytes().starts_with(b"bytes 0-"));
    if asked.method == Method::GET && begins {
        report_left_out(shared, &asked.path, laid.left_out());
    }
    let mut name = asked.target.names.last().unwrap_or(&opened.name).clone();
    name.push(b'.');
    name.extend_from_slice(form.ending().as_bytes());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_. ".contains(&byte);
    let simple: String = name.iter().map(|byte| if plain(*byte) { *byte as char } else { '_' }).collect();
    let mut encoded = String::new();
    push_encoded(&mut encoded, &name);
    plan.with(CONTENT_DISPOSITION, &format!("attachment; filename=\"{simple}\"; filename*=UTF-8''{encoded}"))
}

/// Tells who serves what an archive that is sent has no way to hold.
fn report_left_out(shared: &Shared, path: &str, left_out: &[(Vec<u8>, Kind)]) {
    for (key, kind) in left_out.iter().take(LEFT_OUT_SHOWN) {
        shared.fail(path, &format!("{} is {}, and is not in the archive", escaped(key), kind.noun()));
    }
    if let Some(more) = left_out.len().checked_sub(LEFT_OUT_SHOWN).filter(|more| *more > 0) {
        shared.fail(path, &format!("… and {} more are not in the archive", count(more as u64)));
    }
}

fn no_archive(shared: &Arc<Shared>, asked: &Asked, why: NoArchive) -> Plan {
    let failed = failed_at(shared, asked.path.clone(), None);
    match why {
        NoArchive::Stitch(stook::stitch::Error::Core(error)) => Plan::failed(error, &failed),
        NoArchive::Stitch(error) => {
            shared.fail(&asked.path, &stook::error::chain(&error));
            Plan::text(StatusCode::INTERNAL_SERVER_ERROR, "it has something that such an archive cannot hold")
        }
        NoArchive::Lacking(count, first) => {
            let entries = count_of(count as u64, "entry", "entries");
            shared.fail(&asked.path, &format!("an archive of it would lack {entries}; {first}"));
            let text = "something in it cannot be read, and the archive would not be whole";
            Plan::text(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
        NoArchive::Incomplete => {
            shared.fail(&asked.path, "what is served is not complete, and an archive of it would not be");
            let text = "what is served is not complete, and the archive would not be whole";
            Plan::text(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
        NoArchive::TooMany => {
            Plan::text(StatusCode::INSUFFICIENT_STORAGE, "it has too many files for one archive")
        }
        NoArchive::CalledOff => Plan::text(StatusCode::SERVICE_UNAVAILABLE, "the server ends"),
    }
}

fn listing(shared: &Arc<Shared>, asked: &Asked, opened: Opened, found: Found) -> Plan {
    let failed = failed_at(shared, asked.path.clone(), None);
    let names = asked.target.names.clone();
    let mut lister = Box::new(Lister::new(shared.clone(), opened, names, found, failed.clone()));
    let text = match lister.begin() {
        Ok(text) => text,
        Err(error) => return Plan::failed(error, &failed),
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; \
                  form-action 'self'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    Plan { status: StatusCode::OK, headers, body: Answer::Listing(Listing::Begun(text, lister)) }
}

/// What is sent of a source.
fn body(
    shared: &Arc<Shared>,
    (asked, headers): (&Asked, &HeaderMap),
    source: Readable,
    state: &State,
    kind: &str,
    failed: Failed,
) -> Plan {
    let len = source.source().len();
    let tagged = |plan: Plan| {
        let plan = plan.with(ACCEPT_RANGES, "bytes");
        let plan = match &state.etag {
            Some(etag) => plan.with(ETAG, etag),
            None => plan,
        };
        match state.modified {
            Some(modified) => plan.with(LAST_MODIFIED, &httpdate::fmt_http_date(modified)),
            None => plan,
        }
    };
    let bare = |status| Plan { status, headers: HeaderMap::new(), body: Answer::Bytes(None) };
    match verdict(headers, state) {
        Verdict::Answer => {}
        Verdict::NotModified => return tagged(bare(StatusCode::NOT_MODIFIED)),
        Verdict::Failed => {
            let text = "it is not in the state that the request is about";
            return tagged(Plan::text(StatusCode::PRECONDITION_FAILED, text));
        }
    }
    let may_be_parts = asked.method == Method::GET && may_be_parts(headers, state);
    let field = headers.get(RANGE).filter(|_| may_be_parts).map(HeaderValue::as_bytes);
    let (status, parts, kind, of_one) = match wanted(field, len) {
        Wanted::Nothing => {
            let plan = Plan::text(StatusCode::RANGE_NOT_SATISFIABLE, "it has none of these bytes");
            return tagged(plan.with(CONTENT_RANGE, &format!("bytes */{len}")));
        }
        Wanted::Whole => {
            let all = Some(ByteRange::to(len)).filter(|range| !range.is_empty());
            (StatusCode::OK, all.map(Part::Range).into_iter().collect(), kind.to_owned(), None)
        }
        Wanted::Parts(ranges) => match ranges.as_slice() {
            [range] => (
                StatusCode::PARTIAL_CONTENT,
                vec![Part::Range(*range)],
                kind.to_owned(),
                Some(content_range(*range, len)),
            ),
            ranges => {
                let boundary = shared.next_boundary();
                let parts = multipart(ranges, &boundary, kind, len);
                (
                    StatusCode::PARTIAL_CONTENT,
                    parts,
                    format!("multipart/byteranges; boundary={boundary}"),
                    None,
                )
            }
        },
    };
    let parts = Parts::new(source, (shared.readers.clone(), shared.ending.clone()), parts, failed);
    let sent = parts.len();
    let plan =
        tagged(Plan { body: Answer::Parts(Box::new(parts)), ..bare(status) }).with(CONTENT_TYPE, &kind);
    let plan = plan.with(CONTENT_LENGTH, &sent.to_string());
    match of_one {
        Some(of) => plan.with(CONTENT_RANGE, &of),
        None => plan,
    }
}

/// Several ranges of a source of a length, as one body.
fn multipart(ranges: &[ByteRange], boundary: &str, kind: &str, len: u64) -> Vec<Part> {
    let mut parts = Vec::with_capacity(2 * ranges.len() + 1);
    for range in ranges {
        let of = content_range(*range, len);
        let head = format!("\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: {of}\r\n\r\n");
        parts.extend([Part::Bytes(head.into()), Part::Range(*range)]);
    }
    parts.push(Part::Bytes(format!("\r\n--{boundary}--\r\n").into()));
    parts
}

fn content_range(range: ByteRange, len: u64) -> String {
    format!("bytes {}-{}/{len}", range.start(), range.end().saturating_sub(1))
}

/// An error of opening what is served, before there is a server.
pub(crate) fn check_served(served: &Served) -> Result<(), Error> {
    let opened = served.open()?;
    match opened.tree.kind(opened.root)? {
        Kind::File | Kind::Directory => Ok(()),
        kind => {
            Err(stook::Error::NotARegularFile { path: opened.tree.path_of(opened.root), found: kind.noun() }
                .into())
        }
    }
}
