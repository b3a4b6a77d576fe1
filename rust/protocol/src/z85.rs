//! Z85 (ZeroMQ RFC 32): four bytes, big-endian, as five printable characters. The encoding of
//! inline deletion vectors, of the names of their files (P042) and of bounds of variants (P169).
//! Knows neither.

const ALPHABET: &[u8; 85] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// The text of these bytes, padded with zeros to a multiple of four.
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(4) * 5);
    for chunk in bytes.chunks(4) {
        let mut rest = (0..4).fold(0_u32, |v, i| v << 8 | u32::from(chunk.get(i).copied().unwrap_or(0)));
        let mut group = [0; 5];
        for slot in group.iter_mut().rev() {
            *slot = ALPHABET.get((rest % 85) as usize).copied().unwrap_or(b'0');
            rest /= 85;
        }
        out.extend(group.map(char::from));
    }
    out
}

/// The bytes of a text; their number is a multiple of four.
///
/// # Errors
/// The error of an invalid text.
pub fn decode(text: &str) -> Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(5) {
        return Err(format!(
            "its Z85 text has {} characters, which isn't a multiple of 5",
            text.len()
        ));
    }
    let mut out = Vec::with_capacity(text.len() / 5 * 4);
    for group in text.as_bytes().chunks(5) {
        let mut value = 0_u64;
        for c in group {
            let digit = ALPHABET
                .iter()
                .position(|a| a == c)
                .ok_or_else(|| format!("its Z85 text holds {:?}, which is no digit of it", char::from(*c)))?;
            value = value * 85 + digit as u64;
        }
        // Some writers' last group exceeds four bytes, although it is cut off; as the reference
        // engine, this drops the excess.
        out.extend(value.to_be_bytes().iter().skip(4));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_published_example() {
        let bytes = [0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B];
        assert_eq!(encode(&bytes), "HelloWorld");
        assert_eq!(decode("HelloWorld").unwrap(), bytes);
    }

    #[test]
    fn hostile_texts_are_refused() {
        for text in ["Hell", "Hel lo", "Hell\"", "Hellö"] {
            assert!(decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_excess_is_dropped() {
        // Another program's last group, of which two bytes count
        assert_eq!(decode("##093").unwrap(), [0x08, 0x6e, 0xb2, 0xd8]);
    }

    proptest! {
        #[test]
        fn round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut padded = bytes.clone();
            padded.resize(bytes.len().div_ceil(4) * 4, 0);
            prop_assert_eq!(decode(&encode(&bytes)).unwrap(), padded);
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in "\\PC{0,30}") {
            let _ = decode(&text);
        }
    }
}
