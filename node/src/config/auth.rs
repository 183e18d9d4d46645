//! Whether callers need a token, and which one is the first operator's.

use std::{
    fmt, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use data_encoding::BASE64URL_NOPAD;
use helve_proto::{NotAToken, is_loopback};
use helve_seal::{Exposed, NamedContent};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::exposure::Exposure;
use crate::refusal::Refusal;

const FLAG: &str = "--operator-token-file";
const PREFIX: &str = "hlv_";
/// Random bytes of a token.
const SECRET_BYTES: usize = 32;
/// Characters of a token: its prefix, and its bytes in base64url (RFC 4648, section 5) without padding.
const TOKEN_CHARS: usize = PREFIX.len() + 43;
/// Bytes that are read of a token's file. A longer one holds something else.
const FILE_BYTES_MAX: u64 = 4_096;
/// What the principal of a caller with a certificate begins with. No token's text begins so, and no
/// token's holder has such a principal.
const CERTIFICATE: &str = "certificate:";

/// What `--auth` and `--operator-token-file` say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthSetting {
    /// `--auth none`.
    None,
    /// `--auth tokens`.
    Tokens,
}

/// What callers of the client port must show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Nothing: everyone is `anonymous` in the tenant `default`, and may do everything.
    None,
    /// A token.
    Tokens {
        /// One that is an operator's without standing in the rows: how the first token is made.
        operator: Option<TokenHash>,
    },
}

/// SHA-256 of a token's text, or of a certificate's principal. It gives no authority, and may be logged.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Of this text, token or not.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Of a token; `None` if it is none.
    #[must_use]
    pub fn parse(token: &str) -> Option<Self> {
        let secret = token.strip_prefix(PREFIX)?;
        let mut bytes = Zeroizing::new([0; SECRET_BYTES + 1]);
        let is_token = token.len() == TOKEN_CHARS
            && BASE64URL_NOPAD
                .decode_mut(secret.as_bytes(), &mut bytes[..SECRET_BYTES])
                .is_ok();
        is_token.then(|| Self::of(token))
    }

    /// Of the token in a file, which `flag` named.
    ///
    /// # Errors
    /// If the file cannot be read, can be read by everyone, or holds no token.
    pub fn from_file(flag: &'static str, file: &Path) -> Result<Self, Refusal> {
        // What was meant as a token must not be repeated in a log.
        if file.to_string_lossy().starts_with(PREFIX) {
            return Err(Refusal::new(
                flag,
                "it is a token: a command line can be read by every user of this machine",
                "revoke that token if it is in use, write a new one to a file that no other user can read, and name the file",
            ));
        }
        let refused = |problem: String, remedy: &str| Refusal::new(flag, problem, remedy);
        let shown = file.display();
        let unread = |error: io::Error| {
            refused(
                format!("{shown} cannot be read: {error}"),
                "name a file that this user can read",
            )
        };
        let metadata = fs::metadata(file).map_err(unread)?;
        if metadata.is_dir() {
            let problem = format!("{shown} is a directory");
            return Err(refused(problem, "name the file in it that holds the token"));
        }
        let content = NamedContent::read(file, FILE_BYTES_MAX).map_err(unread)?;
        Exposed::check(file, &content.metadata).map_err(|exposed| {
            let remedy = "change its mode, and make a new token if others may have read it";
            refused(format!("{shown}: {exposed}"), remedy)
        })?;
        if content.bytes.len() as u64 > FILE_BYTES_MAX {
            let problem =
                format!("{shown} is over {FILE_BYTES_MAX} bytes, and holds something else");
            return Err(refused(problem, "name a file with the token alone"));
        }
        let token = std::str::from_utf8(&content.bytes).unwrap_or_default();
        Self::parse(token.trim()).ok_or_else(|| {
            let problem = match NotAToken::of(&content.bytes) {
                Some(flaw) => format!("{shown} holds no token: {flaw}"),
                None => format!("{shown} holds no token"),
            };
            refused(
                problem,
                "name a file with the token alone, or make one: helve token secret --out FILE",
            )
        })
    }

    /// The 32 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// In constant time, though what could be learnt of a hash gives no authority.
impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenHash {}

impl fmt::Debug for TokenHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = data_encoding::HEXLOWER.encode(&self.0[..8]);
        write!(formatter, "TokenHash({start}...)")
    }
}

/// The principal of a caller with a certificate of this common name. What it may do is in the rows
/// under the SHA-256 of this text, which cannot be sent as a token: a token begins otherwise.
#[must_use]
pub fn certificate_principal(common_name: &str) -> String {
    format!("{CERTIFICATE}{common_name}")
}

/// The common name of the certificates whose principal this is; `None` if it is no certificate's.
#[must_use]
pub fn certificate_named(principal: &str) -> Option<&str> {
    principal.strip_prefix(CERTIFICATE)
}

/// A token's text from its secret bytes.
#[must_use]
pub fn token_text(secret: &[u8; SECRET_BYTES]) -> Zeroizing<String> {
    Zeroizing::new(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(secret)))
}

pub(super) fn check(setting: &AuthSetting, file: Option<&PathBuf>) -> Result<Auth, Refusal> {
    match (setting, file) {
        (AuthSetting::None, None) => Ok(Auth::None),
        (AuthSetting::None, Some(_)) => Err(Refusal::new(
            FLAG,
            "no token is asked for, so an operator's makes no difference",
            "pass --auth tokens, or leave the file away",
        )),
        (AuthSetting::Tokens, file) => {
            let operator = file
                .map(|file| TokenHash::from_file(FLAG, file))
                .transpose()?;
            Ok(Auth::Tokens { operator })
        }
    }
}

