//! Claims: side effects that must happen once, such as a payment or a mail.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use bytes::Bytes;
use helve_proto::{
    Reason,
    v1::{
        self as proto, ClaimAbandon, ClaimBegin, ClaimFinish, ClaimReply, ClaimRequest,
        ClaimStatus, RecordInfo, claim_request::Action, lifetime::Absolute,
    },
};

use crate::{
    client::Client,
    codec::{Codec, Json},
    error::Error,
    handles::HandleOptions,
    record::{Record, present, record_with},
    ttl::{Defaults, Ttl, millis},
};

/// Claims of a store, of [`Client::claims`]: each is a key, the digest of what is to be done, and what it came to.
///
/// The first that begins has the lease, carries out the side effect, and [finishes](Lease::finish) with the result. A caller that
/// begins meanwhile hears until when, and afterwards gets the result. If the holder dies, its lease ends on the cluster's clock, and the next
/// that begins has a lease with a higher fence; a late finish of the old one is refused.
///
/// # What a claim cannot know
/// Whether a holder that died had carried out the side effect. The next lease is told that there was one: see [`Lease::earlier`]. So what carries it out should take the key too, or the
/// [fence](Lease::fence), and refuse what it has seen: then it happens once. Without that it happens once as long as no lease ends
/// under way. A lease that is dropped is not abandoned, for the same reason.
///
/// A claim is a record of the store of handles with the same name: lists, counts and watches show it. Only claims and deletes change
/// it, so use a store of its own. Clusters know claims from feature level 6 on; before, a call fails with
/// [`Reason::FormatNewer`].
pub struct Claims<T, C = Json> {
    client: Client,
    options: HandleOptions,
    codec: Arc<C>,
    result: PhantomData<fn(T) -> T>,
}

impl Client {
    /// The claims of a store, whose results are kept as JSON. Of the options, an idle time is refused by
    /// [`Lease::finish`], and the id prefix is not used.
    #[must_use]
    pub fn claims<T>(&self, options: HandleOptions) -> Claims<T> {
        Claims::new(self.clone(), options, Arc::new(Json))
    }

    /// As [`claims`](Self::claims), with a [codec](crate::Codec) for the results.
    #[must_use]
    pub fn claims_with<T, C: Codec<T>>(&self, options: HandleOptions, codec: C) -> Claims<T, C> {
        Claims::new(self.clone(), options, Arc::new(codec))
    }
}

/// What a begin came to.
#[derive(Debug)]
pub enum BeginOutcome<T, C = Json> {
    /// The caller has the lease: it carries out the side effect, and finishes.
    Fresh(Lease<T, C>),
    /// Another call has the lease.
    InFlight(InFlight),
    /// It was finished, with this result.
    Done(Record<T>),
    /// Another digest has the key, in flight or done: it is used for two things.
    Conflict,
}

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseEnd {
    /// Its time was over without a finish: its holder may have carried out the side effect, or not.
    Expired,
    /// Its holder abandoned it: it says that it did not carry out the side effect.
    Abandoned,
    /// It was finished, and its result is forgotten: the side effect was carried out.
    Finished,
}

/// A lease of the same key that ended before, as [`Lease::earlier`] tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EarlierLease {
    /// How it ended.
    pub end: LeaseEnd,
    /// Its [fence](Lease::fence): what the side effect touches may know whether it saw it.
    pub fence: u64,
    /// When it ended, in milliseconds since the Unix epoch on the cluster's clock.
    pub ended_at_ms: u64,
}

impl EarlierLease {
    /// Whether the side effect may have happened under it, or under one before it: find out before carrying it out again.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        self.end != LeaseEnd::Abandoned
    }
}

impl From<proto::EarlierLease> for EarlierLease {
    fn from(lease: proto::EarlierLease) -> Self {
        let end = match lease.end() {
            proto::LeaseEnd::Abandoned => LeaseEnd::Abandoned,
            proto::LeaseEnd::Finished => LeaseEnd::Finished,
            // An end that this version does not know rules nothing out either.
            proto::LeaseEnd::Expired | proto::LeaseEnd::Unspecified => LeaseEnd::Expired,
        };
        Self {
            end,
            fence: lease.fence,
            ended_at_ms: lease.ended_at_ms,
        }
    }
}

/// A claim that another call has the lease of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    /// When the lease ends, in milliseconds since the Unix epoch on the cluster's clock.
    pub until_ms: u64,
    /// The cluster's clock when it answered.
    pub clock_ms: u64,
    /// What the holder said of itself; empty if nothing.
    pub note: Bytes,
}

