//! LIKE patterns with Spark's rules: `%` any text, `_` one code point, the escape character only
//! before a wildcard or itself. Compiled once per predicate; knows nothing of arrays.

use crate::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Text(String),
    One,
    Any,
}

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pattern {
    tokens: Vec<Token>,
}

impl Pattern {
    /// Compiles a LIKE pattern.
    pub(crate) fn like(pattern: &str, escape: char) -> Result<Pattern> {
        let mut tokens = Vec::new();
        let mut text = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            // The escape character comes first: it may be a wildcard itself.
            if c == escape {
                match chars.next() {
                    Some(e) if e == '%' || e == '_' || e == escape => text.push(e),
                    Some(_) => return Err(bad_escape(pattern, escape, "stands before a character that needs none")),
                    None => return Err(bad_escape(pattern, escape, "is the last character")),
                }
            } else if c == '%' || c == '_' {
                if !text.is_empty() {
                    tokens.push(Token::Text(std::mem::take(&mut text)));
                }
                let token = if c == '_' { Token::One } else { Token::Any };
                if token == Token::One || tokens.last() != Some(&Token::Any) {
                    tokens.push(token);
                }
            } else {
                text.push(c);
            }
        }
        if !text.is_empty() {
            tokens.push(Token::Text(text));
        }
        Ok(Pattern { tokens })
    }

    /// The pattern of all texts that begin with `prefix`.
    pub(crate) fn prefix(prefix: &str) -> Pattern {
        let mut tokens = vec![Token::Any];
        if !prefix.is_empty() {
            tokens.insert(0, Token::Text(prefix.to_owned()));
        }
        Pattern { tokens }
    }

    /// The text that this pattern matches and nothing else, if it has no wildcard.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self.tokens.as_slice() {
            [] => Some(""),
            [Token::Text(t)] => Some(t),
            _ => None,
        }
    }

    /// The text with which every match begins, and whether everything beginning so matches.
    pub(crate) fn leading(&self) -> (&str, bool) {
        match self.tokens.as_slice() {
            [Token::Text(t), rest @ ..] => (t, rest == [Token::Any]),
            [Token::Any] => ("", true),
            _ => ("", false),
        }
    }

    /// Whether the whole text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        // Greedy with one point of return: the last `%` seen. Linear for a fixed pattern.
        let (mut tokens, mut rest) = (self.tokens.as_slice(), text);
        let mut retry: Option<(&[Token], &str)> = None;
        loop {
            let stepped = match tokens.split_first() {
                Some((Token::Any, after)) => {
                    retry = Some((after, rest));
                    Some((after, rest))
                }
                Some((Token::One, after)) => drop_char(rest).map(|r| (after, r)),
                Some((Token::Text(t), after)) => rest.strip_prefix(t.as_str()).map(|r| (after, r)),
                None if rest.is_empty() => return true,
                None => None,
            };
            (tokens, rest) = match (stepped, retry) {
                (Some(next), _) => next,
                (None, Some((after, from))) => match drop_char(from) {
                    Some(shorter) => {
                        retry = Some((after, shorter));
                        (after, shorter)
                    }
                    None => return false,
                },
                (None, None) => return false,
            };
        }
    }
}

fn drop_char(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    chars.next().map(|_| chars.as_str())
}

fn bad_escape(pattern: &str, escape: char, what: &str) -> Error {
    Error::invalid_argument(format!(
        "in the LIKE pattern '{pattern}' the escape character {escape} {what}: write it before %, _ or itself"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn wildcards() {
        let is = |p: &str, t: &str| Pattern::like(p, '\\').unwrap().matches(t);
        assert!(is("a%c_e", "abbbcde") && is("%", "") && is("_", "é") && is("%a%", "xay") && is("", ""));
        assert!(is("%ab", "aab") && is("a%_b", "axxb") && is("_\n%", "x\ny"));
        assert!(!is("_", "") && !is("a%c", "ab") && !is("abc", "abcd") && !is("", "a"));
        assert!(is("50\\%", "50%") && !is("50\\%", "500") && is("a\\\\b", "a\\b"));
        assert!(Pattern::like("a\\b", '\\').is_err() && Pattern::like("a\\", '\\').is_err());
        assert!(Pattern::like("!%!!%", '!').unwrap().matches("%!x"));
    }

    #[test]
    fn leading_text() {
        let p = |t| Pattern::like(t, '\\').unwrap();
        assert_eq!(p("abc%").leading(), ("abc", true));
        assert_eq!(p("abc_%").leading(), ("abc", false));
        assert_eq!(p("%abc").leading(), ("", false));
        assert_eq!(p("abc").literal(), Some("abc"));
    }
}
