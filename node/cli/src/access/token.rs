//! `helve token`.

mod create;
pub(crate) mod secret;

use anyhow::anyhow;
use data_encoding::HEXLOWER;
use helve_command::{
    cluster::{ClusterArgs, check_one_cluster, request},
    ending::{Ending, Outcome},
    output::{OutputArgs, table, time},
};
use helve_proto::v1::{ListTokensRequest, RevokeTokenRequest, TokenInfo};
use serde::Serialize;
use zeroize::Zeroizing;

use self::{create::CreateArgs, secret::SecretArgs};
use super::{ask, change, tenant};

/// Characters of an id that tell tokens apart.
const ID_CHARS_MIN: usize = 8;

/// Tenants that are named where a list is empty.
const TENANTS_NAMED_MAX: usize = 10;

/// Make, list and revoke the tokens of callers
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    Secret(SecretArgs),
    Create(CreateArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// List the tokens of a tenant, or the operators'
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve token list --tenant acme --token-file operator-token
  helve token list --token-file admin-token --output json

Exit status: 0 done, 1 there is no such tenant, 2 refused; others as `helve --help` lists them.")]
pub(crate) struct ListArgs {
    /// Tenant of the tokens; by default the caller's tenant, or for an operator the operators
    #[arg(long, env = "HELVE_TENANT", value_name = "TENANT")]
    tenant: Option<String>,

    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Revoke a token for good: on every node as soon as the node has applied the revocation
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve token revoke 3f29c01bd2a44e07 --tenant acme --token-file operator-token

Exit status: 0 done, 1 no such token exists, or it was revoked or has expired, 2 refused; others as `helve --help` lists them.")]
pub(crate) struct RevokeArgs {
    /// Id of the token, or the beginning of it, as `helve token list` shows it
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    list: ListArgs,
}

#[derive(Serialize)]
struct Token {
    /// SHA-256 of its text, or of a certificate's principal, in hexadecimal.
    id: String,
    tenant: String,
    role: String,
    name: String,
    stores: Vec<String>,
    key_prefixes: Vec<String>,
    created_at_ms: u64,
    expires_at_ms: Option<u64>,
    revoked_at_ms: Option<u64>,
    /// Only where it was made just now.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<Zeroizing<String>>,
}

impl From<TokenInfo> for Token {
    fn from(info: TokenInfo) -> Self {
        let grant = info.grant.unwrap_or_default();
        let role = grant.role().as_str_name().trim_start_matches("TOKEN_ROLE_");
        Self {
            id: HEXLOWER.encode(&info.token_hash),
            role: role.to_lowercase(),
            tenant: grant.tenant,
            name: grant.principal,
            stores: grant.stores,
            key_prefixes: grant.key_prefixes,
            created_at_ms: info.created_at_ms,
            expires_at_ms: info.expires_at_ms,
            revoked_at_ms: info.revoked_at_ms,
            token: None,
        }
    }
}

#[derive(Serialize)]
struct Tokens {
    tokens: Vec<Token>,
    /// Why the list is empty, and where tokens may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::Secret(args) => secret::run(args),
        Command::Create(args) => create::run(args).await,
        Command::List(args) => {
            let tokens: Vec<_> = list(args).await?.into_iter().map(Token::from).collect();
            let note = match tokens.is_empty() {
                true => Some(why_empty(args).await?),
                false => None,
            };
            args.output.print(&Tokens { tokens, note }, text)
        }
        Command::Revoke(args) => revoke(args).await,
    }
}

async fn list(args: &ListArgs) -> Result<Vec<TokenInfo>, Ending> {
    let message = ListTokensRequest {
        tenant: args.tenant.clone().unwrap_or_default(),
    };
    let listed = ask(&args.cluster, async |mut client, _| {
        let request = request(message.clone(), args.cluster.timeout);
        client.list_tokens(request).await
    });
    Ok(listed.await?.tokens)
}

/// Why a list has no tokens. Only an operator's list without --tenant can be empty: an admin is in its own.
///
/// # Errors
/// [`Ending::Absent`] if there is no such tenant; else see [`Ending`].
async fn why_empty(args: &ListArgs) -> Result<String, Ending> {
    let tenant = args.tenant.as_deref().unwrap_or_default();
    let tenants = tenant::list(&args.cluster, tenant.to_owned()).await?;
    if !tenant.is_empty() {
        let make = format!("helve token create --tenant {tenant} --role writer --name NAME");
        if tenants.is_empty() {
            let message =
                anyhow!("no tenant `{tenant}` exists: make it with `helve tenant create {tenant}`");
            return Err(Ending::Absent(message));
        }
        return Ok(format!(
            "tenant `{tenant}` has no tokens: make one with `{make}`"
        ));
    }
    let names: Vec<&str> = tenants
        .iter()
        .map(tenant::Tenant::name)
        .take(TENANTS_NAMED_MAX)
        .collect();
    let more = if tenants.len() > names.len() {
        ", ..."
    } else {
        ""
    };
    let tenants = match names[..] {
        [] => "none exists yet".to_owned(),
        _ => format!("{}{more}", names.join(", ")),
    };
    Ok(format!(
        "without --tenant this lists the operators' tokens, and none was made with `helve token create --role operator`; the token of \
         --operator-token-file is in no list. For the tokens of a tenant: `helve token list --tenant TENANT` (tenants: {tenants})"
    ))
}

async fn revoke(args: &RevokeArgs) -> Outcome {
    if args.id.len() < ID_CHARS_MIN {
        let message = anyhow!("`{}`: give {ID_CHARS_MIN} characters of the id", args.id);
        return Err(Ending::Refused(message));
    }
    check_one_cluster(&args.list.cluster).await?;
    let tokens = list(&args.list).await?;
    let is_meant = |token: &&TokenInfo| HEXLOWER.encode(&token.token_hash).starts_with(&args.id);
    let mut meant = tokens.iter().filter(is_meant);
    let (Some(token), None) = (meant.next(), meant.next()) else {
        let message = anyhow!(
            "no token, or more than one, has the id `{}`: see `helve token list`",
            args.id
        );
        return Err(Ending::Absent(message));
    };
    let grant = token.grant.clone().unwrap_or_default();
    let message = RevokeTokenRequest {
        tenant: grant.tenant,
        token_hash: token.token_hash.clone(),
        ..Default::default()
    };
    let cluster = &args.list.cluster;
    let revoked = change(cluster, async |mut client, identity| {
        let message = RevokeTokenRequest {
            identity,
            ..message.clone()
        };
        let request = request(message, cluster.timeout);
        client.revoke_token(request).await
    });
    if !revoked.await?.existed {
        let message = anyhow!("`{}` was revoked before, or has expired", args.id);
        return Err(Ending::Absent(message));
    }
    let token = Token::from(token.clone());
    args.list
        .output
        .print(&token, |token| format!("revoked {}", token.id))
}

fn text(tokens: &Tokens) -> String {
    let columns = [
        "ID",
        "TENANT",
        "ROLE",
        "NAME",
        "STORES",
        "KEY PREFIXES",
        "STATE",
    ];
    let mut table = table(&columns);
    for token in &tokens.tokens {
        let state = match (token.revoked_at_ms, token.expires_at_ms) {
            (Some(at_ms), _) => format!("revoked {}", time(at_ms)),
            (None, Some(at_ms)) => format!("until {}", time(at_ms)),
            (None, None) => "until revoked".to_owned(),
        };
        table.add_row([
            token.id[..16].to_owned(),
            token.tenant.clone(),
            token.role.clone(),
            token.name.clone(),
            token.stores.join(","),
            token.key_prefixes.join(","),
            state,
        ]);
    }
    let page = table.trim_fmt();
    match &tokens.note {
        None => page,
        Some(note) => format!("{page}\n{note}"),
    }
}
