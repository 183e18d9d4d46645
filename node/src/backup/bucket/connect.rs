//! Where a URL leads, by the environment that the tools of AWS have.

use std::{path::PathBuf, sync::Arc};

use helve_proto::is_loopback_host;
use hyper::Uri;
use object_store::{
    BackoffConfig, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey},
    client::HttpConnector,
};
use rustls::RootCertStore;

use super::{
    Bounds, Bucket,
    wire::{Wire, authorities},
};
use crate::{
    backup::{
        BackupError,
        store_error::{StoreError, StoreProblem},
        url::{PlainHttp, Url},
    },
    limits::{BUCKET_CALL_MAX, BUCKET_RETRIES_MAX},
};

/// Characters that S3 has for the names of buckets, beside letters and digits.
const BUCKET_SIGNS: &[u8] = b".-";

/// Characters of prefixes, beside letters and digits: none has to be escaped.
const PREFIX_SIGNS: &[u8] = b"._-";

/// Bytes of a prefix: enough of S3's 1,024 for a key are left for names of files.
const PREFIX_BYTES_MAX: usize = 512;

/// The bucket of a URL. Nothing is sent yet.
///
/// # Errors
/// If the URL or the environment does not fit, or it would be reached by plain HTTP.
pub(in crate::backup) fn connect(url: &Url<'_>, http: PlainHttp) -> Result<Bucket, BackupError> {
    let place = url.shown();
    let refused = |problem| StoreError {
        place: place.clone(),
        action: "use",
        problem,
    };
    let (bucket, prefix) = parts(url).map_err(refused)?;
    let builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: BUCKET_RETRIES_MAX,
            retry_timeout: BUCKET_CALL_MAX,
        });
    if has_user(&builder) {
        let problem = "AWS_ENDPOINT_URL has a user name, which belongs in AWS_ACCESS_KEY_ID";
        return Err(refused(StoreProblem::Environment(problem.to_owned())).into());
    }
    let plain = plain_host(&builder);
    if let Some(host) = &plain
        && http == PlainHttp::Refused
        && !is_loopback_host(host)
    {
        return Err(refused(StoreProblem::PlainHttp(host.clone())).into());
    }
    let roots = trusted(plain.as_deref(), authorities()).map_err(refused)?;
    let wire = Wire::new(http, roots).map_err(refused)?;
    let store = open(builder, wire);
    let store = store.map_err(|error| refused(StoreProblem::Environment(lacking(&error))))?;
    let url = PathBuf::from(place);
    Ok(Bucket::new(Arc::new(store), url, prefix, Bounds::DEFAULT))
}

/// A client whose requests go this way. It deletes objects one by one: `object_store` 0.14.2 panics if a store answers a bulk deletion
/// with a key that it was not asked for.
pub(super) fn open(
    builder: AmazonS3Builder,
    connector: impl HttpConnector,
) -> object_store::Result<AmazonS3> {
    builder
        .with_disable_bulk_delete(true)
        .with_http_connector(connector)
        .build()
}

/// The bucket and the prefix of a URL.
fn parts(url: &Url<'_>) -> Result<(String, String), StoreProblem> {
    if url.scheme != "s3" {
        return Err(StoreProblem::BadUrl("it is of a kind that is not known"));
    }
    let (bucket, prefix) = url.rest.split_once('/').unwrap_or((url.rest, ""));
    let has = |text: &str, signs: &[u8]| {
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || signs.contains(&byte);
        text.bytes().all(is_sign)
    };
    if bucket.is_empty() || !has(bucket, BUCKET_SIGNS) {
        return Err(StoreProblem::BadUrl("it names no bucket"));
    }
    let prefix = prefix.trim_end_matches('/');
    let is_name =
        |part: &str| has(part, PREFIX_SIGNS) && !part.is_empty() && part != "." && part != "..";
    let is_prefix = prefix.is_empty() || prefix.split('/').all(is_name);
    if !is_prefix || prefix.len() > PREFIX_BYTES_MAX {
        return Err(StoreProblem::BadUrl(
            "its prefix may have letters, digits, `.`, `_` and `-` between slashes, and 512 bytes",
        ));
    }
    Ok((bucket.to_owned(), prefix.to_owned()))
}

