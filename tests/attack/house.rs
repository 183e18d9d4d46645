//! The cluster under attack: tokens, two tenants, a memory limit on each node.

use std::time::Duration;

use anyhow::{Context as _, Result};
use helve_proto::v1::{CreateTokenRequest, SetTenantRequest, TokenRole};
use helve_tests::{
    attack::{limit::MemoryLimit, memory},
    caller::Caller,
    cluster::{Cluster, Setup},
    process::binary,
    token::{Token, grant},
    wait::{Look, until},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{
    attacks::{Attack, Target},
    measure::{self, Honest},
    table::Row,
};

/// The memory that each node has.
const LIMIT_BYTES: u64 = 1 << 30;

/// The tenant whose callers attack, and the one whose callers must not notice.
const HOSTILE: &str = "hostile";
const HONEST: &str = "honest";

pub(crate) struct House {
    cluster: Cluster,
    limits: Vec<MemoryLimit>,
    target: Target,
    honest: Token,
    /// Attackers run on threads of the lowest priority: they stand for other machines.
    attackers: Option<Runtime>,
    _secrets: TempDir,
}

impl House {
    pub(crate) async fn start() -> Result<Self> {
        let secrets = tempfile::tempdir()?;
        let operator = Token::new()?;
        let file = secrets.path().join("operator");
        operator.write(&file)?;
        let binary = binary(env!("CARGO_BIN_EXE_helve-under-test"));
        let mut cluster = Setup::new(binary, 3)
            .with("HELVE_AUTH", "tokens")
            .with("HELVE_OPERATOR_TOKEN_FILE", &file.display().to_string())
            .bearing(operator.bearer.clone())
            .prepare()
            .await?;
        let mut limits = Vec::new();
        for seat in cluster.seats() {
            let log = secrets.path().join(format!("audit-{seat}"));
            let node = cluster.node_mut(seat);
            node.set("HELVE_AUDIT_LOG", &log.display().to_string());
            cluster.start(seat)?;
            let pid = cluster.node(seat).pid().context("it has just started")?;
            limits.push(MemoryLimit::apply(pid, LIMIT_BYTES)?);
        }
        cluster.all_ready().await?;
        until("the level of tokens", async || {
            match cluster.status(1).await {
                Ok(status) if status.feature_level >= 2 => Look::Done(()),
                answer => Look::NotYet(format!("{answer:?}")),
            }
        })
        .await?;
        let honest = token(&cluster, HONEST, TokenRole::Writer).await?;
        let reader = token(&cluster, HOSTILE, TokenRole::Reader).await?;
        let target = Target {
            nodes: cluster
                .seats()
                .iter()
                .map(|s| cluster.listeners(*s))
                .collect(),
            reader: reader.bearer,
            reader_text: reader.text,
            writer: token(&cluster, HOSTILE, TokenRole::Writer).await?.bearer,
        };
        let attackers = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .on_thread_start(|| {
                // It counts for this thread alone on Linux.
                if let Err(error) = rustix::process::nice(19) {
                    eprintln!("attackers run at normal priority: {error}");
                }
            })
            .build()?;
        Ok(Self {
            cluster,
            limits,
            target,
            honest,
            attackers: Some(attackers),
            _secrets: secrets,
        })
    }

    /// How the nodes' memory is limited.
    pub(crate) fn limited_by(&self) -> &'static str {
        match self.limits.first() {
            Some(MemoryLimit::Group(_)) => "cgroup",
            _ => "private memory",
        }
    }

    /// Lets these attacks go on together for a time, and says what they cost.
    pub(crate) async fn withstand(&mut self, attacks: &[Attack], time: Duration) -> Result<Row> {
        let pids = self.pids()?;
        for pid in &pids {
            memory::forget_peak(*pid)?;
        }
        let honest = Honest::new(self.callers());
        let alone = measure::calls(&honest, time).await;
        let attackers = self.attackers.as_ref().context("it runs until the end")?;
        let under_way: Vec<_> = attacks
            .iter()
            .map(|attack| attackers.spawn((attack.run)(self.target.clone(), time)))
            .collect();
        let beside = measure::calls(&honest, time).await;
        let operator = measure::operator(&self.cluster, HOSTILE).await;
        let mut heard = Vec::new();
        for attack in under_way {
            heard.push(attack.await??);
        }
        let mut peak_bytes = 0;
        for pid in &pids {
            peak_bytes = peak_bytes.max(memory::peak_bytes(*pid).unwrap_or(u64::MAX));
        }
        let died = self.died()?;
        Ok(Row {
            attacks: attacks.iter().map(|attack| attack.name).collect(),
            rows: attacks.iter().map(|attack| attack.row).collect(),
            heard: heard.join("; "),
            peak_bytes,
            alone,
            beside,
            operator,
            died,
        })
    }

    /// A caller of the honest tenant for each node.
    fn callers(&self) -> Vec<Caller> {
        let seats = self.cluster.seats().into_iter();
        seats
            .map(|seat| self.cluster.caller(seat).bearing(&self.honest.bearer))
            .collect()
    }

    fn pids(&self) -> Result<Vec<u32>> {
        let pid = |seat| self.cluster.node(seat).pid().context("a node does not run");
        self.cluster.seats().into_iter().map(pid).collect()
    }

    /// The nodes that have ended.
    fn died(&mut self) -> Result<Vec<u64>> {
        let mut died = Vec::new();
        for seat in self.cluster.seats() {
            if self.cluster.node_mut(seat).ended()?.is_some() {
                died.push(seat);
            }
        }
        Ok(died)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(attackers) = self.attackers.take() {
            attackers.shutdown_background();
        }
        for seat in self.cluster.running() {
            if let Err(error) = self.cluster.kill(seat) {
                eprintln!("node {seat} was not killed: {error}");
            }
        }
    }
}

/// A token for everything of a tenant, which all nodes let in.
async fn token(cluster: &Cluster, tenant: &str, role: TokenRole) -> Result<Token> {
    let made = SetTenantRequest {
        tenant: tenant.to_owned(),
        ..SetTenantRequest::default()
    };
    cluster.caller(1).set_tenant(made).await?;
    let token = Token::new()?;
    let request = CreateTokenRequest {
        token_hash: token.hash(),
        grant: Some(grant(tenant, role, role.as_str_name())),
        ..CreateTokenRequest::default()
    };
    cluster.caller(1).create_token(request).await?;
    for seat in cluster.seats() {
        let caller = cluster.caller(seat).bearing(&token.bearer);
        until("a token to be let in", async || {
            match caller.status().await {
                Ok(_) => Look::Done(()),
                Err(status) => Look::NotYet(status.to_string()),
            }
        })
        .await?;
    }
    Ok(token)
}
