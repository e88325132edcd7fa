//! `stook.Stream`: the records of a pack in a seeded order, and the iterator over an epoch of them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString, PyTuple, PyType};
use stook::ops::shuffled::ShuffledPack;
use stook::pack::{
    self, MapRule, OnDamage, OpenOptions, OrdinalOptions, ShuffleOptions, ShuffleReader,
    ShuffleReaderOptions, ShuffleShare, ShuffleState, Stop,
};

use super::begun::Begun;
use super::info;
use super::kinds::kinds_of;
use super::open::{ACCESS, at_ns_of};
use super::reading::{groups_of, keys_of, with_group};
use super::record::Record;
use super::split::Split;
use super::table::conditions_of;
use crate::arguments::iter_of;
use crate::choices::{self, chosen};
use crate::errors::{OrRaise as _, Raise as _, invalid};
use crate::key;
use crate::numbers::{self, Count, Generation};
use crate::paths;
use crate::reports::getters;
use crate::wait::is_stopped;

/// How often signals are looked for while a record is waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The records of a pack in a seeded order, for training: read by few long reads, shared by workers
/// and ranks, resumed exactly by any other number of them.
///
/// An epoch brings spans of 2 MiB of the pack into the order of ``seed`` and epoch, cuts the
/// sequence into ``lanes`` of the same number of records, and shuffles what it reads of a lane at
/// once, ``window_bytes``. Readers divide the lanes. The same seed gives the same order in every
/// release. All is of the generation that was published last when this was made: what is put later
/// is not in it. It can be pickled, and used after a fork.
///
/// `stook.loader` and `stook.torch.PackStream` are made of it.
///
/// Args:
///     path: The pack.
///     seed: What the order depends on.
///     shuffle: ``False`` leaves records in the order of the medium.
///     prefix: Only keys that begin with this.
///     start: Only keys from this one on.
///     end: Only keys before this one.
///     keys: Only these keys, each once. It goes with no ``split``.
///     group: Only this group, or these.
///     split: Only this part of the pack; see `Pack.splits`.
///     kinds: Only records of these kinds, as for `Pack.scan`.
///     on_damage: ``"raise"``, or ``"skip"``: damaged records are passed over, counted and
///         reported by `StreamRecords.damages`.
///     lanes: How many readers there can be at most. Ranks have the same number of records where
///         it is a multiple of theirs.
///     window_bytes: How much is read and mixed at once. Twice as much is in memory.
///     even: Whether all lanes have the same number of records, to the last: what remains, fewer
///         records than there are lanes, is left out, other ones in each epoch: in the order of the
///         medium each begins where the one before ended.
///     map: As for `Pack`.
///     access: As for `Pack`.
///     at: As for `Pack`.
///     generation: As for `Pack`.
///     where: Only records with these attributes, as for `Pack.scan`. A state of other records is
///         refused.
///
/// Raises:
///     stook.InvalidError: Lanes or windows that are not possible, an unknown group or key.
///     stook.DamagedError: Whether a record counts is not known.
///     stook.NoSuchStateError: There is no such generation.
///
/// Examples:
///     >>> import stook
///     >>> with stook.Pack("data.stook", "a") as pack:
///     ...     pack.update({f"{number}": bytes([number]) for number in range(100)})
///     >>> stream = stook.Stream("data.stook", seed=7)
///     >>> epoch = stream.begin()
///     >>> first = [next(epoch).key for _ in range(40)]
///     >>> rest = [record.key for record in stream.begin(state=epoch.state())]
///     >>> len(stream), len({*first, *rest})
///     (100, 100)
///     >>> epoch.close()
#[pyclass(module = "stook", frozen)]
pub(crate) struct Stream {
    stream: ShuffledPack,
    selection: OrdinalOptions,
    on_damage: OnDamage,
    /// What it was made with, for another process.
    arguments: Py<PyDict>,
}

