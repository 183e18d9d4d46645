//! What the audit logs of the nodes said before any attack.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use helve_proto::v1::{MintRequest, SetTenantRequest};
use helve_tests::{
    caller::Caller,
    wait::{Look, until},
};

/// The audit log of each node, with what its lines of a tenant's and an operator's call say.
pub(crate) struct History(Vec<(PathBuf, [String; 2])>);

impl History {
    /// Makes a tenant's call and an operator's call on each node, and waits until their lines are
    /// written. Callers and operators are those of the nodes in the order of the logs.
    pub(crate) async fn begin(
        logs: Vec<PathBuf>,
        tenant: &[Caller],
        operator: &[Caller],
    ) -> Result<Self> {
        let mut calls = Vec::new();
        for (log, (tenant, operator)) in logs.into_iter().zip(tenant.iter().zip(operator)) {
            let name = format!("remembered-{}", calls.len() + 1);
            let mint = MintRequest {
                store: "cart".to_owned(),
                owner: name.clone(),
                ..MintRequest::default()
            };
            until("a first mint", async || {
                Look::of(tenant.mint(mint.clone()).await)
            })
            .await?;
            let made = SetTenantRequest {
                tenant: name.clone(),
                ..SetTenantRequest::default()
            };
            until("a first tenant", async || {
                Look::of(operator.set_tenant(made.clone()).await)
            })
            .await?;
            let said = [
                format!("\"owner\":\"{name}\""),
                format!("\"subject\":\"tenant {name}\""),
            ];
            calls.push((log, said));
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
        for (log, said) in &self.0 {
            let texts = texts(log);
            let has = |said: &&String| texts.iter().any(|text| text.contains(said.as_str()));
            if let Some(said) = said.iter().find(|said| !has(said)) {
                return Err(format!("{} has no line with {said}", log.display()));
            }
        }
        Ok(())
    }
}

/// What the file of an audit log says, and each file that was put aside.
fn texts(log: &Path) -> Vec<String> {
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    let directory = log.parent().map(fs::read_dir);
    let files = directory.and_then(Result::ok).into_iter().flatten();
    let files = files.filter_map(Result::ok).map(|file| file.path());
    let is_of_log = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&*name)
    };
    let texts = files.filter(is_of_log).map(fs::read);
    texts
        .filter_map(Result::ok)
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .collect()
}
