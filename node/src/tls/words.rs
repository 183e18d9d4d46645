//! Why certificates are refused, in plain words. The libraries that check them give the names of their own variants.

use rustls::{AlertDescription, CertificateError, OtherError};
use webpki::Error;

/// What is wrong with a certificate that cannot be read, or cannot be used.
pub(super) fn of_check(error: &Error) -> &'static str {
    match error {
        Error::CaUsedAsEndEntity => {
            "it is the certificate of a CA (basicConstraints CA:TRUE), which no server or client can show"
        }
        Error::EndEntityUsedAsCa => "a certificate that is no CA's has signed it",
        Error::RequiredEkuNotFoundContext(_) => {
            "its extended key usage does not allow it to be used here"
        }
        Error::EmptyEkuExtension => "its extended key usage is empty",
        Error::UnsupportedCertVersion => "it is no X.509 certificate of version 3",
        Error::UnsupportedCriticalExtension => {
            "one of its extensions is critical, and not supported"
        }
        Error::MalformedExtensions | Error::ExtensionValueInvalid => {
            "one of its extensions is malformed, or there twice"
        }
        Error::InvalidSerialNumber => "its serial number is malformed",
        Error::NameConstraintViolation => "its CA must not sign for these names",
        Error::PathLenConstraintViolated => "its CA must not sign further CAs",
        Error::InvalidCertValidity => "it ends before it begins",
        _ => "it is malformed",
    }
}

/// What is wrong with a server's certificate that a client refused.
#[must_use]
pub fn of_server(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its extended key usage lacks serverAuth: it is no server's"
        }
        CertificateError::Other(OtherError(source)) => {
            let found = source.downcast_ref::<Error>();
            found.map_or("it is malformed", of_check)
        }
        other => of_refusal(other),
    }
}

/// What is wrong with a certificate, wherever it is used.
pub(super) fn of_refusal(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::UnhandledCriticalExtension => {
            "one of its extensions is critical, and not supported"
        }
        CertificateError::Revoked => "it was revoked",
        CertificateError::BadSignature => "its signature is wrong",
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "it is signed by an algorithm that is not supported"
        }
        CertificateError::ApplicationVerificationFailure => "it fails a check of this program",
        _ => "it is malformed",
    }
}

/// What an alert says of the certificate that a client has shown; `None` if it is about something else.
#[must_use]
pub fn of_alert(alert: AlertDescription) -> Option<&'static str> {
    use AlertDescription as A;
    match alert {
        A::UnknownCA => Some("it does not trust the CA"),
        A::BadCertificate => Some("it cannot read or verify the certificate"),
        A::CertificateExpired => Some("the certificate has expired, or its clock is wrong"),
        A::CertificateRevoked => Some("the certificate was revoked"),
        A::CertificateUnknown => Some("it does not say why"),
        A::UnsupportedCertificate => Some("the certificate is not for clients"),
        A::DecryptError => Some("the certificate's signature or key is wrong"),
        A::AccessDenied => Some("its holder has no access"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn refused_certificate_is_described_without_names_of_variants() {
        let other = |error: Error| CertificateError::Other(OtherError(Arc::new(error)));
        for (error, said) in [
            (CertificateError::InvalidPurpose, "lacks serverAuth"),
            (other(Error::CaUsedAsEndEntity), "CA:TRUE"),
            (other(Error::UnsupportedCertVersion), "version 3"),
            (other(Error::BadDer), "malformed"),
            (CertificateError::Revoked, "revoked"),
            (CertificateError::BadEncoding, "malformed"),
        ] {
            let words = of_server(&error);
            assert!(words.contains(said), "{error:?}: {words}");
            assert!(!words.contains(&format!("{error:?}")), "{words}");
        }
    }

    #[test]
    fn alert_is_described_if_it_is_about_the_certificate() {
        let said = of_alert(AlertDescription::UnsupportedCertificate);
        assert_eq!(said, Some("the certificate is not for clients"));
        assert_eq!(of_alert(AlertDescription::InternalError), None);
    }
}
