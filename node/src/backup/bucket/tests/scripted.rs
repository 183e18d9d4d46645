//! What a store that answers by a script makes of commands: lists that differ from what is there.

use std::sync::Mutex;

use async_trait::async_trait;
use hyper::{Method, StatusCode, header::ETAG};
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
        HttpResponseBody, HttpService,
    },
};

use super::{
    super::{log::LogObjects, wire::Fault},
    failing, *,
};

/// An object of a listing.
#[derive(Debug, Clone)]
struct Entry {
    key: String,
    size_bytes: u64,
    /// When it was written, as in XML.
    written: &'static str,
}

/// A store that has no object. It takes every one that is put.
#[derive(Debug, Clone, Default)]
struct Script {
    /// What it lists, one listing after the other; nothing behind the last one.
    listings: Arc<Mutex<Vec<Vec<Entry>>>>,
    /// When what was put was written; it is listed then.
    clock: Option<&'static str>,
    put: Arc<Mutex<Vec<String>>>,
    /// How many connections break before one is written to.
    cuts: Arc<Mutex<usize>>,
}

impl Script {
    fn new(listings: Vec<Vec<Entry>>) -> Self {
        Self {
            listings: Arc::new(Mutex::new(listings)),
            ..Self::default()
        }
    }

    fn bucket(&self) -> Bucket {
        failing::bucket("https://store.example", self.clone(), BOUNDS.call)
    }

    fn is_cut(&self) -> bool {
        let mut cuts = self.cuts.lock().unwrap();
        let is_cut = *cuts > 0;
        *cuts = cuts.saturating_sub(1);
        is_cut
    }

    fn listing(&self) -> String {
        let mut listings = self.listings.lock().unwrap();
        let mut entries = if listings.is_empty() {
            Vec::new()
        } else {
            listings.remove(0)
        };
        if let Some(written) = self.clock {
            entries.extend(self.put.lock().unwrap().iter().map(|key| Entry {
                key: key.clone(),
                size_bytes: 0,
                written,
            }));
        }
        let contents = entries.into_iter().map(|entry| {
            let Entry {
                key,
                size_bytes,
                written,
            } = entry;
            format!(
                "<Contents><Key>{key}</Key><Size>{size_bytes}</Size>\
                 <LastModified>{written}</LastModified></Contents>"
            )
        });
        let contents: String = contents.collect();
        format!("<ListBucketResult>{contents}</ListBucketResult>")
    }
}

impl HttpConnector for Script {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Script {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if request.method() == Method::PUT && self.is_cut() {
            let cut = Fault::Cut {
                host: "store.example".to_owned(),
                why: "connection reset by peer".to_owned(),
                is_of_machine: false,
            };
            return Err(HttpError::new(HttpErrorKind::Interrupted, cut));
        }
        let query = request.uri().query().unwrap_or_default();
        let (status, body) = if query.contains("list-type") {
            (StatusCode::OK, self.listing())
        } else if request.method() == Method::GET {
            (StatusCode::NOT_FOUND, "no such page".to_owned())
        } else if request.method() == Method::PUT {
            let key = request.uri().path().trim_start_matches("/b/").to_owned();
            self.put.lock().unwrap().push(key);
            (StatusCode::OK, String::new())
        } else {
            (StatusCode::NO_CONTENT, String::new())
        };
        let mut response = HttpResponse::new(HttpResponseBody::from(body));
        *response.status_mut() = status;
        let tag = "\"1\"".parse().unwrap();
        response.headers_mut().insert(ETAG, tag);
        Ok(response)
    }
}

fn manifest(id: &str, size_bytes: u64) -> Vec<Entry> {
    vec![Entry {
        key: format!("helve/{BACKUPS_NAME}/{id}"),
        size_bytes,
        written: "2020-01-01T00:00:00.000Z",
    }]
}

#[tokio::test]
async fn listed_manifest_that_is_not_found_stops_a_deletion() {
    let (first, second) = ("01234567-1", "01234567-2");
    let twice = Script::new(vec![manifest(second, 9), manifest(second, 9)]);
    let refused = twice.bucket().delete(first, Run::Dry, DAY).await;
    assert!(
        matches!(&refused, Err(BackupError::Unreadable { id, .. }) if id == second),
        "{refused:?}"
    );
    // Deleted meanwhile, and the marker of a folder.
    let folder = manifest("old", 0);
    for listings in [vec![manifest(second, 9)], vec![folder.clone(), folder]] {
        let script = Script::new(listings);
        let none = script.bucket().delete(first, Run::Dry, DAY).await;
        assert!(matches!(none, Err(BackupError::Nothing(_))), "{none:?}");
    }
}

#[tokio::test]
async fn age_of_a_mark_is_by_the_clock_of_the_store() {
    let other = |name: &str, written: &'static str| {
        vec![Entry {
            key: format!("helve/{RUNNING_NAME}/{name}"),
            size_bytes: 0,
            written,
        }]
    };
    // A deletion's mark lasts two hours, and one of a work that is not known 26.
    for (name, written, minutes) in [
        ("delete-1", "2020-01-02T01:30:00.000Z", Some(90)),
        ("delete-1", "2020-01-02T00:30:00.000Z", None),
        ("move-1", "2020-01-01T03:00:00.000Z", Some(24 * 60)),
        ("move-1", "2020-01-01T00:30:00.000Z", None),
    ] {
        let script = Script {
            clock: Some("2020-01-02T03:00:00.000Z"),
            ..Script::new(vec![other(name, written)])
        };
        let begun = script.bucket().begin(Work::Backup).await;
        let found = match begun {
            Ok(()) => None,
            Err(BackupError::Marked { minutes, .. }) => Some(minutes),
            Err(error) => panic!("{error:?}"),
        };
        assert_eq!(found, minutes, "{name} {written}");
    }
}

#[tokio::test]
async fn store_that_does_not_list_the_own_mark_is_refused() {
    let mut bucket = Script::new(Vec::new()).bucket();
    let refused = bucket.begin(Work::Backup).await;
    assert!(
        matches!(&refused, Err(BackupError::Store(error)) if error.problem == StoreProblem::ListsLate),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn segment_whose_connection_breaks_is_put_again() {
    let name = "log/01234567-2/00000000000000000003";
    let put = async |cuts: usize| {
        let script = Script {
            cuts: Arc::new(Mutex::new(cuts)),
            ..Script::default()
        };
        let bucket = script.bucket();
        let kept = LogObjects(&bucket).put(name, "entries".into()).await;
        let put = script.put.lock().unwrap().clone();
        (kept, put)
    };
    let (kept, written) = put(2).await;
    kept.unwrap();
    assert_eq!(written, [format!("helve/{name}")]);
    let (given_up, written) = put(usize::MAX).await;
    assert!(
        matches!(
            &given_up,
            Err(BackupError::Store(StoreError {
                problem: StoreProblem::Unreachable { .. },
                ..
            }))
        ),
        "{given_up:?}"
    );
    assert!(written.is_empty(), "{written:?}");
}
