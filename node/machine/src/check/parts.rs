//! The operations of commands.

use std::collections::BTreeSet;

use helve_proto::{
    Reason,
    command::v1::{Reseal, SetSealing, command::Operation, resealed_record, touch::Record},
    v1::{
        BatchStoreRequest, ClaimRequest, Lifetime, TransactRequest, claim_request::Action,
        operation::Operation as Part,
    },
};

use super::{Violation, access, handle_id, key, lifetime, name, owner, text_size};
use crate::{
    limits::{
        CLAIM_DIGEST_BYTES_MAX, CLAIM_LEASE_MS_MAX, CLUSTER_ID_BYTES_MAX, IDENTITY_BYTES,
        RESEAL_RECORDS_MAX, SEALING_KEY_ID_BYTES, SEALING_SECRET_BYTES_MAX, TRANSACTION_BYTES_MAX,
        TRANSACTION_OPERATIONS_MAX, VALUE_BYTES_MAX,
    },
    planted::{self, Plant},
};

/// Checks an operation; says how many handles it mints.
pub(super) fn operation(operation: &Operation) -> Result<usize, Violation> {
    match operation {
        Operation::Mint(r) => {
            mint(
                &r.store,
                &r.owner,
                &r.id_prefix,
                &r.value,
                r.lifetime.as_ref(),
            )?;
            return Ok(1);
        }
        Operation::Put(r) => {
            handle(&r.store, &r.owner, &r.id)?;
            content(&r.value, r.lifetime.as_ref())?;
        }
        Operation::Take(r) => handle(&r.store, &r.owner, &r.id)?,
        Operation::Renew(r) => {
            handle(&r.store, &r.owner, &r.id)?;
            lifetime(r.lifetime.as_ref())?;
        }
        Operation::Delete(r) => handle(&r.store, &r.owner, &r.id)?,
        Operation::Claim(r) => claim(r)?,
        Operation::Store(r) => {
            owned_key(&r.owner, &r.key)?;
            content(&r.value, r.lifetime.as_ref())?;
        }
        Operation::DeleteKey(r) => owned_key(&r.owner, &r.key)?,
        Operation::BatchStore(r) => batch_store(r)?,
        Operation::Transact(r) => return transact(r),
        Operation::OpenSession(r) if r.session_id.len() != IDENTITY_BYTES => {
            return Err(Violation::new(
                Reason::BadRequest,
                "a session id has 16 bytes",
            ));
        }
        Operation::Touch(touch) => match &touch.record {
            Some(Record::Handle(r)) => handle(&r.store, &r.owner, &r.id)?,
            Some(Record::Key(r)) => owned_key(&r.owner, &r.key)?,
            None => {
                return Err(Violation::new(
                    Reason::BadRequest,
                    "a touch names no record",
                ));
            }
        },
        Operation::SetClusterId(r) => text_size("cluster id", &r.cluster_id, CLUSTER_ID_BYTES_MAX)?,
        Operation::CreateToken(r) => access::create_token(r)?,
        Operation::RevokeToken(r) => access::revoke_token(r)?,
        Operation::SetTenant(r) => name("tenant", &r.tenant)?,
        Operation::SetSealing(r) => sealing(r)?,
        Operation::Reseal(r) => reseal(r)?,
        Operation::OpenSession(_)
        | Operation::Tick(_)
        | Operation::AllocateNodeId(_)
        | Operation::RaiseFeatureLevel(_)
        | Operation::EndSealing(_)
        | Operation::Probe(_) => {}
    }
    Ok(0)
}

