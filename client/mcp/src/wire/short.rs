//! What `rmcp` says of a message that it cannot serve, cut: it repeats some of the message, whole.

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolResponse, CallToolResult, ContentBlock, ServerResult},
    service::TxJsonRpcMessage,
};

/// Bytes of what an error may say.
const ERROR_BYTES_MAX: usize = 4 << 10;
/// How `rmcp` begins what it tells of arguments that are not what a tool takes. The names of those
/// that it does not know follow.
const MISREAD_ARGUMENTS: &str = "failed to deserialize parameters:";

/// The beginning of a text that is too long.
fn cut(text: &str) -> Option<String> {
    if text.len() <= ERROR_BYTES_MAX {
        return None;
    }
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let end = (0..=ERROR_BYTES_MAX).rev().find(is_boundary);
    Some(format!("{}...", &text[..end.unwrap_or_default()]))
}

/// The same error, cut.
pub(super) fn error(mut error: ErrorData) -> ErrorData {
    shorten(&mut error);
    error
}

/// The same answer of a tool. It is cut only if `rmcp` gave it in the tool's place.
pub(super) fn answer(mut answer: CallToolResponse) -> CallToolResponse {
    if let CallToolResponse::Complete(result) = &mut answer {
        shorten_result(result);
    }
    answer
}

/// The same message, whose error is cut.
pub(super) fn message(mut message: TxJsonRpcMessage<RoleServer>) -> TxJsonRpcMessage<RoleServer> {
    match &mut message {
        TxJsonRpcMessage::<RoleServer>::Error(answer) => shorten(&mut answer.error),
        TxJsonRpcMessage::<RoleServer>::Response(answer) => {
            if let ServerResult::CallToolResult(result) = &mut answer.result {
                shorten_result(result);
            }
        }
        _ => {}
    }
    message
}

fn shorten(error: &mut ErrorData) {
    if let Some(short) = cut(&error.message) {
        error.message = short.into();
    }
}

fn shorten_result(result: &mut CallToolResult) {
    if result.is_error != Some(true) {
        return;
    }
    for block in &mut result.content {
        if let ContentBlock::Text(said) = block
            && said.text.starts_with(MISREAD_ARGUMENTS)
            && let Some(short) = cut(&said.text)
        {
            said.text = short;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_cut_between_characters() {
        let whole = "x".repeat(ERROR_BYTES_MAX);
        assert_eq!(cut(&whole), None);
        let short = cut(&format!("x{}", "é".repeat(ERROR_BYTES_MAX))).unwrap();
        assert_eq!(short.len(), ERROR_BYTES_MAX - 1 + "...".len());
        let error = error(ErrorData::invalid_params("x".repeat(20 << 20), None));
        assert_eq!(error.message.len(), ERROR_BYTES_MAX + "...".len());
    }

    #[test]
    fn only_what_rmcp_tells_of_arguments_is_cut() {
        let long = "x".repeat(1 << 20);
        let misread = format!("{MISREAD_ARGUMENTS} unknown field `{long}`");
        let failed = |text: &str| CallToolResult::error(vec![ContentBlock::text(text)]);
        let done = |text: &str| CallToolResult::success(vec![ContentBlock::text(text)]);
        for (mut result, is_cut) in [
            (failed(&misread), true),
            (failed(&long), false),
            (done(&misread), false),
        ] {
            let before = result.clone();
            shorten_result(&mut result);
            assert_eq!(result != before, is_cut);
        }
    }
}
