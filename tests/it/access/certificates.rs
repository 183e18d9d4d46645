//! Client certificates as credentials.

use std::{ops::Deref, time::Duration};

use anyhow::{Context as _, Result, bail};
use helve_client::{Bearer, Tls};
use helve_node::{
    config::{TokenHash, certificate_principal},
    tls::authority::Life,
};
use helve_proto::{
    Reason,
    v1::{
        CreateTokenRequest, ListTokensRequest, MintRequest, Quotas, RevokeTokenRequest, TokenRole,
    },
};
use helve_tests::{
    caller::{Caller, reason},
    certificates::{Certificates, LIFE},
    cluster::Equipment,
};
use tonic::Code;

use super::{Guarded, Token, failed, grant, hears, nodes};
use crate::command_line::{helve, printed};

/// How long a certificate holds that is to end while its caller is connected.
const BRIEF_LIFE: Duration = Duration::from_secs(3);

/// How many such certificates are made, at most, until one is let in: mostly it is the first.
const BRIEF_TURNS: usize = 5;

/// A cluster that asks for tokens, and takes certificates.
struct Certified(Guarded);

impl Deref for Certified {
    type Target = Guarded;

    fn deref(&self) -> &Guarded {
        &self.0
    }
}

/// The grant that admits callers with a certificate of this name, as a writer of `acme`.
fn writer(name: &str) -> CreateTokenRequest {
    let principal = certificate_principal(name);
    CreateTokenRequest {
        token_hash: TokenHash::of(&principal).bytes().to_vec().into(),
        grant: Some(grant("acme", TokenRole::Writer, &principal)),
        expires_after_ms: None,
        ..Default::default()
    }
}

fn mint() -> MintRequest {
    MintRequest {
        store: "cart".to_owned(),
        ..MintRequest::default()
    }
}

impl Certified {
    async fn start(count: u64) -> Result<Self> {
        let guarded = Guarded::of(nodes(count).on(Equipment::Certificates)).await?;
        guarded.tenant("acme", Quotas::default()).await?;
        Ok(Self(guarded))
    }

    fn certificates(&self) -> Result<&Certificates> {
        self.cluster.certificates()
    }

