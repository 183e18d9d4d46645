//! What every request of the client port goes through before its handler.

use axum::extract::Request;

use super::caller::Caller;

/// Says who calls: everyone is the same where no credentials are asked for.
pub(super) async fn enter(mut request: Request) -> Request {
    request.extensions_mut().insert(Caller::anyone());
    request
}
