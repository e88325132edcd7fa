//! Why nothing is served.

use std::net::SocketAddr;

/// A result of serving.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What is to be served.
    #[error(transparent)]
    Copy(#[from] stook::copy::Error),
    /// A tree.
    #[error(transparent)]
    Core(#[from] stook::Error),
    /// An address that cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// An address that others can reach, without anything that keeps them out.
    #[error("others could read it at {0}: a token is needed, or the word that everybody may")]
    Open(SocketAddr),
    /// A token, and the word that none is needed: one of them would not count.
    #[error("a token is given, and that everybody may read without one: only one of them can hold")]
    TokenAndPublic,
    /// What the system does not do: threads, timers, random numbers.
    #[error("cannot serve")]
    System(#[source] std::io::Error),
}