    fn over(&self, seat: u64, tls: &Tls) -> Result<Caller> {
        Ok(Caller::over(self.cluster.listeners(seat).client, tls)?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_let_in_once_it_is_granted_a_role_on_every_node_until_that_is_revoked()
-> Result<()> {
    let guarded = Certified::start(3).await?;
    let shop = guarded.certificates()?.client("shop", Life::of(LIFE))?;
    let other = guarded.certificates()?.client("other", Life::of(LIFE))?;
    hears(&guarded.over(1, &shop)?, Code::Unauthenticated).await?;
    guarded.operator(1).create_token(writer("shop")).await?;
    for seat in guarded.cluster.seats() {
        let caller = guarded.over(seat, &shop)?;
        hears(&caller, Code::Ok).await?;
        caller.mint(mint()).await?;
        let tokens = caller.list_tokens(ListTokensRequest::default()).await;
        assert_eq!(reason(&failed(tokens)), Some(Reason::Denied));
        let stranger = guarded.over(seat, &other)?.status().await;
        assert_eq!(reason(&failed(stranger)), Some(Reason::Unauthenticated));
        let without = guarded.over(seat, &guarded.certificates()?.trusted())?;
        let without = without.status().await;
        assert_eq!(reason(&failed(without)), Some(Reason::Unauthenticated));
    }
    let revocation = RevokeTokenRequest {
        tenant: "acme".to_owned(),
        token_hash: writer("shop").token_hash,
        ..Default::default()
    };
    let standing = guarded.over(3, &shop)?;
    hears(&standing, Code::Ok).await?;
    assert!(guarded.operator(2).revoke_token(revocation).await?.existed);
    hears(&standing, Code::Unauthenticated).await?;
    for seat in guarded.cluster.seats() {
        hears(&guarded.over(seat, &shop)?, Code::Unauthenticated).await?;
    }
    let again = guarded.operator(1).create_token(writer("shop")).await;
    assert_eq!(reason(&failed(again)), Some(Reason::Conflict));
    Ok(())
}

/// A caller whose certificate ends soon, and that the node has let in. On a busy machine a
/// certificate may be over before its first call.
async fn let_in_briefly(guarded: &Certified, name: &str) -> Result<Caller> {
    let mut last = String::new();
    for _ in 0..BRIEF_TURNS {
        let brief = guarded.certificates()?.client(name, Life::of(BRIEF_LIFE))?;
        let caller = guarded.over(1, &brief)?;
        match caller.status().await {
            Ok(_) => return Ok(caller),
            Err(status) => last = status.to_string(),
        }
    }
    bail!("no brief certificate is let in: {last}")
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_of_another_ca_a_node_or_the_past_is_refused() -> Result<()> {
    let guarded = Certified::start(1).await?;
    let own = guarded.certificates()?;
    for name in ["shop", "node", "brief"] {
        guarded.operator(1).create_token(writer(name)).await?;
    }
    let shop = own.client("shop", Life::of(LIFE))?;
    hears(&guarded.over(1, &shop)?, Code::Ok).await?;
    let elsewhere = tempfile::tempdir()?;
    let strange = Certificates::make(elsewhere.path().join("strange"))?;
    drop(strange.client("shop", Life::of(LIFE))?);
    let read = |name: &str| std::fs::read(strange.path(name));
    let forged = own.trusted().identity(read("shop.crt")?, read("shop.key")?);
    let answer = guarded.over(1, &forged)?.status().await;
    assert!(
        answer.is_err(),
        "another CA's certificate is served: {answer:?}"
    );
    let node = guarded.over(1, &own.as_holder("node")?)?.status().await;
    assert_eq!(reason(&failed(node)), Some(Reason::Unauthenticated));
    let brief = let_in_briefly(&guarded, "brief").await?;
    // The connection is open, and belongs to no principal any more.
    hears(&brief, Code::Unauthenticated).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_token_and_a_certificate_the_token_counts_even_if_it_is_none() -> Result<()> {
    let guarded = Certified::start(1).await?;
    guarded.operator(1).create_token(writer("shop")).await?;
    let shop = guarded.certificates()?.client("shop", Life::of(LIFE))?;
    let caller = guarded.over(1, &shop)?;
    caller.mint(mint()).await?;
    let reader = guarded
        .token(grant("acme", TokenRole::Reader, "clerk"))
        .await?;
    let both = caller.clone().bearing(&reader.bearer);
    both.status().await?;
    let minted = both.mint(mint()).await;
    assert_eq!(reason(&failed(minted)), Some(Reason::Denied));
    // The text that the certificate's grant is the hash of is no token.
    let principal = Bearer::given(&certificate_principal("shop"))?;
    for bearer in [principal, Token::new()?.bearer] {
        let unknown = caller.clone().bearing(&bearer).status().await;
        assert_eq!(reason(&failed(unknown)), Some(Reason::Unauthenticated));
        let unknown = guarded.over(1, &guarded.certificates()?.trusted())?;
        let unknown = unknown.bearing(&bearer).status().await;
        assert_eq!(reason(&failed(unknown)), Some(Reason::Unauthenticated));
    }
    caller.mint(mint()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_operator_says_what_a_certificate_may_do() -> Result<()> {
    let guarded = Certified::start(1).await?;
    let shop = guarded.certificates()?.client("shop", Life::of(LIFE))?;
    let admin = guarded
        .token(grant("acme", TokenRole::Admin, "boss"))
        .await?;
    let admin = guarded.caller(1, &admin);
    let denied = admin.create_token(writer("shop")).await;
    assert_eq!(reason(&failed(denied)), Some(Reason::Denied));
    // Under another principal's name it is a token that no caller has.
    let mut squatted = writer("shop");
    squatted.grant = Some(grant("acme", TokenRole::Writer, "boss"));
    admin.create_token(squatted).await?;
    hears(&guarded.over(1, &shop)?, Code::Unauthenticated).await?;
    let mut under_another = writer("shop");
    under_another.token_hash = Token::new()?.hash();
    let malformed = guarded.operator(1).create_token(under_another).await;
    assert_eq!(reason(&failed(malformed)), Some(Reason::BadRequest));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_granted_a_role_and_used_on_the_command_line() -> Result<()> {
    let guarded = Certified::start(1).await?;
    drop(guarded.certificates()?.client("shop", Life::of(LIFE))?);
    let at = |name: &str| anyhow::Ok(guarded.certificates()?.path(name).display().to_string());
    let (ca, certificate, key) = (at("ca.crt")?, at("shop.crt")?, at("shop.key")?);
    let operator = guarded.directory.path().join("operator");
    let operator = operator.display().to_string();
    let create = [
        "token",
        "create",
        "--tenant",
        "acme",
        "--role",
        "writer",
        "--certificate",
        "shop",
        "--output",
        "json",
        "--tls-ca",
        &ca,
        "--token-file",
        &operator,
    ];
    let made = printed(&helve(&guarded.cluster, &create)?);
    let made: serde_json::Value = serde_json::from_str(&made)?;
    assert_eq!(
        made["name"].as_str().context("no name")?,
        "certificate:shop"
    );
    assert!(made["token"].is_null(), "{made}");
    let put = [
        "handle",
        "put",
        "a",
        "--store",
        "cart",
        "--value",
        "1",
        "--tls-ca",
        &ca,
        "--tls-client-cert",
        &certificate,
        "--tls-client-key",
        &key,
    ];
    printed(&helve(&guarded.cluster, &put)?);
    Ok(())
}
