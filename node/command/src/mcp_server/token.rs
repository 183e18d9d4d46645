//! The flags of everything that checks who calls by bearer token.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, anyhow, bail};
use helve_mcp::bearer::{
    Guard, JwksUrl, KeySource, KeysRead, Owners, Resource, Scopes, Trusted, Verifier,
};
use helve_proto::shown_url;
use tokio::runtime::Handle;

use crate::{listed, signals::Signals};

/// What says for `--token-plain-issuer` that all owners name their issuer.
const NO_PLAIN_ISSUER: &str = "none";

/// Which tokens are accepted. Without keys there is no authentication.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Tokens")]
pub struct TokenArgs {
    /// File with keys that check bearer tokens (JWT), which callers must then have: a JWK set or
    /// public keys in PEM; read again when it changes. With several issuers: ISSUER=FILE. May be
    /// repeated
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_TOKEN_KEY_FILE",
        value_name = "[ISSUER=]FILE"
    )]
    token_key_file: Vec<PathBuf>,

    /// File with a shared secret for HS256 that checks bearer tokens: one line of 32 to 255 digits
    /// of base64, base64url or hexadecimal, such as `openssl rand -base64 32` writes, or 32, 48 or 64
    /// random bytes; other users must not be able to read it. A secret with other characters must be
    /// an `oct` entry of a JWK set in --token-key-file
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_TOKEN_SECRET_FILE",
        value_name = "[ISSUER=]FILE"
    )]
    token_secret_file: Vec<PathBuf>,

    /// The https URL of an issuer's JWK set that checks bearer tokens, fetched at the start and
    /// again every 1 to 15 minutes
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = listed::url,
        env = "HELVE_TOKEN_JWKS_URL",
        value_name = "[ISSUER=]URL"
    )]
    token_jwks_url: Vec<String>,

    /// Audience that tokens must have in `aud`: this server's URL, or its name at the authorization
    /// server
    #[arg(long, env = "HELVE_TOKEN_AUDIENCE", value_name = "URL")]
    token_audience: Option<String>,

    /// URL at which clients reach this server, if that is not the audience; callers without a token
    /// are told it
    #[arg(
        long,
        requires = "token_audience",
        env = "HELVE_TOKEN_RESOURCE",
        value_name = "URL"
    )]
    token_resource: Option<String>,

    /// Issuer of tokens, exactly as in their `iss`; may be repeated, and is required where more
    /// than one could sign
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_TOKEN_ISSUER",
        value_name = "URL"
    )]
    token_issuer: Vec<String>,

    /// With several issuers: the one whose subjects own their records under their plain names, as
    /// with a single issuer, or `none`. Subjects of the others own them as `iss:ISSUER SUBJECT`
    #[arg(long, env = "HELVE_TOKEN_PLAIN_ISSUER", value_name = "URL")]
    token_plain_issuer: Option<String>,

    /// URL of the authorization server that issues tokens; callers without a token are told it; may
    /// be repeated
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = listed::url,
        env = "HELVE_AUTHORIZATION_SERVER",
        value_name = "URL"
    )]
    authorization_server: Vec<String>,

    /// Scope that a token must have to call at all; without it any valid token may read
    #[arg(long, env = "HELVE_READ_SCOPE", value_name = "SCOPE")]
    read_scope: Option<String>,

    /// Scope that a token must have to change anything; without it --read-scope is enough
    #[arg(long, env = "HELVE_WRITE_SCOPE", value_name = "SCOPE")]
    write_scope: Option<String>,
}

