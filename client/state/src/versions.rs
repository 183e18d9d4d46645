//! Versioned state: each save is kept under a number of its own, `checkpoints/{id}/v{n}`.

use std::{fmt, sync::Arc};

use helve_client::{
    Error, ErrorKind, Record, StateTool, StoreOutcome, Ttl,
    extend::{Backoff, Ended, pause, within},
    limits::DEADLINE_MAX,
};
use helve_proto::Reason;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    doubt::{prepare, store_owned},
    prefixed::check_part,
};

/// The versions of one state, over any tool that promises [`revisions`](helve_client::Promises::revisions), after Caxton's pattern.
///
/// Version `n` is the key `{family}/{id}/v{n}`, and holds the state as it is. The key
/// `{family}/{id}` holds the highest number that was ever claimed, so that no number is given
/// twice, also when its version was pruned or has expired. A save first claims its number, and then
/// owns its key: a save at the same time gets another number. A process that dies in between leaves
/// a number without version.
#[derive(Clone)]
pub struct Versions {
    tool: Arc<dyn StateTool>,
    head: String,
    ttl: Ttl,
}

/// A version and its number.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// From 1.
    pub number: u64,
    /// The state; its name is the key.
    pub record: Record<Value>,
}

impl Versions {
    /// The versions below `checkpoints/{id}/`.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the id is empty, or holds `/` or NUL.
    pub fn new(tool: Arc<dyn StateTool>, id: &str) -> Result<Self, Error> {
        Self::of_family(tool, "checkpoints", id)
    }

    /// The versions below `{family}/{id}/`, as in `states/{id}/v{n}`.
    ///
    /// # Errors
    /// As [`new`](Self::new), for both.
    pub fn of_family(tool: Arc<dyn StateTool>, family: &str, id: &str) -> Result<Self, Error> {
        check_part(family)?;
        check_part(id)?;
        Ok(Self {
            tool,
            head: format!("{family}/{id}"),
            ttl: Ttl::Default,
        })
    }

    /// Versions saved from now on live this long. The claimed number has no deadline.
    #[must_use]
    pub fn ttl(mut self, ttl: Ttl) -> Self {
        self.ttl = ttl;
        self
    }

    /// Saves the next version, and answers its number. However many save at once, each gets a number of its own, and each state is
    /// kept once, though an answer on the way be lost.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if others claimed first until the deadline ended: nothing was saved.
    /// [`Ambiguous`](ErrorKind::Ambiguous) if the state itself was sent and no answer came: the version is there or not, and no
    /// other will have its number. Else those of every read and write.
    pub async fn save(&self, state: &Value) -> Result<u64, Error> {
        let deadline = Instant::now() + self.tool.deadline().min(DEADLINE_MAX);
        let next = |highest: u64| {
            let message = "no version number is left";
            let none = || Error::refused(Reason::BadRequest, message, 0, 0);
            highest.checked_add(1).ok_or_else(none)
        };
        let number = self.claim(deadline, next).await?;
        let key = self.key(number);
        store_owned(&*self.tool, &key, state, self.ttl, deadline).await?;
        Ok(number)
    }

    /// Saves a version under a number of the caller's choosing, if there is none.
    ///
    /// # Errors
    /// Those of every write, and [`Invalid`](ErrorKind::Invalid) for the number 0; a version that exists is an outcome.
    pub async fn save_at(&self, number: u64, state: &Value) -> Result<StoreOutcome, Error> {
        if number == 0 {
            let message = "versions are numbered from 1";
            return Err(Error::refused(Reason::BadRequest, message, 0, 0));
        }
        let deadline = Instant::now() + self.tool.deadline().min(DEADLINE_MAX);
        self.claim(deadline, |highest| Ok(highest.max(number)))
            .await?;
        let key = self.key(number);
        let store = self.tool.store_if(&key, state, self.ttl, 0);
        within(deadline, store, Ended::Writing).await
    }

