//! A gate that holds flows in their middle until something has happened, so that a fault meets open carts for certain.

use tokio::sync::watch;

/// Flows wait at it. The task that breaks things waits until enough of them do, and then opens it.
#[derive(Debug)]
pub struct Gate {
    waiting: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            waiting: watch::Sender::new(0),
            open: watch::Sender::new(false),
        }
    }
}

impl Gate {
    /// Waits until the gate is open.
    pub async fn pass(&self) {
        self.waiting.send_modify(|waiting| *waiting += 1);
        let mut open = self.open.subscribe();
        let opened = open.wait_for(|open| *open).await.is_ok();
        debug_assert!(opened, "the sender lives as long as the gate");
    }

    /// Waits until as many flows have come to the gate.
    pub async fn crowd(&self, flows: usize) {
        let mut waiting = self.waiting.subscribe();
        let came = waiting.wait_for(|waiting| *waiting >= flows).await.is_ok();
        debug_assert!(came, "the sender lives as long as the gate");
    }

    /// Opens the gate, for good.
    pub fn open(&self) {
        self.open.send_replace(true);
    }
}
