//! Credentials that the application provides while it runs: the provider to ask, and its last
//! answer, held until shortly before it expires. Knows names, times and when to ask again;
//! `stores/provided` knows what the fields mean to a cloud and how requests are signed. The Python
//! boundary sets the source.

use std::collections::HashMap;
use std::fmt;
use std::process;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use deltaplane_error::{Error, Kind, Result};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use crate::runtime::handle;

/// The option that names a provider.
pub(crate) const CREDENTIAL_PROVIDER: &str = "credential_provider";
/// Time limit of an answer. A provider may have to ask another service, which has time-outs of its
/// own.
const PATIENCE: Duration = Duration::from_secs(60);
/// A credential is replaced this long before it expires, or a tenth of its life before if that is
/// shorter: requests that were signed with it may still be on their way.
const BEFORE_THE_END_MS: i64 = 300_000;
const PART_OF_ITS_LIFE: i64 = 10;
/// After a failed replacement of a credential that is still valid, the next attempt waits this
/// long.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);
/// After a refusal by the store for which the provider had no newer credential, the next question
/// waits this long.
const AFTER_A_REFUSAL: Duration = Duration::from_secs(10);

/// A provider's answer: settings under the names of the storage options, and when they expire.
#[derive(PartialEq, Eq)]
pub struct ProvidedFields {
    /// Names in lower case with their values, which are secrets.
    pub fields: Vec<(String, String)>,
    /// When they expire, in ms since 1970 (UTC); `None` if they don't.
    pub expires_ms: Option<i64>,
}

impl fmt::Debug for ProvidedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.fields.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ProvidedFields")
            .field("names", &names)
            .field("expires_ms", &self.expires_ms)
            .finish()
    }
}

/// The registry of this process's credential providers.
pub trait CredentialSource: Send + Sync {
    /// Says whether there is a provider of this name, without asking it.
    fn check(&self, provider: &str) -> Result<()>;
    /// Asks a provider. Called on a thread that may block, for one credential at a time.
    fn fetch(&self, provider: &str) -> Result<ProvidedFields>;
}

static SOURCE: OnceLock<Arc<dyn CredentialSource>> = OnceLock::new();

/// Sets the registry that the option `credential_provider` refers to; the first one stays.
pub fn set_credential_source(source: Arc<dyn CredentialSource>) {
    if SOURCE.set(source).is_err() {
        debug!("the process has a source of credentials already; it is kept");
    }
}

/// Providers that were asked, by process and name. A forked child asks again, since another thread
/// may have been asking during the fork.
type Asked = HashMap<(u32, String), Arc<CredentialCache>>;

static ASKED: LazyLock<Mutex<Asked>> = LazyLock::new(Mutex::default);

/// The cache of a provider's last answer, shared by all stores that name it.
pub(crate) fn of(provider: &str) -> Result<Arc<CredentialCache>> {
    let source = SOURCE.get().ok_or_else(|| {
        Error::invalid_argument(format!(
            "the option {CREDENTIAL_PROVIDER} names {provider}, and nobody in this process gives credentials: set a source of them first"
        ))
    })?;
    source.check(provider)?;
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = asked
        .entry((process::id(), provider.to_owned()))
        .or_insert_with(|| Arc::new(CredentialCache::new(provider, Arc::clone(source))));
    Ok(Arc::clone(cache))
}

/// One provider and its last answer.
pub(crate) struct CredentialCache {
    provider: String,
    source: Arc<dyn CredentialSource>,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    /// A question in progress, perhaps of a caller that has timed out: no second question is asked
    /// meanwhile.
    asking: Option<JoinHandle<Result<ProvidedFields>>>,
}

struct Held {
    provided: Arc<ProvidedFields>,
    provided_ms: i64,
    /// When a replacement failed, or the store refused the credential and the provider had no
    /// other.
    failed: Option<Instant>,
    refused: Option<Instant>,
}

impl Held {
    fn is_due(&self, now_ms: i64) -> bool {
        let recently = self
            .failed
            .is_some_and(|failed_at| failed_at.elapsed() < AFTER_A_FAILURE);
        match self.provided.expires_ms {
            None => false,
            Some(end) if now_ms >= end => true,
            Some(end) => now_ms >= due_ms(self.provided_ms, end) && !recently,
        }
    }
}

