//! Keys that change while a server runs.

mod replaced;
mod secured;

use std::{
    fs,
    os::unix::fs::symlink,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{Router, extract::State, response::IntoResponse, routing::get};
use http::{StatusCode, header};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    time::{advance, sleep},
};

use super::*;
use crate::bearer::{Rejected, Verifier, issuer::Issuer};

#[allow(dead_code, reason = "shared with other tests")]
#[path = "../../../tests/tokens/mod.rs"]
mod tokens;

use tokens::{AUDIENCE, Claims, SECRET, Signer, p256_jwk};

/// How many looks a test waits for a change. One is enough for the first look after it.
const LOOKS: usize = 5;

fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

fn only(source: Arc<Source>) -> Verifier {
    Verifier::of(vec![Issuer::of_sources(vec![source])], AUDIENCE.to_owned())
}

/// A file, what checks tokens with it, and who signs them.
struct Setting {
    directory: TempDir,
    verifier: Verifier,
    signer: Signer,
}

impl Setting {
    fn new(content: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("keys"), content).unwrap();
        Self::of(directory)
    }

    fn of(directory: TempDir) -> Self {
        let path = directory.path().join("keys");
        let verifier = only(Source::of_file(&path, Said::Keys).unwrap());
        Self {
            directory,
            verifier,
            signer: Signer::es256(),
        }
    }

    fn write(&self, content: &str) {
        fs::write(self.directory.path().join("keys"), content).unwrap();
    }

    fn verdict(&self, id: &str) -> Result<(), Rejected> {
        let header = json!({"alg": "ES256", "kid": id});
        let token = self.signer.sign_with(&header, &Claims::of("alice"));
        self.verifier.verify(&token).map(drop)
    }

    /// Waits until a token with this key's id is judged so. The clock is stopped while files are
    /// read, so that a few looks are enough.
    async fn becomes(&self, id: &str, verdict: Result<(), Rejected>) {
        for _ in 0..LOOKS {
            if self.verdict(id) == verdict {
                return;
            }
            sleep(LOOK_EVERY).await;
        }
        assert_eq!(self.verdict(id), verdict, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_works_from_its_addition_until_its_withdrawal() {
    let setting = Setting::new(&set(&[p256_jwk(Some("old"))]));
    assert_eq!(setting.verdict("old"), Ok(()));
    assert_eq!(setting.verdict("new"), Err(Rejected::NoKey));
    setting.write(&set(&[p256_jwk(Some("old")), p256_jwk(Some("new"))]));
    setting.becomes("new", Ok(())).await;
    assert_eq!(setting.verdict("old"), Ok(()));
    // Of the same length: only the content tells.
    setting.write(&set(&[p256_jwk(Some("odd")), p256_jwk(Some("new"))]));
    setting.becomes("old", Err(Rejected::NoKey)).await;
    assert_eq!(setting.verdict("new"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn files_that_are_swapped_under_their_name_are_read() {
    // As Kubernetes mounts secrets: keys -> ..data/keys, ..data -> ..1, and ..data is renamed over.
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (version, id) in [("..1", "old"), ("..2", "new")] {
        fs::create_dir(path(version)).unwrap();
        fs::write(path(version).join("keys"), set(&[p256_jwk(Some(id))])).unwrap();
    }
    symlink("..1", path("..data")).unwrap();
    symlink("..data/keys", path("keys")).unwrap();
    let (next, data, renamed) = (path("..next"), path("..data"), path("keys"));
    let setting = Setting::of(directory);
    assert_eq!(setting.verdict("old"), Ok(()));
    symlink("..2", &next).unwrap();
    fs::rename(&next, &data).unwrap();
    setting.becomes("new", Ok(())).await;
    assert_eq!(setting.verdict("old"), Err(Rejected::NoKey));
    // And a file that is renamed over, as editors and careful programs do.
    fs::write(&next, set(&[p256_jwk(Some("newest"))])).unwrap();
    fs::rename(&next, &renamed).unwrap();
    setting.becomes("newest", Ok(())).await;
}

#[tokio::test(start_paused = true)]
async fn keys_that_cannot_be_read_again_are_used_for_an_hour() {
    let good = set(&[p256_jwk(Some("id"))]);
    let spoilt = ["{\"keys\":[", "<html>", "", "\u{feff}{\"keys\":[]}"];
    for content in spoilt {
        let setting = Setting::new(&good);
        assert_eq!(setting.verdict("id"), Ok(()));
        sleep(LOOK_EVERY * 2).await;
        setting.write(content);
        advance(KEYS_KEPT_MAX - LOOK_EVERY * 8).await;
        setting.becomes("id", Ok(())).await;
        advance(LOOK_EVERY * 10).await;
        // A look that is overdue refuses tokens as well.
        sleep(LOOK_EVERY * 2).await;
        setting.becomes("id", Err(Rejected::KeysTooOld)).await;
        setting.write(&good);
        setting.becomes("id", Ok(())).await;
        fs::remove_file(setting.directory.path().join("keys")).unwrap();
        advance(KEYS_KEPT_MAX + LOOK_EVERY).await;
        setting.becomes("id", Err(Rejected::KeysTooOld)).await;
    }
}

/// A server that was idle has looked at its keys all the same.
#[tokio::test(start_paused = true)]
async fn key_withdrawn_before_the_first_token_works_for_none() {
    let setting = Setting::new(&set(&[p256_jwk(Some("old"))]));
    setting.write(&set(&[p256_jwk(Some("new"))]));
    advance(Duration::from_secs(2 * 3600)).await;
    assert!(setting.verdict("old").is_err());
    let check = setting.verifier.check(&token("old")).await;
    assert_eq!(check.map(drop), Err(Rejected::NoKey));
    assert_eq!(setting.verdict("new"), Ok(()));
}

/// The keys were read at the start of a program whose runtime came later.
#[test]
fn keys_read_before_there_was_a_runtime_are_read_again_first() {
    let setting = Setting::new(&set(&[p256_jwk(Some("old"))]));
    setting.write(&set(&[p256_jwk(Some("new"))]));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        advance(Duration::from_secs(2 * 3600)).await;
        let check = setting.verifier.check(&token("old")).await;
        assert_eq!(check.map(drop), Err(Rejected::NoKey));
        assert!(setting.verifier.check(&token("new")).await.is_ok());
    });
}

#[tokio::test(start_paused = true)]
async fn a_set_that_withdraws_all_keys_is_believed() {
    for empty in [set(&[]), set(&[json!({"kty": "new"})])] {
        let setting = Setting::new(&set(&[p256_jwk(Some("id"))]));
        assert_eq!(setting.verdict("id"), Ok(()));
        setting.write(&empty);
        setting.becomes("id", Err(Rejected::NoKey)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn public_keys_do_not_become_a_secret_while_a_server_runs() {
    let setting = Setting::new(&set(&[p256_jwk(None)]));
    let secret = Signer::shared(SECRET).sign(&Claims::of("mallory"));
    assert_eq!(setting.verdict("id"), Ok(()));
    setting.write(std::str::from_utf8(SECRET).unwrap());
    for _ in 0..LOOKS {
        sleep(LOOK_EVERY).await;
        assert!(setting.verifier.verify(&secret).is_err());
    }
    assert_eq!(setting.verdict("id"), Ok(()), "the keys of before");
}

/// An issuer's server on this machine.
#[derive(Clone)]
struct Issuing {
    answer: Arc<Mutex<(StatusCode, String)>>,
    asked: Arc<AtomicUsize>,
    url: String,
}

impl Issuing {
    async fn serve(body: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuing = Self {
            answer: Arc::new(Mutex::new((StatusCode::OK, body))),
            asked: Arc::default(),
            url: format!("http://{}/jwks", listener.local_addr().unwrap()),
        };
        async fn answer(State(issuing): State<Issuing>) -> impl IntoResponse {
            issuing.asked.fetch_add(1, Ordering::SeqCst);
            let (status, body) = issuing.answer.lock().unwrap().clone();
            let there = [
                (header::LOCATION, "/there"),
                (header::CACHE_CONTROL, "max-age=0"),
                (header::CONTENT_TYPE, "application/json"),
            ];
            let mut answer = (status, there, body).into_response();
            if status == StatusCode::NOT_MODIFIED {
                answer.headers_mut().remove(header::LOCATION);
            }
            answer
        }
        let there = set(&[p256_jwk(Some("id"))]);
        let router = Router::new()
            .route("/jwks", get(answer))
            .route("/there", get(|| async { there }))
            .with_state(issuing.clone());
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        issuing
    }

    fn now_answers(&self, status: StatusCode, body: String) {
        *self.answer.lock().unwrap() = (status, body);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn open(&self, pace: Pace) -> Result<Verifier, KeysError> {
        let from = KeySource::Url(JwksUrl::parse(&self.url).unwrap());
        Source::open_at(from, pace).await.map(only)
    }
}

/// Nothing is fetched but for an unknown key.
const ON_DEMAND: Pace = Pace {
    fetch_pause: Duration::ZERO,
    fresh: (Duration::from_secs(86_400), Duration::from_secs(86_400)),
    ..Pace::USUAL
};

/// Everything is fetched all the time.
const EAGER: Pace = Pace {
    fetch_pause: Duration::from_millis(10),
    fresh: (Duration::from_millis(10), Duration::from_millis(10)),
    ..Pace::USUAL
};

fn token(id: &str) -> String {
    let header = json!({"alg": "ES256", "kid": id});
    Signer::es256().sign_with(&header, &Claims::of("alice"))
}

async fn becomes(verifier: &Verifier, id: &str, verdict: Result<(), Rejected>) {
    while verifier.verify(&token(id)).map(drop) != verdict {
        sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_key_that_was_added_is_fetched_for_the_first_token_under_it() {
    let issuing = Issuing::serve(set(&[p256_jwk(Some("old"))])).await;
    let verifier = issuing.open(ON_DEMAND).await.unwrap();
    assert!(verifier.check(&token("old")).await.is_ok());
    assert_eq!(issuing.asked(), 1);
    issuing.now_answers(StatusCode::OK, set(&[p256_jwk(Some("new"))]));
    assert!(verifier.check(&token("new")).await.is_ok());
    assert_eq!(issuing.asked(), 2);
    assert_eq!(verifier.check(&token("old")).await, Err(Rejected::NoKey));
}

#[tokio::test]
async fn unknown_keys_cause_no_more_than_one_fetch_in_a_pause() {
    let issuing = Issuing::serve(set(&[p256_jwk(Some("id"))])).await;
    let long = Pace {
        fetch_pause: Duration::from_secs(86_400),
        ..ON_DEMAND
    };
    let verifier = issuing.open(long).await.unwrap();
    for at in 0..50 {
        let verdict = verifier.check(&token(&format!("{at}"))).await;
        assert_eq!(verdict, Err(Rejected::NoKey));
    }
    assert_eq!(issuing.asked(), 1, "the one of the start");
}

#[tokio::test]
async fn a_key_that_its_issuer_withdrew_stops_working() {
    let issuing = Issuing::serve(set(&[p256_jwk(Some("id"))])).await;
    let verifier = issuing.open(EAGER).await.unwrap();
    assert!(verifier.verify(&token("id")).is_ok());
    issuing.now_answers(StatusCode::OK, set(&[p256_jwk(Some("other"))]));
    becomes(&verifier, "id", Err(Rejected::NoKey)).await;
    assert!(verifier.verify(&token("other")).is_ok());
    issuing.now_answers(StatusCode::OK, set(&[]));
    becomes(&verifier, "other", Err(Rejected::NoKey)).await;
}

#[tokio::test]
async fn set_is_fetched_again_before_the_first_token() {
    let issuing = Issuing::serve(set(&[p256_jwk(Some("id"))])).await;
    let verifier = issuing.open(EAGER).await.unwrap();
    issuing.now_answers(StatusCode::OK, set(&[p256_jwk(Some("other"))]));
    let fetched = async {
        // The one of the start, one that may have begun before the change, and the next.
        while issuing.asked() < 4 {
            sleep(Duration::from_millis(2)).await;
        }
    };
    let within = timeout(Duration::from_secs(60), fetched).await;
    assert!(within.is_ok(), "nothing is fetched while no token comes");
    assert_eq!(
        verifier.verify(&token("id")).map(drop),
        Err(Rejected::NoKey)
    );
}

#[tokio::test]
async fn keys_outlive_their_issuers_server_for_a_while() {
    let issuing = Issuing::serve(set(&[p256_jwk(Some("id"))])).await;
    let short = Pace {
        kept_max: Duration::from_millis(200),
        ..EAGER
    };
    let (kept, lost) = (
        issuing.open(EAGER).await.unwrap(),
        issuing.open(short).await.unwrap(),
    );
    for verifier in [&kept, &lost] {
        becomes(verifier, "id", Ok(())).await;
    }
    issuing.now_answers(StatusCode::INTERNAL_SERVER_ERROR, set(&[]));
    becomes(&lost, "id", Err(Rejected::KeysTooOld)).await;
    assert!(kept.verify(&token("id")).is_ok());
    issuing.now_answers(StatusCode::OK, set(&[p256_jwk(Some("id"))]));
    becomes(&lost, "id", Ok(())).await;
}

#[tokio::test]
async fn what_a_server_must_not_answer_starts_nothing() {
    let good = set(&[p256_jwk(Some("id"))]);
    let secret = json!({"kty": "oct", "k": "A".repeat(43)});
    let huge = format!("{good}{}", " ".repeat(1 << 20));
    let table = [
        (StatusCode::FOUND, good.clone(), "redirects to /there"),
        (
            StatusCode::PERMANENT_REDIRECT,
            good.clone(),
            "redirects to /there",
        ),
        (StatusCode::NOT_FOUND, good.clone(), "404"),
        (StatusCode::NOT_MODIFIED, String::new(), "answered 304"),
        (StatusCode::NO_CONTENT, String::new(), "204"),
        (StatusCode::OK, huge, "over 1048576 bytes"),
        (StatusCode::OK, "<html>".to_owned(), "an HTML"),
        (StatusCode::OK, "not json".to_owned(), "no JWK set"),
        (StatusCode::OK, set(&[]), "no usable key"),
        (StatusCode::OK, set(&[secret]), "it is a secret"),
    ];
    let issuing = Issuing::serve(good).await;
    for (status, body, why) in table {
        issuing.now_answers(status, body);
        let refused = issuing.open(EAGER).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{why}: {refused}");
        assert!(refused.contains(&issuing.url), "{refused}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", closed.local_addr().unwrap());
    drop(closed);
    let refused = JwksUrl::parse(&url)
        .unwrap()
        .fetch()
        .await
        .map(drop)
        .unwrap_err();
    assert!(refused.to_string().contains("refused"), "{refused}");
}
