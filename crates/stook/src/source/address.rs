//! Which source an address means.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::redact::shown;
use super::{FileSource, Source};
use crate::error::{Error, Result};

/// The schemes of objects.
const REMOTE_SCHEMES: &[&str] = &["http", "https", "s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl"];

/// Opens the source at an address: a path, `file://…`, or an object (`s3://bucket/key`,
/// `gs://bucket/key`, `az://container/key`, `http://…`, `https://…`) with the settings of the
/// environment.
///
/// # Errors
/// Returns [`Error::Address`] if it is not valid, or is an object and the crate was built without
/// the feature `remote`; otherwise the error of the system or the server.
pub fn open(address: impl AsRef<OsStr>) -> Result<Arc<dyn Source>> {
    let address = address.as_ref();
    match local_path(address)? {
        Some(path) => Ok(Arc::new(FileSource::open(path)?)),
        None => open_remote(address),
    }
}

/// The same; requests to servers use these options.
///
/// # Errors
/// Returns the errors of [`open`].
#[cfg(feature = "remote")]
pub fn open_with(
    address: impl AsRef<OsStr>,
    options: &super::remote::RemoteOptions,
) -> Result<Arc<dyn Source>> {
    let address = address.as_ref();
    if let Some(path) = local_path(address)? {
        return Ok(Arc::new(FileSource::open(path)?));
    }
    let text = address.to_str().ok_or_else(|| refused(address, "it is not UTF-8"))?;
    Ok(Arc::new(super::remote::RemoteSource::open(text, options)?))
}

/// The path that an address means: what follows `file://`, or all of it where it has no
/// scheme; `None` for an object.
///
/// # Errors
/// Returns [`Error::Address`] if it is invalid.
pub fn local_path(address: impl AsRef<OsStr>) -> Result<Option<PathBuf>> {
    let address = address.as_ref();
    if address.is_empty() {
        // Without the quotes nothing would show what cannot be opened.
        return Err(refused(OsStr::new("\"\""), "the address is empty"));
    }
    match scheme(address) {
        None => Ok(Some(PathBuf::from(address))),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => local(address, rest).map(Some),
        Some((scheme, _)) if is_known(scheme) => Ok(None),
        Some((scheme, _)) => {
            let known = "file, http, https, s3, gs, az";
            Err(refused(address, format!("`{scheme}` is not among what is known: {known}")))
        }
    }
}

/// Refuses what is hardly meant as a path where only one can be: an address (made into a path,
/// `s3://bucket/key` would be three directories), or a host and a path as other programs that copy
/// take them. What is there by that name is a path, and so is what begins with `./` or `/`.
///
/// # Errors
/// Returns [`Error::NotAPath`].
pub fn check_path(given: &Path) -> Result<()> {
    let is_address = scheme(given.as_os_str()).is_some();
    if !is_address && !has_host(given) || given.symlink_metadata().is_ok() {
        return Ok(());
    }
    let shown = shown(&given.to_string_lossy());
    let what = match is_address {
        true => "is an address, and this takes a path on this machine".to_owned(),
        false => format!("looks like a path on another machine: ./{shown} is one on this machine"),
    };
    Err(Error::NotAPath { path: PathBuf::from(shown), what })
}

/// Whether a path begins with a host: `host:/path`, `user@host:path`.
fn has_host(path: &Path) -> bool {
    let mut parts = path.components();
    let Some(Component::Normal(first)) = parts.next() else { return false };
    let first = first.as_encoded_bytes();
    let Some(colon) = first.iter().position(|byte| *byte == b':').filter(|at| *at > 0) else { return false };
    let has_path = first.ends_with(b":") && parts.next().is_some();
    has_path || first.get(..colon).is_some_and(|host| host.contains(&b'@'))
}

/// Whether an address means an object rather than a file.
pub fn is_remote(address: impl AsRef<OsStr>) -> bool {
    scheme(address.as_ref()).is_some_and(|(scheme, _)| is_known(scheme))
}

/// Whether objects have addresses of this scheme, in letters of either case.
pub(super) fn is_known(scheme: &str) -> bool {
    REMOTE_SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme))
}

#[cfg(feature = "remote")]
fn open_remote(address: &OsStr) -> Result<Arc<dyn Source>> {
    open_with(address, &super::remote::RemoteOptions::default())
}

#[cfg(not(feature = "remote"))]
fn open_remote(address: &OsStr) -> Result<Arc<dyn Source>> {
    Err(refused(address, "this program was built without the feature `remote`"))
}

