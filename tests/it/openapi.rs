//! The description of calls in JSON, and the table of reasons: written from the contract, and compared with what is committed.

mod document;

use std::{env, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use helve_proto::Reason;

/// Set to write the files again: `HELVE_WRITE_DOCS=1 cargo test -p helve-tests --test it -- openapi`.
const WRITE: &str = "HELVE_WRITE_DOCS";

/// Compares a file below `docs/clients/` with what it must hold, or writes it.
fn check(name: &str, text: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/clients")
        .join(name);
    if env::var_os(WRITE).is_some() {
        return Ok(fs::write(path, text)?);
    }
    let committed = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    ensure!(
        committed == text,
        "{} is not what the contract says: run this test with {WRITE}=1, and commit it",
        path.display()
    );
    Ok(())
}

#[test]
fn openapi_document_is_that_of_the_contract() -> Result<()> {
    let document = serde_json::to_string_pretty(&document::document()?)?;
    check("openapi.json", &(document + "\n"))
}

#[test]
fn table_of_reasons_is_that_of_the_contract() -> Result<()> {
    let mut page = "# Reasons\n\nWhat `google.rpc.ErrorInfo.reason` of an error says, and what to do about it. \
        Written from\n`proto/src/reason.rs` by a test; do not edit it. How a client weighs them is in\n\
        [writing a client](writing.md#verdicts).\n\n| reason | meaning, and what to do |\n|---|---|\n"
        .to_owned();
    for reason in Reason::ALL {
        let meaning = reason.meaning().replace('|', "\\|");
        page += &format!("| `{}` | {meaning} |\n", reason.as_str());
    }
    check("reasons.md", &page)
}
