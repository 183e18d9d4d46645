//! How a node's answer to `helve backup --follow` ends.

use std::{io::ErrorKind, path::Path, time::Duration};

use anyhow::anyhow;
use helve_command::{
    cluster::{ending as told, reason},
    ending::{Ending, said},
    output::{self, harmless},
};
use helve_node::backup::BackupError;
use tonic::{Code, Status};

use crate::backup::failed::ending;

/// A node that says nothing for longer hangs: it gives a sign of life every second, or looks for a
/// quorum for some.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(15);

/// When an archive goes on that no node sends the log to.
pub(super) const ONCE_SENT: &str = "where it is once a node sends the log";

/// When an archive goes on that no node makes the new backup for.
pub(super) const ONCE_MADE: &str = "once a node makes the new backup";

/// When an archive goes on whose new backup another command is in the way of.
pub(super) const ONCE_FREE: &str = "with a new backup once no other command works there";

/// The pause before such a backup is tried again; each further one is longer by as much.
pub(super) const WAIT: Duration = Duration::from_secs(1);

/// How often it is tried again before that is said, and its pauses grow no longer: a deletion takes
/// seconds, and another backup may take hours.
pub(super) const WAITS_SAID: u32 = 10;

/// The pause before another backup is made for its proof: while nodes are restarted one by one, some
/// hold no data keys yet.
pub(super) const PROOF_AGAIN: Duration = Duration::from_secs(600);

/// Said when entries carry a proof but the backup before them does not.
pub(super) const PROVEN: &str = "the nodes hold data keys now, but the newest backup was made without: a new backup is made, and the archive \
                                 goes on behind it; to restore an earlier point, give no data keys";

/// Why a node's answer ended.
pub(super) enum End {
    /// The command is to stop.
    Stopped,
    /// The node's log begins behind this entry.
    Purged(u64),
    /// No backup is left to restore the archive behind.
    Deleted,
    /// The entries have a proof, and the backup before them has none.
    Proven,
    /// The node refuses what this command asks for.
    Refused(Ending),
    /// Another try may help, at this node or another one.
    Broken(Ending),
}

impl End {
    pub(super) fn of(ending: Ending) -> Self {
        match ending {
            ending @ Ending::Refused(_) => Self::Refused(ending),
            ending => Self::Broken(ending),
        }
    }
}

/// Says something on standard error. Others may have chosen words of it.
pub(super) fn say(what: &str) {
    output::say(format_args!("helve: {}", harmless(what)));
}

/// How the command ends if it cannot archive. Where all of a directory is gone it makes no new backup: that may be where a disk was
/// mounted.
pub(super) fn gone(to: &Path, error: BackupError) -> Ending {
    match &error {
        BackupError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            Ending::Fatal(anyhow!(
                "{}: it was removed while the log was archived there, or its disk was unmounted: bring it back, or run the command again, \
                 which begins with a new backup",
                to.display()
            ))
        }
        _ => ending(error),
    }
}

/// Why a new backup was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmade {
    /// The place must change, or this machine.
    Here,
    /// Another command works at the place, and ends by itself.
    Busy,
    /// The endpoints refuse what this command asks for. Others of them may not.
    Refused,
    /// There was no node, or what it sent is of no use. Another try may help, as with the log.
    Broken,
}

impl Unmade {
    pub(super) fn of(ending: &Ending) -> Self {
        let error = ending.error().downcast_ref::<BackupError>();
        match (error, ending) {
            (Some(BackupError::InUse(_) | BackupError::Marked { .. }), _) => Self::Busy,
            (
                Some(
                    BackupError::Stream(_) | BackupError::KeptDamaged(_) | BackupError::TooLong(_),
                ),
                _,
            )
            | (
                None,
                Ending::Absent(_) | Ending::Unanswered(_) | Ending::Unknown(_) | Ending::NotNow(_),
            ) => Self::Broken,
            (None, Ending::Refused(_)) => Self::Refused,
            (Some(_), _) | (None, Ending::Fatal(_) | Ending::Stopped(..)) => Self::Here,
        }
    }
}

/// Why the archive waits, and until when.
pub(super) fn waits(ending: &Ending, until: &str) -> String {
    waits_for(&said(&**ending.error()), until)
}

/// See [`waits`].
pub(super) fn waits_for(why: &str, until: &str) -> String {
    format!("the archive waits, and goes on {until}: {why}")
}

