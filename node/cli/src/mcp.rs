//! `helve mcp`: the state tool for MCP clients.

mod args;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::anyhow;
use helve_client::{Client, MemoryBuilder, Owner};
use helve_command::{
    cluster::{self, failed},
    ending::{Ending, Outcome},
    logging,
    mcp_server::{
        serving::{self, serve_mcp},
        token,
    },
    signals::Signals,
};
use helve_mcp::{
    Callers, legacy,
    serve::{self, Access, Shutdown},
    state::{
        READING_TOOLS, Settings, StateServer,
        gate::{Asked, Destructive, Gate, Transport},
        server,
    },
    stdio,
};
use helve_proto::is_loopback;
use helve_request_state::state_codec::{
    ClusterKeys, FixedKeys, HardenedCodec, KeyRing, OperatorKey, StateCodec, StateKeys,
};

pub(crate) use self::args::Args;
use super::key;

/// How often a store in memory removes what has expired.
const GC_INTERVAL: Duration = Duration::from_secs(60);

/// Serves until SIGTERM, SIGINT, the end of standard input with `--stdio`, or a fatal error.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let logging = logging::start(&args.log).map_err(Ending::Refused)?;
    let mut signals = Signals::listen(&logging).map_err(|error| Ending::Fatal(error.into()))?;
    let access = args.callers.access.access().map_err(Ending::Refused)?;
    let addresses = listen_addresses(args).await.map_err(Ending::Refused)?;
    let reading_keys = args.token.guard(READING_TOOLS);
    let Some(guard) = signals.unless_stopped(reading_keys).await else {
        return Ok(());
    };
    let guard = guard.map_err(Ending::Refused)?.map(Arc::new);
    token::read_again_on_hangup(guard.as_ref(), &mut signals);
    if args.stdio && guard.is_some() {
        let message = "--token-key-file with --stdio: requests carry no token there; name the client's owner with --owner";
        return Err(Ending::Refused(anyhow!(message)));
    }
    let asked = args.asked(transport(args, &addresses), guard.as_deref());
    let gate = settle(args, &asked).map_err(Ending::Refused)?;
    let client = client(args, &mut signals).await?;
    let callers = match (&guard, args.callers.owner.as_deref()) {
        (Some(_), _) => Callers::Authenticated,
        (None, Some("")) => {
            let message = "--owner is empty: name one, or omit it for keys without owner";
            return Err(Ending::Refused(anyhow!(message)));
        }
        (None, Some(name)) => Callers::One(Owner::named(name)),
        (None, None) => Callers::One(Owner::shared()),
    };
    let opening = codec(args, gate, &client);
    let Some(codec) = signals.unless_stopped(opening).await else {
        return Ok(());
    };
    let settings = Settings {
        gate,
        codec: codec?,
        callers: callers.clone(),
        default_ttl: args.lifetimes.default_ttl,
        idle_ttl: args.lifetimes.idle_ttl,
        versions: args.versions(),
    };
    let server = server(&client, settings);
    if args.stdio {
        let drain_timeout = args.edge.drain().timeout;
        let served = serve_stdio(server, signals, drain_timeout).await;
        return served.map_err(Ending::Fatal);
    }
    let access = Access { guard, ..access };
    let listener = serving::bind(&args.listen, &addresses).await;
    let listener = listener.map_err(Ending::Refused)?;
    let bounds = args.edge.bounds().map_err(Ending::Refused)?;
    let metrics = access.metrics.clone();
    let scraped = args.edge.metrics().bind(&metrics).await;
    let scraped = scraped.map_err(Ending::Refused)?;
    let serve = |listener, shutdown: Shutdown| {
        let sessions = args.legacy.sessions(&client, callers);
        let router = legacy::router(server, &access, sessions, &shutdown);
        let drain = args.edge.drain();
        async move { serve::serve_counted(listener, router, bounds, drain, shutdown, &metrics).await }
    };
    serve_mcp(listener, signals, &args.output, scraped, serve)
        .await
        .map_err(Ending::Fatal)
}

