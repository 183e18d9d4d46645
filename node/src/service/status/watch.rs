//! What the caller of a watch hears when it ends.

use helve_proto::Reason;

use super::Problem;

/// What follows its revision is not kept here: changes of later ones than `floor` are.
pub(super) fn too_old(floor: u64) -> Problem {
    let message = "this node no longer has all changes that follow the revision: watch at another node; where none has them, list, and watch after the index in the list's header";
    Problem::new(Reason::WatchTooOld, message).with("revision", floor.to_string())
}

/// It was not read in time. It goes on after `revision`.
pub(super) fn lapsed(revision: u64) -> Problem {
    let message = "the changes were not read in time: watch again after `revision`, and drop what was seen of later ones";
    Problem::new(Reason::WatchLapsed, message).with("revision", revision.to_string())
}
