//! The room that a message takes up, held for as long as a handler is at work on it.
//!
//! `rmcp` runs each handler in a task of its own, which goes on when the caller hangs up. The
//! listener's part ends then. If the room ended with it, a caller could send a large message, hang
//! up and send the next, and only the handlers would know of them.

#![expect(
    deprecated,
    reason = "what only older clients ask for is the server's to answer, too"
)]

use std::borrow::Cow;

use helve_http::Room;
use http::request::Parts;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
        CompleteRequestParams, CompleteResult, CustomNotification, CustomRequest, CustomResult,
        DiscoverResult, Extensions, GetPromptRequestParams, GetPromptResponse,
        GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult,
        InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListSkillsResult, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ProtocolVersion, ReadResourceDirectoryRequestParams,
        ReadResourceDirectoryResult, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};

use super::short;

type Answer<R> = Result<R, ErrorData>;
type Page = Option<PaginatedRequestParams>;

/// The room of a message that was read, in its request's extensions. `rmcp` passes those on with
/// the message. The room is given back when the last clone is dropped.
#[derive(Debug, Clone)]
pub(super) struct Charge {
    _room: Room,
}

impl Charge {
    pub(super) fn new(room: Room) -> Self {
        Self { _room: room }
    }

    /// Takes it from what a handler is given, which it may keep for longer than it is at work.
    fn taken(extensions: &mut Extensions) -> Option<Self> {
        let parts = extensions.get_mut::<Parts>()?;
        parts.extensions.remove::<Self>()
    }
}

/// A server that holds the room of each message until its handler ends, and whose errors are short.
#[derive(Debug, Clone)]
pub(crate) struct Charged<S>(pub(crate) S);

macro_rules! answer {
    ($($method:ident($($request:ident: $type:ty)?) -> $answer:ty;)*) => {$(
        async fn $method(
            &self,
            $($request: $type,)?
            mut context: RequestContext<RoleServer>,
        ) -> Answer<$answer> {
            let _charge = Charge::taken(&mut context.extensions);
            self.0.$method($($request,)? context).await.map_err(short::error)
        }
    )*};
}

macro_rules! tell {
    ($($method:ident($($notification:ident: $type:ty)?);)*) => {$(
        async fn $method(
            &self,
            $($notification: $type,)?
            mut context: NotificationContext<RoleServer>,
        ) {
            let _charge = Charge::taken(&mut context.extensions);
            self.0.$method($($notification,)? context).await;
        }
    )*};
}

/// Keep in step with the trait: a method that is missing here is answered by the trait's default,
/// not by the server.
impl<S: ServerHandler> ServerHandler for Charged<S> {
    answer! {
        ping() -> ();
        initialize(request: InitializeRequestParams) -> InitializeResult;
        discover() -> DiscoverResult;
        complete(request: CompleteRequestParams) -> CompleteResult;
        set_level(request: SetLevelRequestParams) -> ();
        get_prompt(request: GetPromptRequestParams) -> GetPromptResponse;
        list_prompts(request: Page) -> ListPromptsResult;
        list_resources(request: Page) -> ListResourcesResult;
        list_resource_templates(request: Page) -> ListResourceTemplatesResult;
        read_resource(request: ReadResourceRequestParams) -> ReadResourceResponse;
        subscribe(request: SubscribeRequestParams) -> ();
        unsubscribe(request: UnsubscribeRequestParams) -> ();
        list_tools(request: Page) -> ListToolsResult;
        on_custom_request(request: CustomRequest) -> CustomResult;
        get_task(request: GetTaskParams) -> GetTaskResult;
        update_task(request: UpdateTaskParams) -> ();
        cancel_task(request: CancelTaskParams) -> ();
        list_skills(request: Page) -> ListSkillsResult;
        get_skill(request: GetSkillRequestParams) -> GetSkillResult;
        read_resource_directory(request: ReadResourceDirectoryRequestParams)
            -> ReadResourceDirectoryResult;
    }

    tell! {
        on_cancelled(notification: CancelledNotificationParam);
        on_progress(notification: ProgressNotificationParam);
        on_initialized();
        on_roots_list_changed();
        on_custom_notification(notification: CustomNotification);
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Answer<CallToolResponse> {
        let _charge = Charge::taken(&mut context.extensions);
        let answer = self.0.call_tool(request, context).await;
        answer.map(short::answer).map_err(short::error)
    }

    /// Its context keeps the charge until the subscription ends, as it keeps the request.
    async fn listen(&self, context: SubscriptionContext) -> Answer<()> {
        self.0.listen(context).await.map_err(short::error)
    }

    fn negotiate_initialize(&self, request: &InitializeRequestParams) -> Answer<InitializeResult> {
        self.0.negotiate_initialize(request)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.0.accepted_subscription_filter(requested)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.get_tool(name)
    }

    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }
}