/// When to replace a credential, from the times when it was provided and when it expires.
fn due_ms(provided_ms: i64, end_ms: i64) -> i64 {
    let life = end_ms.saturating_sub(provided_ms);
    end_ms.saturating_sub((life / PART_OF_ITS_LIFE).min(BEFORE_THE_END_MS))
}

impl fmt::Debug for CredentialCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.provider).finish()
    }
}

impl CredentialCache {
    fn new(provider: &str, source: Arc<dyn CredentialSource>) -> Self {
        CredentialCache {
            provider: provider.to_owned(),
            source,
            state: tokio::sync::Mutex::default(),
        }
    }

    /// A valid credential; asks the provider only if there is none, or the last one expires soon.
    pub(crate) async fn current(&self) -> Result<Arc<ProvidedFields>> {
        let mut state = self.state.lock().await;
        if let Some(held) = &state.held
            && !held.is_due(now_ms())
        {
            return Ok(Arc::clone(&held.provided));
        }
        let failed = match self.ask(&mut state).await {
            Ok(provided) => return Ok(provided),
            Err(e) => e,
        };
        match &mut state.held {
            Some(held) if held.provided.expires_ms.is_some_and(|end| now_ms() < end) => {
                warn!(provider = %self.provider, "the last credential is used on until it ends: {failed}");
                held.failed = Some(Instant::now());
                Ok(Arc::clone(&held.provided))
            }
            _ => Err(failed),
        }
    }

    /// The credential that requests are signed with now, if any.
    pub(crate) async fn held(&self) -> Option<Arc<ProvidedFields>> {
        let state = self.state.lock().await;
        state.held.as_ref().map(|held| Arc::clone(&held.provided))
    }

    /// Another credential than the refused one, if the provider has one.
    pub(crate) async fn instead_of(&self, refused: &ProvidedFields) -> Option<Arc<ProvidedFields>> {
        let mut state = self.state.lock().await;
        let held = state.held.as_mut()?;
        if held.provided.fields != refused.fields {
            return Some(Arc::clone(&held.provided));
        }
        if held
            .refused
            .is_some_and(|refused_at| refused_at.elapsed() < AFTER_A_REFUSAL)
        {
            return None;
        }
        held.refused = Some(Instant::now());
        let provided = match self.ask(&mut state).await {
            Ok(provided) => provided,
            Err(e) => {
                warn!(provider = %self.provider, "the store refused the last credential, and there is no other: {e}");
                return None;
            }
        };
        if provided.fields == refused.fields {
            if let Some(held) = &mut state.held {
                held.refused = Some(Instant::now());
            }
            return None;
        }
        Some(provided)
    }

    async fn ask(&self, state: &mut State) -> Result<Arc<ProvidedFields>> {
        let asking = state.asking.get_or_insert_with(|| {
            let (source, provider) = (Arc::clone(&self.source), self.provider.clone());
            handle().spawn_blocking(move || source.fetch(&provider))
        });
        let answer = tokio::time::timeout(PATIENCE, asking).await;
        let Ok(answer) = answer else {
            return Err(Error::new(
                Kind::StoreUnavailable,
                format!(
                    "the {CREDENTIAL_PROVIDER} {} hasn't answered for {} s; give it time-outs of its own that are shorter",
                    self.provider,
                    PATIENCE.as_secs()
                ),
            ));
        };
        state.asking = None;
        let provided =
            answer.map_err(|e| Error::internal(format!("a question for credentials was cut short: {e}")))??;
        let provided_ms = now_ms();
        if provided.expires_ms.is_some_and(|end| end <= provided_ms) {
            return Err(Error::new(
                Kind::StoreDenied,
                format!(
                    "the {CREDENTIAL_PROVIDER} {} gave a credential that has expired already; let it give a fresh one, with its end in UTC",
                    self.provider
                ),
            ));
        }
        debug!(provider = %self.provider, expires_ms = provided.expires_ms, "credentials were given");
        let provided = Arc::new(provided);
        state.held = Some(Held {
            provided: Arc::clone(&provided),
            provided_ms,
            failed: None,
            refused: None,
        });
        Ok(provided)
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::runtime::block_on;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const HOUR_MS: i64 = 3_600_000;

    /// A provider whose answers depend on the number of questions, which it counts.
    struct Script<F>(AtomicUsize, F);

    impl<F: Fn(usize) -> Result<ProvidedFields> + Send + Sync> CredentialSource for Script<F> {
        fn check(&self, _: &str) -> Result<()> {
            Ok(())
        }

        fn fetch(&self, _: &str) -> Result<ProvidedFields> {
            (self.1)(self.0.fetch_add(1, Ordering::SeqCst))
        }
    }

    fn cache<F: Fn(usize) -> Result<ProvidedFields> + Send + Sync + 'static>(
        script: F,
    ) -> (Arc<Script<F>>, Arc<CredentialCache>) {
        let script = Arc::new(Script(AtomicUsize::new(0), script));
        let cache = CredentialCache::new("p", Arc::clone(&script) as Arc<dyn CredentialSource>);
        (script, Arc::new(cache))
    }