getters! { Stream {
    /// Where the pack is.
    path: PathBuf = |this| this.stream.path().to_path_buf();
    /// The generation that is read.
    generation: Option<u64> = |this| this.stream.reading().generation;
    /// What the order depends on; ``None`` where it is that of the medium.
    seed: Option<u64> = |this| this.stream.shuffle().options().seed;
    /// How many readers there can be at most.
    lanes: u32 = |this| this.stream.shuffle().options().lanes;
    /// Bytes of memory that the list of records takes.
    memory_bytes: usize = |this| this.stream.shuffle().memory_bytes();
    /// Records that are left out because whether they count is not known, as exceptions.
    damages: PyResult<Bound<'_, PyList>> = |this, py| {
        info::damages(py, this.stream.shuffle().ordinals().damages())
    };
}}

/// The arguments of a stream, as Rust has them.
struct Chosen {
    reading: OpenOptions,
    selection: OrdinalOptions,
    shuffle: ShuffleOptions,
    on_damage: OnDamage,
}

/// The arguments of a stream, as Python has them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Given<'py> {
    #[pyo3(from_py_with = numbers::seed)]
    seed: u64,
    shuffle: bool,
    prefix: Option<Bound<'py, PyAny>>,
    start: Option<Bound<'py, PyAny>>,
    end: Option<Bound<'py, PyAny>>,
    keys: Option<Bound<'py, PyAny>>,
    group: Option<Bound<'py, PyAny>>,
    split: Option<Bound<'py, Split>>,
    kinds: Option<Bound<'py, PyAny>>,
    on_damage: String,
    #[pyo3(from_py_with = numbers::lanes)]
    lanes: u32,
    #[pyo3(from_py_with = numbers::window_bytes)]
    window_bytes: u64,
    even: bool,
    map: bool,
    access: String,
    at: Option<Bound<'py, PyAny>>,
    generation: Option<u64>,
    #[pyo3(item("where"))]
    conditions: Option<Bound<'py, PyAny>>,
}

impl Given<'_> {
    fn chosen(self) -> PyResult<Chosen> {
        let policies = [("raise", OnDamage::Stop), ("skip", OnDamage::Skip)];
        let on_damage = chosen("on_damage", &self.on_damage, &policies)?;
        let reading = OpenOptions {
            at_ns: at_ns_of(self.at.as_ref())?,
            generation: self.generation,
            map: if self.map { MapRule::Sealed } else { MapRule::Never },
            access: chosen("access", &self.access, &ACCESS)?,
            ..OpenOptions::default()
        };
        let selection = OrdinalOptions {
            groups: groups_of(self.group.as_ref())?,
            keys: key::range(self.prefix.as_ref(), self.start.as_ref(), self.end.as_ref())?,
            only: self.keys.as_ref().map(keys_of).transpose()?,
            kinds: kinds_of(self.kinds.as_ref(), pack::Kinds::FILES)?,
            attributes: conditions_of(self.conditions.as_ref())?,
            split: self.split.map(|split| split.get().split.clone()),
            on_damage,
            stop: Stop(is_stopped),
        };
        let seed = self.shuffle.then_some(self.seed);
        let shuffle =
            ShuffleOptions { seed, lanes: self.lanes, window_bytes: self.window_bytes, even: self.even };
        Ok(Chosen { reading, selection, shuffle, on_damage })
    }
}

impl Stream {
    /// A stream of arguments, with what opens it.
    fn of(
        arguments: &Bound<'_, PyDict>,
        open: impl FnOnce(&Chosen) -> pack::Result<ShuffledPack> + Send,
    ) -> PyResult<Self> {
        let chosen = arguments.extract::<Given<'_>>()?.chosen()?;
        let stream = arguments.py().detach(|| open(&chosen)).or_raise()?;
        arguments.set_item("generation", stream.reading().generation)?;
        let Chosen { selection, on_damage, .. } = chosen;
        Ok(Self { stream, selection, on_damage, arguments: arguments.clone().unbind() })
    }

