//! Which file a record becomes in a directory: the one that its key names, unless another record
//! has that name.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::pack::key::{Key, KeyValue};

/// Another record got the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("maps to the same file name as {other}")]
pub struct Namesake {
    /// Its key.
    pub other: Key,
}

/// The names that records got in a directory. A number is named as it is shown, and the bytes of
/// another key may be just that: the number 7 is `id:7` there, and so are the bytes `id:7`.
#[derive(Debug, Default)]
pub struct FileNames {
    /// The keys of which another could have the same name; of the others none can.
    taken: HashSet<Key>,
}

impl FileNames {
    /// The name of the record with a key, which no other gets from then on. The same record may be
    /// named again.
    ///
    /// # Errors
    /// [`Namesake`].
    pub fn take<'k>(&mut self, key: &'k Key) -> Result<Cow<'k, [u8]>, Namesake> {
        let name = match key.value() {
            KeyValue::Bytes(bytes) => Cow::Borrowed(bytes),
            KeyValue::Id(_) => Cow::Owned(key.to_string().into_bytes()),
        };
        if let Some(other) = namesake(key, &name) {
            if self.taken.contains(&other) {
                return Err(Namesake { other });
            }
            self.taken.insert(key.clone());
        }
        Ok(name)
    }
}

/// The other key that has this name, if there can be one.
fn namesake(key: &Key, name: &[u8]) -> Option<Key> {
    match key.value() {
        KeyValue::Id(_) => Key::bytes(name).ok(),
        KeyValue::Bytes(_) => {
            let number = Key::parse(name).ok().filter(|number| number.as_bytes().is_none());
            // `id:07` is the same number, and another name.
            number.filter(|number| number.to_string().as_bytes() == name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_records_with_one_name_the_first_has_it() {
        let (number, text) = (Key::id(7), Key::bytes("id:7").unwrap());
        for (first, second) in [(&number, &text), (&text, &number)] {
            let mut names = FileNames::default();
            for _ in 0..2 {
                assert_eq!(names.take(first).unwrap().as_ref(), b"id:7");
                assert_eq!(names.take(second).unwrap_err(), Namesake { other: first.clone() });
            }
        }
    }

    #[test]
    fn names_that_no_other_record_can_have_are_not_kept() {
        let mut names = FileNames::default();
        for name in ["id:07", "id:x", "a", "", "bytes:id:7"] {
            let key = Key::bytes(name).unwrap();
            assert_eq!(names.take(&key).unwrap().as_ref(), name.as_bytes());
        }
        assert!(names.taken.is_empty());
        assert_eq!(names.take(&Key::id(7)).unwrap().as_ref(), b"id:7");
    }
}
