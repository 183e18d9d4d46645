//! From what a document says to the tool.

use std::{sync::Arc, time::Duration};

use helve_client::{Error, KeyOptions, MemoryBuilder, Owner, StateTool};

use super::{
    document::{Kind, Memory, Shared, StateToolConfig},
    helve::Helve,
    read::refused,
};
use crate::prefixed::Prefixed;

/// The tool that a document configures. None of them connects before its first call; a file tool makes its directory, and a memory
/// tool's keys are gone with it.
///
/// # Errors
/// [`Unsupported`](helve_client::ErrorKind::Unsupported) if this build lacks the type; the message names the feature.
/// [`Invalid`](helve_client::ErrorKind::Invalid) if an address, a name, a time, a certificate, a key or a token is none, or if everyone can read
/// a file that holds a token, a key, a password or a URL with one.
/// [`Unavailable`](helve_client::ErrorKind::Unavailable) if a file cannot be read or a directory cannot be made.
pub fn create_state_tool(config: &StateToolConfig) -> Result<Arc<dyn StateTool>, Error> {
    let shared = &config.shared;
    let tool = match &config.kind {
        Kind::Helve(config) => helve(config, shared)?,
        Kind::Memory(config) => memory(config, shared)?,
        Kind::File(config) => file::create(config, shared)?,
        Kind::Redis(config) => redis::create(config, shared)?,
        Kind::Postgres(config) => postgres::create(config, shared)?,
        Kind::S3(config) => s3::create(config, shared)?,
    };
    Ok(match shared.prefix.as_deref() {
        None | Some("") => tool,
        Some(prefix) => Arc::new(Prefixed::new(tool, prefix)),
    })
}

fn helve(config: &Helve, shared: &Shared) -> Result<Arc<dyn StateTool>, Error> {
    let mut builder = config.builder()?;
    if let Some(deadline) = shared.deadline()? {
        builder = builder.deadline(deadline);
    }
    let owner = match config.owner.as_deref() {
        None => Owner::shared(),
        Some("") => {
            return Err(refused(
                "state_tool: config: `owner` is empty: name one, or leave it out for keys without owner",
            ));
        }
        Some(name) => Owner::named(name),
    };
    let options = key_options(shared, config.idle_ttl)?.owner(owner);
    Ok(Arc::new(builder.build()?.keys(options)))
}

fn memory(config: &Memory, shared: &Shared) -> Result<Arc<dyn StateTool>, Error> {
    let mut builder = MemoryBuilder::new();
    if let Some(interval) = seconds("gc_interval", config.gc_interval)? {
        builder = builder.gc_interval(interval);
    }
    if let Some(deadline) = shared.deadline()? {
        builder = builder.deadline(deadline);
    }
    let options = key_options(shared, config.idle_ttl)?;
    Ok(Arc::new(builder.build()?.keys(options)))
}

fn key_options(shared: &Shared, idle_ttl: Option<u64>) -> Result<KeyOptions, Error> {
    let mut options = KeyOptions::shared();
    if let Some(ttl) = shared.ttl()? {
        options = options.default_ttl(ttl);
    }
    if let Some(ttl) = seconds("idle_ttl", idle_ttl)? {
        options = options.idle_ttl(ttl);
    }
    Ok(options)
}

impl Shared {
    fn ttl(&self) -> Result<Option<Duration>, Error> {
        seconds("ttl", self.ttl)
    }

    fn deadline(&self) -> Result<Option<Duration>, Error> {
        if self.deadline_ms == Some(0) {
            return Err(refused(
                "state_tool: config: deadline_ms of 0: no call would be answered",
            ));
        }
        Ok(self.deadline_ms.map(Duration::from_millis))
    }

    #[cfg(any(
        feature = "file",
        feature = "redis",
        feature = "postgres",
        feature = "s3"
    ))]
    fn tool_options(&self) -> Result<crate::tools::ToolOptions, Error> {
        let mut options = crate::tools::ToolOptions::new();
        if let Some(ttl) = self.ttl()? {
            options = options.default_ttl(ttl);
        }
        if let Some(deadline) = self.deadline()? {
            options = options.deadline(deadline);
        }
        Ok(options)
    }
}

fn seconds(name: &str, seconds: Option<u64>) -> Result<Option<Duration>, Error> {
    if seconds == Some(0) {
        return Err(refused(format!(
            "state_tool: config: {name} of 0: leave it out, or give seconds"
        )));
    }
    Ok(seconds.map(Duration::from_secs))
}

#[cfg(feature = "file")]
mod file {
    use super::{Arc, Error, Shared, StateTool};
    use crate::{tool_config::document::File, tools::FileTool};