impl TokenArgs {
    /// The guard to put before a server; none, if callers need not authenticate.
    ///
    /// # Errors
    /// If there is no key that can be used, it would not be certain whose a token is, or a scope is
    /// none: do not start.
    pub async fn guard(
        &self,
        reading_tools: &'static [&'static str],
    ) -> anyhow::Result<Option<Guard>> {
        self.check_values()?;
        let sources = self.sources()?;
        if sources.is_empty() {
            self.check_absent()?;
            return Ok(None);
        }
        let Some(audience) = &self.token_audience else {
            bail!("--token-audience: name the audience of tokens, such as this server's URL");
        };
        let trusted = self.trusted(sources)?;
        let verifier = Verifier::open(trusted, audience).await.with_context(|| {
            let flags = [
                (self.token_key_file.is_empty(), "--token-key-file"),
                (self.token_secret_file.is_empty(), "--token-secret-file"),
                (self.token_jwks_url.is_empty(), "--token-jwks-url"),
            ];
            let given = flags.iter().filter(|(is_absent, _)| !is_absent);
            given.map(|(_, flag)| *flag).collect::<Vec<_>>().join(", ")
        })?;
        if self.token_issuer.is_empty() {
            tracing::warn!(
                "no --token-issuer: tokens of any issuer are valid if a key of the file signed them"
            );
        }
        let guard = Guard::new(verifier, self.authorization_server.clone());
        let guard = match self.resource(audience)? {
            Some(resource) => guard.resource(resource),
            None => guard,
        };
        let (read, write) = (self.read_scope.clone(), self.write_scope.clone());
        if read.is_none() && write.is_none() {
            return Ok(Some(guard));
        }
        let scopes =
            Scopes::new(read, write, reading_tools).context("--read-scope and --write-scope")?;
        Ok(Some(guard.scopes(scopes)))
    }

    /// Where clients find this server, and what its metadata says; none if no authorization server is told.
    ///
    /// # Errors
    /// If clients would be told what they cannot follow: do not start.
    fn resource(&self, audience: &str) -> anyhow::Result<Option<Resource>> {
        for server in &self.authorization_server {
            Resource::parse(server)
                .with_context(|| format!("--authorization-server {}", shown_url(server)))?;
        }
        match &self.token_resource {
            Some(url) => {
                let resource = Resource::parse(url)
                    .with_context(|| format!("--token-resource {}", shown_url(url)))?;
                Ok(Some(resource))
            }
            None if self.authorization_server.is_empty() => Ok(None),
            None => match Resource::parse(audience) {
                Ok(resource) => Ok(Some(resource)),
                Err(error) => bail!(
                    "--authorization-server, but --token-audience {} is not a URL at which clients reach this server ({error}): \
                     pass that URL with --token-resource",
                    shown_url(audience)
                ),
            },
        }
    }

    /// Values that are empty, as an unset variable of a deployment leaves them, are no settings.
    /// One with a space or a line end, as a file of variables leaves them, matches no token.
    fn check_values(&self) -> anyhow::Result<()> {
        let given = [
            (self.token_audience.as_slice(), "--token-audience"),
            (self.token_resource.as_slice(), "--token-resource"),
            (self.token_issuer.as_slice(), "--token-issuer"),
            (self.token_plain_issuer.as_slice(), "--token-plain-issuer"),
            (
                self.authorization_server.as_slice(),
                "--authorization-server",
            ),
        ];
        for (values, flag) in given {
            for value in values {
                let bare = value.trim();
                if bare.is_empty() {
                    bail!("{flag} is empty: name one, or omit it");
                }
                if bare != value.as_str() || value.contains(char::is_control) {
                    bail!(
                        "{flag} {value:?} has white space around it or a control character, and no \
                         token has: leave it out"
                    );
                }
            }
        }
        Ok(())
    }

    /// Whether nothing else is said about tokens, where there are no keys.
    fn check_absent(&self) -> anyhow::Result<()> {
        let given = [
            (self.token_audience.is_some(), "--token-audience"),
            (self.token_resource.is_some(), "--token-resource"),
            (!self.token_issuer.is_empty(), "--token-issuer"),
            (self.token_plain_issuer.is_some(), "--token-plain-issuer"),
            (
                !self.authorization_server.is_empty(),
                "--authorization-server",
            ),
            (self.read_scope.is_some(), "--read-scope"),
            (self.write_scope.is_some(), "--write-scope"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, flag)) => Err(anyhow!(
                "{flag} without keys: pass keys that check tokens, with --token-key-file, --token-secret-file or --token-jwks-url"
            )),
            None => Ok(()),
        }
    }

    /// All sources, each with the issuer that it was bound to.
    fn sources(&self) -> anyhow::Result<Vec<(Option<&str>, KeySource)>> {
        let mut sources = Vec::new();
        for path in &self.token_key_file {
            let (issuer, path) = self.bound_file(path);
            sources.push((issuer, KeySource::File(path)));
        }
        for path in &self.token_secret_file {
            let (issuer, path) = self.bound_file(path);
            sources.push((issuer, KeySource::SecretFile(path)));
        }
        for url in &self.token_jwks_url {
            let (issuer, url) = self.bound(url);
            let parsed = JwksUrl::parse(url)
                .map_err(|error| anyhow!("--token-jwks-url {:?}: {error}", shown_url(url)))?;
            sources.push((issuer, KeySource::Url(parsed)));
        }
        Ok(sources)
    }

    /// Splits `ISSUER=SOURCE` at an issuer that is trusted, so that a file's name may have a `=`.
    fn bound<'a>(&'a self, value: &'a str) -> (Option<&'a str>, &'a str) {
        let bound = self.token_issuer.iter().find_map(|issuer| {
            let source = value.strip_prefix(&**issuer)?.strip_prefix('=')?;
            Some((Some(&**issuer), source))
        });
        bound.unwrap_or((None, value))
    }

    fn bound_file<'a>(&'a self, path: &'a Path) -> (Option<&'a str>, PathBuf) {
        match path.to_str().map(|text| self.bound(text)) {
            Some((issuer, path)) => (issuer, PathBuf::from(path)),
            None => (None, path.to_owned()),
        }
    }

    /// Who is trusted with which keys.
    fn trusted(&self, sources: Vec<(Option<&str>, KeySource)>) -> anyhow::Result<Vec<Trusted>> {
        let unbound = sources
            .iter()
            .filter(|(issuer, _)| issuer.is_none())
            .count();
        let plain = self.token_plain_issuer.as_deref();
        match &*self.token_issuer {
            [] => {
                self.check_unnamed(&sources)?;
                Ok(vec![Trusted {
                    issuer: None,
                    keys: sources.into_iter().map(|(_, source)| source).collect(),
                    owners: Owners::Plain,
                }])
            }
            [only] => {
                if plain.is_some_and(|plain| plain != only && plain != NO_PLAIN_ISSUER) {
                    bail!("--token-plain-issuer names an issuer that --token-issuer does not");
                }
                Ok(vec![Trusted {
                    issuer: Some(only.clone()),
                    keys: sources.into_iter().map(|(_, source)| source).collect(),
                    owners: match plain {
                        Some(NO_PLAIN_ISSUER) => Owners::Qualified,
                        _ => Owners::Plain,
                    },
                }])
            }
            several => {
                if unbound > 0 {
                    bail!(
                        "several --token-issuer: name the issuer of each key, as --token-key-file ISSUER=FILE, --token-secret-file \
                         ISSUER=FILE or --token-jwks-url ISSUER=URL; one issuer's keys must not sign for another"
                    );
                }
                let plain = plain.filter(|plain| {
                    *plain == NO_PLAIN_ISSUER || several.iter().any(|issuer| issuer == plain)
                });
                let Some(plain) = plain else {
                    bail!(
                        "several --token-issuer: subject 1001 of one is not subject 1001 of another; name with --token-plain-issuer the \
                         one whose subjects own their records under their plain names, as with a single issuer, or none"
                    );
                };
                Ok(each(several, plain, &sources))
            }
        }
    }

    /// Whether no more than one issuer could sign, where none is named.
    fn check_unnamed(&self, sources: &[(Option<&str>, KeySource)]) -> anyhow::Result<()> {
        let is_url = |source: &KeySource| matches!(source, KeySource::Url(_));
        let why = if sources.len() > 1 {
            "several sources of keys"
        } else if self.authorization_server.len() > 1 {
            "several authorization servers"
        } else if sources.iter().any(|(_, source)| is_url(source)) {
            "keys from a URL, which may sign for several issuers,"
        } else if self.token_plain_issuer.is_some() {
            "--token-plain-issuer"
        } else {
            return Ok(());
        };
        bail!(
            "{why} without --token-issuer: a subject of one issuer could pass for that of another; name the issuer of tokens, as in \
             their `iss`"
        )
    }
}

