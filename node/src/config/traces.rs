//! Where spans of calls go, as the flags name it.

use std::{error::Error as _, path::PathBuf};

use helve_proto::is_loopback_host;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use super::exposure::Exposure;
use crate::{
    limits::TRACE_EXPORT_LIMIT,
    refusal::Refusal,
    tls::{NamedFile, TlsError},
    traces,
};

const ENDPOINT: &str = "--otlp-endpoint";
const CA: &str = "--otlp-ca";

/// The flags about traces.
#[derive(Debug, Clone, Default)]
pub struct TraceSettings {
    /// `--otlp-endpoint`: the collector; `None`: nothing is recorded.
    pub endpoint: Option<String>,
    /// `--otlp-ca`: whose certificate the collector has; `None`: one that the system trusts.
    pub ca: Option<PathBuf>,
    /// `--trace-sample`: of the calls whose callers say nothing of traces, one in this many is recorded; 0: none.
    pub one_in: u64,
}

/// Reads what the flags name.
///
/// # Errors
/// If the collector's address is none, or spans would go there in plain text beyond this machine, and the operator does not vouch for
/// the network.
pub(super) fn check(
    settings: &TraceSettings,
    exposure: Exposure,
) -> Result<Option<traces::Settings>, Refusal> {
    let Some(endpoint) = &settings.endpoint else {
        check_none(settings)?;
        return Ok(None);
    };
    let collector = collector(endpoint)?;
    let is_plain = collector.uri().scheme_str() == Some("http");
    let is_here = collector.uri().host().is_some_and(is_loopback_host);
    if is_plain && !is_here && exposure != Exposure::Insecure {
        let problem = format!(
            "spans name tenants and calls, and would go to {endpoint} beyond this machine without TLS"
        );
        let remedy = "give https://HOST:PORT, run a collector on this machine, or pass --insecure if you vouch for the network";
        return Err(Refusal::new(ENDPOINT, problem, remedy));
    }
    let collector = match (&settings.ca, is_plain) {
        (None, true) => collector,
        (Some(_), true) => {
            let problem = format!("{endpoint} is without TLS, where no certificate is shown");
            let remedy = format!("give {ENDPOINT} as https://HOST:PORT, or leave {CA} out");
            return Err(Refusal::new(CA, problem, remedy));
        }
        (ca, false) => secured(collector, ca.as_ref())?,
    };
    Ok(Some(traces::Settings {
        collector: collector.connect_timeout(TRACE_EXPORT_LIMIT),
        one_in: settings.one_in,
    }))
}

/// What says something of a collector needs one.
fn check_none(settings: &TraceSettings) -> Result<(), Refusal> {
    let flag = match settings {
        TraceSettings { ca: Some(_), .. } => CA,
        TraceSettings { one_in: 1.., .. } => "--trace-sample",
        _ => return Ok(()),
    };
    let problem = format!("nothing is recorded without {ENDPOINT}");
    let remedy = format!("pass {ENDPOINT}, too, or leave {flag} out");
    Err(Refusal::new(flag, problem, remedy))
}

fn collector(text: &str) -> Result<Endpoint, Refusal> {
    let refused = |problem: &str| {
        let remedy = "give http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:4317";
        Refusal::new(ENDPOINT, format!("it {problem}"), remedy)
    };
    let endpoint = Endpoint::from_shared(text.to_owned());
    let endpoint = endpoint.map_err(|_| refused("is no address of a collector"))?;
    let uri = endpoint.uri();
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(refused("begins with neither http:// nor https://"));
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err(refused("has a user in it"));
    }
    if uri.port_u16().is_none() {
        return Err(refused("has no port"));
    }
    if uri.path_and_query().is_some_and(|rest| rest != "/") {
        return Err(refused("has a path, which gRPC does without"));
    }
    Ok(endpoint)
}

