//! What a certificate can be used for (RFC 5280, 4.2.1.9 and 4.2.1.12). One that the other end would refuse is refused at the start.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

use super::words;
use crate::stamp;

/// Remedy for a CA's certificate at a port.
const NO_CA: &str = "name one that the CA has signed, such as `helve cert node` makes; \
                     one that signs itself: `openssl req -x509 -addext basicConstraints=critical,CA:FALSE`";

const SERVER_AUTH: &str = "issue one with extendedKeyUsage=serverAuth, or without the extension; \
                           `helve cert node` makes one for servers and clients";

const CLIENT_AUTH: &str = "issue one with extendedKeyUsage=clientAuth, or without the extension; \
                           `helve cert client` makes one for clients, `helve cert node` one for nodes";

const REISSUE: &str = "issue it again; `helve cert` makes certificates for development";

/// Where a certificate is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    /// To clients that connect.
    Server,
    /// To a server that is connected to.
    Client,
    /// To peers, on both ends of connections.
    Node,
}

/// Why a certificate cannot be used, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unfit {
    pub(super) problem: &'static str,
    pub(super) remedy: &'static str,
}

impl Usage {
    /// Looks whether the certificate can be used so, by its own extensions alone: who signed it is for the other end to judge.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(self, certificate: &CertificateDer<'_>) -> Result<(), Unfit> {
        let is_server = matches!(self, Self::Server | Self::Node);
        let is_client = matches!(self, Self::Client | Self::Node);
        let server = "it is no server's certificate: its extended key usage lacks serverAuth, so that clients refuse it";
        let client = "it is no client's certificate: its extended key usage lacks clientAuth, so that servers refuse it";
        if is_server {
            check(certificate, KeyUsage::server_auth(), (server, SERVER_AUTH))?;
        }
        if is_client {
            check(certificate, KeyUsage::client_auth(), (client, CLIENT_AUTH))?;
        }
        Ok(())
    }
}

fn check(
    certificate: &CertificateDer<'_>,
    usage: KeyUsage,
    (problem, remedy): (&'static str, &'static str),
) -> Result<(), Unfit> {
    let unfit = |error: &Error, remedy| Unfit {
        problem: words::of_check(error),
        remedy,
    };
    let read = EndEntityCert::try_from(certificate).map_err(|error| unfit(&error, REISSUE))?;
    let now = UnixTime::since_unix_epoch(Duration::from_millis(stamp::wall_ms()));
    // Without a trust anchor no certificate passes. What is wrong with this one by itself is found before its issuer is looked for.
    match read.verify_for_usage(&[], &[], &[], now, usage, None, None) {
        Ok(_) | Err(Error::UnknownIssuer) => Ok(()),
        Err(error @ Error::CaUsedAsEndEntity) => Err(unfit(&error, NO_CA)),
        Err(Error::RequiredEkuNotFoundContext(_)) => Err(Unfit { problem, remedy }),
        Err(error) => Err(unfit(&error, REISSUE)),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose,
        ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth},
        IsCa, KeyPair,
    };

    use super::*;

    /// A certificate that signs itself.
    fn made(is_ca: IsCa, usages: &[ExtendedKeyUsagePurpose]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = is_ca;
        params.extended_key_usages = usages.to_vec();
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn certificate_is_taken_for_what_its_extensions_allow() {
        let leaf = || IsCa::ExplicitNoCa;
        let all = [Usage::Server, Usage::Client, Usage::Node];
        let table: [(_, &[Usage]); 5] = [
            (made(IsCa::NoCa, &[]), &all),
            (made(leaf(), &[]), &all),
            (made(leaf(), &[ServerAuth, ClientAuth]), &all),
            (made(leaf(), &[ServerAuth]), &[Usage::Server]),
            (made(leaf(), &[ClientAuth]), &[Usage::Client]),
        ];
        for (number, (certificate, allowed)) in table.iter().enumerate() {
            for usage in all {
                let checked = usage.check(certificate);
                let is_allowed = allowed.contains(&usage);
                assert_eq!(
                    checked.is_ok(),
                    is_allowed,
                    "row {number}: {usage:?}: {checked:?}"
                );
            }
        }
    }

    #[test]
    fn ca_is_taken_nowhere_and_told_how_to_sign_itself() {
        let ca = made(IsCa::Ca(BasicConstraints::Unconstrained), &[]);
        for usage in [Usage::Server, Usage::Client, Usage::Node] {
            let unfit = usage.check(&ca).unwrap_err();
            assert!(unfit.problem.contains("CA:TRUE"), "{unfit:?}");
            assert!(unfit.remedy.contains("CA:FALSE"), "{unfit:?}");
        }
    }
}
