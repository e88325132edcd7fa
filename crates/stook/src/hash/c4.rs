//! Values of C4 as text: `c4`, and 88 digits to the base 58, the highest first.

/// How many bytes a value has.
pub(super) const LEN: usize = 64;
/// How many characters its text has.
pub(super) const TEXT_LEN: usize = 90;
/// What it begins with.
const PREFIX: &[u8] = b"c4";
const DIGITS: usize = TEXT_LEN - PREFIX.len();
/// The digits from 0 to 57: those that look alike are left out. Their order is that of ASCII, so
/// texts are in the order of their values.
const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// The text of a value; `None` if it has not [`LEN`] bytes.
pub(super) fn to_text(value: &[u8]) -> Option<String> {
    let mut rest: [u8; LEN] = value.try_into().ok()?;
    let mut text = [b'1'; TEXT_LEN];
    for (at, character) in text.iter_mut().enumerate().rev() {
        *character = match PREFIX.get(at) {
            Some(prefix) => *prefix,
            None => ALPHABET.get(divide(&mut rest)).copied().unwrap_or(b'1'),
        };
    }
    Some(text.iter().map(|character| char::from(*character)).collect())
}

/// Divides a number by 58, and returns the rest.
fn divide(number: &mut [u8; LEN]) -> usize {
    let mut rest = 0;
    for byte in number {
        let value = rest * 256 + usize::from(*byte);
        // Less than 58 × 256 by 58 is less than 256.
        *byte = (value / 58) as u8;
        rest = value % 58;
    }
    rest
}

/// The value of a text; `None` if it is none: it has another length, a character that is no digit,
/// or is too large a number.
pub(super) fn from_text(text: &[u8]) -> Option<[u8; LEN]> {
    let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == DIGITS)?;
    let mut value = [0; LEN];
    for digit in digits {
        let mut carry = ALPHABET.iter().position(|character| character == digit)?;
        for byte in value.iter_mut().rev() {
            carry += usize::from(*byte) * 58;
            *byte = (carry % 256) as u8;
            carry /= 256;
        }
        if carry != 0 {
            return None;
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_values_lead_to_one_another_up_to_the_highest() {
        let mut middle = [0; LEN];
        middle[20] = 7;
        for value in [[0; LEN], middle, [0xff; LEN]] {
            let text = to_text(&value).unwrap();
            assert_eq!((text.len(), &text[..2]), (TEXT_LEN, "c4"));
            assert_eq!(from_text(text.as_bytes()), Some(value));
        }
        assert_eq!(to_text(&[0; LEN]).unwrap(), format!("c4{}", "1".repeat(88)));
        assert_eq!(to_text(&[0; 32]), None);
    }

    #[test]
    fn what_is_no_text_of_a_value_has_none() {
        let highest = to_text(&[0xff; LEN]).unwrap();
        for text in [
            String::new(),
            "c4".to_owned(),
            highest.replacen("c4", "C4", 1),
            format!("{highest}1"),
            // The zero is no digit, and the last number is more than 64 bytes hold.
            format!("c4{}", "0".repeat(88)),
            format!("c4{}", "z".repeat(88)),
        ] {
            assert_eq!(from_text(text.as_bytes()), None, "{text}");
        }
    }
}
