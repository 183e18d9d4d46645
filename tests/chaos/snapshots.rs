//! Snapshots that are sent while callers work, and interrupted at each step: on the side that sends them, on the side that gets them,
//! on the way between, and while they are put in the place of the rows.

use anyhow::{Context as _, Result};
use helve_node::failpoint::Failpoint;
use helve_tests::{
    cluster::{Cluster, Equipment, Setup},
    failpoints::{arm, disarm},
    fault::{
        Fault, Seen, Target,
        network::{Side, Treatment},
    },
    wait::{Look, until},
};
use rand::{
    RngExt as _,
    rngs::SmallRng,
    seq::{IndexedRandom as _, SliceRandom as _},
};
use tonic::async_trait;

use super::armed::{Armed, comes_back, dies, purged_beyond, status};

/// So that the others soon purge what a node has missed, and it needs a snapshot.
fn often(setup: Setup) -> Setup {
    setup
        .with("HELVE_SNAPSHOT_ENTRIES", "50")
        .with("HELVE_LOG_KEEP_ENTRIES", "10")
}

/// All of them.
pub(crate) fn all() -> Vec<Box<dyn Fault>> {
    use Failpoint::{
        InstallBeforeSwitch, InstallCopied, InstallCopying, InstallSwitched, ReceiveChunk,
        ReceiveFinished, RemovalBefore, SendChunk,
    };
    let killed: [(&str, Points, On); 8] = [
        ("snapshot-sender-killed", &[(SendChunk, 2)], On::Sender),
        (
            "snapshot-receiver-killed",
            &[(ReceiveChunk, 2)],
            On::Receiver,
        ),
        (
            "snapshot-received-killed",
            &[(ReceiveFinished, 1)],
            On::Receiver,
        ),
        (
            "install-copying-killed",
            &[(InstallCopying, 2)],
            On::Receiver,
        ),
        ("install-copied-killed", &[(InstallCopied, 1)], On::Receiver),
        (
            "install-switch-killed",
            &[(InstallBeforeSwitch, 1)],
            On::Receiver,
        ),
        (
            "install-switched-killed",
            &[(InstallSwitched, 1), (RemovalBefore, 1)],
            On::Receiver,
        ),
        (
            "torn-install",
            &[
                (InstallCopying, 2),
                (InstallCopied, 1),
                (InstallBeforeSwitch, 1),
                (InstallSwitched, 1),
            ],
            On::Receiver,
        ),
    ];
    let killed = killed.into_iter().map(|(name, points, on)| {
        Box::new(KilledInSnapshot {
            name,
            points,
            on,
            armed: None,
        }) as Box<dyn Fault>
    });
    let others: [Box<dyn Fault>; 3] = [
        Box::new(FailingSnapshot::default()),
        Box::new(CorruptSnapshot::default()),
        Box::new(BlackholeUntilSnapshot::default()),
    ];
    killed.chain(others).collect()
}

/// Failpoints, and at which passage each strikes.
type Points = &'static [(Failpoint, u64)];

/// On which side of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Sender,
    Receiver,
}

/// One node is away until the others have thrown away what it has missed.
async fn falls_behind(cluster: &mut Cluster, rng: &mut SmallRng) -> Result<u64> {
    let seat = Target::Follower.pick(cluster, rng).await?[0];
    let last = status(cluster, seat).await?.last_log_index;
    cluster.kill(seat)?;
    purged_beyond(cluster, last).await?;
    Ok(seat)
}

/// What a failpoint is armed with that is only to say that the node came by.
const SAYS: &str = "delay:0";

/// Waits until a node has put a snapshot in the place of its rows: it is armed to say so.
async fn installs(cluster: &mut Cluster, seat: u64, armed: &Armed) -> Result<String> {
    let seen = armed.reached(Failpoint::InstallSwitched, 1).await?;
    cluster.ready(seat).await?;
    Ok(seen)
}

/// A node lags behind what the others keep of their logs, gets a snapshot, and it or the sender dies at a step of that.
struct KilledInSnapshot {
    name: &'static str,
    /// One of them is drawn.
    points: Points,
    on: On,
    armed: Option<u64>,
}

#[async_trait(?Send)]
impl Fault for KilledInSnapshot {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(often(setup))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let lagging = falls_behind(cluster, rng).await?;
        let seat = match self.on {
            On::Sender => cluster.leader().await?.seat,
            On::Receiver => lagging,
        };
        let (point, nth) = self.points.choose(rng).context("a step is named")?;
        self.armed = Some(seat);
        arm(cluster, seat, &format!("{}=kill:{nth}", point.as_str()))?;
        cluster.start(lagging)?;
        Ok(Seen::one(dies(cluster, seat).await?))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        comes_back(cluster, self.armed.take()).await
    }
}

/// A node lags behind, and of the pieces of its snapshot one fails on each side, and then the whole at its end; it is sent again.
#[derive(Default)]
struct FailingSnapshot {
    armed: Vec<u64>,
}

