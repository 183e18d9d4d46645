//! The cluster under attack: tokens, two tenants, a memory limit on each node.

use std::{io, time::Duration};

use anyhow::{Context as _, Result, anyhow, ensure};
use helve_proto::{
    Reason,
    v1::{CreateTokenRequest, SetTenantRequest, TokenGrant, TokenRole},
};
use helve_tests::{
    attack::{limit::MemoryLimit, memory, messages::long_owner, silence::client_hello},
    caller::{Caller, reason},
    cluster::{Cluster, Equipment, Setup},
    process::binary,
    token::{Token, grant},
    wait::{Look, until},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{
    attacks::{Attack, Ports, Target},
    burner::{self, Threads},
    history::History,
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
    history: History,
    /// Attackers run on threads of the lowest priority: they represent other machines.
    attackers: Option<Runtime>,
    threads: Threads,
    _secrets: TempDir,
}

impl House {
    pub(crate) async fn start(ports: Ports) -> Result<Self> {
        let secrets = tempfile::tempdir()?;
        // Where a start fails, the nodes end before their limits are taken away.
        let (mut limits, mut logs) = (Vec::new(), Vec::new());
        let mut cluster = setup(ports, &secrets)?.prepare().await?;
        for seat in cluster.seats() {
            let log = secrets.path().join(format!("audit-{seat}"));
            let node = cluster.node_mut(seat);
            node.set("HELVE_AUDIT_LOG", &log.display().to_string());
            logs.push(log);
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
        let honest = token(&cluster, role(HONEST, TokenRole::Writer)).await?;
        let target = target(&cluster, ports).await?;
        let operators: Vec<_> = cluster.seats().iter().map(|s| cluster.caller(*s)).collect();
        let history = History::begin(logs, &callers(&cluster, &honest), &operators).await?;
        let threads = Threads::default();
        let attackers = attackers(threads.clone())?;
        Ok(Self {
            cluster,
            limits,
            target,
            honest,
            history,
            attackers: Some(attackers),
            threads,
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
        let honest = Honest::new(callers(&self.cluster, &self.honest));
        // An operator is there in both measures, and takes the same of the processors.
        let (alone, before) = tokio::join!(
            measure::calls(&honest, time),
            measure::operator(&self.cluster, HOSTILE, time)
        );
        before.map_err(|error| anyhow!("before any attack: {error}"))?;
        let attackers = self.attackers.as_ref().context("it runs until the end")?;
        let began = self.threads.time()?;
        let under_way: Vec<_> = attacks
            .iter()
            .map(|attack| attackers.spawn((attack.run)(self.target.clone(), time)))
            .collect();
        let (beside, operator) = tokio::join!(
            measure::calls(&honest, time),
            measure::operator(&self.cluster, HOSTILE, time)
        );
        let taken = self.threads.time()?.saturating_sub(began);
        let mut heard = Vec::new();
        for attack in under_way {
            heard.push(attack.await??);
        }
        let mut peak_bytes = 0;
        for pid in &pids {
            peak_bytes = peak_bytes.max(memory::peak_bytes(*pid).unwrap_or(u64::MAX));
        }
        let processors = taken.as_secs_f64() / time.as_secs_f64();
        let (burnt, reference, _) = tokio::join!(
            burner::burn(attackers.handle(), processors, time),
            measure::calls(&honest, time),
            measure::operator(&self.cluster, HOSTILE, time)
        );
        burnt?;
        let died = self.died()?;
        Ok(Row {
            attacks: attacks.iter().map(|attack| attack.name).collect(),
            rows: attacks.iter().map(|attack| attack.row).collect(),
            heard: heard.join("; "),
            peak_bytes,
            alone,
            processors,
            reference,
            beside,
            operator,
            history: self.history.is_kept(),
            died,
        })
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

/// A runtime for attackers, whose threads have the lowest priority.
fn attackers(threads: Threads) -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .on_thread_start(move || {
            threads.begin();
            // It counts for this thread alone on Linux.
            if let Err(error) = rustix::process::nice(19) {
                eprintln!("attackers run at normal priority: {error}");
            }
        })
        .build()
}

/// A caller of the honest tenant for each node.
fn callers(cluster: &Cluster, honest: &Token) -> Vec<Caller> {
    let seats = cluster.seats().into_iter();
    seats
        .map(|seat| cluster.caller(seat).bearing(&honest.bearer))
        .collect()
}

/// What kind of nodes they are.
fn setup(ports: Ports, secrets: &TempDir) -> Result<Setup> {
    let operator = Token::new()?;
    let file = secrets.path().join("operator");
    operator.write(&file)?;
    let binary = binary(env!("CARGO_BIN_EXE_helve-under-test"));
    let setup = Setup::new(binary, 3)
        .with("HELVE_AUTH", "tokens")
        .with("HELVE_OPERATOR_TOKEN_FILE", &file.display().to_string())
        // Small files, which a flood of lines would have put aside and removed soon.
        .with("HELVE_AUDIT_SIZE", "1MiB")
        .with("HELVE_AUDIT_KEEP", "1")
        .with("HELVE_AUDIT_DENIED_SIZE", "1MiB")
        .with("HELVE_AUDIT_DENIED_KEEP", "1")
        .bearing(operator.bearer);
    Ok(match ports {
        Ports::Plain => setup,
        Ports::Secured => setup.on(Equipment::Certificates),
    })
}

/// Where attacks on the cluster go, with new tokens for attackers.
async fn target(cluster: &Cluster, ports: Ports) -> Result<Target> {
    let reader = token(cluster, role(HOSTILE, TokenRole::Reader)).await?;
    let writer = token(cluster, role(HOSTILE, TokenRole::Writer)).await?;
    let of_default = token(cluster, role("default", TokenRole::Writer)).await?;
    let hello = match ports {
        Ports::Plain => None,
        Ports::Secured => Some(client_hello(&cluster.certificates()?.trusted()).await?),
    };
    let seats = cluster.seats();
    Ok(Target {
        nodes: seats.iter().map(|s| cluster.listeners(*s)).collect(),
        reader: reader.bearer,
        reader_text: reader.text,
        confined: confined(cluster).await?.bearer,
        writer: writer.bearer,
        of_default: (of_default.bearer, of_default.text),
        hello,
    })
}

/// The grant of a role in all of a tenant, under the role's name.
fn role(tenant: &str, role: TokenRole) -> TokenGrant {
    grant(tenant, role, role.as_str_name())
}

/// A token of the hostile tenant that reads one store alone: keys are denied to it.
async fn confined(cluster: &Cluster) -> Result<Token> {
    let grant = TokenGrant {
        stores: vec!["carts".to_owned()],
        ..grant(HOSTILE, TokenRole::Reader, "confined")
    };
    let token = token(cluster, grant).await?;
    let caller = cluster.caller(1).bearing(&token.bearer);
    let answer = until(
        "a key outside of the scope to be answered",
        async || match caller.batch_retrieve(long_owner(1, 1)).await {
            Err(status) if reason(&status) != Some(Reason::Denied) => {
                Look::NotYet(status.to_string())
            }
            answer => Look::Done(answer),
        },
    );
    ensure!(
        answer.await?.is_err(),
        "a key was read outside of the scope"
    );
    Ok(token)
}

/// A token with this grant, which all nodes let in.
async fn token(cluster: &Cluster, grant: TokenGrant) -> Result<Token> {
    let made = SetTenantRequest {
        tenant: grant.tenant.clone(),
        ..SetTenantRequest::default()
    };
    until("the tenant to be made", async || {
        Look::of(cluster.caller(1).set_tenant(made.clone()).await)
    })
    .await?;
    let token = Token::new()?;
    let request = CreateTokenRequest {
        token_hash: token.hash(),
        grant: Some(grant),
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
