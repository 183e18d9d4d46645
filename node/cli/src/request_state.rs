//! `helve request-state`: sealed states of multi round-trip requests, from the command line.

mod args;

use std::{
    io::{self, Read},
    sync::Arc,
};

use anyhow::{Context as _, anyhow};
use helve_client::exact;
use helve_command::{
    cluster::{failed, writing_client},
    ending::{Ending, Outcome},
    output::OutputArgs,
};
use helve_request_state::state_codec::{
    ArgumentsDigest, ClusterKeys, CompatCodec, FixedKeys, HardenedCodec, KeyRing, Opened,
    OperatorKey, Refusal, SEALED_BYTES_MAX, StateBinding, StateCodec, StateContext, StateKeys,
    StateMode,
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

pub(crate) use self::args::Command;
use self::args::{Common, Form, OpenArgs, SealArgs};
use super::key::operator_key;

/// As much as is read: what is longer is refused in any form, and a state may be escaped in JSON.
const READ_BYTES_MAX: u64 = 8 * SEALED_BYTES_MAX as u64;

#[derive(Serialize)]
struct Sealed {
    format: &'static str,
    request_state: String,
}

#[derive(Serialize)]
struct Shown {
    format: &'static str,
    state: String,
    /// The state once more, if it is JSON: with all digits and members.
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_at_ms: Option<u64>,
    expires_at_ms: u64,
    id: String,
}

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::Seal(args) => seal(args).await,
        Command::Open(args) => open(args).await,
    }
}

async fn seal(args: &SealArgs) -> Outcome {
    let common = &args.common;
    let codec = codec(common, Some(args)).await?;
    let mut state = read().map_err(Ending::Refused)?;
    if state.ends_with('\n') {
        state.pop();
    }
    let arguments = arguments(common)?;
    let sealed = codec.encode(&state, &context(common, arguments)).await;
    let sealed = Sealed {
        format: common.format.name(),
        request_state: sealed.map_err(failed)?,
    };
    print(common, &sealed, |sealed| sealed.request_state.clone())
}

async fn open(args: &OpenArgs) -> Outcome {
    let common = &args.common;
    let codec = codec(common, None).await?;
    let said = read().map_err(Ending::Refused)?;
    let sealed = presented(&said);
    let arguments = arguments(common)?;
    let opened = codec.decode(&sealed, &context(common, arguments)).await;
    let Opened {
        state,
        issued_at_ms,
        expires_at_ms,
        id,
    } = opened.map_err(|refusal| match refusal {
        Refusal::Unavailable(error) => failed(error),
        refusal => Ending::Absent(anyhow!("the state is refused: {refusal}")),
    })?;
    let shown = Shown {
        format: common.format.name(),
        json: serde_json::from_str(&state).ok(),
        state,
        issued_at_ms,
        expires_at_ms,
        id,
    };
    print(common, &shown, |shown| shown.state.clone())
}

fn print<T: Serialize>(common: &Common, value: &T, text: impl FnOnce(&T) -> String) -> Outcome {
    let output = OutputArgs {
        output: common.output,
    };
    output.print(value, text)
}

fn read() -> anyhow::Result<String> {
    let mut said = String::new();
    io::stdin()
        .take(READ_BYTES_MAX)
        .read_to_string(&mut said)
        .context("standard input cannot be read as text")?;
    Ok(said)
}

/// A sealed state, or what `seal` printed.
fn presented(said: &str) -> String {
    let said = said.trim_ascii();
    let printed: Option<Value> = exact::parse(said.as_bytes()).ok();
    let sealed = printed
        .as_ref()
        .and_then(|printed| printed.get("request_state"));
    let sealed = sealed.and_then(Value::as_str);
    sealed.unwrap_or(said).to_owned()
}

fn context(common: &Common, arguments: Option<ArgumentsDigest>) -> StateContext<'_> {
    let mut context = StateContext::new();
    if let Some(subject) = &common.subject {
        context = context.subject(subject);
    }
    if let Some(tool) = &common.tool {
        context = context.target(tool);
    }
    if let Some(audience) = &common.audience {
        context = context.audience(audience);
    }
    if let Some(method) = &common.method {
        context = context.method(method);
    }
    match arguments {
        Some(arguments) => context.arguments(arguments),
        None => context,
    }
}

fn arguments(common: &Common) -> Result<Option<ArgumentsDigest>, Ending> {
    let Some(text) = &common.arguments else {
        return Ok(None);
    };
    match exact::check(text.as_bytes()).map(|()| serde_json::from_str(text)) {
        Ok(Ok(arguments)) => Ok(Some(ArgumentsDigest::of(&arguments))),
        Ok(Err(error)) => Err(Ending::Refused(anyhow!("--arguments: not JSON: {error}"))),
        Err(error) => Err(Ending::Refused(anyhow!("--arguments: {error}"))),
    }
}

/// The codec that the flags describe; to open, no lifetime is needed.
async fn codec(common: &Common, seal: Option<&SealArgs>) -> Result<Box<dyn StateCodec>, Ending> {
    let key = operator_key(&common.key_file).map_err(Ending::Refused)?;
    let bad_ttl = |error: helve_client::Error| Ending::Refused(anyhow!("--ttl: {error}"));
    if common.format == Form::Hardened {
        let mut codec = HardenedCodec::new(keys(common, &key).await?);
        if let Some(args) = seal {
            codec = codec.ttl(args.ttl).map_err(bad_ttl)?;
        }
        return Ok(Box::new(codec));
    }
    let only_hardened = [
        ("--ring", common.ring.is_some()),
        ("--audience", common.audience.is_some()),
        ("--arguments", common.arguments.is_some()),
    ];
    if let Some((flag, _)) = only_hardened.iter().find(|(_, given)| *given) {
        let message = anyhow!("{flag}: only --format hardened binds this");
        return Err(Ending::Refused(message));
    }
    let mode = if common.format == Form::V1e {
        StateMode::Encrypted
    } else {
        StateMode::Signed
    };
    let binding = if common.tool.is_some() {
        StateBinding::SubjectAndTool
    } else {
        StateBinding::Subject
    };
    let mut codec = CompatCodec::new(&key).mode(mode).binding(binding);
    if let Some(args) = seal {
        codec = codec.ttl(args.ttl).map_err(bad_ttl)?;
    }
    Ok(Box::new(codec))
}

async fn keys(common: &Common, key: &OperatorKey) -> Result<Arc<dyn StateKeys>, Ending> {
    let Some(name) = &common.ring else {
        return Ok(Arc::new(FixedKeys::new(key)));
    };
    let client = writing_client(&common.cluster).await?;
    let ring = KeyRing::new(&client, name, key)
        .map_err(|error| Ending::Refused(anyhow!("--ring: {error}")))?;
    Ok(ClusterKeys::open(ring).await.map_err(failed)?)
}

#[cfg(test)]
mod tests {
    use super::presented;

    #[test]
    fn a_state_is_presented_as_it_is_or_as_seal_printed_it() {
        assert_eq!(presented(" h1.abc\n"), "h1.abc");
        assert_eq!(
            presented("{\"format\":\"v1\",\"request_state\":\"v1.a.b\"}\n"),
            "v1.a.b"
        );
        assert_eq!(presented("{\"other\":1}"), "{\"other\":1}");
    }
}
