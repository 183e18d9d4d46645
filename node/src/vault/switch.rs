//! Beginning to seal, changing the key, and ending it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use helve_machine::level;
use helve_proto::command::v1::{
    SealingRow, SetSealing, command::Operation, outcome::Outcome as Kind,
};
use helve_seal::{DataKey, KeyId, primitives};
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use super::{Members, SECRET_PLACE, Vault, fresh, hex, is_over};
use crate::{
    propose::{ProposeError, Proposer},
    raft::Consensus,
    read_index::own_command,
    stamp::EntropyError,
    upgrade,
};

/// How often a leader looks whether sealing can begin.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// How long one attempt may take.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);

/// What values shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Sealed under the newest key that the asked node holds.
    Newest,
    /// Sealed under this key.
    Key(KeyId),
    /// Plain.
    Plain,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// There is no such key here.
    #[error(
        "this node does not hold {0}: give it the file, with --data-key-file or in its --data-keys"
    )]
    NoKey(String),
    /// Some member lacks the key.
    #[error("{0}")]
    NotEverywhere(String),
    /// Members take other keys for the newest.
    #[error("{0}")]
    Differ(String),
    /// The newest key has sealed before the one that seals now.
    #[error(
        "key {newest} is the newest of this node, and has sealed values before key {now}: the order of its files is wrong; correct it, or name the key to go back to it"
    )]
    GoesBack {
        /// The newest key.
        newest: KeyId,
        /// The key that seals now.
        now: String,
    },
    /// The change before is not finished.
    #[error(
        "values are still being resealed after the last change: wait until `helve data-key status` says that it is done"
    )]
    Busy,
    /// Another operator was faster.
    #[error("another change came in between: look at `helve data-key status`, and decide again")]
    Raced,
    /// The fingerprint secret does not open.
    #[error(
        "the cluster's fingerprint secret does not open under key {0}: give this node that key"
    )]
    SecretLost(String),
    /// An older version is a member.
    #[error("sealing needs a feature level that the cluster does not have yet: upgrade every node")]
    TooOld,
    /// The change could not be committed.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// The operating system gave no entropy.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

/// Changes how values must be sealed. Cheap to clone.
#[derive(Clone)]
pub struct Switch {
    vault: Arc<Vault>,
    members: Members,
    proposer: Proposer,
    consensus: Consensus,
}

impl Switch {
    /// Of these parts of a node.
    #[must_use]
    pub fn new(
        vault: Arc<Vault>,
        members: Members,
        proposer: Proposer,
        consensus: Consensus,
    ) -> Self {
        Self {
            vault,
            members,
            proposer,
            consensus,
        }
    }

    /// Has the cluster seal values otherwise from here on. What is there already follows bit by bit. With `if_index`, only while the
    /// last change is the one of this log index: so a late duplicate of an old call does not revert a newer one.
    ///
    /// # Errors
    /// See [`SwitchError`].
    pub async fn to(
        &self,
        target: Target,
        if_index: Option<u64>,
        deadline: Instant,
    ) -> Result<SealingRow, SwitchError> {
        let raise_by = upgrade::awaited_until(deadline);
        while self.consensus.applied().feature_level() < level::SEALING {
            if !upgrade::await_raise(&self.consensus, level::SEALING, raise_by).await {
                return Err(SwitchError::TooOld);
            }
        }
        let before = self.vault.row().unwrap_or_default();
        let request = match self.key_of(target)? {
            Some(key) if *key.id().bytes() == before.key_id[..] => return Ok(before),
            None if before.key_id.is_empty() => return Ok(before),
            _ if if_index.is_some_and(|index| index != before.index) => {
                return Err(SwitchError::Raced);
            }
            _ if before.index != 0 && !before.done => return Err(SwitchError::Busy),
            Some(key) => {
                let everywhere = self.members.all_hold(key.id()).await;
                everywhere.map_err(SwitchError::NotEverywhere)?;
                // The first key that seals is a choice among keys that have sealed nothing.
                if target == Target::Newest && before.index != 0 {
                    let alike = self.members.agree_on_newest(key.id()).await;
                    alike.map_err(SwitchError::Differ)?;
                }
                let secret = self.secret(&before)?;
                SetSealing {
                    key_id: Bytes::copy_from_slice(key.id().bytes()),
                    secret: key.seal(&fresh()?, &SECRET_PLACE, &*secret).into(),
                    if_index: before.index,
                }
            }
            None => SetSealing {
                if_index: before.index,
                ..SetSealing::default()
            },
        };
        self.commit(request, deadline).await
    }

    fn key_of(&self, target: Target) -> Result<Option<Arc<DataKey>>, SwitchError> {
        let ring = self.vault.ring.load();
        let found = match target {
            Target::Plain => return Ok(None),
            Target::Newest => ring.newest(),
            Target::Key(id) => ring.find(id),
        };
        let missing = || match target {
            Target::Key(id) => format!("key {id}"),
            _ => "any key".to_owned(),
        };
        found
            .cloned()
            .map(Some)
            .ok_or_else(|| SwitchError::NoKey(missing()))
    }

    /// The secret that fingerprints are keyed with: the one there is, or a first one.
    fn secret(
        &self,
        before: &SealingRow,
    ) -> Result<Zeroizing<[u8; primitives::KEY_BYTES]>, SwitchError> {
        if before.secret.is_empty() {
            return Ok(Zeroizing::new(fresh()?));
        }
        match &self.vault.known.load().secret {
            Some(secret) => Ok(secret.clone()),
            // Its key may be destroyed by now. Retries from the time before find another fingerprint, and are refused, not repeated.
            None if is_over(before) => Ok(Zeroizing::new(fresh()?)),
            None => Err(SwitchError::SecretLost(hex(&before.secret_key_id))),
        }
    }

    async fn commit(
        &self,
        request: SetSealing,
        deadline: Instant,
    ) -> Result<SealingRow, SwitchError> {
        let wanted = request.key_id.clone();
        let command = own_command(Operation::SetSealing(request));
        let outcome = self.proposer.propose(&command, deadline).await?;
        let index = match outcome.outcome {
            Some(Kind::SetSealing(row)) => {
                self.vault.at_least(row.index, deadline).await;
                return Ok(row);
            }
            Some(Kind::Refused(refused)) => refused.revision,
            _ => return Err(SwitchError::Raced),
        };
        self.vault.at_least(index, deadline).await;
        // Of a command that was sent twice, the second is refused: what counts is what is there now.
        match self.vault.row().filter(|row| row.index >= index) {
            Some(row) if row.key_id == wanted => Ok(row),
            Some(_) => Err(SwitchError::Raced),
            None => {
                let why = "the change that is there by now was not applied here in time";
                Err(ProposeError::Unknown(why.to_owned()).into())
            }
        }
    }

    /// On the leader: begins to seal as soon as every member holds the newest key, if no operator ever decided. A cluster whose nodes were
    /// started with keys so needs no operator.
    pub async fn begin(self) {
        while self
            .consensus
            .wait_leading(|leading| leading.here)
            .await
            .is_ok()
        {
            let newest = self.vault.ring.load().newest().map(|key| key.id());
            if let (Some(_), None) = (newest, self.vault.row()) {
                match self
                    .to(Target::Newest, None, Instant::now() + ATTEMPT_LIMIT)
                    .await
                {
                    Ok(row) => {
                        tracing::info!(key = %hex(&row.key_id), "every member holds the key: values are sealed from here on");
                    }
                    Err(error) => self.vault.wait_for(error.to_string()),
                }
            }
            sleep(LOOK_PAUSE).await;
        }
    }
}
