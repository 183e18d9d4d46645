//! `notifications/tasks` on `subscriptions/listen`, until the cluster has a watch: the replica that a
//! subscriber listens to looks at the tasks that it named, each once for all of its subscribers.
//!
//! rmcp's filter knows no `taskIds`, so [`task_filter`] reads them from the request's body, and adds them to
//! the acknowledgement.

use std::collections::BTreeSet;

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures::{StreamExt as _, stream::select_all};
use helve_client::exact;
use helve_http::read_whole;
use http::{StatusCode, request::Parts};
use rmcp::{
    model::{
        GetMeta as _, ServerNotification, TaskStatusNotification, TaskStatusNotificationParams,
    },
    service::{ServiceError, SubscriptionContext},
};
use serde::Deserialize;

use super::{Tasks, acknowledged::with_task_ids};
use crate::{
    bearer::Principal,
    wire::{content_type::is_type, envelope::Envelope},
};

/// Tasks that one subscription may name; those after are not reported.
pub const TASK_IDS_MAX: usize = 64;
/// Bytes of a listen request.
const LISTEN_BYTES_MAX: usize = 64 << 10;

/// The tasks that a listen request names.
#[derive(Debug, Clone, PartialEq)]
struct TaskIds(Vec<String>);

#[derive(Deserialize)]
struct Listen {
    #[serde(default)]
    params: Params,
}

#[derive(Deserialize, Default)]
struct Params {
    #[serde(default)]
    notifications: Filter,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Filter {
    #[serde(default)]
    task_ids: Vec<String>,
}

/// An axum middleware with the server's [`Tasks`] as its state. For [`Tasks::tell`] it remembers which tasks a
/// `subscriptions/listen` request names; it says in the acknowledgement which those are; and it refuses a caller who holds as many
/// subscriptions as one may (429), or whose request is one too many for the replica (503). Put it behind authentication, for
/// subscriptions are counted for each [`Principal`]. Other requests pass untouched.
pub async fn task_filter(State(tasks): State<Tasks>, request: Request, next: Next) -> Response {
    let method = request.headers().get("mcp-method");
    if method.is_none_or(|method| method != "subscriptions/listen") {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let Ok(body) = read_whole(body, LISTEN_BYTES_MAX).await else {
        let message = format!("a listen request of more than {LISTEN_BYTES_MAX} bytes");
        return (StatusCode::PAYLOAD_TOO_LARGE, message).into_response();
    };
    let principal = parts.extensions.get::<Principal>();
    let listen = match tasks.listens.enter(principal.map_or("", Principal::owner)) {
        Ok(listen) => listen,
        Err(full) => return full.response(&Envelope::of(&body).id),
    };
    let ids = task_ids(&body);
    parts.extensions.insert(ids.clone());
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    // Anything else is a refusal.
    if response.status() != StatusCode::OK || !is_type(response.headers(), "text/event-stream") {
        return response;
    }
    let TaskIds(ids) = ids;
    with_task_ids(response, ids, listen)
}

/// What is no listen request names no task: rmcp refuses it with the reason.
fn task_ids(body: &[u8]) -> TaskIds {
    let listen = exact::parse::<Listen>(body);
    let mut ids = listen.map_or_else(
        |_| Vec::new(),
        |listen| listen.params.notifications.task_ids,
    );
    ids.truncate(TASK_IDS_MAX);
    TaskIds(ids)
}

/// The tasks that a listen request names.
#[cfg(any(test, fuzzing))]
pub(crate) fn named_tasks(body: &[u8]) -> Vec<String> {
    task_ids(body).0
}

impl Tasks {
    /// Tells a subscriber of each state of the tasks that its request named, the present one first. Returns
    /// when all of them have ended, or the subscriber has gone. Tasks that are not this owner's are as if they
    /// were not named.
    pub async fn tell(&self, subscriber: &SubscriptionContext, owner: &str) {
        let parts = subscriber.request_context().extensions.get::<Parts>();
        let named = parts.and_then(|parts| parts.extensions.get::<TaskIds>());
        let ids = named.map_or_else(Vec::new, |TaskIds(ids)| ids.clone());
        tokio::select! {
            () = subscriber.cancelled() => {}
            () = self.report(subscriber, owner, ids) => {}
        }
    }

    async fn report(&self, subscriber: &SubscriptionContext, owner: &str, ids: Vec<String>) {
        let ids: BTreeSet<String> = ids.into_iter().collect();
        let states = ids.into_iter().map(|id| {
            let states = self.watches.states(owner, &id);
            Box::pin(states.map(move |task| (id.clone(), task)))
        });
        let mut states = select_all(states);
        while let Some((id, task)) = states.next().await {
            let params = TaskStatusNotificationParams::new(task.value.detailed(&id));
            if let Err(error) = notify(subscriber, params).await {
                tracing::debug!(%error, "a subscriber to tasks went away");
                return;
            }
        }
    }
}

/// Past the subscription's own sink, which refuses notifications of tasks.
async fn notify(
    subscriber: &SubscriptionContext,
    params: TaskStatusNotificationParams,
) -> Result<(), ServiceError> {
    let mut notification =
        ServerNotification::TaskStatusNotification(TaskStatusNotification::new(params));
    notification
        .get_meta_mut()
        .set_subscription_id(subscriber.sink().id().clone());
    let context = subscriber.request_context();
    context.peer.send_notification(notification).await
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::properties::check;

    #[test]
    fn listen_request_names_its_tasks() {
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",
            "params":{"notifications":{"toolsListChanged":true,"taskIds":["task-1","task-2"]}}}"#;
        assert_eq!(
            task_ids(body),
            TaskIds(vec!["task-1".into(), "task-2".into()])
        );
    }

    #[test]
    fn task_ids_over_the_bound_are_dropped() {
        let ids: Vec<String> = (0..=TASK_IDS_MAX).map(|n| n.to_string()).collect();
        let body = serde_json::json!({"params": {"notifications": {"taskIds": ids}}});
        let TaskIds(kept) = task_ids(body.to_string().as_bytes());
        assert_eq!(kept, ids[..TASK_IDS_MAX]);
    }

    #[test]
    fn what_a_client_makes_up_names_bounded_tasks() {
        let piece = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..64),
            Just(br#"{"params":{"notifications":{"taskIds":["#.to_vec()),
            Just(br#""a","#.to_vec()),
            Just(br#"]}}}"#.to_vec()),
        ];
        check(&prop::collection::vec(piece, 0..100), |pieces| {
            let TaskIds(ids) = task_ids(&pieces.concat());
            prop_assert!(ids.len() <= TASK_IDS_MAX);
            Ok(())
        });
    }
}
