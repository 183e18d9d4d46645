//! Where the objects are, and who asks for them.

use std::{fmt, time::Duration};

use helve_client::Error;
use helve_proto::{Reason, shown_url};
use object_store::{
    BackoffConfig, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey},
};
use zeroize::Zeroizing;

use super::wire::Wire;

/// A request that certainly was not carried out is made again this often.
const RETRIES_MAX: usize = 3;

/// Where the objects are. Without [`credentials`](Self::credentials) they come from the environment, as for every tool of AWS:
/// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, or the role of the machine.
#[derive(Clone)]
pub struct S3Options {
    bucket: String,
    region: Option<String>,
    endpoint: Option<String>,
    credentials: Option<(String, Zeroizing<String>)>,
    allow_http: bool,
}

impl S3Options {
    /// The bucket, which must exist.
    #[must_use]
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            region: None,
            endpoint: None,
            credentials: None,
            allow_http: false,
        }
    }

    /// The bucket's region, as `us-west-2`.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// Another service than AWS's own, as `https://minio.example:9000`.
    #[must_use]
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// An access key's id and its secret, in place of the environment's. The secret is wiped from memory with the options.
    #[must_use]
    pub fn credentials(mut self, id: impl Into<String>, secret: impl Into<String>) -> Self {
        self.credentials = Some((id.into(), Zeroizing::new(secret.into())));
        self
    }

    /// The endpoint may be `http://`: for a network that you vouch for.
    #[must_use]
    pub fn allow_http(mut self) -> Self {
        self.allow_http = true;
        self
    }

    pub(super) fn open(&self, deadline: Duration) -> Result<AmazonS3, Error> {
        if self.bucket.is_empty() {
            return Err(refused("an S3 bucket without name"));
        }
        let is_http = self
            .endpoint
            .as_ref()
            .is_some_and(|endpoint| endpoint.starts_with("http://"));
        if is_http && !self.allow_http {
            return Err(refused(
                "an endpoint of http: use https, or allow_http within a network that you vouch for",
            ));
        }
        let wire = if is_http {
            Wire::http()?
        } else {
            Wire::https()?
        };
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(&self.bucket)
            .with_allow_http(self.allow_http)
            // `object_store` 0.14.2 panics if the answer to a bulk deletion names another key.
            .with_disable_bulk_delete(true)
            .with_http_connector(wire)
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: RETRIES_MAX,
                retry_timeout: deadline,
            });
        if let Some(region) = &self.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some((id, secret)) = &self.credentials {
            builder = builder
                .with_access_key_id(id)
                .with_secret_access_key(secret.as_str());
        }
        // What the store's errors repeat of it would show a password.
        let endpoints = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
        let mut endpoints = endpoints
            .map(|key| builder.get_config_value(&key))
            .into_iter();
        if endpoints.any(|endpoint| endpoint.is_some_and(|endpoint| endpoint.contains('@'))) {
            return Err(refused(
                "an endpoint with a user name: leave it out, and give credentials as access key and secret",
            ));
        }
        builder.build().map_err(|error| {
            refused(format!("no S3 bucket that can be reached: {error}")).with_source(error)
        })
    }
}

fn refused(message: impl Into<String>) -> Error {
    Error::refused(Reason::BadRequest, message, 0, 0)
}

impl fmt::Debug for S3Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Options")
            .field("bucket", &self.bucket)
            .field("region", &self.region)
            .field("endpoint", &self.endpoint.as_deref().map(shown_url))
            .field(
                "access_key_id",
                &self.credentials.as_ref().map(|(id, _)| id),
            )
            .field("allow_http", &self.allow_http)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_with_a_password_is_refused_and_not_repeated() {
        let options = S3Options::new("b").endpoint("http://a:s3cret@minio.example:9000");
        let options = options.allow_http();
        let why = options.open(Duration::from_secs(1)).err();
        let why = why.map(|error| format!("{error:?}")).unwrap_or_default();
        assert!(why.contains("an endpoint with a user name"), "{why}");
        let said = format!("{options:?} {why}");
        assert!(!said.contains("s3cret"), "{said}");
    }
}
