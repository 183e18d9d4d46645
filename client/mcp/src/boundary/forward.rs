//! The boundary as a server: three methods are guarded, all others are the server's own.

#![expect(
    deprecated,
    reason = "what only older clients ask for is the server's to answer, too"
)]

use std::borrow::Cow;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
        CompleteRequestParams, CompleteResult, CustomNotification, CustomRequest, CustomResult,
        DiscoverResult, ErrorCode, GetPromptRequestParams, GetPromptResponse,
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

use super::Boundary;
use crate::methods::misread;

type Request = RequestContext<RoleServer>;
type Notification = NotificationContext<RoleServer>;
type Answer<R> = Result<R, ErrorData>;
type Page = Option<PaginatedRequestParams>;

macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),+) -> $answer:ty;)*) => {$(
        async fn $method(&self, $($argument: $type),+) -> $answer {
            self.server.$method($($argument),+).await
        }
    )*};
}

/// Malformed parameters get -32602 and unknown methods -32601, even if the server does not tell them
/// apart.
///
/// Keep in step with the trait: a method that is missing here is answered by the trait's default, not by the server.
impl<S: ServerHandler> ServerHandler for Boundary<S> {
    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: Request,
    ) -> Answer<CallToolResponse> {
        let arguments = request.arguments.as_ref();
        let bound = self.bound(&context.extensions, "tools/call", &request.name, arguments)?;
        bound.open(&mut request.request_state).await?;
        let mut response = self.server.call_tool(request, context).await?;
        if let CallToolResponse::InputRequired(result) = &mut response {
            bound.seal(result).await?;
        }
        Ok(response)
    }

    async fn get_prompt(
        &self,
        mut request: GetPromptRequestParams,
        context: Request,
    ) -> Answer<GetPromptResponse> {
        let arguments = request.arguments.as_ref();
        let bound = self.bound(&context.extensions, "prompts/get", &request.name, arguments)?;
        bound.open(&mut request.request_state).await?;
        let mut response = self.server.get_prompt(request, context).await?;
        if let GetPromptResponse::InputRequired(result) = &mut response {
            bound.seal(result).await?;
        }
        Ok(response)
    }

    async fn read_resource(
        &self,
        mut request: ReadResourceRequestParams,
        context: Request,
    ) -> Answer<ReadResourceResponse> {
        let bound = self.bound(&context.extensions, "resources/read", &request.uri, None)?;
        bound.open(&mut request.request_state).await?;
        let mut response = self.server.read_resource(request, context).await?;
        if let ReadResourceResponse::InputRequired(result) = &mut response {
            bound.seal(result).await?;
        }
        Ok(response)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: Request,
    ) -> Answer<CustomResult> {
        let version = context.protocol_version();
        let capabilities = self.server.get_info().capabilities;
        let misread = misread(&request, &capabilities, version.as_ref());
        let answer = self.server.on_custom_request(request, context).await;
        answer.map_err(|error| {
            if error.code == ErrorCode::METHOD_NOT_FOUND {
                misread
            } else {
                error
            }
        })
    }

    forward! {
        ping(context: Request) -> Answer<()>;
        initialize(request: InitializeRequestParams, context: Request) -> Answer<InitializeResult>;
        discover(context: Request) -> Answer<DiscoverResult>;
        complete(request: CompleteRequestParams, context: Request) -> Answer<CompleteResult>;
        set_level(request: SetLevelRequestParams, context: Request) -> Answer<()>;
        list_prompts(request: Page, context: Request) -> Answer<ListPromptsResult>;
        list_resources(request: Page, context: Request) -> Answer<ListResourcesResult>;
        list_resource_templates(request: Page, context: Request) -> Answer<ListResourceTemplatesResult>;
        listen(context: SubscriptionContext) -> Answer<()>;
        subscribe(request: SubscribeRequestParams, context: Request) -> Answer<()>;
        unsubscribe(request: UnsubscribeRequestParams, context: Request) -> Answer<()>;
        list_tools(request: Page, context: Request) -> Answer<ListToolsResult>;
        on_cancelled(notification: CancelledNotificationParam, context: Notification) -> ();
        on_progress(notification: ProgressNotificationParam, context: Notification) -> ();
        on_initialized(context: Notification) -> ();
        on_roots_list_changed(context: Notification) -> ();
        on_custom_notification(notification: CustomNotification, context: Notification) -> ();
        get_task(request: GetTaskParams, context: Request) -> Answer<GetTaskResult>;
        update_task(request: UpdateTaskParams, context: Request) -> Answer<()>;
        cancel_task(request: CancelTaskParams, context: Request) -> Answer<()>;
        list_skills(request: Page, context: Request) -> Answer<ListSkillsResult>;
        get_skill(request: GetSkillRequestParams, context: Request) -> Answer<GetSkillResult>;
        read_resource_directory(request: ReadResourceDirectoryRequestParams, context: Request)
            -> Answer<ReadResourceDirectoryResult>;
    }

    fn negotiate_initialize(&self, request: &InitializeRequestParams) -> Answer<InitializeResult> {
        self.server.negotiate_initialize(request)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.server.supported_protocol_versions()
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.server.accepted_subscription_filter(requested)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.server.get_tool(name)
    }

    fn get_info(&self) -> ServerConfig {
        self.server.get_info()
    }
}
