//! Servers that are to check bearer tokens and cannot: each refuses to start, with status 2, and names the flag.

use std::{fs, process::Command};

use anyhow::Result;

use super::binary;

const REFUSED: i32 = 2;
const AUDIENCE: &[&str] = &["--token-audience", "https://shop.example/mcp"];

#[test]
fn a_cart_server_that_cannot_check_tokens_does_not_start() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = |name: &str, content: &str| -> Result<String> {
        let path = directory.path().join(name);
        fs::write(&path, content)?;
        Ok(path.display().to_string())
    };
    let strong = file("strong", &"x".repeat(32))?;
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
