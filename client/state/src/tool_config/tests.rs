//! Documents, as the seed has them and as they must not be.

use std::fs;

use helve_client::ErrorKind;
use serde_json::json;

use super::{
    create::create_state_tool,
    document::{KINDS, Kind, StateToolConfig},
};

const REDIS: &str = r#"
# agent-config.yaml
agent:
  id: "processor-001"
  type: "data-processor"

  state_tool:
    type: "redis"
    config:
      url: "redis://localhost:6379"
      prefix: "caxton:agents:"
      ttl: 3600
"#;
const POSTGRES: &str = r#"
# PostgreSQL backend
state_tool:
  type: "postgres"
  config:
    url: "postgresql://user:pass@localhost/caxton"
    table: "agent_states"
"#;
const S3: &str = r#"
# S3 backend
state_tool:
  type: "s3"
  config:
    bucket: "caxton-agent-states"
    prefix: "production/"
    region: "us-west-2"
"#;
const FILE: &str = r#"
# Local filesystem (development)
state_tool:
  type: "file"
  config:
    path: "/var/lib/caxton/states"
"#;

fn refusal(document: &str) -> String {
    let refused = StateToolConfig::from_yaml(document)
        .and_then(|config| create_state_tool(&config).map(drop));
    let error = refused.expect_err(document);
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    error.to_string()
}

#[test]
fn the_documents_of_the_seed_are_understood_as_they_are() {
    for (document, kind) in [
        (REDIS, "redis"),
        (POSTGRES, "postgres"),
        (S3, "s3"),
        (FILE, "file"),
    ] {
        let config = StateToolConfig::from_yaml(document).unwrap();
        assert_eq!(config.kind(), kind);
    }
    let config = StateToolConfig::from_yaml(REDIS).unwrap();
    assert_eq!(config.shared.prefix.as_deref(), Some("caxton:agents:"));
    assert_eq!(config.shared.ttl, Some(3600));
    let config = StateToolConfig::from_yaml(POSTGRES).unwrap();
    assert!(!format!("{config:?}").contains("pass"), "{config:?}");
}

/// All but the file tool, which would make its directory.
#[tokio::test]
async fn the_documents_of_the_seed_make_tools_or_name_the_feature() {
    let built = [
        (REDIS, cfg!(feature = "redis")),
        (POSTGRES, cfg!(feature = "postgres")),
        (S3, cfg!(feature = "s3")),
    ];
    for (document, is_built) in built {
        let config = StateToolConfig::from_yaml(document).unwrap();
        match create_state_tool(&config) {
            Ok(_) => assert!(is_built),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                let feature = format!("feature `{}`", config.kind());
                assert!(!is_built && error.message().contains(&feature), "{error}");
            }
        }
    }
}

#[test]
fn an_unknown_type_is_refused_with_those_that_there_are() {
    let message = refusal("state_tool: {type: dynamodb, config: {table: t}}");
    assert!(message.contains("dynamodb"), "{message}");
    for kind in KINDS {
        assert!(message.contains(&format!("`{kind}`")), "{message}");
    }
}

