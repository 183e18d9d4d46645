//! The requests of one client that are under way, by their ids.
//!
//! `rmcp` tells them apart by the id alone, and would answer one of two with one id. So the second
//! is refused.

use std::{collections::HashSet, sync::Arc};

use rmcp::model::{ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage};
use tokio::sync::watch;

/// The ids. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct UnderWay(Arc<watch::Sender<HashSet<RequestId>>>);

impl UnderWay {
    /// Waits until there are none.
    pub(super) async fn none(&self) {
        let mut ids = self.0.subscribe();
        // The sender is here: it is not gone.
        let _ids = ids.wait_for(HashSet::is_empty).await;
    }

    fn remove(&self, id: &RequestId) {
        self.0.send_if_modified(|ids| ids.remove(id));
    }

    /// Takes note of a message from the client.
    ///
    /// # Errors
    /// The id, if the message is a request and another one has it.
    pub(super) fn received(&self, message: &ClientJsonRpcMessage) -> Result<(), RequestId> {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let id = request.id.clone();
                let is_new = self.0.send_if_modified(|ids| ids.insert(id));
                is_new.then_some(()).ok_or_else(|| request.id.clone())
            }
            ClientJsonRpcMessage::Notification(notification) => {
                // What the client has cancelled is not answered.
                if let ClientNotification::CancelledNotification(it) = &notification.notification
                    && let Some(id) = &it.params.request_id
                {
                    self.remove(id);
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
            self.remove(id);
        }
    }
}
