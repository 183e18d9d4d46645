//! Connections, and what their errors mean.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use helve_client::{Error, ErrorKind};
use helve_proto::{NotPem, Reason};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio_postgres::{Config, NoTls, config::SslMode, error::SqlState};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::tools::{
    failures::{ambiguous, unavailable},
    trust,
};

const CONNECTIONS_MAX: usize = 8;

pub(super) fn pool(url: &str, ca_pem: Option<&[u8]>, deadline: Duration) -> Result<Pool, Error> {
    let mut config: Config = verified(url).parse().map_err(|error| {
        let message = "no PostgreSQL URL: give postgresql://USER:PASSWORD@HOST/DATABASE";
        refused(message).with_source(error)
    })?;
    config.connect_timeout(deadline);
    // A connection that broke is found out before it is used again.
    let recycling = ManagerConfig {
        recycling_method: RecyclingMethod::Verified,
    };
    let manager = match (config.get_ssl_mode(), ca_pem) {
        (SslMode::Require, ca_pem) => {
            let tls = MakeRustlsConnect::new(tls(roots(ca_pem)?)?);
            Manager::from_config(config, tls, recycling)
        }
        (_, Some(_)) => return Err(trust::unused_ca("add sslmode=verify-full to the URL")),
        (_, None) => Manager::from_config(config, NoTls, recycling),
    };
    let pool = Pool::builder(manager)
        .max_size(CONNECTIONS_MAX)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(deadline))
        .build();
    pool.map_err(|error| Error::internal("a pool without its runtime").with_source(error))
}

fn refused(message: &str) -> Error {
    Error::refused(Reason::BadRequest, message, 0, 0)
}

/// The same URL in words that the driver knows: here each mode with TLS verifies the certificate and the host's name.
fn verified(url: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in url.split_inclusive(['?', '&', ' ']) {
        let end = part.trim_end_matches(['?', '&', ' ']).len();
        let (setting, separator) = part.split_at(end);
        let setting = match setting {
            "sslmode=verify-ca" | "sslmode=verify-full" => "sslmode=require",
            other => other,
        };
        parts.push(format!("{setting}{separator}"));
    }
    parts.concat()
}

fn lost(flaw: NotPem) -> Error {
    refused(&format!("the file of certificate authorities: {flaw}"))
}

fn roots(ca_pem: Option<&[u8]>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let Some(ca_pem) = ca_pem else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let message = "this machine has no certificate authorities: install ca-certificates, or name a file of them";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        return Ok(roots);
    };
    let wrong = "the file of certificate authorities holds what is no certificate in PEM";
    for certificate in CertificateDer::pem_slice_iter(ca_pem) {
        let certificate = certificate.map_err(|error| match NotPem::of(ca_pem) {
            Some(flaw) => lost(flaw),
            None => refused(wrong).with_source(error),
        })?;
        roots
            .add(certificate)
            .map_err(|error| refused(wrong).with_source(error))?;
    }
    if roots.is_empty() {
        return Err(match NotPem::of(ca_pem) {
            Some(flaw) => lost(flaw),
            None => refused("the file of certificate authorities holds no certificate in PEM"),
        });
    }
    Ok(roots)
}

fn tls(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let config = ClientConfig::builder_with_provider(trust::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("TLS without a version").with_source(error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

pub(super) async fn take(pool: &Pool) -> Result<Object, Error> {
    pool.get()
        .await
        .map_err(|error| unavailable("PostgreSQL does not answer", error))
}

/// Makes the table, unless it is there, and says whether its values are `jsonb`. Two that make it at once wait for each other.
pub(super) async fn make(
    connection: &mut Object,
    statements: &str,
    column: &str,
) -> Result<bool, Error> {
    let transaction = connection.transaction().await.map_err(read_error)?;
    transaction
        .batch_execute(statements)
        .await
        .map_err(read_error)?;
    let kind = transaction.query_one(column, &[]).await;
    let kind: String = kind
        .and_then(|row| row.try_get("kind"))
        .map_err(read_error)?;
    transaction.commit().await.map_err(read_error)?;
    Ok(kind == "jsonb")
}

/// Nothing was to be changed, or what was can be done again.
pub(super) fn read_error(error: tokio_postgres::Error) -> Error {
    refusal(error, unavailable)
}

pub(super) fn write_error(error: tokio_postgres::Error) -> Error {
    refusal(error, ambiguous)
}

fn refusal(error: tokio_postgres::Error, lost: fn(&str, tokio_postgres::Error) -> Error) -> Error {
    let Some(state) = error.code() else {
        return lost("PostgreSQL answered nothing", error);
    };
    // The server said no, so the transaction was not committed.
    let kind = match state {
        state if *state == SqlState::INSUFFICIENT_PRIVILEGE => ErrorKind::Denied,
        state if state.code().starts_with("28") => ErrorKind::Denied,
        state if state.code().starts_with("53") => ErrorKind::Full,
        state if state.code().starts_with("22") => ErrorKind::Codec,
        state if state.code().starts_with("42") => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    let said = error
        .as_db_error()
        .map_or_else(|| error.to_string(), ToString::to_string);
    Error::new(kind, format!("PostgreSQL: {said}")).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_verify_are_known_in_urls_and_in_pairs() {
        for (said, meant) in [
            (
                "postgresql://h/d?sslmode=verify-full",
                "postgresql://h/d?sslmode=require",
            ),
            (
                "postgresql://h/d?a=b&sslmode=verify-ca&c=d",
                "postgresql://h/d?a=b&sslmode=require&c=d",
            ),
            ("host=h sslmode=verify-full", "host=h sslmode=require"),
            (
                "postgresql://h/sslmode=verify-fuller",
                "postgresql://h/sslmode=verify-fuller",
            ),
        ] {
            assert_eq!(verified(said), meant);
        }
    }
}
