//! An append-only log of events: `logs/{id}/{time}-{revision}`.

use std::{fmt, sync::Arc};

use helve_client::{Error, ErrorKind, Record, StateTool, Ttl, limits::DEADLINE_MAX};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    doubt::{prepare, store_owned},
    prefixed::check_part,
};

/// Digits of the largest 64-bit number.
const DIGITS: usize = 20;

/// The events of one log, over any tool that promises [`revisions`](helve_client::Promises::revisions), after Caxton's pattern.
///
/// An append first writes the key `{family}/{id}`, whose revision no other write has, and whose time is the store's own clock: on a
/// cluster the replicated one. The event's key is `{family}/{id}/{time}-{revision}`, both in 20 digits, so that the keys sort as the
/// appends began, and no two are the same, though they begin in one millisecond. An event that was acknowledged is in every replay
/// that begins later.
#[derive(Clone)]
pub struct EventLog {
    tool: Arc<dyn StateTool>,
    head: String,
    ttl: Ttl,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When its append began, in milliseconds since the Unix epoch on the store's clock.
    pub at_ms: u64,
    /// The revision that its key holds: unique in the log.
    pub revision: u64,
    /// The event; its name is the key, its own revision a later one.
    pub record: Record<Value>,
}

/// Events in order, all of one view.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// By key: as their appends began.
    pub events: Vec<Event>,
    /// Where [`EventLog::replay_after`] goes on.
    pub cursor: u64,
}

impl EventLog {
    /// The events below `logs/{id}/`.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the id is empty, or holds `/` or NUL.
    pub fn new(tool: Arc<dyn StateTool>, id: &str) -> Result<Self, Error> {
        Self::of_family(tool, "logs", id)
    }

    /// The events below `{family}/{id}/`.
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

    /// Events appended from now on live this long.
    #[must_use]
    pub fn ttl(mut self, ttl: Ttl) -> Self {
        self.ttl = ttl;
        self
    }

    /// Appends an event once, though an answer on the way be lost, and answers its key.
    ///
    /// # Errors
    /// [`Ambiguous`](ErrorKind::Ambiguous) if the event was sent and no answer came until the deadline: it is there once, or not
    /// at all. Else those of every write.
    pub async fn append(&self, event: &Value) -> Result<String, Error> {
        let deadline = Instant::now() + self.tool.deadline().min(DEADLINE_MAX);
        let empty = json!({});
        // An unused ticket does no harm.
        let draw = || self.tool.store_record(&self.head, &empty, Ttl::Never);
        let ticket = prepare(deadline, draw).await?;
        let key = key(&self.head, ticket.updated_at_ms, ticket.revision);
        store_owned(&*self.tool, &key, event, self.ttl, deadline).await?;
        Ok(key)
    }

    /// All events whose appends began at this time or later, in order; 0: all.
    ///
    /// # Errors
    /// Those of every list.
    pub async fn replay_since(&self, since_ms: u64) -> Result<Replay, Error> {
        self.replay(|event| event.at_ms >= since_ms).await
    }

    /// All events that became visible after the view of an earlier replay, so that of a series of replays each event is in exactly
    /// one, also one whose append began early and ended late. `cursor` is the earlier replay's; 0: all.
    ///
    /// # Errors
    /// Those of every list; [`Unsupported`](ErrorKind::Unsupported) if the tool does not promise
    /// [`ordered_revisions`](helve_client::Promises::ordered_revisions).
    pub async fn replay_after(&self, cursor: u64) -> Result<Replay, Error> {
        if !self.tool.promises().ordered_revisions {
            let message = "this tool's revisions do not grow in the order of writes: replay since a time instead";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.replay(|event| event.record.revision() > cursor).await
    }

    /// Deletes all events whose appends began before this time, and answers how many.
    ///
    /// # Errors
    /// Those of every list and write; what was deleted before stays deleted.
    pub async fn prune_before(&self, before_ms: u64) -> Result<usize, Error> {
        let keys = self.tool.list(&self.prefix()).await?;
        let is_older =
            |key: &&String| parts(key, &self.prefix()).is_some_and(|(at_ms, _)| at_ms < before_ms);
        let mut pruned = 0;
        for key in keys.iter().filter(is_older) {
            self.tool.delete(key).await?;
            pruned += 1;
        }
        Ok(pruned)
    }

    async fn replay(&self, mut is_wanted: impl FnMut(&Event) -> bool) -> Result<Replay, Error> {
        let listing = self.tool.list_values(&self.prefix()).await?;
        let event = |record: Record<Value>| {
            let (at_ms, revision) = parts(record.name(), &self.prefix())?;
            Some(Event {
                at_ms,
                revision,
                record,
            })
        };
        let events = listing.items.into_iter().filter_map(event);
        Ok(Replay {
            events: events.filter(|event| is_wanted(event)).collect(),
            cursor: listing.revision,
        })
    }

    fn prefix(&self) -> String {
        format!("{}/", self.head)
    }
}

fn key(head: &str, at_ms: u64, revision: u64) -> String {
    format!("{head}/{at_ms:0DIGITS$}-{revision:0DIGITS$}")
}

/// Time and revision of an event's key; `None` for keys that are no event's.
fn parts(key: &str, prefix: &str) -> Option<(u64, u64)> {
    let (at_ms, revision) = key.strip_prefix(prefix)?.split_once('-')?;
    let number = |digits: &str| {
        let canonical = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        if canonical { digits.parse().ok() } else { None }
    };
    Some((number(at_ms)?, number(revision)?))
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog")
            .field("head", &self.head)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_time_and_then_by_revision() {
        let in_order = [
            (0, 0),
            (9, 10),
            (10, 9),
            (10, 10),
            (99, 1),
            (100, 1),
            (u64::MAX, u64::MAX),
        ];
        let keys = in_order.map(|(at_ms, revision)| key("logs/a", at_ms, revision));
        assert!(keys.is_sorted(), "{keys:?}");
        for (key, expected) in keys.iter().zip(in_order) {
            assert_eq!(parts(key, "logs/a/"), Some(expected));
        }
        for foreign in [
            "logs/a/1-2",
            "logs/a/latest",
            "logs/ab",
            "logs/a/+0000000000000000001-00000000000000000001",
        ] {
            assert_eq!(parts(foreign, "logs/a/"), None, "{foreign}");
        }
    }
}
