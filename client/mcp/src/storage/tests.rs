//! No bytes that are stored make a decoder do worse than refuse, whatever wrote them.

use proptest::prelude::*;
use rmcp::transport::{
    auth::{AuthError, StoredAuthorizationState, StoredCredentials},
    streamable_http_server::session::SessionState,
};
use serde_json::{Value, json};

use super::credentials::decode;
use crate::properties::check;

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}|bearer|secret-[a-z]{8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
    ]
}

/// Reads it, or refuses it without a word of what it holds.
fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<Option<T>, TestCaseError> {
    match decode::<T>(bytes) {
        Ok(read) => Ok(Some(read)),
        Err(AuthError::CredentialStoreError(message)) => {
            prop_assert!(!message.contains("secret-"));
            Ok(None)
        }
        Err(other) => Err(TestCaseError::fail(other.to_string())),
    }
}

#[test]
fn any_bytes_are_credentials_or_refused() {
    check(&prop::collection::vec(any::<u8>(), 0..64), |bytes| {
        prop_assert!(read::<StoredCredentials>(&bytes)?.is_none());
        Ok(())
    });
    check(
        &(leaf(), leaf(), leaf(), leaf()),
        |(id, token, expires_in, issuer)| {
            let tokens =
                json!({"access_token": token, "token_type": "bearer", "expires_in": expires_in});
            let stored = json!({"client_id": id, "token_response": tokens, "issuer": issuer});
            let credentials = read::<StoredCredentials>(stored.to_string().as_bytes())?;
            if let Some(credentials) = credentials {
                prop_assert_eq!(Value::from(credentials.client_id), id);
                prop_assert!(token.is_string());
            }
            Ok(())
        },
    );
}

#[test]
fn any_bytes_are_a_login_or_refused() {
    check(&prop::collection::vec(any::<u8>(), 0..64), |bytes| {
        prop_assert!(read::<StoredAuthorizationState>(&bytes)?.is_none());
        Ok(())
    });
    check(&(leaf(), leaf(), leaf()), |(verifier, csrf, created_at)| {
        let stored =
            json!({"pkce_verifier": verifier, "csrf_token": csrf, "created_at": created_at});
        if let Some(login) = read::<StoredAuthorizationState>(stored.to_string().as_bytes())? {
            prop_assert_eq!(Value::from(login.pkce_verifier), verifier);
            prop_assert_eq!(Value::from(login.csrf_token), csrf);
        }
        Ok(())
    });
}

#[test]
fn any_bytes_are_a_session_or_refused() {
    check(&prop::collection::vec(any::<u8>(), 0..64), |bytes| {
        prop_assert!(serde_json::from_slice::<SessionState>(&bytes).is_err());
        Ok(())
    });
    check(
        &(leaf(), leaf(), leaf()),
        |(version, name, capabilities)| {
            let parameters = json!({
                "protocolVersion": version, "capabilities": capabilities,
                "clientInfo": {"name": name, "version": "1"},
            });
            let stored = json!({"initialize_params": parameters}).to_string();
            if let Ok(session) = serde_json::from_str::<SessionState>(&stored) {
                prop_assert_eq!(
                    Value::from(session.initialize_params.client_info.name),
                    name
                );
            }
            Ok(())
        },
    );
}
