//! Copies are sent, compared, and told apart from calls that were done twice.

use helve_client::{HandleOptions, HandleStore as _, MemoryBuilder, Ttl};
use rand::SeedableRng as _;

use super::*;
use crate::wait::{Look, until};

/// Does every copy as if it were a call of its own.
#[derive(Debug)]
struct Forgetful(Client);

#[async_trait]
impl Backend for Forgetful {
    async fn call(&self, mut call: Call, deadline: Duration) -> Result<Answer, Error> {
        if let Some(identity) = identity_mut(&mut call) {
            *identity = None;
        }
        self.0.with_deadline(deadline).call(Untyped(call)).await
    }

    async fn list_handles(&self, _: ListRequest, _: Duration) -> Result<Vec<ListReply>, Error> {
        Ok(Vec::new())
    }

    async fn list_keys(
        &self,
        _: ListKeysRequest,
        _: Duration,
    ) -> Result<Vec<ListKeysReply>, Error> {
        Ok(Vec::new())
    }

    fn deadline(&self) -> Duration {
        self.0.deadline()
    }

    fn close(&self) {}
}

/// Mints through the layer between, and returns what that has seen when all copies have come.
async fn minted(host: Client, manner: Manner) -> (Between, usize) {
    let between = Between::default();
    between.treat(manner);
    let fresh = {
        let host = host.clone();
        // Closing one client of the in-memory host would close them all.
        move || Ok(Client::new(Arc::new(Forgetful(host.clone()))))
    };
    let rng = SmallRng::seed_from_u64(5);
    let client = between.client(host.clone(), [host].into(), fresh, rng);
    let handles = client.handles::<u64>(HandleOptions::shared("numbers"));
    let mut minted = Vec::new();
    // Later calls say that earlier ones will not be repeated.
    for _ in 0..10 {
        let mints = (0..6).map(|number| {
            let handles = &handles;
            async move { handles.mint(&number, Ttl::Default).await }
        });
        minted.extend(futures::future::join_all(mints).await);
    }
    until("all copies to come", async || match between.pending() {
        0 => Look::Done(()),
        pending => Look::NotYet(format!("{pending} to come")),
    })
    .await
    .unwrap();
    (between, minted.iter().filter(|id| id.is_ok()).count())
}

#[tokio::test]
async fn copies_are_answered_as_their_calls_or_refused_as_too_late() {
    let host = MemoryBuilder::new().build().unwrap();
    let (between, minted) = minted(host, Manner::Repeated).await;
    let counts = between.counts();
    assert_eq!(between.take_broken(), Vec::<String>::new());
    assert_eq!(minted, 60);
    assert!(counts.alike > 10 && counts.stale > 0, "{counts}");
}

#[tokio::test]
async fn a_host_that_does_a_copy_again_is_found() {
    let host = MemoryBuilder::new().build().unwrap();
    let host = Client::new(Arc::new(Forgetful(host)));
    let (between, _) = minted(host, Manner::Repeated).await;
    let broken = between.take_broken();
    assert!(broken.len() > 10, "{broken:?}");
    assert!(broken[0].contains("a copy of it"), "{}", broken[0]);
}

#[tokio::test]
async fn without_a_manner_calls_pass_straight_through() {
    let host = MemoryBuilder::new().build().unwrap();
    let (between, minted) = minted(host, Manner::Straight).await;
    assert_eq!((between.counts(), minted), (Counts::default(), 60));
}
