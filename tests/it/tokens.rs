//! Servers that are to check bearer tokens and cannot: each refuses to start, with status 2, and names the flag.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use anyhow::Result;

use super::binary;

const REFUSED: i32 = 2;
const AUDIENCE: &[&str] = &["--token-audience", "https://shop.example/mcp"];
/// One key that can be used.
const SET: &str = r#"{"keys":[{"kty":"oct","k":"ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1-f4CBgoM"}]}"#;

#[test]
fn a_cart_server_that_cannot_check_tokens_does_not_start() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = |name: &str, content: &str| -> Result<String> {
        let path = directory.path().join(name);
        fs::write(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(path.display().to_string())
    };
    let strong = file("strong", SET)?;
    let weak = file("weak", "x")?;
    let absent = directory.path().join("absent").display().to_string();
    let bad = [
        (
            vec!["--token-key-file", &weak],
            AUDIENCE,
            "--token-key-file",
        ),
        (
            vec!["--token-key-file", &absent],
            AUDIENCE,
            "--token-key-file",
        ),
        (
            vec!["--token-key-file", &strong],
            &[][..],
            "--token-audience",
        ),
        (vec![], AUDIENCE, "--token-key-file"),
    ];
    for (key, audience, flag) in bad {
        let output = Command::new(binary())
            .args(["cart", "--listen", "127.0.0.1:0"])
            .args(key)
            .args(audience)
            .env_remove("HELVE_TOKEN_KEY_FILE")
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(REFUSED), "{said}");
        assert!(said.contains(flag), "{flag}: {said}");
    }
    Ok(())
}

/// What a server says that refuses to start with these flags; it ends with status 2 before it has
/// asked any cluster.
fn refusal(command: &str, flags: &[&str], environment: &[(&str, &str)]) -> Result<String> {
    let output = Command::new(binary())
        .args([command, "--listen", "127.0.0.1:0"])
        .args(flags)
        .envs(environment.iter().copied())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(REFUSED), "{flags:?}: {said}");
    Ok(said)
}

#[test]
fn names_of_tokens_with_white_space_around_them_are_refused() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("set");
    fs::write(&path, SET)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let path = path.display().to_string();
    for command in ["mcp", "cart"] {
        for (audience, issuer, flag) in [
            (
                "https://shop.example/mcp ",
                "https://a.example",
                "--token-audience",
            ),
            (
                "https://shop.example/mcp\r",
                "https://a.example",
                "--token-audience",
            ),
            (
                "https://shop.example/mcp",
                " https://a.example",
                "--token-issuer",
            ),
        ] {
            let names = ["--token-audience", audience, "--token-issuer", issuer];
            let flags = [&["--token-key-file", &*path][..], &names].concat();
            let said = refusal(command, &flags, &[])?;
            assert!(said.contains(&format!("{flag} \"")), "{flag}: {said}");
            assert!(said.contains("white space around it"), "{said}");
        }
    }
    Ok(())
}

#[test]
fn servers_refuse_key_files_that_are_not_unmistakable() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let table: [(&str, &[u8], &str); 7] = [
        (
            "raw",
            b"GRv0CWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=",
            "--token-secret-file",
        ),
        ("mark", b"\xef\xbb\xbf{\"keys\":[]}", "byte-order mark"),
        (
            "ssh",
            b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO7j9UQSKQ1e alice",
            "SSH public key",
        ),
        (
            "page",
            b"<!doctype html><title>Sign in to see this page</title>",
            "HTML",
        ),
        ("empty", b"", "empty"),
        (
            "words",
            b"correct horse battery staple and more of them",
            "--token-secret-file",
        ),
        ("set", b"{\"keys\":[{\"kty\":\"new\"}]}", "no usable key"),
    ];
    for (name, content, why) in table {
        let path = directory.path().join(name);
        fs::write(&path, content)?;
        let path = path.display().to_string();
        for command in ["cart", "mcp"] {
            let flags = [&["--token-key-file", &path], AUDIENCE].concat();
            let said = refusal(command, &flags, &[])?;
            assert!(
                said.contains("--token-key-file") && said.contains(why),
                "{name}: {said}"
            );
            assert!(said.contains(&path), "{said}");
        }
    }
    Ok(())
}

