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

type Request = RequestContext<RoleServer>;
type Notification = NotificationContext<RoleServer>;
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

    /// Takes it from what a handler is given: a handler may keep that for longer than it is at work.
    fn taken(extensions: &mut Extensions) -> Option<Self> {
        let parts = extensions.get_mut::<Parts>()?;
        parts.extensions.remove::<Self>()
    }
}

/// A server that holds the room of each message until its handler ends.
#[derive(Debug, Clone)]
pub(crate) struct Charged<S>(pub(crate) S);

macro_rules! charged {
    ($context:ident; $($method:ident($($request:ident: $type:ty)?) -> $answer:ty;)*) => {$(
        async fn $method(&self, $($request: $type,)? mut context: $context) -> $answer {
            let _charge = Charge::taken(&mut context.extensions);
            self.0.$method($($request,)? context).await
        }
    )*};
}

/// Keep in step with the trait: a method that is missing here is answered by the trait's default,
/// not by the server.
impl<S: ServerHandler> ServerHandler for Charged<S> {
    charged! { Request;
        ping() -> Answer<()>;
        initialize(request: InitializeRequestParams) -> Answer<InitializeResult>;
        discover() -> Answer<DiscoverResult>;
        complete(request: CompleteRequestParams) -> Answer<CompleteResult>;
        set_level(request: SetLevelRequestParams) -> Answer<()>;
        get_prompt(request: GetPromptRequestParams) -> Answer<GetPromptResponse>;
        list_prompts(request: Page) -> Answer<ListPromptsResult>;
        list_resources(request: Page) -> Answer<ListResourcesResult>;
        list_resource_templates(request: Page) -> Answer<ListResourceTemplatesResult>;
        read_resource(request: ReadResourceRequestParams) -> Answer<ReadResourceResponse>;
        subscribe(request: SubscribeRequestParams) -> Answer<()>;
        unsubscribe(request: UnsubscribeRequestParams) -> Answer<()>;
        call_tool(request: CallToolRequestParams) -> Answer<CallToolResponse>;
        list_tools(request: Page) -> Answer<ListToolsResult>;
        on_custom_request(request: CustomRequest) -> Answer<CustomResult>;
        get_task(request: GetTaskParams) -> Answer<GetTaskResult>;
        update_task(request: UpdateTaskParams) -> Answer<()>;
        cancel_task(request: CancelTaskParams) -> Answer<()>;
        list_skills(request: Page) -> Answer<ListSkillsResult>;
        get_skill(request: GetSkillRequestParams) -> Answer<GetSkillResult>;
        read_resource_directory(request: ReadResourceDirectoryRequestParams)
            -> Answer<ReadResourceDirectoryResult>;
    }

    charged! { Notification;
        on_cancelled(notification: CancelledNotificationParam) -> ();
        on_progress(notification: ProgressNotificationParam) -> ();
        on_initialized() -> ();
        on_roots_list_changed() -> ();
        on_custom_notification(notification: CustomNotification) -> ();
    }

    /// Its context keeps the charge until the subscription ends, as it keeps the request.
    async fn listen(&self, context: SubscriptionContext) -> Answer<()> {
        self.0.listen(context).await
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
