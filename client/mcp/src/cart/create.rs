//! Creating a cart, once for each idempotency key.

use std::time::Duration;

use data_encoding::BASE32_NOPAD;
use helve_client::{Error, ErrorKind, HandleStore, StateTool, Transacted, Ttl};

use crate::cart::{
    carts::{Carts, ID_PREFIX, ROUNDS_MAX, busy},
    error::ToolError,
    items::view,
    model::{Cart, check_name},
    views::CartView,
};

/// How long an idempotency key is remembered.
const KEY_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Creates a cart. With a key, a second call with the same key answers the first one's cart.
pub(super) async fn create(carts: &Carts, key: Option<&str>) -> Result<CartView, ToolError> {
    if let Some(key) = key {
        check_name("idempotency_key", key)?;
        return create_once(carts, &format!("creates/{}/{key}", carts.store)).await;
    }
    let cart = Cart::default();
    let cart_id = carts.handles.mint(&cart, Ttl::Default).await?;
    Ok(CartView::of(&cart_id, cart))
}

/// Writes cart and key together, each only if it is absent. The cart's id must be known before the transaction, so that the key
/// can hold it: it is drawn here, from the same randomness as minted ones.
async fn create_once(carts: &Carts, key: &str) -> Result<CartView, ToolError> {
    for _ in 0..ROUNDS_MAX {
        let cart = Cart::default();
        let cart_id = draw_id()?;
        let transaction = carts
            .client
            .transaction()
            .put(&carts.handles, &cart_id, &cart, Ttl::Default)
            .if_revision(0)
            .store(&carts.keys, key, &cart_id, Ttl::After(KEY_TTL))
            .if_revision(0);
        match transaction.commit().await {
            Ok(Transacted::Committed(_)) => return Ok(CartView::of(&cart_id, cart)),
            Ok(Transacted::Aborted { .. }) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(first) = carts.keys.retrieve(key).await? {
            let first = first.as_str().ok_or_else(|| malformed(key))?;
            return view(carts, first).await;
        }
    }
    Err(busy())
}

/// An id as the cluster mints them: 128 random bits.
fn draw_id() -> Result<String, ToolError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        ToolError::from(Error::new(
            ErrorKind::Entropy,
            format!("no randomness: {error}"),
        ))
    })?;
    Ok(format!("{ID_PREFIX}-{}", BASE32_NOPAD.encode(&bytes)))
}

fn malformed(key: &str) -> ToolError {
    Error::new(ErrorKind::Codec, format!("{key} does not hold a cart's id")).into()
}
