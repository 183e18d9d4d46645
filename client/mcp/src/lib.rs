//! MCP servers whose state is on a Helve cluster, so that any replica answers any request.
//!
//! | module | what it is |
//! |---|---|
//! | [`serve`], [`stdio`], [`legacy`] | serving over streamable HTTP, standard input and output, and to clients of older protocols |
//! | [`state`] | the state tool as a server, for clients in any language |
//! | [`boundary`] | seals the `requestState` that a server gives its clients, and opens what they bring back |
//! | [`bearer`], [`allowed`] | who may call: bearer tokens, and the `Host` and `Origin` headers |
//! | [`tasks`] | the tasks extension: a task survives the replica that runs it |
//! | [`metrics`] | what a server and its listener count, for Prometheus |
//! | [`storage`] | rmcp's storage hooks: what an SDK keeps in one process is every replica's |
//! | [`cart`], [`flow`], [`balancer`] | the example server, clients that judge it, and a load balancer for demo and tests |
//!
//! A replica of the example server:
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use helve_client::ClusterBuilder;
//! use helve_mcp::{cart, serve};
//!
//! let client = ClusterBuilder::new(["127.0.0.1:7400"]).build()?;
//! let server = cart::CartServer::new(client, cart::Settings::shared());
//! let shutdown = serve::Shutdown::new();
//! let router = serve::router(server, &serve::Access::default(), &shutdown);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! serve::serve(listener, router, shutdown).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//! A tool's error tells the model what to do next. What the cluster said goes to the log, without its addresses to the
//! caller. A request that is refused before a tool runs gets an HTTP status, and a JSON-RPC error where it has an id.
//!
//! # Features
//! `oauth-client` (by default): clients' credentials and logins in [`storage`]. The page `docs/mcp.md` of the repository says how to run servers; [`helve_client`] has the stores, and
//! [`helve_request_state`] the codecs.

pub mod allowed;
pub mod balancer;
pub mod bearer;
pub mod boundary;
mod browser;
mod callers;
pub mod cart;
mod excerpt;
pub mod flow;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod legacy;
pub mod methods;
pub mod metrics;
#[cfg(feature = "planted")]
pub mod planted;
#[cfg(test)]
#[path = "../../src/properties.rs"]
mod properties;
pub mod reason;
mod schema;
#[cfg(test)]
#[path = "../../src/seeds.rs"]
mod seeds;
pub mod serve;
mod span;
pub mod state;
pub mod stdio;
pub mod storage;
pub mod tasks;
mod wire;

pub use callers::Callers;