/// Where to listen; nowhere with `--stdio`.
async fn listen_addresses(args: &Args) -> anyhow::Result<Vec<SocketAddr>> {
    if args.stdio {
        return Ok(Vec::new());
    }
    serving::listen_addresses(&args.listen).await
}

fn transport(args: &Args, addresses: &[SocketAddr]) -> Transport {
    if args.stdio {
        Transport::Stdio
    } else if addresses.iter().all(|address| is_loopback(address.ip())) {
        Transport::Loopback
    } else {
        Transport::Beyond
    }
}

/// What is served, if anything may be. What is dangerous about it goes to the log.
fn settle(args: &Args, asked: &Asked) -> anyhow::Result<Gate> {
    let gate = asked.settle().map_err(|refusals| {
        let reasons: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        anyhow!("{}", reasons.join("\n       "))
    })?;
    if gate.destructive == Destructive::Assumed {
        tracing::warn!("--assume-yes: clients replace and delete without asking the user");
    }
    if args.memory {
        tracing::warn!("--memory: all values are lost when this process ends");
    }
    args.legacy.check()?;
    if args.stdio {
        args.edge.metrics().refuse_with_stdio()?;
    }
    let lifetimes = [
        ("--default-ttl", args.lifetimes.default_ttl),
        ("--idle-ttl", args.lifetimes.idle_ttl),
    ];
    match lifetimes
        .iter()
        .find(|(_, ttl)| *ttl == Some(Duration::ZERO))
    {
        Some((flag, _)) => Err(anyhow!("{flag}: must be more than zero")),
        None => Ok(gate),
    }
}

async fn client(args: &Args, signals: &mut Signals) -> Result<Client, Ending> {
    if !args.memory {
        return cluster::serving_client(&args.cluster, signals).await;
    }
    MemoryBuilder::new()
        .deadline(args.cluster.timeout)
        .gc_interval(GC_INTERVAL)
        .build()
        .map_err(|error| Ending::Fatal(error.into()))
}

/// What confirmations are sealed with, if there are any.
async fn codec(
    args: &Args,
    gate: Gate,
    client: &Client,
) -> Result<Option<Arc<dyn StateCodec>>, Ending> {
    if gate.destructive != Destructive::Confirmed {
        return Ok(None);
    }
    let key = operator_key(args).map_err(Ending::Refused)?;
    let keys: Arc<dyn StateKeys> = match &args.gates.ring {
        Some(name) => {
            let ring = KeyRing::new(client, name, &key)
                .map_err(|error| Ending::Refused(anyhow!("--ring: {error}")))?;
            ClusterKeys::open(ring).await.map_err(failed)?
        }
        None => Arc::new(FixedKeys::new(&key)),
    };
    let codec = HardenedCodec::new(keys).ttl(args.gates.confirm_ttl);
    let codec = codec.map_err(|error| Ending::Refused(anyhow!("--confirm-ttl: {error}")))?;
    Ok(Some(Arc::new(codec)))
}

fn operator_key(args: &Args) -> anyhow::Result<OperatorKey> {
    match &args.gates.key_file {
        Some(file) => key::operator_key(file),
        None => Ok(OperatorKey::ephemeral()?),
    }
}

/// Serves the client that started this process. A second signal cuts off what is under way.
async fn serve_stdio(
    server: StateServer,
    mut signals: Signals,
    drain_timeout: Duration,
) -> anyhow::Result<()> {
    let shutdown = Shutdown::new();
    let serving = stdio::serve(server, shutdown.clone(), drain_timeout);
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        signal = signals.recv() => tracing::info!(%signal, "stopping"),
    }
    shutdown.begin();
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        again = signals.recv() => {
            tracing::warn!(signal = %again, "stopping at once: requests under way are cut off");
        }
    }
    shutdown.end();
    Ok(serving.await?)
}
