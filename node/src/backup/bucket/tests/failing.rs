//! What is said of a store that fails: through its client, whose answers are made here.

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use hyper::StatusCode;
use object_store::{
    BackoffConfig, ClientOptions, RetryConfig,
    aws::AmazonS3Builder,
    client::{
        HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody,
        HttpService,
    },
};

use rustls::RootCertStore;

use super::{
    super::{
        connect::open,
        wire::{Wire, bounded},
    },
    *,
};
use crate::backup::PlainHttp;

const SECRET: &str = "a-very-secret-key";

/// Answers every request in the same way, or never.
#[derive(Debug, Clone)]
enum Answers {
    With(u16, String),
    Never,
}

impl HttpConnector for Answers {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Answers {
    async fn call(&self, _request: HttpRequest) -> Result<HttpResponse, HttpError> {
        match self {
            Self::Never => std::future::pending().await,
            Self::With(status, body) => {
                let body = HttpResponseBody::from(body.clone());
                let mut response = HttpResponse::new(body);
                *response.status_mut() = StatusCode::from_u16(*status).unwrap();
                Ok(response)
            }
        }
    }
}

pub(super) fn bucket(endpoint: &str, connector: impl HttpConnector, call: Duration) -> Bucket {
    let builder = AmazonS3Builder::new()
        .with_bucket_name("b")
        .with_region("us-east-1")
        .with_endpoint(endpoint)
        .with_access_key_id("id")
        .with_secret_access_key(SECRET)
        .with_retry(RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: 0,
            retry_timeout: Duration::ZERO,
        });
    let store = open(builder, connector).unwrap();
    let bounds = Bounds { call, ..BOUNDS };
    let url = PathBuf::from("s3://b/helve");
    Bucket::new(Arc::new(store), url, "helve".to_owned(), bounds)
}

/// What is wrong by each of the requests that a command may begin with.
async fn problems(mut bucket: Bucket) -> Vec<StoreProblem> {
    let listed = bucket.list().await.map(drop);
    let found = bucket.find(Some("01234567-2")).await.map(drop);
    let begun = bucket.begin(Work::Backup).await;
    let mut problems = Vec::new();
    for outcome in [listed, found, begun] {
        let error = outcome.unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(!said.contains(SECRET), "{said}");
        match error {
            BackupError::Store(error) => {
                assert!(said.contains("s3://b/helve: "), "{said}");
                problems.push(error.problem);
            }
            other => panic!("{other:?}"),
        }
    }
    problems
}

fn code(code: &str) -> String {
    format!("<Error><Code>{code}</Code><Message>{SECRET}</Message></Error>")
}

#[tokio::test]
async fn store_that_refuses_is_blamed_with_its_code_and_no_secret() {
    let refused = |code: &str| StoreProblem::Refused(code.to_owned());
    for (status, body, problem) in [
        (403, code("AccessDenied"), refused("AccessDenied")),
        (
            403,
            code("SignatureDoesNotMatch"),
            refused("SignatureDoesNotMatch"),
        ),
        (400, code("ExpiredToken"), refused("ExpiredToken")),
        (403, code("RequestTimeTooSkewed"), StoreProblem::ClockSkew),
        (404, code("NoSuchBucket"), StoreProblem::NoBucket),
        (
            404,
            code("NoSuchVersion"),
            StoreProblem::Other("NoSuchVersion".to_owned()),
        ),
        (
            400,
            code("AuthorizationHeaderMalformed"),
            StoreProblem::OtherRegion,
        ),
        (301, code("PermanentRedirect"), StoreProblem::OtherRegion),
        (501, code("NotImplemented"), StoreProblem::Unconditional),
        (
            503,
            code("SlowDown"),
            StoreProblem::Other("SlowDown".to_owned()),
        ),
        (
            503,
            SECRET.to_owned(),
            StoreProblem::Other("HTTP 503".to_owned()),
        ),
    ] {
        let answers = Answers::With(status, body);
        let bucket = bucket("https://store.example", answers, BOUNDS.call);
        for found in problems(bucket).await {
            assert_eq!(found, problem, "{status}");
        }
    }
}

#[tokio::test]
async fn deletion_that_is_refused_for_a_key_is_understood() {
    let key = Key::parse("helve/running/delete-1").unwrap();
    let removed = async |status: u16, body: String| {
        let answers = Answers::With(status, body);
        let bucket = bucket("https://store.example", answers, BOUNDS.call);
        bucket.remove(&key).await
    };
    let refused = removed(403, code("AccessDenied")).await.unwrap_err();
    assert!(!format!("{refused} {refused:?}").contains(SECRET));
    assert!(
        matches!(
            &refused,
            BackupError::Store(StoreError { problem: StoreProblem::Refused(code), .. })
                if code == "AccessDenied"
        ),
        "{refused:?}"
    );
    assert!(removed(404, code("NoSuchKey")).await.is_ok());
}

#[tokio::test]
async fn deletion_that_is_answered_with_another_key_breaks_nothing() {
    let deleted = "<DeleteResult><Error><Key>helve/another</Key><Code>AccessDenied</Code>\
                   <Message>no</Message></Error></DeleteResult>";
    let answers = Answers::With(200, deleted.to_owned());
    let bucket = bucket("https://store.example", answers, BOUNDS.call);
    let key = |name: &str| Key::parse(format!("helve/{name}")).unwrap();
    bucket.remove(&key("one")).await.unwrap();
    let keys = stream::iter(["one", "two"].map(|name| Ok(key(name))));
    let removed = bucket.store.delete_stream(keys.boxed());
    assert_eq!(removed.try_collect::<Vec<_>>().await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn store_that_never_answers_is_given_up() {
    let call = Duration::from_secs(7);
    let bucket = bucket("https://store.example", Answers::Never, call);
    for found in problems(bucket).await {
        assert_eq!(found, StoreProblem::Slow(7));
    }
}

#[tokio::test]
async fn store_behind_plain_http_or_nothing_is_named() {
    let wire = || Wire::new(PlainHttp::Refused, RootCertStore::empty()).unwrap();
    let plain = bucket("http://store.example:9000", wire(), BOUNDS.call);
    for found in problems(plain).await {
        let host = "store.example:9000".to_owned();
        assert_eq!(found, StoreProblem::PlainHttp(host));
    }
    let closed = bucket("http://127.0.0.1:9", wire(), BOUNDS.call);
    for found in problems(closed).await {
        assert!(
            matches!(&found, StoreProblem::Unreachable { host, .. } if host == "127.0.0.1:9"),
            "{found:?}"
        );
    }
}

#[tokio::test]
async fn answer_that_is_too_long_is_named() {
    let body = HttpResponseBody::from("0123456789".to_owned());
    let error = bounded(body, Some(9)).bytes().await.unwrap_err();
    let failure = Failure::Store(object_store::Error::Generic {
        store: "S3",
        source: Box::new(error),
    });
    let said = "with more bytes than such an answer has".to_owned();
    assert_eq!(failure.problem(), StoreProblem::Other(said));
}
