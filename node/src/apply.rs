//! Committed entries become rows: many by one write, on a thread of their own, so that a write that the storage engine stalls delays no
//! heartbeat.
//!
//! ```text
//! raft/state_machine.rs ── Chunk ──► ApplyQueue ──► Applier's thread ──► Rows ── machine::apply ──► storage/state_db (one write)
//!                                                                         └── Report ──► those who wait for rows
//! ```

mod applied_log;
mod applier;
mod apply_queue;
mod chunk;
mod progress;
mod rows;
mod stopped;
mod unapplied;

pub use self::{
    applied_log::AppliedLog,
    progress::{Milestones, Progress},
    stopped::Stopped,
    unapplied::Unapplied,
};
pub(crate) use self::{applier::Applier, chunk::Chunk, progress::Report, rows::Rows};
