//! What one node said of the cluster, or why it said nothing.

use helve_proto::v1::StatusReply;

/// What one node said, or why it did not.
#[derive(Debug, Clone)]
pub struct Answer<S> {
    /// `HOST:PORT` at which it was asked.
    pub endpoint: String,
    /// Its status.
    pub reply: Result<StatusReply, S>,
}

/// Why a node says nothing, as the one who asked found out.
pub trait Silence {
    /// The cause in one word, such as `nothing_listens`.
    fn cause(&self) -> String;

    /// What is wrong, for people: a clause that begins with the endpoint.
    fn problem(&self) -> String;

    /// What to do about it.
    fn remedy(&self) -> Remedy;

    /// Whether the node may answer the same request later.
    fn may_pass(&self) -> bool;
}

/// What to do about a node that does not answer.
#[derive(Debug, Clone)]
pub enum Remedy {
    /// The node, its machine or the way to it is at fault.
    Node,
    /// The command is at fault: so.
    Command(String),
}
