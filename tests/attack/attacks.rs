//! The attacks, by the rows of the table in `docs/attacks.md`.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use futures::future::try_join_all;
use helve_client::Bearer;
use helve_tests::{
    address::Listeners,
    attack::{denied, ends::Ends, json, names, pages, replay, silence},
    caller::Caller,
};

use crate::{budgets, handshakes};

/// Where attacks go, and what attackers hold.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) nodes: Vec<Listeners>,
    /// A token of the hostile tenant.
    pub(crate) reader: Bearer,
    /// The same, as it is sent.
    pub(crate) reader_text: String,
    /// The same of a caller who may read one store alone.
    pub(crate) confined: Bearer,
    /// See [`Target::reader`].
    pub(crate) writer: Bearer,
    /// A writer's token of the tenant `default`, and the same as it is sent.
    pub(crate) of_default: (Bearer, String),
    /// How a TLS handshake with the nodes begins; absent where they have no certificates.
    pub(crate) hello: Option<Vec<u8>>,
}

impl Target {
    /// The same nodes, attacked with the token of the tenant `default` alone.
    pub(crate) fn with_default_tenant(&self) -> Self {
        let (bearer, text) = self.of_default.clone();
        Self {
            nodes: self.nodes.clone(),
            reader: bearer.clone(),
            reader_text: text.clone(),
            confined: bearer.clone(),
            writer: bearer.clone(),
            of_default: (bearer, text),
            hello: self.hello.clone(),
        }
    }
}

/// Goes on for a time, and says how its calls ended.
type Run = fn(Target, Duration) -> Pin<Box<dyn Future<Output = Result<String>> + Send>>;

/// What the nodes speak at their ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Plain text, so that attackers can write frames of HTTP/2 by hand.
    Plain,
    /// TLS to clients, and mutual TLS to each other.
    Secured,
}

/// One attack.
#[derive(Clone)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Its row in the table of `docs/attacks.md`.
    pub(crate) row: &'static str,
    /// The nodes that it is made on.
    pub(crate) ports: Ports,
    pub(crate) run: Run,
}

/// All attacks.
const ALL: &[Attack] = &[
    Attack {
        name: "long-names",
        row: "2",
        ports: Ports::Plain,
        run: |target, time| Box::pin(long_names(target, time)),
    },
    Attack {
        name: "unread-pages",
        row: "12",
        ports: Ports::Plain,
        run: |target, time| Box::pin(unread_pages(target, time)),
    },
    Attack {
        name: "silent-connections",
        row: "11",
        ports: Ports::Plain,
        run: |target, time| Box::pin(silent_connections(target, time)),
    },
    Attack {
        name: "unfinished-handshakes",
        row: "11",
        ports: Ports::Secured,
        run: |target, time| Box::pin(handshakes::unfinished(target, time)),
    },
    Attack {
        name: "long-owners",
        row: "1",
        ports: Ports::Plain,
        run: |target, time| Box::pin(budgets::owners(target, time)),
    },
    Attack {
        name: "silent-streams",
        row: "3",
        ports: Ports::Plain,
        run: |target, time| Box::pin(budgets::silent_streams(target, time)),
    },
    Attack {
        name: "idle-exchanges",
        row: "3",
        ports: Ports::Plain,
        run: |target, time| Box::pin(budgets::idle_exchanges(target, time)),
    },
    Attack {
        name: "tiny-elements",
        row: "4",
        ports: Ports::Plain,
        run: |target, time| Box::pin(budgets::tiny(target, time)),
    },
    Attack {
        name: "json-bodies",
        row: "4",
        ports: Ports::Plain,
        run: |target, time| Box::pin(json_bodies(target, time)),
    },
    Attack {
        name: "unread-answers",
        row: "5",
        ports: Ports::Plain,
        run: |target, time| Box::pin(budgets::answers(target, time)),
    },
    Attack {
        name: "unread-refusals",
        row: "5",
        ports: Ports::Plain,
        run: |target, time| Box::pin(budgets::refusals(target, time)),
    },
    Attack {
        name: "unread-watches",
        row: "5",
        ports: Ports::Plain,
        run: |target, time| Box::pin(budgets::watches(target, time)),
    },
    Attack {
        name: "unfinished-messages",
        row: "9",
        ports: Ports::Plain,
        run: |target, time| Box::pin(budgets::begun(target, time)),
    },
    Attack {
        name: "default-tenant",
        row: "10",
        ports: Ports::Plain,
        run: |target, time| Box::pin(budgets::default_tenant(target, time)),
    },
    Attack {
        name: "denied-calls",
        row: "6",
        ports: Ports::Plain,
        run: |target, time| Box::pin(denied_calls(target, time)),
    },
    Attack {
        name: "denied-strangers",
        row: "6",
        ports: Ports::Plain,
        run: |target, time| Box::pin(denied_strangers(target, time)),
    },
    Attack {
        name: "open-sessions",
        row: "13",
        ports: Ports::Plain,
        run: |target, time| Box::pin(open_sessions(target, time)),
    },
    Attack {
        name: "deletes-of-nothing",
        row: "14",
        ports: Ports::Plain,
        run: |target, time| Box::pin(deletes_of_nothing(target, time)),
    },
];

/// The attacks of these names; all if none is named.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<Attack>> {
    if names.is_empty() {
        return Ok(ALL.to_vec());
    }
    let mut chosen = Vec::new();
    for name in names {
        let found = ALL.iter().find(|attack| attack.name == name);
        let Some(attack) = found else {
            let known: Vec<_> = ALL.iter().map(|attack| attack.name).collect();
            bail!("there is no attack `{name}`: {}", known.join(", "));
        };
        chosen.push(attack.clone());
    }
    Ok(chosen)
}

