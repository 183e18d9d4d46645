//! `helve backup list`.

use std::path::PathBuf;

use helve_command::{
    ending::{Outcome, said},
    output::{OutputArgs, bytes, count, harmless, table, time},
};
use helve_node::backup::{LogRun, Segment, place::Place};
use serde::Serialize;

use super::{bucket::BucketArgs, failed::unread, shown::Shown};
use crate::progress::Progress;

/// Show the backups in a directory or a bucket, and how far the archived log reaches
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve backup list /backup/helve
  helve backup list s3://backups/helve --output json

Exit status: 0 shown, 2 the place holds no backups, or cannot be read, 4 its disk or store fails.")]
pub(super) struct Args {
    /// Directory of backups, or `s3://BUCKET/PREFIX`
    #[arg(value_name = "TO")]
    to: PathBuf,

    #[command(flatten)]
    bucket: BucketArgs,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Report {
    backups: Vec<Shown>,
    /// Manifests that cannot be used.
    unusable: Vec<Unusable>,
    /// The archived log.
    log: Vec<ShownRun>,
}

/// Archived entries without a gap.
#[derive(Serialize)]
struct ShownRun {
    /// The backup behind which they began.
    backup: String,
    segments: usize,
    bytes: u64,
    /// The first entry, and the last one, up to which a restore can go.
    first: u64,
    /// See `first`.
    last: Option<u64>,
    /// The cluster's time in the last one, in UTC.
    time: Option<String>,
    /// Why the last segment cannot be used.
    error: Option<String>,
}

impl ShownRun {
    async fn of(place: &Place, run: &LogRun) -> Self {
        let segment = place.segment(&run.last_name()).await;
        let head = segment.as_ref().ok().map(Segment::head);
        Self {
            backup: run.id().to_owned(),
            segments: run.segments(),
            bytes: run.bytes(),
            first: run.first(),
            last: head.map(|head| head.last_index),
            // Some segments hold no command, and so no time.
            time: head
                .filter(|head| head.last_ms > 0)
                .map(|head| time(head.last_ms)),
            error: segment.as_ref().err().map(|error| said(error)),
        }
    }
}

#[derive(Serialize)]
struct Unusable {
    id: String,
    error: String,
}

pub(super) async fn run(args: &Args) -> Outcome {
    let place = Place::open(&args.to, args.bucket.http()).map_err(unread)?;
    let mut report = Report {
        backups: Vec::new(),
        unusable: Vec::new(),
        log: Vec::new(),
    };
    let mut progress = Progress::new("read");
    progress.say("reading manifests");
    let listed = place.list().await;
    let listed = listed.map_err(unread)?;
    for run in place.archive().await.map_err(unread)?.runs() {
        report.log.push(ShownRun::of(&place, run).await);
    }
    drop(progress);
    for listed in listed {
        match listed.backup {
            Ok(backup) => report.backups.push(Shown::of(&backup)),
            Err(error) => report.unusable.push(Unusable {
                id: listed.id,
                error: said(&error),
            }),
        }
    }
    // RFC 3339 sorts as time does.
    let key = |backup: &Shown| (backup.time.clone(), backup.revision);
    report.backups.sort_by_key(key);
    args.output.print(&report, text)
}

fn text(report: &Report) -> String {
    let columns = ["ID", "TIME", "REVISION", "ROWS", "SIZE", "LEVEL", "VERSION"];
    let mut shown = table(&columns).leaving_out(&["VERSION", "LEVEL", "ROWS"]);
    for backup in &report.backups {
        shown.add_row([
            backup.id.clone(),
            backup.time.clone(),
            backup.revision.to_string(),
            count(backup.rows),
            bytes(backup.bytes),
            backup.feature_level.to_string(),
            backup.version.clone(),
        ]);
    }
    let mut page = shown.trim_fmt();
    for run in &report.log {
        let reach = match (&run.last, &run.time, &run.error) {
            (Some(last), Some(time), _) => format!("up to {last}, {time}"),
            (Some(last), None, _) => format!("up to {last}"),
            (_, _, error) => error.clone().unwrap_or_default(),
        };
        let line = format!(
            "log behind {}: from entry {} {reach}; {} segments, {}",
            run.backup,
            run.first,
            run.segments,
            bytes(run.bytes)
        );
        page.push('\n');
        page.push_str(&harmless(&line));
    }
    for unusable in &report.unusable {
        let line = format!("{}: {}", unusable.id, unusable.error);
        page.push('\n');
        page.push_str(&harmless(&line));
    }
    page
}
