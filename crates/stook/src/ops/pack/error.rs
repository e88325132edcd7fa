//! Errors of packing and importing sources, distinguished by how a caller handles them.

use std::io;
use std::path::PathBuf;

use crate::ops::contents;
use crate::report::units::bytes_decimal;
use crate::tree::Kind;
use crate::{archive, pack};

/// A result of packing.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the pack or a source, or below them.
    #[error(transparent)]
    Pack(#[from] pack::Error),
    /// An error of an archive, or below it.
    #[error(transparent)]
    Archive(#[from] archive::Error),
    /// A layout that cannot be opened.
    #[error(transparent)]
    Open(contents::Error),
    /// A source has the name of an archive but is not a readable one.
    #[error(
        "{} is {what} (tar, tar.gz, tar.zst, tar.xz and zip can): unpack it first, or pack it as the one file that it is",
        path.display()
    )]
    NotImported {
        /// The file.
        path: PathBuf,
        /// Why it is not imported.
        what: &'static str,
    },
    /// A source has an address, and was to be packed as the file that it is.
    #[error(
        "{0} is an address: the members of an archive can be packed from there; fetch anything else first"
    )]
    ObjectAsFile(String),
    /// Only some of the sources are archives.
    #[error("pack archives and directories one after another, not together")]
    Mixed,
    /// No segment can be so long.
    #[error(transparent)]
    SegmentLen(pack::Error),
    /// A source is a pack, and was not to be packed as the files that it is.
    #[error(transparent)]
    IsPack(pack::Error),
    /// Records were to be deleted, and the sources cannot be those of the pack.
    #[error(transparent)]
    Roots(pack::Error),
    /// Records were to be deleted, and the group is named by nothing.
    #[error(
        "the group '' is the default group (is a variable not set?): say how many of its records may be deleted, if that \
         is meant"
    )]
    EmptyGroup,
    /// Both were requested.
    #[error("`delete` and `move` cannot be combined")]
    DeleteAndMove,
    /// Archives were to be deleted from or moved.
    #[error("deleting and moving are for trees of files, not for archives")]
    TreesOnly,
    /// Archives were to be spread over groups.
    #[error("spreading over groups is for directories; archives go into one group")]
    OneGroup,
    /// A source is [`STREAM`](crate::ops::import::STREAM), and the caller has none.
    #[error("`-` stands for a tar that comes through a stream, and there is none")]
    NoStream,
    /// [`STREAM`](crate::ops::import::STREAM) is among the sources more than once.
    #[error("`-` stands for one tar that comes through a stream: name it once")]
    StreamTwice,
    /// A source is a pipe, a socket or a device. Within a tree those are left out and reported;
    /// here nothing would be packed of what was named.
    #[error("cannot pack {}: it is {}, and packs hold directories, files and links", path.display(), kind.noun())]
    Special {
        /// The source.
        path: PathBuf,
        /// What it is.
        kind: Kind,
    },
    /// A source is a part of an archive.
    #[error(
        "{} is a part of an archive, and only all of one is packed: name the archive, and choose members of it",
        .0.display()
    )]
    PartOfArchive(PathBuf),
    /// An archive in another, or in a layout, that cannot be opened.
    #[error(transparent)]
    Given(super::super::copy::Error),
    /// An archive is gone, or something else now.
    #[error("{} is not a file any more, and was not imported", .0.display())]
    NotAFile(PathBuf),
    /// The file system of the pack has too little room.
    #[error(
        "{} would be needed in {}, and {} are free: make room, or choose another place",
        bytes_decimal(*needed), place.display(), bytes_decimal(*free)
    )]
    NoSpace {
        /// Bytes that it would take.
        needed: u64,
        /// Bytes that there are.
        free: u64,
        /// The directory that the pack is in.
        place: PathBuf,
    },
    /// Packing ended before its end.
    #[error("packing into {} stopped; what is in it is safe, and running it again continues", pack.display())]
    Stopped {
        /// The pack.
        pack: PathBuf,
        /// Why.
        source: pack::Error,
    },
    /// The pack could not be finished.
    #[error("cannot finish the pack")]
    Finish(#[source] pack::Error),
    /// Removing originals ended before its end.
    #[error("removing what was packed stopped; all of it is in {}", pack.display())]
    Removing {
        /// The pack.
        pack: PathBuf,
        /// Why.
        source: pack::Error,
    },
    /// The directory of a pack that was taken back could not be removed.
    #[error("cannot remove {}, which has no file", pack.display())]
    TakeBack {
        /// The directory.
        pack: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The caller stopped it. Once anything was packed, the summary says so instead.
    #[error("interrupted")]
    Interrupted,
    /// A hook or predicate of the caller failed. A pack that was made for this run was removed.
    #[error("given up by the caller")]
    Abandoned,
}

impl Error {
    /// Whether the request itself is invalid, whatever the files are.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NotImported { .. }
                | Self::ObjectAsFile(_)
                | Self::Mixed
                | Self::SegmentLen(_)
                | Self::IsPack(_)
                | Self::Roots(_)
                | Self::EmptyGroup
                | Self::DeleteAndMove
                | Self::TreesOnly
                | Self::OneGroup
                | Self::NoStream
                | Self::StreamTwice
                | Self::PartOfArchive(_)
        )
    }
}
