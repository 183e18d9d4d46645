//! Every call that the descriptors name, with every kind of credential.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::stream;
use helve_proto::{
    DESCRIPTORS, Reason,
    v1::{Quotas, RevokeTokenRequest, TokenRole},
};
use helve_tests::{caller, caller::reason};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tokio::time::timeout;
use tonic::{Code, Request, Status, client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

use super::{Guarded, Token, grant};

/// Who is let in. What each may then do with what it names, other tests show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    All,
    Holders,
    Readers,
    Writers,
    Managers,
    Operators,
}

/// Whom a call is for, by its own name, as the contract has it: a new one has no line here, and fails the test.
fn whom(path: &str) -> Option<For> {
    Some(match path {
        "/grpc.health.v1.Health/Check" | "/grpc.health.v1.Health/Watch" => For::All,
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        | "/helve.v1.ClusterService/Status" => For::Holders,
        "/helve.v1.HandleService/Get"
        | "/helve.v1.HandleService/Count"
        | "/helve.v1.HandleService/List"
        | "/helve.v1.StateService/Retrieve"
        | "/helve.v1.StateService/List"
        | "/helve.v1.StateService/Exists"
        | "/helve.v1.StateService/BatchRetrieve"
        | "/helve.v1.CallService/Exchange"
        | "/helve.v1.WatchService/Watch" => For::Readers,
        "/helve.v1.HandleService/Mint"
        | "/helve.v1.HandleService/Put"
        | "/helve.v1.HandleService/Take"
        | "/helve.v1.HandleService/Renew"
        | "/helve.v1.HandleService/Delete"
        | "/helve.v1.HandleService/Claim"
        | "/helve.v1.StateService/Store"
        | "/helve.v1.StateService/Delete"
        | "/helve.v1.StateService/BatchStore"
        | "/helve.v1.TransactService/Transact"
        | "/helve.v1.CallService/OpenSession" => For::Writers,
        "/helve.v1.AccessService/ListTokens" | "/helve.v1.AccessService/ListTenants" => {
            For::Managers
        }
        // An empty request names the operators' tokens, which no admin manages.
        "/helve.v1.AccessService/CreateToken"
        | "/helve.v1.AccessService/RevokeToken"
        | "/helve.v1.AccessService/SetTenant"
        | "/helve.v1.ClusterService/TransferLeader"
        | "/helve.v1.ClusterService/TakeSnapshot"
        | "/helve.v1.ClusterService/StateDigest"
        | "/helve.v1.ClusterService/Backup"
        | "/helve.v1.ClusterService/FollowLog"
        | "/helve.v1.ClusterService/DataKeyStatus"
        | "/helve.v1.ClusterService/SetDataKey"
        | "/helve.v1.ClusterService/SetUpgradeHold"
        | "/helve.v1.ClusterService/AddMember"
        | "/helve.v1.ClusterService/RemoveMember"
        | "/helve.v1.ClusterService/ReplaceMember"
        | "/helve.v1.ClusterService/PromoteMember" => For::Operators,
        _ => return None,
    })
}

impl For {
    fn lets_in(self, role: TokenRole) -> bool {
        match self {
            Self::All | Self::Holders => true,
            Self::Readers => role != TokenRole::Operator,
            Self::Writers => matches!(role, TokenRole::Writer | TokenRole::Admin),
            Self::Managers => matches!(role, TokenRole::Admin | TokenRole::Operator),
            Self::Operators => role == TokenRole::Operator,
        }
    }
}

/// The paths of all calls of the client port.
fn paths() -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for set in [
        DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ] {
        for file in FileDescriptorSet::decode(set)?.file {
            for service in &file.service {
                let (package, service, methods) = (file.package(), service.name(), &service.method);
                let of = |name: &str| format!("/{package}.{service}/{name}");
                paths.extend(methods.iter().map(|method| of(method.name())));
            }
        }
    }
    paths.retain(|path| !path.starts_with("/helve.peer.") && !path.starts_with("/helve.command."));
    ensure!(paths.len() > 30, "only {paths:?}");
    Ok(paths)
}

