//! How values are sealed, as operators see it and change it.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use helve_machine::{
    query::Read,
    sealing::{Tally, tally},
};
use helve_proto::{
    command::v1::SealingRow,
    v1::{
        DataKeyCount, DataKeyStatusReply, NodeStatus, SetDataKeyReply, SetDataKeyRequest,
        set_data_key_request::Target as Asked,
    },
};
use helve_seal::KeyId;
use tokio::time::Instant;

use super::failure::Failure;
use crate::{
    excerpt::Excerpt,
    limits,
    read_index::{Place, ReadView, Reader},
    vault::{Switch, SwitchError, Target, Vault},
};

/// Rows that are counted in one view.
const TALLY_ROWS: u64 = 1024;

/// Values by the key that they are sealed under; the empty id: under none.
#[derive(Debug, Default)]
struct Tallies {
    records: Tally,
    /// That outcomes are kept with, for retries.
    kept: Tally,
    is_partial: bool,
}

/// How this node shows and changes how values are sealed.
pub(super) struct DataKeys {
    vault: Arc<Vault>,
    switch: Switch,
    reader: Arc<Reader>,
}

impl DataKeys {
    pub(super) fn new(vault: Arc<Vault>, switch: Switch, reader: Arc<Reader>) -> Self {
        Self {
            vault,
            switch,
            reader,
        }
    }

    /// Adds to what the node says of itself how values are sealed.
    pub(super) fn show(&self, node: &mut NodeStatus) {
        let row = self.vault.row().unwrap_or_default();
        let newest = self.vault.key_ids().last().map(KeyId::to_string);
        node.sealed_key_id = text(&row.key_id);
        node.sealing_under_way = is_under_way(&row);
        node.held_key_id = newest.unwrap_or_default();
    }

    /// How values are sealed, and how many under which key, as this node, which has this id, has applied.
    pub(super) async fn status(
        &self,
        id: u64,
        deadline: Instant,
    ) -> Result<DataKeyStatusReply, Failure> {
        let tallies = self.tallies(deadline).await?;
        let row = self.vault.row().unwrap_or_default();
        let (walked_rows, resealed) = self.vault.walked();
        Ok(DataKeyStatusReply {
            id,
            key_id: text(&row.key_id),
            under_way: is_under_way(&row),
            held: self.vault.key_ids().iter().map(KeyId::to_string).collect(),
            partial: tallies.is_partial,
            counts: counts(tallies),
            walked_rows,
            resealed,
            index: row.index,
            former: row.former_key_ids.iter().map(|id| text(id)).collect(),
        })
    }

    /// Counts all values, a stretch at a time, so that nothing waits for it.
    async fn tallies(&self, deadline: Instant) -> Result<Tallies, Failure> {
        self.reader.settle(deadline).await?;
        let mut tallies = Tallies::default();
        let mut from = Some(Bytes::new());
        while let Some(key) = from {
            let stretch = move |view: &ReadView<'_>| {
                let (mut records, mut kept) = (Tally::new(), Tally::new());
                let into = (&mut records, &mut kept);
                let rest = tally(view.view, limits::GROUP_ID, &key, TALLY_ROWS, into)?;
                Ok(Read::Answer((records, kept, rest)))
            };
            let counted = self
                .reader
                .read_applied(deadline, Place::Disk, stretch)
                .await;
            let (Ok(Read::Answer((records, kept, rest))), true) =
                (counted, Instant::now() < deadline)
            else {
                tallies.is_partial = true;
                break;
            };
            add(&mut tallies.records, records);
            add(&mut tallies.kept, kept);
            from = rest;
        }
        Ok(tallies)
    }

    /// Refuses a newest key that has sealed before the key that seals now.
    async fn check_newest(&self, deadline: Instant) -> Result<(), Failure> {
        let row = self.vault.row().unwrap_or_default();
        let newest = self.vault.key_ids().last().copied();
        if !newest.is_some_and(|newest| is_change(newest, &row)) {
            return Ok(());
        }
        let tallies = self.tallies(deadline).await?;
        match goes_back(newest, &row, &tallies) {
            None => Ok(()),
            Some(newest) => {
                let now = text(&row.key_id);
                Err(SwitchError::GoesBack { newest, now }.into())
            }
        }
    }

    /// Has the cluster seal values as asked for.
    pub(super) async fn set(
        &self,
        request: SetDataKeyRequest,
        deadline: Instant,
    ) -> Result<SetDataKeyReply, Failure> {
        let malformed = |message: String| Failure::Malformed(message);
        let target = match request.target {
            Some(Asked::Newest(_)) => {
                self.check_newest(deadline).await?;
                Target::Newest
            }
            Some(Asked::Plain(_)) => Target::Plain,
            Some(Asked::KeyId(id)) => Target::Key(KeyId::parse(&id).ok_or_else(|| {
                malformed(format!(
                    "`{}` is no key id: 16 hexadecimal digits",
                    Excerpt(&id)
                ))
            })?),
            None => {
                return Err(malformed(
                    "no key is named, nor that there shall be none".into(),
                ));
            }
        };
        let row = self.switch.to(target, request.if_index, deadline).await?;
        Ok(SetDataKeyReply {
            key_id: text(&row.key_id),
            index: row.index,
            under_way: is_under_way(&row),
        })
    }
}

