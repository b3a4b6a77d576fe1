//! Bounds on retrying a remote store: exponential back-off with jitter, from the options. Knows
//! option names and times, no store.

use std::str::FromStr;
use std::time::Duration;

use deltaplane_error::{Error, Result};
use object_store::{BackoffConfig, RetryConfig};
use rand::RngExt;

use crate::options::Options;

/// The option names of this file; those with a dot are deltalake's.
pub(crate) const KEYS: &[&str] = &[
    "max_retries",
    "retry_timeout",
    "init_backoff",
    "max_backoff",
    "backoff_base",
    "backoff_config.init_backoff",
    "backoff_config.max_backoff",
    "backoff_config.base",
];

/// More than the pauses below leave room for: the time bounds the retries, since a store that
/// refuses requests for some seconds must not end a job.
const MAX_RETRIES: usize = 1000;
/// No retry begins later than this; one request may take its own time-out on top.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
const INIT_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(2);
/// Each pause is drawn between the first one and this multiple of the one before (decorrelated
/// jitter). With 2 the pauses wouldn't grow: the mean of the logarithm of twice a number drawn
/// from 0 to 1 is negative.
const BACKOFF_BASE: f64 = 3.0;

/// The retry rules these options ask for.
pub(crate) fn config(options: &Options) -> Result<RetryConfig> {
    let either = |a: &str, b: &str| options.get(a).or(options.get(b)).map(str::to_owned);
    let init = either("init_backoff", "backoff_config.init_backoff");
    let max = either("max_backoff", "backoff_config.max_backoff");
    let base = either("backoff_base", "backoff_config.base");
    let init_backoff = duration("init_backoff", init.as_deref(), INIT_BACKOFF)?;
    let backoff = BackoffConfig {
        init_backoff,
        max_backoff: duration("max_backoff", max.as_deref(), MAX_BACKOFF.max(init_backoff))?,
        base: number("backoff_base", base.as_deref(), BACKOFF_BASE)?,
    };
    // The jitter is drawn from [init, last × base), which must not be empty.
    if backoff.init_backoff.is_zero() || !backoff.base.is_finite() || backoff.base <= 1.0 {
        return Err(Error::invalid_argument(
            "the options init_backoff and backoff_base must be above 0 and 1",
        ));
    }
    if backoff.max_backoff < backoff.init_backoff {
        return Err(Error::invalid_argument(
            "the option max_backoff must not be below init_backoff",
        ));
    }
    Ok(RetryConfig {
        backoff,
        max_retries: number("max_retries", options.get("max_retries"), MAX_RETRIES)?,
        retry_timeout: duration("retry_timeout", options.get("retry_timeout"), RETRY_TIMEOUT)?,
    })
}

/// How long a failed request may be repeated. An invalid value means the default: stores without
/// this option don't repeat requests.
pub(crate) fn timeout(options: &Options) -> Duration {
    duration("retry_timeout", options.get("retry_timeout"), RETRY_TIMEOUT).unwrap_or(RETRY_TIMEOUT)
}

/// The pause after attempt `attempt`: doubles each time, with jitter so that losers of a race don't
/// retry in step.
pub(crate) fn pause(attempt: u32) -> Duration {
    let longest = INIT_BACKOFF * 2u32.saturating_pow(attempt.min(6));
    rand::rng().random_range(INIT_BACKOFF / 2..=longest)
}

fn number<T: FromStr>(key: &str, value: Option<&str>, default: T) -> Result<T> {
    match value {
        None => Ok(default),
        Some(text) => text
            .trim()
            .parse()
            .map_err(|_| Error::invalid_argument(format!("the option {key} is no number: {text}"))),
    }
}

/// `30`, `30s`, `30 seconds`, `500ms`, `2m`, `1h`.
pub(crate) fn duration(key: &str, value: Option<&str>, default: Duration) -> Result<Duration> {
    let Some(text) = value.map(str::trim) else {
        return Ok(default);
    };
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (amount, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let scale = match unit.trim() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "ms" | "millis" | "millisecond" | "milliseconds" => Some(1e-3),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        "h" | "hour" | "hours" => Some(3600.0),
        _ => None,
    };
    scale
        .zip(amount.parse::<f64>().ok())
        .and_then(|(scale, amount)| Duration::try_from_secs_f64(amount * scale).ok())
        .ok_or_else(|| Error::invalid_argument(format!("the option {key} is no duration such as 30s or 500ms: {text}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn with(key: &str, value: &str) -> Result<RetryConfig> {
        config(&Options::new([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn defaults_and_spellings() {
        let c = config(&Options::default()).unwrap();
        assert_eq!((c.max_retries, c.retry_timeout), (MAX_RETRIES, RETRY_TIMEOUT));
        for text in ["90", "90s", "90 seconds", "1.5m"] {
            assert_eq!(
                with("retry_timeout", text).unwrap().retry_timeout.as_secs(),
                90,
                "{text}"
            );
        }
        assert_eq!(
            with("backoff_config.init_backoff", "20ms")
                .unwrap()
                .backoff
                .init_backoff
                .as_millis(),
            20
        );
        assert_eq!(with("MAX_RETRIES", "0").unwrap().max_retries, 0);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (key, value) in [
            ("max_retries", "many"),
            ("retry_timeout", "3 moons"),
            ("init_backoff", "0"),
            ("backoff_base", "1"),
            ("max_backoff", "1ms"),
        ] {
            let e = with(key, value).unwrap_err();
            assert!(e.to_string().contains(key), "{e}");
        }
    }

    #[test]
    fn pauses_are_bounded() {
        for attempt in 0..100 {
            assert!(pause(attempt) <= INIT_BACKOFF * 64);
        }
    }
}