    /// The same selection at another generation, or in other lanes.
    fn with<'py>(&self, py: Python<'py>, stream: ShuffledPack) -> PyResult<Bound<'py, Self>> {
        let arguments = self.arguments.bind(py).copy()?;
        arguments.set_item("generation", stream.reading().generation)?;
        arguments.set_item("lanes", stream.shuffle().options().lanes)?;
        let (selection, on_damage) = (self.selection.clone(), self.on_damage);
        Bound::new(py, Self { stream, selection, on_damage, arguments: arguments.unbind() })
    }
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (path, *, seed=0, shuffle=true, prefix=None, start=None, end=None, keys=None, group=None, split=None, kinds=None, on_damage="raise", lanes=64, window_bytes=32 << 20, even=false, map=false, access="auto", at=None, generation=None, r#where=None))]
    #[pyo3(
        text_signature = "(path, *, seed=0, shuffle=True, prefix=None, start=None, end=None, keys=None, group=None, split=None, kinds='file', on_damage='raise', lanes=64, window_bytes=33554432, even=False, map=False, access='auto', at=None, generation=None, where=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = paths::path)] path: PathBuf,
        #[pyo3(from_py_with = numbers::seed)] seed: u64,
        #[pyo3(from_py_with = choices::shuffle)] shuffle: bool,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        keys: Option<&Bound<'_, PyAny>>,
        group: Option<&Bound<'_, PyAny>>,
        split: Option<&Bound<'_, Split>>,
        kinds: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = choices::on_damage)] on_damage: &str,
        #[pyo3(from_py_with = numbers::lanes)] lanes: u32,
        #[pyo3(from_py_with = numbers::window_bytes)] window_bytes: u64,
        #[pyo3(from_py_with = choices::even)] even: bool,
        #[pyo3(from_py_with = choices::map)] map: bool,
        #[pyo3(from_py_with = choices::access)] access: &str,
        at: Option<&Bound<'_, PyAny>>,
        generation: Option<Generation>,
        r#where: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let arguments = PyDict::new(py);
        // What can be gone through once only is needed again.
        let keys = match keys {
            Some(keys) if !keys.is_instance_of::<PyString>() && !keys.is_instance_of::<PyBytes>() => {
                let keys = iter_of("keys", keys)?.collect::<PyResult<Vec<_>>>()?;
                Some(PyTuple::new(py, keys)?.into_any())
            }
            keys => keys.cloned(),
        };
        let kinds = match kinds {
            Some(kinds) if !kinds.is_instance_of::<PyString>() => {
                let kinds = iter_of("kinds", kinds)?.collect::<PyResult<Vec<_>>>()?;
                Some(PyTuple::new(py, kinds)?.into_any())
            }
            kinds => kinds.cloned(),
        };
        arguments.set_item("seed", seed)?;
        arguments.set_item("shuffle", shuffle)?;
        arguments.set_item("prefix", prefix)?;
        arguments.set_item("start", start)?;
        arguments.set_item("end", end)?;
        arguments.set_item("keys", keys)?;
        arguments.set_item("group", group)?;
        arguments.set_item("split", split)?;
        arguments.set_item("kinds", kinds)?;
        arguments.set_item("on_damage", on_damage)?;
        arguments.set_item("lanes", lanes)?;
        arguments.set_item("window_bytes", window_bytes)?;
        arguments.set_item("even", even)?;
        arguments.set_item("map", map)?;
        arguments.set_item("access", access)?;
        arguments.set_item("at", at)?;
        arguments.set_item("generation", generation.map(|generation| generation.0))?;
        // Another process may have no such mapping.
        let conditions = r#where.filter(|given| given.cast::<PyMapping>().is_ok());
        let conditions = conditions.map(|given| py.get_type::<PyDict>().call1((given,))).transpose()?;
        arguments.set_item("where", conditions.as_ref().or(r#where))?;
        Self::of(&arguments, |chosen| {
            ShuffledPack::open(&path, chosen.reading.clone(), &chosen.selection, chosen.shuffle)
        })
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.stream.shuffle().len())?)
    }

    fn __repr__(&self) -> String {
        format!(
            "<stook.Stream of {} records of {}>",
            self.stream.shuffle().len(),
            self.stream.path().display()
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, this) = (slf.py(), slf.get());
        let bytes = PyBytes::new(py, &this.stream.shuffle().ordinals().to_bytes());
        let path = this.stream.path().as_os_str();
        let arguments = (path, this.arguments.bind(py).copy()?, bytes).into_pyobject(py)?;
        Ok((slf.get_type().getattr("_again")?, arguments))
    }

    #[classmethod]
    fn _again(
        _: &Bound<'_, PyType>,
        #[pyo3(from_py_with = paths::path)] path: PathBuf,
        arguments: &Bound<'_, PyDict>,
        ordinals: &[u8],
    ) -> PyResult<Self> {
        Self::of(arguments, |chosen| {
            ShuffledPack::open_again(&path, chosen.reading.clone(), ordinals, chosen.shuffle)
        })
    }

    /// Begins an epoch, or continues one.
    ///
    /// Args:
    ///     epoch: Which: 0 unless a state says.
    ///     state: Continues after what this says was handed out.
    ///     rank: Which rank this is.
    ///     world: How many ranks there are.
    ///     worker: Which worker of the rank this is.
    ///     workers: How many workers the rank has.
    ///     threads: How many threads read ahead; each holds a window.
    ///
    /// Returns:
    ///     `StreamRecords`, an iterator over records: of all workers of all ranks together each
    ///     record once.
    ///
    /// Raises:
    ///     stook.InvalidError: A state of something else, or of one of several readers; more
    ///     readers
    ///         than lanes.
    #[pyo3(signature = (epoch=None, *, state=None, rank=0, world=1, worker=0, workers=1, threads=1))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn begin(
        &self,
        py: Python<'_>,
        epoch: Option<&Bound<'_, PyAny>>,
        state: Option<&str>,
        #[pyo3(from_py_with = numbers::rank)] rank: u32,
        #[pyo3(from_py_with = numbers::world)] world: u32,
        #[pyo3(from_py_with = numbers::worker)] worker: u32,
        #[pyo3(from_py_with = numbers::workers)] workers: u32,
        #[pyo3(from_py_with = numbers::threads)] threads: usize,
    ) -> PyResult<StreamRecords> {
        let state = match (epoch, state) {
            (Some(_), Some(_)) => return Err(invalid("a state has an epoch: give one of epoch and state")),
            (Some(epoch), None) => self.stream.shuffle().begin(numbers::epoch(epoch)?),
            (None, None) => self.stream.shuffle().begin(0),
            (None, Some(state)) => state_of(state)?,
        };
        let share = ShuffleShare::of((rank, world), (worker, workers)).or_raise()?;
        let options = ShuffleReaderOptions { on_damage: self.on_damage, threads };
        let begin = || Ok((self.stream.pack()?, self.stream.begin(&state, share, options)?));
        let (pack, reader) = py.detach(begin).map_err(|error: pack::Error| error.raise())?;
        let taking = Taking { reader, held: VecDeque::new(), failure: None };
        Ok(StreamRecords { pack, epoch: state.epoch(), inner: Begun::new(taking) })
    }

    /// How many records one reader of an epoch has, damaged ones included.
    ///
    /// Args:
    ///     rank: As for `begin`, like all others.
    ///     world: …
    ///     worker: …
    ///     workers: …
    ///
    /// Returns:
    ///     How many.
    #[pyo3(signature = (*, rank=0, world=1, worker=0, workers=1))]
    fn count(
        &self,
        #[pyo3(from_py_with = numbers::rank)] rank: u32,
        #[pyo3(from_py_with = numbers::world)] world: u32,
        #[pyo3(from_py_with = numbers::worker)] worker: u32,
        #[pyo3(from_py_with = numbers::workers)] workers: u32,
    ) -> PyResult<u64> {
        let share = ShuffleShare::of((rank, world), (worker, workers)).or_raise()?;
        self.stream.shuffle().share_len(share).or_raise()
    }

    /// The state at the beginning of an epoch.
    ///
    /// Args:
    ///     epoch: Which.
    ///
    /// Returns:
    ///     A text, as `StreamRecords.state` gives it.
    #[pyo3(signature = (epoch=0))]
    fn state(&self, #[pyo3(from_py_with = numbers::epoch)] epoch: u64) -> String {
        self.stream.shuffle().begin(epoch).to_string()
    }

    /// The stream that a state is of: this one, or one of the generation of the state, if the pack
    /// was changed since. What was put, replaced or deleted since does no harm: the records lie
    /// where they did until they are compacted, and it is proved by a checksum that they do.
    ///
    /// Args:
    ///     state: A state.
    ///
    /// Returns:
    ///     A `Stream`.
    ///
    /// Raises:
    ///     stook.NoSuchStateError: Records of that generation were compacted since, or are gone.
    ///     stook.InvalidError: A state of another pack, selection, seed or number of lanes.
    fn resumed<'py>(slf: &Bound<'py, Self>, state: &str) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        let state = state_of(state)?;
        let other = py.detach(|| this.stream.at_generation_of(&state, &this.selection)).or_raise()?;
        other.map_or_else(|| Ok(slf.clone()), |stream| this.with(py, stream))
    }

    /// What continues an epoch in the order of the medium with another number of readers than began
    /// it: this stream in the lanes of the state, or, where these are fewer than readers, the state
    /// in those of this stream. With ``shuffle=True`` both are left as they are.
    ///
    /// Args:
    ///     state: A state.
    ///     readers: How many readers there are: workers of all ranks.
    ///
    /// Returns:
    ///     A `Stream` and a state.
    ///
    /// Raises:
    ///     stook.InvalidError: It is no state.
    fn in_lanes_of<'py>(
        slf: &Bound<'py, Self>,
        state: &str,
        #[pyo3(from_py_with = numbers::readers)] readers: u32,
    ) -> PyResult<(Bound<'py, Self>, String)> {
        let (py, this) = (slf.py(), slf.get());
        let state = state_of(state)?;
        let (other, state) = py.detach(|| this.stream.in_lanes_of(&state, readers)).or_raise()?;
        let stream = other.map_or_else(|| Ok(slf.clone()), |stream| this.with(py, stream))?;
        Ok((stream, state.to_string()))
    }

    /// Whether a state says that nothing is left of its epoch.
    ///
    /// Args:
    ///     state: A state of this stream.
    ///
    /// Returns:
    ///     Whether that is so; a state of one reader of several does not say it.
    ///
    /// Raises:
    ///     stook.InvalidError: A state of something else.
    fn is_over(&self, state: &str) -> PyResult<bool> {
        self.stream.shuffle().is_over(&state_of(state)?).or_raise()
    }

    /// One state for all readers of an epoch, which any number of others can continue.
    ///
    /// Args:
    ///     states: The states of all of them, at one moment.
    ///
    /// Returns:
    ///     A text.
    ///
    /// Raises:
    ///     stook.InvalidError: They are not of one epoch of one stream, or there is none.
    #[staticmethod]
    fn merge(states: &Bound<'_, PyAny>) -> PyResult<String> {
        let states: PyResult<Vec<_>> =
            iter_of("states", states)?.map(|state| state_of(&state?.extract::<String>()?)).collect();
        Ok(ShuffleState::merged(&states?).or_raise()?.to_string())
    }

    /// What a state says: ``epoch``, ``generation``, and how many ``records`` were handed out.
    ///
    /// Args:
    ///     state: A state.
    ///
    /// Returns:
    ///     A dict.
    ///
    /// Raises:
    ///     stook.InvalidError: It is no state.
    #[staticmethod]
    fn describe<'py>(py: Python<'py>, state: &str) -> PyResult<Bound<'py, PyDict>> {
        let (state, described) = (state_of(state)?, PyDict::new(py));
        described.set_item("epoch", state.epoch())?;
        described.set_item("generation", state.generation())?;
        described.set_item("records", state.records())?;
        Ok(described)
    }
}

