//! `helve backup list`.

use std::path::PathBuf;

use helve_command::{
    ending::{Outcome, said},
    output::{OutputArgs, bytes, count, harmless, table},
};
use helve_node::backup::place::Place;
use serde::Serialize;

use super::{Shown, bucket::BucketArgs, failed::unread};
use crate::progress::Progress;

/// Show the backups in a directory or a bucket
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
    };
    let mut progress = Progress::new("read");
    progress.say("reading manifests");
    let listed = place.list().await;
    drop(progress);
    for listed in listed.map_err(unread)? {
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
    for unusable in &report.unusable {
        let line = format!("{}: {}", unusable.id, unusable.error);
        page.push('\n');
        page.push_str(&harmless(&line));
    }
    page
}
