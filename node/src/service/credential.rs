//! By what a caller is known: the token that it sends, or else the certificate of its connection.
//!
//! A token wins: a caller that sends one is its holder, or is refused, whatever certificate the connection shows. A certificate says a name
//! alone (its subject's common name); what that name may do is in the rows like a token's grant, under the hash of its principal. That hash
//! is no secret, so a grant counts for a certificate only if its principal names it, and only an operator makes such a grant.

use std::sync::Arc;

use axum::http::{HeaderMap, header::AUTHORIZATION};
use helve_proto::v1::TokenGrant;

use crate::{
    config::{TokenHash, certificate_named, certificate_principal},
    connections::Info,
    stamp,
    tls::certificate::Certificate,
};

/// What a caller has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// A token, by its hash.
    Token(TokenHash),
    /// A certificate, which the handshake has verified.
    Certificate(Arc<Certificate>),
}

impl Credential {
    /// What a request with these headers shows, that came over this connection; `None` if nothing, or what is no credential.
    pub(super) fn shown(headers: &HeaderMap, connection: Option<&Info>) -> Option<Self> {
        if headers.contains_key(AUTHORIZATION) {
            return bearer(headers).map(Self::Token);
        }
        let certificate = connection?.certificate.as_ref()?;
        Some(Self::Certificate(Arc::clone(certificate)))
    }

    /// The hash under which its grant is stored; `None` if it lets no caller in, granted or not.
    pub(super) fn hash(&self) -> Option<TokenHash> {
        match self {
            Self::Token(hash) => Some(*hash),
            Self::Certificate(certificate) => {
                let name = &certificate.common_name;
                // A connection outlives its certificate, an identity does not.
                let is_over = certificate.not_after_ms <= stamp::wall_ms();
                let is_client = !name.is_empty() && !certificate.is_node() && !is_over;
                is_client.then(|| TokenHash::of(&certificate_principal(name)))
            }
        }
    }

    /// Whether what is stored there was granted to it.
    pub(super) fn owns(&self, grant: &TokenGrant) -> bool {
        let named = certificate_named(&grant.principal);
        match self {
            Self::Token(_) => named.is_none(),
            Self::Certificate(certificate) => named == Some(&certificate.common_name),
        }
    }
}

/// The hash of the one bearer token in the headers (RFC 6750, section 2.1).
pub(super) fn bearer(headers: &HeaderMap) -> Option<TokenHash> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    TokenHash::parse(token)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{properties::check, tls::certificate::NODE_URI};

    const TOKEN: &str = "hlv_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn headers(values: &[&str]) -> HeaderMap {
        let values = values
            .iter()
            .map(|value| (AUTHORIZATION, value.parse().unwrap()));
        values.collect()
    }

    #[test]
    fn one_bearer_token_is_a_credential_and_nothing_else_is() {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let hash = bearer(&headers(&[&format!("{scheme} {TOKEN}")]));
            assert_eq!(hash, Some(TokenHash::of(TOKEN)));
        }
        let bearer_token = format!("Bearer {TOKEN}");
        for values in [
            &[][..],
            &[TOKEN],
            &["Bearer"],
            &["Bearer "],
            &[&format!("Basic {TOKEN}")],
            &[&format!("{bearer_token} ")],
            &[&format!("Bearer  {TOKEN}")],
            &[&format!("{bearer_token}A")],
            &[&bearer_token[..bearer_token.len() - 1]],
            &[&bearer_token.replace("hlv_", "hlw_")],
            &[&bearer_token.replace("_AA", "_A!")],
            &[&bearer_token, &bearer_token],
        ] {
            assert_eq!(bearer(&headers(values)), None, "{values:?}");
        }
    }

    #[test]
    fn no_header_that_a_client_makes_up_is_taken_for_a_token() {
        let value = prop_oneof![
            "[ -~]{0,80}",
            "[Bb]earer hlv_[A-Za-z0-9_-]{0,50}",
            "Bearer [ -~]{47}"
        ];
        check(&value, |value| {
            let is_token = value.len() == "Bearer ".len() + TOKEN.len()
                && value.to_lowercase().starts_with("bearer hlv_");
            if let Ok(value) = value.parse() {
                let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
                prop_assert!(bearer(&headers).is_none() || is_token);
            }
            Ok(())
        });
    }

    fn named(common_name: &str) -> Certificate {
        Certificate {
            common_name: common_name.to_owned(),
            names: Vec::new(),
            not_before_ms: 0,
            not_after_ms: stamp::wall_ms() + 3_600_000,
        }
    }

    fn connection(certificate: Certificate) -> Info {
        Info {
            from: ([127, 0, 0, 1], 1).into(),
            certificate: Some(Arc::new(certificate)),
        }
    }

    fn granted_to(principal: &str) -> TokenGrant {
        TokenGrant {
            principal: principal.to_owned(),
            ..TokenGrant::default()
        }
    }

    #[test]
    fn a_certificate_counts_where_no_token_is_sent_and_a_token_that_is_none_is_not_helped_by_it() {
        let shop = connection(named("shop"));
        let bearer = format!("Bearer {TOKEN}");
        let shown = |values: &[&str]| Credential::shown(&headers(values), Some(&shop));
        assert!(matches!(shown(&[]), Some(Credential::Certificate(_))));
        assert_eq!(
            shown(&[&bearer]),
            Some(Credential::Token(TokenHash::of(TOKEN)))
        );
        for values in [&["Bearer nonsense"][..], &[""], &[&bearer, &bearer]] {
            assert_eq!(shown(values), None, "{values:?}");
        }
        assert_eq!(Credential::shown(&headers(&[]), None), None);
    }

    #[test]
    fn certificate_of_a_node_or_of_the_past_names_no_client() {
        let hash = |certificate| Credential::Certificate(Arc::new(certificate)).hash();
        assert_eq!(hash(named("shop")), Some(TokenHash::of("certificate:shop")));
        let node = Certificate {
            names: vec![NODE_URI.to_owned()],
            ..named("shop")
        };
        let ended = Certificate {
            not_after_ms: stamp::wall_ms(),
            ..named("shop")
        };
        for certificate in [node, ended, named("")] {
            assert_eq!(hash(certificate), None);
        }
    }

    #[test]
    fn a_grant_lets_in_whom_its_principal_names_and_no_token_as_a_certificate() {
        let shop = Credential::Certificate(Arc::new(named("shop")));
        let token = Credential::Token(TokenHash::of(TOKEN));
        for (principal, expected) in [
            ("certificate:shop", [true, false]),
            ("certificate:other", [false, false]),
            ("shop", [false, true]),
        ] {
            let grant = granted_to(principal);
            assert_eq!(
                [shop.owns(&grant), token.owns(&grant)],
                expected,
                "{principal}"
            );
        }
    }
}
