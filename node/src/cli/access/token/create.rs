//! `helve token create`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, anyhow};
use helve_proto::v1::{CreateTokenReply, CreateTokenRequest, TokenGrant, TokenRole};
use serde::Serialize;
use zeroize::Zeroizing;

use super::{Token, change, secret};
use crate::{
    cli::{
        cluster::{ClusterArgs, request},
        duration,
        ending::{Ending, Outcome},
        output::OutputArgs,
    },
    config::{TokenHash, certificate_principal},
};

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
  helve token create --tenant acme --role writer --name shop --text-file shop.token --token-file operator-token   (again and again)
  helve token create --tenant acme --role writer --certificate cart-server --token-file operator-token

Exit status: 0 done, or the same token was let in before; 2 refused; others as `helve --help` lists them.")]
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
        conflicts_with_all = ["name", "out", "text_file"],
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

    /// Let in the text in this file, which `helve init` or `helve token secret` made, instead of making one. The same token with the same
    /// rights may be let in again: it stays as it is
    #[arg(
        long,
        conflicts_with = "out",
        env = "HELVE_TOKEN_TEXT_FILE",
        value_name = "FILE"
    )]
    text_file: Option<PathBuf>,

    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
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

/// A token that is let in.
#[derive(Serialize)]
struct Created {
    #[serde(flatten)]
    token: Token,
    /// It was let in before, and stays as it was.
    kept: bool,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(super) async fn run(args: &CreateArgs) -> Outcome {
    if args.tenant.is_none() && args.role != Role::Operator {
        let message = anyhow!("--tenant: name the tenant whose records the token is for");
        return Err(Ending::Refused(message));
    }
    let (hash, shown) = args.text()?;
    let message = args.request(hash);
    let reply = change(&args.cluster, async |mut client, identity| {
        let message = CreateTokenRequest {
            identity,
            ..message.clone()
        };
        let request = request(message, args.cluster.timeout);
        client.create_token(request).await
    });
    let mut created = Created::from(reply.await?);
    if created.token.expires_at_ms.is_some() != args.expires_after.is_some() {
        let message = "--expires-after: the token was let in before, and ends at another time: keep to that, or revoke it and make another";
        return Err(Ending::Refused(anyhow!(message)));
    }
    created.token.token = shown;
    args.output.print(&created, |created| {
        let (id, kept) = (&created.token.id, created.kept);
        match &created.token.token {
            Some(text) => format!("{}\nid {id}; it is not shown again", **text),
            None if kept => format!("id {id}; it was let in before, and is kept"),
            None => format!("id {id}"),
        }
    })
}

impl CreateArgs {
    /// The hash of what to let in; and a token's text, if it was made here and stands in no file.
    fn text(&self) -> Result<(TokenHash, Option<Zeroizing<String>>), Ending> {
        if self.certificate.is_some() {
            return Ok((TokenHash::of(&self.principal()), None));
        }
        if let Some(file) = &self.text_file {
            let hash = TokenHash::from_file("--text-file", file);
            return Ok((hash.map_err(|why| Ending::Refused(why.into()))?, None));
        }
        let text = secret::new().map_err(Ending::Fatal)?;
        let hash = TokenHash::of(&text);
        let Some(out) = &self.out else {
            return Ok((hash, Some(text)));
        };
        // Before it is let in: a token that nobody has need not be revoked.
        let written = secret::write(out, &text).context("--out");
        written.map_err(Ending::Refused)?;
        Ok((hash, None))
    }

    /// Whom it names.
    fn principal(&self) -> String {
        let name = || self.name.clone().unwrap_or_default();
        self.certificate
            .as_deref()
            .map_or_else(name, certificate_principal)
    }

    fn request(&self, hash: TokenHash) -> CreateTokenRequest {
        let expires_after_ms = self
            .expires_after
            .map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        CreateTokenRequest {
            token_hash: hash.bytes().to_vec().into(),
            grant: Some(TokenGrant {
                tenant: self.tenant.clone().unwrap_or_default(),
                role: TokenRole::from(self.role).into(),
                principal: self.principal(),
                stores: self.store.clone(),
                key_prefixes: self.key_prefix.clone(),
            }),
            expires_after_ms,
            ..Default::default()
        }
    }
}

impl From<CreateTokenReply> for Created {
    fn from(reply: CreateTokenReply) -> Self {
        let token = Token::from(reply.token.unwrap_or_default());
        // Who lets a token in makes it at that very time of the cluster's clock.
        let clock_ms = reply.header.unwrap_or_default().clock_ms;
        Self {
            kept: token.created_at_ms < clock_ms,
            token,
        }
    }
}
