//! A read of many rows has its turn for as long as a thread is at it.

use std::{collections::BTreeMap, sync::mpsc, time::Duration};

use helve_proto::v1::CountReply;
use tokio::{sync::mpsc as async_mpsc, time::Instant};

use super::*;
use crate::{node::Alone, service::admit::Origin};

/// A read of many rows that goes on until it is let go.
struct Long {
    begun: async_mpsc::UnboundedSender<()>,
    end: Mutex<mpsc::Receiver<()>>,
}

impl Query for Long {
    type Reply = CountReply;
    const PLACE: Place = Place::Disk;

    fn check(&self) -> Result<(), Violation> {
        Ok(())
    }

    fn answer(&self, _: &StateView<'_>, _: &Scope<'_>) -> Result<Read<CountReply>, Fault> {
        self.begun.send(()).unwrap();
        self.end.lock().unwrap().recv().unwrap_or_default();
        Ok(Read::Answer(CountReply::default()))
    }
}

/// A call that may be carried out on a node, which leads from then on.
async fn admitted(node: &Alone) -> Admitted {
    let us = node.consensus.identity();
    let members = BTreeMap::from([(us.node_id(), us.record().clone())]);
    node.consensus.initialize(members).await.unwrap();
    let led = node.consensus.wait_leading(|leading| leading.here).await;
    led.unwrap();
    let caller = Caller::anyone();
    let budgets = node.services.access_check.budgets().clone();
    let owner = budgets.owner(&caller, None);
    let origin = Origin {
        caller,
        peer: None,
        account: Account::open(budgets, owner, &[]).unwrap(),
        request: None,
        parent: None,
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    origin.admit(deadline).unwrap()
}

#[tokio::test]
async fn cancelled_read_of_many_rows_has_its_turn_until_its_thread_ends() {
    let node = Alone::start().await;
    let admitted = admitted(&node).await;
    let taken = || node.services.long_reads.fullness().used;
    let (begun, mut has_begun) = async_mpsc::unbounded_channel();
    let (end, ended) = mpsc::channel();
    let long = Long {
        begun,
        end: Mutex::new(ended),
    };
    let services = Arc::clone(&node.services);
    let reading = tokio::spawn(async move { services.query(long, &admitted).await.is_ok() });
    has_begun.recv().await.unwrap();
    reading.abort();
    assert!(reading.await.unwrap_err().is_cancelled());
    assert_eq!(taken(), 1, "its thread goes on");
    drop(end);
    while taken() > 0 {
        tokio::task::yield_now().await;
    }
}