impl InFlight {
    /// How long the lease lasted yet when the cluster answered: before that has passed, only an end of the claim makes another begin
    /// come to something else.
    #[must_use]
    pub fn left(&self) -> Duration {
        Duration::from_millis(self.until_ms.saturating_sub(self.clock_ms))
    }
}

/// What a finish came to.
#[derive(Debug, Clone, PartialEq)]
pub enum FinishOutcome<T> {
    /// The result is kept now.
    Finished(RecordInfo),
    /// It was finished under this lease before, with this result, which stays.
    Done(Record<T>),
    /// The lease ended, was abandoned or was deleted: another may have one by now, and nothing was kept.
    LeaseLost,
}

/// What an abandon came to.
#[derive(Debug, Clone, PartialEq)]
pub enum AbandonOutcome<T> {
    /// The key is free now.
    Abandoned,
    /// It was finished under this lease before, with this result, which stays.
    Done(Record<T>),
    /// The lease ended, was abandoned or was deleted before.
    LeaseLost,
}

impl<T, C> Claims<T, C> {
    fn new(client: Client, options: HandleOptions, codec: Arc<C>) -> Self {
        Self {
            client,
            options,
            codec,
            result: PhantomData,
        }
    }
}

impl<T, C: Codec<T>> Claims<T, C> {
    /// Asks for the lease of this key for so long: more than zero, and at most a day. The digest says what is to be done, such as a hash
    /// of the request, in 1 to 64 bytes; it is not sealed at rest.
    ///
    /// # Errors
    /// Those of every write. After [`Ambiguous`](crate::ErrorKind::Ambiguous) this call may have the lease without knowing: then
    /// the side effect must wait until the lease has ended.
    pub async fn begin(
        &self,
        key: &str,
        digest: impl Into<Bytes> + Send,
        lease: Duration,
    ) -> Result<BeginOutcome<T, C>, Error> {
        self.begin_with_note(key, digest, lease, Bytes::new()).await
    }

    /// As [`begin`](Self::begin), with a note for those who find the claim in flight, such as who works on it: at most 1 MiB.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub async fn begin_with_note(
        &self,
        key: &str,
        digest: impl Into<Bytes> + Send,
        lease: Duration,
        note: impl Into<Bytes> + Send,
    ) -> Result<BeginOutcome<T, C>, Error> {
        let begin = Action::Begin(ClaimBegin {
            digest: digest.into(),
            lease_ms: millis(lease)?,
            note: note.into(),
        });
        let reply = self.act(key, begin).await?;
        Ok(match reply.status() {
            ClaimStatus::Fresh => BeginOutcome::Fresh(Lease {
                claims: self.clone(),
                key: key.to_owned(),
                fence: reply.fence,
                until_ms: until(&reply)?,
                earlier: reply.earlier.map(EarlierLease::from),
            }),
            ClaimStatus::InFlight => BeginOutcome::InFlight(InFlight {
                until_ms: until(&reply)?,
                clock_ms: present(reply.header, "header")?.clock_ms,
                note: reply.value,
            }),
            ClaimStatus::Done => BeginOutcome::Done(self.record(reply)?),
            ClaimStatus::Conflict => BeginOutcome::Conflict,
            _ => return Err(unknown_status()),
        })
    }

    async fn act(&self, key: &str, action: Action) -> Result<ClaimReply, Error> {
        let request = ClaimRequest {
            identity: None,
            store: self.options.store.clone(),
            owner: self.options.owner.on_wire()?,
            id: key.to_owned(),
            action: Some(action),
        };
        self.client.call(request).await
    }

    fn record(&self, reply: ClaimReply) -> Result<Record<T>, Error> {
        record_with(reply.info, || self.codec.decode(reply.value))
    }

    /// What a lifetime is for a result; `None`: it is kept until it is deleted.
    fn result_ttl_ms(&self, ttl: Ttl) -> Result<Option<u64>, Error> {
        let refused = |message: &str| Err(Error::refused(Reason::BadLifetime, message, 0, 0));
        let Defaults { idle_ttl, .. } = self.options.defaults;
        if idle_ttl.is_some() {
            return refused("results of claims have no idle time: set none in the options");
        }
        match ttl.lifetime(self.options.defaults)?.absolute {
            Some(Absolute::AfterMs(ttl_ms)) => Ok(Some(ttl_ms)),
            Some(Absolute::Keep(_)) => {
                refused("a result would be gone with the lease: use another Ttl than Keep")
            }
            _ => Ok(None),
        }
    }
}

