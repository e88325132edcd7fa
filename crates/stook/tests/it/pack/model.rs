//! A pack against a `BTreeMap`.
