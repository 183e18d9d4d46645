//! Whose share of a bound a connection counts towards.

use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv6 address that name one network, which has 2^64 addresses.
const V6_NETWORK_BITS: u32 = 64;

/// The address of a caller, as shares are counted: an IPv4 address, or an IPv6 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address(IpAddr);

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                let network = u128::from(address) & (u128::MAX << (128 - V6_NETWORK_BITS));
                Ipv6Addr::from(network).into()
            }
        })
    }
}

impl From<Address> for IpAddr {
    /// The address, or the first of the network.
    fn from(Address(address): Address) -> Self {
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_ipv6_network_share_one_share() {
        let of = |text: &str| Address::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
