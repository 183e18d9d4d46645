//! Rows over which a node must not start.

use helve_machine::{Batch, Fault, View, level};

use crate::{
    apply::Unapplied,
    config::Config,
    limits::GROUP_ID,
    log_replay::{FutureRowsError, read_future_rows},
    membership::misplaced::Misplaced,
    node::{guard, refusal::StartError},
    raft::log_store::LogStore,
    storage::{error::StorageError, state_db::StateDb, state_view::StateView},
    vault::{self, Vault},
};

/// Refuses rows of a newer version, rows that ask for tokens where the node asks for none, and rows that its keys are not for. They are
/// looked at as the log will make them: a crash may have left the rows themselves behind it.
pub(super) fn check(
    config: &Config,
    vault: &Vault,
    log: &LogStore,
    state: &StateDb,
) -> Result<(), StartError> {
    look(config, log, state, |rows| {
        check_level(rows, config)?;
        guard::check(&config.auth, rows)?;
        let (sealing, holding) = vault::read_rows(rows)?;
        Ok(vault.check_start(sealing, holding)?)
    })
}

/// Looks at the rows as the log will make them.
pub(super) fn look<R>(
    config: &Config,
    log: &LogStore,
    state: &StateDb,
    look: impl FnOnce(&Batch<&StateView<'_>>) -> Result<R, StartError>,
) -> Result<R, StartError> {
    match read_future_rows(log, state, look) {
        Ok(looked) => looked,
        Err(FutureRowsError::Unapplied(Unapplied {
            fault: Fault::FeatureLevel { needed, .. },
            ..
        })) => Err(too_old(config, needed)),
        Err(FutureRowsError::Unapplied(unapplied)) => Err(unapplied.into()),
        Err(FutureRowsError::Fault(fault)) => {
            Err(StorageError::unreadable("the rows", &fault).into())
        }
        Err(FutureRowsError::Storage(error)) => Err(error.into()),
    }
}

/// Rows of a newer version are not for this one, whichever node leads.
fn check_level(rows: &impl View, config: &Config) -> Result<(), StartError> {
    let needed = helve_machine::feature_level(rows, GROUP_ID);
    let needed = needed.map_err(|e| StorageError::unreadable("the feature level", &e))?;
    if needed > level::supported() {
        return Err(too_old(config, needed));
    }
    Ok(())
}

fn too_old(config: &Config, needed: u32) -> StartError {
    let supported = level::supported();
    StartError::misplaced(&config.data_dir, Misplaced::TooOld { needed, supported })
}
