//! [`Mounted`]: a tree that is mounted, from beginning to end.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, Notifier, Session, SessionACL};
use stook::pack::tree::Followed;
use stook::stitch::MergedCache;
use stook::tree::{Kind, NodeId, Tree};

use crate::attach::{Attach, DEVICE};
use crate::attributes::Numbers;
use crate::error::{Error, Result};
use crate::filesystem::Served;
use crate::follow;
use crate::log::{Log, Say};
use crate::mountpoint::{self, Entry, missing_helper};
use crate::opened::Opened;
use crate::push::{self, Pusher, SMALL_MAX, Wake};
use crate::shared::{Shared, Stalled};
use crate::snapshots::Snapshots;
use crate::status::{Counters, Mode, Status};
use crate::survey::Survey;
use crate::waiting::Waiting;
use crate::workers::Workers;

/// How long the kernel keeps what never changes: as long as it likes.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long it keeps what may change.
const SHORT: Duration = Duration::from_secs(1);

/// How far the kernel reads ahead in a long file: several of its longest reads are under way then.
/// By itself it is 128 KiB, of which each request has a part.
const READ_AHEAD_BYTES: u32 = 4 << 20;

/// How long threads take to end that wait for nothing.
const ENDING_MAX: Duration = Duration::from_secs(1);

/// How something is mounted.
#[derive(Clone)]
pub struct MountOptions {
    /// Other users may look into it, as far as the modes of its files allow.
    pub allow_other: bool,
    /// No program can be started from it.
    pub no_exec: bool,
    /// Threads that answer, at least 1. Requests that wait for long get threads of their own.
    pub threads: usize,
    /// Whether small files are put into the page cache before they are asked for.
    pub push: bool,
    /// Whether the kernel may read whole files on disk by itself, where it is able to: as fast as
    /// without the mount, and with what is in them by then.
    pub pass_through: bool,
    /// The cache with copies that the tree uses: its counters are in the status, and what is wrong
    /// with it is in the log.
    pub merged: Option<Arc<MergedCache>>,
    /// The tree, if it is that of a pack that is followed: what is written to the pack is shown
    /// within seconds.
    pub followed: Option<Arc<Followed>>,
    /// Whether the [facts](stook::tree::Fact) of members are extended attributes that can be asked
    /// for by name, also where nothing else has any. The kernel asks for attributes of all that
    /// `ls -l` lists then, which it need not otherwise.
    pub facts: bool,
    /// What should be in the tree and is not, and why: listed with what cannot be shown.
    pub missing: Vec<String>,
    /// Takes the lines of the log: what could not be read, and why.
    pub log: Say,
}

impl Default for MountOptions {
    /// For one user, with eight threads, pushing, without a log.
    fn default() -> Self {
        Self {
            allow_other: false,
            no_exec: false,
            threads: 8,
            push: true,
            pass_through: true,
            merged: None,
            followed: None,
            facts: false,
            missing: Vec::new(),
            log: Arc::new(|_| {}),
        }
    }
}

impl fmt::Debug for MountOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            allow_other,
            no_exec,
            threads,
            push,
            pass_through,
            merged,
            followed,
            facts,
            missing,
            log: _,
        } = self;
        f.debug_struct("MountOptions")
            .field("allow_other", allow_other)
            .field("no_exec", no_exec)
            .field("threads", threads)
            .field("push", push)
            .field("pass_through", pass_through)
            .field("merged", merged)
            .field("followed", followed)
            .field("facts", facts)
            .field("missing", missing)
            .finish_non_exhaustive()
    }
}

/// The threads beside those that answer, and what ends the one that follows when it is dropped.
type Beside = (Option<Sender<()>>, Vec<JoinHandle<()>>);

/// Something that is mounted. It is unmounted when this is dropped, even if it is in use.
#[derive(Debug)]
pub struct Mounted {
    shared: Arc<Shared>,
    mountpoint: PathBuf,
    entry: Option<Entry>,
    session: Option<BackgroundSession>,
    /// Those that push, read what the tree has put off, follow, and give up requests of programs
    /// that are killed.
    threads: Vec<JoinHandle<()>>,
    /// Ends the one that follows, when it is dropped.
    following: Option<Sender<()>>,
}

