//! Seals the state of a request on one replica, and opens it on another, once.
//!
//! ```console
//! $ helve dev
//! $ cargo run --package helve-client --example request_state -- 127.0.0.1:7400
//! ```

use std::{error::Error, io::Write, sync::Arc};

use helve_client::{Client, ClusterBuilder};
use helve_request_state::state_codec::{
    ClusterKeys, HardenedCodec, KeyRing, OperatorKey, SingleUse, StateCodec, StateContext,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints: Vec<String> = std::env::args().skip(1).collect();
    run(&endpoints, &mut std::io::stdout()).await
}

/// Runs against the cluster at these endpoints, and says what it does.
pub(crate) async fn run(endpoints: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // A secret of the operator, the same for every replica: in production, read from a file.
    let operator = OperatorKey::new(*b"an example's key of 32 bytes 123")?;
    let ring = |client: &Client| KeyRing::new(client, "examples", &operator);
    let clients = [(); 2].map(|()| ClusterBuilder::new(endpoints).build());
    let [first, second] = clients;
    let (first, second) = (first?, second?);
    if ring(&first)?.list().await?.is_empty() {
        ring(&first)?.add().await?;
    }
    let replica = async |client: &Client| {
        let codec = HardenedCodec::new(ClusterKeys::open(ring(client)?).await?);
        Ok::<_, helve_client::Error>(SingleUse::new(Arc::new(codec), client))
    };
    let (first, second) = (replica(&first).await?, replica(&second).await?);

    let ada = StateContext::new()
        .subject("ada")
        .method("tools/call")
        .target("checkout");
    let sealed = first.encode("confirm order 17", &ada).await?;
    writeln!(out, "the first replica sealed {} bytes", sealed.len())?;

    if let Err(refusal) = second.decode(&sealed, &ada.subject("eve")).await {
        writeln!(out, "another user is refused: {refusal}")?;
    }
    let opened = second.decode(&sealed, &ada).await?;
    writeln!(out, "the second replica opened it: {}", opened.state)?;
    if let Err(refusal) = first.decode(&sealed, &ada).await {
        writeln!(out, "a second time it is refused: {refusal}")?;
    }
    Ok(())
}