#[test]
fn servers_refuse_a_secret_that_other_users_may_read() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let line = "GRv0CWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
    for (flag, content) in [("--token-key-file", SET), ("--token-secret-file", line)] {
        let path = directory.path().join(&flag[2..]);
        fs::write(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        let path = path.display().to_string();
        for command in ["cart", "mcp"] {
            let said = refusal(command, &[&[flag, &path], AUDIENCE].concat(), &[])?;
            let remedy = format!("(mode 644): chmod 600 {path}");
            assert!(said.contains(flag) && said.contains(&remedy), "{said}");
        }
    }
    Ok(())
}

#[test]
fn servers_refuse_issuers_that_could_not_be_told_apart() -> Result<()> {
    const A: &[&str] = &["--token-issuer", "https://a.example"];
    const B: &[&str] = &["--token-issuer", "https://b.example"];
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("keys");
    fs::write(&path, SET)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let path = path.display().to_string();
    let key: &[&str] = &["--token-key-file", &path];
    let bound = format!("https://a.example={path}");
    let bound: &[&str] = &["--token-key-file", &bound];
    let plain: &[&str] = &["--token-plain-issuer", "https://a.example"];
    let servers = [
        "--authorization-server",
        "https://a.example,https://b.example",
    ];
    let table = [
        (vec![key, &servers], "--token-issuer"),
        (vec![key, key], "--token-issuer"),
        (vec![key, plain], "--token-issuer"),
        (
            vec![&["--token-jwks-url", "https://127.0.0.1:9/jwks"]],
            "--token-issuer",
        ),
        (vec![key, A, B, plain], "ISSUER=FILE"),
        (vec![bound, key, A, B, plain], "ISSUER=FILE"),
        (vec![bound, A, B, plain], "https://b.example"),
        (vec![bound, bound, A, B], "--token-plain-issuer"),
        (vec![key, B, plain], "--token-plain-issuer"),
        (
            vec![key, &["--token-issuer", ""]],
            "--token-issuer is empty",
        ),
        (vec![A], "--token-key-file"),
        (
            vec![&["--token-jwks-url", "http://id.example/jwks"], A],
            "https",
        ),
        (
            vec![&["--token-jwks-url", "http://127.0.0.1:1/jwks"], A],
            "--token-jwks-url",
        ),
        (
            vec![&["--token-jwks-url", "https://a:s3cret@id.example/jwks"], A],
            "https://...@id.example/jwks",
        ),
        (
            vec![
                key,
                A,
                &["--token-resource", "https://a:s3cret@shop.example"],
            ],
            "https://...@shop.example",
        ),
    ];
    for (flags, why) in table {
        let flags = [&flags.concat()[..], AUDIENCE].concat();
        let said = refusal("cart", &flags, &[])?;
        assert!(said.contains(why), "{flags:?} without {why}: {said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    Ok(())
}

#[test]
fn servers_refuse_hosts_and_origins_that_never_match() -> Result<()> {
    let table = [
        (
            "--allowed-host",
            "https://shop.example",
            "write shop.example",
        ),
        ("--allowed-host", "*", "each host"),
        ("--allowed-host", "shop.example/mcp", "its name"),
        ("--allowed-host", "shop.example,,other.example", "no host"),
        ("--allowed-host", "shop.example:0", "1 to 65535"),
        ("--allowed-origin", "app.example", "https://app.example"),
        ("--allowed-origin", "https://app.example/", "write that"),
        ("--allowed-origin", "*", "each origin"),
        ("--allowed-origin", "null", "the page's own"),
        (
            "--allowed-origin",
            "none,https://app.example",
            "one or the other",
        ),
    ];
    for command in ["cart", "mcp"] {
        for (flag, value, why) in table {
            let said = refusal(command, &[flag, value], &[])?;
            assert!(said.contains(flag) && said.contains(why), "{value}: {said}");
        }
        // A default port is taken, with a warning.
        let flags = [
            "--allowed-host",
            "shop.example:443",
            "--allowed-origin",
            "*",
        ];
        let said = refusal(command, &flags, &[])?;
        assert!(said.contains("Add shop.example for"), "{said}");
        for variable in ["HELVE_ALLOWED_HOST", "HELVE_ALLOWED_ORIGIN"] {
            let said = refusal(command, &[], &[(variable, "")])?;
            assert!(said.contains(variable) && said.contains("unset"), "{said}");
        }
    }
    Ok(())
}