fn state_of(text: &str) -> PyResult<ShuffleState> {
    text.parse().or_raise()
}

/// A reader, with what was read of it and not handed out: a signal may come between.
struct Taking {
    reader: ShuffleReader,
    held: VecDeque<pack::Record>,
    /// An error that comes after these.
    failure: Option<pack::Error>,
}

impl Taking {
    /// Reads until this many are there, or the next is not there in time; whether there is nothing
    /// to wait for.
    fn fill(&mut self, count: usize, timeout: Duration) -> bool {
        while self.held.len() < count && self.failure.is_none() {
            if !self.reader.poll(timeout) {
                return false;
            }
            match self.reader.next_record() {
                Ok(Some(record)) => self.held.push_back(record),
                Ok(None) => break,
                Err(error) => self.failure = Some(error),
            }
        }
        true
    }

    fn drain(&mut self, count: usize) -> pack::Result<Vec<pack::Record>> {
        match self.failure.take_if(|_| self.held.is_empty()) {
            Some(error) => Err(error),
            None => Ok(self.held.drain(..count.min(self.held.len())).collect()),
        }
    }
}

/// Records of an epoch, or of one reader's share of it, as threads read and verified them ahead.
///
/// It belongs to the process that began it. Close it, use `with`, or drop it: then its threads end.
#[pyclass(module = "stook", frozen)]
pub(crate) struct StreamRecords {
    pack: Arc<pack::Pack>,
    epoch: u64,
    inner: Begun<Taking>,
}