impl Mounted {
    /// Mounts a directory of a tree on a directory, or a file of it on a file. `source` is what
    /// it is called, in the list of the system and in messages. It can be used when this returns.
    ///
    /// # Errors
    /// When the mountpoint is of another kind, or one of Stook's already; I/O errors of the tree;
    /// errors of the system.
    pub fn new(
        tree: Arc<dyn Tree>,
        root: NodeId,
        source: &str,
        mountpoint: &Path,
        options: &MountOptions,
    ) -> Result<Self> {
        let root_node = tree.node(root)?;
        let kind = root_node.kind;
        let unfound = |source| Error::Io { operation: "mount on", path: mountpoint.to_path_buf(), source };
        let mountpoint = &mountpoint::resolved(mountpoint).map_err(unfound)?;
        check(mountpoint, kind)?;
        let is_followed = options.followed.is_some();
        let survey = (tree.is_fixed() || is_followed).then(|| Survey::of(&*tree, root)).transpose()?;
        let (pusher, woken) = Pusher::new();
        let mode = match &survey {
            None => Mode::Live,
            Some(survey) if survey.longest <= SMALL_MAX => Mode::Small,
            Some(_) => Mode::Large,
        };
        let is_outline = survey.as_ref().is_some_and(|survey| survey.is_outline);
        let has_xattrs = match !tree.is_fixed() || kind != Kind::Directory {
            true => OnceLock::from(true),
            false if is_outline => OnceLock::new(),
            false => OnceLock::from(tree.has_xattrs()),
        };
        let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
        let shared = Arc::new(Shared {
            numbers: Numbers { root },
            root_node,
            source: source.to_owned(),
            mode,
            kept: if survey.is_some() { FOREVER } else { SHORT },
            pusher: (options.push && survey.is_some()).then_some(pusher),
            survey: Mutex::new(survey.map(Arc::new)),
            state: AtomicU64::new(0),
            merged: options.merged.clone(),
            followed: options.followed.clone(),
            missing: options.missing.clone(),
            may_pass_through: options.pass_through,
            passthrough: AtomicBool::new(false),
            owner: (user.as_raw(), group.as_raw()),
            threads: options.threads.max(1),
            counters: Counters::default(),
            log: Log::new(options.log.clone()),
            opened: Opened::default(),
            snapshots: Snapshots::default(),
            facts: options.facts,
            is_ending: AtomicBool::new(false),
            has_xattrs,
            workers: Workers::new(options.threads).map_err(|error| refused(mountpoint, error))?,
            waiting: Waiting::default(),
            stalled: Stalled::default(),
            tree,
        });
        Self::begin(shared, kind, mountpoint, (options, woken)).map_err(|error| refused(mountpoint, error))
    }

    /// Mounts it, and starts the threads that serve it.
    fn begin(
        shared: Arc<Shared>,
        kind: Kind,
        mountpoint: &Path,
        (options, woken): (&MountOptions, Receiver<Wake>),
    ) -> io::Result<Self> {
        let MountOptions { allow_other, no_exec, .. } = *options;
        let device = Attach { mountpoint, source: &shared.source, kind, allow_other, no_exec }.mount()?;
        // What fails from here on leaves no mount.
        let mut attached = Attached(Some(mountpoint));
        let acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
        let session = Session::from_fd(Served(shared.clone()), device, acl, config(options))?;
        let notifier = session.notifier();
        let session = session.spawn()?;
        let (following, threads) = Self::start(&shared, &notifier, options, woken)?;
        attached.0 = None;
        // Somebody may have unmounted it already.
        let entry = mountpoint::entry_at(mountpoint)?;
        entry.iter().for_each(|entry| entry.read_ahead(READ_AHEAD_BYTES));
        let mountpoint = mountpoint.to_path_buf();
        Ok(Self { shared, mountpoint, entry, session: Some(session), threads, following })
    }

    /// Starts the threads beside those that answer.
    fn start(
        shared: &Arc<Shared>,
        notifier: &Notifier,
        options: &MountOptions,
        woken: Receiver<Wake>,
    ) -> io::Result<Beside> {
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (pushing, pushes) = (shared.clone(), notifier.clone());
        let mut threads = vec![named("stook-push").spawn(move || push::run(&pushing, &woken, &pushes))?];
        let completing = shared.clone();
        threads.push(named("stook-complete").spawn(move || completing.complete())?);
        let watching = shared.clone();
        threads.push(named("stook-watch").spawn(move || watching.waiting.watch())?);
        let Some(followed) = options.followed.clone() else { return Ok((None, threads)) };
        let (shared, notifier, (stop, stopped)) = (shared.clone(), notifier.clone(), channel());
        let follow = move || follow::run(&shared, &followed, &stopped, &notifier);
        threads.push(named("stook-follow").spawn(follow)?);
        Ok((Some(stop), threads))
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// What it did so far.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Whether it was unmounted, by whatever program.
    pub fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Unmounts it, and waits for its threads.
    ///
    /// # Errors
    /// [`Error::Busy`], and it stays mounted; errors of the system.
    pub fn unmount(&mut self) -> Result<()> {
        let entry = self.entry.as_ref().filter(|_| !self.has_ended());
        if entry.map(Entry::unmount).transpose()? == Some(false) {
            // Another program has just unmounted it, or taken it off its path while it is in use.
            if !ends(|| self.has_ended()) {
                return Err(Error::Busy { path: self.mountpoint.clone() });
            }
        }
        self.end()
    }

    /// Takes it away even if it is in use: programs that have files of it open get errors.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn abort(&mut self) -> Result<()> {
        if self.has_ended() {
            return self.end();
        }
        // While requests are answered it can end: later it would wait for one that never is.
        self.stop_threads();
        let unmounted = self.entry.as_ref().map_or(Ok(()), Entry::abort);
        if unmounted.is_ok() {
            // Its threads end when the last program has closed what it has open.
            self.session = None;
        }
        unmounted
    }