fn secured(collector: Endpoint, ca: Option<&PathBuf>) -> Result<Endpoint, Refusal> {
    let (flag, tls) = match ca {
        Some(path) => {
            let file = NamedFile {
                flag: CA,
                path: path.clone(),
            };
            let refused = |error: TlsError| Refusal::new(error.flag, error.problem, error.remedy);
            // The transport would take a file without any, and trust nothing.
            file.certificates().map_err(refused)?;
            let pem = Certificate::from_pem(&file.public().map_err(refused)?[..]);
            (CA, ClientTlsConfig::new().ca_certificate(pem))
        }
        None => (ENDPOINT, ClientTlsConfig::new().with_enabled_roots()),
    };
    collector.tls_config(tls).map_err(|error| {
        let cause = error.source().map(ToString::to_string);
        let problem = format!(
            "no TLS can be made of it: {}",
            cause.unwrap_or_else(|| error.to_string())
        );
        let remedy = format!("name the collector's CA, in PEM, with {CA}");
        Refusal::new(flag, problem, remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(endpoint: &str, exposure: Exposure) -> Result<Option<traces::Settings>, Refusal> {
        let settings = TraceSettings {
            endpoint: Some(endpoint.to_owned()),
            ..TraceSettings::default()
        };
        check(&settings, exposure)
    }

    #[test]
    fn collector_beyond_this_machine_needs_tls_or_the_operators_word() {
        for (endpoint, is_taken) in [
            ("http://127.0.0.1:4317", true),
            ("http://localhost:4317/", true),
            ("http://LOCALHOST:4317", true),
            ("http://[::1]:4317", true),
            ("http://[::ffff:127.0.0.1]:4317", true),
            ("https://collector.example:4317", true),
            ("http://collector.example:4317", false),
            ("http://10.0.0.7:4317", false),
            ("http://localhost.example:4317", false),
        ] {
            for exposure in [Exposure::Loopback, Exposure::LocalPeers] {
                let found = checked(endpoint, exposure);
                assert_eq!(found.is_ok(), is_taken, "{endpoint}: {found:?}");
            }
            assert!(checked(endpoint, Exposure::Insecure).is_ok(), "{endpoint}");
        }
    }

    #[test]
    fn what_is_no_collector_is_refused() {
        for endpoint in [
            "collector:4317",
            "ftp://127.0.0.1:4317",
            "http://",
            "http://127.0.0.1",
            "http://user:secret@127.0.0.1:4317",
            "http://127.0.0.1:4317/v1/traces",
            "\u{20ac}",
        ] {
            let refusal = checked(endpoint, Exposure::Insecure).unwrap_err();
            assert_eq!(refusal.flag, ENDPOINT, "{endpoint}");
            assert!(!refusal.to_string().contains("secret"), "{refusal}");
        }
    }

    #[test]
    fn file_without_a_certificate_is_no_ca() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.crt");
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for content in ["", key] {
            std::fs::write(&path, content).unwrap();
            let settings = TraceSettings {
                endpoint: Some("https://collector:4317".to_owned()),
                ca: Some(path.clone()),
                ..TraceSettings::default()
            };
            let refusal = check(&settings, Exposure::Loopback).unwrap_err();
            assert_eq!(refusal.flag, CA);
            assert!(refusal.to_string().contains("no certificate"), "{refusal}");
        }
    }

    #[test]
    fn flags_that_would_do_nothing_are_refused() {
        let none = TraceSettings::default();
        assert!(check(&none, Exposure::Loopback).unwrap().is_none());
        let sample = TraceSettings {
            one_in: 10,
            ..none.clone()
        };
        let ca = TraceSettings {
            ca: Some("ca.crt".into()),
            ..none
        };
        let plain = TraceSettings {
            endpoint: Some("http://127.0.0.1:4317".to_owned()),
            ..ca.clone()
        };
        for (settings, flag) in [(sample, "--trace-sample"), (ca, CA), (plain, CA)] {
            let refusal = check(&settings, Exposure::Loopback).unwrap_err();
            assert_eq!(refusal.flag, flag);
        }
    }
}