getters! { StreamRecords {
    /// Which epoch.
    epoch: u64 = |this| this.epoch;
    /// How many damaged records were passed over, with ``on_damage="skip"``.
    skipped: PyResult<u64> = |this, py| this.inner.with(py, |taking| taking.reader.skipped());
    /// Why, as exceptions.
    damages: PyResult<Bound<'_, PyList>> = |this, py| {
        info::damages(py, &this.inner.with(py, |taking| taking.reader.damages().clone())?)
    };
}}

#[pymethods]
impl StreamRecords {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        let mut records = self.taken(py, 1, true)?;
        if !records.is_empty() {
            self.confirmed(py, 1)?;
        }
        Ok(records.pop())
    }

    /// Takes several records. They count as handed out once they are confirmed.
    ///
    /// Args:
    ///     count: How many.
    ///     wait: Whether to wait for them; else those are taken that are there.
    ///
    /// Returns:
    ///     A list of records, with fewer at the end, or where it did not wait.
    ///
    /// Raises:
    ///     stook.DamagedError: A record is not what was written.
    #[pyo3(signature = (count, wait=true))]
    fn take(
        &self,
        py: Python<'_>,
        count: Count,
        #[pyo3(from_py_with = choices::wait)] wait: bool,
    ) -> PyResult<Vec<Record>> {
        self.taken(py, count.0, wait)
    }

    /// Counts records that were taken as handed out: the next state is after them.
    ///
    /// Args:
    ///     count: How many more.
    fn confirm(&self, py: Python<'_>, count: Count) -> PyResult<()> {
        self.confirmed(py, count.0)
    }

    /// What was handed out: a text with which `Stream.begin` continues after it. It is of the lanes
    /// of this reader; `Stream.merge` makes one of those of all.
    ///
    /// Returns:
    ///     A text.
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        self.inner.with(py, |taking| taking.reader.state().to_string())
    }

    /// Ends it: its threads end after what they are reading.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.with(py, |taking| taking.reader.close())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

impl StreamRecords {
    fn confirmed(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        let confirm = |taking: &mut Taking| taking.reader.confirm(count);
        let confirmed = self.inner.at_once(|taking| {
            confirm(taking);
            Some(())
        });
        confirmed.map_or_else(|| self.inner.with(py, confirm), Ok)
    }

    fn taken(&self, py: Python<'_>, count: usize, wait: bool) -> PyResult<Vec<Record>> {
        let at_once = |taking: &mut Taking| taking.fill(count, Duration::ZERO).then(|| taking.drain(count));
        let records = match self.inner.at_once(at_once) {
            Some(records) => records,
            None => {
                let timeout = if wait { POLL_INTERVAL } else { Duration::ZERO };
                while !self.inner.with(py, |taking| taking.fill(count, timeout))? && wait {
                    py.check_signals()?;
                }
                self.inner.with(py, |taking| taking.drain(count))?
            }
        };
        let records = records.or_raise()?;
        Ok(records.into_iter().map(|record| with_group(&self.pack, record)).collect())
    }
}