/// The nodes' logs have lost entries behind the last one that is kept.
pub(super) fn purged(upto: u64, last: u64) -> String {
    format!(
        "the nodes' logs begin behind entry {upto}, and the archive ends with {last}: a new backup is made, and the archive goes on behind \
         it; what is between cannot be restored alone"
    )
}

/// Nothing of the archive can be restored any more.
pub(super) fn deleted(place: &Path) -> String {
    format!(
        "the backups that the archive was behind are gone from {}: a new backup is made, and the archive goes on behind it",
        place.display()
    )
}

/// A node says nothing.
pub(super) fn silent(endpoint: &str) -> Ending {
    let seconds = SILENCE_MAX.as_secs();
    Ending::Unanswered(anyhow!("{endpoint} says nothing for {seconds} s"))
}

/// A node ended its answer.
pub(super) fn cut(endpoint: &str) -> Ending {
    Ending::Unanswered(anyhow!("{endpoint} has ended the call"))
}

/// What is wrong with a node of this cluster; nothing, if it is the archive's. A node of none has
/// lost its disk, and was not let in again yet.
pub(super) fn stranger(endpoint: &str, found: &str, cluster_id: &str) -> Option<Ending> {
    match found {
        "" => Some(Ending::NotNow(anyhow!(
            "the node at {endpoint} is of no cluster yet"
        ))),
        found if found == cluster_id => None,
        _ => Some(Ending::Refused(anyhow!(
            "the node at {endpoint} is of another cluster by now: run the command again, or correct --endpoints"
        ))),
    }
}

/// What a status means for the next try.
pub(super) fn refused(endpoint: &str, status: &Status) -> End {
    if reason(status).is_none() && status.code() == Code::Unimplemented {
        return End::Refused(Ending::Refused(anyhow!(
            "the node at {endpoint} runs an older version, which sends no log: upgrade it, or name another node with --endpoints"
        )));
    }
    End::of(told(status))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn new_backup_is_tried_again_unless_the_command_or_the_place_must_change() {
        let place = || PathBuf::from("s3://backups/helve");
        let io = |kind: ErrorKind| BackupError::Io {
            action: "write",
            path: "backups".into(),
            source: kind.into(),
        };
        let marked = BackupError::Marked {
            path: place(),
            mark: "running/delete-1".to_owned(),
            minutes: 0,
        };
        let stopping = || anyhow!("it stops");
        for (failed, unmade) in [
            (silent("127.0.0.1:7400"), Unmade::Broken),
            (cut("127.0.0.1:7400"), Unmade::Broken),
            (Ending::NotNow(stopping()), Unmade::Broken),
            (Ending::Unknown(stopping()), Unmade::Broken),
            (
                ending(BackupError::Stream("it ended".to_owned())),
                Unmade::Broken,
            ),
            (ending(BackupError::KeptDamaged(Vec::new())), Unmade::Broken),
            (ending(BackupError::TooLong(place())), Unmade::Broken),
            (ending(BackupError::InUse(place())), Unmade::Busy),
            (ending(marked), Unmade::Busy),
            (ending(BackupError::Followed(place())), Unmade::Here),
            (ending(io(ErrorKind::StorageFull)), Unmade::Here),
            (ending(io(ErrorKind::NotFound)), Unmade::Here),
            (Ending::Fatal(stopping()), Unmade::Here),
            (Ending::Refused(stopping()), Unmade::Refused),
        ] {
            assert_eq!(Unmade::of(&failed), unmade, "{failed:?}");
        }
    }

    #[test]
    fn node_of_no_cluster_yet_is_asked_again() {
        let end = |found| stranger("127.0.0.1:7400", found, "ours").map(End::of);
        assert!(end("ours").is_none());
        assert!(matches!(end(""), Some(End::Broken(_))));
        assert!(matches!(end("theirs"), Some(End::Refused(_))));
    }

    #[test]
    fn node_that_sends_no_log_is_not_asked_forever() {
        let older = refused("127.0.0.1:7400", &Status::unimplemented(""));
        let End::Refused(ending) = older else {
            panic!("it is asked again");
        };
        let said = ending.error().to_string();
        assert!(
            said.contains("127.0.0.1:7400 runs an older version"),
            "{said}"
        );
        let down = refused("127.0.0.1:7400", &Status::unavailable("connection refused"));
        assert!(matches!(down, End::Broken(_)));
    }
}