    fn token(n: usize, expires_ms: Option<i64>) -> ProvidedFields {
        ProvidedFields {
            fields: vec![("token".to_owned(), format!("secret-{n}"))],
            expires_ms,
        }
    }

    #[test]
    fn it_is_replaced_five_minutes_or_a_tenth_of_its_life_before_its_end() {
        assert_eq!(due_ms(0, HOUR_MS), HOUR_MS - BEFORE_THE_END_MS);
        assert_eq!(due_ms(0, 600_000), 540_000);
        let held = |end: Option<i64>, failed| Held {
            provided: Arc::new(token(0, end)),
            provided_ms: 0,
            failed,
            refused: None,
        };
        assert!(!held(None, None).is_due(i64::MAX));
        assert!(!held(Some(600_000), None).is_due(539_999));
        assert!(held(Some(600_000), None).is_due(540_000));
        // After a failure it waits, but no longer than until the credential expires.
        assert!(!held(Some(600_000), Some(Instant::now())).is_due(540_000));
        assert!(held(Some(600_000), Some(Instant::now())).is_due(600_000));
    }

    #[test]
    fn racing_callers_ask_once() {
        let (script, cache) = cache(|n| Ok(token(n, Some(now_ms() + HOUR_MS))));
        let threads: Vec<_> = (0..8)
            .map(|_| Arc::clone(&cache))
            .map(|cache| std::thread::spawn(move || block_on(cache.current()).unwrap()))
            .collect();
        for thread in threads {
            assert_eq!(*thread.join().unwrap(), *block_on(cache.current()).unwrap());
        }
        assert_eq!(script.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_refused_one_is_replaced_once_and_a_refusal_that_stays_asks_no_more() {
        let (script, cache) = cache(|n| Ok(token(n.min(1), None)));
        let first = block_on(cache.current()).unwrap();
        let second = block_on(cache.instead_of(&first)).unwrap();
        assert_ne!(*first, *second);
        // A request signed with the first credential gets the second one, without another question.
        assert_eq!(*block_on(cache.instead_of(&first)).unwrap(), *second);
        assert_eq!(script.0.load(Ordering::SeqCst), 2);
        for _ in 0..3 {
            assert!(block_on(cache.instead_of(&second)).is_none());
        }
        assert_eq!(script.0.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn what_has_ended_or_fails_is_an_error_and_what_still_lasts_is_used_on() {
        let ended = cache(|n| Ok(token(n, Some(1_000)))).1;
        assert_eq!(block_on(ended.current()).unwrap_err().kind(), Kind::StoreDenied);
        let broken = cache(|_| Err(Error::new(Kind::StoreUnavailable, "no answer"))).1;
        assert_eq!(block_on(broken.current()).unwrap_err().kind(), Kind::StoreUnavailable);

        let (script, last) = cache(|_| Err(Error::new(Kind::StoreUnavailable, "no answer")));
        let now = now_ms();
        block_on(async {
            last.state.lock().await.held = Some(Held {
                provided: Arc::new(token(7, Some(now + 60_000))),
                provided_ms: now - HOUR_MS,
                failed: None,
                refused: None,
            });
        });
        for _ in 0..2 {
            assert_eq!(*block_on(last.current()).unwrap(), token(7, Some(now + 60_000)));
        }
        assert_eq!(script.0.load(Ordering::SeqCst), 1);
        assert!(block_on(last.held()).is_some());
    }

    #[test]
    fn no_text_shows_it() {
        let text = format!("{:?}", token(1, None));
        assert!(text.contains("token") && !text.contains("secret"), "{text}");
    }
}
