//! A node that requires no credential must not hold rows of tokens and tenants.

use std::{sync::Arc, time::Duration};

use helve_machine::{View, is_guarded};
use tokio::time::sleep;

use super::refusal::StartError;
use crate::{
    config::{Auth, Refusal},
    limits::GROUP_ID,
    raft::Consensus,
    service::AccessCheck,
    storage::{error::StorageError, state_db::StateDb},
};

/// Between two looks at the rows, while they change.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Refuses to start without `--auth tokens` on rows that hold tokens, or tenants beyond the default one.
pub(super) fn check(auth: &Auth, rows: &impl View) -> Result<(), StartError> {
    if *auth != Auth::None || !has_guards(rows)? {
        return Ok(());
    }
    let refusal = Refusal::new(
        "--auth",
        "none, but this node holds tokens or tenants of its cluster: any caller that reaches it could do everything without a token",
        "pass --auth tokens to `helve serve`, and --operator-token-file if no operator's token is at hand",
    );
    Err(refusal.into())
}

/// Shuts the access check once such rows come by replication. Only for a node that asks for nothing.
pub(super) async fn watch(
    access_check: Arc<AccessCheck>,
    consensus: Consensus,
    state: Arc<StateDb>,
) {
    let mut rows = consensus.applied().rows();
    loop {
        match state.read(|view| has_guards(view)) {
            Ok(true) => return access_check.shut(),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "whether there are tokens cannot be read"),
        }
        sleep(LOOK_PAUSE).await;
        if rows.changed().await.is_err() {
            return;
        }
    }
}

fn has_guards(rows: &impl View) -> Result<bool, StorageError> {
    let guarded = is_guarded(rows, GROUP_ID);
    guarded.map_err(|fault| StorageError::unreadable("tokens and tenants", &fault))
}