/// Whether any caller that reaches the client port from beyond this machine may do everything.
pub(super) fn check_exposure(
    exposure: Exposure,
    listen: SocketAddr,
    auth: &Auth,
) -> Result<Option<&'static str>, Refusal> {
    if *auth != Auth::None || is_loopback(listen.ip()) {
        return Ok(None);
    }
    match exposure {
        Exposure::Insecure => Ok(Some("--auth none")),
        Exposure::Loopback | Exposure::LocalPeers => Err(Refusal::new(
            "--listen",
            format!(
                "{listen} is reachable from beyond this machine, and without tokens every caller that reaches it owns the data"
            ),
            "pass --auth tokens and --operator-token-file (`helve token secret` makes the file), listen on 127.0.0.1, or pass --insecure if you vouch for the network",
        )),
    }
}

/// Refuses a peer port without TLS on a node that asks callers for tokens. Any process that reaches the port can act as a node, and
/// forward what only an operator may do; on loopback, that is any user of the machine.
pub(super) fn check_peers<T>(
    exposure: Exposure,
    peer_listen: SocketAddr,
    tls: Option<&T>,
    auth: &Auth,
) -> Result<(), Refusal> {
    if tls.is_some() || *auth == Auth::None || exposure != Exposure::Loopback {
        return Ok(());
    }
    Err(Refusal::new(
        "--auth",
        format!(
            "the peer port {peer_listen} has no TLS: any process that reaches it does without a token what an operator may"
        ),
        "pass --peer-tls-cert, --peer-tls-key and --peer-tls-ca (`helve init` makes them), or --insecure-peers if you vouch for every user of this machine",
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn peer_port_without_tls_beside_tokens_needs_the_operators_word() {
        let at = SocketAddr::from(([127, 0, 0, 1], 7401));
        let tokens = Auth::Tokens { operator: None };
        let table = [
            (Exposure::Loopback, false, &tokens, false),
            (Exposure::LocalPeers, false, &tokens, true),
            (Exposure::Insecure, false, &tokens, true),
            (Exposure::Loopback, true, &tokens, true),
            (Exposure::Loopback, false, &Auth::None, true),
        ];
        for (exposure, has_tls, auth, starts) in table {
            let checked = check_peers(exposure, at, has_tls.then_some(&()), auth);
            assert_eq!(checked.is_ok(), starts, "{exposure:?} {has_tls} {auth:?}");
            let said = checked.map_err(|refusal| refusal.to_string());
            assert!(said.is_ok() || said.unwrap_err().contains("--insecure-peers"));
        }
    }

    #[test]
    fn a_token_is_256_bits_behind_its_prefix_and_its_hash_is_of_its_text() {
        let text = token_text(&[7; 32]);
        assert_eq!((text.len(), &text[..4]), (TOKEN_CHARS, PREFIX));
        assert_eq!(TokenHash::parse(&text), Some(TokenHash::of(&text)));
        assert_ne!(TokenHash::of(&text), TokenHash::of(&token_text(&[8; 32])));
        assert!(!format!("{:?}", TokenHash::of(&text)).contains(&text[4..12]));
    }

    #[test]
    fn name_of_a_certificate_is_no_tokens_text() {
        for name in ["", "shop", &"x".repeat(TOKEN_CHARS - CERTIFICATE.len())] {
            let principal = certificate_principal(name);
            assert_eq!(certificate_named(&principal), Some(name));
            assert_eq!(TokenHash::parse(&principal), None);
        }
        assert!(!PREFIX.starts_with(CERTIFICATE) && !CERTIFICATE.starts_with(PREFIX));
    }

    #[test]
    fn an_operators_token_comes_from_a_file_that_not_everyone_can_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let read = || check(&AuthSetting::Tokens, Some(&path));
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(read().unwrap_err().problem.contains("holds no token"));
        let text = token_text(&[7; 32]);
        fs::write(&path, format!("\"{}\"\n", *text)).unwrap();
        let quoted = read().unwrap_err().problem;
        assert!(quoted.contains("is in quotes"), "{quoted}");
        fs::write(&path, format!("{}\n", *text)).unwrap();
        let operator = Some(TokenHash::of(&text));
        assert_eq!(read(), Ok(Auth::Tokens { operator }));
        mode(0o644);
        assert!(read().unwrap_err().problem.contains("chmod 600"));
        mode(0o640);
        assert!(read().is_ok());
        let endless = check(&AuthSetting::Tokens, Some(&PathBuf::from("/dev/zero")));
        assert!(endless.unwrap_err().problem.contains("it is a device"));
        let told = check(&AuthSetting::Tokens, Some(&PathBuf::from(&*text))).unwrap_err();
        assert!(!told.to_string().contains(&text[4..12]), "{told}");
        for (setting, file) in [
            (AuthSetting::None, path.clone()),
            (AuthSetting::Tokens, path.join("none")),
        ] {
            assert_eq!(check(&setting, Some(&file)).unwrap_err().flag, FLAG);
        }
        assert_eq!(check(&AuthSetting::None, None), Ok(Auth::None));
    }
}
