//! Renewals of idle records under way: many reads of one record at a time commit one renewal.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use helve_proto::command::v1::Command;
use prost::Message;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

type UnderWay = Arc<Mutex<HashMap<Bytes, watch::Receiver<()>>>>;

/// Which renewals are under way.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    under_way: UnderWay,
}

/// What a reader has to do for a renewal.
#[derive(Debug)]
pub(crate) enum Renewal {
    /// Commit it; it is over when the guard is dropped.
    First(Guard),
    /// Wait for the task that does.
    Another(watch::Receiver<()>),
}

/// Held by the task that commits a renewal.
#[derive(Debug)]
pub(crate) struct Guard {
    under_way: UnderWay,
    key: Bytes,
    _open: watch::Sender<()>,
}

impl Renewals {
    /// Joins the renewal that this command would be, or begins it.
    pub(crate) fn begin(&self, command: &Command) -> Renewal {
        let key = Bytes::from(command.encode_to_vec());
        let mut under_way = lock(&self.under_way);
        if let Some(open) = under_way.get(&key) {
            return Renewal::Another(open.clone());
        }
        let (sender, receiver) = watch::channel(());
        under_way.insert(key.clone(), receiver);
        drop(under_way);
        Renewal::First(Guard {
            under_way: Arc::clone(&self.under_way),
            key,
            _open: sender,
        })
    }
}

impl Renewal {
    /// Waits until the renewal is over, whatever came of it: the reader looks again.
    pub(crate) async fn over(self, deadline: Instant) {
        if let Self::Another(mut open) = self {
            // Both the end of the renewal and the end of the time let the reader look again.
            let _ = timeout_at(deadline, open.changed()).await;
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        lock(&self.under_way).remove(&self.key);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_of_many_readers_commits_and_the_others_wait_for_it() {
        let renewals = Renewals::default();
        let command = Command {
            tenant: "t".to_owned(),
            ..Command::default()
        };
        let Renewal::First(guard) = renewals.begin(&command) else {
            panic!("no renewal began")
        };
        let second = renewals.begin(&command);
        assert!(matches!(second, Renewal::Another(_)));
        let other = Command {
            tenant: "u".to_owned(),
            ..Command::default()
        };
        assert!(matches!(renewals.begin(&other), Renewal::First(_)));
        drop(guard);
        second
            .over(Instant::now() + std::time::Duration::from_secs(60))
            .await;
        assert!(matches!(renewals.begin(&command), Renewal::First(_)));
    }
}
