//! Chromium without a window, told what to do over the pipes of its debugging protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>).

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use helve_tests::wait::{Look, until};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::unix::pipe,
    time::timeout,
};

use super::browser::{CHROMIUM, PATIENCE};

/// One page in a browser, which ends with this.
pub(crate) struct Chromium {
    process: Child,
    to: pipe::Sender,
    from: BufReader<pipe::Receiver>,
    next: u64,
    session: String,
    /// What the page threw, and what the browser refused it.
    problems: Vec<String>,
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

impl Chromium {
    /// Starts the browser with an empty page. It keeps its files in `directory`.
    pub(crate) async fn start(directory: &Path) -> Result<Self> {
        let [to, from] = ["to", "from"].map(|name| directory.join(name));
        let made = Command::new("mkfifo").args([&to, &from]).status()?;
        ensure!(made.success(), "no pipes in {}", directory.display());
        // For reading and writing: to open a pipe for one of them waits for the other side.
        let both = || {
            let mut options = pipe::OpenOptions::new();
            options.read_write(true);
            options
        };
        let sender = both().open_sender(&to)?;
        let receiver = both().open_receiver(&from)?;
        // The protocol's descriptors are 3 and 4, which only a shell gives a program without unsafe code.
        let process = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<"$TO" 4>"$FROM""#, CHROMIUM])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-dev-shm-usage",
                "--remote-debugging-pipe",
            ])
            .arg(format!(
                "--user-data-dir={}",
                directory.join("profile").display()
            ))
            .envs([("TO", &to), ("FROM", &from)])
            .env("HOME", directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut browser = Self {
            process,
            to: sender,
            from: BufReader::new(receiver),
            next: 0,
            session: String::new(),
            problems: Vec::new(),
        };
        browser.attach().await?;
        Ok(browser)
    }

    async fn attach(&mut self) -> Result<()> {
        let page = json!({ "url": "about:blank" });
        let target = self.tell("Target.createTarget", page).await?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.tell("Target.attachToTarget", attach).await?;
        let session = attached["sessionId"].as_str().context("no session")?;
        session.clone_into(&mut self.session);
        for domain in ["Log", "Page", "Runtime"] {
            self.tell(&format!("{domain}.enable"), json!({})).await?;
        }
        Ok(())
    }

    /// Gives a command, and returns its result.
    pub(crate) async fn tell(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let told = timeout(PATIENCE, self.exchange(id, format!("{command}\0")));
        let told = told
            .await
            .with_context(|| format!("no answer to {method}"))?;
        told.with_context(|| method.to_owned())
    }

    async fn exchange(&mut self, id: u64, command: String) -> Result<Value> {
        self.to.write_all(command.as_bytes()).await?;
        loop {
            let mut message = Vec::new();
            self.from.read_until(0, &mut message).await?;
            let message = message.strip_suffix(&[0]).context("the browser ended")?;
            let mut message: Value = serde_json::from_slice(message)?;
            if message["id"] == id {
                ensure!(message["error"].is_null(), "{}", message["error"]);
                return Ok(message["result"].take());
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let entry = &event["params"]["entry"];
        // An answer that is an error is the page's to read.
        let is_refusal = entry["level"] == "error" && entry["source"] != "network";
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.problems.push(event.to_string()),
            Some("Log.entryAdded") if is_refusal => self.problems.push(event.to_string()),
            _ => {}
        }
    }

    /// The value of an expression in the page.
    pub(crate) async fn value(&mut self, expression: &str) -> Result<Value> {
        let asked =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut told = self.tell("Runtime.evaluate", asked).await?;
        if !told["exceptionDetails"].is_null() {
            bail!("{expression}: {}", told["exceptionDetails"]);
        }
        Ok(told["result"]["value"].take())
    }

    /// Waits until an expression in the page is true.
    pub(crate) async fn shows(&mut self, expression: &str) -> Result<()> {
        until(expression, async || match self.value(expression).await {
            Ok(Value::Bool(true)) => Look::Done(()),
            Ok(other) => Look::NotYet(other.to_string()),
            Err(error) => Look::NotYet(error.to_string()),
        })
        .await
    }

    /// Types into what has the focus.
    pub(crate) async fn types(&mut self, text: &str) -> Result<()> {
        self.tell("Input.insertText", json!({ "text": text }))
            .await?;
        Ok(())
    }

    /// Presses the key Enter.
    pub(crate) async fn presses_enter(&mut self) -> Result<()> {
        for kind in ["keyDown", "keyUp"] {
            let key = json!({
                "type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13,
            });
            self.tell("Input.dispatchKeyEvent", key).await?;
        }
        Ok(())
    }

    /// What the page threw, and what the browser refused it, such as a script against its policy.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }
}