/// The newest key, if it has sealed values before the key that seals now: as the row notes, or as what is still sealed under it shows.
fn goes_back(newest: Option<KeyId>, row: &SealingRow, tallies: &Tallies) -> Option<KeyId> {
    let newest = newest.filter(|newest| is_change(*newest, row))?;
    let of_newest = |tally: &Tally| {
        tally
            .get(&newest.bytes()[..])
            .is_some_and(|count| *count > 0)
    };
    let is_former = |id: &Bytes| id[..] == newest.bytes()[..];
    let has_sealed = row.former_key_ids.iter().any(is_former)
        || of_newest(&tallies.records)
        || of_newest(&tallies.kept);
    has_sealed.then_some(newest)
}

/// Whether values are sealed under another key than this one, and none is being sealed again.
fn is_change(newest: KeyId, row: &SealingRow) -> bool {
    !row.key_id.is_empty() && *newest.bytes() != row.key_id[..] && !is_under_way(row)
}

fn add(sum: &mut Tally, stretch: Tally) {
    for (key_id, count) in stretch {
        *sum.entry(key_id).or_default() += count;
    }
}

fn is_under_way(row: &SealingRow) -> bool {
    row.index != 0 && !row.done
}

fn text(key_id: &[u8]) -> String {
    KeyId::from_bytes(key_id).map_or_else(String::new, |id| id.to_string())
}

fn counts(tallies: Tallies) -> Vec<DataKeyCount> {
    let mut counts: BTreeMap<Bytes, DataKeyCount> = BTreeMap::new();
    for (key_id, records) in tallies.records {
        counts.entry(key_id).or_default().records = records;
    }
    for (key_id, kept) in tallies.kept {
        counts.entry(key_id).or_default().kept = kept;
    }
    let named = counts.into_iter().map(|(key_id, count)| DataKeyCount {
        key_id: text(&key_id),
        ..count
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_key_that_has_sealed_before_is_found_out() {
        let (old, new) = (KeyId::parse(&"a1".repeat(8)), KeyId::parse(&"b2".repeat(8)));
        let bytes = |id: Option<KeyId>| Bytes::copy_from_slice(id.unwrap().bytes());
        let row = SealingRow {
            key_id: bytes(new),
            index: 7,
            done: true,
            ..SealingRow::default()
        };
        let mut tallies = Tallies::default();
        tallies.records.insert(bytes(new), 9);
        assert_eq!(
            goes_back(old, &row, &tallies),
            None,
            "it has sealed nothing"
        );
        tallies.kept.insert(bytes(old), 3);
        assert_eq!(goes_back(old, &row, &tallies), old);
        let noted = SealingRow {
            former_key_ids: vec![bytes(old)],
            ..row.clone()
        };
        assert_eq!(goes_back(old, &noted, &Tallies::default()), old);
        assert_eq!(goes_back(new, &row, &tallies), None, "it seals now");
        assert_eq!(goes_back(None, &row, &tallies), None);
        let under_way = SealingRow { done: false, ..row };
        assert_eq!(goes_back(old, &under_way, &tallies), None);
    }
}