#[test]
fn what_a_document_must_not_say_is_refused_by_name() {
    for (document, said) in [
        ("agent: {id: a}", "no `state_tool`"),
        ("state_tool: {config: {}}", "missing field `type`"),
        ("state_tool: {type: memory, ttl: 5}", "unknown field `ttl`"),
        (
            "state_tool: {type: memory, config: {tll: 5}}",
            "unknown field `tll`",
        ),
        ("state_tool: {type: memory, config: {ttl: 0}}", "ttl of 0"),
        (
            "state_tool: {type: memory, config: {deadline_ms: 0}}",
            "deadline_ms of 0",
        ),
        (
            "state_tool: {type: memory, config: {ttl: -1}}",
            "invalid value",
        ),
        (
            "state_tool: {type: memory, config: {ttl: soon}}",
            "invalid type",
        ),
        ("state_tool: {type: helve}", "missing field `endpoints`"),
        (
            "state_tool: {type: helve, config: {endpoints: []}}",
            "at least one endpoint",
        ),
        (
            "state_tool: {type: helve, config: {endpoints: ['no endpoint']}}",
            "no endpoint",
        ),
        (
            "state_tool: {type: helve, config: {endpoints: [a], token: t}}",
            "unknown field `token`",
        ),
        (
            "state_tool: {type: helve, config: {endpoints: [a], token_file: /nowhere/token}}",
            "/nowhere/token",
        ),
        (
            "state_tool: {type: helve, config: {endpoints: [a], tls: {}}}",
            "missing field `ca_file`",
        ),
        (
            "state_tool: {type: helve, config: {endpoints: [a], tls: {ca_file: c, verify: false}}}",
            "unknown field `verify`",
        ),
        (
            "state_tool: {type: redis, config: {url: 'redis://h', tabel: t}}",
            "unknown field `tabel`",
        ),
        (
            "state_tool: {type: s3, config: {bucket: b, ttl: 5}}",
            "unknown field `ttl`",
        ),
        ("state_tool: {type: file}", "missing field `path`"),
        ("state_tool: [", "no YAML"),
        ("state_tool: {type: memory, type: file}", "no YAML"),
    ] {
        let message = refusal(document);
        assert!(message.contains(said), "{document}: {message}");
    }
}

#[tokio::test]
async fn a_prefix_is_put_before_every_key_and_never_shown() {
    let document = "state_tool: {type: memory, config: {prefix: 'caxton:agents:', ttl: 3600}}";
    let config = StateToolConfig::from_yaml(document).unwrap();
    let tool = create_state_tool(&config).unwrap();
    tool.store("checkpoints/a/latest", &json!(1)).await.unwrap();
    assert_eq!(tool.list("check").await.unwrap(), ["checkpoints/a/latest"]);
    let record = tool
        .retrieve_record("checkpoints/a/latest")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        record.info.expires_at_ms,
        Some(record.info.updated_at_ms + 3_600_000)
    );
}

#[tokio::test]
async fn helve_memory_and_file_are_made_from_documents() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("states");
    for document in [
        "state_tool: {type: helve, config: {endpoints: ['127.0.0.1:7400'], owner: o, ttl: 60, idle_ttl: 5, deadline_ms: 100}}".to_owned(),
        "state_tool: {type: memory}".to_owned(),
        format!("state_tool: {{type: file, config: {{path: {path:?}, ttl: 60}}}}"),
    ] {
        let file = directory.path().join("agent-config.yaml");
        fs::write(&file, document).unwrap();
        let config = StateToolConfig::from_file(&file).unwrap();
        match create_state_tool(&config) {
            Ok(tool) => assert!(tool.promises().revisions),
            Err(error) => assert_eq!((config.kind(), error.kind()), ("file", ErrorKind::Unsupported)),
        }
    }
    assert_eq!(path.exists(), cfg!(feature = "file"));
    let absent = StateToolConfig::from_file(directory.path().join("absent.yaml")).unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::Unavailable);
}

#[cfg(all(unix, feature = "redis", feature = "postgres", feature = "s3"))]
#[test]
fn files_with_secrets_that_every_user_can_read_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &str, mode: u32| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let documents = |file: &str| {
        [
            format!("state_tool: {{type: redis, config: {{url_file: {file:?}}}}}"),
            format!("state_tool: {{type: postgres, config: {{url_file: {file:?}}}}}"),
            format!(
                "state_tool: {{type: s3, config: {{bucket: b, region: r, access_key_id: a, secret_access_key_file: {file:?}}}}}"
            ),
        ]
    };
    let created = |document: &str| {
        let config = StateToolConfig::from_yaml(document).unwrap();
        create_state_tool(&config).map(drop)
    };
    let open = put("open", "postgres://a:b@localhost/c", 0o644);
    for document in documents(&open) {
        let refused = created(&document).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.message().contains("chmod 600"), "{refused}");
        assert!(!refused.message().contains("a:b"), "{refused}");
    }
    let from_file = |name: &str, url: &str, mode| {
        let document = format!("state_tool: {{type: redis, config: {{url: {url:?}}}}}");
        StateToolConfig::from_file(put(name, &document, mode)).map(drop)
    };
    let refused = from_file("password.yaml", "redis://:secret@localhost:6379", 0o644);
    let refused = refused.unwrap_err();
    assert!(refused.message().contains("chmod 600"), "{refused}");
    assert!(!refused.message().contains(":secret@"), "{refused}");
    from_file("closed.yaml", "redis://:secret@localhost:6379", 0o640).unwrap();
    from_file("none.yaml", "redis://localhost:6379", 0o644).unwrap();
}