    /// Ends the threads beside those that answer. One that waits for a server ends, and does no
    /// more, when that has answered.
    fn stop_threads(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        if let Some(pusher) = self.shared.pusher.as_ref().filter(|_| !self.threads.is_empty()) {
            pusher.stop();
        }
        self.shared.waiting.stop();
        self.following = None;
        for thread in self.threads.drain(..) {
            if ends(|| thread.is_finished()) && thread.join().is_err() {
                self.shared.log.say("a thread beside those that answer has panicked");
            }
        }
    }

    fn end(&mut self) -> Result<()> {
        let ended = match self.session.take() {
            // A request that still waits has nobody to answer any more.
            Some(session) if !ends(|| session.guard.is_finished()) => Ok(()),
            // Its threads may have been told so while they waited.
            Some(session) => match session.join() {
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
                ended => ended,
            },
            None => Ok(()),
        };
        self.stop_threads();
        ended.map_err(|source| Error::Io { operation: "serve", path: self.mountpoint.clone(), source })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.session.is_none() || self.unmount().is_ok() {
            return;
        }
        if let Err(error) = self.abort() {
            self.shared.log.say(&stook::error::chain(&error));
        }
    }
}

/// Waits a short time for something to end, and says whether it did.
fn ends(has_ended: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !has_ended() {
        if begun.elapsed() > ENDING_MAX {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// What was mounted, and nobody serves yet: taken away when this is dropped.
struct Attached<'a>(Option<&'a Path>);

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        if let Some(mountpoint) = self.0 {
            // The error that led here is the one that is told.
            let _left = mountpoint::unmount(mountpoint, true);
        }
    }
}

/// Refuses mountpoints on which this kind cannot be mounted, and those that are taken.
fn check(mountpoint: &Path, kind: Kind) -> Result<()> {
    let invalid = |what: String| Error::Mountpoint { path: mountpoint.to_path_buf(), what };
    if mountpoint::is_dead(mountpoint) {
        let what = "what was mounted there has ended: `stook umount` it first";
        return Err(invalid(what.to_owned()));
    }
    let failed = |source| Error::Io { operation: "mount on", path: mountpoint.to_path_buf(), source };
    let found = std::fs::metadata(mountpoint).map_err(failed)?;
    let is_fit = match kind {
        Kind::Directory => found.is_dir(),
        Kind::File => found.is_file(),
        kind => return Err(invalid(format!("{} cannot be mounted", kind.noun()))),
    };
    if !is_fit {
        let is = if found.is_dir() { "a directory" } else { "no directory" };
        let hint = match kind {
            Kind::File => {
                ". One file is mounted on a file; of an archive in an archive, mount the outer one first"
            }
            _ => "",
        };
        return Err(invalid(format!("it is {is}, and what is to be mounted is {}{hint}", kind.noun())));
    }
    if mountpoint::is_mounted(mountpoint).map_err(failed)? {
        return Err(invalid("something is mounted there by `stook mount` already".to_owned()));
    }
    Ok(())
}

fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    config
}

/// What became of mounting, and what helps.
fn refused(mountpoint: &Path, source: io::Error) -> Error {
    let what = match source.kind() {
        io::ErrorKind::NotFound if !Path::new(DEVICE).exists() => format!(
            "there is no {DEVICE}: `modprobe fuse` as root, or a container started with --device {DEVICE}"
        ),
        io::ErrorKind::NotFound => missing_helper(),
        io::ErrorKind::PermissionDenied => format!("this user may not use {DEVICE}"),
        _ if source.to_string().contains("user_allow_other") => {
            "only root can allow other users, unless /etc/fuse.conf says `user_allow_other`".to_owned()
        }
        _ => "the system refused it".to_owned(),
    };
    Error::Refused { path: mountpoint.to_path_buf(), what, source }
}
