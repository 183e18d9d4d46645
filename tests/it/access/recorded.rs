//! What nodes that ask for tokens write down of their callers: in their audit logs, and in their own.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};
use data_encoding::HEXLOWER;
use futures::stream;
use helve_client::Bearer;
use helve_proto::v1::{
    CountRequest, DeleteRequest, ExchangeCall, ExchangeRequest, GetRequest, ListRequest,
    MintRequest, PutRequest, Quotas, TakeRequest, TokenGrant, TokenRole,
    call_service_client::CallServiceClient, exchange_answer::Answer, exchange_call::Call,
};
use helve_tests::{
    caller::Caller,
    cluster::Setup,
    wait::{Look, until},
};
use serde_json::{Value, json};

use super::{Guarded, Token, failed, first_operator, grant, knows_tokens, nodes};
use crate::{
    abuse::mint_with,
    sealed::{Keys, MARK, read_everywhere, write_everywhere},
};

impl Guarded {
    /// Such nodes, each with an audit log of its own, and a tenant.
    async fn recorded(setup: Setup) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let (operator, file) = first_operator(&directory)?;
        let mut cluster = setup
            .with("HELVE_AUTH", "tokens")
            .with("HELVE_OPERATOR_TOKEN_FILE", &file)
            .bearing(operator)
            .prepare()
            .await?;
        for seat in cluster.seats() {
            let log = directory.path().join(format!("audit-{seat}"));
            let node = cluster.node_mut(seat);
            node.set("HELVE_AUDIT_LOG", &log.display().to_string());
            cluster.start(seat)?;
        }
        cluster.all_ready().await?;
        knows_tokens(&cluster).await?;
        let guarded = Self { cluster, directory };
        guarded.tenant("acme", Quotas::default()).await?;
        Ok(guarded)
    }

    fn audit_log(&self, seat: u64) -> PathBuf {
        self.directory.path().join(format!("audit-{seat}"))
    }

    /// Where the node records calls that it turns away.
    fn denied_log(&self, seat: u64) -> PathBuf {
        self.directory.path().join(format!("audit-{seat}.denied"))
    }

    /// A token of `acme` for one store alone.
    async fn confined(&self, role: TokenRole, principal: &str, store: &str) -> Result<Token> {
        let scoped = TokenGrant {
            stores: vec![store.to_owned()],
            ..grant("acme", role, principal)
        };
        self.token(scoped).await
    }
}

/// Makes a call over a stream.
async fn exchange(caller: &Caller, call: Call) -> Result<Answer> {
    let call = ExchangeCall {
        correlation_id: 1,
        timeout_ms: 0,
        call: Some(call),
    };
    let batch = ExchangeRequest { calls: vec![call] };
    let mut client = CallServiceClient::new(caller.line());
    let replies = client.exchange(stream::iter([batch])).await?;
    let reply = replies.into_inner().message().await?.context("no reply")?;
    let answer = reply.answers.into_iter().next().and_then(|one| one.answer);
    answer.context("no answer")
}

fn put(store: &str) -> PutRequest {
    PutRequest {
        store: store.to_owned(),
        id: "7".to_owned(),
        value: MARK.into(),
        ..PutRequest::default()
    }
}

fn get(store: &str) -> GetRequest {
    GetRequest {
        store: store.to_owned(),
        id: "7".to_owned(),
        ..GetRequest::default()
    }
}

