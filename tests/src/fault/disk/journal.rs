//! Names that were given and taken away since the last sync that covered them.

use std::{collections::VecDeque, ffi::OsString};

/// A file or directory.
pub(super) type Ino = u64;

/// A directory's entry before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryChange {
    pub(super) directory: Ino,
    pub(super) name: OsString,
    pub(super) before: Option<Ino>,
    pub(super) after: Option<Ino>,
}

impl EntryChange {
    fn mentions(&self, ino: Ino) -> bool {
        self.directory == ino || self.before == Some(ino) || self.after == Some(ino)
    }
}

/// Entries that change together: a rename changes two.
pub(super) type Transaction = Vec<EntryChange>;

/// Transactions that are not durable yet, oldest first. They become durable in this order, and are lost from the end.
#[derive(Debug, Default)]
pub(super) struct Journal(VecDeque<Transaction>);

impl Journal {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn add(&mut self, transaction: Transaction) {
        self.0.push_back(transaction);
    }

    pub(super) fn mentions(&self, ino: Ino) -> bool {
        self.0.iter().flatten().any(|change| change.mentions(ino))
    }

    /// Makes everything durable up to the last transaction that mentions a file or directory. Answers what became durable.
    pub(super) fn commit_through(&mut self, ino: Ino) -> Vec<EntryChange> {
        let last = self
            .0
            .iter()
            .rposition(|transaction| transaction.iter().any(|change| change.mentions(ino)));
        let Some(last) = last else {
            return Vec::new();
        };
        self.0.drain(..=last).flatten().collect()
    }

    /// The newest transaction, to be undone.
    pub(super) fn pop(&mut self) -> Option<Transaction> {
        self.0.pop_back()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(name: &str, ino: Ino) -> Transaction {
        vec![EntryChange {
            directory: 1,
            name: name.into(),
            before: None,
            after: Some(ino),
        }]
    }

    #[test]
    fn a_sync_commits_what_came_before_and_nothing_that_came_after() {
        let mut journal = Journal::default();
        for ino in [2, 3, 4] {
            journal.add(created("f", ino));
        }
        assert_eq!(journal.commit_through(9), []);
        assert_eq!(journal.commit_through(3).len(), 2);
        assert!(!journal.mentions(3) && journal.mentions(4));
        assert_eq!(journal.commit_through(1).len(), 1);
        assert_eq!(journal.pop(), None);
    }
}
