//! A state tool as a YAML document configures it, after Caxton's.

mod create;
mod document;
mod helve;
mod read;
#[cfg(test)]
mod tests;

pub use self::{create::create_state_tool, document::StateToolConfig};
