//! The part of the suite that every state tool must pass, whatever keeps its keys.

use std::{fmt, sync::Arc, time::Duration};

use futures::future::LocalBoxFuture;
use helve_client::{Error, KeyOptions, StateTool};

use crate::{
    host::Host,
    setup::{Setup, random_name},
};

/// A kind of state tool that is put to the test.
pub trait ToolHost: Send + Sync {
    /// An open tool, of its own to close, over keys that no other namespace has. Tools of different `node`s begin with different
    /// nodes, or have other connections at least. Plain stores have the lifetime `default_ttl`, if there is one.
    ///
    /// # Errors
    /// If there can be no such tool, as one with a lifetime where none is promised.
    fn tool(
        &self,
        node: usize,
        namespace: &str,
        default_ttl: Option<Duration>,
    ) -> Result<Arc<dyn StateTool>, Error>;

    /// Bytes that a key within a namespace may have; 1,024 if not told.
    fn key_bytes_max(&self) -> usize {
        1024
    }
}

/// One case.
pub struct ToolCase {
    /// The fact that it shows.
    pub name: &'static str,
    pub(crate) run: fn(ToolSetup) -> LocalBoxFuture<'static, Result<(), Error>>,
}

impl ToolCase {
    /// Runs it in a namespace of its own. The future is not `Send`: await it where the runtime blocks.
    ///
    /// # Errors
    /// Whatever a call failed with that should not have.
    ///
    /// # Panics
    /// If an answer is not what it should be.
    pub async fn run(&self, host: Arc<dyn ToolHost>) -> Result<(), Error> {
        let name = random_name()?;
        (self.run)(ToolSetup { host, name }).await
    }
}

impl fmt::Debug for ToolCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolCase").field(&self.name).finish()
    }
}

/// The namespace that one run of one case uses.
pub(crate) struct ToolSetup {
    host: Arc<dyn ToolHost>,
    name: String,
}

impl ToolSetup {
    pub(crate) fn of_host(Setup { host, name }: Setup) -> Self {
        let host = Arc::new(OfHost(host));
        Self { host, name }
    }

    pub(crate) fn tool(&self, node: usize) -> Arc<dyn StateTool> {
        let tool = self.host.tool(node, &self.name, None);
        tool.expect("a tool without lifetimes needs nothing")
    }

    pub(crate) fn tool_with_ttl(
        &self,
        node: usize,
        ttl: Duration,
    ) -> Result<Arc<dyn StateTool>, Error> {
        self.host.tool(node, &self.name, Some(ttl))
    }

    pub(crate) fn key_bytes_max(&self) -> usize {
        self.host.key_bytes_max()
    }
}

/// The keys of a host of everything: a namespace is an owner.
struct OfHost(Arc<dyn Host>);

impl ToolHost for OfHost {
    fn tool(
        &self,
        node: usize,
        namespace: &str,
        default_ttl: Option<Duration>,
    ) -> Result<Arc<dyn StateTool>, Error> {
        let mut options = KeyOptions::new(namespace);
        if let Some(ttl) = default_ttl {
            options = options.default_ttl(ttl);
        }
        Ok(Arc::new(self.0.client(node).keys(options)))
    }
}
