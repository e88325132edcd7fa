//! How often, when and until when a request is tried.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::failure::Failure;
use super::options::RemoteOptions;
use crate::error::{Error, RemoteError, RemoteErrorKind, Result};
use crate::extent::ByteRange;

/// The tries of one request.
#[derive(Debug)]
pub(super) struct Tries {
    path: PathBuf,
    range: Option<ByteRange>,
    most: u32,
    backoff_first: Duration,
    backoff_max: Duration,
    deadline: Option<(Duration, Instant)>,
    begun: u32,
    last_cause: Option<String>,
}

impl Tries {
    pub(super) fn new(
        path: PathBuf,
        range: Option<ByteRange>,
        options: &RemoteOptions,
        deadline: Option<Duration>,
    ) -> Self {
        let deadline = deadline.and_then(|time| Some((time, Instant::now().checked_add(time)?)));
        Self {
            path,
            range,
            most: options.tries.max(1),
            backoff_first: options.backoff_first,
            backoff_max: options.backoff_max,
            deadline,
            begun: 0,
            last_cause: None,
        }
    }

    /// One try, as long as there is time.
    pub(super) async fn attempt<T>(
        &mut self,
        attempt: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.begun += 1;
        let Some((_, until)) = self.deadline else { return attempt.await };
        match timeout_at(until, attempt).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.too_late("")),
        }
    }

    /// How long to wait before the next try.
    ///
    /// # Errors
    /// Returns the failure if there is no further try: it would occur again, or there were enough.
    pub(super) fn wait_after(&mut self, failure: Failure) -> Result<Duration> {
        let (cause, after) = match failure {
            Failure::Passing { cause, after } => (cause, after),
            Failure::Final(kind, cause) => return Err(self.error(kind, cause)),
            Failure::Doubtful(cause) => return Err(self.error(RemoteErrorKind::Refused, cause)),
            Failure::Local(error) => return Err(error),
            Failure::Changed(after) => {
                let cause = format!("it changed: it is now {}", after.for_people());
                return Err(self.error(RemoteErrorKind::Protocol, cause));
            }
        };
        if self.begun >= self.most {
            return Err(self.error(RemoteErrorKind::GaveUp, cause));
        }
        let wait = after.unwrap_or_else(|| jitter(self.backoff()));
        self.last_cause = Some(cause);
        if self.deadline.is_some_and(|(_, until)| until.saturating_duration_since(Instant::now()) <= wait) {
            let asked = after.map(|wait| format!(", and it wants to be left alone for {wait:?}"));
            let Failure::Final(kind, cause) = self.too_late(&asked.unwrap_or_default()) else {
                return Ok(wait);
            };
            return Err(self.error(kind, cause));
        }
        Ok(wait)
    }

    /// The longest wait before the next try.
    fn backoff(&self) -> Duration {
        let doubled = 1_u32.checked_shl(self.begun.saturating_sub(1)).unwrap_or(u32::MAX);
        self.backoff_first.saturating_mul(doubled).min(self.backoff_max)
    }

    fn too_late(&self, more: &str) -> Failure {
        let time = self.deadline.map(|(time, _)| time).unwrap_or_default();
        let last = self.last_cause.as_ref().map(|cause| format!("; the last try: {cause}"));
        let cause = format!("it could not be done within {time:?}{}{more}", last.unwrap_or_default());
        Failure::Final(RemoteErrorKind::Deadline, cause)
    }

    fn error(&self, kind: RemoteErrorKind, cause: String) -> Error {
        let (path, range, tries) = (self.path.clone(), self.range, self.begun);
        Error::Remote(Box::new(RemoteError { path, range, tries, kind, cause }))
    }
}

/// Anything from nothing to all of it, so that many who failed at once do not come back at once.
fn jitter(longest: Duration) -> Duration {
    // Without chance the longest is as good as any.
    let chance = getrandom::u32().unwrap_or(u32::MAX);
    longest.mul_f64(f64::from(chance) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_a_server_that_names_one_is_heard() {
        let options =
            RemoteOptions { tries: 100, deadline: Duration::from_secs(3600), ..RemoteOptions::default() };
        let mut tries = Tries::new("x".into(), None, &options, Some(options.deadline));
        let mut longest = Vec::new();
        for begun in 1..12 {
            tries.begun = begun;
            longest.push(tries.backoff().as_millis());
            let wait = tries.wait_after(Failure::passing("no")).unwrap();
            assert!(wait <= tries.backoff());
        }
        assert_eq!(longest, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000, 10_000]);
        let after = Some(Duration::from_secs(77));
        let wait = tries.wait_after(Failure::Passing { cause: "no".into(), after }).unwrap();
        assert_eq!(wait, Duration::from_secs(77));
    }

    #[test]
    fn a_wait_past_the_deadline_is_not_begun() {
        let options = RemoteOptions { deadline: Duration::from_secs(5), ..RemoteOptions::default() };
        let mut tries = Tries::new("x".into(), None, &options, Some(options.deadline));
        let after = Some(Duration::from_secs(60));
        let error = tries.wait_after(Failure::Passing { cause: "busy".into(), after }).unwrap_err();
        let reported = error.to_string();
        assert!(
            reported.contains("within 5s; the last try: busy, and it wants to be left alone for 60s"),
            "{reported}"
        );
    }
}
