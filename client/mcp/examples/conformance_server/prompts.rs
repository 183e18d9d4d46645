//! The prompts, and the completion of their arguments.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse,
        GetPromptResult, Prompt, Reference,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use crate::{
    content::PNG,
    input::{Answers, ask, elicitation, needs},
    tools::{completed, fixed},
};

/// What `arg1` and `arg2` may be completed to.
const WORDS: [&str; 4] = ["hello", "paris", "party", "world"];

pub(crate) fn catalogue() -> Vec<Prompt> {
    let argument =
        |name: &str| json!({"name": name, "description": "An argument.", "required": true});
    fixed(json!([
        {"name": "test_simple_prompt", "description": "A prompt without arguments."},
        {
            "name": "test_prompt_with_arguments", "description": "A prompt with two arguments.",
            "arguments": [argument("arg1"), argument("arg2")],
        },
        {
            "name": "test_prompt_with_embedded_resource", "description": "A prompt with a resource in it.",
            "arguments": [argument("resourceUri")],
        },
        {"name": "test_prompt_with_image", "description": "A prompt with an image in it."},
        {"name": "test_input_required_result_prompt", "description": "A prompt that asks the user."},
    ]))
}

pub(crate) fn get(
    request: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        let value = arguments.and_then(|arguments| arguments.get(name)?.as_str());
        value.ok_or_else(|| ErrorData::invalid_params(format!("{name} is missing"), None))
    };
    let contents = match &*request.name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1")?, argument("arg2")?);
            let said = format!("Prompt with arguments: arg1='{first}', arg2='{second}'");
            vec![text(&said)]
        }
        "test_prompt_with_embedded_resource" => vec![
            json!({"type": "resource", "resource": {
                "uri": argument("resourceUri")?, "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            json!({"type": "image", "data": PNG, "mimeType": "image/png"}),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => {
            needs(context, &["elicitation"])?;
            let answers = Answers(request.input_responses.as_ref());
            let Some(about) = answers.accepted("user_context", "context") else {
                let question =
                    elicitation("What context should the prompt use?", "context", "string");
                return Ok(ask(json!({"user_context": question}), None).into());
            };
            vec![text(&format!("Use this context: {about}"))]
        }
        name => {
            let message = format!("unknown prompt {name}");
            return Err(ErrorData::invalid_params(message, None));
        }
    };
    let messages: Vec<Value> = contents
        .into_iter()
        .map(|content| json!({"role": "user", "content": content}))
        .collect();
    Ok(completed::<GetPromptResult>(json!({"messages": messages})).into())
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The known words that begin as the argument does.
pub(crate) fn complete(request: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let known = match &request.r#ref {
        Reference::Prompt(prompt) => catalogue().iter().any(|known| known.name == prompt.name),
        Reference::Resource(_) => true,
        _ => false,
    };
    if !known {
        return Err(ErrorData::invalid_params("nothing of that name", None));
    }
    let begun = request.argument.value.as_str();
    let values: Vec<_> = WORDS
        .into_iter()
        .filter(|word| word.starts_with(begun))
        .collect();
    Ok(completed(
        json!({"completion": {"total": values.len(), "values": values, "hasMore": false}}),
    ))
}