/// Makes a call with an empty request, and waits for the first that is said.
async fn call(channel: &Channel, path: &str, credential: Option<&str>) -> Result<Code> {
    let mut request = Request::new(stream::iter([()]));
    request.set_timeout(Duration::from_secs(2));
    if let Some(credential) = credential {
        request
            .metadata_mut()
            .insert("authorization", credential.parse()?);
    }
    let mut client = Grpc::new(channel.clone());
    client.ready().await?;
    let codec = ProstCodec::<(), ()>::default();
    let path = path.to_owned();
    let answer = async {
        let replies = client
            .streaming(request, path.parse().expect("a path"), codec)
            .await?;
        replies.into_inner().message().await
    };
    let answer: Result<Option<()>, Status> = timeout(caller::DEADLINE, answer).await?;
    let Err(status) = answer else {
        return Ok(Code::Ok);
    };
    let expected = match status.code() {
        Code::Unauthenticated => Some(Reason::Unauthenticated),
        Code::PermissionDenied => Some(Reason::Denied),
        code => return Ok(code),
    };
    ensure!(reason(&status) == expected, "{status:?}");
    ensure!(!status.message().contains("hlv_") || status.message().contains("hlv_..."));
    Ok(status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_asks_for_a_credential_and_for_a_role() -> Result<()> {
    let guarded = Guarded::start(1).await?;
    guarded.tenant("acme", Quotas::default()).await?;
    let strangers = strangers(&guarded).await?;
    let roles = [
        TokenRole::Reader,
        TokenRole::Writer,
        TokenRole::Admin,
        TokenRole::Operator,
    ];
    let mut holders = Vec::new();
    for role in roles {
        let tenant = if role == TokenRole::Operator {
            ""
        } else {
            "acme"
        };
        let token = guarded.token(grant(tenant, role, "someone")).await?;
        holders.push((role, format!("Bearer {}", token.text)));
    }
    let channel = guarded.operator(1).channel();
    for path in paths()? {
        let whom = whom(&path).with_context(|| format!("{path} has no rule in this test"))?;
        for (kind, credential) in &strangers {
            let code = call(&channel, &path, credential.as_deref()).await?;
            let is_out = code == Code::Unauthenticated;
            assert_eq!(is_out, whom != For::All, "{path} with {kind}: {code:?}");
        }
        for (role, credential) in &holders {
            let code = call(&channel, &path, Some(credential)).await?;
            let is_out = matches!(code, Code::PermissionDenied | Code::Unauthenticated);
            assert_eq!(is_out, !whom.lets_in(*role), "{path} as {role:?}: {code:?}");
        }
    }
    for (_, credential) in &holders {
        let code = call(&channel, "/helve.v1.HandleService/Mine", Some(credential)).await?;
        assert_eq!(code, Code::PermissionDenied, "a call that has no rule");
    }
    Ok(())
}

/// Credentials that are refused, each with what is wrong with it.
async fn strangers(guarded: &Guarded) -> Result<Vec<(&'static str, Option<String>)>> {
    let writer = || grant("acme", TokenRole::Writer, "someone");
    let expired = guarded
        .short_token(writer(), Some(Duration::from_millis(1)))
        .await?;
    guarded.becomes(1, &expired, Code::Unauthenticated).await?;
    let revoked = guarded.token(writer()).await?;
    let revocation = RevokeTokenRequest {
        tenant: "acme".to_owned(),
        token_hash: revoked.hash(),
        ..Default::default()
    };
    assert!(guarded.operator(1).revoke_token(revocation).await?.existed);
    guarded.becomes(1, &revoked, Code::Unauthenticated).await?;
    let valid = guarded.token(writer()).await?;
    let bearer = |text: &str| Some(format!("Bearer {text}"));
    Ok(vec![
        ("none", None),
        ("no token", bearer("nonsense")),
        ("another scheme", Some(format!("Basic {}", valid.text))),
        ("a cut token", bearer(&valid.text[..valid.text.len() - 1])),
        ("a token's hash", bearer(&format!("{:?}", valid.hash))),
        ("an unknown token", bearer(&Token::new()?.text)),
        ("an expired token", bearer(&expired.text)),
        ("a revoked token", bearer(&revoked.text)),
    ])
}
