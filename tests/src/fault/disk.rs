//! A disk that loses power, fills up, fails and dawdles on demand: a file system of our own, kept in this process's memory and
//! mounted with FUSE, which we speak ourselves (no library is needed for so little), one for each node's data directory.
//!
//! What survives a power loss is what ext4 with ordered data guarantees, and no more:
//!
//! - what was written to a file is durable after an fsync or fdatasync of it, and not before. What was not synced is lost whole, or
//!   a prefix of it is kept and the next write torn;
//! - names (creating, linking, renaming, removing) become durable in the order in which they were given. A sync of a file or
//!   directory commits all names up to the last that concerns it. A rename is kept or lost as a whole;
//! - a name can be durable and its file empty, or shorter than it was.
//!
//! A sync that fails loses what it should have written for good, as on Linux: a later sync succeeds and does not bring it back.
//! Killing a process loses nothing. Writes reach the file system one by one, since the kernel's write-back cache is off.

mod content;
mod journal;
mod mount;
mod serve;
mod state;
mod switches;
mod tree;
mod wire;

use std::path::Path;

use anyhow::Result;
use rand::rngs::SmallRng;

pub use switches::{Access, DiskCounts, Switches, Sync};
pub use tree::Lost;

use content::Keep;
use mount::Mount;
use serve::Server;
use state::State;

/// What a power loss leaves of that which was not synced.
#[derive(Debug)]
pub enum Loss<'a> {
    /// Nothing.
    Whole,
    /// A part, as the dice say, the last of it perhaps torn.
    Torn(&'a mut SmallRng),
}

/// A mounted disk. Dropping it unmounts it and forgets what it held.
#[derive(Debug)]
pub struct Disk {
    server: Server,
    mount: Mount,
}

impl Disk {
    /// What this machine lacks to mount one.
    #[must_use]
    pub fn missing() -> Option<String> {
        Mount::missing()
    }

    /// Mounts an empty one.
    ///
    /// # Errors
    ///
    /// If it cannot be mounted.
    pub fn mount(mountpoint: &Path) -> Result<Self> {
        let server = Server::new();
        let mut mount = Mount::at(mountpoint);
        mount.attach(&server)?;
        Ok(Self { server, mount })
    }

    /// The power goes: what is not durable is gone. No process may use the disk.
    ///
    /// # Errors
    ///
    /// If a process uses it.
    pub fn lose_power(&mut self, loss: Loss<'_>) -> Result<Lost> {
        self.mount.detach()?;
        let keep = match loss {
            Loss::Whole => Keep::Nothing,
            Loss::Torn(rng) => Keep::Some(rng),
        };
        let lost = self.server.state().tree.lose_power(keep);
        self.mount.attach(&self.server)?;
        Ok(lost)
    }

    /// It is replaced by an empty one that works. No process may use the disk.
    ///
    /// # Errors
    ///
    /// If a process uses it.
    pub fn replace(&mut self) -> Result<()> {
        self.mount.detach()?;
        *self.server.state() = State::new();
        self.mount.attach(&self.server)
    }

    /// Changes what it does wrong.
    pub fn switch(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.server.state().switches);
    }

    /// It does nothing wrong from now on.
    pub fn mend(&self) {
        self.switch(|switches| *switches = Switches::default());
    }

    /// What it did so far.
    #[must_use]
    pub fn counts(&self) -> DiskCounts {
        self.server.state().counts
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.server.state().tree.used_bytes()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A process that waits for a slow disk would keep it busy.
        self.mend();
    }
}

#[cfg(test)]
mod tests;
