//! The reads of a story.

use helve_machine::query::{self, Page};
use helve_proto::v1::{
    BatchRetrieveRequest, CountRequest, ExistsRequest, GetRequest, HandleStatus, ListKeysRequest,
    ListRequest, RetrieveRequest,
};

use super::{
    Story, Words,
    describe::{describe_info, handle_status, text},
};

impl Story {
    pub(super) fn read_handles(&mut self, words: &Words<'_>) -> String {
        let store = words.plain[1].to_owned();
        let owner = words.options.get("owner").map(|owner| (*owner).to_owned());
        match words.plain[0] {
            "count" => {
                let request = CountRequest { store, owner };
                self.host
                    .read(self.now_ms, |rows, scope| {
                        query::count(rows, scope, &request)
                    })
                    .live
                    .to_string()
            }
            "list" => {
                let mut request = ListRequest {
                    store,
                    owner,
                    with_values: true,
                    ..ListRequest::default()
                };
                let mut listed = Vec::new();
                loop {
                    let page = Page {
                        rows_max: 2,
                        bytes_max: 1000,
                    };
                    let reply = self.host.read(self.now_ms, |rows, scope| {
                        query::list(rows, scope, &request, page)
                    });
                    let rest = query::rest(request, &reply);
                    listed.extend(reply.handles);
                    let Some(rest) = rest else { break };
                    request = rest;
                }
                let names = listed
                    .iter()
                    .map(|handle| self.name(&handle.info.as_ref().unwrap().name));
                names.collect::<Vec<_>>().join(" ")
            }
            call => {
                let request = GetRequest {
                    store,
                    owner: owner.unwrap_or_default(),
                    id: self.id(words.plain[2]),
                };
                let reply = self
                    .host
                    .read(self.now_ms, |rows, scope| query::get(rows, scope, &request));
                match (reply.status(), call) {
                    (HandleStatus::Live, "info") => describe_info(&reply.info.unwrap()),
                    (HandleStatus::Live, _) => {
                        format!("live {}", text(&reply.value)).trim().to_owned()
                    }
                    (status, _) => handle_status(status),
                }
            }
        }
    }

    pub(super) fn read_keys(&mut self, words: &Words<'_>) -> String {
        let owner = words.option("owner");
        let key = words.plain.get(1).copied().unwrap_or_default().to_owned();
        match words.plain[0] {
            "exists" => {
                let request = ExistsRequest { owner, key };
                self.host
                    .read(self.now_ms, |rows, scope| {
                        query::exists(rows, scope, &request)
                    })
                    .exists
                    .to_string()
            }
            "keys" => {
                let request = ListKeysRequest {
                    owner,
                    prefix: key,
                    ..ListKeysRequest::default()
                };
                let page = Page {
                    rows_max: 100,
                    bytes_max: 100_000,
                };
                let reply = self.host.read(self.now_ms, |rows, scope| {
                    query::list_keys(rows, scope, &request, page)
                });
                let names = reply
                    .records
                    .into_iter()
                    .map(|record| record.info.unwrap().name);
                names.collect::<Vec<_>>().join(" ")
            }
            "batch_retrieve" => {
                let keys = words.plain[1..]
                    .iter()
                    .map(|key| (*key).to_owned())
                    .collect();
                let request = BatchRetrieveRequest { owner, keys };
                let reply = self.host.read(self.now_ms, |rows, scope| {
                    query::batch_retrieve(rows, scope, &request)
                });
                let values = reply.keys.into_iter().map(|key| {
                    key.record
                        .map_or("-".to_owned(), |record| text(&record.value))
                });
                values.collect::<Vec<_>>().join(" ")
            }
            call => {
                let request = RetrieveRequest { owner, key };
                let reply = self.host.read(self.now_ms, |rows, scope| {
                    query::retrieve(rows, scope, &request)
                });
                match (reply.record, call) {
                    (None, _) => "absent".to_owned(),
                    (Some(record), "info_key") => describe_info(&record.info.unwrap()),
                    (Some(record), _) => text(&record.value),
                }
            }
        }
    }
}
