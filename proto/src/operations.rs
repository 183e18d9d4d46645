//! What each operation is, in one table: who may call it, what it does, and what its command asks of a node.
//!
//! A row is a call of the public services, a command of the log, or both. What follows from the fields of messages alone, such as which
//! record a request names and which values it brings, is generated from the contracts beside it (`build/`). A command, or a call that a
//! stream carries, does not compile without a row; a test compares the rows with the methods of the services.
//!
//! Replicas look here when they apply a command: a row never changes, but for a call's path and caller.

use std::cmp::Ordering;

use crate::{
    command::v1::command::Operation,
    v1::{ClaimRequest, claim_request::Action, operation::Operation as Part},
};

mod contents;
mod facts;
mod named;

use self::{
    About::{Nodes, Records},
    Repeat::{Administrative, Identity, Itself},
};
pub use self::{
    contents::{CallReply, CallRequest, SeeRecord},
    facts::{About, CallFacts, CommandFacts, Facts, Least, LowDisk, Repeat, Value},
    named::Named,
};

/// What is generated from the contracts.
#[allow(clippy::all, clippy::pedantic)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/operations.rs"));
}

/// All operations: calls in the order of their paths, by which they are found, and then the commands that only nodes propose.
#[rustfmt::skip]
pub const OPERATIONS: &[Facts] = &[
    write("create_token", "/helve.v1.AccessService/CreateToken", Least::Manager, command(Some(2), Administrative, Nodes, LowDisk::Refused, Value::Absent)),
    alone("/helve.v1.AccessService/ListTenants", Least::Manager),
    alone("/helve.v1.AccessService/ListTokens", Least::Manager),
    write("revoke_token", "/helve.v1.AccessService/RevokeToken", Least::Manager, command(Some(2), Administrative, Nodes, LowDisk::Admitted, Value::Absent)),
    write("set_tenant", "/helve.v1.AccessService/SetTenant", Least::Operator, command(Some(2), Administrative, Nodes, LowDisk::Admitted, Value::Absent)),
    alone("/helve.v1.CallService/Exchange", Least::Reader),
    write("open_session", "/helve.v1.CallService/OpenSession", Least::Writer, command(Some(1), Itself, Nodes, LowDisk::Admitted, Value::Absent)),
    alone("/helve.v1.ClusterService/AddMember", Least::Operator),
    alone("/helve.v1.ClusterService/Backup", Least::Operator),
    alone("/helve.v1.ClusterService/DataKeyStatus", Least::Operator),
    alone("/helve.v1.ClusterService/FollowLog", Least::Operator),
    alone("/helve.v1.ClusterService/PromoteMember", Least::Operator),
    alone("/helve.v1.ClusterService/RemoveMember", Least::Operator),
    alone("/helve.v1.ClusterService/ReplaceMember", Least::Operator),
    alone("/helve.v1.ClusterService/SetDataKey", Least::Operator),
    alone("/helve.v1.ClusterService/SetUpgradeHold", Least::Operator),
    alone("/helve.v1.ClusterService/StateDigest", Least::Operator),
    alone("/helve.v1.ClusterService/Status", Least::Token),
    alone("/helve.v1.ClusterService/TakeSnapshot", Least::Operator),
    alone("/helve.v1.ClusterService/TransferLeader", Least::Operator),
    write("claim", "/helve.v1.HandleService/Claim", Least::Writer, command(Some(6), Identity, Records, LowDisk::AdmittedIf(abandons), Value::BroughtIf(by_claim))),
    read("count", "/helve.v1.HandleService/Count", Least::Reader),
    write("delete", "/helve.v1.HandleService/Delete", Least::Writer, command(Some(1), Identity, Records, LowDisk::Admitted, Value::Absent)),
    read("get", "/helve.v1.HandleService/Get", Least::Reader),
    alone("/helve.v1.HandleService/List", Least::Reader),
    write("mint", "/helve.v1.HandleService/Mint", Least::Writer, command(Some(1), Identity, Records, LowDisk::Refused, Value::Brought)),
    write("put", "/helve.v1.HandleService/Put", Least::Writer, command(Some(1), Identity, Records, LowDisk::Refused, Value::Brought)),
    write("renew", "/helve.v1.HandleService/Renew", Least::Writer, command(Some(1), Identity, Records, LowDisk::Refused, Value::Absent)),
    write("take", "/helve.v1.HandleService/Take", Least::Writer, command(Some(1), Identity, Records, LowDisk::Admitted, Value::Absent)),
    read("batch_retrieve", "/helve.v1.StateService/BatchRetrieve", Least::Reader),
    write("batch_store", "/helve.v1.StateService/BatchStore", Least::Writer, command(Some(1), Identity, Records, LowDisk::Refused, Value::BroughtIf(by_batch))),
    write("delete_key", "/helve.v1.StateService/Delete", Least::Writer, command(Some(1), Identity, Records, LowDisk::Admitted, Value::Absent)),
    read("exists", "/helve.v1.StateService/Exists", Least::Reader),
    alone("/helve.v1.StateService/List", Least::Reader),
    read("retrieve", "/helve.v1.StateService/Retrieve", Least::Reader),
    write("store", "/helve.v1.StateService/Store", Least::Writer, command(Some(1), Identity, Records, LowDisk::Refused, Value::Brought)),
    write("transact", "/helve.v1.TransactService/Transact", Least::Writer, command(Some(1), Identity, Records, LowDisk::Refused, Value::BroughtIf(by_transaction))),
    alone("/helve.v1.WatchService/Watch", Least::Reader),
    node("tick", command(Some(1), Itself, Nodes, LowDisk::Admitted, Value::Absent)),
    // Admitted: without it, a read of an idle record could not be answered.
    node("touch", command(Some(1), Itself, Nodes, LowDisk::Admitted, Value::Absent)),
    node("allocate_node_id", command(Some(1), Itself, Nodes, LowDisk::Admitted, Value::Absent)),
    node("set_cluster_id", command(Some(1), Itself, Nodes, LowDisk::Admitted, Value::Absent)),
    node("raise_feature_level", command(Some(1), Itself, Nodes, LowDisk::Admitted, Value::Absent)),
    node("set_sealing", command(Some(2), Itself, Nodes, LowDisk::Refused, Value::Absent)),
    node("reseal", command(Some(2), Itself, Nodes, LowDisk::Refused, Value::BroughtIf(by_reseal))),
    node("end_sealing", command(Some(2), Itself, Nodes, LowDisk::Refused, Value::Absent)),
    node("probe", command(None, Itself, Nodes, LowDisk::Refused, Value::Absent)),
];