/// The right to carry out a side effect. Dropped, it is neither finished nor abandoned, and ends by itself.
#[must_use = "the side effect is this caller's to carry out, and to finish"]
pub struct Lease<T, C = Json> {
    claims: Claims<T, C>,
    key: String,
    fence: u64,
    until_ms: u64,
    earlier: Option<EarlierLease>,
}

impl<T, C> Lease<T, C> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The fencing token: higher than that of every lease of this key before, so that what the side effect touches can refuse a lower
    /// one. It is an index of the log: after `helve restore`, or a `helve recover` that lost entries, fences are given again from the last
    /// index that was kept on. What refuses lower ones must then forget those that it has seen.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// When the lease ends, in milliseconds since the Unix epoch on the cluster's clock.
    #[must_use]
    pub fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// The newest lease of this key before this one that was not abandoned; if all were, the newest. `None`: none is known. The cluster
    /// knows of them for 24 hours after the last one ended, or until the key is deleted.
    #[must_use]
    pub fn earlier(&self) -> Option<EarlierLease> {
        self.earlier
    }
}

impl<T, C: Codec<T>> Lease<T, C> {
    /// Keeps the result, for all who begin from now on. [`Ttl::Keep`] is refused. May be called again after an error: the result that was
    /// kept first stays.
    ///
    /// # Errors
    /// Those of every write. The lease goes on until its end.
    pub async fn finish(&self, result: &T, ttl: Ttl) -> Result<FinishOutcome<T>, Error> {
        let finish = Action::Finish(ClaimFinish {
            fence: self.fence,
            result: self.claims.codec.encode(result)?,
            result_ttl_ms: self.claims.result_ttl_ms(ttl)?,
        });
        let reply = self.claims.act(&self.key, finish).await?;
        Ok(match reply.status() {
            ClaimStatus::Finished => FinishOutcome::Finished(present(reply.info, "info")?),
            ClaimStatus::Done => FinishOutcome::Done(self.claims.record(reply)?),
            ClaimStatus::LeaseLost => FinishOutcome::LeaseLost,
            _ => return Err(unknown_status()),
        })
    }

    /// Frees the key at once, for the next that begins. Only a caller that did not carry out the side effect may do so.
    /// What this lease was told of those before it, the next one is told.
    ///
    /// # Errors
    /// Those of every write. The lease goes on until its end.
    pub async fn abandon(&self) -> Result<AbandonOutcome<T>, Error> {
        let abandon = ClaimAbandon {
            fence: self.fence,
            never_happened: false,
        };
        self.give_up(abandon).await
    }

    /// As [`abandon`](Self::abandon), by a holder that found out that the side effect did not happen under the leases before either:
    /// then the next lease is not told of [those that ran out](Self::earlier) any more.
    ///
    /// # Errors
    /// As [`abandon`](Self::abandon).
    pub async fn abandon_never_happened(&self) -> Result<AbandonOutcome<T>, Error> {
        let abandon = ClaimAbandon {
            fence: self.fence,
            never_happened: true,
        };
        self.give_up(abandon).await
    }

    async fn give_up(&self, abandon: ClaimAbandon) -> Result<AbandonOutcome<T>, Error> {
        let reply = self.claims.act(&self.key, Action::Abandon(abandon)).await?;
        Ok(match reply.status() {
            ClaimStatus::Abandoned => AbandonOutcome::Abandoned,
            ClaimStatus::Done => AbandonOutcome::Done(self.claims.record(reply)?),
            ClaimStatus::LeaseLost => AbandonOutcome::LeaseLost,
            _ => return Err(unknown_status()),
        })
    }
}

fn until(reply: &ClaimReply) -> Result<u64, Error> {
    let info = reply.info.as_ref();
    present(info.and_then(|info| info.expires_at_ms), "end of the lease")
}

fn unknown_status() -> Error {
    Error::internal("a claim status that this version does not know")
}

impl<T, C> Clone for Claims<T, C> {
    fn clone(&self) -> Self {
        Self::new(
            self.client.clone(),
            self.options.clone(),
            Arc::clone(&self.codec),
        )
    }
}

impl<T, C> fmt::Debug for Claims<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HandleOptions { store, owner, .. } = &self.options;
        write!(f, "Claims({store:?}, {owner:?}, {:?})", self.client)
    }
}

impl<T, C> fmt::Debug for Lease<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", &self.key)
            .field("fence", &self.fence)
            .field("until_ms", &self.until_ms)
            .field("earlier", &self.earlier)
            .finish_non_exhaustive()
    }
}
