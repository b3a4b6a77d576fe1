//! Credentials that the application gives while it runs: whom to ask, and what was given until
//! shortly before its end. Knows names, times and when to ask again; what the fields mean to a
//! cloud and how requests are signed with them is `stores/provided`. The Python boundary sets the
//! source.

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
/// How long an answer is waited for. A provider may have to ask another service, which has
/// time-outs of its own.
const PATIENCE: Duration = Duration::from_secs(60);
/// A credential is replaced this long before its end, or a tenth of its life where that is shorter:
/// requests that were signed with it may be on their way for a while.
const BEFORE_THE_END_MS: i64 = 300_000;
const PART_OF_ITS_LIFE: i64 = 10;
/// After a failure to replace one that still lasts, the provider is left alone for this long.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);
/// A store that refuses what the provider goes on to give means it: it isn't asked at every
/// refusal.
const AFTER_A_REFUSAL: Duration = Duration::from_secs(10);

/// What a provider gave: settings under the names of the storage options, and when they end.
#[derive(PartialEq, Eq)]
pub struct ProvidedFields {
    /// Names in lower case with their values, which are secrets.
    pub fields: Vec<(String, String)>,
    /// The end in ms since 1970 (UTC); `None` if they last.
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

/// Whoever knows the providers of this process.
pub trait CredentialSource: Send + Sync {
    /// Says whether there is a provider of this name, without asking it.
    fn check(&self, provider: &str) -> Result<()>;
    /// Asks a provider. It is called on a thread that may wait, for one credential at a time.
    fn fetch(&self, provider: &str) -> Result<ProvidedFields>;
}

static SOURCE: OnceLock<Arc<dyn CredentialSource>> = OnceLock::new();

/// Sets who is asked for credentials where the option `credential_provider` names a provider; the
/// first one stays.
pub fn set_credential_source(source: Arc<dyn CredentialSource>) {
    if SOURCE.set(source).is_err() {
        debug!("the process has a source of credentials already; it is kept");
    }
}

/// Providers that were asked, by process and name: a forked child asks anew, since another thread
/// may have been asking when it began.
type Asked = HashMap<(u32, String), Arc<CredentialCache>>;

static ASKED: LazyLock<Mutex<Asked>> = LazyLock::new(Mutex::default);

/// What a provider gave last, for all stores that name it.
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

/// One provider and what it gave last.
pub(crate) struct CredentialCache {
    provider: String,
    source: Arc<dyn CredentialSource>,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    /// A question that is being answered, perhaps since a caller who has given up: nobody asks a
    /// second time meanwhile.
    asking: Option<JoinHandle<Result<ProvidedFields>>>,
}

struct Held {
    provided: Arc<ProvidedFields>,
    provided_ms: i64,
    /// When replacing it failed, or the store refused it and the provider had nothing else.
    failed: Option<Instant>,
    refused: Option<Instant>,
}

impl Held {
    fn is_due(&self, now_ms: i64) -> bool {
        let recently = self.failed.is_some_and(|at| at.elapsed() < AFTER_A_FAILURE);
        match self.provided.expires_ms {
            None => false,
            Some(end) if now_ms >= end => true,
            Some(end) => now_ms >= due_ms(self.provided_ms, end) && !recently,
        }
    }
}

/// When a credential is replaced that was given at one time and ends at another.
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

    /// A credential that lasts; the provider is asked only if there is none, or the last one ends
    /// soon.
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

    /// What requests are signed with now, if anything.
    pub(crate) async fn held(&self) -> Option<Arc<ProvidedFields>> {
        let state = self.state.lock().await;
        state.held.as_ref().map(|held| Arc::clone(&held.provided))
    }

    /// Another credential than one that the store refused, if the provider has one.
    pub(crate) async fn instead_of(&self, refused: &ProvidedFields) -> Option<Arc<ProvidedFields>> {
        let mut state = self.state.lock().await;
        let held = state.held.as_mut()?;
        if held.provided.fields != refused.fields {
            return Some(Arc::clone(&held.provided));
        }
        if held.refused.is_some_and(|at| at.elapsed() < AFTER_A_REFUSAL) {
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

    /// Gives what a function of the number of questions says, and counts them.
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
        // Not again at once, until it has ended.
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
        // A request that was signed with the first one gets the second one, unasked.
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
