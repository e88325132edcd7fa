//! [`ShuffledPack`]: the records of a pack in a seeded order, for loaders: of one generation, in
//! this process, those that are forked from it, and those that it is sent to.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::directory::open_pack;
use crate::pack::{
    Error, OpenOptions, OrdinalOptions, Ordinals, Pack, Result, Shuffle, ShuffleOptions, ShuffleReader,
    ShuffleReaderOptions, ShuffleShare, ShuffleState,
};
use crate::source::check_path;

/// A selection of the records of a pack at one generation, shuffled.
#[derive(Debug)]
pub struct ShuffledPack {
    path: PathBuf,
    reading: OpenOptions,
    shuffle: Arc<Shuffle>,
    /// As opened in the process with this number.
    opened: Mutex<(u32, Arc<Pack>)>,
}

impl ShuffledPack {
    /// Opens a pack at the generation that was published last, unless the options say which, and
    /// numbers the records of a selection.
    ///
    /// # Errors
    /// Those of [`check_path`], [`open_pack`], [`Pack::ordinals`] and [`Shuffle::new`].
    pub fn open(
        path: &Path,
        reading: OpenOptions,
        selection: &OrdinalOptions,
        shuffle: ShuffleOptions,
    ) -> Result<Self> {
        check_path(path)?;
        let path = std::path::absolute(path).map_err(|source| Error::Outside {
            operation: "find",
            name: path.display().to_string(),
            source,
        })?;
        let generation = match reading.generation {
            Some(generation) => generation,
            None => open_pack(&path, reading.clone())?.generation(),
        };
        let reading = OpenOptions { generation: Some(generation), ..reading };
        let pack = open_pack(&path, reading.clone())?;
        let ordinals = Arc::new(pack.ordinals(selection)?);
        Self::of(path, reading, pack, Shuffle::new(ordinals, shuffle)?)
    }

    /// Opens what another process has open, of which these are the ordinals as bytes.
    ///
    /// # Errors
    /// Those of [`open_pack`] and [`Ordinals::from_bytes`].
    pub fn open_again(
        path: &Path,
        reading: OpenOptions,
        ordinals: &[u8],
        shuffle: ShuffleOptions,
    ) -> Result<Self> {
        let ordinals = Arc::new(Ordinals::from_bytes(ordinals)?);
        // Places are what they were, also where the manifest of their generation is gone.
        let reading = OpenOptions { sequence_end: Some(ordinals.sequence_end()), ..reading };
        let pack = open_pack(path, reading.clone())?;
        pack.check_places(&ordinals)?;
        Self::of(path.to_path_buf(), reading, pack, Shuffle::new(ordinals, shuffle)?)
    }

    fn of(path: PathBuf, reading: OpenOptions, pack: Pack, shuffle: Shuffle) -> Result<Self> {
        let opened = Mutex::new((std::process::id(), Arc::new(pack)));
        Ok(Self { path, reading, shuffle: Arc::new(shuffle), opened })
    }

    /// The same at the generation of a state, which may be an earlier one: the pack was changed
    /// since. `None` where that is the one that is open.
    ///
    /// A generation whose manifest is gone is still known as long as the records of the selection
    /// lie where they did, live or replaced by now, which the checksum of the state proves: it is
    /// read from a later one. Compaction ends that.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a state of another pack or another order, [`Error::NoSuchState`]
    /// where the generation is gone; those of [`open`](Self::open).
    pub fn at_generation_of(&self, state: &ShuffleState, selection: &OrdinalOptions) -> Result<Option<Self>> {
        let pack = self.pack()?;
        state.check_pack(&pack)?;
        self.shuffle.check_order(state)?;
        let generation = state.generation();
        if generation == pack.generation() {
            return self.with_broken(state);
        }
        let sequence_end = Some(state.sequence_end());
        let reading = OpenOptions { generation: Some(generation), sequence_end, ..self.reading.clone() };
        let opened = Self::open(&self.path, reading, selection, self.shuffle.options())?;
        match opened.with_broken(state) {
            Err(_) if opened.pack()?.read_from().is_some() => Err(Error::NoSuchState {
                path: self.path.clone(),
                what: format!(
                    "generation {generation} any more, which the state is of, and records of it do not lie \
                     where they did (the pack is at generation {} and was compacted since, or the selection \
                     is another): begin a new epoch without the state",
                    pack.generation()
                ),
            }),
            mended => Ok(Some(mended?.unwrap_or(opened))),
        }
    }

