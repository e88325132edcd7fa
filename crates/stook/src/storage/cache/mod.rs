//! What the directories of caches have in common: who may write there, names, locks, a salt.

mod directory;
pub(crate) mod salt;

pub(crate) use directory::{
    About, CacheDirectory, FileId, Locked, about, punch, read_up_to, set_modified, stamp,
};

/// The names of the files of an entry begin with its key, in hexadecimal digits.
pub(crate) fn name_of(key: &[u8; 32]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    key.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Whether the name of a file may begin so: other files in the directory are left alone.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hexadecimal_digits() {
        let key: [u8; 32] = std::array::from_fn(|at| if at == 0 { 0xaf } else { at as u8 });
        assert!(name_of(&key).starts_with("af0102") && name_of(&key).ends_with("1e1f"));
        assert_eq!(name_of(&key).len(), 64);
    }
}
