//! The new backup that an archive goes on behind.

use anyhow::anyhow;
use helve_command::{cluster::ClusterArgs, ending::Ending};
use helve_node::backup::{Backup, Tip};
use helve_proto::v1::StatusReply;
use tokio::time::sleep;

use super::{
    super::{
        shown::Shown,
        stop::Stop,
        take::{ask, take_from},
    },
    Archiver, Follow, Line,
    ends::{ONCE_FREE, ONCE_MADE, Unmade, WAIT, WAITS_SAID, say, stranger, waits},
    outage::Outage,
};

impl Follow<'_> {
    /// Has this node make a backup. `None` if a signal asks to stop.
    ///
    /// # Errors
    /// See [`Ending`].
    pub(super) async fn back_up(
        &self,
        cluster: &ClusterArgs,
        (endpoint, status): (String, StatusReply),
        cluster_id: &str,
        stop: &mut Stop,
    ) -> Result<Option<Backup>, Ending> {
        if let Some(ending) = stranger(&endpoint, &status.cluster_id, cluster_id) {
            return Err(ending);
        }
        let place = (self.to, self.http);
        let Some(taken) = take_from(cluster, (endpoint, status), place, stop).await? else {
            return Ok(None);
        };
        let backup = taken.received.backup;
        if backup.manifest().cluster_id != cluster_id {
            let why = "the endpoints came to be of another cluster: run the command again";
            return Err(Ending::Refused(anyhow!(why)));
        }
        self.announce(&Line::Backup(Shown::of(&backup)))?;
        Ok(Some(backup))
    }
}

impl Archiver<'_> {
    /// Goes on behind a new backup, once every segment is kept. Answers whether to go on.
    ///
    /// # Errors
    /// See [`Ending`].
    pub(super) async fn begin_again(&mut self, why: &str, stop: &mut Stop) -> Result<bool, Ending> {
        say(why);
        let Some(backup) = self.back_up_again(stop).await? else {
            return Ok(false);
        };
        self.tip = Tip::behind(&backup);
        self.open = self.tip.segment(&self.cluster_id);
        self.has_backup = true;
        self.outage = Outage::default();
        Ok(true)
    }

    /// Makes a backup, once a node does, and no other command at the place is in its way, such as
    /// the deletion that made it necessary. Each try begins with another endpoint: one may be
    /// ready, and yet make no backup for long. `None` if a signal asks to stop.
    async fn back_up_again(&mut self, stop: &mut Stop) -> Result<Option<Backup>, Ending> {
        self.outage = Outage::default();
        let mut cluster = self.follow.cluster.clone();
        let mut busy = 0;
        loop {
            let Some(asked) = stop.unless(ask(&cluster)).await else {
                return Ok(None);
            };
            self.outage.asked(&asked);
            let (made, endpoint) = match asked.first() {
                Ok(node) => {
                    let endpoint = node.0.clone();
                    let made = self.follow.back_up(&cluster, node, &self.cluster_id, stop);
                    (made.await, Some(endpoint))
                }
                Err(ending) => (Err(ending), None),
            };
            let (endpoint, failed) = match made {
                Ok(backup) => return Ok(backup),
                Err(failed) => (endpoint.as_deref(), failed),
            };
            match Unmade::of(&failed) {
                Unmade::Here => return Err(failed),
                Unmade::Busy => {
                    busy += 1;
                    if busy == WAITS_SAID {
                        say(&waits(&failed, ONCE_FREE));
                    }
                    if stop
                        .unless(sleep(WAIT * busy.min(WAITS_SAID)))
                        .await
                        .is_none()
                    {
                        return Ok(None);
                    }
                    continue;
                }
                Unmade::Refused => {
                    let all = cluster.endpoints.len();
                    if self.outage.refuses(endpoint, &failed, all) {
                        return Err(failed);
                    }
                }
                Unmade::Broken => self.outage.fails(endpoint, &failed),
            }
            self.outage.note(&failed, ONCE_MADE);
            if stop.unless(sleep(self.outage.pause())).await.is_none() {
                return Ok(None);
            }
            cluster.endpoints.rotate_left(1);
        }
    }
}
