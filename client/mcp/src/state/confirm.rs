//! Asking the user before something is lost, through a request of several rounds (SEP-2322).
//!
//! The first round answers with the question, and with a state that says which revisions the question was about. The client shows
//! the question to its user, and calls again with the answer and the state, at whichever replica. The state is sealed by the
//! [boundary](crate::boundary) before this server: it holds for the same caller, tool and arguments alone, once, and for a few
//! minutes; and what it allows is the loss of those revisions.

use helve_client::RecordInfo;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
        InputRequest, InputRequests, InputRequiredResult, InputResponses,
    },
    service::RequestContext,
};
use serde_json::json;

use super::{
    change::{Change, Consent},
    error::{Failure, ToolError},
};
use crate::methods::is_modern;

/// The name of the question, and of the one field of its form.
const CONFIRM: &str = "confirm";
/// Keys that the question names one by one.
const NAMED_MAX: usize = 10;
/// Characters of a key in the question.
const KEY_CHARS_MAX: usize = 100;

/// The question whether these may be lost.
pub(super) fn ask(changes: &[Change], found: &[Option<RecordInfo>]) -> InputRequiredResult {
    let revisions: Vec<u64> = found
        .iter()
        .map(|info| info.as_ref().map_or(0, |info| info.revision))
        .collect();
    let question = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question(changes, found),
        requested_schema: form(),
    };
    let question = InputRequest::Elicitation(ElicitRequest::new(question));
    let questions = InputRequests::from([(CONFIRM.to_owned(), question)]);
    InputRequiredResult::new(Some(questions), Some(json!(revisions).to_string()))
}

/// What the user said to the question that this state is of. The boundary has opened the state.
pub(super) fn consent(
    state: Option<&str>,
    responses: Option<&InputResponses>,
) -> Result<Consent, Failure> {
    let said = said(responses)?;
    let Some(state) = state else {
        // An answer to no question.
        return Ok(Consent::Missing);
    };
    match said {
        Said::No => Err(ToolError::Declined.into()),
        Said::Nothing => Ok(Consent::Missing),
        Said::Yes => match serde_json::from_str(state) {
            Ok(revisions) => Ok(Consent::Given(revisions)),
            Err(error) => {
                tracing::error!(%error, "a state that holds is no list of revisions");
                Err(ToolError::Internal.into())
            }
        },
    }
}

/// What the user said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Yes,
    No,
    Nothing,
}

/// What the user said, as the client tells it.
fn said(responses: Option<&InputResponses>) -> Result<Said, Failure> {
    let Some(response) = responses.and_then(|responses| responses.get(CONFIRM)) else {
        return Ok(Said::Nothing);
    };
    let Ok(result) = serde_json::from_value::<ElicitResult>(response.clone()) else {
        let message = format!("inputResponses.{CONFIRM} is no answer to an elicitation");
        return Err(Failure::Protocol(ErrorData::invalid_params(message, None)));
    };
    let ticked = result
        .content
        .is_some_and(|content| content[CONFIRM] == json!(true));
    Ok(if result.action == ElicitationAction::Accept && ticked {
        Said::Yes
    } else {
        Said::No
    })
}

/// Whether the client can show a form to its user. If not, the model is told what it can do instead, and nothing is done.
pub(super) fn check_can_ask(context: &RequestContext<RoleServer>) -> Result<(), ToolError> {
    if !is_modern(context) {
        let why = "this client cannot ask for it: it speaks a protocol before 2026-07-28";
        return Err(ToolError::CannotConfirm { why });
    }
    let declared = context
        .client_capabilities()
        .and_then(|capabilities| capabilities.elicitation);
    // Forms are what a client means that names no mode.
    if declared.is_some_and(|modes| modes.form.is_some() || modes.url.is_none()) {
        return Ok(());
    }
    let why = "this client cannot ask for it: it did not declare the capability `elicitation` with `form`";
    Err(ToolError::CannotConfirm { why })
}

fn form() -> ElicitationSchema {
    ElicitationSchema::builder()
        .required_bool_with(CONFIRM, |field| {
            field
                .title("Yes, do it")
                .description("What is there now is lost.")
        })
        .build()
        .expect("the required field is there")
}

fn question(changes: &[Change], found: &[Option<RecordInfo>]) -> String {
    let lost: Vec<_> = changes
        .iter()
        .zip(found)
        .filter_map(|(change, info)| Some((change, info.as_ref()?)))
        .collect();
    let verb = changes.first().map_or("Replace", Change::verb);
    let plural = if lost.len() == 1 { "" } else { "s" };
    let mut text = format!("{verb} {} stored value{plural} for good?", lost.len());
    for (change, info) in lost.iter().take(NAMED_MAX) {
        let (revision, bytes) = (info.revision, info.value_bytes);
        let key = shown(&change.key);
        text.push_str(&format!("\n{key} (revision {revision}, {bytes} bytes)"));
    }
    if lost.len() > NAMED_MAX {
        text.push_str(&format!("\nand {} more", lost.len() - NAMED_MAX));
    }
    text
}

/// A key as it is shown to people: on one line, with nothing in it that could pass for the rest of the question.
pub(super) fn shown(key: &str) -> String {
    let short: String = key.chars().take(KEY_CHARS_MAX).collect();
    let more = if short.len() < key.len() { "..." } else { "" };
    format!("{short:?}{more}")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn responses(response: Value) -> InputResponses {
        InputResponses::from([(CONFIRM.to_owned(), response)])
    }

    #[test]
    fn only_a_ticked_form_that_was_accepted_is_a_yes() {
        let table = [
            (
                json!({"action": "accept", "content": {"confirm": true}}),
                Said::Yes,
            ),
            (
                json!({"action": "accept", "content": {"confirm": false}}),
                Said::No,
            ),
            (
                json!({"action": "accept", "content": {"confirm": "true"}}),
                Said::No,
            ),
            (json!({"action": "accept", "content": {}}), Said::No),
            (json!({"action": "accept", "content": [true]}), Said::No),
            (json!({"action": "accept"}), Said::No),
            (
                json!({"action": "decline", "content": {"confirm": true}}),
                Said::No,
            ),
            (json!({"action": "cancel"}), Said::No),
        ];
        for (response, expected) in table {
            assert_eq!(said(Some(&responses(response))).unwrap(), expected);
        }
        assert_eq!(said(None).unwrap(), Said::Nothing);
        let other = InputResponses::from([("other".to_owned(), json!({"action": "accept"}))]);
        assert_eq!(said(Some(&other)).unwrap(), Said::Nothing);
    }

    #[test]
    fn what_is_no_answer_to_an_elicitation_is_refused() {
        for response in [
            json!(true),
            json!({}),
            json!({"action": "yes"}),
            json!(null),
        ] {
            let refused = said(Some(&responses(response))).unwrap_err();
            assert!(matches!(refused, Failure::Protocol(error) if error.code.0 == -32602));
        }
    }

    #[test]
    fn a_key_cannot_pass_for_another_part_of_the_question() {
        assert_eq!(shown("a/b"), "\"a/b\"");
        assert_eq!(shown("a\nDelete 0 values"), "\"a\\nDelete 0 values\"");
        assert_eq!(shown("a\u{202e}b"), "\"a\\u{202e}b\"");
        assert_eq!(
            shown(&"k".repeat(101)),
            format!("\"{}\"...", "k".repeat(100))
        );
    }
}
