//! [`ShuffleReader`]: hands out the records of a share of an epoch, which threads read and verify
//! ahead of it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use super::Shuffle;
use super::lanes::{LaneWindow, ShareWindows, ShuffleShare};
use super::state::{KIND, ShuffleState};
use crate::pack::damages::Damages;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::read::record::Record;
use crate::pack::scan::OnDamage;
use crate::pack::state::open::Pack;

/// Threads at most.
const THREADS_MAX: usize = 64;

/// How a share is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuffleReaderOptions {
    /// What to do about a record that is damaged. One that is skipped counts as handed out, so that
    /// no resumed epoch meets it again.
    pub on_damage: OnDamage,
    /// Threads that read ahead: each holds a window.
    pub threads: usize,
}

impl Default for ShuffleReaderOptions {
    fn default() -> Self {
        Self { on_damage: OnDamage::Stop, threads: 1 }
    }
}

/// The records of a window in the order in which they are handed out.
struct WindowRecords {
    lane: u32,
    records: VecDeque<(u64, Result<Record>)>,
}

/// What a thread sends; `None` after its last window.
type Sent = Option<Result<WindowRecords>>;

/// Hands out records of a share of an epoch. It belongs to the process that made it.
#[derive(Debug)]
pub struct ShuffleReader {
    /// Where the pack is.
    place: PathBuf,
    /// What of the epoch was handed out and confirmed, of the lanes of the share.
    state: ShuffleState,
    on_damage: OnDamage,
    process: u32,
    /// One for each thread, which take turns; none once it was closed.
    threads: Vec<Receiver<Sent>>,
    turn: usize,
    window: Option<WindowRecords>,
    /// Whether nothing comes after what is at hand.
    is_over: bool,
    /// An error that comes before anything else.
    failure: Option<Error>,
    /// The lanes of records that were handed out and not confirmed; whether each was skipped.
    unconfirmed: VecDeque<(u32, bool)>,
    skipped: u64,
    damages: Damages,
}

impl std::fmt::Debug for WindowRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} records of lane {}", self.records.len(), self.lane)
    }
}

impl ShuffleReader {
    /// Continues an epoch after what a state says was handed out. Threads begin to read.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a state of another shuffle, for one that lacks lanes of the share,
    /// for more readers than lanes, and for no threads or more than 64.
    pub fn new(
        pack: &Arc<Pack>,
        shuffle: &Arc<Shuffle>,
        state: &ShuffleState,
        share: ShuffleShare,
        options: ShuffleReaderOptions,
    ) -> Result<Self> {
        shuffle.check(state)?;
        shuffle.ordinals.origin().view_in(pack, KIND)?;
        let ShuffleReaderOptions { on_damage, threads } = options;
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(Error::Invalid(format!(
                "threads: 1 to {THREADS_MAX} threads that read ahead are possible, not {threads}"
            )));
        }
        let mut own = state.clone();
        own.forget();
        let mut positions = Vec::new();
        for lane in share.lanes(shuffle.options.lanes)? {
            let known = state.positions().get(lane as usize).copied().flatten();
            let position = known.ok_or_else(|| {
                Error::Invalid(format!(
                    "the {KIND} says nothing of lane {lane}: it is of one reader of several; merge those of all, or give \
                     them to load_state_dict of the stream as one list, before a loader with another number of workers is made"
                ))
            })?;
            positions.push((lane, position));
            if let Some(own) = own.position_mut(lane) {
                *own = Some(position);
            }
        }
        let order = Arc::new(shuffle.order_of(state.epoch())?);
        let begin = |thread: usize| {
            let windows = ShareWindows::new(shuffle.clone(), order.clone(), &positions)?;
            let (pack, shuffle, epoch) = (pack.clone(), shuffle.clone(), state.epoch());
            spawn(move |sender| {
                read_windows(&pack, (&shuffle, epoch), windows.skip(thread).step_by(threads), sender);
            })
        };
        Ok(Self {
            place: pack.storage.path(""),
            state: own,
            on_damage,
            process: std::process::id(),
            threads: (0..threads).map(begin).collect::<Result<_>>()?,
            turn: 0,
            window: None,
            is_over: false,
            failure: None,
            unconfirmed: VecDeque::new(),
            skipped: 0,
            damages: Damages::default(),
        })
    }

    /// The next record; `None` at the end of the share, and after an error.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a record that is not what was written, unless damage is skipped; an
    /// error of reading; [`Error::Invalid`] in a process that was forked.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        while !self.poll(Duration::from_secs(3600)) {}
        if let Some(error) = self.failure.take() {
            self.close();
            return Err(error);
        }
        let Some(window) = &mut self.window else { return Ok(None) };
        let lane = window.lane;
        match window.records.pop_front() {
            Some((_, Ok(record))) => {
                self.unconfirmed.push_back((lane, false));
                Ok(Some(record))
            }
            Some((number, Err(error))) => {
                self.close();
                Err(match of_number(&self.place, error, number) {
                    Ok(damage) => Error::Damaged(damage),
                    Err(error) => error,
                })
            }
            None => Ok(None),
        }
    }

    /// Waits until [`next_record`](Self::next_record) does not block; whether that is so.
    pub fn poll(&mut self, timeout: Duration) -> bool {
        loop {
            if self.is_over || self.failure.is_some() {
                return true;
            }
            if self.process != std::process::id() {
                let text = "this was begun in the process that this one was forked from; begin it again here";
                self.failure = Some(Error::Invalid(text.to_owned()));
                return true;
            }
            if self.has_record() {
                return true;
            }
            let Some(thread) = self.threads.get(self.turn) else {
                self.is_over = true;
                return true;
            };
            match thread.recv_timeout(timeout) {
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => {
                    let text = "a thread that reads ahead ended early; this is a bug, please report it";
                    self.failure = Some(Error::Invalid(text.to_owned()));
                }
                Ok(Some(Err(error))) => self.failure = Some(error),
                Ok(Some(Ok(window))) => {
                    self.window = Some(window);
                    self.turn = (self.turn + 1) % self.threads.len();
                }
                // Its windows are taken in turn: there are none of the others either.
                Ok(None) => self.close(),
            }
        }
    }

    /// Whether the window at hand has a record, after those that are skipped.
    fn has_record(&mut self) -> bool {
        while let Some(window) = &mut self.window {
            let lane = window.lane;
            match window.records.pop_front() {
                Some((number, Err(error))) if self.on_damage == OnDamage::Skip => {
                    match of_number(&self.place, error, number) {
                        Ok(damage) => self.damages.push(damage),
                        Err(error) => {
                            self.failure = Some(error);
                            return true;
                        }
                    }
                    self.skipped += 1;
                    self.unconfirmed.push_back((lane, true));
                    // It need not wait for records before it that have arrived.
                    self.confirm(0);
                }
                Some(next) => {
                    window.records.push_front(next);
                    return true;
                }
                None => self.window = None,
            }
        }
        false
    }

    /// Counts this many of the records that were handed out, from the first on, as arrived: the
    /// state is after them, and after damaged ones that were skipped next to them.
    pub fn confirm(&mut self, count: usize) {
        let mut left = count;
        while let Some(&(lane, is_skipped)) = self.unconfirmed.front() {
            if !is_skipped {
                let Some(less) = left.checked_sub(1) else { break };
                left = less;
            }
            self.unconfirmed.pop_front();
            if let Some(Some(position)) = self.state.position_mut(lane) {
                *position += 1;
            }
        }
    }

    /// How many records were handed out and not confirmed.
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed.iter().filter(|(_, is_skipped)| !is_skipped).count()
    }

    /// What was confirmed.
    pub fn state(&self) -> ShuffleState {
        self.state.clone()
    }

    /// How many damaged records were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The damage of those.
    pub fn damages(&self) -> &Damages {
        &self.damages
    }

    /// Ends it: the threads end after what they are reading, and nothing more is handed out.
    pub fn close(&mut self) {
        self.threads.clear();
        self.window = None;
        self.is_over = true;
    }
}

