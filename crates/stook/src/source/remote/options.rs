//! [`RemoteOptions`]: how an object is requested.

use std::fmt;
use std::time::Duration;

/// How an object is requested, and with which timeouts.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteOptions {
    /// How often a request is sent at most, the first time included.
    pub tries: u32,
    /// How long one range may take, with all its tries and the waits between them.
    pub deadline: Duration,
    /// How long nothing may be heard from the server before a try counts as failed.
    pub stall: Duration,
    /// The longest wait before the second try. It doubles from try to try; how much of it is
    /// waited, chance says.
    pub backoff_first: Duration,
    /// The longest wait before any try, unless the server names one.
    pub backoff_max: Duration,
    /// The most requests in flight, over all readers of this object. A session has a limit of its
    /// own below this.
    pub requests: usize,
    /// Reads an object whose server cannot send ranges as a whole, once, when it is opened.
    pub whole_file: bool,
    /// Up to this many bytes of an object that is read as a whole are held in memory; more go to a
    /// temporary file.
    pub whole_file_memory: u64,
    /// Settings of the object store by their names in the environment (`AWS_REGION`, upper or lower
    /// case), which they override.
    pub settings: Vec<(String, String)>,
    /// Further headers of requests to `http://` and `https://` addresses.
    pub headers: Vec<(String, String)>,
}

impl Default for RemoteOptions {
    /// Six tries in 60 seconds, 64 requests at once.
    fn default() -> Self {
        Self {
            tries: 6,
            deadline: Duration::from_secs(60),
            stall: Duration::from_secs(15),
            backoff_first: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            requests: 64,
            whole_file: false,
            whole_file_memory: 64 << 20,
            settings: Vec::new(),
            headers: Vec::new(),
        }
    }
}

impl RemoteOptions {
    /// Checks that a request can be sent and answered at all under these options.
    ///
    /// # Errors
    /// Returns an error that names an option that must not be 0.
    pub fn check(&self) -> Result<(), String> {
        if self.tries == 0 {
            return Err("tries is 0; a request is sent at least once".into());
        }
        for (name, time) in [("deadline", self.deadline), ("stall", self.stall)] {
            if time.is_zero() {
                return Err(format!("{name} is 0 seconds, in which no server answers"));
            }
        }
        Ok(())
    }
}

/// Names of settings and headers only: their values may be secrets.
impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        f.debug_struct("RemoteOptions")
            .field("tries", &self.tries)
            .field("deadline", &self.deadline)
            .field("stall", &self.stall)
            .field("backoff_first", &self.backoff_first)
            .field("backoff_max", &self.backoff_max)
            .field("requests", &self.requests)
            .field("whole_file", &self.whole_file)
            .field("whole_file_memory", &self.whole_file_memory)
            .field("settings", &names(&self.settings))
            .field("headers", &names(&self.headers))
            .finish()
    }
}
