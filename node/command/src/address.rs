//! Addresses in flags.

use helve_node::config::host_and_port;

/// Checks `HOST:PORT`. The host is not resolved: it may appear later than this command.
///
/// # Errors
/// What is wrong with it, and what to give instead.
pub fn parse(text: &str) -> Result<String, String> {
    let address = text.trim();
    match host_and_port(address) {
        Ok(_) => Ok(address.to_owned()),
        Err(why) => Err(format!("{why}: give HOST:PORT, such as 127.0.0.1:8080")),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn address_is_a_host_and_a_port() {
        for (text, good) in [
            ("127.0.0.1:8080", true),
            (" cart-1:8080", true),
            ("[::1]:8080", true),
            ("", false),
            ("cart-1", false),
            (":8080", false),
            ("cart-1:0", false),
            ("cart-1:99999", false),
            ("http://cart-1:8080", false),
        ] {
            let parsed = parse(text);
            assert_eq!(parsed.is_ok(), good, "{text}");
            assert!(parsed.is_ok_and(|said| said == text.trim()) == good);
            let why = parse(text).err().unwrap_or_default();
            assert_eq!(why.contains("give HOST:PORT"), !good, "{why}");
        }
    }
}
