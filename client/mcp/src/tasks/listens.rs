//! How many subscriptions one caller, and all callers together, may hold at one replica.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use helve_http::LogThrottle;
use http::{StatusCode, header::RETRY_AFTER};
use rmcp::model::ErrorCode;
use serde_json::{Value, json};

use crate::metrics::{Limit, Metrics, One};

/// Subscriptions of one principal at one replica, unless the builder says otherwise.
pub const LISTENS_OF_PRINCIPAL_MAX: usize = 16;
/// Subscriptions at one replica. Where callers do not authenticate, no one has a share, and this is their bound.
pub const LISTENS_MAX: usize = 1_024;

/// Whose bound is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    Principal { max: usize },
    Replica { max: usize },
}

impl Full {
    fn message(self) -> String {
        match self {
            Self::Principal { max } => format!(
                "this caller holds {max} subscriptions at this server, which is all that one caller may: \
                 end one, or name more tasks in one"
            ),
            Self::Replica { max } => format!(
                "callers hold {max} subscriptions at this server, which is all that it may have: \
                 listen again later, or ask for the task's state"
            ),
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::Principal { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Replica { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The answer to the request with this id.
    pub(super) fn response(self, id: &Value) -> Response {
        let data = json!({"helve.v1/reason": "OVERLOADED"});
        let code = ErrorCode::INTERNAL_ERROR.0;
        let error = json!({"code": code, "message": self.message(), "data": data});
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
        (self.status(), [(RETRY_AFTER, "1")], Json(answer)).into_response()
    }
}

/// The subscriptions of one replica. Clones are the same.
#[derive(Clone)]
pub(super) struct Listens {
    of_principal: usize,
    all: usize,
    open: Arc<Mutex<HashMap<String, usize>>>,
    refused: Arc<LogThrottle>,
    metrics: Metrics,
}

/// A subscription that is open until this is dropped.
pub(super) struct Listen {
    listens: Listens,
    principal: String,
    _counted: One,
}

impl Listens {
    pub(super) fn new(of_principal: usize, all: usize, metrics: Metrics) -> Self {
        Self {
            of_principal,
            all,
            open: Arc::default(),
            refused: Arc::default(),
            metrics,
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a subscription of a principal; of an empty one where callers do not authenticate.
    ///
    /// # Errors
    /// If it, or the replica, has as many as it may.
    pub(super) fn enter(&self, principal: &str) -> Result<Listen, Full> {
        let mut open = self.open();
        let own = open.get(principal).copied().unwrap_or(0);
        let full = if !principal.is_empty() && own >= self.of_principal {
            let max = self.of_principal;
            Some(Full::Principal { max })
        } else if open.values().sum::<usize>() >= self.all {
            Some(Full::Replica { max: self.all })
        } else {
            None
        };
        if let Some(full) = full {
            drop(open);
            self.metrics.refused(match full {
                Full::Principal { .. } => Limit::PrincipalSubscriptions,
                Full::Replica { .. } => Limit::Subscriptions,
            });
            if let Some(count) = self.refused.count(Instant::now()) {
                tracing::warn!(count, principal, why = %full.message(), "subscriptions were refused, the last one to this caller");
            }
            return Err(full);
        }
        open.insert(principal.to_owned(), own + 1);
        Ok(Listen {
            listens: self.clone(),
            principal: principal.to_owned(),
            _counted: self.metrics.subscription(),
        })
    }
}

impl Drop for Listen {
    fn drop(&mut self) {
        let mut open = self.listens.open();
        match open.get_mut(&self.principal) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                open.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principal_over_its_share_is_refused_and_others_are_not() {
        let listens = Listens::new(2, 4, Metrics::new());
        let held: Vec<_> = (0..2).map(|_| listens.enter("alice").unwrap()).collect();
        assert_eq!(
            listens.enter("alice").err(),
            Some(Full::Principal { max: 2 })
        );
        let bob = listens.enter("bob").unwrap();
        drop(held);
        assert_eq!(listens.open().len(), 1, "nothing is kept of alice");
        listens.enter("alice").unwrap();
        drop(bob);
        assert!(listens.open().is_empty());
    }

    #[test]
    fn replica_is_bounded_and_callers_without_a_name_have_no_share() {
        let listens = Listens::new(1, 3, Metrics::new());
        let held: Vec<_> = (0..3).map(|_| listens.enter("").unwrap()).collect();
        for principal in ["", "alice"] {
            assert_eq!(
                listens.enter(principal).err(),
                Some(Full::Replica { max: 3 })
            );
        }
        drop(held);
        listens.enter("alice").unwrap();
    }
}
