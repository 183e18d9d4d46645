//! The flags of everything that checks who calls by bearer token.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use helve_mcp::bearer::{Guard, Resource, Scopes, Verifier};

/// Which tokens are let in. Without a key file there is no authentication.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Tokens")]
pub(crate) struct TokenArgs {
    /// Let in only who has a bearer token (JWT) that holds under a key of this file, read once: a JWK set, a public key in PEM, or a
    /// secret of at least 32 bytes. The token's subject owns what it stores
    #[arg(
        long,
        requires = "token_audience",
        env = "HELVE_TOKEN_KEY_FILE",
        value_name = "FILE"
    )]
    token_key_file: Option<PathBuf>,

    /// What tokens must be meant for, as their `aud` says: this server's URL, or what the authorization server calls it
    #[arg(
        long,
        requires = "token_key_file",
        env = "HELVE_TOKEN_AUDIENCE",
        value_name = "URL"
    )]
    token_audience: Option<String>,

    /// This server's URL as clients reach it, if that is not what tokens say in `aud`: told to whoever comes without a token
    #[arg(
        long,
        requires = "token_audience",
        env = "HELVE_TOKEN_RESOURCE",
        value_name = "URL"
    )]
    token_resource: Option<String>,

    /// Whom tokens must come from
    #[arg(
        long,
        requires = "token_key_file",
        env = "HELVE_TOKEN_ISSUER",
        value_name = "URL"
    )]
    token_issuer: Option<String>,

    /// Where clients get tokens: told to whoever comes without one; may be repeated
    #[arg(
        long,
        requires = "token_key_file",
        value_delimiter = ',',
        env = "HELVE_AUTHORIZATION_SERVER",
        value_name = "URL"
    )]
    authorization_server: Vec<String>,

    /// The scope that a token must have to call at all; without it any token that holds may read
    #[arg(
        long,
        requires = "token_key_file",
        env = "HELVE_READ_SCOPE",
        value_name = "SCOPE"
    )]
    read_scope: Option<String>,

    /// The scope that a token must have to change anything; without it --read-scope is enough
    #[arg(
        long,
        requires = "token_key_file",
        env = "HELVE_WRITE_SCOPE",
        value_name = "SCOPE"
    )]
    write_scope: Option<String>,
}

impl TokenArgs {
    /// The guard to put before a server; none, if nobody must say who they are.
    ///
    /// # Errors
    /// If the file holds no key that can be used, or a scope is none: do not start.
    pub(crate) fn guard(
        &self,
        reading_tools: &'static [&'static str],
    ) -> anyhow::Result<Option<Guard>> {
        let (Some(file), Some(audience)) = (&self.token_key_file, &self.token_audience) else {
            return Ok(None);
        };
        let verifier =
            Verifier::new(file, audience, self.token_issuer.clone()).context("--token-key-file")?;
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
            Resource::parse(server).with_context(|| format!("--authorization-server {server}"))?;
        }
        match &self.token_resource {
            Some(url) => {
                let resource =
                    Resource::parse(url).with_context(|| format!("--token-resource {url}"))?;
                Ok(Some(resource))
            }
            None if self.authorization_server.is_empty() => Ok(None),
            None => match Resource::parse(audience) {
                Ok(resource) => Ok(Some(resource)),
                Err(error) => bail!(
                    "--authorization-server, but --token-audience {audience} is not where clients reach this server ({error}): say where that is with --token-resource"
                ),
            },
        }
    }
}
