//! The server behind its boundary: which tool a call is of, and what it is answered.

use std::{borrow::Cow, sync::Arc, time::Duration};

use helve_client::{Client, KeyOptions, v1::OperationReply, within_trace};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest,
        CustomResult, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
        ProtocolVersion, ResultType, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Settings,
    arguments::read,
    call::Call,
    change::{self, Change, Consent, Outcome, carry_out},
    confirm::{ask, check_can_ask, consent, shown},
    error::{Failure, ToolError},
    gate::Destructive,
    reads,
    room::{READ_PARSED_BYTES_MAX, ReadRoom},
    tools::{Name, visible},
};
use crate::{
    methods::{first_page, is_modern, misread},
    span::parent,
};

/// The target of the log events that say who did what: one for each call.
pub const AUDIT: &str = "helve::audit";

/// The outcome of a call whose end this process has not seen.
const CUT_OFF: &str = "CUT_OFF";

/// For how long a client may take the list of tools for true. It changes only with the server's flags.
const TOOLS_TTL: Duration = Duration::from_secs(60);

/// The tools themselves. They take a request's state for their own, so they are served behind a
/// [`Boundary`](crate::boundary::Boundary) alone: see [`server`](super::server).
#[derive(Debug, Clone)]
pub struct Handler {
    client: Client,
    options: KeyOptions,
    settings: Arc<Settings>,
    tools: Arc<[Tool]>,
    room: ReadRoom,
}

impl Handler {
    pub(super) fn new(client: Client, options: KeyOptions, settings: Settings) -> Self {
        Self {
            client,
            options,
            tools: visible(settings.gate.tools).into(),
            settings: Arc::new(settings),
            room: ReadRoom::of(READ_PARSED_BYTES_MAX),
        }
    }

