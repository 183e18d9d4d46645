//! What a document says.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use helve_client::Error;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    helve::Helve,
    read::{Secrecy, check_secret, content, refused, text},
};

/// The types of state tools that there are, whether or not this build has them.
pub(super) const KINDS: [&str; 6] = ["helve", "memory", "file", "redis", "postgres", "s3"];

/// What a document says of its state tool: under `state_tool`, at the top or in `agent`, a `type` and its `config`.
///
/// ```yaml
/// agent:
///   id: "processor-001"
///   state_tool:
///     type: "redis"
///     config:
///       url: "redis://localhost:6379"
///       prefix: "caxton:agents:"
///       ttl: 3600
/// ```
///
/// | type | config, and what it defaults to | needs the feature |
/// |---|---|---|
/// | `helve` | `endpoints`: a list of `HOST:PORT`; `owner`; `idle_ttl`; `token_file`; `insecure_token`: false; `tls`, as below | |
/// | `memory` | `idle_ttl`; `gc_interval` | |
/// | `file` | `path`: a directory | `file` |
/// | `redis` | `url` or `url_file`; `ca_file` | `redis` |
/// | `postgres` | `url` or `url_file`; `ca_file`; `table`: `agent_states` | `postgres` |
/// | `s3` | `bucket`; `region`; `endpoint`; `access_key_id` with `secret_access_key_file`; `allow_http`: false | `s3` |
///
/// All take `prefix`, which is put before every key and never shown, `ttl` (but `s3`), what plain stores live for, and `deadline_ms`,
/// what a call may take: 5,000. Times are in whole seconds but where the name says otherwise. `url_file` names a file that holds the
/// URL, so that its password need not stand in the document. What is not listed is refused, not passed over.
///
/// With `rediss://`, or `sslmode=verify-full` in the URL of PostgreSQL, a server is reached over TLS, and its certificate is checked
/// against `ca_file`, or this machine's authorities.
///
/// A cluster beyond loopback is reached over TLS and with a token: `ca_file` says whose
/// certificates its nodes have, `server_name` what name they have if the endpoints do not have it,
/// and `certificate_file` with `key_file` who the client is where nodes require that. The token's
/// file is read again when it changes, the others once. With `insecure_token: true` a token goes
/// there in plain text: the author vouches for that network.
///
/// ```yaml
/// state_tool:
///   type: "helve"
///   config:
///     endpoints: ["helve-1:7400", "helve-2:7400", "helve-3:7400"]
///     token_file: "/run/secrets/shop-token"
///     tls:
///       ca_file: "/etc/helve/ca.crt"
///       certificate_file: "/etc/helve/shop.crt"
///       key_file: "/run/secrets/shop.key"
///       server_name: "helve.internal"
/// ```
#[derive(Debug, Clone)]
pub struct StateToolConfig {
    pub(super) shared: Shared,
    pub(super) kind: Kind,
}

/// What every type takes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shared {
    pub(super) prefix: Option<String>,
    pub(super) ttl: Option<u64>,
    pub(super) deadline_ms: Option<u64>,
}

impl Shared {
    const FIELDS: [&str; 3] = ["prefix", "ttl", "deadline_ms"];
}

/// What each type takes besides.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Helve(Helve),
    Memory(Memory),
    File(File),
    Redis(Redis),
    Postgres(Postgres),
    S3(S3),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Memory {
    pub(super) idle_ttl: Option<u64>,
    pub(super) gc_interval: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(feature = "file"),
    allow(dead_code, reason = "checked in every build")
)]
pub(super) struct File {
    pub(super) path: PathBuf,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(feature = "redis"),
    allow(dead_code, reason = "checked in every build")
)]
pub(super) struct Redis {
    pub(super) url: Option<Secret>,
    pub(super) url_file: Option<PathBuf>,
    /// Certificate authorities in PEM, in place of this machine's.
    pub(super) ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "checked in every build")
)]
pub(super) struct Postgres {
    pub(super) url: Option<Secret>,
    pub(super) url_file: Option<PathBuf>,
    /// Certificate authorities in PEM, in place of this machine's.
    pub(super) ca_file: Option<PathBuf>,
    #[serde(default = "agent_states")]
    pub(super) table: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(feature = "s3"),
    allow(dead_code, reason = "checked in every build")
)]
pub(super) struct S3 {
    pub(super) bucket: String,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
    pub(super) access_key_id: Option<String>,
    pub(super) secret_access_key_file: Option<PathBuf>,
    #[serde(default)]
    pub(super) allow_http: bool,
}

