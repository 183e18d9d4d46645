//! Keys that are fetched over TLS: from whom, and what of their server's answers is believed.

use std::convert::Infallible;

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use futures::{StreamExt as _, stream};
use helve_http::{Open, Port, Shutdown};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer as Signs, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::*;

/// Long enough for any answer of this machine but those that never end.
const FETCH_TIME: Duration = Duration::from_secs(2);

/// A certificate authority.
struct Authority {
    signs: Signs<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self {
            signs: Signs::new(params, key),
            certificate,
        }
    }

    /// Those who trust it.
    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    /// A server's side, with a certificate for this name.
    fn server(&self, name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.signs).unwrap().der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key);
        Arc::new(config.unwrap()).into()
    }
}

#[derive(Clone)]
struct Secure(TlsAcceptor);

impl Open for Secure {
    type Stream = TlsStream<TcpStream>;

    async fn open(&self, stream: TcpStream) -> std::io::Result<Self::Stream> {
        self.0.accept(stream).await
    }
}

/// What the server answers.
#[derive(Debug, Clone)]
enum Answer {
    Set,
    Typed(&'static str),
    Untyped,
    Redirect(String),
    TooLarge,
    /// A part of a set, and then nothing.
    Slow,
}

impl Answer {
    fn response(self) -> Response {
        let good = set(&[p256_jwk(Some("id"))]);
        let typed = |kind: &str, body: Body| {
            let response = Response::builder().header(header::CONTENT_TYPE, kind);
            response.body(body).unwrap()
        };
        let json = |body: Body| typed("application/jwk-set+json; charset=utf-8", body);
        match self {
            Self::Set => json(good.into()),
            Self::Typed(kind) => typed(kind, good.into()),
            Self::Untyped => Response::new(good.into()),
            Self::Redirect(to) => {
                let response = Response::builder().status(StatusCode::FOUND);
                let response = response.header(header::LOCATION, to);
                response.body(good.into()).unwrap()
            }
            Self::TooLarge => json(format!("{good}{}", " ".repeat(1 << 20)).into()),
            Self::Slow => {
                let part = Bytes::copy_from_slice(&good.as_bytes()[..good.len() / 2]);
                let part = stream::iter([Ok::<_, Infallible>(part)]);
                json(Body::from_stream(part.chain(stream::pending())))
            }
        }
    }
}

/// An issuer's server.
#[derive(Clone)]
struct Secured {
    answer: Arc<Mutex<Answer>>,
    asked: Arc<AtomicUsize>,
    url: String,
}

impl Secured {
    /// With a certificate for this name.
    async fn serve(authority: &Authority, name: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let secured = Self {
            answer: Arc::new(Mutex::new(Answer::Set)),
            asked: Arc::default(),
            url: format!("https://localhost:{port}/jwks"),
        };
        let answers = secured.clone();
        let answer = move || async move {
            answers.asked.fetch_add(1, Ordering::SeqCst);
            let answer = answers.answer.lock().unwrap().clone();
            answer.response()
        };
        let router = Router::new().route("/jwks", get(answer));
        let secure = Secure(authority.server(name));
        let port = Port::new("an issuer");
        tokio::spawn(helve_http::serve(
            listener,
            secure,
            router,
            port,
            Shutdown::new(),
        ));
        secured
    }

    fn now(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    async fn open(&self, roots: RootCertStore) -> Result<Verifier, KeysError> {
        let url = JwksUrl::of_test(&self.url, roots, FETCH_TIME);
        Source::open_at(KeySource::Url(url), EAGER).await.map(only)
    }

    /// Waits until it has been asked twice more: the answer to the first of them has been judged then.
    async fn asked_again(&self) {
        let before = self.asked.load(Ordering::SeqCst);
        while self.asked.load(Ordering::SeqCst) < before + 2 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn keys_are_believed_of_a_server_that_the_authority_vouches_for() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let secured = Secured::serve(&trusted, "localhost").await;
    let verifier = secured.open(trusted.roots()).await.unwrap();
    assert!(verifier.verify(&token("id")).is_ok());
    for roots in [RootCertStore::empty(), other.roots()] {
        let refused = secured.open(roots).await.unwrap_err().to_string();
        assert!(refused.contains("invalid peer certificate"), "{refused}");
    }
    let misnamed = Secured::serve(&trusted, "id.example").await;
    let refused = misnamed
        .open(trusted.roots())
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("not valid for name"), "{refused}");
    assert_eq!(misnamed.asked.load(Ordering::SeqCst), 0);
    drop(verifier);
}

/// Answers that are not believed, and what is said of each.
fn not_believed(elsewhere: &str) -> Vec<(Answer, &'static str)> {
    vec![
        (
            Answer::Redirect(elsewhere.to_owned()),
            "redirects to http://",
        ),
        (Answer::Typed("text/html; charset=utf-8"), "not with JSON"),
        (Answer::Typed("application/octet-stream"), "not with JSON"),
        (Answer::TooLarge, "over 1048576 bytes"),
        (Answer::Slow, "did not answer within"),
    ]
}

#[tokio::test]
async fn server_that_redirects_or_answers_with_no_set_starts_nothing() {
    let authority = Authority::new();
    let secured = Secured::serve(&authority, "localhost").await;
    let plain = Issuing::serve(set(&[p256_jwk(Some("mallory"))])).await;
    for (answer, why) in not_believed(&plain.url) {
        secured.now(answer);
        let refused = secured
            .open(authority.roots())
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains(why), "{why}: {refused}");
    }
    assert_eq!(plain.asked(), 0, "a redirect is not followed");
    for answer in [
        Answer::Untyped,
        Answer::Typed("application/json"),
        Answer::Typed("Application/JWK-Set+JSON"),
    ] {
        secured.now(answer);
        let verifier = secured.open(authority.roots()).await.unwrap();
        assert!(verifier.verify(&token("id")).is_ok());
    }
}

#[tokio::test]
async fn keys_stay_while_their_server_redirects_or_answers_with_no_set() {
    let authority = Authority::new();
    let secured = Secured::serve(&authority, "localhost").await;
    let verifier = secured.open(authority.roots()).await.unwrap();
    becomes(&verifier, "id", Ok(())).await;
    let plain = Issuing::serve(set(&[p256_jwk(Some("mallory"))])).await;
    for (answer, why) in not_believed(&plain.url) {
        secured.now(answer);
        secured.asked_again().await;
        assert!(verifier.verify(&token("id")).is_ok(), "{why}");
        let foreign = verifier.verify(&token("mallory")).map(drop);
        assert_eq!(foreign, Err(Rejected::NoKey), "{why}");
    }
    assert_eq!(plain.asked(), 0, "a redirect is not followed");
}
