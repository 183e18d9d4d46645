//! The form of a token: what is checked before any signature is.

use data_encoding::BASE64URL_NOPAD;
use helve_client::exact;
use jsonwebtoken::{Header, decode_header};
use serde_json::{Map, Value};

use super::rejected::Rejected;

/// What a token may say it is (RFC 8725, section 3.11; RFC 9068, section 2.1). Tokens of other
/// types, such as proofs of possession or logout tokens, give no access.
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// Checks the claims before they are parsed.
pub(super) fn check_claims(token: &str) -> Result<(), Rejected> {
    let claims = part(token, 1)?;
    // The parser skips the text of claims that have no meaning here (RFC 7519, section 7.2).
    std::str::from_utf8(&claims).map_err(|_| Rejected::Malformed)?;
    exact::check_reserved_names(&claims).map_err(|_| Rejected::Malformed)
}

/// The header, if it asks for nothing that is not done here. Keys that it brings or points to are
/// not looked at.
pub(super) fn read_header(token: &str) -> Result<Header, Rejected> {
    let members = part(token, 0)?;
    let members: Map<String, Value> = exact::parse(&members).map_err(|_| Rejected::Malformed)?;
    let header = decode_header(token).map_err(|_| Rejected::Malformed)?;
    let is_access = header.typ.as_deref().is_none_or(|typ| {
        let is = |known: &&str| typ.eq_ignore_ascii_case(known);
        TYPES.iter().any(is)
    });
    // There are no extensions here (RFC 7515, section 4.1.11), whatever the list of them says, nor
    // payloads that are signed as they are (RFC 7797), nor nested or compressed tokens.
    let is_extended = members.contains_key("crit");
    let is_encoded = members
        .get("b64")
        .is_none_or(|b64| *b64 == Value::Bool(true));
    if is_extended || !is_encoded || header.cty.is_some() || header.zip.is_some() || !is_access {
        return Err(Rejected::Kind);
    }
    Ok(header)
}

fn part(token: &str, at: usize) -> Result<Vec<u8>, Rejected> {
    let part = token.split('.').nth(at).unwrap_or_default();
    let decoded = BASE64URL_NOPAD.decode(part.as_bytes());
    decoded.map_err(|_| Rejected::Malformed)
}