pub(crate) fn attacker(last: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, last], 0))
}

async fn long_names(target: Target, time: Duration) -> Result<String> {
    const BYTES: usize = 4 << 20;
    const CALLS: usize = 32;
    let begun = Instant::now();
    let mut calls = 0;
    let mut longest = 0;
    while begun.elapsed() < time {
        for node in &target.nodes {
            let channel = Caller::new(node.client).channel();
            let echoes = names::health(channel, BYTES, CALLS).await;
            calls += CALLS;
            longest = longest.max(echoes.longest);
        }
    }
    Ok(format!("{calls} calls, at most {longest} bytes came back"))
}

async fn unread_pages(target: Target, time: Duration) -> Result<String> {
    let begun = Instant::now();
    let (mut opened, mut refused) = (0, 0);
    let mut held = Vec::new();
    while begun.elapsed() < time {
        for node in &target.nodes {
            match pages::unread(attacker(66), node.http, "/metrics", 64, 64).await {
                Ok(many) => {
                    opened += many.len();
                    held.push(many);
                }
                // See `json_bodies`.
                Err(_) => refused += 1,
            }
        }
        // The newest are enough to fill the places.
        if held.len() > 3 * target.nodes.len() {
            held.drain(..target.nodes.len());
        }
        tokio::task::yield_now().await;
    }
    Ok(format!(
        "{opened} connections that read nothing, {refused} times one was refused"
    ))
}

/// Of many small values, and of many bytes that do not come to their end.
async fn json_bodies(target: Target, time: Duration) -> Result<String> {
    const CONNECTIONS: usize = 32;
    let tiny = json::tiny(4 << 20);
    let large = " ".repeat(4 << 20);
    let begun = Instant::now();
    let (mut sent, mut answered, mut refused) = (0, 0, 0);
    while begun.elapsed() < time {
        for node in &target.nodes {
            for (body, missing) in [(&tiny, 0), (&large, 7 << 20)] {
                let body = (target.reader_text.as_str(), body.as_str(), missing);
                match json::post(attacker(66), node.client, body, CONNECTIONS).await {
                    Ok(heard) => {
                        answered += heard;
                        sent += CONNECTIONS;
                    }
                    // A node may reset a connection while it begins, and thousands of connections
                    // that have just ended may leave the address no port.
                    Err(_) => refused += 1,
                }
            }
        }
        tokio::task::yield_now().await;
    }
    Ok(format!(
        "{sent} bodies, {answered} answered while they came, {refused} times one was refused"
    ))
}

async fn silent_connections(target: Target, time: Duration) -> Result<String> {
    let begun = Instant::now();
    let mut opened = 0;
    while begun.elapsed() < time {
        for node in &target.nodes {
            for port in [node.client, node.peer, node.http] {
                opened += silence::connections(attacker(66), port, 500, 64)
                    .await
                    .len();
            }
        }
    }
    Ok(format!("{opened} connections that said nothing"))
}

async fn denied_calls(target: Target, time: Duration) -> Result<String> {
    let begun = Instant::now();
    let mut calls = 0;
    while begun.elapsed() < time {
        for node in &target.nodes {
            let caller = Caller::new(node.client).bearing(&target.reader);
            calls += denied::mints(&caller, 4 << 10, 500).await.total();
        }
    }
    Ok(format!("{calls} calls turned away"))
}

/// Of callers without a token, or with one that was made up. Each address gets some lines in a
/// minute: together these write more than the node allows, and so fill more than one file.
async fn denied_strangers(target: Target, time: Duration) -> Result<String> {
    const ADDRESSES: u8 = 20;
    const CALLS: u64 = 16;
    let from: Vec<IpAddr> = (0..ADDRESSES)
        .map(|address| attacker(100 + address).ip())
        .collect();
    let begun = Instant::now();
    let mut all = Ends::default();
    while begun.elapsed() < time {
        let nodes = target.nodes.iter();
        let rounds = nodes.map(|node| denied::strangers(&from, node.client, CALLS));
        for ends in try_join_all(rounds).await? {
            all.add(&ends);
        }
    }
    ensure!(
        all.done == 0,
        "{} calls without a known token were carried out",
        all.done
    );
    let refused = all.refused.iter();
    let refused: Vec<_> = refused
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    let refused = refused.join(", ");
    Ok(format!("from {ADDRESSES} addresses: {refused}"))
}

async fn open_sessions(target: Target, time: Duration) -> Result<String> {
    let begun = Instant::now();
    let (mut calls, mut opened) = (0, 0);
    while begun.elapsed() < time {
        for node in &target.nodes {
            let caller = Caller::new(node.client).bearing(&target.writer);
            let ends = replay::open_sessions(&caller, 2_000).await;
            (calls, opened) = (calls + ends.total(), opened + ends.done);
        }
    }
    Ok(format!("{opened} sessions opened of {calls}"))
}

/// Under request ids that are as far ahead of the clock as any may be, nearly.
async fn deletes_of_nothing(target: Target, time: Duration) -> Result<String> {
    let begun = Instant::now();
    let (mut calls, mut done) = (0, 0);
    while begun.elapsed() < time {
        for node in &target.nodes {
            let caller = Caller::new(node.client).bearing(&target.writer);
            let sent_ms = replay::now_ms() + 58_000;
            let ends = replay::deletes_of_nothing(&caller, sent_ms, 2_000).await;
            (calls, done) = (calls + ends.total(), done + ends.done);
        }
    }
    Ok(format!("{done} deletes carried out of {calls}"))
}
