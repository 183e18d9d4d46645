//! Where members are reached: where the membership records them, or where they were met since.
//!
//! Consensus keeps the connections that it has when a member's record changes, so a connection asks
//! here whenever it is used. And a member that moved must be reached before its new address can be
//! recorded, by the leader at least.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use helve_proto::peer::v1::NodeRecord;

/// The peer addresses of all members.
#[derive(Debug, Default)]
pub(crate) struct AddressBook(Mutex<BTreeMap<u64, Entry>>);

#[derive(Debug)]
struct Entry {
    uuid: String,
    recorded: String,
    /// Where it was met, since it was recorded where it is.
    met: Option<String>,
}

impl AddressBook {
    /// Takes up the membership. What was met counts until the record says something new.
    pub(crate) fn note_members(&self, members: impl IntoIterator<Item = (u64, NodeRecord)>) {
        let mut entries = self.entries();
        let mut former = std::mem::take(&mut *entries);
        for (id, record) in members {
            let met = former
                .remove(&id)
                .filter(|f| f.uuid == record.uuid && f.recorded == record.peer_address)
                .and_then(|f| f.met);
            let entry = Entry {
                uuid: record.uuid,
                recorded: record.peer_address,
                met,
            };
            entries.insert(id, entry);
        }
    }

    /// The member with this uuid answered at this address. Of a node that is no member, nothing is noted.
    pub(crate) fn note_met(&self, uuid: &str, address: &str) {
        let mut entries = self.entries();
        if let Some(entry) = entries.values_mut().find(|entry| entry.uuid == uuid) {
            entry.met = (entry.recorded != address).then(|| address.to_owned());
        }
    }

    /// Where to reach a member; `None` if no member has this id and uuid.
    pub(crate) fn address(&self, id: u64, uuid: &str) -> Option<String> {
        let entries = self.entries();
        let entry = entries.get(&id).filter(|entry| entry.uuid == uuid)?;
        Some(entry.met.clone().unwrap_or_else(|| entry.recorded.clone()))
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(uuid: &str, address: &str) -> (u64, NodeRecord) {
        let record = NodeRecord {
            uuid: uuid.to_owned(),
            peer_address: address.to_owned(),
            ..NodeRecord::default()
        };
        (2, record)
    }

    #[test]
    fn a_member_is_reached_where_it_was_met_until_its_record_says_something_new() {
        let book = AddressBook::default();
        book.note_members([member("u", "a:1")]);
        assert_eq!(book.address(2, "u").as_deref(), Some("a:1"));
        book.note_met("u", "b:1");
        book.note_members([member("u", "a:1")]);
        assert_eq!(book.address(2, "u").as_deref(), Some("b:1"));
        book.note_members([member("u", "c:1")]);
        assert_eq!(book.address(2, "u").as_deref(), Some("c:1"));
    }

    #[test]
    fn node_that_is_no_member_has_no_address() {
        let book = AddressBook::default();
        book.note_members([member("u", "a:1")]);
        book.note_met("stranger", "b:1");
        assert_eq!(book.address(2, "stranger"), None);
        book.note_members([member("new", "d:1")]);
        assert_eq!(book.address(2, "u"), None);
        assert_eq!(book.address(2, "new").as_deref(), Some("d:1"));
    }
}
