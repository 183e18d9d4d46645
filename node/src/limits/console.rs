//! What the console may take up.

use std::time::Duration;

/// Calls of the console under way, watches included; more are refused as OVERLOADED. The HTTP port has
/// [four times as many](super::HTTP_CONNECTIONS_MAX) connections. A tenant has at most
/// [three times](super::PLACES_SHARE) what it leaves free of these.
pub const CONSOLE_CALLS_MAX: usize = 64;

/// Of these, calls from one address, on a node that asks for no credentials. Where it asks for
/// tokens, tenants share: callers that come through one tunnel have one address.
pub const ADDRESS_CONSOLE_CALLS_MAX: usize = 32;

/// Of these, calls of one principal of a tenant: as many as its pages and scripts need, and few
/// enough that the tenant's admins find a place.
pub const PRINCIPAL_CONSOLE_CALLS_MAX: usize = 16;

/// Calls of operators under way, beside these; more are refused as OVERLOADED. Tenants cannot take
/// their places, whatever address both come from. Operators may not watch: their calls are short.
pub const OPERATORS_CONSOLE_CALLS_MAX: usize = 16;

/// Calls of the console whose credential this node's rows do not know, while others are asked; more are refused as OVERLOADED. Without a quorum the look-up of an unknown
/// token lasts as long as its [deadline](super::DEADLINE_DEFAULT): such calls must leave places to callers that are known.
pub const CONSOLE_LOOKUPS_MAX: usize = 16;

/// Of these, calls from one address.
pub const ADDRESS_CONSOLE_LOOKUPS_MAX: usize = 8;

/// Stores in one page of the console's.
pub const CONSOLE_STORES_MAX: usize = 200;

/// The longest that the console waits for what another member says of itself.
pub const CONSOLE_PEER_TIME_MAX: Duration = Duration::from_secs(1);

/// How long all callers share what the members said, so that members are not asked more often, however many pages are open.
pub const CONSOLE_NODES_PAUSE: Duration = Duration::from_secs(1);
