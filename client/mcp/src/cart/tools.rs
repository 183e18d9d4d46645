//! The tools, as a model sees them: names, schemas, hints and descriptions. What they do is in
//! their own files.

use std::{borrow::Cow, time::Duration};

use helve_client::within_trace;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::{
        router::tool::ToolRouter,
        tool::ToolCallContext,
        wrapper::{Json, Parameters},
    },
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult,
        Extensions, Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
        ResultType, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
    tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    cart::{
        abandon::abandon,
        checkout::checkout,
        create::create,
        error::ToolError,
        items::{add_item, view},
        list::list,
        model::{Line, Order},
        server::CartServer,
        views::{AbandonView, CartList, CartView},
    },
    methods::{first_page, is_modern, misread},
    schema::{plain, whole},
    span::parent,
};

/// The tools that read, for [`Scopes`](crate::bearer::Scopes): all others write.
pub const READING_TOOLS: &[&str] = &["list_carts", "view_cart"];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateCart {
    /// Any text of your choosing, 1 to 128 bytes of UTF-8. Calling again with the same key returns the same cart, so give one and
    /// repeat it if an answer is lost. It is kept for 24 hours.
    #[schemars(length(min = 1, max = 128))]
    idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CartId {
    /// The id that came with the cart's creation.
    cart_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AddItem {
    /// The id that came with the cart's creation.
    cart_id: String,
    /// Your own id of this line, new for each line, 1 to 128 bytes of UTF-8. If an answer is lost, call again with the same
    /// arguments: the line is added once.
    #[schemars(length(min = 1, max = 128))]
    line_id: String,
    /// Product code, 1 to 128 bytes of UTF-8.
    #[schemars(length(min = 1, max = 128))]
    sku: String,
    /// Number of pieces, 1 to 10,000.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10_000))]
    quantity: u32,
    /// Price of one piece in cents.
    #[schemars(range(max = 1_000_000_000))]
    unit_price_cents: u64,
}

fn one() -> u32 {
    1
}

#[tool_router(vis = "pub(super)")]
impl CartServer {
    #[tool(
        description = "Create a shopping cart and return its cart_id, which the other tools take.",
        annotations(
            title = "Create a cart",
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn create_cart(
        &self,
        Parameters(CreateCart { idempotency_key }): Parameters<CreateCart>,
        extensions: Extensions,
    ) -> Result<Json<CartView>, ToolError> {
        create(&self.carts(&extensions)?, idempotency_key.as_deref())
            .await
            .map(Json)
    }

    #[tool(
        description = "Add a line to a cart, and return the cart. Repeating a line_id adds nothing.",
        annotations(
            title = "Add an item",
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn add_item(
        &self,
        Parameters(item): Parameters<AddItem>,
        extensions: Extensions,
    ) -> Result<Json<CartView>, ToolError> {
        let AddItem {
            cart_id,
            line_id,
            sku,
            quantity,
            unit_price_cents,
        } = item;
        let line = Line {
            line_id,
            sku,
            quantity,
            unit_price_cents,
        };
        add_item(&self.carts(&extensions)?, &cart_id, line)
            .await
            .map(Json)
    }

    #[tool(
        description = "Show a cart's lines and total.",
        annotations(title = "View a cart", read_only_hint = true, open_world_hint = false)
    )]
    async fn view_cart(
        &self,
        Parameters(CartId { cart_id }): Parameters<CartId>,
        extensions: Extensions,
    ) -> Result<Json<CartView>, ToolError> {
        view(&self.carts(&extensions)?, &cart_id).await.map(Json)
    }

    #[tool(
        description = "Turn a cart into an order, once, and return the order. Checking the same cart \
                       out again returns the same order.",
        annotations(
            title = "Check out",
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn checkout(
        &self,
        Parameters(CartId { cart_id }): Parameters<CartId>,
        extensions: Extensions,
    ) -> Result<Json<Order>, ToolError> {
        checkout(&self.carts(&extensions)?, &cart_id)
            .await
            .map(Json)
    }

    #[tool(
        description = "Give a cart up, with all that is in it.",
        annotations(
            title = "Abandon a cart",
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn abandon_cart(
        &self,
        Parameters(CartId { cart_id }): Parameters<CartId>,
        extensions: Extensions,
    ) -> Result<Json<AbandonView>, ToolError> {
        abandon(&self.carts(&extensions)?, &cart_id).await.map(Json)
    }

    #[tool(
        description = "List your open carts. Without authentication all callers are one.",
        annotations(title = "List carts", read_only_hint = true, open_world_hint = false)
    )]
    async fn list_carts(&self, extensions: Extensions) -> Result<Json<CartList>, ToolError> {
        list(&self.carts(&extensions)?).await.map(Json)
    }
}

/// The tools' router, with the carts' lifetime in the descriptions.
pub(super) fn router(idle_ttl: Duration) -> ToolRouter<CartServer> {
    let mut router = CartServer::tool_router();
    let lifetime = format!(" Carts expire after {} of inactivity.", in_words(idle_ttl));
    for (name, route) in &mut router.map {
        if name != "checkout"
            && let Some(description) = &mut route.attr.description
        {
            description.to_mut().push_str(&lifetime);
        }
        route.attr = plain(route.attr.clone());
    }
    router
}

fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (number, unit) = match seconds {
        0 => return format!("{} milliseconds", duration.as_millis()),
        s if s % 3600 == 0 => (s / 3600, "hour"),
        s if s % 60 == 0 => (s / 60, "minute"),
        s => (s, "second"),
    };
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural}")
}

#[tool_handler(router = self.router)]
impl ServerHandler for CartServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("helve-cart", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Shopping carts. Create a cart, add items under line ids of your choosing, check it \
                 out. If an answer is lost, make the same call again with the same arguments.",
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
        Ok(ListToolsResult {
            result_type: Some(ResultType::COMPLETE),
            tools: self.router.list_all(),
            meta: None,
            next_cursor: None,
            ttl_ms: is_modern.then_some(0),
            cache_scope: is_modern.then_some(CacheScope::Public),
        })
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = self.router.get(&request.name);
        if let (Some(tool), Some(arguments)) = (tool, &mut request.arguments) {
            whole(arguments, &tool.input_schema);
        }
        let parent = parent(&context);
        let call = ToolCallContext::new(self, request, context);
        within_trace(parent, self.router.call(call)).await
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{READING_TOOLS, in_words, router};

    #[test]
    fn the_tools_that_read_are_those_that_say_so() {
        for tool in router(Duration::from_secs(1)).list_all() {
            let hints = tool.annotations.expect("each has hints");
            let reads = hints.read_only_hint == Some(true);
            assert_eq!(READING_TOOLS.contains(&&*tool.name), reads, "{}", tool.name);
        }
    }

    #[test]
    fn lifetimes_are_said_in_the_largest_whole_unit() {
        let said = [86_400, 3600, 90 * 60, 60, 61].map(|s| in_words(Duration::from_secs(s)));
        assert_eq!(
            said,
            ["24 hours", "1 hour", "90 minutes", "1 minute", "61 seconds"]
        );
    }
}
