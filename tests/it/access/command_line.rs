//! `helve token` and `helve tenant`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Output},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Guarded;
use crate::{
    binary,
    command_line::{helve, printed},
};

impl Guarded {
    /// Runs `helve` with a token of the directory, or none.
    fn helve(&self, token: &str, arguments: &[&str]) -> Result<Output> {
        let file = self.directory.path().join(token).display().to_string();
        helve(
            &self.cluster,
            &[arguments, &["--token-file", &file]].concat(),
        )
    }

    fn json(&self, token: &str, arguments: &[&str]) -> Result<Value> {
        let output = self.helve(token, &[arguments, &["--output", "json"]].concat())?;
        serde_json::from_str(&printed(&output)).context("no JSON")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_tenants_are_managed_on_the_command_line() -> Result<()> {
    let guarded = Guarded::start(1).await?;
    let created = ["tenant", "create", "acme", "--rows", "9"];
    let tenants = guarded.json("operator", &created)?;
    assert_eq!(tenants["tenants"][0]["rows_max"], json!(9), "{tenants}");
    let out = guarded.directory.path().join("writer");
    let made = [
        "token",
        "create",
        "--tenant",
        "acme",
        "--role",
        "writer",
        "--name",
        "shop",
        "--out",
        &out.display().to_string(),
    ];
    let token = guarded.json("operator", &made)?;
    assert_eq!(fs::metadata(&out)?.permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&out)?;
    assert!(
        text.starts_with("hlv_") && token["token"].is_null(),
        "{token}"
    );
    let put = ["handle", "put", "a", "--store", "cart", "--value", "1"];
    printed(&guarded.helve("writer", &put)?);
    assert_eq!(guarded.helve("operator", &put)?.status.code(), Some(2));
    assert_eq!(helve(&guarded.cluster, &put)?.status.code(), Some(2));
    let status = guarded.json("operator", &["tenant", "status", "acme"])?;
    assert_eq!(status["tenants"][0]["rows"], json!(1), "{status}");
    let id = token["id"].as_str().context("no id")?;
    let listed = guarded.json("operator", &["token", "list", "--tenant", "acme"])?;
    assert_eq!(listed["tokens"][0]["id"], json!(id), "{listed}");
    assert!(!listed.to_string().contains(text.trim()));
    let revoke = ["token", "revoke", &id[..12], "--tenant", "acme"];
    printed(&guarded.helve("operator", &revoke)?);
    assert_eq!(guarded.helve("writer", &put)?.status.code(), Some(2));
    assert_eq!(guarded.helve("operator", &revoke)?.status.code(), Some(1));
    let shown = ["token", "create", "--role", "operator", "--name", "second"];
    let second = guarded.json("operator", &shown)?;
    assert!(
        second["token"]
            .as_str()
            .is_some_and(|text| text.starts_with("hlv_"))
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_list_of_tokens_says_why() -> Result<()> {
    let guarded = Guarded::start(1).await?;
    printed(&guarded.helve("operator", &["tenant", "create", "acme"])?);
    let listed = guarded.json("operator", &["token", "list"])?;
    assert_eq!(listed["tokens"], json!([]), "{listed}");
    let note = listed["note"].as_str().context("no note")?;
    assert!(note.contains("--tenant") && note.contains("acme"), "{note}");
    let shown = printed(&guarded.helve("operator", &["token", "list"])?);
    assert!(shown.contains(note), "{shown}");
    let listed = guarded.json("operator", &["token", "list", "--tenant", "acme"])?;
    let note = listed["note"].as_str().context("no note")?;
    assert!(note.contains("has no tokens"), "{note}");
    let absent = guarded.helve("operator", &["token", "list", "--tenant", "nowhere"])?;
    let said = String::from_utf8_lossy(&absent.stderr);
    assert_eq!(absent.status.code(), Some(1), "{said}");
    assert!(said.contains("no tenant `nowhere`"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_there_is_let_in_and_the_same_again_is_kept() -> Result<()> {
    let guarded = Guarded::start(1).await?;
    let place = |name: &str| guarded.directory.path().join(name).display().to_string();
    let (shop, strange) = (place("shop"), place("strange"));
    let secret = Command::new(binary())
        .args(["token", "secret", "--out", &shop])
        .output()?;
    printed(&secret);
    fs::write(&strange, "no token")?;
    fs::set_permissions(&strange, fs::Permissions::from_mode(0o600))?;
    let create = |role: &'static str, text: &str, rest: &[&str]| {
        let token = ["token", "create", "--tenant", "default", "--role", role];
        let text = ["--name", "shop", "--text-file", text, "--output", "json"];
        guarded.helve("operator", &[&token[..], &text, rest].concat())
    };
    for kept in [false, true, true] {
        let said: Value = serde_json::from_str(&printed(&create("writer", &shop, &[])?))?;
        assert_eq!(said["kept"], json!(kept), "{said}");
        assert!(said["token"].is_null(), "{said}");
    }
    let put = ["handle", "put", "a", "--store", "cart", "--value", "1"];
    printed(&guarded.helve("shop", &put)?);
    let refused = [
        (create("reader", &shop, &[])?, "make another"),
        (
            create("writer", &shop, &["--store", "cart"])?,
            "make another",
        ),
        (
            create("writer", &shop, &["--expires-after", "1h"])?,
            "--expires-after",
        ),
        (create("writer", &strange, &[])?, "--text-file"),
        (create("writer", &shop, &["--out", &place("new")])?, "--out"),
    ];
    for (output, word) in refused {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
    // Its rights are as they were.
    printed(&guarded.helve("shop", &put)?);
    let list = ["token", "list", "--tenant", "default"];
    let listed = guarded.json("operator", &list)?;
    assert_eq!(
        listed["tokens"].as_array().map(Vec::len),
        Some(1),
        "{listed}"
    );
    Ok(())
}
