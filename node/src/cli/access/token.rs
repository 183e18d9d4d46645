//! `helve token`.

use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use data_encoding::HEXLOWER;
use helve_proto::v1::{
    CreateTokenRequest, ListTokensRequest, RevokeTokenRequest, TokenGrant, TokenInfo, TokenRole,
};
use serde::Serialize;
use zeroize::Zeroizing;

use super::{
    super::{
        cluster::{ClusterArgs, request},
        duration,
        ending::{Ending, Outcome},
        output::{OutputArgs, table},
    },
    ask,
};
use crate::{
    config::{TokenHash, certificate_principal, token_text},
    stamp,
};

/// Characters of an id that tell tokens apart.
const ID_CHARS_MIN: usize = 8;

/// Make, list and revoke the tokens that callers show
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    Secret(SecretArgs),
    Create(CreateArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Make a token's text alone, for the first operator: name its file to every node as --operator-token-file
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve token secret --out operator-token
  helve serve --auth tokens --operator-token-file operator-token ...

Exit status: 0 done, 2 the file is there already, or cannot be written.")]
pub(crate) struct SecretArgs {
    /// The file to write, which nobody else can read
    #[arg(long, env = "HELVE_OUT", value_name = "FILE")]
    out: PathBuf,
}

/// Make a token, or grant a role to a client certificate
///
/// Its text is made here and shown once; the cluster keeps a hash alone. With --certificate there is no text: whoever shows a client
/// certificate of that common name, and sends no token, is let in. Whoever holds it may do what its role may: a reader reads
/// records of the tenant, a writer changes them too, an admin manages the tenant's tokens too; an operator manages the cluster, its
/// tenants and all tokens, and sees no records.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve token create --tenant acme --role admin --name acme-admin --out admin-token --token-file operator-token
  helve token create --tenant acme --role writer --name shop --store cart --expires-after 24h --token-file admin-token --output json
  helve token create --tenant acme --role writer --certificate cart-server --token-file operator-token

Exit status: 0 done, 2 refused, 3 the cluster cannot answer.")]
pub(crate) struct CreateArgs {
    /// What its holder may do
    #[arg(long, env = "HELVE_TOKEN_ROLE", value_name = "ROLE")]
    role: Role,

    /// Whose records; none for an operator
    #[arg(long, env = "HELVE_TENANT", value_name = "TENANT")]
    tenant: Option<String>,

    /// The caller that it names: replay sessions are bound to it
    #[arg(
        long,
        required_unless_present = "certificate",
        env = "HELVE_TOKEN_NAME",
        value_name = "NAME"
    )]
    name: Option<String>,

    /// Grant it to whoever shows a client certificate with this common name (`helve cert client --name NAME`), instead of making a
    /// token; an operator's alone to do
    #[arg(
        long,
        conflicts_with_all = ["name", "out"],
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        env = "HELVE_TOKEN_CERTIFICATE",
        value_name = "NAME"
    )]
    certificate: Option<String>,

    /// Confine it to these stores; without --key-prefix, it is then for no key
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_TOKEN_STORES",
        value_name = "STORE,..."
    )]
    store: Vec<String>,

    /// Confine it to keys that begin so; without --store, it is then for no handle
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_TOKEN_KEY_PREFIXES",
        value_name = "PREFIX,..."
    )]
    key_prefix: Vec<String>,

    /// How long it is let in, such as 24h; by default until it is revoked
    #[arg(long, value_parser = duration::parse, env = "HELVE_TOKEN_EXPIRES_AFTER", value_name = "DURATION")]
    expires_after: Option<Duration>,

    /// Write its text to this new file, which nobody else can read, instead of showing it
    #[arg(long, env = "HELVE_OUT", value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// List the tokens of a tenant, or the operators'
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve token list --tenant acme --token-file operator-token
  helve token list --token-file admin-token --output json

Exit status: 0 done, 2 refused, 3 the cluster cannot answer.")]
pub(crate) struct ListArgs {
    /// Whose tokens; by default the own tenant's, or for an operator the operators'
    #[arg(long, env = "HELVE_TENANT", value_name = "TENANT")]
    tenant: Option<String>,

    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Shut a token out, for good: on every node as soon as that has applied it
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve token revoke 3f29c01bd2a44e07 --tenant acme --token-file operator-token

Exit status: 0 done, 1 there is no such token, or it was revoked or has expired, 2 refused, 3 the cluster cannot answer.")]
pub(crate) struct RevokeArgs {
    /// The token's id, or its beginning, as `helve token list` shows it
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    list: ListArgs,
}

/// A role on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    Reader,
    Writer,
    Admin,
    Operator,
}

