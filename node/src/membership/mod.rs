//! Who the members are: how a node begins, joins and comes back, how members change, and how a node finds that it has no place.
//!
//! ```text
//! node.rs ─────► bootstrap, misplaced, rejoin ── hello ──► the peers that --peers lists
//! service/ ────► changes ── seats (who may have which) ── steps ──► raft::Group
//!           └──► records, transfer ───────────────────────────────► raft::Group
//! ```

pub mod bootstrap;
mod catch_up;
pub mod change;
pub mod changes;
mod error;
pub mod forced;
pub mod hello;
pub mod known_membership;
pub mod misplaced;
pub mod records;
pub mod rejoin;
pub mod seats;
mod steps;
pub mod transfer;
mod under_way;

pub use self::{changes::MemberChanges, error::MembershipError};

/// A node that lacks no more entries may vote, or lead.
const LEARNER_LAG_MAX: u64 = 1_000;
