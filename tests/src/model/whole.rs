//! The whole model: requests in the order of the log go in, replies come out.

use std::collections::BTreeMap;

use helve_client::{
    ErrorKind,
    v1::{
        Aborted, BatchRetrieveReply, BatchStoreReply, Committed, CountReply, DeleteKeyReply,
        DeleteReply, ExistsReply, GetReply, HandleStatus, KeyRecord, ListKeysReply, ListReply,
        ListedHandle, MintReply, OperationReply, PutReply, RecordInfo, RenewReply, ReplyHeader,
        RetrieveReply, RetrievedKey, StoreReply, TakeReply, TransactReply, WriteStatus,
        exchange_answer::Answer, exchange_call::Call, transact_reply::Result as Came,
    },
};

use super::{
    act::{Act, At, Said, step},
    cell::{Cell, Name, Row, Span},
    parts::{Part, Target, parts},
};
use crate::history::{Reply, Request};

/// All records. Reads restart no idle time here: what they would commit is a renewal of its own.
#[derive(Debug, Clone, Default)]
pub struct Model {
    cells: BTreeMap<Name, Cell>,
}

/// What became of all parts of a request.
enum Carried {
    Done(Vec<(Name, bool, Option<Row>)>),
    NotLive(usize, HandleStatus),
}

impl Model {
    /// Carries out a mutation. `ids` are those that its mints draw, without prefix, in order.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`], and [`ErrorKind::Invalid`] for a read.
    pub fn mutate(&mut self, call: &Call, at: At, ids: &[String]) -> Result<Answer, ErrorKind> {
        let header = header(at);
        let came = self.carry_out(&parts(call), at, ids)?;
        Ok(match call {
            Call::Transact(_) => Answer::Transact(TransactReply {
                header,
                result: Some(transacted(came, call)),
            }),
            Call::BatchStore(_) => Answer::BatchStore(BatchStoreReply {
                header,
                infos: infos(&came),
            }),
            call => single(call, header, &came)?,
        })
    }

    /// All parts or none, each on what stood before.
    fn carry_out(&mut self, parts: &[Part], at: At, ids: &[String]) -> Result<Carried, ErrorKind> {
        let mut ids = ids.iter();
        let (mut done, mut left) = (Vec::new(), Vec::new());
        for (operation, part) in parts.iter().enumerate() {
            let name = match &part.target {
                Target::Named(name) => name.clone(),
                Target::Minted {
                    store,
                    owner,
                    id_prefix,
                } => {
                    let id = ids.next().ok_or(ErrorKind::Invalid)?;
                    let id = match id_prefix.as_str() {
                        "" => id.clone(),
                        prefix => format!("{prefix}-{id}"),
                    };
                    Name::handle(store, owner, &id)
                }
            };
            let (said, cell) = step(&self.cell(&name), &name, &part.act, at).remove(0);
            match said {
                Said::Done { existed, row } => {
                    left.push((name.clone(), cell));
                    done.push((name, existed, row));
                }
                Said::NotLive(status) => return Ok(Carried::NotLive(operation, status)),
                Said::Conflict(revision) => {
                    let operation = u32::try_from(operation).unwrap_or(u32::MAX);
                    return Err(ErrorKind::Conflict {
                        revision,
                        operation,
                    });
                }
            }
        }
        self.cells.extend(left);
        Ok(Carried::Done(done))
    }

    /// What is stored under a name.
    #[must_use]
    pub fn cell(&self, name: &Name) -> Cell {
        self.cells.get(name).cloned().unwrap_or_default()
    }

    fn live(&self, name: &Name, at: At) -> (HandleStatus, Option<&Row>) {
        let cell = self.cells.get(name).unwrap_or(&Cell::Empty);
        let status = cell.statuses(name, at.clock)[0];
        (status, cell.row().filter(|_| status == HandleStatus::Live))
    }

    /// Answers a read; `None` for a mutation. A list is one part.
    #[must_use]
    pub fn read(&self, request: &Request, at: At) -> Option<Reply> {
        let call = match request {
            Request::Call(call) => call,
            Request::ListHandles(list) => {
                let is_listed = |store: &str, owner: &str| {
                    store == list.store && list.owner.as_deref().is_none_or(|own| own == owner)
                };
                let handles = self.cells.keys().filter_map(|name| match name {
                    Name::Handle { store, owner, .. } if is_listed(store, owner) => {
                        let row = self.live(name, at).1?;
                        let value = if list.with_values {
                            row.value.clone()
                        } else {
                            Default::default()
                        };
                        Some(ListedHandle {
                            info: Some(row.info(name)),
                            value,
                        })
                    }
                    _ => None,
                });
                return Some(Reply::Handles(vec![ListReply {
                    header: header(at),
                    handles: handles.collect(),
                    ..ListReply::default()
                }]));
            }
            Request::ListKeys(list) => {
                let records = self.cells.keys().filter_map(|name| match name {
                    Name::Key { owner, key }
                        if *owner == list.owner && key.starts_with(&list.prefix) =>
                    {
                        let mut record = self.record(name, at)?;
                        if !list.with_values {
                            record.value.clear();
                        }
                        Some(record)
                    }
                    _ => None,
                });
                return Some(Reply::Keys(vec![ListKeysReply {
                    header: header(at),
                    records: records.collect(),
                    ..ListKeysReply::default()
                }]));
            }
        };
        self.answer(call, at).map(Reply::Answer)
    }