    async fn answer(
        &self,
        tool: Name,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Failure> {
        let Some(owner) = self.settings.callers.owner(&context.extensions) else {
            let message = "the caller is not authenticated";
            return Err(ToolError::Denied { message }.into());
        };
        let mut call = Call::begin(&self.client, owner, &self.options, &self.room);
        let arguments = request.arguments.unwrap_or_default();
        let changes = match tool {
            Name::BatchRetrieve => {
                let found = reads::batch_retrieve(&mut call, read(arguments)?).await?;
                return values(found.into_json(), call, context);
            }
            Name::Exists => return structured(&reads::exists(&call, read(arguments)?).await?),
            Name::List => return structured(&reads::list(&call, read(arguments)?).await?),
            Name::Retrieve => {
                let found = reads::retrieve(&mut call, read(arguments)?).await?;
                return values(found.into_json(), call, context);
            }
            Name::BatchStore => change::of_batch(read(arguments)?)?,
            Name::Delete => vec![change::of_delete(read(arguments)?)],
            Name::Store => vec![change::of_store(read(arguments)?)?],
        };
        let consent = if self.settings.gate.destructive == Destructive::Assumed {
            Consent::Assumed
        } else {
            let responses = request.input_responses.as_ref();
            consent(request.request_state.as_deref(), responses)?
        };
        match carry_out(&call, &changes, &consent).await? {
            Outcome::Done(replies) => answer_change(tool, &changes, replies),
            Outcome::Nothing => answer_change(tool, &changes, Vec::new()),
            Outcome::Asks(found) => {
                check_can_ask(context)?;
                if self.settings.codec.is_none() {
                    let why = "this server has no key to seal the question with";
                    return Err(ToolError::CannotConfirm { why }.into());
                }
                Ok(ask(&changes, &found).into())
            }
        }
    }
}

fn answer_change(
    tool: Name,
    changes: &[Change],
    mut replies: Vec<OperationReply>,
) -> Result<CallToolResponse, Failure> {
    match (tool, changes) {
        (Name::BatchStore, _) => structured(&change::stored_batch(replies)?),
        (Name::Delete, [change]) => structured(&change::deleted(change.key.clone(), &replies)),
        _ => {
            let reply = replies.pop().ok_or(ToolError::Internal)?;
            structured(&change::stored(reply)?)
        }
    }
}

fn structured(answer: &impl Serialize) -> Result<CallToolResponse, Failure> {
    respond(serde_json::to_value(answer))
}

/// An answer with values, whose room is kept until rmcp has it.
fn values(
    answer: serde_json::Result<Value>,
    call: Call,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, Failure> {
    let response = respond(answer)?;
    call.keep_room_until(context.ct.clone());
    Ok(response)
}

fn respond(answer: serde_json::Result<Value>) -> Result<CallToolResponse, Failure> {
    let answer = answer.map_err(|error| {
        tracing::error!(%error, "an answer has no JSON form");
        ToolError::Internal
    })?;
    Ok(CallToolResult::structured(answer).into())
}

/// A call under way, whose one log event says who did what. A call that is broken off, since its
/// server stops or its caller goes away, leaves one as well: it may have taken effect.
struct Audited {
    principal: Option<String>,
    tool: &'static str,
    about: String,
    began: Instant,
    outcome: &'static str,
}

impl Drop for Audited {
    fn drop(&mut self) {
        let Self {
            principal,
            tool,
            about,
            began,
            outcome,
        } = self;
        let (principal, ms) = (principal.as_deref(), began.elapsed().as_millis());
        tracing::info!(target: AUDIT, principal, tool, about, outcome, ms, "called");
    }
}

/// What a call is about, for the log: one key, or how many.
fn about(arguments: Option<&JsonObject>) -> String {
    let of = |name: &str| arguments.and_then(|arguments| arguments.get(name));
    let text = |name: &str| of(name).and_then(Value::as_str).map(shown);
    let count = |name: &str| Some(of(name)?.as_array()?.len().to_string());
    text("key")
        .or_else(|| text("prefix"))
        .or_else(|| count("items"))
        .or_else(|| count("keys"))
        .unwrap_or_default()
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new("helve-state", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(name)
            .with_instructions(
                "State that outlives this conversation: JSON values under keys of your choosing. Revisions tell whether \
                 somebody else changed a value since you read it: pass if_revision. If an answer is lost, make the same call \
                 again.",
            )
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.settings.versions.supported())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        first_page(request.as_ref())?;
        let is_modern = is_modern(&context);
        let ttl_ms = u64::try_from(TOOLS_TTL.as_millis()).unwrap_or(u64::MAX);
        Ok(ListToolsResult {
            result_type: Some(ResultType::COMPLETE),
            tools: self.tools.to_vec(),
            meta: None,
            next_cursor: None,
            ttl_ms: is_modern.then_some(ttl_ms),
            cache_scope: is_modern.then_some(CacheScope::Public),
        })
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let capabilities = self.get_info().capabilities;
        let version = context.protocol_version();
        Err(misread(&request, &capabilities, version.as_ref()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // A tool that the gate hides is as unknown as one that never was.
        let is_shown = |tool: &Name| tool.needs() <= self.settings.gate.tools;
        let Some(tool) = Name::of(&request.name).filter(is_shown) else {
            let message = format!("Unknown tool: {}", shown(&request.name));
            return Err(ErrorData::invalid_params(message, None));
        };
        let owner = self.settings.callers.owner(&context.extensions);
        let mut audited = Audited {
            principal: owner.map(|owner| owner.name().unwrap_or_default().to_owned()),
            tool: tool.as_str(),
            about: about(request.arguments.as_ref()),
            began: Instant::now(),
            outcome: CUT_OFF,
        };
        let answer = within_trace(parent(&context), self.answer(tool, request, &context)).await;
        audited.outcome = match &answer {
            Ok(CallToolResponse::InputRequired(_)) => "ASKED",
            Ok(_) => "DONE",
            Err(Failure::Tool(error)) => error.reason(),
            Err(Failure::Protocol(_)) => "REFUSED",
        };
        drop(audited);
        match answer {
            Ok(response) => Ok(response),
            Err(Failure::Tool(error)) => Ok(CallToolResult::from(error).into()),
            Err(Failure::Protocol(error)) => Err(error),
        }
    }
}