#[async_trait(?Send)]
impl Fault for FailingSnapshot {
    fn name(&self) -> &'static str {
        "snapshot-fails"
    }

    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(often(setup))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let seat = falls_behind(cluster, rng).await?;
        let sender = cluster.leader().await?.seat;
        self.armed = vec![seat, sender];
        let [sent, received, finished, installed] = [
            Failpoint::SendChunk,
            Failpoint::ReceiveChunk,
            Failpoint::ReceiveFinished,
            Failpoint::InstallSwitched,
        ];
        let at_sender = Armed::new(cluster, sender, &format!("{}=error:2", sent.as_str()))?;
        let nth = rng.random_range(2..4);
        let script = format!(
            "{}=error:{nth},{}=error:1,{}={SAYS}",
            received.as_str(),
            finished.as_str(),
            installed.as_str(),
        );
        let at_receiver = Armed::new(cluster, seat, &script)?;
        cluster.start(seat)?;
        let mut seen = Seen::one(at_sender.reached(sent, 1).await?);
        for point in [received, finished] {
            seen.add(at_receiver.reached(point, 1).await?);
        }
        seen.add(installs(cluster, seat, &at_receiver).await?);
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        for seat in self.armed.drain(..) {
            disarm(cluster, seat)?;
        }
        cluster.revive()?;
        cluster.all_ready().await
    }
}

/// How many pieces of a snapshot are sent, and how many bits flipped from then on, before it may come through.
const CHUNKS_MIN: usize = 3;
const FLIPPED_MIN: u64 = 5;

/// A node lags behind, and what it is sent of its snapshot arrives with flipped bits, until it has had enough of that.
#[derive(Default)]
struct CorruptSnapshot {
    armed: Vec<u64>,
}

#[async_trait(?Send)]
impl Fault for CorruptSnapshot {
    fn name(&self) -> &'static str {
        "snapshot-corrupt"
    }

    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(often(setup).on(Equipment::Network))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let seat = falls_behind(cluster, rng).await?;
        let sender = cluster.leader().await?.seat;
        let (sends, installed) = (Failpoint::SendChunk, Failpoint::InstallSwitched);
        let at_sender = Armed::new(cluster, sender, &format!("{}={SAYS}", sends.as_str()))?;
        let at_receiver = format!("{}={SAYS}", installed.as_str());
        let at_receiver = Armed::new(cluster, seat, &at_receiver)?;
        self.armed = vec![seat, sender];
        let lanes = cluster.network()?.lanes().clone();
        let lane = (Side::Node(sender), Side::Node(seat));
        // Of what is large enough to be a snapshot hardly anything comes through whole.
        lanes.treat(lane.0, lane.1, Treatment::Corrupt { percent: 30 });
        cluster.start(seat)?;
        let mut seen = Seen::one(at_sender.reached(sends, CHUNKS_MIN).await?);
        let before = lanes.counts(lane.0, lane.1);
        let flipped = until("bits to be flipped", async || {
            match lanes.counts(lane.0, lane.1).since(&before) {
                counts if counts.corrupted >= FLIPPED_MIN => Look::Done(counts),
                counts => Look::NotYet(counts.to_string()),
            }
        })
        .await?;
        seen.add(format!("from {sender} to {seat}: {flipped}"));
        lanes.clear();
        seen.add(installs(cluster, seat, &at_receiver).await?);
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        cluster.network()?.lanes().clear();
        for seat in self.armed.drain(..) {
            disarm(cluster, seat)?;
        }
        cluster.revive()?;
        cluster.all_ready().await
    }
}

/// A node is cut off from its peers until what it misses is in a snapshot alone; then it is let in again.
#[derive(Default)]
struct BlackholeUntilSnapshot {
    armed: Option<u64>,
}

#[async_trait(?Send)]
impl Fault for BlackholeUntilSnapshot {
    fn name(&self) -> &'static str {
        "blackhole-until-snapshot"
    }

    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(often(setup).on(Equipment::Network))
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let leader = cluster.leader().await?.seat;
        let mut others = cluster.others(leader);
        others.shuffle(rng);
        let seat = *others.first().context("a leader has followers")?;
        let manner = [Treatment::Hold, Treatment::Swallow, Treatment::Refuse];
        let manner = *manner.choose(rng).context("there are three")?;
        let armed = format!("{}={SAYS}", Failpoint::InstallSwitched.as_str());
        let armed = Armed::new(cluster, seat, &armed)?;
        self.armed = Some(seat);
        let lanes = cluster.network()?.lanes().clone();
        for other in cluster.others(seat) {
            lanes.treat(Side::Node(other), Side::Node(seat), manner);
            lanes.treat(Side::Node(seat), Side::Node(other), manner);
        }
        // What was on its way may still have arrived.
        let last = status(cluster, seat).await?.last_log_index;
        until(
            "the others to purge what the node misses",
            async || match status(cluster, leader).await {
                Ok(status) if status.purged_index > last => Look::Done(()),
                Ok(status) => Look::NotYet(format!("{} of {last}", status.purged_index)),
                Err(error) => Look::NotYet(error.to_string()),
            },
        )
        .await?;
        let mut seen = Seen::one(format!("{manner:?} around node {seat}"));
        lanes.clear();
        seen.add(installs(cluster, seat, &armed).await?);
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        cluster.network()?.lanes().clear();
        comes_back(cluster, self.armed.take()).await
    }
}
