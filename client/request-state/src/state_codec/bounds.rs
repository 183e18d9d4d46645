//! Bounds of states, and their checks.

use std::time::Duration;

use helve_client::{Error, ErrorKind};

/// Bytes of a state before it is sealed. What is larger belongs under a handle, and the handle into the state.
pub const STATE_BYTES_MAX: usize = 32 << 10;
/// Bytes of a sealed state. Longer ones are refused before anything of them is looked at.
pub const SEALED_BYTES_MAX: usize = 64 << 10;
/// How long a state may be redeemed, by default.
pub const STATE_TTL: Duration = Duration::from_secs(5 * 60);
/// How long a state may be redeemable at most: as long as the cluster remembers what was used up.
pub const STATE_TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How far the wall clocks of replicas may differ: a state from further in the future is refused.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

pub(super) fn check_state_size(state: &str) -> Result<(), Error> {
    if state.len() > STATE_BYTES_MAX {
        let message = format!(
            "a state of {} bytes, {STATE_BYTES_MAX} at most: keep it under a handle, and seal the handle",
            state.len()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

pub(super) fn check_ttl(ttl: Duration) -> Result<(), Error> {
    if ttl < Duration::from_secs(1) || ttl > STATE_TTL_MAX {
        let message = "a state must be redeemable for at least 1 s, and at most 24 h";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}
