//! The state tool's suite on every backend, on real servers of this machine, each as a YAML document configures it.
//!
//! A server that is not installed leaves its tests out, and says so; with `HELVE_REQUIRE_BACKENDS=1` it fails them.

mod authority;
mod file;
mod postgres;
mod promises;
mod redis;
mod s3;
mod server;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use helve_client::{Error, ErrorKind, StateTool};
use helve_conformance::{TOOL_CASES, ToolHost};
use helve_state::{StateToolConfig, create_state_tool};

/// A backend as documents configure it.
struct Configured {
    /// The type, and the lines of its config but prefix and lifetime.
    kind: &'static str,
    config: String,
    key_bytes_max: usize,
}

/// Bytes that a namespace, as the suite names them, takes of a key.
const NAMESPACE_BYTES: usize = "case-0123456789abcdef/".len();

impl Configured {
    fn new(kind: &'static str, config: String) -> Self {
        Self {
            kind,
            config,
            key_bytes_max: 1024 - NAMESPACE_BYTES,
        }
    }

    fn document(&self, prefix: &str, ttl: Option<Duration>) -> String {
        let Self { kind, config, .. } = self;
        let ttl = ttl.map_or_else(String::new, |ttl| format!("    ttl: {}\n", ttl.as_secs()));
        format!(
            "state_tool:\n  type: \"{kind}\"\n  config:\n{config}    prefix: \"{prefix}\"\n    deadline_ms: 120000\n{ttl}"
        )
    }
}

impl ToolHost for Configured {
    fn tool(
        &self,
        _node: usize,
        namespace: &str,
        default_ttl: Option<Duration>,
    ) -> Result<Arc<dyn StateTool>, Error> {
        let document = self.document(&format!("{namespace}/"), default_ttl);
        create_state_tool(&StateToolConfig::from_yaml(&document)?)
    }

    fn key_bytes_max(&self) -> usize {
        self.key_bytes_max
    }
}

/// Runs every case, and names all that fail.
async fn assert_conforms(host: Configured) {
    let host: Arc<dyn ToolHost> = Arc::new(host);
    let mut failed = Vec::new();
    for case in TOOL_CASES {
        println!("{}", case.name);
        let run = AssertUnwindSafe(case.run(Arc::clone(&host))).catch_unwind();
        match run.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failed.push(format!("{}: {error:?}", case.name)),
            Err(_) => failed.push(format!("{}: panicked, see above", case.name)),
        }
    }
    let count = TOOL_CASES.len();
    assert!(
        failed.is_empty(),
        "{} of {count} cases:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// A list of names and times is not refused where one with all values would be over its limit, which that is.
async fn assert_values_of_a_list_are_bounded(tool: &dyn StateTool) {
    const VALUES: usize = 257;
    let value = serde_json::Value::from("x".repeat((1 << 20) - 2));
    for number in 0..VALUES {
        let key = format!("large/{number}");
        tool.store(&key, &value).await.expect("it is stored");
    }
    let listed = tool.list_infos("large/").await.expect("names are short");
    assert_eq!(listed.items.len(), VALUES);
    let refused = tool.list_values("large/").await.expect_err("it is long");
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    let some = tool.list_values("large/1").await.expect("it is shorter");
    assert_eq!(some.items.len(), 111);
}
