//! Mints a handle, changes its value, and takes the value once.
//!
//! ```console
//! $ helve dev
//! $ cargo run --package helve-client --example handle -- 127.0.0.1:7400
//! ```

use std::{error::Error, io::Write, time::Duration};

use helve_client::{
    ClusterBuilder, HandleOptions, HandleStore as _, HandleStoreExt as _, Resolved, Ttl,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints: Vec<String> = std::env::args().skip(1).collect();
    run(&endpoints, &mut std::io::stdout()).await
}

/// Runs against the cluster at these endpoints, and says what it does.
pub(crate) async fn run(endpoints: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let client = ClusterBuilder::new(endpoints).build()?;
    let carts =
        client.handles::<Vec<String>>(HandleOptions::new("example-carts", "ada").id_prefix("cart"));
    let hour = Duration::from_secs(3600);
    let id = carts.mint(&vec![], Ttl::After(hour)).await?;
    writeln!(out, "minted {id}")?;

    let add = |mut cart: Vec<String>| {
        cart.push("tea".to_owned());
        cart
    };
    carts.update(&id, add).await?;
    writeln!(out, "it holds {:?}", carts.get(&id).await?)?;

    match carts.take(&id).await? {
        Resolved::Live(cart) => writeln!(out, "took {:?}", cart.value)?,
        gone => writeln!(out, "nothing to take: {gone:?}")?,
    }
    writeln!(out, "a second take finds it {:?}", carts.take(&id).await?)?;
    Ok(())
}
