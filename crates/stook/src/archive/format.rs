//! The format of an archive, by its first bytes.

use std::fmt;

/// A format of archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A plain tar.
    Tar,
    /// A tar in gzip.
    TarGzip,
    /// A tar in zstd.
    TarZstd,
    /// A tar in xz.
    TarXz,
    /// A zip.
    Zip,
    /// A layout: files that do not exist, whose bytes are those of others.
    Layout,
}

impl Format {
    /// Whether its members can only be read from the front.
    pub fn is_sequential(self) -> bool {
        matches!(self, Self::TarGzip | Self::TarZstd | Self::TarXz)
    }

    /// The number it has in an index.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Tar => 1,
            Self::TarGzip => 2,
            Self::TarZstd => 3,
            Self::Zip => 4,
            Self::Layout => 5,
            Self::TarXz => 6,
        }
    }

    /// The format of a number.
    pub(super) fn from_code(code: u32) -> Option<Self> {
        let all = [Self::Tar, Self::TarGzip, Self::TarZstd, Self::Zip, Self::Layout, Self::TarXz];
        all.into_iter().find(|format| format.code() == code)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tar => "tar",
            Self::TarGzip => "tar.gz",
            Self::TarZstd => "tar.zst",
            Self::TarXz => "tar.xz",
            Self::Zip => "zip",
            Self::Layout => "layout",
        })
    }
}