    /// The version with the highest number, if there is one.
    ///
    /// # Errors
    /// Those of every read.
    pub async fn latest(&self) -> Result<Option<Version>, Error> {
        // Pruning may come between the list and the read; it leaves the highest, so the next list is a newer one.
        for number in self.list().await?.into_iter().rev() {
            if let Some(version) = self.at(number).await? {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// The version with this number, if there is one.
    ///
    /// # Errors
    /// Those of every read.
    pub async fn at(&self, number: u64) -> Result<Option<Version>, Error> {
        let found = self.tool.retrieve_record(&self.key(number)).await?;
        Ok(found.map(|record| Version { number, record }))
    }

    /// The numbers of all versions, ascending.
    ///
    /// # Errors
    /// Those of every read.
    pub async fn list(&self) -> Result<Vec<u64>, Error> {
        let prefix = format!("{}/v", self.head);
        let keys = self.tool.list(&prefix).await?;
        let numbers = keys.iter().filter_map(|key| number(key, &prefix));
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Deletes all but the newest `keep` versions, and answers the numbers that it deleted. The newest stays, whatever `keep` is.
    ///
    /// # Errors
    /// Those of every read and write; what was deleted before stays deleted.
    pub async fn prune(&self, keep: usize) -> Result<Vec<u64>, Error> {
        let mut numbers = self.list().await?;
        numbers.truncate(numbers.len().saturating_sub(keep.max(1)));
        for number in &numbers {
            self.tool.delete(&self.key(*number)).await?;
        }
        Ok(numbers)
    }

    fn key(&self, number: u64) -> String {
        format!("{}/v{number}", self.head)
    }

    /// Moves the highest number claimed on to the one that `next` makes of it, and answers that.
    async fn claim(
        &self,
        deadline: Instant,
        next: impl Fn(u64) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        let mut backoff = Backoff::contention();
        loop {
            // A number too many does no harm.
            match prepare(deadline, || self.try_claim(&next)).await? {
                Claimed::Number(number) => return Ok(number),
                Claimed::Overtaken { revision } => pause(deadline, &mut backoff, revision).await?,
            }
        }
    }

    async fn try_claim(&self, next: impl Fn(u64) -> Result<u64, Error>) -> Result<Claimed, Error> {
        let (highest, revision) = self.highest().await?;
        let number = next(highest)?;
        if number == highest {
            return Ok(Claimed::Number(number));
        }
        let claim = json!({ "claimed": number });
        let store = self.tool.store_if(&self.head, &claim, Ttl::Never, revision);
        Ok(match store.await? {
            StoreOutcome::Created(_) | StoreOutcome::Replaced(_) => Claimed::Number(number),
            StoreOutcome::Conflict { revision } => Claimed::Overtaken { revision },
        })
    }

    /// The highest number claimed, and the revision of the claim.
    async fn highest(&self) -> Result<(u64, u64), Error> {
        match self.tool.retrieve_record(&self.head).await? {
            Some(record) => match record.value.get("claimed").and_then(Value::as_u64) {
                Some(number) => Ok((number, record.revision())),
                None => {
                    let message = format!(
                        "the key {:?} holds something else than the highest version",
                        self.head
                    );
                    Err(Error::new(ErrorKind::Codec, message))
                }
            },
            // None yet, or saved by others than this.
            None => Ok((self.list().await?.last().copied().unwrap_or(0), 0)),
        }
    }
}

/// What came of one try to claim a number.
enum Claimed {
    Number(u64),
    /// Others claimed first.
    Overtaken {
        revision: u64,
    },
}

/// The number in a version's key. Only what [`Versions`] would write counts.
fn number(key: &str, prefix: &str) -> Option<u64> {
    let digits = key.strip_prefix(prefix)?;
    let number: u64 = digits.parse().ok()?;
    (number > 0 && number.to_string() == digits).then_some(number)
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Versions")
            .field("head", &self.head)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_numbers_are_versions() {
        let prefix = "checkpoints/a/v";
        for (key, expected) in [
            ("checkpoints/a/v1", Some(1)),
            ("checkpoints/a/v18446744073709551615", Some(u64::MAX)),
            ("checkpoints/a/v0", None),
            ("checkpoints/a/v01", None),
            ("checkpoints/a/v+1", None),
            ("checkpoints/a/v1/x", None),
            ("checkpoints/a/v", None),
            ("checkpoints/b/v1", None),
        ] {
            assert_eq!(number(key, prefix), expected, "{key}");
        }
    }
}