fn sealing(request: &SetSealing) -> Result<(), Violation> {
    let fits = match request.key_id.len() {
        0 => request.secret.is_empty(),
        SEALING_KEY_ID_BYTES => (1..=SEALING_SECRET_BYTES_MAX).contains(&request.secret.len()),
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let message = "a sealing key's id has 8 bytes, and its secret some; or both are empty";
    Err(Violation::new(Reason::BadRequest, message))
}

fn reseal(request: &Reseal) -> Result<(), Violation> {
    if request.records.len() > RESEAL_RECORDS_MAX {
        let message = format!("at most {RESEAL_RECORDS_MAX} records are resealed at once");
        return Err(Violation::new(Reason::TooLarge, message));
    }
    request
        .records
        .iter()
        .try_for_each(|record| match &record.record {
            Some(resealed_record::Record::Handle(r)) => handle(&r.store, &r.owner, &r.id),
            Some(resealed_record::Record::Key(r)) => owned_key(&r.owner, &r.key),
            None => Err(Violation::new(
                Reason::BadRequest,
                "a record to reseal has no name",
            )),
        })
}

fn handle(store: &str, owner_name: &str, id: &str) -> Result<(), Violation> {
    name("store", store)?;
    owner(owner_name)?;
    handle_id(id)
}

fn owned_key(owner_name: &str, key_name: &str) -> Result<(), Violation> {
    owner(owner_name)?;
    key(key_name)
}

fn mint(
    store: &str,
    owner_name: &str,
    id_prefix: &str,
    value: &[u8],
    life: Option<&Lifetime>,
) -> Result<(), Violation> {
    name("store", store)?;
    owner(owner_name)?;
    if !id_prefix.is_empty() {
        name("id prefix", id_prefix)?;
    }
    content(value, life)
}

fn content(value: &[u8], life: Option<&Lifetime>) -> Result<(), Violation> {
    if value.len() > VALUE_BYTES_MAX && !planted::is(Plant::NoLimit) {
        let message = format!(
            "the value has {} bytes, and {VALUE_BYTES_MAX} are allowed",
            value.len()
        );
        return Err(Violation::new(Reason::TooLarge, message));
    }
    lifetime(life)
}

fn claim(request: &ClaimRequest) -> Result<(), Violation> {
    handle(&request.store, &request.owner, &request.id)?;
    match request.action.as_ref() {
        Some(Action::Begin(begin)) => {
            if !(1..=CLAIM_DIGEST_BYTES_MAX).contains(&begin.digest.len()) {
                let message = format!(
                    "the digest has {} bytes, and 1 to {CLAIM_DIGEST_BYTES_MAX} are allowed: send a hash",
                    begin.digest.len()
                );
                return Err(Violation::new(Reason::BadRequest, message));
            }
            if !(1..=CLAIM_LEASE_MS_MAX).contains(&begin.lease_ms) {
                let message = format!(
                    "the lease is of {} ms, and 1 to {CLAIM_LEASE_MS_MAX} are allowed",
                    begin.lease_ms
                );
                return Err(Violation::new(Reason::BadLifetime, message));
            }
            content(&begin.note, None)
        }
        Some(Action::Finish(finish)) if finish.result_ttl_ms == Some(0) => Err(Violation::new(
            Reason::BadLifetime,
            "a result is kept for at least one millisecond",
        )),
        Some(Action::Finish(finish)) => content(&finish.result, None),
        Some(Action::Abandon(_)) => Ok(()),
        None => Err(Violation::new(
            Reason::BadRequest,
            "the claim neither begins, finishes nor abandons",
        )),
    }
}

fn operations_count(count: usize) -> Result<(), Violation> {
    if count > TRANSACTION_OPERATIONS_MAX {
        let message = format!(
            "{count} operations are in one call, and {TRANSACTION_OPERATIONS_MAX} are allowed"
        );
        return Err(Violation::new(Reason::TooLarge, message));
    }
    Ok(())
}

/// Adds up a transaction's bytes and names, and refuses what is too much or named twice.
#[derive(Default)]
struct Tally<'a> {
    bytes: usize,
    handles: BTreeSet<(&'a str, &'a str, &'a str)>,
    keys: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Tally<'a> {
    fn bytes(&mut self, parts: &[usize]) -> Result<(), Violation> {
        self.bytes += parts.iter().sum::<usize>();
        if self.bytes > TRANSACTION_BYTES_MAX {
            let message = format!(
                "names and values have more than the {TRANSACTION_BYTES_MAX} bytes that are allowed"
            );
            return Err(Violation::new(Reason::TooLarge, message));
        }
        Ok(())
    }

    fn handle(
        &mut self,
        store: &'a str,
        owner_name: &'a str,
        id: &'a str,
    ) -> Result<(), Violation> {
        handle(store, owner_name, id)?;
        self.bytes(&[store.len(), owner_name.len(), id.len()])?;
        if !self.handles.insert((store, owner_name, id)) {
            return Err(Violation::new(
                Reason::BadId,
                "the id is named twice in one call",
            ));
        }
        Ok(())
    }

    fn key(&mut self, owner_name: &'a str, key: &'a str) -> Result<(), Violation> {
        owned_key(owner_name, key)?;
        self.bytes(&[owner_name.len(), key.len()])?;
        if !self.keys.insert((owner_name, key)) {
            return Err(Violation::new(
                Reason::BadKey,
                "the key is named twice in one call",
            ));
        }
        Ok(())
    }

    fn content(&mut self, value: &[u8], life: Option<&Lifetime>) -> Result<(), Violation> {
        content(value, life)?;
        self.bytes(&[value.len()])
    }

    fn part(&mut self, part: &'a Part) -> Result<(), Violation> {
        match part {
            Part::Mint(op) => {
                mint(
                    &op.store,
                    &op.owner,
                    &op.id_prefix,
                    &op.value,
                    op.lifetime.as_ref(),
                )?;
                self.bytes(&[
                    op.store.len(),
                    op.owner.len(),
                    op.id_prefix.len(),
                    op.value.len(),
                ])
            }
            Part::Put(op) => {
                self.handle(&op.store, &op.owner, &op.id)?;
                self.content(&op.value, op.lifetime.as_ref())
            }
            Part::Take(op) => self.handle(&op.store, &op.owner, &op.id),
            Part::Renew(op) => {
                self.handle(&op.store, &op.owner, &op.id)?;
                lifetime(op.lifetime.as_ref())
            }
            Part::Delete(op) => self.handle(&op.store, &op.owner, &op.id),
            Part::Store(op) => {
                self.key(&op.owner, &op.key)?;
                self.content(&op.value, op.lifetime.as_ref())
            }
            Part::DeleteKey(op) => self.key(&op.owner, &op.key),
        }
    }
}

fn batch_store(request: &BatchStoreRequest) -> Result<(), Violation> {
    operations_count(request.items.len())?;
    let mut tally = Tally::default();
    for (index, item) in request.items.iter().enumerate() {
        tally
            .key(&request.owner, &item.key)
            .and_then(|()| tally.content(&item.value, item.lifetime.as_ref()))
            .map_err(|violation| violation.at(index))?;
    }
    Ok(())
}

fn transact(request: &TransactRequest) -> Result<usize, Violation> {
    operations_count(request.operations.len())?;
    let mut tally = Tally::default();
    let mut mints = 0;
    for (index, operation) in request.operations.iter().enumerate() {
        let missing = || Violation::new(Reason::BadRequest, "the operation is empty").at(index);
        let part = operation.operation.as_ref().ok_or_else(missing)?;
        tally.part(part).map_err(|violation| violation.at(index))?;
        mints += usize::from(matches!(part, Part::Mint(_)));
    }
    Ok(mints)
}
