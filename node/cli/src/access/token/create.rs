//! `helve token create`.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, anyhow};
use helve_command::{
    cluster::{ClusterArgs, request},
    duration,
    ending::{Ending, Outcome},
    output::{self, OutputArgs},
};
use helve_node::config::{TokenHash, certificate_principal};
use helve_proto::v1::{CreateTokenReply, CreateTokenRequest, TokenGrant, TokenRole};
use serde::Serialize;
use zeroize::Zeroizing;

use super::{Token, change, secret};

/// Make a token, or grant a role to a client certificate
///
/// The text of the token is made here and shown once; the cluster keeps only a hash. With
/// --certificate there is no text: a caller with a client certificate of that common name, and
/// without a token, is admitted. The role says what the holder may do. A reader reads records of
/// the tenant. A writer also changes them. An admin also manages the tenant's tokens. An operator
/// manages the cluster, its tenants and all tokens, and sees no records.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve token create --tenant acme --role admin --name acme-admin --out admin-token --token-file operator-token
  helve token create --tenant acme --role writer --name shop --store cart --expires-after 24h --token-file admin-token --output json
  helve token create --tenant acme --role writer --name shop --text-file shop.token --token-file operator-token   (may be repeated)
  helve token create --tenant acme --role writer --certificate cart-server --token-file operator-token

Exit status: 0 done, or the same token was registered before; 2 refused; others as `helve --help` lists them.")]
pub(crate) struct CreateArgs {
    /// Role: what the holder may do
    #[arg(long, env = "HELVE_TOKEN_ROLE", value_name = "ROLE")]
    role: Role,

    /// Tenant whose records the holder may use; none for an operator
    #[arg(long, env = "HELVE_TENANT", value_name = "TENANT")]
    tenant: Option<String>,

    /// Name of the caller (its principal): replay sessions are bound to it
    #[arg(
        long,
        required_unless_present = "certificate",
        env = "HELVE_TOKEN_NAME",
        value_name = "NAME"
    )]
    name: Option<String>,

    /// Common name of a client certificate (`helve cert client --name NAME`) that gets the role,
    /// instead of a token; only operators may do this
    #[arg(
        long,
        conflicts_with_all = ["name", "out", "text_file"],
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        env = "HELVE_TOKEN_CERTIFICATE",
        value_name = "NAME"
    )]
    certificate: Option<String>,

    /// Stores that the holder is confined to; without --key-prefix it may then use no key
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_TOKEN_STORES",
        value_name = "STORE,..."
    )]
    store: Vec<String>,

    /// Prefixes of keys that the holder is confined to; without --store it may then use no handle
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_TOKEN_KEY_PREFIXES",
        value_name = "PREFIX,..."
    )]
    key_prefix: Vec<String>,

    /// Time until it expires, such as 24h; by default it is valid until it is revoked
    #[arg(long, value_parser = duration::parse, env = "HELVE_TOKEN_EXPIRES_AFTER", value_name = "DURATION")]
    expires_after: Option<Duration>,

    /// New file for the text, readable by you alone, instead of showing the text
    #[arg(long, env = "HELVE_OUT", value_name = "FILE")]
    out: Option<PathBuf>,

    /// File with a text that `helve init` or `helve token secret` made, to register instead of a
    /// new one. Registering the same token with the same rights again changes nothing
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
    let reply = reply.await.inspect_err(|ending| args.forget_text(ending));
    let mut created = Created::from(reply?);
    if created.token.expires_at_ms.is_some() != args.expires_after.is_some() {
        let message = "--expires-after: the token was registered before, with another end: pass that end, or revoke the token and make another";
        return Err(Ending::Refused(anyhow!(message)));
    }
    created.token.token = shown;
    args.output.print(&created, |created| {
        let (id, kept) = (&created.token.id, created.kept);
        match &created.token.token {
            Some(text) => format!("{}\nid {id}; it is not shown again", **text),
            None if kept => format!("id {id}; it was registered before, and is kept"),
            None => format!("id {id}"),
        }
    })
}

impl CreateArgs {
    /// The hash of what to let in; and a token's text, if it was made here and is in no file.
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
        // Before it is registered: a token without a holder need not be revoked.
        let written = secret::write(out, &text).context("--out");
        written.map_err(Ending::Refused)?;
        Ok((hash, None))
    }

    /// Removes the file of `--out` again after an ending that says that its token was not registered: else the corrected command would be
    /// refused, since the file is there.
    fn forget_text(&self, ending: &Ending) {
        let Some(out) = self.out.as_deref() else {
            return;
        };
        if matches!(ending, Ending::Unknown(_)) {
            return;
        }
        if let Err(error) = fs::remove_file(out) {
            output::say(format_args!(
                "--out: {} holds a token that was not registered, and cannot be removed: {error}",
                out.display()
            ));
        }
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