    fn answer(&self, call: &Call, at: At) -> Option<Answer> {
        let header = header(at);
        Some(match call {
            Call::Get(call) => {
                let name = Name::handle(&call.store, &call.owner, &call.id);
                let (status, row) = self.live(&name, at);
                Answer::Get(GetReply {
                    header,
                    status: status.into(),
                    info: row.map(|row| row.info(&name)),
                    value: row.map(|row| row.value.clone()).unwrap_or_default(),
                })
            }
            Call::Count(call) => {
                let is_counted = |name: &&Name| match name {
                    Name::Handle { store, owner, .. } => {
                        *store == call.store && call.owner.as_ref().is_none_or(|own| own == owner)
                    }
                    Name::Key { .. } => false,
                };
                let counted = self.cells.keys().filter(is_counted);
                let live = counted.filter(|name| self.live(name, at).1.is_some());
                Answer::Count(CountReply {
                    header,
                    live: live.count() as u64,
                })
            }
            Call::Retrieve(call) => {
                let record = self.record(&Name::key(&call.owner, &call.key), at);
                Answer::Retrieve(RetrieveReply { header, record })
            }
            Call::Exists(call) => {
                let exists = self
                    .record(&Name::key(&call.owner, &call.key), at)
                    .is_some();
                Answer::Exists(ExistsReply { header, exists })
            }
            Call::BatchRetrieve(call) => {
                let key = |key: &String| RetrievedKey {
                    record: self.record(&Name::key(&call.owner, key), at),
                };
                let keys = call.keys.iter().map(key).collect();
                Answer::BatchRetrieve(BatchRetrieveReply { header, keys })
            }
            _ => return None,
        })
    }

    fn record(&self, name: &Name, at: At) -> Option<KeyRecord> {
        let row = self.live(name, at).1?;
        Some(KeyRecord {
            info: Some(row.info(name)),
            value: row.value.clone(),
        })
    }

    /// Restarts the idle time of a record that lives and has one, as a read may.
    pub fn touch(&mut self, name: &Name, clock_ms: u64) {
        if let Some(Cell::Written(row)) = self.cells.get_mut(name)
            && row
                .deadline()
                .is_none_or(|deadline| clock_ms < deadline.from)
            && let Some(ttl_ms) = row.idle_ttl_ms
        {
            let renewed = super::cell::idle_deadline(Span::at(clock_ms), ttl_ms);
            row.idle_deadline_ms = row.idle_deadline_ms.max(Some(renewed));
        }
    }
}

fn header(at: At) -> Option<ReplyHeader> {
    Some(ReplyHeader {
        index: at.index,
        clock_ms: at.clock.from,
        leader_hint: String::new(),
    })
}

fn infos(came: &Carried) -> Vec<RecordInfo> {
    let Carried::Done(done) = came else {
        return Vec::new();
    };
    done.iter()
        .filter_map(|(name, _, row)| Some(row.as_ref()?.info(name)))
        .collect()
}

/// What a write by name did, by whether the record lived before.
const WROTE: [WriteStatus; 2] = [WriteStatus::Created, WriteStatus::Replaced];

fn single(call: &Call, header: Option<ReplyHeader>, came: &Carried) -> Result<Answer, ErrorKind> {
    let info = infos(came).pop();
    let (live, existed, value) = match came {
        Carried::Done(done) => {
            let (_, existed, row) = done.first().ok_or(ErrorKind::Invalid)?;
            let value = row.as_ref().map(|row| row.value.clone());
            (HandleStatus::Live, *existed, value.unwrap_or_default())
        }
        Carried::NotLive(_, status) => (*status, false, Default::default()),
    };
    Ok(match call {
        Call::Mint(_) => Answer::Mint(MintReply { header, info }),
        Call::Put(_) => {
            let status = match live {
                HandleStatus::Expired => WriteStatus::Expired,
                HandleStatus::Taken => WriteStatus::Taken,
                _ => WROTE[usize::from(existed)],
            };
            Answer::Put(PutReply {
                header,
                status: status.into(),
                info,
            })
        }
        Call::Take(_) => Answer::Take(TakeReply {
            header,
            status: live.into(),
            info,
            value,
        }),
        Call::Renew(_) => Answer::Renew(RenewReply {
            header,
            status: live.into(),
            info,
        }),
        Call::Delete(_) => Answer::Delete(DeleteReply {
            header,
            status: live.into(),
        }),
        Call::Store(_) => Answer::Store(StoreReply {
            header,
            status: WROTE[usize::from(existed)].into(),
            info,
        }),
        Call::DeleteKey(_) => Answer::DeleteKey(DeleteKeyReply { header, existed }),
        _ => return Err(ErrorKind::Invalid),
    })
}

fn transacted(came: Carried, call: &Call) -> Came {
    let done = match came {
        Carried::NotLive(operation, status) => {
            return Came::Aborted(Aborted {
                operation: u32::try_from(operation).unwrap_or(u32::MAX),
                status: status.into(),
            });
        }
        Carried::Done(done) => done,
    };
    let parts = parts(call);
    let reply = |((name, existed, row), part): ((Name, bool, Option<Row>), &Part)| {
        let info = row.as_ref().map(|row| row.info(&name));
        let (status, value) = match &part.act {
            Act::Write { .. } => (WROTE[usize::from(existed)], None),
            Act::DeleteKey { .. } if existed => (WriteStatus::Replaced, None),
            Act::Take { .. } => (WriteStatus::Unspecified, row.map(|row| row.value)),
            _ => (WriteStatus::Unspecified, None),
        };
        OperationReply {
            info,
            value: value.unwrap_or_default(),
            status: status.into(),
        }
    };
    Came::Committed(Committed {
        replies: done.into_iter().zip(&parts).map(reply).collect(),
    })
}
