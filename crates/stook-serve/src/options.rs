//! [`ServeOptions`]: where to listen, for whom, and what a client may take.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How something is served.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where to listen. Port 0 is any that is free.
    pub listen: SocketAddr,
    /// What a client has to give, if anything.
    pub token: Option<Token>,
    /// Others may connect without a token: together with one it is refused.
    pub public: bool,
    /// Connections at a time. Others wait until one ends.
    pub connections: usize,
    /// How long a client may take for the head of a request, from the end of the answer before it
    /// on.
    pub head_time: Duration,
    /// A client that waits to be sent to for this long in all has to take at least
    /// [`least_bytes`](Self::least_bytes) meanwhile.
    pub pace_time: Duration,
    /// See [`pace_time`](Self::pace_time).
    pub least_bytes: u64,
    /// How long the layout of a directory as an archive is kept after it was last used, so that a
    /// download can be resumed without listing the directory again.
    pub keep_layouts: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            token: None,
            public: false,
            connections: 64,
            head_time: Duration::from_secs(20),
            pace_time: Duration::from_secs(60),
            least_bytes: 64 << 10,
            keep_layouts: Duration::from_secs(600),
        }
    }
}

/// A secret that clients have to give. Only its hash is kept, and never shown.
#[derive(Clone)]
pub struct Token(blake3::Hash);

impl Token {
    /// Of the bytes that clients give.
    pub fn new(secret: &[u8]) -> Self {
        Self(blake3::hash(secret))
    }

    /// Whether this is it. Hashes are compared in constant time.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        self.0 == blake3::hash(given)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
