//! Why a replica must stop.

use std::error::Error;

/// The rows or the command cannot be worked on by this replica. The replica must stop: going on would let it differ from the
/// others. What a caller did wrong is never a fault, but a refusal in the outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The host could not read its rows.
    #[error("the rows could not be read")]
    View(#[source] Box<dyn Error + Send + Sync>),
    /// A row was written by a newer version, or is garbage.
    #[error("a row of {table} has format {format}, which this version does not know")]
    UnknownFormat {
        /// What kind of row.
        table: &'static str,
        /// Its first byte.
        format: u8,
    },
    /// A row is damaged.
    #[error("a row of {table} cannot be decoded")]
    Undecodable {
        /// What kind of row.
        table: &'static str,
        /// What the decoder says.
        source: prost::DecodeError,
    },
    /// Two rows contradict each other.
    #[error("the rows contradict each other: {0}")]
    Corrupt(&'static str),
    /// The command was proposed by a newer version.
    #[error(
        "a command needs feature level {needed}, and this version knows {known}: upgrade this node"
    )]
    FeatureLevel {
        /// What the command says.
        needed: u32,
        /// What this version knows.
        known: u32,
    },
}
