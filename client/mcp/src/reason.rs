//! How a tool error says its reason to programs: the text of the error is for the model.

/// The `_meta` key of a tool error's reason.
pub const REASON: &str = "helve.v1/reason";

/// The one reason after which the same call may be made again.
pub const UNAVAILABLE: &str = "UNAVAILABLE";
