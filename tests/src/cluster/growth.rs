//! Seats beyond those that a cluster began with.

use std::fs;

use anyhow::Result;
use helve_proto::v1::Role;

use super::{Cluster, data_directory};
use crate::{
    process::Process,
    wait::{Look, until},
};

impl Cluster {
    /// Makes room for one more node, at the next seat: its `--peers` lists all seats so far, and itself. It does not run yet, and
    /// is no member.
    ///
    /// # Errors
    ///
    /// If there is no room for its directory.
    pub fn add_seat(&mut self) -> Result<u64> {
        let seat = self.nodes.len() as u64 + 1;
        self.setup.nodes = seat;
        let directory = self.directory.path();
        fs::create_dir(data_directory(directory, seat))?;
        let start = self.setup.start_of(seat, self.address, directory);
        let log = directory.join(format!("node-{seat}.log"));
        self.nodes.push(Process::new(start, log));
        Ok(seat)
    }

    /// Takes the last seat away again: its node is killed, and its data gone. It must be no member any more.
    ///
    /// # Errors
    ///
    /// If its data cannot be removed.
    pub fn drop_seat(&mut self) -> Result<()> {
        let seat = self.nodes.len() as u64;
        if self.node(seat).pid().is_some() {
            self.kill(seat)?;
        }
        self.nodes.pop();
        self.setup.nodes = seat - 1;
        Ok(fs::remove_dir_all(self.data_directory(seat))?)
    }

    /// Waits until one of these nodes leads and all of them say so, and returns its seat. Other nodes may run, and know nothing.
    ///
    /// # Errors
    ///
    /// If that does not come to pass.
    pub async fn leader_of(&self, seats: impl IntoIterator<Item = u64>) -> Result<u64> {
        let seats: Vec<u64> = seats.into_iter().collect();
        until("these nodes to agree on a leader", async || {
            let mut leading = Vec::new();
            let mut said = Vec::new();
            for &seat in &seats {
                let node = match self.status(seat).await {
                    Ok(reply) => reply.node.unwrap_or_default(),
                    Err(error) => return Look::NotYet(error.to_string()),
                };
                if node.role() == Role::Leader {
                    leading.push((seat, node.id, node.term));
                }
                said.push((node.leader_id, node.term));
            }
            match leading.as_slice() {
                [(seat, id, term)] if said.iter().all(|one| *one == (*id, *term)) => {
                    Look::Done(*seat)
                }
                _ => Look::NotYet(format!(
                    "{leading:?}; (leader, term) as each says: {said:?}"
                )),
            }
        })
        .await
    }
}
