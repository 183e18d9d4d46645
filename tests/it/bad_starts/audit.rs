//! Audit logs that a node does not start with.

use std::{fs, os::unix::fs::PermissionsExt as _};

use anyhow::Result;

use super::Arguments;

#[tokio::test]
async fn an_audit_log_that_cannot_be_kept_or_trusted_is_refused() -> Result<()> {
    for (mode, file) in [(0o755, "none/audit"), (0o777, "audit")] {
        let arguments = Arguments::good()?;
        let directory = arguments.directory.path().join("trail");
        fs::create_dir(&directory)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode))?;
        arguments
            .with("--audit-log", directory.join(file).display().to_string())
            .assert_refused("--audit-log")
            .await?;
    }
    let arguments = Arguments::good()?;
    let path = |name: &str| arguments.directory.path().join(name).display().to_string();
    let (log, key) = (path("audit"), path("key"));
    fs::write(&key, [7; 32])?;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644))?;
    arguments
        .with("--audit-log", log)
        .with("--audit-key-file", key)
        .assert_refused("--audit-key-file")
        .await
}

#[tokio::test]
async fn option_of_an_audit_log_without_one_is_refused() -> Result<()> {
    for (flag, value) in [
        ("--audit", "reads"),
        ("--audit-keep", "3"),
        ("--audit-keep-for", "1h"),
        ("--audit-on-failure", "warn"),
    ] {
        let refused = Arguments::good()?.with(flag, value);
        let said = format!("{flag} has no effect without --audit-log");
        refused.assert_refused(&said).await?;
    }
    Ok(())
}
