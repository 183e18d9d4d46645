//! The tools that ask the client for something, in one round or several. What they must remember between rounds travels in
//! `requestState`, so each round may land on another replica.

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities},
    service::RequestContext,
};
use serde_json::{Map, Value, json};

use super::{completed, fixed};
use crate::input::{Answers, ask, declared, elicitation, needs, roots, sampling};

pub(super) const NAMES: [(&str, &str); 9] = [
    (
        "test_streaming_elicitation",
        "Asks the user, in the stream of its answer.",
    ),
    ("test_input_required_result_elicitation", "Asks the user."),
    (
        "test_input_required_result_sampling",
        "Asks the client's model.",
    ),
    (
        "test_input_required_result_list_roots",
        "Asks for the client's roots.",
    ),
    (
        "test_input_required_result_request_state",
        "Asks the user, and keeps state.",
    ),
    (
        "test_input_required_result_multiple_inputs",
        "Asks for three things at once.",
    ),
    ("test_input_required_result_multi_round", "Asks twice."),
    (
        "test_input_required_result_tampered_state",
        "Asks the user, and keeps state.",
    ),
    (
        "test_input_required_result_capabilities",
        "Asks for what the client can give.",
    ),
];

pub(super) fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let answers = Answers(request.input_responses.as_ref());
    // The boundary has verified it: it is what this server wrote, to this caller, for this very call.
    let state = match request.request_state.as_deref().map(serde_json::from_str) {
        None => Value::Null,
        Some(Ok(state)) => state,
        Some(Err(_)) => return Err(ErrorData::invalid_params("requestState is not ours", None)),
    };
    match &*request.name {
        "test_streaming_elicitation" | "test_input_required_result_elicitation" => {
            needs(context, &["elicitation"])?;
            Ok(elicit(&answers))
        }
        "test_input_required_result_sampling" => {
            needs(context, &["sampling"])?;
            Ok(sample(&answers))
        }
        "test_input_required_result_list_roots" => {
            needs(context, &["roots"])?;
            Ok(list_roots(&answers))
        }
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => {
            needs(context, &["elicitation"])?;
            Ok(confirm(&answers, &state))
        }
        "test_input_required_result_multiple_inputs" => {
            needs(context, &["elicitation", "sampling", "roots"])?;
            Ok(ask_three(&answers, &state))
        }
        "test_input_required_result_multi_round" => {
            needs(context, &["elicitation"])?;
            Ok(ask_twice(&answers, &state))
        }
        "test_input_required_result_capabilities" => ask_the_able(&answers, context),
        name => {
            let message = format!("unknown tool {name}");
            Err(ErrorData::invalid_params(message, None))
        }
    }
}

fn done(said: &str) -> CallToolResponse {
    completed::<CallToolResult>(json!({"content": [{"type": "text", "text": said}]})).into()
}

fn name_question() -> Value {
    elicitation("What is your name?", "name", "string")
}

fn elicit(answers: &Answers<'_>) -> CallToolResponse {
    match answers.accepted("user_name", "name") {
        Some(name) => done(&format!("Hello, {name}!")),
        None => ask(json!({"user_name": name_question()}), None).into(),
    }
}

fn sample(answers: &Answers<'_>) -> CallToolResponse {
    match answers.sampled("capital_question") {
        Some(said) => done(&said),
        None => {
            let question = sampling("What is the capital of France?", 100);
            ask(json!({"capital_question": question}), None).into()
        }
    }
}

fn list_roots(answers: &Answers<'_>) -> CallToolResponse {
    match answers.listed("client_roots") {
        Some(uris) => done(&format!("Your roots: {uris}")),
        None => ask(json!({"client_roots": roots()}), None).into(),
    }
}

/// An answer counts only together with the state of the question.
fn confirm(answers: &Answers<'_>, state: &Value) -> CallToolResponse {
    match answers.accepted("confirm", "ok") {
        Some(ok) if state["asked"] == "confirm" => done(&format!("state-ok: {ok}")),
        _ => {
            let question = elicitation("Please confirm", "ok", "boolean");
            ask(
                json!({"confirm": question}),
                Some(json!({"asked": "confirm"})),
            )
            .into()
        }
    }
}

fn ask_three(answers: &Answers<'_>, state: &Value) -> CallToolResponse {
    let name = answers.accepted("user_name", "name");
    let greeting = answers.sampled("greeting");
    let listed = answers.listed("client_roots");
    match (name, greeting, listed) {
        (Some(name), Some(greeting), Some(listed)) if state["asked"] == "three" => {
            done(&format!("{name}: {greeting} ({listed})"))
        }
        _ => {
            let questions = json!({
                "user_name": name_question(),
                "greeting": sampling("Generate a greeting", 50),
                "client_roots": roots(),
            });
            ask(questions, Some(json!({"asked": "three"}))).into()
        }
    }
}

/// The first answer travels in the state of the second question.
fn ask_twice(answers: &Answers<'_>, state: &Value) -> CallToolResponse {
    let name = match state["step"].as_u64() {
        Some(1) => answers.accepted("step1", "name"),
        Some(2) => state["name"].as_str().map(str::to_owned),
        _ => None,
    };
    let Some(name) = name else {
        let question = elicitation("Step 1: What is your name?", "name", "string");
        return ask(json!({"step1": question}), Some(json!({"step": 1}))).into();
    };
    let color = answers.accepted("step2", "color");
    match color.filter(|_| state["step"] == 2) {
        Some(color) => done(&format!("{name} likes {color}.")),
        None => {
            let question = elicitation("Step 2: What is your favorite color?", "color", "string");
            ask(
                json!({"step2": question}),
                Some(json!({"step": 2, "name": name})),
            )
            .into()
        }
    }
}

/// Asks only what the client declared that it can answer.
fn ask_the_able(
    answers: &Answers<'_>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let declared = declared(context);
    let questions: Map<String, Value> = [
        ("elicitation", "user_name", name_question()),
        ("sampling", "greeting", sampling("Generate a greeting", 50)),
        ("roots", "client_roots", roots()),
    ]
    .into_iter()
    .filter(|(capability, ..)| !declared[*capability].is_null())
    .map(|(_, name, question)| (name.to_owned(), question))
    .collect();
    if questions.is_empty() {
        let wanted: ClientCapabilities = fixed(json!({"elicitation": {}, "sampling": {}}));
        return Err(ErrorData::missing_required_client_capability(wanted));
    }
    let said = [
        answers.accepted("user_name", "name"),
        answers.sampled("greeting"),
        answers.listed("client_roots"),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    if said.len() == questions.len() {
        return Ok(done(&said.join("; ")));
    }
    Ok(ask(Value::Object(questions), None).into())
}