impl From<Role> for TokenRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Reader => Self::Reader,
            Role::Writer => Self::Writer,
            Role::Admin => Self::Admin,
            Role::Operator => Self::Operator,
        }
    }
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
}

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::Secret(args) => write(&args.out, &secret()?),
        Command::Create(args) => create(args).await,
        Command::List(args) => {
            let tokens = list(args).await?.into_iter().map(Token::from).collect();
            args.output.print(&Tokens { tokens }, text)
        }
        Command::Revoke(args) => revoke(args).await,
    }
}

async fn create(args: &CreateArgs) -> Outcome {
    if args.tenant.is_none() && args.role != Role::Operator {
        let message = anyhow!("--tenant: name the tenant whose records the token is for");
        return Err(Ending::Refused(message));
    }
    let (principal, text) = match &args.certificate {
        Some(name) => (certificate_principal(name), None),
        None => (args.name.clone().unwrap_or_default(), Some(secret()?)),
    };
    // Before it is let in: a token that nobody has need not be revoked.
    if let (Some(out), Some(text)) = (&args.out, &text) {
        write(out, text)?;
    }
    let hashed = text.as_ref().map_or(&principal, |text| &**text);
    let message = CreateTokenRequest {
        token_hash: TokenHash::of(hashed).bytes().to_vec().into(),
        grant: Some(TokenGrant {
            tenant: args.tenant.clone().unwrap_or_default(),
            role: TokenRole::from(args.role).into(),
            principal,
            stores: args.store.clone(),
            key_prefixes: args.key_prefix.clone(),
        }),
        expires_after_ms: args
            .expires_after
            .map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
    };
    let created = ask(&args.cluster, async |mut client| {
        let request = request(message.clone(), args.cluster.timeout);
        client.create_token(request).await
    });
    let mut token = Token::from(created.await?.token.unwrap_or_default());
    token.token = text.filter(|_| args.out.is_none());
    args.output.print(&token, |token| match &token.token {
        Some(text) => format!("{}\nid {}; it is not shown again", **text, token.id),
        None => format!("id {}", token.id),
    })
}

async fn list(args: &ListArgs) -> Result<Vec<TokenInfo>, Ending> {
    let message = ListTokensRequest {
        tenant: args.tenant.clone().unwrap_or_default(),
    };
    let listed = ask(&args.cluster, async |mut client| {
        let request = request(message.clone(), args.cluster.timeout);
        client.list_tokens(request).await
    });
    Ok(listed.await?.tokens)
}

async fn revoke(args: &RevokeArgs) -> Outcome {
    if args.id.len() < ID_CHARS_MIN {
        let message = anyhow!("`{}`: give {ID_CHARS_MIN} characters of the id", args.id);
        return Err(Ending::Refused(message));
    }
    let tokens = list(&args.list).await?;
    let is_meant = |token: &&TokenInfo| HEXLOWER.encode(&token.token_hash).starts_with(&args.id);
    let mut meant = tokens.iter().filter(is_meant);
    let (Some(token), None) = (meant.next(), meant.next()) else {
        let message = anyhow!(
            "`{}` is the id of no token, or of several: see `helve token list`",
            args.id
        );
        return Err(Ending::Absent(message));
    };
    let grant = token.grant.clone().unwrap_or_default();
    let message = RevokeTokenRequest {
        tenant: grant.tenant,
        token_hash: token.token_hash.clone(),
    };
    let cluster = &args.list.cluster;
    let revoked = ask(cluster, async |mut client| {
        let request = request(message.clone(), cluster.timeout);
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

fn secret() -> Result<Zeroizing<String>, Ending> {
    let bytes = stamp::secret_bytes().map_err(|error| Ending::Fatal(error.into()))?;
    Ok(token_text(&bytes))
}

/// Writes a token to a new file, which nobody else can read.
fn write(out: &Path, token: &str) -> Outcome {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(out);
    let written = file.and_then(|mut file| {
        file.write_all(token.as_bytes())?;
        file.write_all(b"\n")
    });
    written
        .with_context(|| format!("--out {}", out.display()))
        .map_err(Ending::Refused)
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
            (Some(at_ms), _) => format!("revoked at {at_ms}"),
            (None, Some(at_ms)) => format!("until {at_ms}"),
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
    table.trim_fmt()
}
