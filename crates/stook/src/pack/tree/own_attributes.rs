//! Attributes that a caller adds to those that a file has.

use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, Name};

/// The caller's own attributes of what has a key, which is a path; `None` when the caller failed,
/// which ends packing.
pub type OwnAttributes<'a> = Box<dyn Fn(&[u8]) -> Option<Attributes> + Send + Sync + 'a>;

/// Adds the caller's own attributes to those of a file. What the format defines is the file's.
///
/// # Errors
/// [`Error::Invalid`] when one has a name that the format defines, or they are too long.
pub(crate) fn add(own: Attributes, attributes: &mut Attributes) -> Result<()> {
    for (name, value) in own.iter() {
        if let Name::Id(id @ ..=127) = name {
            let why = format!("the attribute {id} is what the file has, and cannot be the caller's own");
            return Err(Error::Invalid(why));
        }
        attributes.set(name.clone(), value.clone());
    }
    attributes.encode().map(drop)
}
