//! What a certificate says (RFC 5280).

use rustls::pki_types::CertificateDer;
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

/// The URI among a certificate's names that makes it a node's. `helve cert node` puts it in; another PKI must do so, too.
pub const NODE_URI: &str = "helve:node";

/// Before its end by this much at most, a certificate is reported; by a third of its life if that is less.
const WARNING_MS_MAX: u64 = 14 * DAY_MS;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// What a certificate says, as far as a node cares. Whoever made it was checked elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The subject's common name; empty if it has none.
    pub common_name: String,
    /// The subject's alternative names that are DNS names or URIs, as they stand there.
    pub names: Vec<String>,
    /// Milliseconds since the Unix epoch.
    pub not_before_ms: u64,
    /// Milliseconds since the Unix epoch; from then on it is worth nothing.
    pub not_after_ms: u64,
}

impl Certificate {
    /// Reads a certificate.
    ///
    /// # Errors
    /// If it is none, or of a kind that no CA should sign.
    pub fn parse(der: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, read) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
        let common_name = read.subject().iter_common_name().next();
        let common_name = common_name.and_then(|name| name.as_str().ok());
        let alternatives = read
            .subject_alternative_name()
            .map_err(|error| error.to_string())?;
        let alternatives = alternatives
            .iter()
            .flat_map(|found| &found.value.general_names);
        let names = alternatives.filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::URI(name) => Some((*name).to_owned()),
            _ => None,
        });
        let ms = |seconds: i64| u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
        Ok(Self {
            common_name: common_name.unwrap_or_default().to_owned(),
            names: names.collect(),
            not_before_ms: ms(read.validity().not_before.timestamp()),
            not_after_ms: ms(read.validity().not_after.timestamp()),
        })
    }

    /// Whether it is a node's.
    #[must_use]
    pub fn is_node(&self) -> bool {
        self.names.iter().any(|name| name == NODE_URI)
    }

    /// What an operator should know of its end at this time; `None` while that is far.
    #[must_use]
    pub fn warning(&self, now_ms: u64) -> Option<String> {
        let left_ms = self.not_after_ms.saturating_sub(now_ms);
        let life_ms = self.not_after_ms.saturating_sub(self.not_before_ms);
        if left_ms == 0 {
            return Some("has expired: nobody who checks it connects any more".to_owned());
        }
        (left_ms < WARNING_MS_MAX.min(life_ms / 3)).then(|| match left_ms / DAY_MS {
            0 => "expires within a day".to_owned(),
            days => format!("expires in {days} days"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn living(days: u64) -> Certificate {
        Certificate {
            common_name: String::new(),
            names: Vec::new(),
            not_before_ms: 0,
            not_after_ms: days * DAY_MS,
        }
    }

    #[test]
    fn the_end_of_a_certificate_is_announced_in_time_for_its_life() {
        let yearly = living(365);
        assert_eq!(yearly.warning(350 * DAY_MS), None);
        let said = yearly.warning(352 * DAY_MS).unwrap();
        assert_eq!(said, "expires in 13 days");
        let daily = living(1);
        assert_eq!(daily.warning(DAY_MS / 2), None);
        assert_eq!(daily.warning(DAY_MS - 1).unwrap(), "expires within a day");
        assert!(daily.warning(DAY_MS).unwrap().starts_with("has expired"));
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        for bytes in [&b""[..], b"no DER", &[0x30, 0x82, 0xff, 0xff]] {
            assert!(Certificate::parse(&CertificateDer::from(bytes)).is_err());
        }
    }
}