/// A call that has no field in `Command` nor in `ExchangeCall`.
const fn alone(path: &'static str, least: Least) -> Facts {
    let (field, command) = (None, None);
    let call = Some(CallFacts { path, least });
    Facts {
        field,
        call,
        command,
    }
}

/// A call that reads, and that a stream carries.
const fn read(field: &'static str, path: &'static str, least: Least) -> Facts {
    Facts {
        field: Some(field),
        ..alone(path, least)
    }
}

/// A call whose request is a command.
const fn write(
    field: &'static str,
    path: &'static str,
    least: Least,
    command: CommandFacts,
) -> Facts {
    Facts {
        command: Some(command),
        ..read(field, path, least)
    }
}

/// A command that only nodes propose.
const fn node(field: &'static str, command: CommandFacts) -> Facts {
    Facts {
        field: Some(field),
        call: None,
        command: Some(command),
    }
}

const fn command(
    level: Option<u32>,
    repeat: Repeat,
    about: About,
    low_disk: LowDisk,
    value: Value,
) -> CommandFacts {
    CommandFacts {
        level,
        repeat,
        about,
        low_disk,
        value,
    }
}

/// The end of a claim without a result frees what its note took.
fn abandons(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Claim(ClaimRequest {
            action: Some(Action::Abandon(_)),
            ..
        })
    )
}

/// A begin brings its note, be it empty: every record's value is sealed.
fn by_claim(operation: &Operation) -> bool {
    !abandons(operation)
}

fn by_batch(operation: &Operation) -> bool {
    matches!(operation, Operation::BatchStore(request) if !request.items.is_empty())
}

fn by_transaction(operation: &Operation) -> bool {
    let Operation::Transact(request) = operation else {
        return false;
    };
    let mut parts = request.operations.iter();
    parts.any(|part| {
        let part = part.operation.as_ref();
        matches!(part, Some(Part::Mint(_) | Part::Put(_) | Part::Store(_)))
    })
}

fn by_reseal(operation: &Operation) -> bool {
    matches!(operation, Operation::Reseal(request) if !request.records.is_empty())
}

/// The call with this path; `None` if the public services have no such call.
#[must_use]
pub fn by_path(path: &str) -> Option<&'static CallFacts> {
    let compared = |row: &Facts| match &row.call {
        Some(call) => call.path.cmp(path),
        None => Ordering::Greater,
    };
    let at = OPERATIONS.binary_search_by(compared).ok()?;
    OPERATIONS.get(at)?.call.as_ref()
}

/// The command with this field. Asked while the code is compiled, which then fails if the table has none.
const fn command_facts(field: &str) -> &'static CommandFacts {
    match &row(field).command {
        Some(facts) => facts,
        None => panic!("the operation's row says nothing of a command"),
    }
}

/// The call with this field, as [`command_facts`].
const fn call_facts(field: &str) -> &'static CallFacts {
    match &row(field).call {
        Some(facts) => facts,
        None => panic!("the operation's row says nothing of a call"),
    }
}

/// The call with this path, as [`command_facts`].
const fn call_at(path: &str) -> &'static CallFacts {
    let mut at = 0;
    while at < OPERATIONS.len() {
        if let Some(call) = &OPERATIONS[at].call
            && is_same(call.path.as_bytes(), path.as_bytes())
        {
            return call;
        }
        at += 1;
    }
    panic!("a call has no row in the table of operations")
}

const fn row(field: &str) -> &'static Facts {
    let mut at = 0;
    while at < OPERATIONS.len() {
        if let Some(own) = OPERATIONS[at].field
            && is_same(own.as_bytes(), field.as_bytes())
        {
            return &OPERATIONS[at];
        }
        at += 1;
    }
    panic!("an operation has no row in the table of operations")
}

/// Texts are not yet compared by `==` while code is compiled.
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

#[cfg(test)]
mod tests;
