//! Changes a key only if no other caller has changed it since it was read.
//!
//! ```console
//! $ helve dev
//! $ cargo run --package helve-client --example compare_and_swap -- 127.0.0.1:7400
//! ```

use std::{error::Error, io::Write};

use helve_client::{ClusterBuilder, KeyOptions, StateTool as _, StoreOutcome, Ttl};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints: Vec<String> = std::env::args().skip(1).collect();
    run(&endpoints, &mut std::io::stdout()).await
}

/// Runs against the cluster at these endpoints, and says what it does.
pub(crate) async fn run(endpoints: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let client = ClusterBuilder::new(endpoints).build()?;
    let prices = client.keys(KeyOptions::new("ada"));
    let key = "examples/price";
    prices.store(key, &json!(100)).await?;
    let read = prices
        .retrieve_record(key)
        .await?
        .ok_or("the key is gone")?;
    writeln!(out, "read {}", read.value)?;

    prices.store(key, &json!(120)).await?;
    writeln!(out, "another caller stored 120")?;

    let raised = json!(read.value.as_u64().unwrap_or(0) + 10);
    let stored = prices
        .store_if(key, &raised, Ttl::Keep, read.revision())
        .await?;
    let StoreOutcome::Conflict { .. } = stored else {
        return Err("the other caller's price was overwritten".into());
    };
    writeln!(
        out,
        "storing {raised} was refused: the revision is another one"
    )?;

    // Read again, decide again.
    let read = prices
        .retrieve_record(key)
        .await?
        .ok_or("the key is gone")?;
    let raised = json!(read.value.as_u64().unwrap_or(0) + 10);
    match prices
        .store_if(key, &raised, Ttl::Keep, read.revision())
        .await?
    {
        StoreOutcome::Replaced(_) => writeln!(out, "stored {raised}")?,
        other => writeln!(out, "others were faster again: {other:?}")?,
    }
    Ok(())
}
