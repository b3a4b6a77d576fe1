//! Storage options: a case-insensitive map that never shows a secret, and the redactor that keeps
//! secrets out of other programs' error texts. Knows key names, not what they do.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use deltaplane_error::{Error, Result};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Storage options under the key names that deltalake and object_store users know, in any case.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// Takes over a map; of keys that differ only in case the last one counts.
    pub fn new(map: impl IntoIterator<Item = (String, String)>) -> Self {
        Options(
            map.into_iter()
                .map(|(key, value)| (key.to_ascii_lowercase(), value))
                .collect(),
        )
    }

    /// The value of a key; case is ignored.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(&key.to_ascii_lowercase()).map(String::as_str)
    }

    /// All pairs with lower-case keys, in the order of the keys. Values may be secrets.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Removes the secrets of these options from a text that other code made.
    pub fn scrub(&self, text: &str) -> String {
        Redactor::new(self.iter()).scrub(text)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |k: &str, v: &str| {
            if is_secret(k, v) {
                REDACTED.to_owned()
            } else {
                v.to_owned()
            }
        };
        f.debug_map()
            .entries(self.iter().map(|(k, v)| (k.to_owned(), shown(k, v))))
            .finish()
    }
}

const REDACTED: &str = "[redacted]";

/// Prefers hiding too much: any key that may carry a credential, any URL that may hold one.
pub(crate) fn is_secret(key: &str, value: &str) -> bool {
    const SECRET: &[&str] = &["key", "secret", "token", "pass", "sas", "credential", "bearer"];
    const HARMLESS_ENDS: &[&str] = &["_file", "_path", "_uri", "_type", "_enabled", "_url"];
    const HARMLESS: &[&str] = &[
        "google_application_credentials",
        "application_credentials",
        "credential_provider",
    ];
    let named = SECRET.iter().any(|word| key.contains(word))
        && !HARMLESS_ENDS.iter().any(|end| key.ends_with(end))
        && !HARMLESS.contains(&key);
    // A service account may be given as a path or, by mistake, as the JSON itself.
    named || value.contains('@') || value.contains("sig=") || value.contains("PRIVATE KEY")
}

/// A setting that is on or off, in the spellings of object_store.
pub(crate) fn flag(name: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" | "y" => Ok(true),
        "0" | "false" | "off" | "no" | "n" => Ok(false),
        _ => Err(Error::invalid_argument(format!(
            "the option {name} is neither true nor false"
        ))),
    }
}

/// A setting that is a size: `1073741824`, `1GiB`, `500 MB`.
pub(crate) fn bytes(name: &str, text: &str) -> Result<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (amount, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let scale: Option<u64> = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "kb" => Some(1_000),
        "mb" => Some(1_000_000),
        "gb" => Some(1_000_000_000),
        "tb" => Some(1_000_000_000_000),
        "k" | "kib" => Some(1 << 10),
        "m" | "mib" => Some(1 << 20),
        "g" | "gib" => Some(1 << 30),
        "t" | "tib" => Some(1 << 40),
        _ => None,
    };
    let bytes = scale
        .zip(amount.parse().ok())
        .and_then(|(s, n): (u64, u64)| n.checked_mul(s));
    bytes.ok_or_else(|| {
        Error::invalid_argument(format!(
            "{name} is no number of bytes such as 1073741824 or 1GiB: {text}"
        ))
    })
}

/// Removes known secrets from text that other code made.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    known: Vec<String>,
    /// Secrets that a credential provider returned later; shared by all clones.
    learned: Arc<RwLock<VecDeque<String>>>,
}

/// How many provided secrets are remembered, for requests that are still on their way; older
/// credentials have expired.
const REMEMBERED: usize = 64;

/// Shorter values are no credentials, and replacing them would make messages unreadable.
const SHORTEST_SECRET: usize = 4;
/// A shorter piece of a compound secret may be an ordinary word.
const SHORTEST_PIECE: usize = 12;

