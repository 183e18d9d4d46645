//! Checks a cart out in one transaction, under a guard.
//!
//! ```console
//! $ helve dev
//! $ cargo run --package helve-client --example transaction -- 127.0.0.1:7400
//! ```

use std::{error::Error, io::Write, time::Duration};

use helve_client::{
    ClusterBuilder, ErrorKind, HandleOptions, HandleStore as _, KeyOptions, StateTool as _,
    Transacted, Ttl,
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints: Vec<String> = std::env::args().skip(1).collect();
    run(&endpoints, &mut std::io::stdout()).await
}

/// Runs against the cluster at these endpoints, and says what it does.
pub(crate) async fn run(endpoints: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let client = ClusterBuilder::new(endpoints).build()?;
    let carts = client.handles::<Vec<String>>(HandleOptions::new("example-carts", "ada"));
    let keys = client.keys(KeyOptions::new("ada"));
    let id = carts.mint(&vec!["tea".to_owned()], Ttl::Default).await?;

    let (lifetime, patience) = (Duration::from_secs(30), Duration::from_secs(10));
    let guards = client.guards("ada");
    let guard = guards
        .acquire("examples/checkout", lifetime, patience)
        .await?;
    writeln!(out, "holding the guard of {}", guard.key())?;

    // All or nothing, and only while this guard is held: its key has another revision otherwise.
    let checkout = |id: &str| {
        client
            .transaction()
            .take(&carts, id)
            .store(&keys, "examples/order", &json!({"cart": id}), Ttl::Never)
            .delete_key(&keys, guard.key())
            .if_revision(guard.fence())
    };
    match checkout(&id).commit().await? {
        Transacted::Committed(committed) => {
            let cart = committed.taken::<Vec<String>>(0)?;
            writeln!(out, "checked out {:?}, and released the guard", cart.value)?;
        }
        Transacted::Aborted { status, .. } => writeln!(out, "the cart is {status:?}")?,
    }
    let order = keys.retrieve("examples/order").await?.unwrap_or_default();
    writeln!(
        out,
        "the order is of this cart: {}",
        order["cart"] == id.as_str()
    )?;

    let other = carts.mint(&vec!["milk".to_owned()], Ttl::Default).await?;
    match checkout(&other).commit().await {
        Err(error) if matches!(error.kind(), ErrorKind::Conflict { .. }) => {
            let left = carts.get(&other).await?;
            writeln!(
                out,
                "without the guard nothing is written: {left:?} is left"
            )?;
        }
        other => return Err(format!("a checkout without the guard: {other:?}").into()),
    }
    Ok(())
}
