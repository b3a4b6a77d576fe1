//! A put of a commit to a catalog's table: the content is staged as a file or goes inline, and the
//! catalog decides. An outcome that isn't known is an unclear put, whose caller looks it up.

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::Action;
use deltaplane_protocol::features::in_commit_timestamp;
use deltaplane_protocol::paths;
use deltaplane_store::PutOutcome;
use serde::Deserialize;
use serde_json::Value;
use tracing::warn;

use crate::commit::reader::Commit;
use crate::committer::known::at_catalog;
use crate::committer::managed::Managed;
use crate::committer::{Content, Decision, Proposal, StagedFile, staging};
use crate::{new_id, now_ms};

/// Proposals of one commit between which versions are published because the catalog asks for that.
const MOST_PROPOSALS: usize = 4;

/// What a commit's info says of its transaction.
#[derive(Default, Deserialize)]
struct Named {
    #[serde(rename = "txnId")]
    txn_id: Option<Value>,
}

impl Managed {
    /// Proposes this text as a version: as a put-if-absent of its name, which is created by exactly
    /// one of all proposals.
    pub(super) async fn commit(&self, version: u64, text: Bytes) -> Result<PutOutcome> {
        let mut proposal = self.proposal(&Commit::own(version, text.clone())?)?;
        proposal.content = match version {
            0 => match self.put_first(&text).await? {
                Some(file) => {
                    staging::make_folder(self);
                    Content::Published(file)
                }
                None => return Ok(PutOutcome::Exists),
            },
            _ if text.len() as u64 <= self.committer.most_inline_bytes() => Content::Inline(text),
            _ => Content::Staged(self.stage(&proposal, text).await?),
        };
        for _ in 0..MOST_PROPOSALS {
            proposal.published = self.published();
            let decision = self.committer.propose(&proposal).await;
            match decision.map_err(|e| at_catalog(self.committer.as_ref(), &e))? {
                Decision::Ratified => {
                    self.proposed.forget(&proposal);
                    self.known().ratified(proposal);
                    return Ok(PutOutcome::Created);
                }
                Decision::Taken(tail) => {
                    self.proposed.forget(&proposal);
                    if let Some(tail) = tail {
                        let learnt = self.known().learn(version, tail);
                        learnt.map_err(|e| at_catalog(self.committer.as_ref(), &e))?;
                    }
                    return Ok(PutOutcome::Exists);
                }
                Decision::Unknown(e) => {
                    let what = format!("whether the proposal was ratified isn't known ({})", e.message());
                    let unclear = Error::new(Kind::StoreUnavailable, what).with_source(e);
                    return Err(unclear);
                }
                Decision::PublishFirst => {
                    let published = self.publish(version - 1).await?;
                    self.tell_published(published).await?;
                }
            }
        }
        Err(Error::new(
            Kind::ConcurrentWrite,
            format!(
                "{} holds too many unpublished commits, although they were published: try again",
                self.name()
            ),
        ))
    }

    /// The facts of a commit that its catalog has to know.
    ///
    /// Errors: `Internal` for a commit without its time or its transaction's id (P158).
    pub(super) fn proposal(&self, commit: &Commit) -> Result<Proposal> {
        let info: Named = commit.info_as()?;
        let txn_id = info.txn_id.as_ref().and_then(Value::as_str).filter(|id| !id.is_empty());
        let stamp: in_commit_timestamp::Stamp = commit.info_as()?;
        let (Some(txn_id), Some(timestamp_ms)) = (txn_id, stamp.time_ms()) else {
            return Err(Error::internal(
                "a commit to a catalog-managed table has no time or no transaction id; please report this",
            ));
        };
        let (mut protocol, mut metadata, mut domains) = (None, None, Vec::new());
        for action in &commit.state {
            match action {
                Action::Protocol(p) => protocol = Some(p.clone()),
                Action::Metadata(m) => metadata = Some(m.clone()),
                Action::DomainMetadata(d) => domains.push(d.clone()),
                _ => {}
            }
        }
        Ok(Proposal {
            version: commit.version(),
            content: Content::Inline(Bytes::new()),
            timestamp_ms,
            txn_id: txn_id.to_owned(),
            protocol,
            metadata,
            domains,
            published: None,
        })
    }

    /// Writes the file of a proposal. The name is its own, so a repeated put changes nothing.
    pub(super) async fn stage(&self, proposal: &Proposal, text: Bytes) -> Result<StagedFile> {
        let known = self.proposed.find(proposal.version, &proposal.txn_id);
        if let Some(file) = known.filter(|file| file.size_bytes == text.len() as u64) {
            return Ok(file);
        }
        let file = StagedFile {
            name: paths::staged_name(proposal.version, &new_id().to_string()),
            size_bytes: text.len() as u64,
            modified_ms: now_ms(),
        };
        self.behind.put(&paths::staged_commit(&file.name), text).await?;
        self.proposed.remember(proposal, &file);
        Ok(file)
    }

    /// Puts the first version of a table, whose place the catalog gave to this client alone; `None`
    /// if it has another one already.
    async fn put_first(&self, text: &Bytes) -> Result<Option<StagedFile>> {
        let key = paths::commit(0);
        if self.behind.put_if_absent(&key, text.clone()).await? == PutOutcome::Exists {
            // A call whose answer was lost may have put it.
            let there = self.behind.read(&key).await?;
            if there != *text {
                warn!(table = %self.name(), "the place of a new table has a first version already");
                return Ok(None);
            }
        }
        Ok(Some(StagedFile {
            name: key.rsplit('/').next().unwrap_or_default().to_owned(),
            size_bytes: text.len() as u64,
            modified_ms: now_ms(),
        }))
    }
}