impl Kind {
    /// Whether a URL in the document itself has a password.
    fn has_password(&self) -> bool {
        let url = match self {
            Self::Redis(redis) => &redis.url,
            Self::Postgres(postgres) => &postgres.url,
            Self::Helve(_) | Self::Memory(_) | Self::File(_) | Self::S3(_) => &None,
        };
        let Some(Secret(url)) = url else { return false };
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let user = rest.rsplit_once('@').map(|(user, _)| user);
        user.is_some_and(|user| user.contains(':')) || rest.contains("password=")
    }
}

/// A text that no log shows.
#[derive(Clone, Deserialize)]
#[cfg_attr(
    not(any(feature = "redis", feature = "postgres")),
    allow(dead_code, reason = "checked in every build")
)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

fn agent_states() -> String {
    "agent_states".to_owned()
}

/// The content of `state_tool`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    r#type: String,
    config: Option<Map<String, Value>>,
}

impl StateToolConfig {
    /// Of a document.
    ///
    /// # Errors
    /// [`Invalid`](helve_client::ErrorKind::Invalid) if it is no YAML, has no `state_tool`, or one
    /// of an unknown type, or if the type's config lacks something or has something that it does
    /// not know. The message says what.
    pub fn from_yaml(document: &str) -> Result<Self, Error> {
        let document: Value = serde_saphyr::from_str(document)
            .map_err(|error| refused(format!("the document is no YAML: {error}")))?;
        let agent = document.get("agent");
        let section = document
            .get("state_tool")
            .or_else(|| agent?.get("state_tool"))
            .ok_or_else(|| refused("the document has no `state_tool`, at its top or in `agent`"))?;
        let Section { r#type, config } = serde_json::from_value(section.clone())
            .map_err(|error| refused(format!("state_tool: {error}")))?;
        let (shared, own): (Map<_, _>, Map<_, _>) = config
            .unwrap_or_default()
            .into_iter()
            .partition(|(field, _)| Shared::FIELDS.contains(&field.as_str()));
        let shared: Shared = typed(&r#type, shared)?;
        let kind = match r#type.as_str() {
            "helve" => Kind::Helve(typed(&r#type, own)?),
            "memory" => Kind::Memory(typed(&r#type, own)?),
            "file" => Kind::File(typed(&r#type, own)?),
            "redis" => Kind::Redis(typed(&r#type, own)?),
            "postgres" => Kind::Postgres(typed(&r#type, own)?),
            "s3" if shared.ttl.is_some() => {
                let message =
                    "state_tool: config of s3: unknown field `ttl`: objects do not expire";
                return Err(refused(message));
            }
            "s3" => Kind::S3(typed(&r#type, own)?),
            unknown => {
                let known = KINDS.map(|kind| format!("`{kind}`")).join(", ");
                let message =
                    format!("state_tool: there is no type {unknown:?}: give one of {known}");
                return Err(refused(message));
            }
        };
        Ok(Self { shared, kind })
    }

    /// Of a document in a file.
    ///
    /// # Errors
    /// [`Unavailable`](helve_client::ErrorKind::Unavailable) if the file cannot be read;
    /// [`Invalid`](helve_client::ErrorKind::Invalid) if it holds a `url` with a password, and every user of the machine can read it;
    /// else as [`from_yaml`](Self::from_yaml).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let content = content(path, Secrecy::Public)?;
        let config = Self::from_yaml(text(path, &content)?)?;
        if config.kind.has_password() {
            // It is a secret's file, then, and is refused as one.
            check_secret(path, &content.metadata)?;
        }
        Ok(config)
    }

    /// The type, as the document names it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.kind {
            Kind::Helve(_) => "helve",
            Kind::Memory(_) => "memory",
            Kind::File(_) => "file",
            Kind::Redis(_) => "redis",
            Kind::Postgres(_) => "postgres",
            Kind::S3(_) => "s3",
        }
    }
}

fn typed<C: DeserializeOwned>(kind: &str, config: Map<String, Value>) -> Result<C, Error> {
    serde_json::from_value(config.into())
        .map_err(|error| refused(format!("state_tool: config of {kind}: {error}")))
}