impl Drop for ShuffleReader {
    /// In a process that was forked nothing of it is freed: a thread that is not there may have
    /// held a lock of it.
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget((std::mem::take(&mut self.threads), self.window.take()));
        }
    }
}

/// The damage that a record cannot be read for, with its number: it may have no key. An error that
/// says nothing of the record is returned as it is.
fn of_number(place: &Path, error: Error, number: u64) -> Result<Damage> {
    let damage = match error {
        Error::Damaged(damage) => damage,
        Error::Core(crate::Error::Damaged { path, offset, what }) => {
            Damage { file: path, offset, key: None, what, cause: None }
        }
        // The file was cut since it was opened.
        Error::Core(crate::Error::ShortRead { path, offset, .. }) => {
            let what = "the file ends before the record does".to_owned();
            Damage { file: path, offset, key: None, what, cause: None }
        }
        // Such as a hard link that leads nowhere.
        Error::Invalid(what) => Damage { file: place.to_path_buf(), offset: 0, key: None, what, cause: None },
        other => return Err(other),
    };
    let what = format!("{} (number {number} of the selection)", damage.what);
    Ok(Damage { what, ..damage })
}

/// Starts a thread that sends windows. What was read waits there until its turn is asked for.
fn spawn(work: impl FnOnce(&SyncSender<Sent>) + Send + 'static) -> Result<Receiver<Sent>> {
    let (sender, receiver) = mpsc::sync_channel(0);
    let named = std::thread::Builder::new().name("stook-shuffle".into());
    let failed = |source| Error::Outside { operation: "start", name: "a thread".into(), source };
    named.spawn(move || work(&sender)).map_err(failed)?;
    Ok(receiver)
}

/// Reads these windows of an epoch, and sends them until there is an error, or the reader is gone.
fn read_windows(
    pack: &Pack,
    (shuffle, epoch): (&Shuffle, u64),
    windows: impl Iterator<Item = LaneWindow>,
    sender: &SyncSender<Sent>,
) {
    for window in windows {
        let numbers = window.numbers(shuffle, epoch);
        let read = pack.get_near(&shuffle.ordinals, &numbers).map(|records| WindowRecords {
            lane: window.lane,
            records: numbers.into_iter().zip(records).collect(),
        });
        let has_failed = read.is_err();
        if sender.send(Some(read)).is_err() || has_failed {
            return;
        }
    }
    // Where the reader is gone, it need not know.
    let _ = sender.send(None);
}
