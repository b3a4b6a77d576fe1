//! Text that must not reach messages, logs or `Debug`: tokens and credentials.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A token or credential. `Debug` hides it; only requests and stores read it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// A random token of 256 bits.
    pub fn random() -> Self {
        let bytes: [u8; 32] = rand::random();
        Secret(format!("dpc_{}", hex(&bytes)))
    }

    /// The text itself, for a header or a signature.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// SHA-256 of the text, in hexadecimal digits: what the store keeps of a token.
    pub(crate) fn digest(&self) -> String {
        hex(&Sha256::digest(self.0.as_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A UUID that is the same for the same text.
pub(crate) fn uuid_of(text: &str) -> uuid::Uuid {
    let mut bytes = [0; 16];
    for (target, source) in bytes.iter_mut().zip(Sha256::digest(text.as_bytes())) {
        *target = source;
    }
    uuid::Uuid::from_bytes(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_text() {
        let secret = Secret::new("dapi-123");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert!(!format!("{:?}", Some(vec![secret])).contains("dapi"));
    }

    #[test]
    fn digests_are_of_sha_256() {
        assert_eq!(
            Secret::new("abc").digest(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_ne!(Secret::random(), Secret::random());
    }
}
