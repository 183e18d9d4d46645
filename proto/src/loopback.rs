//! Whether an address, or a host as it is written, is this machine's own. What is sent there
//! crosses no network.

use std::net::IpAddr;

/// Whether an address is loopback: of `127.0.0.0/8`, also as IPv6 writes it (`::ffff:127.0.0.1`),
/// or `::1`.
#[must_use]
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether a host is loopback: `localhost`, or such an address, with brackets or without. Names are
/// not resolved, and forms such as `127.1` are not recognized.
#[must_use]
pub fn is_loopback_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse() {
        Ok(address) => is_loopback(address),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_host_than_this_machine_is_loopback() {
        let own =
            "127.0.0.1 127.8.8.8 ::1 [::1] ::ffff:127.0.0.1 [::FFFF:7F00:1] localhost LOCALHOST";
        for host in own.split(' ') {
            assert!(is_loopback_host(host), "{host}");
        }
        let others = "10.0.0.1 0.0.0.0 :: [::ffff:10.0.0.1] 127.1 127.0.0.01 localhost. a.localhost [localhost]";
        for host in others.split(' ').chain([""]) {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
