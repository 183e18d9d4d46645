//! The tools, as a model sees them: names, schemas, hints and descriptions.

use std::{any::Any, sync::Arc};

use rmcp::{
    handler::server::tool::{schema_for_input, schema_for_output},
    model::{JsonObject, Tool, ToolAnnotations},
};
use schemars::JsonSchema;

use super::{
    answers::{Deleted, Existence, Listed, Retrieved, RetrievedBatch, Stored, StoredBatch},
    arguments::{BatchRetrieve, BatchStore, Delete, List, OneKey, Store},
    gate::Visible,
};
use crate::schema::plain;

/// The tools that read, for [`Scopes`](crate::bearer::Scopes): all others write.
pub const READING_TOOLS: &[&str] = &["batch_retrieve", "exists", "list", "retrieve"];

/// One of the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    BatchRetrieve,
    BatchStore,
    Delete,
    Exists,
    List,
    Retrieve,
    Store,
}

impl Name {
    /// All of them, in the order in which they are listed.
    const ALL: [Self; 7] = [
        Self::BatchRetrieve,
        Self::BatchStore,
        Self::Delete,
        Self::Exists,
        Self::List,
        Self::Retrieve,
        Self::Store,
    ];

    /// The tool of this name, if there is one.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::BatchRetrieve => "batch_retrieve",
            Self::BatchStore => "batch_store",
            Self::Delete => "delete",
            Self::Exists => "exists",
            Self::List => "list",
            Self::Retrieve => "retrieve",
            Self::Store => "store",
        }
    }

    /// The least gate that shows it.
    pub(super) fn needs(self) -> Visible {
        match self {
            Self::BatchRetrieve | Self::Exists | Self::List | Self::Retrieve => Visible::Reads,
            Self::BatchStore | Self::Store => Visible::Writes,
            Self::Delete => Visible::Deletes,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::BatchRetrieve => "Retrieve several values",
            Self::BatchStore => "Store several values",
            Self::Delete => "Delete a value",
            Self::Exists => "Look whether a key exists",
            Self::List => "List keys",
            Self::Retrieve => "Retrieve a value",
            Self::Store => "Store a value",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::BatchRetrieve => {
                "Retrieve the values of up to 100 keys, in the order asked for, all as of one moment."
            }
            Self::BatchStore => {
                "Store up to 100 values: all of them, or none. Replacing what is there without if_revision may need the \
                 user's confirmation."
            }
            Self::Delete => {
                "Delete a key and its value for good. It need not exist. May need the user's confirmation."
            }
            Self::Exists => "Look whether there is such a key.",
            Self::List => {
                "List keys by what they begin with, in order, with revisions and times, without values. Pass `next` as `after` \
                 to go on."
            }
            Self::Retrieve => "Retrieve the value of a key, and its revision.",
            Self::Store => {
                "Store a JSON value under a key, so that it can be retrieved later, by other conversations too. Pass the revision \
                 that was retrieved as if_revision, so as not to overwrite what somebody else stored since. Replacing what is \
                 there without if_revision may need the user's confirmation."
            }
        }
    }

    fn input(self) -> Arc<JsonObject> {
        match self {
            Self::BatchRetrieve => input::<BatchRetrieve>(),
            Self::BatchStore => input::<BatchStore>(),
            Self::Delete => input::<Delete>(),
            Self::Exists | Self::Retrieve => input::<OneKey>(),
            Self::List => input::<List>(),
            Self::Store => input::<Store>(),
        }
    }

    fn output(self) -> Arc<JsonObject> {
        match self {
            Self::BatchRetrieve => schema_for_output::<RetrievedBatch>(),
            Self::BatchStore => schema_for_output::<StoredBatch>(),
            Self::Delete => schema_for_output::<Deleted>(),
            Self::Exists => schema_for_output::<Existence>(),
            Self::List => schema_for_output::<Listed>(),
            Self::Retrieve => schema_for_output::<Retrieved>(),
            Self::Store => schema_for_output::<Stored>(),
        }
    }

    fn tool(self) -> Tool {
        let reads = self.needs() == Visible::Reads;
        // To store the same again leaves the same, and so does to delete it again.
        let hints = ToolAnnotations::with_title(self.title())
            .read_only(reads)
            .destructive(!reads)
            .idempotent(true)
            .open_world(false);
        let tool = Tool::new(self.as_str(), self.description(), self.input())
            .with_title(self.title())
            .with_raw_output_schema(self.output())
            .with_annotations(hints);
        plain(tool)
    }
}

fn input<T: JsonSchema + Any>() -> Arc<JsonObject> {
    schema_for_input::<T>().expect("arguments are objects")
}

/// The tools that a gate shows.
pub(super) fn visible(gate: Visible) -> Vec<Tool> {
    let shown = Name::ALL.into_iter().filter(|tool| tool.needs() <= gate);
    shown.map(Name::tool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_that_read_are_those_that_say_so() {
        for tool in Name::ALL {
            let reads = tool.needs() == Visible::Reads;
            assert_eq!(READING_TOOLS.contains(&tool.as_str()), reads, "{tool:?}");
        }
    }
}
