//! What a node keeps on disk. The only place that names RocksDB.
//!
//! ```text
//! DIR/LOCK             held while the node runs, names its process          data_dir
//! DIR/node.json        who this node is                                    data_dir
//! DIR/disk-key         with a data key: what log, rows and snapshots fit    disk_key, authentic
//! DIR/raft/            log and vote: synced before they are acknowledged    log_db, log_writer, log_tail, purge_gate
//! DIR/raft/synced      how far the log was synced: a shorter one is refused  synced_mark
//! DIR/state-N/         rows with what was applied: replayed from the log     state_db, state_meta, state_view, writer_view, read_ahead, gaps
//! DIR/CURRENT          which state-N counts                                generations
//! DIR/snapshots/       the newest checkpoint of the state                  checkpoint, snapshot_writer
//! ```
//!
//! Nothing here knows consensus, gRPC or a runtime: bytes and the contract's messages go in and
//! out, calls block, and a task that may not wait for a disk calls from another thread.

mod authentic;
pub mod checkpoint;
pub mod data_dir;
pub mod disk_key;
pub mod disk_space;
pub mod disk_waits;
pub(crate) mod durable_file;
pub mod error;
mod gaps;
mod generations;
pub mod level_hold;
pub mod log_db;
pub mod log_op;
pub mod log_tail;
pub mod log_writer;
pub mod options;
pub mod purge_gate;
mod read_ahead;
pub mod recent_ratio;
pub mod snapshot_writer;
pub mod state_db;
mod state_meta;
pub mod state_view;
mod synced_mark;
#[cfg(feature = "planted")]
mod two_writes;
pub mod writer_view;