/// Several issuers, each with its own keys.
fn each(several: &[String], plain: &str, sources: &[(Option<&str>, KeySource)]) -> Vec<Trusted> {
    let trusted = several.iter().map(|issuer| Trusted {
        issuer: Some(issuer.clone()),
        keys: sources
            .iter()
            .filter(|(of, _)| *of == Some(issuer))
            .map(|(_, source)| source.clone())
            .collect(),
        owners: if issuer == plain {
            Owners::Plain
        } else {
            Owners::Qualified
        },
    });
    trusted.collect()
}

/// Has SIGHUP read the keys again that tokens are checked with.
pub fn read_again_on_hangup(guard: Option<&Arc<Guard>>, signals: &mut Signals) {
    let Some(guard) = guard.map(Arc::clone) else {
        return;
    };
    let runtime = Handle::current();
    signals.on_hangup("token keys", move || {
        let read = runtime.block_on(guard.read_keys_again());
        let said: Vec<String> = read
            .iter()
            .map(|KeysRead { from, outcome }| match outcome {
                Ok(keys) => format!("{from}: {keys} in use"),
                Err(trouble) => trouble.clone(),
            })
            .collect();
        let said = said.join("; ");
        if read.iter().any(|read| read.outcome.is_err()) {
            bail!(said);
        }
        Ok(said)
    });
}
