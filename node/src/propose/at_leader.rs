//! Which tenants have commands of this node at the leader. A batch lasts as long as its slowest command, so one tenant whose commands wait
//! there could hold all of this node's batches. Tenants that have nothing there send batches beside them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::attempt::Timed;

/// In how many batches each tenant has commands under way. Clones share it.
#[derive(Clone, Default)]
pub(super) struct AtLeader(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// By tenant. One that has nothing at the leader has no entry.
    batches: Mutex<HashMap<String, usize>>,
    /// Told when a tenant's last command there is answered.
    left: Notify,
}

/// A tenant's part of one batch, until it is known what became of all its commands there.
pub(super) struct Part {
    tenant: String,
    all: AtLeader,
}

impl AtLeader {
    /// For each command of a batch the part of its tenant.
    pub(super) fn parts(&self, batch: &[Timed]) -> Vec<Arc<Part>> {
        let mut parts: HashMap<&str, Arc<Part>> = HashMap::new();
        let part = |timed: &Timed| -> Arc<Part> { Arc::new(self.part(&timed.command.tenant)) };
        let mut of_command = Vec::with_capacity(batch.len());
        for timed in batch {
            let tenant = timed.command.tenant.as_str();
            of_command.push(Arc::clone(
                parts.entry(tenant).or_insert_with(|| part(timed)),
            ));
        }
        of_command
    }

    fn part(&self, tenant: &str) -> Part {
        *self.lock().entry(tenant.to_owned()).or_default() += 1;
        Part {
            tenant: tenant.to_owned(),
            all: self.clone(),
        }
    }

    /// Whether something of this tenant is under way.
    pub(super) fn has(&self, tenant: &str) -> bool {
        self.lock().contains_key(tenant)
    }

    /// Whether nothing is under way of one of these.
    pub(super) fn lacks_one<'a>(&self, mut tenants: impl Iterator<Item = &'a String>) -> bool {
        let batches = self.lock();
        tenants.any(|tenant| !batches.contains_key(tenant))
    }

    /// Waits until one more tenant has nothing under way, since the last time that this was waited for.
    pub(super) async fn one_left(&self) {
        self.0.left.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        // Nothing panics under the lock.
        self.0
            .batches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut batches = self.all.lock();
        let Some(count) = batches.get_mut(&self.tenant) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            batches.remove(&self.tenant);
            drop(batches);
            self.all.0.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::propose::queued::tests::timed as of;

    #[tokio::test]
    async fn tenant_is_at_the_leader_until_its_last_command_is_answered() {
        let there = AtLeader::default();
        let mut first = there.parts(&[of("a"), of("a"), of("b")]);
        let second = there.parts(&[of("a")]);
        let tenants = ["a".to_owned(), "b".to_owned()];
        assert!(!there.lacks_one(tenants.iter()));
        drop(first.pop());
        assert!(!there.has("b") && there.lacks_one(tenants.iter()));
        assert!(there.one_left().now_or_never().is_some());
        drop(first.pop());
        drop(second);
        assert!(there.has("a"), "one of its commands is not answered");
        assert!(there.one_left().now_or_never().is_none());
        drop(first);
        assert!(!there.has("a"));
        assert!(there.one_left().now_or_never().is_some());
        assert!(there.lock().is_empty());
    }
}
