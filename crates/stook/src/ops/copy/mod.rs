//! Anything that is given to be copied: directories, files, packs, archives, objects.
//!
//! A pack or an archive that goes to one directory in which nothing is, with nothing asked for that
//! unpacking does not know, is unpacked: both are one code, which reads in the order of the medium.
//! Where something is, the rules of copying say what becomes of it.

mod list;
mod read_back;
mod unpacked;

use std::path::PathBuf;
use std::sync::Arc;

pub use super::given::{Given, OpenGiven};
pub use list::read_list;
pub use unpacked::damage_of;

use self::read_back::WrittenFiles;
use crate::copy::{self, Copy, CopyEvents, CopyOptions, CopyReport, Destination, ReadBack};
use crate::ops::{contents, unpack};
use crate::source::check_path;

/// A result of copying.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What copying refuses.
    #[error(transparent)]
    Copy(#[from] copy::Error),
    /// A source that is a pack, an archive or an object.
    #[error(transparent)]
    Open(#[from] contents::Error),
    /// An error of unpacking as a whole.
    #[error(transparent)]
    Unpack(#[from] unpack::Error),
    /// A source or a destination.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// A path in a pack or an archive that is not there.
    #[error("{} has no {}", path.display(), crate::names::escaped(key))]
    NotThere {
        /// The pack or archive.
        path: PathBuf,
        /// The path in it.
        key: Vec<u8>,
    },
    /// A list with a path that cannot be meant.
    #[error("{}, line {number}: {why}", path.display())]
    List {
        /// The list.
        path: PathBuf,
        /// Which path of it, from 1.
        number: u64,
        /// Why not.
        why: String,
    },
    /// A list without paths.
    #[error("{} has no path: nothing was asked for", path.display())]
    EmptyList {
        /// The list.
        path: PathBuf,
    },
}

/// What is copied, where to, and how.
#[derive(Debug)]
pub struct CopyGiven {
    /// What is copied.
    pub sources: Vec<Given>,
    /// The directories.
    pub destinations: Vec<PathBuf>,
    /// How.
    pub options: CopyOptions,
    /// Whether what was written is read again from the medium, and compared.
    pub read_back: bool,
}

impl CopyGiven {
    /// Copies.
    ///
    /// # Errors
    /// What is refused before anything is made, and what cannot be opened.
    pub fn run(self, events: &mut dyn CopyEvents) -> Result<CopyReport> {
        let Self { mut sources, destinations, options, read_back } = self;
        options.check()?;
        destinations.iter().try_for_each(|destination| check_path(destination))?;
        if let ([Given::Packed(packed)], [destination]) = (sources.as_slice(), destinations.as_slice())
            && !read_back
            && packed.is_whole()
            && unpacked::does(&options)
            && !events.needs_items()
            && unpacked::is_free(destination)?
        {
            return unpacked::run(packed, destination, &options, events);
        }
        let sources = sources.drain(..).map(Given::into_source).collect::<Result<Vec<_>>>()?;
        let destinations: Vec<_> = destinations.into_iter().map(Destination::new).collect();
        let read_back =
            read_back.then(|| -> Arc<dyn ReadBack> { Arc::new(WrittenFiles::new(destinations.len())) });
        let copy = Copy::new(sources, destinations).with_options(options);
        Ok(Copy { read_back, ..copy }.run(events)?)
    }
}