    /// The same with records that damage hides since a state of it was made; `None` where there are
    /// none. What they were is not known: that they lie where they did, the checksum of the state
    /// proves, and so its numbers are right.
    fn with_broken(&self, state: &ShuffleState) -> Result<Option<Self>> {
        let refused = match self.shuffle.check(state) {
            Ok(()) => return Ok(None),
            Err(error) if self.shuffle.ordinals().damages().is_empty() => return Err(error),
            Err(error) => error,
        };
        let pack = self.pack()?;
        let ordinals = Arc::new(pack.with_broken(self.shuffle.ordinals())?);
        let shuffle = Shuffle::new(ordinals, self.shuffle.options())?;
        if shuffle.check(state).is_err() {
            let text = "damage of the pack hides records, and which is not known: begin a new epoch";
            return Err(Error::Invalid(format!("{refused}: {text} without the state")));
        }
        self.with(shuffle).map(Some)
    }

    /// The same in another order.
    fn with(&self, shuffle: Shuffle) -> Result<Self> {
        let opened = Mutex::new((std::process::id(), self.pack()?));
        let (path, reading) = (self.path.clone(), self.reading.clone());
        Ok(Self { path, reading, shuffle: Arc::new(shuffle), opened })
    }

    /// What continues an epoch in the order of the medium with this many readers: the same in the
    /// lanes of its state, or, where these are too few, the state in the lanes that it has. In
    /// another order they are left as they are.
    ///
    /// # Errors
    /// Those of [`pack`](Self::pack) and [`Shuffle::new`].
    pub fn in_lanes_of(&self, state: &ShuffleState, readers: u32) -> Result<(Option<Self>, ShuffleState)> {
        let options = self.shuffle.options();
        let of_state = u32::try_from(state.lanes()).unwrap_or(u32::MAX);
        if options.seed.is_some() || of_state == options.lanes {
            return Ok((None, state.clone()));
        }
        if of_state < readers
            && let Some(divided) = state.in_lanes(options.lanes)
        {
            return Ok((None, divided));
        }
        let options = ShuffleOptions { lanes: of_state, ..options };
        let shuffle = Shuffle::new(self.shuffle.ordinals().clone(), options)?;
        Ok((Some(self.with(shuffle)?), state.clone()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it is opened, its generation included.
    pub fn reading(&self) -> &OpenOptions {
        &self.reading
    }

    /// The order.
    pub fn shuffle(&self) -> &Arc<Shuffle> {
        &self.shuffle
    }

    /// The pack, opened in this process.
    ///
    /// # Errors
    /// Those of [`open_pack`].
    pub fn pack(&self) -> Result<Arc<Pack>> {
        let here = std::process::id();
        let (process, pack) = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if process == here {
            return Ok(pack);
        }
        let pack = Arc::new(open_pack(&self.path, self.reading.clone())?);
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = (here, pack.clone());
        Ok(pack)
    }

    /// Begins to hand out what a state leaves of a share of its epoch.
    ///
    /// # Errors
    /// Those of [`pack`](Self::pack) and [`ShuffleReader::new`].
    pub fn begin(
        &self,
        state: &ShuffleState,
        share: ShuffleShare,
        options: ShuffleReaderOptions,
    ) -> Result<ShuffleReader> {
        ShuffleReader::new(&self.pack()?, &self.shuffle, state, share, options)
    }
}
