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
    /// Those of [`open_pack`], [`Pack::ordinals`] and [`Shuffle::new`]; an error for an address.
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
        let pack = open_pack(path, reading.clone())?;
        Self::of(path.to_path_buf(), reading, pack, Shuffle::new(ordinals, shuffle)?)
    }

    fn of(path: PathBuf, reading: OpenOptions, pack: Pack, shuffle: Shuffle) -> Result<Self> {
        let opened = Mutex::new((std::process::id(), Arc::new(pack)));
        Ok(Self { path, reading, shuffle: Arc::new(shuffle), opened })
    }

    /// The same at the generation of a state, which may be an earlier one: the pack was changed
    /// since. `None` where that is the one that is open.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a state of another pack, [`Error::NoSuchState`] where the generation
    /// is gone; those of [`open`](Self::open).
    pub fn at_generation_of(&self, state: &ShuffleState, selection: &OrdinalOptions) -> Result<Option<Self>> {
        let pack = self.pack()?;
        state.check_pack(&pack)?;
        let generation = state.generation();
        if generation == pack.generation() {
            return Ok(None);
        }
        let reading = OpenOptions { generation: Some(generation), ..self.reading.clone() };
        let opened = Self::open(&self.path, reading, selection, self.shuffle.options());
        opened.map(Some).map_err(|error| match error {
            Error::NoSuchState { path, .. } => Error::NoSuchState {
                path,
                what: format!(
                    "generation {generation} any more, which the state is of (the pack was compacted or \
                     changed since, and is at generation {}): begin a new epoch without the state",
                    pack.generation()
                ),
            },
            other => other,
        })
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
