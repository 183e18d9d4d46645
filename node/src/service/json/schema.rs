//! The calls that can be made with JSON, by their paths.

use std::sync::LazyLock;

use helve_proto::DESCRIPTORS;
use prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor, MethodDescriptor};

use super::refusal::Refusal;

/// What a node serves. Commands and messages of peers are among the descriptors, and are none of it.
const PACKAGE: &str = "helve.v1";
/// The fields that say at most how many records a list returns.
const PAGE_FIELDS: [&str; 2] = ["handles_max", "keys_max"];
/// Where a list continues: of the parts of a page, that of the last one counts.
const RESUME: &str = "resume_token";

static POOL: LazyLock<DescriptorPool> = LazyLock::new(pool);

fn pool() -> DescriptorPool {
    DescriptorPool::decode(DESCRIPTORS).expect("the descriptors were checked when built")
}

/// A call of the contract.
#[derive(Debug, Clone)]
pub(super) struct Rpc(MethodDescriptor);

impl Rpc {
    /// The call that a path names, as `/helve.v1.HandleService/Get`.
    ///
    /// # Errors
    /// If none has it, or it is a stream that is no list.
    pub(super) fn of(path: &str) -> Result<Self, Refusal> {
        let rpc = Self::named(path)?;
        match rpc.is_stream() {
            true => Err(Refusal::Stream),
            false => Ok(rpc),
        }
    }

    /// The call or stream that a path names.
    ///
    /// # Errors
    /// If none has it.
    pub(super) fn named(path: &str) -> Result<Self, Refusal> {
        let (service, call) = path
            .strip_prefix('/')
            .and_then(|path| path.split_once('/'))
            .ok_or(Refusal::NoSuchCall)?;
        let service = POOL
            .get_service_by_name(service)
            .filter(|service| service.package_name() == PACKAGE)
            .ok_or(Refusal::NoSuchCall)?;
        let mut methods = service.methods();
        let method = methods.find(|method| method.name() == call);
        Ok(Self(method.ok_or(Refusal::NoSuchCall)?))
    }

    /// Whether one message does not answer it. A list is no stream: it is one page.
    pub(super) fn is_stream(&self) -> bool {
        let is_stream = self.0.is_client_streaming() || self.0.is_server_streaming();
        is_stream && self.page_field().is_none()
    }

    pub(super) fn request(&self) -> MessageDescriptor {
        self.0.input()
    }

    pub(super) fn reply(&self) -> MessageDescriptor {
        self.0.output()
    }

    /// The field of a list's request for the size of a page; `None` if the call is no list.
    pub(super) fn page_field(&self) -> Option<FieldDescriptor> {
        let request = self.request();
        let is_list = self.0.is_server_streaming() && self.resume_field().is_some();
        let mut fields = PAGE_FIELDS.iter();
        fields
            .find_map(|name| request.get_field_by_name(name))
            .filter(|_| is_list)
    }

    /// The field of a list's reply for where it continues.
    pub(super) fn resume_field(&self) -> Option<FieldDescriptor> {
        self.reply().get_field_by_name(RESUME)
    }
}
