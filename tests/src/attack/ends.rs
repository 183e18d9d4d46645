//! How the calls of an attack ended.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt as _};
use helve_proto::Reason;
use tonic::Status;

use crate::caller::reason;

/// How the calls of an attack ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    /// Those that were carried out.
    pub done: u64,
    /// Those that were refused, by reason.
    pub refused: BTreeMap<String, u64>,
}

impl Ends {
    /// Counts how calls end.
    pub(super) async fn of<T>(calls: impl Stream<Item = Result<T, Status>>) -> Self {
        let mut ends = Self::default();
        let mut calls = std::pin::pin!(calls);
        while let Some(end) = calls.next().await {
            match end {
                Ok(_) => ends.done += 1,
                Err(status) => {
                    let why = reason(&status).map_or(status.code().to_string(), |reason| {
                        reason.as_str().to_owned()
                    });
                    *ends.refused.entry(why).or_default() += 1;
                }
            }
        }
        ends
    }

    /// Adds how other calls ended.
    pub fn add(&mut self, others: &Self) {
        self.done += others.done;
        for (why, count) in &others.refused {
            *self.refused.entry(why.clone()).or_default() += count;
        }
    }

    /// All that ended.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.done + self.refused.values().sum::<u64>()
    }

    /// How many were refused for this reason.
    #[must_use]
    pub fn refused_as(&self, reason: Reason) -> u64 {
        self.refused.get(reason.as_str()).copied().unwrap_or(0)
    }
}
