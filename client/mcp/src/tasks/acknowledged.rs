//! The acknowledgement of `subscriptions/listen`, which says which tasks the server will report.
//!
//! rmcp makes it, and its filter has no member `taskIds`, so they are added to the first event of the answer.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{Stream, StreamExt as _};
use helve_client::exact;
use serde_json::{Value, json};
use sse_stream::SseStream;

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The same answer, whose acknowledgement names these tasks, too. Holds `held` until the answer has ended.
pub(super) fn with_task_ids<H: Send + 'static>(
    response: Response,
    ids: Vec<String>,
    held: H,
) -> Response {
    let (parts, body) = response.into_parts();
    let events = SseStream::from_bytes_stream(body.into_data_stream());
    let mut ids = Some(ids).filter(|ids| !ids.is_empty());
    let events = events.filter_map(move |event| {
        let _held = &held;
        // A stream that fails is at its end: the connection breaks, and the client finds out.
        let event = event.ok().map(|event| again(event, &mut ids));
        async move { event.map(Ok::<_, Infallible>) }
    });
    let body = rewritten(events);
    Response::from_parts(parts, body)
}

fn rewritten<S>(events: S) -> Body
where
    S: Stream<Item = Result<Event, Infallible>> + Send + 'static,
{
    let stream = Sse::new(events).keep_alive(KeepAlive::default());
    stream.into_response().into_body()
}

/// The same event. The first acknowledgement takes the ids.
fn again(event: sse_stream::Sse, ids: &mut Option<Vec<String>>) -> Event {
    let mut written = Event::default();
    if let Some(id) = event.id {
        written = written.id(id);
    }
    if let Some(retry) = event.retry {
        written = written.retry(Duration::from_millis(retry));
    }
    if let Some(name) = event.event {
        written = written.event(name);
    }
    match event.data {
        Some(data) => written.data(named(data, ids)),
        None => written,
    }
}

/// The same message; with the ids, if it is the acknowledgement.
fn named(data: String, ids: &mut Option<Vec<String>>) -> String {
    if ids.is_none() || !data.contains(ACKNOWLEDGED) {
        return data;
    }
    let Ok(mut message) = exact::parse::<Value>(data.as_bytes()) else {
        return data;
    };
    if message["method"] != ACKNOWLEDGED {
        return data;
    }
    if let Some(filter) = message
        .pointer_mut("/params/notifications")
        .and_then(Value::as_object_mut)
    {
        filter.insert("taskIds".to_owned(), json!(ids.take()));
    }
    message.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledgement() -> String {
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": {"x": 1}});
        json!({"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": params}).to_string()
    }

    #[test]
    fn acknowledgement_names_the_tasks_and_keeps_the_rest() {
        let mut ids = Some(vec!["task-1".to_owned()]);
        let other = json!({"method": "notifications/tasks", "params": {"text": ACKNOWLEDGED}});
        let other = other.to_string();
        assert_eq!(named(other.clone(), &mut ids), other);
        let named = named(acknowledgement(), &mut ids);
        let message: Value = serde_json::from_str(&named).unwrap();
        let filter = json!({"toolsListChanged": true, "taskIds": ["task-1"]});
        assert_eq!(message["params"]["notifications"], filter);
        assert_eq!(message["params"]["_meta"], json!({"x": 1}));
        assert_eq!(ids, None, "one acknowledgement is enough");
    }

    #[test]
    fn acknowledgement_without_tasks_is_the_same_text() {
        assert_eq!(named(acknowledgement(), &mut None), acknowledgement());
    }
}
