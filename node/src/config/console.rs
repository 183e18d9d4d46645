//! Whether the console may be served where the HTTP port listens.

use std::net::SocketAddr;

use helve_proto::is_loopback;

use super::auth::Auth;
use crate::refusal::Refusal;

const FLAG: &str = "--console";

/// Refuses the console where its callers' tokens could be read on the way, and where any caller beyond this machine could use it
/// without one. `--insecure` changes nothing: it vouches for a network, and not for the pages that a browser on it has open.
pub(super) fn check<T>(
    http_listen: SocketAddr,
    tls: Option<&T>,
    auth: &Auth,
) -> Result<(), Refusal> {
    if is_loopback(http_listen.ip()) {
        return Ok(());
    }
    if tls.is_none() {
        return Err(Refusal::new(
            FLAG,
            format!(
                "its pages send tokens, and --http-listen {http_listen} is reachable from beyond this machine without TLS"
            ),
            "pass --tls-cert and --tls-key, or listen on 127.0.0.1 with --http-listen (`ssh -L 7402:127.0.0.1:7402 HOST` reaches it)",
        ));
    }
    if *auth == Auth::None {
        return Err(Refusal::new(
            FLAG,
            format!(
                "--http-listen {http_listen} is reachable from beyond this machine, and without tokens any caller of the console owns the data"
            ),
            "pass --auth tokens and --operator-token-file, or listen on 127.0.0.1 with --http-listen",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_beyond_this_machine_needs_tls_and_tokens() {
        let tokens = Auth::Tokens { operator: None };
        for (listen, has_tls, auth, problem) in [
            ("127.0.0.1:7402", false, &Auth::None, ""),
            ("[::1]:7402", false, &tokens, ""),
            ("[::ffff:127.0.0.1]:7402", false, &Auth::None, ""),
            ("10.0.0.7:7402", false, &tokens, "without TLS"),
            ("0.0.0.0:7402", false, &Auth::None, "without TLS"),
            ("10.0.0.7:7402", true, &Auth::None, "without tokens"),
            ("10.0.0.7:7402", true, &tokens, ""),
        ] {
            let at = listen.parse().unwrap();
            let tls = has_tls.then_some(&());
            match check(at, tls, auth) {
                Ok(()) => assert_eq!(problem, "", "{listen}"),
                Err(refusal) => {
                    assert!(refusal.problem.contains(problem), "{refusal}");
                    assert!(!problem.is_empty() && refusal.flag == FLAG, "{refusal}");
                }
            }
        }
    }
}
