//! `--force-bootstrap`: a new, empty cluster although listed peers do not answer.
//!
//! A node that does not answer may be the only one that still holds the rows, and a new cluster beside it hides them. So the flag never
//! founds a cluster while a listed peer answers that it has data, and beside silent peers only where the operator says in words that
//! everything is lost.

use std::time::{Duration, Instant};

use helve_proto::peer::v1::HelloReply;

use super::bootstrap::Beginning;

/// How long a reason must hold: peers that are started together answer one after the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the operator vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// Nothing: every listed peer must answer.
    No,
    /// `--force-bootstrap` alone: nothing either, but the node does not wait for peers that are silent.
    Asked,
    /// `--force-bootstrap=everything-is-lost`: what silent peers held is gone.
    EverythingIsLost,
}

/// Why `--force-bootstrap` made no cluster. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotForced {
    /// A listed peer has data of a cluster.
    #[error(
        "--force-bootstrap: the node of seat {seat} at {address} answers, and has data of a cluster: not everything is lost, and no empty \
         cluster was made. Start this node without --force-bootstrap: it joins that cluster. If that cluster has lost its majority for \
         good, stop the node of seat {seat}, and make a new cluster of its data: `helve recover --data-dir DIR --from-survivor`"
    )]
    DataLeft {
        /// Its seat.
        seat: u64,
        /// Its peer address.
        address: String,
    },
    /// Listed peers do not answer, and may have data.
    #[error(
        "--force-bootstrap: seats {silent:?} do not answer, and may have data; no empty cluster was made. If the data of one of them is \
         left, start that node, or make a new cluster of its data: `helve recover --data-dir DIR --from-survivor`. Only if nothing is left \
         on any of them, say so: --force-bootstrap=everything-is-lost"
    )]
    Silent {
        /// Their seats.
        silent: Vec<u64>,
    },
}

/// What the flag leads to, once it has held for long enough.
pub(super) type Forced = Result<Beginning, NotForced>;

/// What a peer's answer says against a new cluster, if the flag is there.
pub(super) fn refuse(
    force: Force,
    (seat, reply): (u64, &HelloReply),
    address: Option<&String>,
) -> Option<NotForced> {
    let has_data = !reply.pristine || !reply.cluster_id.is_empty();
    (force != Force::No && has_data).then(|| NotForced::DataLeft {
        seat,
        address: address.cloned().unwrap_or_default(),
    })
}

/// Holds back what the flag leads to until nothing else has come of it for a while.
#[derive(Debug, Default)]
pub(super) struct Held(Option<(Instant, Forced)>);

impl Held {
    /// Returns what is to be done, if it has held for long enough.
    pub(super) fn settle(&mut self, forced: Option<Forced>, now: Instant) -> Option<Forced> {
        let Some(forced) = forced else {
            self.0 = None;
            return None;
        };
        match &self.0 {
            Some((since, held)) if *held == forced => {
                (now.duration_since(*since) >= PATIENCE).then_some(forced)
            }
            _ => {
                self.0 = Some((now, forced));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_counts_once_it_has_held_without_a_break() {
        let lost = || Some(Err(NotForced::Silent { silent: vec![2] }));
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut held = Held::default();
        assert_eq!(held.settle(lost(), at(0)), None);
        assert_eq!(held.settle(lost(), at(4)), None);
        // A peer answered in between, or another reason took its place.
        assert_eq!(held.settle(None, at(5)), None);
        assert_eq!(held.settle(lost(), at(6)), None);
        assert_eq!(held.settle(Some(Ok(Beginning::Await)), at(8)), None);
        assert_eq!(held.settle(lost(), at(9)), None);
        assert_eq!(held.settle(lost(), at(13)), None);
        assert_eq!(held.settle(lost(), at(14)), lost());
    }
}
