//! How records are printed.

use helve_command::{
    duration::display_ms,
    output::{bytes, harmless, table},
};
use helve_proto::v1::{RecordInfo, ReplyHeader};
use serde::Serialize;

use super::value::Shown;

/// A record for programs. Times are milliseconds since the Unix epoch, on the replicated clock.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Record {
    /// The handle's id, or the key.
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    owner: String,
    /// The fencing token, and what `--if-revision` compares.
    pub revision: u64,
    created_at_ms: u64,
    updated_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_deadline_ms: Option<u64>,
    value_bytes: u64,
    /// The value, if it was asked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub value: Option<Shown>,
    #[serde(skip)]
    clock_ms: u64,
}

impl Record {
    /// Of what the cluster said.
    #[must_use]
    pub(crate) fn new(
        info: RecordInfo,
        header: Option<&ReplyHeader>,
        value: Option<&[u8]>,
    ) -> Self {
        Self {
            name: info.name,
            owner: info.owner,
            revision: info.revision,
            created_at_ms: info.created_at_ms,
            updated_at_ms: info.updated_at_ms,
            expires_at_ms: info.expires_at_ms,
            idle_ttl_ms: info.idle_ttl_ms,
            idle_deadline_ms: info.idle_deadline_ms,
            value_bytes: info.value_bytes,
            value: value.map(Shown::new),
            clock_ms: header.map_or(0, |header| header.clock_ms),
        }
    }

    /// When it expires unless it is renewed, for people.
    #[must_use]
    pub(crate) fn expiry(&self) -> String {
        let deadline = self
            .expires_at_ms
            .into_iter()
            .chain(self.idle_deadline_ms)
            .min();
        deadline.map_or_else(
            || "never expires".into(),
            |at| {
                format!(
                    "expires in {}",
                    display_ms(at.saturating_sub(self.clock_ms))
                )
            },
        )
    }

    /// A line that says revision and expiry.
    #[must_use]
    pub(crate) fn line(&self, what: &str) -> String {
        format!(
            "{what} {}, revision {}, {}",
            harmless(&self.name),
            self.revision,
            self.expiry()
        )
    }
}

/// A list for programs. It is one view.
#[derive(Debug, Serialize)]
pub(crate) struct Records {
    /// The log index of the view.
    pub revision: u64,
    /// In order.
    pub records: Vec<Record>,
}

impl Records {
    /// Those of a reply with this header.
    pub(crate) fn new(header: Option<&ReplyHeader>, records: impl Iterator<Item = Record>) -> Self {
        Self {
            revision: header.map_or(0, |header| header.index),
            records: records.collect(),
        }
    }
}

/// A list for people.
#[must_use]
pub(crate) fn records_text(list: &Records, name: &str) -> String {
    let with_values = list.records.iter().any(|record| record.value.is_some());
    let mut columns = vec![name, "OWNER", "REVISION", "EXPIRES", "SIZE"];
    columns.extend(with_values.then_some("VALUE"));
    let mut table = table(&columns).leaving_out(&["SIZE"]);
    for record in &list.records {
        let mut row = vec![
            record.name.clone(),
            record.owner.clone(),
            record.revision.to_string(),
            record
                .expiry()
                .trim_start_matches("expires ")
                .replace("never expires", "never"),
            bytes(record.value_bytes),
        ];
        row.extend(record.value.as_ref().map(Shown::text));
        table.add_row(row);
    }
    table.trim_fmt()
}
