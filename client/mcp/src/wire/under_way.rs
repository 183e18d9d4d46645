//! The requests of one client that are under way, by their ids.
//!
//! `rmcp` tells them apart by the id alone, and would answer one of two with one id. So the second
//! is refused.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, RequestId, ServerJsonRpcMessage,
};
use tokio::sync::watch;

/// Ids of cancelled requests that are remembered.
const CANCELLED_MAX: usize = 1024;

/// The ids. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct UnderWay(Arc<watch::Sender<Ids>>);

#[derive(Debug, Default)]
struct Ids {
    /// Of requests that end by themselves.
    running: HashSet<RequestId>,
    /// Of requests that run for as long as the client listens.
    endless: HashSet<RequestId>,
    /// Of requests that the client has cancelled, the last one at the end. `rmcp` does not stop
    /// their handlers, and would take the answer of one for that of a later request with its id.
    cancelled: VecDeque<RequestId>,
}

impl Ids {
    fn is_used(&self, id: &RequestId) -> bool {
        self.running.contains(id) || self.endless.contains(id) || self.cancelled.contains(id)
    }

    /// Removes a request that is under way. Whether it was.
    fn remove(&mut self, id: &RequestId) -> bool {
        self.running.remove(id) || self.endless.remove(id)
    }

    /// Takes note that a request is cancelled. Whether it was under way.
    fn cancel(&mut self, id: &RequestId) -> bool {
        let was_under_way = self.remove(id);
        if was_under_way {
            if self.cancelled.len() == CANCELLED_MAX {
                self.cancelled.pop_front();
            }
            self.cancelled.push_back(id.clone());
        }
        was_under_way
    }
}

impl UnderWay {
    /// Waits until there are none that end by themselves.
    pub(super) async fn none(&self) {
        let mut ids = self.0.subscribe();
        // The sender is here: it is not gone.
        let _ids = ids.wait_for(|ids| ids.running.is_empty()).await;
    }

    /// Takes note of a message from the client.
    ///
    /// # Errors
    /// The id, if the message is a request and another one has it, or had it and was cancelled.
    pub(super) fn received(&self, message: &ClientJsonRpcMessage) -> Result<(), RequestId> {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let id = &request.id;
                let is_new = self.0.send_if_modified(|ids| {
                    if ids.is_used(id) {
                        return false;
                    }
                    let is_endless = matches!(
                        request.request,
                        ClientRequest::SubscriptionsListenRequest(_)
                    );
                    let kind = if is_endless {
                        &mut ids.endless
                    } else {
                        &mut ids.running
                    };
                    kind.insert(id.clone())
                });
                is_new.then_some(()).ok_or_else(|| id.clone())
            }
            ClientJsonRpcMessage::Notification(notification) => {
                // What the client has cancelled is not answered.
                if let ClientNotification::CancelledNotification(it) = &notification.notification
                    && let Some(id) = &it.params.request_id
                {
                    self.0.send_if_modified(|ids| ids.cancel(id));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes note of a message to the client.
    pub(super) fn sent(&self, message: &ServerJsonRpcMessage) {
        let answered = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = answered {
            self.0.send_if_modified(|ids| ids.remove(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(id: usize) -> ClientJsonRpcMessage {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        serde_json::from_value(request).unwrap()
    }

    fn cancelled(id: usize) -> ClientJsonRpcMessage {
        let params = json!({"requestId": id});
        let method = "notifications/cancelled";
        let notification = json!({"jsonrpc": "2.0", "method": method, "params": params});
        serde_json::from_value(notification).unwrap()
    }

    #[tokio::test]
    async fn cancelled_ids_stay_spent_up_to_a_bound() {
        let under_way = UnderWay::default();
        // It was never under way.
        under_way.received(&cancelled(0)).unwrap();
        for id in 0..CANCELLED_MAX {
            under_way.received(&request(id)).unwrap();
            under_way.received(&cancelled(id)).unwrap();
        }
        // They hold up no end.
        under_way.none().await;
        for id in [0, CANCELLED_MAX - 1] {
            under_way.received(&cancelled(id)).unwrap();
            assert!(under_way.received(&request(id)).is_err(), "{id}");
        }
        under_way.received(&request(CANCELLED_MAX)).unwrap();
        under_way.received(&cancelled(CANCELLED_MAX)).unwrap();
        assert!(under_way.received(&request(0)).is_ok());
        assert!(under_way.received(&request(1)).is_err());
    }
}
