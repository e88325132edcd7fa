//! Names of files, and which hash functions a list may have.

use super::fault::MhlFault;
use crate::hash::HashKind;

/// The directory, within the one that is listed, that has the lists and their chain.
pub const FOLDER: &str = "ascmhl";
/// The chain.
pub const CHAIN_NAME: &str = "ascmhl_chain.xml";
/// The functions that a list may have, in the order in which it has them.
pub const KINDS: [HashKind; 6] =
    [HashKind::C4, HashKind::Md5, HashKind::Sha1, HashKind::Xxh128, HashKind::Xxh3, HashKind::Xxh64];
const ENDING: &[u8] = b".mhl";
/// Bytes of the name of a folder that are taken into the name of a list.
const FOLDER_NAME_MAX: usize = 200;

/// These functions in the order in which a list has them, each once.
///
/// # Errors
/// Returns an error if a list may not have one of them: SHA-256 and BLAKE3.
pub fn checked_kinds(kinds: &[HashKind]) -> Result<Vec<HashKind>, MhlFault> {
    if let Some(other) = kinds.iter().find(|kind| !KINDS.contains(kind)) {
        return Err(MhlFault::Kind(*other));
    }
    Ok(KINDS.into_iter().filter(|kind| kinds.contains(kind)).collect())
}

/// The name of a list: `0001_A002R2EC_2020-01-16_091500Z.mhl`, from its generation, the name of the
/// directory that it is of, and the date as [`list_date`](crate::format::list_date) writes it. What
/// cannot stand in a name of a file everywhere is written as `_`.
pub fn list_name(generation: u32, folder: &[u8], date: &str) -> String {
    let plain = |character: char| {
        let is_special = character.is_control() || "/\\:*?\"<>|\u{fffd}".contains(character);
        if is_special { '_' } else { character }
    };
    let mut folder: String = String::from_utf8_lossy(folder).chars().map(plain).collect();
    if folder.is_empty() {
        folder.push_str("root");
    }
    let end = (0..=FOLDER_NAME_MAX).rev().find(|end| folder.is_char_boundary(*end)).unwrap_or(0);
    folder.truncate(end);
    format!("{generation:04}_{folder}_{date}.mhl")
}

/// The generation of a list, by its name: the number before the first `_`, of four digits or more;
/// `None` if this is no name of a list.
pub fn generation_of(name: &[u8]) -> Option<u32> {
    let stem = name.strip_suffix(ENDING)?;
    let number = stem.split(|byte| *byte == b'_').next()?;
    if number.len() < 4 || !number.iter().all(u8::is_ascii_digit) || stem.ends_with(b"_") {
        return None;
    }
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_generation_and_the_folder() {
        let name = |folder: &[u8]| list_name(7, folder, "2020-01-16_091500Z");
        assert_eq!(name(b"A002R2EC"), "0007_A002R2EC_2020-01-16_091500Z.mhl");
        assert_eq!(name(b"a:\xff\n"), "0007_a____2020-01-16_091500Z.mhl");
        assert_eq!(name(b""), "0007_root_2020-01-16_091500Z.mhl");
        assert!(name("ä".repeat(300).as_bytes()).len() <= 255);
        assert_eq!(generation_of(name(b"a").as_bytes()), Some(7));
        for (name, generation) in [
            ("0001.mhl", Some(1)),
            ("12345_a.mhl", Some(12345)),
            ("._0001_a.mhl", None),
            ("001_a.mhl", None),
            ("0001_.mhl", None),
            ("0001_a.xml", None),
            ("99999999999_a.mhl", None),
            ("a.mhl", None),
        ] {
            assert_eq!(generation_of(name.as_bytes()), generation, "{name}");
        }
    }

    #[test]
    fn functions_that_a_list_may_not_have_are_refused_and_the_others_are_in_its_order() {
        let kinds = [HashKind::Xxh64, HashKind::C4, HashKind::Xxh64];
        assert_eq!(checked_kinds(&kinds), Ok(vec![HashKind::C4, HashKind::Xxh64]));
        for kind in [HashKind::Sha256, HashKind::Blake3] {
            let message = checked_kinds(&[HashKind::C4, kind]).unwrap_err().to_string();
            assert!(message.contains("is not allowed in ASC MHL: take c4"), "{message}");
        }
    }
}
