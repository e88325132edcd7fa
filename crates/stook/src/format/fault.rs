//! Why bytes are refused.

/// Why bytes were refused, or cannot be made, before it is known which file they are of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at offset {offset}: {what}")]
pub struct Fault {
    /// Where in the bytes given, or in the archive.
    pub offset: u64,
    /// What was found and what was expected.
    pub what: String,
    /// Whether they may be right, but for something that is not known here, or that the format has
    /// no room for.
    pub unsupported: bool,
}

impl Fault {
    /// The bytes are not what the format allows.
    pub fn damaged(offset: u64, what: impl Into<String>) -> Self {
        Self { offset, what: what.into(), unsupported: false }
    }

    /// The bytes want something that is not known here, or that the format has no room for.
    pub fn unsupported(offset: u64, what: impl Into<String>) -> Self {
        Self { offset, what: what.into(), unsupported: true }
    }
}

/// Decoding ends well, or says why not.
pub type Decoded<T> = Result<T, Fault>;