impl Redactor {
    /// Learns the secrets among these pairs, as they are, percent-encoded, and in their pieces
    /// (the signature of a shared-access token, the lines of a private key).
    pub(crate) fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut secrets = Vec::new();
        for (key, value) in pairs {
            if value.len() < SHORTEST_SECRET || !is_secret(&key.to_ascii_lowercase(), value) {
                continue;
            }
            secrets.push(value.to_owned());
            secrets.push(utf8_percent_encode(value, NON_ALPHANUMERIC).to_string());
            let inside = |c: char| c.is_ascii_alphanumeric() || "+/_-.%".contains(c);
            for piece in value.split(|c| !inside(c)) {
                if piece.len() >= SHORTEST_PIECE {
                    secrets.push(piece.to_owned());
                    secrets.push(utf8_percent_encode(piece, NON_ALPHANUMERIC).to_string());
                }
            }
        }
        // The longest first, so that no part of a secret is left beside a replaced piece.
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Redactor {
            known: secrets,
            learned: Arc::default(),
        }
    }

    /// Learns more secrets, as they are and percent-encoded.
    pub(crate) fn learn<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        let mut learned = self.learned.write().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_SECRET) {
            for text in [
                secret.to_owned(),
                utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string(),
            ] {
                if !learned.contains(&text) {
                    learned.push_back(text);
                }
            }
        }
        let old = learned.len().saturating_sub(REMEMBERED);
        learned.drain(..old);
    }

    pub(crate) fn scrub(&self, text: &str) -> String {
        let learned = self.learned.read().unwrap_or_else(PoisonError::into_inner);
        learned.iter().chain(&self.known).fold(text.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) {
                text.replace(secret.as_str(), REDACTED)
            } else {
                text
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Options {
        Options::new(pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())))
    }

    #[test]
    fn keys_have_no_case() {
        let o = options(&[("AWS_Region", "eu-west-1")]);
        assert_eq!(o.get("aws_region"), Some("eu-west-1"));
        assert_eq!(o.get("AWS_REGION"), Some("eu-west-1"));
        assert_eq!(o, options(&[("aws_region", "eu-west-1")]));
    }

    #[test]
    fn debug_shows_settings_and_hides_secrets() {
        let o = options(&[
            ("AWS_ACCESS_KEY_ID", "AKIAHIDE"),
            ("aws_secret_access_key", "HIDE1"),
            ("session_token", "HIDE2"),
            ("sas_token", "HIDE3"),
            ("account_key", "HIDE4"),
            ("client_secret", "HIDE5"),
            ("google_service_account_key", "HIDE6"),
            ("bearer_token", "HIDE7"),
            ("password", "HIDE8"),
            ("proxy_url", "http://me:HIDE9@proxy"),
            ("endpoint", "https://x/?sig=HIDE"),
            ("region", "eu-west-1"),
            ("aws_web_identity_token_file", "/var/token"),
        ]);
        let text = format!("{o:?}");
        assert!(!text.contains("HIDE"), "{text}");
        assert!(text.contains("eu-west-1") && text.contains("/var/token"), "{text}");
    }

    #[test]
    fn redactor_knows_encodings_and_pieces() {
        let r = Redactor::new([
            ("account_key", "ab+c/def=="),
            ("sas_token", "sv=2024&sig=abcdefghijkl%2Bmno%3D"),
            ("region", "eu-west-1"),
        ]);
        let text = r.scrub("k=ab%2Bc%2Fdef%3D%3D ab+c/def== sig abcdefghijkl%2Bmno%3D eu-west-1");
        assert!(!text.contains("def") && !text.contains("ghijkl"), "{text}");
        assert!(text.contains("eu-west-1"));
        let later = r.clone();
        for n in 0..100 {
            later.learn([format!("given+{n}/x").as_str()]);
        }
        let text = r.scrub("given+99/x given%2B99%2Fx ab+c/def==");
        assert!(!text.contains("99") && !text.contains("def"), "{text}");
    }
}
