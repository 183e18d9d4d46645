//! `helve backup delete`.

use std::{path::PathBuf, pin::pin};

use helve_command::{
    ending::Outcome,
    output::{OutputArgs, bytes, table},
};
use helve_node::{
    backup::{BackupError, Deleted, Run, place::Place},
    limits::BUCKET_DELETE_MARK_MAX,
};
use serde::Serialize;

use super::{
    bucket::BucketArgs,
    failed::ending,
    shown::Shown,
    stop::{NO_ANSWER, Stop, close, say_left, say_unknown},
};
use crate::progress::Progress;

/// Delete one backup, and the files and archived segments of the log that no other backup needs
///
/// The manifest goes first, so that a deletion that is cut short leaves no half backup. Files of
/// interrupted backups go when they are a day old. A manifest that cannot be read stops it, since
/// the files that its backup needs are not known. No backup may be made there meanwhile.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve backup list /backup/helve
  helve backup delete /backup/helve 8c2f11d0-120934 --dry-run
  helve backup delete s3://backups/helve 8c2f11d0-120934 --output json

Exit status: 0 deleted, or would be, 2 there is no such backup, a manifest cannot be read, or another command works there, 4 the
directory or the store cannot be written. A signal that stops it in a bucket gives 129, 130 or 143.")]
pub(super) struct Args {
    /// Directory of backups, or `s3://BUCKET/PREFIX`
    #[arg(value_name = "TO")]
    to: PathBuf,

    /// Id of the backup, as `helve backup list` shows it
    #[arg(value_name = "ID")]
    backup: String,

    /// Show what would be deleted, and delete nothing
    #[arg(long, env = "HELVE_BACKUP_DRY_RUN")]
    dry_run: bool,

    #[command(flatten)]
    bucket: BucketArgs,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Report {
    /// Where it is: a path, or a URL.
    directory: PathBuf,
    /// Whether nothing was deleted.
    dry_run: bool,
    backup: Shown,
    /// Files that went with it, and their bytes.
    deleted_files: u64,
    /// See `deleted_files`.
    deleted_bytes: u64,
    /// Files of interrupted backups that are too young to go, and their bytes.
    left_files: u64,
    /// See `left_files`.
    left_bytes: u64,
    /// Segments of the archived log that no other backup needs, and their bytes.
    deleted_segments: u64,
    /// See `deleted_segments`.
    deleted_segment_bytes: u64,
    /// Backups that are left.
    backups: u64,
}

pub(super) async fn run(args: &Args) -> Outcome {
    let http = args.bucket.http();
    let mut stop = Stop::if_marked(&args.to)?;
    let (place, run) = if args.dry_run {
        (Some(Place::open(&args.to, http)), Run::Dry)
    } else {
        // Cut off, it could put its mark behind the removal.
        let place = stop.let_end(Place::open_to_delete(&args.to, http)).await;
        (place, Run::Real)
    };
    let Some(place) = place else {
        say_unknown(&args.to, BUCKET_DELETE_MARK_MAX);
        return Err(stop
            .ending(&"nothing was deleted: run the same command again")
            .await);
    };
    let place = place.map_err(ending)?;
    let mut progress = Progress::new("deleted");
    progress.say("looking for the files that only this backup needs, and deleting");
    let deleted = delete(&place, (&args.backup, run), &mut stop).await;
    drop(progress);
    let directory = place.path().to_owned();
    let Some(deleted) = deleted else {
        // Files may yet be deleted: no other command may count on them.
        say_left(place.mark(), NO_ANSWER);
        return Err(stop.ending(&BackupError::Stopped(directory)).await);
    };
    close(place, &mut stop).await;
    if let Err(stopped @ (BackupError::Stopped(_) | BackupError::NotBegun(_))) = deleted {
        return Err(stop.ending(&stopped).await);
    }
    let Deleted {
        backup,
        files,
        bytes,
        left_files,
        left_bytes,
        segments,
        segment_bytes,
        backups,
    } = deleted.map_err(ending)?;
    let report = Report {
        directory,
        dry_run: args.dry_run,
        backup: Shown::of(&backup),
        deleted_files: files,
        deleted_bytes: bytes,
        left_files,
        left_bytes,
        deleted_segments: segments,
        deleted_segment_bytes: segment_bytes,
        backups,
    };
    args.output.print(&report, text)
}

/// Deletes a backup. Behind a signal it begins no further request; `None` if those that were sent
/// are not answered in time.
async fn delete(
    place: &Place,
    (id, run): (&str, Run),
    stop: &mut Stop,
) -> Option<Result<Deleted, BackupError>> {
    let mut work = pin!(place.delete(id, run));
    tokio::select! {
        biased;
        _ = stop.asked() => place.stop_deletion(),
        done = &mut work => return Some(done),
    }
    stop.let_end(work).await
}

fn text(report: &Report) -> String {
    let mut shown = table(&["WHAT", "FILES", "SIZE"]);
    let gone = if report.dry_run {
        "would be deleted"
    } else {
        "deleted"
    };
    for (what, files, size) in [
        (gone, report.deleted_files, report.deleted_bytes),
        (
            "left of interrupted backups",
            report.left_files,
            report.left_bytes,
        ),
        (
            "segments of the archived log",
            report.deleted_segments,
            report.deleted_segment_bytes,
        ),
    ] {
        shown.add_row([what.to_owned(), files.to_string(), bytes(size)]);
    }
    let id = &report.backup.id;
    let said = if report.dry_run {
        format!("nothing was deleted: without --dry-run, backup {id} would be")
    } else {
        format!("backup {id} is deleted")
    };
    let directory = report.directory.display();
    format!(
        "{said}, and {} backups are left in {directory}\n{}",
        report.backups,
        shown.trim_fmt()
    )
}
