//! What a certificate says (RFC 5280).

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;
use yasna::{
    ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, Tag,
    models::ObjectIdentifier,
    tags::{TAG_GENERALIZEDTIME, TAG_UTCTIME},
};

use super::words;

/// The URI among a certificate's names that makes it a node's. `helve cert node` puts it in; another PKI must do so, too.
pub const NODE_URI: &str = "helve:node";

/// Before its end by this much at most, a certificate is reported; by a third of its life if that is less.
const WARNING_MS_MAX: u64 = 14 * DAY_MS;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// What a certificate says, as far as a node cares. Its issuer was checked elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The subject's common name; empty if it has none.
    pub common_name: String,
    /// The subject's alternative names that are DNS names or URIs, as the certificate gives them.
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
        let named = EndEntityCert::try_from(der);
        let named = named.map_err(|error| words::of_check(&error).to_owned())?;
        let names = named.valid_dns_names().chain(named.valid_uri_names());
        let names = names.map(str::to_owned).collect();
        let signed = yasna::parse_der(der, Signed::read);
        let signed = signed.map_err(|_| "it is malformed".to_owned())?;
        Ok(Self {
            common_name: signed.common_name,
            names,
            not_before_ms: signed.not_before_ms,
            not_after_ms: signed.not_after_ms,
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
            return Some(
                "has expired: no node or client that checks it connects any more".to_owned(),
            );
        }
        (left_ms < WARNING_MS_MAX.min(life_ms / 3)).then(|| match left_ms / DAY_MS {
            0 => "expires within a day".to_owned(),
            days => format!("expires in {days} days"),
        })
    }
}

/// What the CA has signed, in part.
struct Signed {
    common_name: String,
    not_before_ms: u64,
    not_after_ms: u64,
}

impl Signed {
    /// Reads a certificate (RFC 5280, 4.1), and passes over what it has no use for.
    fn read(certificate: BERReader<'_, '_>) -> ASN1Result<Self> {
        certificate.read_sequence(|certificate| {
            let signed = certificate.next().read_sequence(|signed| {
                signed.read_optional(|version| version.read_tagged(Tag::context(0), number))?;
                for _ in ["serial number", "algorithm", "issuer"] {
                    signed.next().read_der()?;
                }
                let (not_before_ms, not_after_ms) = signed
                    .next()
                    .read_sequence(|life| Ok((time_ms(life.next())?, time_ms(life.next())?)))?;
                let common_name = common_name(signed.next())?;
                while signed.read_optional(skip)?.is_some() {}
                Ok(Self {
                    common_name,
                    not_before_ms,
                    not_after_ms,
                })
            })?;
            for _ in ["algorithm", "signature"] {
                certificate.next().read_der()?;
            }
            Ok(signed)
        })
    }
}

/// Until 2049 in the one form, from then on in the other.
fn time_ms(time: BERReader<'_, '_>) -> ASN1Result<u64> {
    let seconds = match time.lookahead_tag()? {
        TAG_UTCTIME => time.read_utctime()?.datetime().unix_timestamp(),
        TAG_GENERALIZEDTIME => time.read_generalized_time()?.datetime().unix_timestamp(),
        _ => return Err(ASN1Error::new(ASN1ErrorKind::Invalid)),
    };
    Ok(u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000))
}

/// The first one of the subject; empty if there is none that is text.
fn common_name(subject: BERReader<'_, '_>) -> ASN1Result<String> {
    let kind = ObjectIdentifier::from_slice(&[2, 5, 4, 3]);
    let mut found = None;
    subject.read_sequence_of(|set| {
        set.read_set_of(|attribute| {
            attribute.read_sequence(|attribute| {
                let is_name = attribute.next().read_oid()? == kind;
                let value = attribute.next().read_tagged_der()?;
                if is_name && found.is_none() {
                    found = String::from_utf8(value.value().to_vec()).ok();
                }
                Ok(())
            })
        })
    })?;
    Ok(found.unwrap_or_default())
}

fn number(part: BERReader<'_, '_>) -> ASN1Result<u8> {
    part.read_u8()
}

fn skip(part: BERReader<'_, '_>) -> ASN1Result<()> {
    part.read_der().map(drop)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::{
        properties::{bytes_like, check},
        tls::authority::{Authority, Life},
    };

    #[test]
    fn a_certificate_that_a_peer_makes_up_is_refused_or_read() {
        let life = Life::of(Duration::from_secs(3_600));
        let (authority, ca) = Authority::make("ca", life).unwrap();
        let node = authority
            .node("a", &["localhost".to_owned()], life)
            .unwrap();
        let real = [ca.certificate_pem, node.certificate_pem].map(|pem| {
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            der.to_vec()
        });
        for der in &real {
            assert!(Certificate::parse(&der.as_slice().into()).is_ok());
        }
        check(&bytes_like(real.into()), |bytes| {
            let read = Certificate::parse(&bytes.as_slice().into());
            let names = read.map_or(0, |it| it.common_name.len() + it.names.concat().len());
            prop_assert!(names <= bytes.len());
            Ok(())
        });
    }

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
