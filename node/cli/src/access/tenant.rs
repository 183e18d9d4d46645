//! `helve tenant`.

use anyhow::anyhow;
use helve_command::{
    cluster::{ClusterArgs, request},
    ending::{Ending, Outcome},
    output::{OutputArgs, bytes, count, table},
};
use helve_proto::v1::{ListTenantsRequest, Quotas, SetTenantRequest, TenantInfo};
use serde::Serialize;

use super::{ask, change};
use crate::size;

/// Make tenants, set their quotas, and see what they use
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a tenant
    #[command(after_long_help = "Examples:
  helve tenant create acme --rows 100000 --bytes 1GiB --writes-per-second 500 --token-file operator-token

Exit status: 0 done, 2 refused; others as `helve --help` lists them.")]
    Create(SetArgs),
    /// Set all quotas of a tenant; a quota that is not named is removed
    #[command(after_long_help = "Examples:
  helve tenant set acme --rows 200000 --token-file operator-token

Exit status: 0 done, 2 refused; others as `helve --help` lists them.")]
    Set(SetArgs),
    /// List all tenants
    #[command(after_long_help = "Examples:
  helve tenant list --token-file operator-token --output json

Exit status: 0 done, 2 refused; others as `helve --help` lists them.")]
    List(ListArgs),
    /// Show one tenant
    #[command(after_long_help = "Examples:
  helve tenant status acme --token-file admin-token

Exit status: 0 done, 1 there is no such tenant, 2 refused; others as `helve --help` lists them.")]
    Status(StatusArgs),
}

/// Flags of the commands that set quotas.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SetArgs {
    /// Name of the tenant: a-z, 0-9, _ and -
    #[arg(value_name = "TENANT")]
    tenant: String,

    /// Number of records that the tenant may have; 0: no limit
    #[arg(long, default_value_t = 0, env = "HELVE_QUOTA_ROWS", value_name = "N")]
    rows: u64,

    /// Bytes that the tenant may have, such as 1GiB; 0: no limit
    #[arg(long, default_value = "0", value_parser = size::parse, env = "HELVE_QUOTA_BYTES", value_name = "SIZE")]
    bytes: u64,

    /// Writes a second that the tenant may make; 0: no limit
    #[arg(
        long,
        default_value_t = 0,
        env = "HELVE_QUOTA_WRITES",
        value_name = "N"
    )]
    writes_per_second: u64,

    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Flags of a list.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Flags of one tenant's status.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StatusArgs {
    /// Name of the tenant
    #[arg(value_name = "TENANT")]
    tenant: String,

    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
pub(super) struct Tenant {
    tenant: String,
    created_at_ms: u64,
    /// What is in use; absent where it was only set.
    rows: Option<u64>,
    bytes: Option<u64>,
    /// What it may use; 0: no bound.
    rows_max: u64,
    bytes_max: u64,
    writes_per_second_max: u64,
}

impl Tenant {
    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.tenant
    }
}

impl From<TenantInfo> for Tenant {
    fn from(info: TenantInfo) -> Self {
        let quotas = info.quotas.unwrap_or_default();
        Self {
            tenant: info.tenant,
            created_at_ms: info.created_at_ms,
            rows: info.usage.map(|used| used.rows),
            bytes: info.usage.map(|used| used.bytes),
            rows_max: quotas.rows,
            bytes_max: quotas.bytes,
            writes_per_second_max: quotas.writes_per_second,
        }
    }
}

#[derive(Serialize)]
struct Tenants {
    tenants: Vec<Tenant>,
}

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::Create(args) | Command::Set(args) => set(args).await,
        Command::List(args) => {
            let tenants = list(&args.cluster, String::new()).await?;
            args.output.print(&Tenants { tenants }, text)
        }
        Command::Status(args) => {
            let tenants = list(&args.cluster, args.tenant.clone()).await?;
            if tenants.is_empty() {
                let message = anyhow!("no tenant `{}` exists", args.tenant);
                return Err(Ending::Absent(message));
            }
            args.output.print(&Tenants { tenants }, text)
        }
    }
}

async fn set(args: &SetArgs) -> Outcome {
    let message = SetTenantRequest {
        tenant: args.tenant.clone(),
        quotas: Some(Quotas {
            rows: args.rows,
            bytes: args.bytes,
            writes_per_second: args.writes_per_second,
        }),
        ..Default::default()
    };
    let set = change(&args.cluster, async |mut client, identity| {
        let message = SetTenantRequest {
            identity,
            ..message.clone()
        };
        let request = request(message, args.cluster.timeout);
        client.set_tenant(request).await
    });
    let tenants = set.await?.tenant.into_iter().map(Tenant::from).collect();
    args.output.print(&Tenants { tenants }, text)
}

/// The tenants, or the one of this name.
///
/// # Errors
/// See [`Ending`].
pub(super) async fn list(cluster: &ClusterArgs, tenant: String) -> Result<Vec<Tenant>, Ending> {
    let message = ListTenantsRequest { tenant };
    let listed = ask(cluster, async |mut client, _| {
        let request = request(message.clone(), cluster.timeout);
        client.list_tenants(request).await
    });
    Ok(listed
        .await?
        .tenants
        .into_iter()
        .map(Tenant::from)
        .collect())
}

fn text(tenants: &Tenants) -> String {
    let mut table = table(&["TENANT", "ROWS", "OF", "BYTES", "OF", "WRITES/S"]);
    let used = |used: Option<u64>, show: fn(u64) -> String| used.map_or("-".into(), show);
    let bound = |max: u64, show: fn(u64) -> String| if max == 0 { "-".into() } else { show(max) };
    for tenant in &tenants.tenants {
        table.add_row([
            tenant.tenant.clone(),
            used(tenant.rows, count),
            bound(tenant.rows_max, count),
            used(tenant.bytes, bytes),
            bound(tenant.bytes_max, bytes),
            bound(tenant.writes_per_second_max, count),
        ]);
    }
    table.trim_fmt()
}