    pub(super) fn create(config: &File, shared: &Shared) -> Result<Arc<dyn StateTool>, Error> {
        let options = shared.tool_options()?;
        Ok(Arc::new(FileTool::open(&config.path, options)?))
    }
}
#[cfg(not(feature = "file"))]
use missing as file;

#[cfg(feature = "redis")]
mod redis {
    use super::{Arc, Error, Shared, StateTool, url};
    use crate::{
        tool_config::{
            document::Redis,
            read::{Secrecy, read},
        },
        tools::RedisTool,
    };

    pub(super) fn create(config: &Redis, shared: &Shared) -> Result<Arc<dyn StateTool>, Error> {
        let options = shared.tool_options()?;
        let url = url(config.url.as_ref(), config.url_file.as_deref())?;
        let tool = match &config.ca_file {
            Some(file) => {
                RedisTool::with_ca(&url, read(file, Secrecy::Public)?.as_bytes(), options)?
            }
            None => RedisTool::new(&url, options)?,
        };
        Ok(Arc::new(tool))
    }
}
#[cfg(not(feature = "redis"))]
use missing as redis;

#[cfg(feature = "postgres")]
mod postgres {
    use super::{Arc, Error, Shared, StateTool, url};
    use crate::{
        tool_config::{
            document::Postgres,
            read::{Secrecy, read},
        },
        tools::PostgresTool,
    };

    pub(super) fn create(config: &Postgres, shared: &Shared) -> Result<Arc<dyn StateTool>, Error> {
        let options = shared.tool_options()?;
        let url = url(config.url.as_ref(), config.url_file.as_deref())?;
        let table = &config.table;
        let tool = match &config.ca_file {
            Some(file) => PostgresTool::with_ca(
                &url,
                table,
                read(file, Secrecy::Public)?.as_bytes(),
                options,
            )?,
            None => PostgresTool::new(&url, table, options)?,
        };
        Ok(Arc::new(tool))
    }
}
#[cfg(not(feature = "postgres"))]
use missing as postgres;

#[cfg(feature = "s3")]
mod s3 {
    use super::{Arc, Error, Shared, StateTool, refused};
    use crate::{
        tool_config::{
            document::S3,
            read::{Secrecy, read},
        },
        tools::{S3Options, S3Tool},
    };

    pub(super) fn create(config: &S3, shared: &Shared) -> Result<Arc<dyn StateTool>, Error> {
        let mut s3 = S3Options::new(&config.bucket);
        if let Some(region) = &config.region {
            s3 = s3.region(region);
        }
        if let Some(endpoint) = &config.endpoint {
            s3 = s3.endpoint(endpoint);
        }
        match (&config.access_key_id, &config.secret_access_key_file) {
            (Some(id), Some(file)) => s3 = s3.credentials(id, read(file, Secrecy::Secret)?.trim()),
            (None, None) => {}
            _ => {
                return Err(refused(
                    "state_tool: config: give `access_key_id` and `secret_access_key_file`, or neither",
                ));
            }
        }
        if config.allow_http {
            s3 = s3.allow_http();
        }
        Ok(Arc::new(S3Tool::new(&s3, shared.tool_options()?)?))
    }
}
#[cfg(not(feature = "s3"))]
use missing as s3;

/// A type that this build lacks.
#[cfg(not(all(
    feature = "file",
    feature = "redis",
    feature = "postgres",
    feature = "s3"
)))]
mod missing {
    use super::{Arc, Error, Shared, StateTool};
    use crate::tool_config::document;
    use helve_client::ErrorKind;

    pub(super) trait Feature {
        const FEATURE: &str;
    }

    impl Feature for document::File {
        const FEATURE: &str = "file";
    }

    impl Feature for document::Redis {
        const FEATURE: &str = "redis";
    }

    impl Feature for document::Postgres {
        const FEATURE: &str = "postgres";
    }

    impl Feature for document::S3 {
        const FEATURE: &str = "s3";
    }

    pub(super) fn create<C: Feature>(
        _config: &C,
        _shared: &Shared,
    ) -> Result<Arc<dyn StateTool>, Error> {
        let feature = C::FEATURE;
        let message = format!(
            "state_tool: this build has no type `{feature}`: build helve-state with its feature `{feature}`"
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

#[cfg(any(feature = "redis", feature = "postgres"))]
fn url(
    url: Option<&super::document::Secret>,
    file: Option<&std::path::Path>,
) -> Result<String, Error> {
    match (url, file) {
        (Some(url), None) => Ok(url.0.clone()),
        (None, Some(file)) => Ok(super::read::read(file, super::read::Secrecy::Secret)?
            .trim()
            .to_owned()),
        _ => Err(refused(
            "state_tool: config: give `url` or `url_file`, and not both",
        )),
    }
}
