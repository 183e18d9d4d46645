//! The `--peers` of a cluster: `SEAT=HOST:PORT` of every seat.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use super::Refusal;
use crate::limits;

const FLAG: &str = "--peers";
const EXAMPLE: &str =
    "write SEAT=HOST:PORT, such as 1=10.0.0.1:7401,2=10.0.0.2:7401,3=10.0.0.3:7401";

/// The peer addresses by their seats. An entry may be repeated, so that one list fits the pods of a
/// `StatefulSet`, which adds the pod's own seat to those of the founders.
///
/// # Errors
/// If an entry is none, or there are too few, too many, or two of the same.
pub fn parse(entries: &[String]) -> Result<BTreeMap<u64, String>, Refusal> {
    if entries.is_empty() {
        let remedy = "list every seat, this node's own included; for a single node use `helve dev`";
        return Err(Refusal::new(FLAG, "no seat is listed", remedy));
    }
    if entries.len() > limits::SEATS_MAX {
        let problem = format!(
            "{} seats are listed, at most {} can be",
            entries.len(),
            limits::SEATS_MAX
        );
        return Err(Refusal::new(FLAG, problem, "list 3 or 5 seats"));
    }
    let mut peers = BTreeMap::new();
    for entry in entries {
        let (seat, address) = parse_entry(entry)?;
        if let Some((other, _)) = peers.iter().find(|(_, known)| **known == address) {
            if *other == seat {
                continue;
            }
            let problem = format!("seats {other} and {seat} have the same address {address}");
            return Err(Refusal::new(
                FLAG,
                problem,
                "give each seat its node's own peer address",
            ));
        }
        if let Some(known) = peers.insert(seat, address.clone()) {
            let problem = format!("seat {seat} is listed twice, with {known} and {address}");
            return Err(Refusal::new(
                FLAG,
                problem,
                "give each seat its node's own number",
            ));
        }
    }
    Ok(peers)
}

fn parse_entry(entry: &str) -> Result<(u64, String), Refusal> {
    let refuse = |problem: String| Refusal::new(FLAG, problem, EXAMPLE);
    let (seat, address) = entry
        .trim()
        .split_once('=')
        .ok_or_else(|| refuse(format!("`{entry}` has no `=`")))?;
    let seat = match seat.trim().parse() {
        Ok(0) | Err(_) => {
            return Err(refuse(format!(
                "`{seat}` in `{entry}` is no seat (1, 2, ...)"
            )));
        }
        Ok(seat) => seat,
    };
    let address = address.trim();
    reached_at(address).map_err(refuse)?;
    Ok((seat, address.to_owned()))
}

/// Checks an address at which other machines reach a node, as [`host_and_port`] does.
///
/// # Errors
/// What is wrong with it, for people.
pub fn reached_at(address: &str) -> Result<(), String> {
    let (host, _) = host_and_port(address)?;
    if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) {
        return Err(format!(
            "`{address}` is no address to connect to: it means every address of a machine"
        ));
    }
    Ok(())
}

/// Bytes of `HOST:PORT`: a name has at most 253 (RFC 1035, section 2.3.4), and a port five digits.
const ADDRESS_BYTES_MAX: usize = 253 + 1 + 5;

/// Splits `HOST:PORT`. An IPv6 host is in brackets, and is given back without them. A host is not
/// resolved: it may appear later than this node.
///
/// # Errors
/// What is wrong with it, for people.
pub fn host_and_port(address: &str) -> Result<(&str, u16), String> {
    if address.len() > ADDRESS_BYTES_MAX {
        return Err(format!(
            "an address of {} bytes is no HOST:PORT",
            address.len()
        ));
    }
    let (host, port) = address
        .rsplit_once(':')
        .filter(|(_, port)| !port.ends_with(']'))
        .ok_or_else(|| format!("`{address}` has no port"))?;
    let port = match port.parse() {
        // A sign would parse, too.
        Ok(number @ 1..) if port.bytes().all(|byte| byte.is_ascii_digit()) => number,
        _ => {
            return Err(format!(
                "`{port}` in `{address}` is no port from 1 to 65535"
            ));
        }
    };
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let wrong = match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_err(),
        None => {
            host.is_empty()
                || !host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
        }
    };
    if wrong {
        return Err(format!("`{host}` in `{address}` is no host"));
    }
    Ok((inner.unwrap_or(host), port))
}

pub(super) fn check_own_seat(
    peers: &BTreeMap<u64, String>,
    seat: u64,
    listen: SocketAddr,
    peer_listen: SocketAddr,
) -> Result<(), Refusal> {
    if seat == 0 {
        return Err(Refusal::new(
            "--id",
            "0 is no seat",
            "number the seats from 1",
        ));
    }
    let Some(own) = peers.get(&seat) else {
        let listed: Vec<_> = peers.keys().map(ToString::to_string).collect();
        let problem = format!(
            "seat {seat}, which --id names, is not among the listed seats {}",
            listed.join(", ")
        );
        let remedy = format!(
            "add {seat}={peer_listen} (this node's own peer address) to --peers, or correct --id"
        );
        return Err(Refusal::new(FLAG, problem, remedy));
    };
    let names_client_port = host_and_port(own)
        .is_ok_and(|(_, port)| port == listen.port() && port != peer_listen.port());
    if names_client_port {
        let problem = format!("{seat}={own} names the port for clients, not the one for nodes");
        let remedy = format!("list peer addresses: {seat}=HOST:{}", peer_listen.port());
        return Err(Refusal::new(FLAG, problem, remedy));
    }
    Ok(())
}