/// How bytes get into a line: as text, as a list of numbers, in hexadecimal.
fn spellings(secret: &str) -> [String; 3] {
    let list = format!("{:?}", secret.as_bytes());
    let numbers = list[1..list.len() - 1].to_owned();
    [
        secret.to_owned(),
        numbers,
        HEXLOWER.encode(secret.as_bytes()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_and_no_value_is_in_any_log_however_talkative() -> Result<()> {
    let keys = Keys::new()?;
    let talkative = keys.setup().with("HELVE_LOG", "trace");
    let setup = talkative.with("HELVE_AUDIT", "reads,writes,denied,admin");
    let mut guarded = Guarded::recorded(setup).await?;
    let writer = grant("acme", TokenRole::Writer, "shop");
    let writer = guarded.token(writer).await?;
    let confined = guarded.confined(TokenRole::Writer, "clerk", "orders");
    let (confined, unknown) = (confined.await?, Token::new()?);
    let seats = guarded.cluster.seats();
    let callers: Vec<_> = seats.iter().map(|&s| guarded.caller(s, &writer)).collect();
    let id = write_everywhere(&callers).await?;
    read_everywhere(&callers, &id).await?;
    let basic = format!("Basic {}", writer.text);
    for (&seat, caller) in seats.iter().zip(&callers) {
        for call in [Call::Put(put("carts")), Call::Get(get("carts"))] {
            exchange(caller, call).await?;
        }
        failed(caller.put(put("No Store")).await);
        for token in [&confined, &unknown] {
            failed(guarded.caller(seat, token).put(put("carts")).await);
        }
        failed(mint_with(caller, "authorization", &basic).await);
    }
    let operator = fs::read_to_string(guarded.directory.path().join("operator"))?;
    let mark = std::str::from_utf8(MARK)?;
    let secrets = [mark, &operator, &writer.text, &confined.text, &unknown.text];
    let secrets = secrets.map(|secret| spellings(secret.trim_start_matches("hlv_")));
    for seat in seats {
        guarded.cluster.node(seat).terminate()?;
        guarded.cluster.node_mut(seat).stopped().await?;
        let logs = [
            (guarded.audit_log(seat), ["\"OK\"", "\"BAD_NAME\""]),
            (
                guarded.denied_log(seat),
                ["\"DENIED\"", "\"UNAUTHENTICATED\""],
            ),
            (guarded.cluster.log_file(seat), [" TRACE ", " INFO "]),
        ];
        for (log, words) in logs {
            let text = fs::read(&log)?;
            let text = String::from_utf8_lossy(&text);
            assert!(words.iter().all(|word| text.contains(word)), "{log:?}");
            for secret in secrets.as_flattened() {
                let before = text.split_once(secret.as_str());
                let before = before.map(|(before, _)| before.lines().last());
                assert_eq!(before, None, "{secret} is in {}", log.display());
            }
        }
    }
    Ok(())
}

/// Calls that are turned away, each in another place of the node.
async fn turned_away(guarded: &Guarded, reader: &Caller) -> Result<()> {
    let without = reader.clone().bearing(&Bearer::default());
    let stranger = guarded.caller(1, &Token::new()?);
    failed(without.delete(DeleteRequest::default()).await);
    failed(stranger.take(TakeRequest::default()).await);
    failed(reader.mint(MintRequest::default()).await);
    let orders = CountRequest {
        store: "orders".to_owned(),
        owner: None,
    };
    failed(reader.get(get("orders")).await);
    for call in [Call::Put(put("carts")), Call::Count(orders)] {
        let answer = exchange(reader, call).await?;
        assert!(matches!(answer, Answer::Error(_)), "{answer:?}");
    }
    let list = ListRequest {
        store: "orders".to_owned(),
        ..ListRequest::default()
    };
    failed(reader.list(list).await);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn line_names_whose_token_it_was_wherever_it_is_refused() -> Result<()> {
    let guarded = Guarded::recorded(nodes(1).with("HELVE_AUDIT", "writes")).await?;
    let writer = grant("acme", TokenRole::Writer, "shop");
    let writer = guarded.caller(1, &guarded.token(writer).await?);
    let reader = guarded.confined(TokenRole::Reader, "report", "carts");
    let reader = guarded.caller(1, &reader.await?);
    writer.put(put("carts")).await?;
    // No flag asked for reads to be recorded.
    reader.get(get("carts")).await?;
    turned_away(&guarded, &reader).await?;
    let said = until("the line of the last call", async || {
        let read = |log: PathBuf| fs::read_to_string(log).unwrap_or_default();
        let text = read(guarded.audit_log(1)) + &read(guarded.denied_log(1));
        let lines = text
            .lines()
            .map_while(|line| serde_json::from_str(line).ok());
        let lines: Vec<Value> = lines.collect();
        match lines.last() {
            Some(line) if line["operation"] == "List" => Look::Done(lines),
            last => Look::NotYet(format!("{last:?}")),
        }
    });
    let said = said.await?;
    let names = ["operation", "outcome", "tenant", "principal", "targets"];
    let line = |line: &Value| Value::from(names.map(|name| line[name].clone()).to_vec());
    // Before that, the cluster came to know the tokens.
    let said = said.iter().skip_while(|line| line["operation"] != "Put");
    let said = said.filter(|line| line["event"] == "call");
    let said: Vec<_> = said.map(line).collect();
    let record = |store: &str| json!([{"store": store, "owner": "", "id": "7"}]);
    let orders = json!([{"store": "orders"}]);
    let denied =
        |operation: &str, targets: &Value| json!([operation, "DENIED", "acme", "report", targets]);
    let unknown = |path: &str| json!([path, "UNAUTHENTICATED", "", "", null]);
    let expected = [
        json!(["Put", "OK", "acme", "shop", record("carts")]),
        unknown("/helve.v1.HandleService/Delete"),
        unknown("/helve.v1.HandleService/Take"),
        denied("/helve.v1.HandleService/Mint", &Value::Null),
        denied("Get", &record("orders")),
        denied("/helve.v1.HandleService/Put", &Value::Null),
        denied("Count", &orders),
        denied("List", &orders),
    ];
    assert_eq!(said, expected);
    Ok(())
}
