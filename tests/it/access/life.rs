//! How long a token is let in: on every node, over changes of leaders and restarts.

use anyhow::{Context as _, Result};
use futures::channel::mpsc;
use helve_proto::v1::{
    ExchangeCall, ExchangeRequest, GetRequest, MintRequest, Quotas, RevokeTokenRequest, TokenRole,
    TransferLeaderRequest, call_service_client::CallServiceClient, exchange_answer::Answer,
    exchange_call::Call,
};
use helve_tests::wait::{Look, until};
use tonic::Code;

use super::{Guarded, Token, grant};

impl Guarded {
    async fn revoke(&self, token: &Token) -> Result<()> {
        let request = RevokeTokenRequest {
            tenant: "acme".to_owned(),
            token_hash: token.hash(),
            ..Default::default()
        };
        assert!(self.operator(2).revoke_token(request).await?.existed);
        Ok(())
    }
}

fn mint() -> MintRequest {
    MintRequest {
        store: "cart".to_owned(),
        ..MintRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_outlives_leaders_and_restarts_and_its_revocation_holds_on_every_node() -> Result<()>
{
    let mut guarded = Guarded::start(3).await?;
    guarded.tenant("acme", Quotas::default()).await?;
    let writer = || grant("acme", TokenRole::Writer, "shop");
    let (kept, revoked) = (
        guarded.token(writer()).await?,
        guarded.token(writer()).await?,
    );
    guarded.caller(3, &kept).mint(mint()).await?;
    let leader = guarded.cluster.leader().await?.seat;
    // It is refused while the others lag.
    until("another node to lead", async || {
        let operator = guarded.operator(leader);
        let asked = operator.transfer_leader(TransferLeaderRequest::default());
        let asked = asked.await.map_err(|status| status.to_string());
        match guarded.cluster.leader().await {
            Ok(now) if now.seat != leader => Look::Done(()),
            now => Look::NotYet(format!("{asked:?}, {now:?}")),
        }
    })
    .await?;
    guarded.caller(leader, &kept).mint(mint()).await?;
    guarded.revoke(&revoked).await?;
    for seat in guarded.cluster.seats() {
        guarded
            .becomes(seat, &revoked, Code::Unauthenticated)
            .await?;
        guarded.becomes(seat, &kept, Code::Ok).await?;
    }
    for seat in guarded.cluster.seats() {
        guarded.cluster.kill(seat)?;
    }
    guarded.cluster.revive()?;
    guarded.cluster.all_ready().await?;
    for seat in guarded.cluster.seats() {
        guarded
            .becomes(seat, &revoked, Code::Unauthenticated)
            .await?;
        guarded.becomes(seat, &kept, Code::Ok).await?;
        guarded.caller(seat, &kept).mint(mint()).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_open_serves_no_call_after_its_token_was_revoked() -> Result<()> {
    let guarded = Guarded::start(3).await?;
    guarded.tenant("acme", Quotas::default()).await?;
    let reader = guarded
        .token(grant("acme", TokenRole::Reader, "shop"))
        .await?;
    let mut client = CallServiceClient::new(guarded.caller(1, &reader).line());
    let (calls, sent) = mpsc::unbounded();
    let batch = |correlation_id, call| ExchangeRequest {
        calls: vec![ExchangeCall {
            correlation_id,
            timeout_ms: 0,
            call: Some(call),
        }],
    };
    let get = || {
        Call::Get(GetRequest {
            store: "cart".to_owned(),
            id: "a".to_owned(),
            ..GetRequest::default()
        })
    };
    calls.unbounded_send(batch(1, get()))?;
    let mut answers = client.exchange(sent).await?.into_inner();
    let first = answers.message().await?.context("no answer")?;
    assert!(matches!(first.answers[0].answer, Some(Answer::Get(_))));
    calls.unbounded_send(batch(2, Call::Mint(mint())))?;
    let second = answers.message().await?.context("no answer")?;
    let Some(Answer::Error(denied)) = &second.answers[0].answer else {
        panic!("a reader minted: {second:?}");
    };
    assert_eq!(denied.reason, "DENIED");
    guarded.revoke(&reader).await?;
    guarded.becomes(1, &reader, Code::Unauthenticated).await?;
    calls.unbounded_send(batch(3, get()))?;
    let end = answers.message().await.expect_err("the stream was to end");
    assert_eq!(end.code(), Code::Unauthenticated, "{end:?}");
    Ok(())
}
