//! What every case is given: names of its own, and waiting.

use std::{sync::Arc, time::Duration};

use helve_client::{Client, Error, ErrorKind, HandleOptions, Handles, KeyOptions, Keys};
use tokio::time::Instant;

use crate::host::Host;

/// The names that one run of one case uses, so that no other one sees what it does.
pub(crate) struct Setup {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) name: String,
}

impl Setup {
    pub(crate) fn new(host: Arc<dyn Host>) -> Result<Self, Error> {
        let name = random_name()?;
        Ok(Self { host, name })
    }

    pub(crate) fn client(&self, node: usize) -> Client {
        self.host.client(node)
    }

    pub(crate) fn options(&self) -> HandleOptions {
        HandleOptions::shared(&self.name)
    }

    /// The case's store.
    pub(crate) fn handles<T>(&self, node: usize) -> Handles<T> {
        self.client(node).handles(self.options())
    }

    /// The case's keys, under an owner of its own.
    pub(crate) fn keys(&self, node: usize) -> Keys {
        let options = KeyOptions::new(&self.name);
        self.client(node).keys(options)
    }
}

pub(crate) fn random_name() -> Result<String, Error> {
    let number = getrandom::u64().map_err(|error| {
        Error::new(ErrorKind::Entropy, "no randomness for a name").with_source(error)
    })?;
    Ok(format!("case-{number:016x}"))
}

/// Long enough that no case sees its end.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// Short enough to wait for.
pub(crate) const SHORT: Duration = Duration::from_millis(200);

/// What a case waits for comes within this time, or it fails. Ample, for slow machines.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Asks until the answer is yes.
pub(crate) async fn wait_until(
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<bool, Error>,
) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    while !ask().await? {
        assert!(Instant::now() < until, "waited in vain: {what}");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Makes all calls at once, on as many threads as the runtime has.
pub(crate) async fn together<C, O>(calls: impl Iterator<Item = C>) -> Result<Vec<O>, Error>
where
    C: Future<Output = Result<O, Error>> + Send + 'static,
    O: Send + 'static,
{
    let tasks: Vec<_> = calls.map(tokio::spawn).collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.expect("no caller panics")?);
    }
    Ok(outcomes)
}
