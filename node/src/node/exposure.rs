//! Says again and again what the operator has taken upon themselves with `--insecure`.

use std::time::Duration;

use tokio::time::sleep;

/// Between two times that it is said.
const EVERY: Duration = Duration::from_secs(600);

/// Says what leaves the node open to others beyond this machine.
pub(super) fn say(exposed: &[&'static str]) {
    if !exposed.is_empty() {
        let open = exposed.join(", ");
        tracing::warn!(
            open,
            "--insecure: anyone who reaches these from beyond this machine, or is on the way, can read and change what passes"
        );
    }
}

/// Keeps saying it, as long as the node runs. Ends if there is nothing to say.
pub(super) async fn repeat(exposed: Vec<&'static str>) {
    while !exposed.is_empty() {
        sleep(EVERY).await;
        say(&exposed);
    }
}