/// Splits off the scheme before `://`, in either case. File names may contain `://` too, after
/// anything that is not the name of a scheme; a single letter is a drive.
fn scheme(address: &OsStr) -> Option<(&str, &str)> {
    let (scheme, rest) = address.to_str()?.split_once("://")?;
    let starts = scheme.len() > 1 && scheme.starts_with(|first: char| first.is_ascii_alphabetic());
    (starts && scheme.chars().all(is_of_scheme)).then_some((scheme, rest))
}

pub(super) fn is_of_scheme(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+-.".contains(c)
}

/// The path of `file://…`.
fn local(address: &OsStr, rest: &str) -> Result<PathBuf> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(refused(address, "a path after file:// begins with `/`"));
    }
    let bytes = percent_decoded(path)
        .ok_or_else(|| refused(address, "each `%` must be followed by two hexadecimal digits"))?;
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }
    #[cfg(not(unix))]
    String::from_utf8(bytes).map(PathBuf::from).map_err(|_| refused(address, "it is not UTF-8"))
}

/// With `%41` for `A`.
pub(super) fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

/// An address that is refused, without what may be a secret in it.
pub(super) fn refused(address: &OsStr, what: impl Into<String>) -> Error {
    Error::Address { path: PathBuf::from(shown(&address.to_string_lossy())), what: what.into() }
}

/// That a path at which nothing is was meant for an address: `https:/host/x`, which is what becomes
/// of one where two slashes are made one, or `s3:bucket/key`. Not where something has the name that
/// looks like a scheme.
pub(super) fn misspelt(path: &Path) -> Option<Error> {
    let mut here = PathBuf::new();
    for part in path.components() {
        here.push(part);
        let scheme =
            part.as_os_str().to_str().and_then(|part| part.split_once(':')).map(|(scheme, _)| scheme);
        let Some(scheme) = scheme.filter(|scheme| is_known(scheme)) else { continue };
        if here.symlink_metadata().is_err() {
            let scheme = scheme.to_ascii_lowercase();
            let what = format!("addresses of objects are written with two slashes: {scheme}://…");
            return Some(refused(path.as_os_str(), what));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_paths() {
        for (address, expected) in [
            ("a/b", None),
            ("./http://x", None),
            ("C://x", None),
            ("://x", None),
            ("http://x", Some("http")),
            ("s3://b/k", Some("s3")),
            ("ftp://x", Some("ftp")),
            ("HTTPS://x", Some("HTTPS")),
        ] {
            assert_eq!(scheme(OsStr::new(address)).map(|(scheme, _)| scheme), expected, "{address}");
        }
        assert!(
            is_remote("HTTPS://h/k")
                && is_remote("s3://b/k")
                && !is_remote("file:///k")
                && !is_remote("ftp://k")
        );
        let error = open("ftp://user:word@host/x?sig=1").unwrap_err().to_string();
        assert!(error.contains("`ftp` is not among") && !error.contains("word"), "{error}");
    }

    #[test]
    fn what_was_meant_for_an_address_is_reported_and_a_file_of_that_name_is_one() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["https:/me:word@h/x?sig=1", "HTTP:me:word@h", "s3:/bucket/key", "az:\\\\me:word@h"] {
            let path = directory.path().join(name);
            let error = open(path.to_str().unwrap()).unwrap_err();
            assert!(matches!(error, Error::Address { .. }), "{error:?}");
            let reported = error.to_string();
            assert!(
                reported.contains("://…") && !reported.contains("word") && !reported.contains("sig"),
                "{reported}"
            );
        }
        for name in ["https:", "s3:key", "gs:"] {
            std::fs::write(directory.path().join(name), "bytes").unwrap();
            let path = directory.path().join(name);
            assert_eq!(open(&path).unwrap().len(), 5);
            let error = open(path.join("not there")).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{error:?}");
        }
    }

    #[test]
    fn file_addresses_are_decoded() {
        let path = |address: &str| local(OsStr::new(address), address.strip_prefix("file://").unwrap());
        assert_eq!(path("file:///a%20b").unwrap(), Path::new("/a b"));
        assert_eq!(path("file://localhost/a").unwrap(), Path::new("/a"));
        for address in ["file://host/a", "file:///a%2", "file:///a%+1", "file:///%zz"] {
            assert!(matches!(path(address), Err(Error::Address { .. })), "{address}");
            assert!(matches!(local_path(address), Err(Error::Address { .. })), "{address}");
        }
        for (address, meant) in [
            ("FILE:///a%20b#c", Some("/a b#c")),
            ("a/b.stook//k", Some("a/b.stook//k")),
            ("C://x", Some("C://x")),
            ("s3://bucket/key", None),
            ("HTTPS://h/k", None),
        ] {
            assert_eq!(local_path(address).unwrap().as_deref(), meant.map(Path::new), "{address}");
        }
        for address in ["", "ftp://host/x"] {
            assert!(matches!(local_path(address), Err(Error::Address { .. })), "{address}");
        }
    }
}