fn endpoint(builder: &AmazonS3Builder) -> Option<String> {
    let of_s3 = builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint);
    of_s3.or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint))
}

/// Whether an endpoint has a user name, and perhaps a password, which errors of requests would
/// repeat.
fn has_user(builder: &AmazonS3Builder) -> bool {
    endpoint(builder).is_some_and(|endpoint| endpoint.contains('@'))
}

/// The host of an endpoint that begins with `http://`.
fn plain_host(builder: &AmazonS3Builder) -> Option<String> {
    let endpoint = endpoint(builder)?;
    let uri: Uri = endpoint.parse().ok()?;
    let host = uri.host()?;
    (uri.scheme_str() == Some("http")).then(|| host.to_owned())
}

/// The certificate authorities for a store, which has this host at a plain endpoint. What gives
/// credentials may need them where the store does not.
///
/// # Errors
/// If there are none, and the store needs them.
fn trusted(plain: Option<&str>, found: RootCertStore) -> Result<RootCertStore, StoreProblem> {
    if plain.is_none() && found.is_empty() {
        return Err(StoreProblem::NoAuthorities);
    }
    Ok(found)
}

/// What the environment lacks. Other errors may repeat what is in it, and so secrets.
fn lacking(error: &object_store::Error) -> String {
    let text = error.to_string();
    let known = [
        ("AccessKeyId", "AWS_ACCESS_KEY_ID is missing"),
        ("SecretAccessKey", "AWS_SECRET_ACCESS_KEY is missing"),
    ];
    let found = known
        .iter()
        .find(|(sign, _)| text.contains(&format!("Missing {sign}")));
    let said = found.map_or("a variable is not what it should be", |(_, said)| *said);
    said.to_owned()
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{Der, TrustAnchor};

    use super::*;

    #[test]
    fn url_names_a_bucket_and_a_prefix_of_plain_names() {
        let parts = |text| parts(&Url::parse(text).unwrap());
        let good = |bucket: &str, prefix: &str| Ok((bucket.to_owned(), prefix.to_owned()));
        assert_eq!(parts("s3://b"), good("b", ""));
        assert_eq!(parts("s3://b/"), good("b", ""));
        assert_eq!(
            parts("s3://b-1.x/helve/prod_2/"),
            good("b-1.x", "helve/prod_2")
        );
        for bad in [
            "s3://",
            "s3:///helve",
            "s3://key:secret@b/helve",
            "s3://b//helve",
            "s3://b/../other",
            "s3://b/a b",
            "s3://b/a?versionId=1",
            "gopher://b/helve",
        ] {
            let refused = parts(bad);
            assert!(
                matches!(refused, Err(StoreProblem::BadUrl(_))),
                "{bad}: {refused:?}"
            );
        }
    }

    #[test]
    fn host_of_a_plain_endpoint_is_found_and_none_of_another() {
        let host = |endpoint: &str| {
            let builder = AmazonS3Builder::new().with_endpoint(endpoint);
            plain_host(&builder)
        };
        assert_eq!(
            host("http://store.example:9000"),
            Some("store.example".to_owned())
        );
        assert_eq!(host("https://store.example:9000"), None);
        for (endpoint, has) in [("https://a:s3cret@h", true), ("https://h:9000", false)] {
            let builder = AmazonS3Builder::new().with_endpoint(endpoint);
            assert_eq!(has_user(&builder), has, "{endpoint}");
        }
        assert_eq!(plain_host(&AmazonS3Builder::new()), None);
    }

    #[test]
    fn authorities_are_kept_at_a_plain_endpoint() {
        let one = RootCertStore {
            roots: vec![TrustAnchor {
                subject: Der::from_slice(b"1"),
                subject_public_key_info: Der::from_slice(b"2"),
                name_constraints: None,
            }],
        };
        for plain in [None, Some("127.0.0.1")] {
            let kept = trusted(plain, one.clone()).unwrap();
            assert_eq!(kept.len(), 1, "{plain:?}");
        }
        let none = RootCertStore::empty;
        let refused = trusted(None, none()).map(|roots| roots.len());
        assert_eq!(refused, Err(StoreProblem::NoAuthorities));
        assert!(trusted(Some("127.0.0.1"), none()).is_ok());
    }
}
