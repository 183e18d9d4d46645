//! The requests of one client that are under way, by their ids.
//!
//! `rmcp` tells them apart by the id alone, and would answer one of two with one id. So the second
//! is refused.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::model::{ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage};

/// The ids. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct UnderWay(Arc<Mutex<HashSet<RequestId>>>);

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a message from the client.
    ///
    /// # Errors
    /// The id, if the message is a request and another one has it.
    pub(super) fn received(&self, message: &ClientJsonRpcMessage) -> Result<(), RequestId> {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let is_new = self.lock().insert(request.id.clone());
                is_new.then_some(()).ok_or_else(|| request.id.clone())
            }
            ClientJsonRpcMessage::Notification(notification) => {
                // What the client has cancelled is not answered.
                if let ClientNotification::CancelledNotification(it) = &notification.notification
                    && let Some(id) = &it.params.request_id
                {
                    self.lock().remove(id);
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
            self.lock().remove(id);
        }
    }
}
