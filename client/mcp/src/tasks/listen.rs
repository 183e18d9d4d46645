//! `notifications/tasks` on `subscriptions/listen`, until the cluster has a watch: the replica that a
//! subscriber listens to looks at the tasks that it named.
//!
//! rmcp's filter knows no `taskIds`, so [`task_filter`] reads them from the request's body. For the same
//! reason the acknowledgement does not repeat them.

use std::collections::BTreeMap;

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{StatusCode, request::Parts};
use rmcp::{
    model::{
        GetMeta as _, ServerNotification, TaskStatusNotification, TaskStatusNotificationParams,
    },
    service::{ServiceError, SubscriptionContext},
};
use serde::Deserialize;
use tokio::time::{MissedTickBehavior, interval};

use super::Tasks;

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

/// An axum middleware: remembers which tasks a `subscriptions/listen` request names, for [`Tasks::tell`]. Put
/// it behind authentication. Other requests pass untouched.
pub async fn task_filter(request: Request, next: Next) -> Response {
    let method = request.headers().get("mcp-method");
    if method.is_none_or(|method| method != "subscriptions/listen") {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LISTEN_BYTES_MAX).await else {
        let message = format!("a listen request of more than {LISTEN_BYTES_MAX} bytes");
        return (StatusCode::PAYLOAD_TOO_LARGE, message).into_response();
    };
    parts.extensions.insert(task_ids(&body));
    next.run(Request::from_parts(parts, Body::from(body))).await
}

/// What is no listen request names no task: rmcp refuses it with the reason.
fn task_ids(body: &[u8]) -> TaskIds {
    let listen = serde_json::from_slice::<Listen>(body);
    let mut ids = listen.map_or_else(
        |_| Vec::new(),
        |listen| listen.params.notifications.task_ids,
    );
    ids.truncate(TASK_IDS_MAX);
    TaskIds(ids)
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
        // The revision that the subscriber was told of; 0: none.
        let mut told: BTreeMap<String, u64> = ids.into_iter().map(|id| (id, 0)).collect();
        let mut looks = interval(self.runs.look());
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !told.is_empty() {
            looks.tick().await;
            let mut over = Vec::new();
            for (id, revision) in &mut told {
                match self.store.get(owner, id).await {
                    Ok(Some(task)) if task.revision() != *revision => {
                        *revision = task.revision();
                        let detailed = task.value.detailed(id);
                        if detailed.status().is_terminal() {
                            over.push(id.clone());
                        }
                        let params = TaskStatusNotificationParams::new(detailed);
                        if let Err(error) = notify(subscriber, params).await {
                            tracing::debug!(%error, "a subscriber to tasks went away");
                            return;
                        }
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => over.push(id.clone()),
                    Err(error) => tracing::debug!(%error, "a subscriber's task cannot be read now"),
                }
            }
            for id in over {
                told.remove(&id);
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