/// A certificate is any that can be read: no connection is made.
#[test]
fn files_of_tls_and_of_a_token_are_read_and_what_is_none_is_refused_by_name() {
    use std::os::unix::fs::PermissionsExt as _;

    const CA: &str = "-----BEGIN CERTIFICATE-----\nMAAwAA==\n-----END CERTIFICATE-----\n";
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let (ca, empty, token) = (put("ca.crt", CA), put("empty", ""), put("token", "hlv_a"));
    let document =
        |more: &str| format!("state_tool: {{type: helve, config: {{endpoints: ['a:1'], {more}}}}}");
    let made = |more: &str| {
        let config = StateToolConfig::from_yaml(&document(more)).unwrap();
        let files = match &config.kind {
            Kind::Helve(helve) => helve.builder(),
            other => panic!("{other:?}"),
        };
        files.map(drop)
    };
    made(&format!(
        "tls: {{ca_file: {ca:?}, server_name: b}}, token_file: {token:?}"
    ))
    .unwrap();
    let refused = made(&format!("tls: {{ca_file: {ca:?}, key_file: {token:?}}}")).unwrap_err();
    assert!(
        refused
            .message()
            .contains("`certificate_file` and `key_file`"),
        "{refused}"
    );
    made(&format!("token_file: {token:?}, insecure_token: true")).unwrap();
    let refused = refusal(&document(&format!("token_file: {token:?}")));
    assert!(refused.contains("in plain text"), "{refused}");
    let refused = made(&format!("token_file: {empty:?}")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let absent = made("tls: {ca_file: /nowhere/ca.crt}").unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::Unavailable);
    assert!(absent.message().contains("/nowhere/ca.crt"), "{absent}");
    fs::set_permissions(
        directory.path().join("token"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    let refused = made(&format!("token_file: {token:?}")).unwrap_err();
    assert!(refused.message().contains("chmod 600"), "{refused}");
    // That it is no CA shows when the endpoints are set up.
    assert!(refusal(&document(&format!("tls: {{ca_file: {empty:?}}}"))).contains("CA"));
}

#[test]
fn files_of_a_document_are_read_once_and_within_bounds() {
    use std::{path::Path, process::Command, thread};

    let from_file = |path: &Path| StateToolConfig::from_file(path).map(drop);
    let device = from_file(Path::new("/dev/zero")).unwrap_err();
    assert_eq!(device.kind(), ErrorKind::Unavailable);
    assert!(
        device.message().contains("/dev/zero: it is a device"),
        "{device}"
    );
    let directory = tempfile::tempdir().unwrap();
    let large = directory.path().join("large.yaml");
    fs::write(&large, " ".repeat((1 << 20) + 1)).unwrap();
    let refused = from_file(&large).unwrap_err();
    let bound = format!("{} has more than 1048576 bytes", large.display());
    assert_eq!(refused.message(), bound);
    let piped = |name: &str, content: &'static str| {
        let path = directory.path().join(name);
        let made = Command::new("mkfifo")
            .args(["-m", "600"])
            .arg(&path)
            .status();
        assert!(made.unwrap().success());
        let writer = {
            let path = path.clone();
            thread::spawn(move || fs::write(path, content))
        };
        (path, writer)
    };
    let document = "state_tool: {type: redis, config: {url: 'redis://:secret@localhost'}}";
    let (path, writer) = piped("password.yaml", document);
    from_file(&path).unwrap();
    writer.join().unwrap().unwrap();
    let (path, writer) = piped("ca", "no PEM");
    let refused = refusal(&format!(
        "state_tool: {{type: helve, config: {{endpoints: ['a:1'], tls: {{ca_file: {path:?}}}}}}}"
    ));
    assert!(refused.contains("the CA holds no certificate"), "{refused}");
    writer.join().unwrap().unwrap();
}
