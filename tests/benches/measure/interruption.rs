//! An end that leaves nothing behind.

use anyhow::{Result, bail};
use tokio::signal::ctrl_c;

/// Runs to its end or to SIGINT, upon which all that it holds is dropped: processes are killed, directories removed.
///
/// # Errors
/// Those of what runs, or that it was interrupted.
pub(crate) async fn until_interrupted<T>(course: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        ended = course => ended,
        signal = ctrl_c() => {
            signal?;
            bail!("interrupted");
        }
    }
}
