//! Why a try failed, and whether another may help.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use object_store::client::{HttpError, HttpErrorKind};

use super::response::State;
use crate::error::{Error, RemoteErrorKind};
use crate::source::Origin;

/// Why a try failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another try may help; the server may have said when.
    Passing { cause: String, after: Option<Duration> },
    /// It would fail again.
    Final(RemoteErrorKind, String),
    /// The object has changed.
    Changed(Box<State>),
    /// This machine could not do its part.
    Local(Error),
    /// The server says that a condition or a range does not hold: probably the object has changed.
    Doubtful(String),
}

impl Failure {
    pub(super) fn passing(cause: impl Into<String>) -> Self {
        Self::Passing { cause: cause.into(), after: None }
    }

    pub(super) fn protocol(cause: impl Into<String>) -> Self {
        Self::Final(RemoteErrorKind::Protocol, cause.into())
    }

    /// With the address where it happened, if another one was asked.
    pub(super) fn found_at(self, target: Option<&Origin>) -> Self {
        let Some(target) = target else { return self };
        let with_place = |cause: String| format!("{cause} (found at {})", target.name());
        match self {
            Self::Passing { cause, after } => Self::Passing { cause: with_place(cause), after },
            Self::Final(kind, cause) => Self::Final(kind, with_place(cause)),
            Self::Doubtful(said) => Self::Doubtful(with_place(said)),
            // A state says itself where it was found, and this machine is nowhere else.
            failure @ (Self::Changed(_) | Self::Local(_)) => failure,
        }
    }

    /// What kept a request from being answered.
    pub(super) fn of_transport(error: &HttpError) -> Self {
        // Its own text is that of its source, with two words before it.
        let cause = chain(error.source().unwrap_or(error));
        match error.kind() {
            // A certificate that is not believed now will not be believed in a second.
            _ if is_of_tls(error) => Self::Final(RemoteErrorKind::Refused, cause),
            HttpErrorKind::Connect
            | HttpErrorKind::Request
            | HttpErrorKind::Timeout
            | HttpErrorKind::Interrupted => Self::passing(cause),
            _ => Self::Final(RemoteErrorKind::Protocol, cause),
        }
    }

    /// Why a request was not sent: usually because there are no credentials. `advice` says what to
    /// do if none were given, so that the metadata service of the machine was tried.
    pub(super) fn of_store(error: &object_store::Error, advice: Option<&str>) -> Self {
        let said = chain(error);
        if let Some(advice) = advice.filter(|_| is_of_metadata(&said)) {
            let cause = format!("there are no credentials, and this machine gives none: {advice}");
            return Self::Final(RemoteErrorKind::Denied, cause);
        }
        let cause = format!("the request could not be signed: {said}");
        let mut at: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(error) = at {
            if let Some(error) = error.downcast_ref::<HttpError>() {
                return match Self::of_transport(error) {
                    Self::Passing { .. } => Self::passing(cause),
                    _ => Self::Final(RemoteErrorKind::Denied, cause),
                };
            }
            at = error.source();
        }
        Self::Final(RemoteErrorKind::Denied, cause)
    }
}

/// Whether an error is of the service that provides credentials to virtual machines and containers.
fn is_of_metadata(said: &str) -> bool {
    ["169.254.", "/latest/", "metadata"].iter().any(|mark| said.contains(mark))
}

/// An [`io::Error`] around another error does not count it among its sources.
fn is_of_tls(error: &(dyn StdError + 'static)) -> bool {
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    error.is::<rustls::Error>()
        || inner.is_some_and(|inner| is_of_tls(inner))
        || error.source().is_some_and(is_of_tls)
}

/// The messages of an error and its sources, each once, without possible secrets.
pub(super) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    let mut at = Some(error);
    while let Some(error) = at {
        let said = error.to_string();
        if !text.contains(&said) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&said);
        }
        at = error.source();
    }
    let words: Vec<_> = text.split_whitespace().collect();
    crate::source::shown_in(&words.join(" "))
}
