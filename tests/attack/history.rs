//! What the audit logs of the nodes said before any attack.

use std::{fs, path::PathBuf};

use anyhow::Result;
use helve_proto::v1::MintRequest;
use helve_tests::{
    caller::Caller,
    wait::{Look, until},
};

/// A call that was allowed on each node, and the node's audit log.
pub(crate) struct History(Vec<(PathBuf, String)>);

impl History {
    /// Makes a call on each node, and waits until its line is written.
    pub(crate) async fn begin(logs: Vec<PathBuf>, callers: &[Caller]) -> Result<Self> {
        let mut calls = Vec::new();
        for (log, caller) in logs.into_iter().zip(callers) {
            let owner = format!("remembered-{}", calls.len() + 1);
            let mint = MintRequest {
                store: "cart".to_owned(),
                owner: owner.clone(),
                ..MintRequest::default()
            };
            caller.mint(mint).await?;
            calls.push((log, owner));
        }
        let history = Self(calls);
        until("the lines of the first calls", async || {
            match history.is_kept() {
                Ok(()) => Look::Done(()),
                Err(why) => Look::NotYet(why),
            }
        })
        .await?;
        Ok(history)
    }

    /// Whether the lines are still there, in files that are written or were put aside; if not,
    /// which is missing.
    pub(crate) fn is_kept(&self) -> Result<(), String> {
        for (log, owner) in &self.0 {
            let name = log.file_name().unwrap_or_default().to_string_lossy();
            let directory = log.parent().map(fs::read_dir);
            let files = directory.and_then(Result::ok).into_iter().flatten();
            let files = files.filter_map(Result::ok).map(|file| file.path());
            let is_of_log = |path: &PathBuf| {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                file.starts_with(&*name)
            };
            let mut texts = files.filter(is_of_log).map(fs::read);
            let line = format!("\"owner\":\"{owner}\"");
            let has_line = |text: Vec<u8>| String::from_utf8_lossy(&text).contains(&line);
            if !texts.any(|text| text.is_ok_and(has_line)) {
                return Err(format!("{} has no line of {owner}", log.display()));
            }
        }
        Ok(())
    }
}
