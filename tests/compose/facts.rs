//! What must be true of `deploy/compose.yaml`, one fact after the other on one cluster, while cart flows go on.

use std::{collections::BTreeMap, time::Instant};

use anyhow::{Context as _, Result, ensure};
use helve_client::{KeyOptions, StateTool as _};
use helve_mcp::cart::ORDERS;
use helve_tests::{
    promise,
    wait::{Look, until},
};
use serde_json::Value;

use crate::{
    engine::docker,
    project::{FOURTH, Project, SEATS, node},
    strangers::{
        each_container_holds_the_secrets_that_it_needs_and_no_others,
        each_node_keeps_an_audit_log_that_is_whole, no_disk_shows_a_value,
        who_speaks_plain_text_or_shows_no_token_is_refused,
    },
};

/// Orders that are awaited to see that flows go on.
const ORDERS_MORE: usize = 5;
/// Who the processes in the containers run as.
const USER: &str = "65532";

/// Shows every fact, and prints each with the time that it took. Returns how many there are.
///
/// # Errors
/// The first fact that is none.
pub(crate) async fn show(project: &Project) -> Result<u32> {
    let mut shown = 0;
    macro_rules! show {
        ($($fact:ident)*) => {$(
            let began = Instant::now();
            $fact(project).await.context(stringify!($fact))?;
            println!("test {} ... ok, {:.1} s", stringify!($fact), began.elapsed().as_secs_f64());
            shown += 1;
        )*};
    }
    show! {
        up_alone_makes_a_cluster_of_three
        containers_have_neither_root_nor_shell_nor_a_file_system_to_write
        who_speaks_plain_text_or_shows_no_token_is_refused
        no_disk_shows_a_value
        each_node_keeps_an_audit_log_that_is_whole
        each_container_holds_the_secrets_that_it_needs_and_no_others
        flows_go_through_both_replicas
        flows_outlive_a_killed_leader
        flows_outlive_a_paused_leader
        flows_outlive_a_disconnected_leader
        flows_outlive_a_killed_replica
        nodes_are_rolled_one_by_one_and_a_leader_hands_over_before_it_ends
        a_node_comes_back_without_its_volume
        a_fourth_node_is_let_in_taken_out_and_put_in_the_place_of_another
        nothing_was_lost_or_doubled
        volumes_outlive_their_containers
    }
    Ok(shown)
}

async fn up_alone_makes_a_cluster_of_three(project: &Project) -> Result<()> {
    project.compose(&["up", "--detach"]).await?;
    for seat in SEATS {
        project.ready(seat).await?;
    }
    let leader = project.leader(&SEATS).await?;
    for seat in SEATS {
        let members = project.status(seat).await?.members;
        let voters = members.iter().filter(|member| member.voter).count();
        promise!(
            voters == SEATS.len(),
            "node {seat} of term {} knows {members:?}",
            leader.term
        );
    }
    project.done("grant").await?;
    let status = ["exec", "-T", "node-1", "helve", "status"];
    project.compose(&status).await.map(drop)
}

async fn containers_have_neither_root_nor_shell_nor_a_file_system_to_write(
    project: &Project,
) -> Result<()> {
    for seat in SEATS {
        let said = project.inspect(&node(seat)).await?;
        let host = &said["HostConfig"];
        let has = |list: &Value, what: &str| {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(Value::as_str)
                .any(|one| one.starts_with(what))
        };
        promise!(host["ReadonlyRootfs"] == true, "{host}");
        promise!(has(&host["CapDrop"], "ALL"), "{host}");
        promise!(has(&host["SecurityOpt"], "no-new-privileges"), "{host}");
        promise!(host["Privileged"] == false, "{host}");
        let id = project.container(&node(seat)).await?;
        let users = docker(&["top", &id, "-o", "pid,uid"]).await?;
        let users: Vec<_> = users
            .lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().nth(1))
            .collect();
        promise!(
            !users.is_empty() && users.iter().all(|user| *user == USER),
            "node {seat} runs as {users:?}"
        );
        let shell = docker(&["exec", &id, "/bin/sh", "-c", "true"]).await;
        promise!(shell.is_err(), "node {seat} has a shell");
    }
    Ok(())
}

async fn flows_go_through_both_replicas(project: &Project) -> Result<()> {
    project
        .compose(&["--profile", "chaos", "up", "--detach"])
        .await?;
    project.healthy("balancer").await?;
    orders_grow(project).await?;
    for replica in ["cart-1", "cart-2"] {
        // All flows go through the other one.
        project
            .compose(&["--profile", "chaos", "stop", replica])
            .await?;
        let status = project.inspect(replica).await?["State"]["ExitCode"].take();
        promise!(status == 0, "{replica} stopped with {status}");
        orders_grow(project).await?;
        start(project, replica).await?;
        project.healthy(replica).await?;
    }
    Ok(())
}

async fn flows_outlive_a_killed_leader(project: &Project) -> Result<()> {
    let (leader, others) = leader(project).await?;
    signal(project, &node(leader), "KILL").await?;
    let status = project.inspect(&node(leader)).await?["State"]["ExitCode"].take();
    ensure!(status == 137, "the kill came to {status}");
    project.leader(&others).await?;
    orders_grow(project).await?;
    start(project, &node(leader)).await?;
    project.ready(leader).await
}

async fn flows_outlive_a_paused_leader(project: &Project) -> Result<()> {
    let (leader, others) = leader(project).await?;
    let id = project.container(&node(leader)).await?;
    docker(&["pause", &id]).await?;
    project.leader(&others).await?;
    orders_grow(project).await?;
    docker(&["unpause", &id]).await?;
    project.ready(leader).await
}

async fn flows_outlive_a_disconnected_leader(project: &Project) -> Result<()> {
    let (leader, others) = leader(project).await?;
    let (id, network) = (project.container(&node(leader)).await?, project.network());
    docker(&["network", "disconnect", &network, &id]).await?;
    project.leader(&others).await?;
    orders_grow(project).await?;
    let name = node(leader);
    docker(&["network", "connect", "--alias", &name, &network, &id]).await?;
    project.ready(leader).await
}

async fn flows_outlive_a_killed_replica(project: &Project) -> Result<()> {
    signal(project, "cart-2", "KILL").await?;
    orders_grow(project).await?;
    start(project, "cart-2").await?;
    project.healthy("cart-2").await
}

async fn nodes_are_rolled_one_by_one_and_a_leader_hands_over_before_it_ends(
    project: &Project,
) -> Result<()> {
    let mut left = SEATS.to_vec();
    let mut handed_over = 0;
    while !left.is_empty() {
        let (leader, others) = leader(project).await?;
        // The leader of the moment first, as long as there is one to roll.
        let next = left.iter().position(|&seat| seat == leader).unwrap_or(0);
        let seat = left.remove(next);
        let name = node(seat);
        project.compose(&["stop", &name]).await?;
        let status = project.inspect(&name).await?["State"]["ExitCode"].take();
        promise!(status == 0, "{name} stopped with {status}");
        if seat == leader {
            let (_, said) = project.logs(&name).await?;
            let last = |what: &str| said.rfind(what);
            let (over, stopped) = (last("handed leadership over"), last("stopped"));
            // On a busy machine none may take over in time, or another one lead by then.
            promise!(
                over.is_none() || over < stopped,
                "{name} handed over once it had ended:\n{said}"
            );
            handed_over += usize::from(over.is_some());
            project.leader(&others).await?;
        }
        let again = ["up", "--detach", "--no-deps", "--force-recreate", &name];
        project.compose(&again).await?;
        project.ready(seat).await?;
        orders_grow(project).await?;
    }
    promise!(handed_over > 0, "no leader that was rolled handed over");
    Ok(())
}

async fn a_node_comes_back_without_its_volume(project: &Project) -> Result<()> {
    let (leader, others) = leader(project).await?;
    let name = node(others[0]);
    let id = async || {
        let members = project.status(leader).await?.members;
        let mut voters = members.into_iter().filter(|member| member.voter);
        let seated = voters.find(|member| member.seat == others[0]);
        seated.map(|member| member.id).context("the seat is empty")
    };
    let before = id().await?;
    project.compose(&["rm", "--stop", "--force", &name]).await?;
    docker(&["volume", "rm", &project.volume(others[0])]).await?;
    project
        .compose(&["up", "--detach", "--no-deps", &name])
        .await?;
    until("a new node to take the seat", async || match id().await {
        Ok(after) if after != before => Look::Done(()),
        seated => Look::NotYet(format!("{seated:?}, formerly {before}")),
    })
    .await?;
    project.ready(others[0]).await?;
    orders_grow(project).await
}

/// As `docs/operations/members.md` says.
async fn a_fourth_node_is_let_in_taken_out_and_put_in_the_place_of_another(
    project: &Project,
) -> Result<()> {
    const REPLACED: u64 = 2;
    let (fourth, all) = (FOURTH.to_string(), [1, 2, 3, FOURTH]);
    let peer = |seat| format!("{}:7401", node(seat));
    start_empty(project, FOURTH).await?;
    member(
        project,
        &["add", "--seat", &fourth, "--peer", &peer(FOURTH)],
    )
    .await?;
    let voters = voters(project).await?;
    promise!(voters.keys().eq(&all), "after the addition: {voters:?}");
    project.ready(FOURTH).await?;
    orders_grow(project).await?;

    member(project, &["remove", &voters[&FOURTH].to_string()]).await?;
    forget(project, FOURTH).await?;
    expect_voters(project, &SEATS).await?;
    orders_grow(project).await?;

    for (leaves, comes, left) in [
        (REPLACED, FOURTH, [1, 3, FOURTH]),
        (FOURTH, REPLACED, SEATS),
    ] {
        start_empty(project, comes).await?;
        let id = self::voters(project).await?[&leaves].to_string();
        let seat = comes.to_string();
        let replace = ["replace", &id, "--seat", &seat, "--peer", &peer(comes)];
        member(project, &replace).await?;
        forget(project, leaves).await?;
        expect_voters(project, &left).await?;
        project.ready(comes).await?;
        orders_grow(project).await?;
    }
    Ok(())
}

async fn start_empty(project: &Project, seat: u64) -> Result<()> {
    let up = ["--profile", "grow", "up", "--detach", "--no-deps"];
    let service = node(seat);
    let up = [&up[..], &[&service]].concat();
    project.compose(&up).await.map(drop)
}

/// Removes a node's container and its volume.
async fn forget(project: &Project, seat: u64) -> Result<()> {
    let rm = ["--profile", "grow", "rm", "--stop", "--force"];
    let service = node(seat);
    let rm = [&rm[..], &[&service]].concat();
    project.compose(&rm).await?;
    docker(&["volume", "rm", &project.volume(seat)])
        .await
        .map(drop)
}

/// `helve member` inside the first node.
async fn member(project: &Project, arguments: &[&str]) -> Result<String> {
    let exec = ["exec", "-T", "node-1", "helve", "member"];
    project.compose(&[&exec[..], arguments].concat()).await
}

/// The voters' ids by their seats, as `helve member list` has them.
async fn voters(project: &Project) -> Result<BTreeMap<u64, u64>> {
    let said = member(project, &["list", "--output", "json"]).await?;
    let said: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
    let members = said["members"].as_array().context("no members")?;
    let voters = members.iter().filter(|member| member["voter"] == true);
    voters
        .map(|member| Some((member["seat"].as_u64()?, member["id"].as_u64()?)))
        .collect::<Option<_>>()
        .with_context(|| said.to_string())
}

async fn expect_voters(project: &Project, seats: &[u64]) -> Result<()> {
    let voters = voters(project).await?;
    promise!(voters.keys().eq(seats), "not {seats:?}: {voters:?}");
    Ok(())
}

async fn nothing_was_lost_or_doubled(project: &Project) -> Result<()> {
    project
        .compose(&["--profile", "chaos", "stop", "flows"])
        .await?;
    let (figures, said) = project.logs("flows").await?;
    let status = project.inspect("flows").await?["State"]["ExitCode"].take();
    let figures: Value = serde_json::from_str(&figures)
        .with_context(|| format!("the flows ended with {status}, and said:\n{said}"))?;
    promise!(
        status == 0 && figures["lost"] == 0 && figures["doubled"] == 0,
        "the flows ended with {status}: {figures}"
    );
    ensure!(figures["flows_unfinished"] == 0, "{figures}");
    let read = figures["nodes_read"].as_array().map(Vec::len);
    ensure!(read == Some(SEATS.len()), "{figures}");
    let acknowledged = figures["orders"].as_u64().unwrap_or_default();
    for seat in SEATS {
        let orders = project.held(seat).await?.orders.len() as u64;
        promise!(
            orders == acknowledged,
            "{acknowledged} orders were acknowledged, node {seat} has {orders}"
        );
    }
    println!(
        "    {} flows, {acknowledged} orders, {} calls made again, 0 lost, 0 doubled",
        figures["flows"], figures["retries"]
    );
    Ok(())
}

async fn volumes_outlive_their_containers(project: &Project) -> Result<()> {
    let before = project.held(SEATS[0]).await?;
    project
        .compose(&["--profile", "chaos", "down", "--timeout", "10"])
        .await?;
    project.compose(&["up", "--detach"]).await?;
    for seat in SEATS {
        project.ready(seat).await?;
        let after = project.held(seat).await?;
        promise!(
            after.carts == before.carts && after.orders == before.orders,
            "node {seat}: {} carts and {} orders became {} and {}",
            before.carts.len(),
            before.orders.len(),
            after.carts.len(),
            after.orders.len()
        );
    }
    Ok(())
}

/// The leader's seat, and the others.
async fn leader(project: &Project) -> Result<(u64, Vec<u64>)> {
    let leader = project.leader(&SEATS).await?.seat;
    let others = SEATS.into_iter().filter(|&seat| seat != leader);
    Ok((leader, others.collect()))
}

/// Waits until flows have made more orders: from the moment of the call on, not just up to it.
async fn orders_grow(project: &Project) -> Result<()> {
    let keys = project.client(&SEATS).await?.keys(KeyOptions::shared());
    let before = keys.list(ORDERS).await?.len();
    until("flows to make orders", async || {
        match keys.list(ORDERS).await {
            Ok(orders) if orders.len() >= before + ORDERS_MORE => Look::Done(()),
            Ok(orders) => Look::NotYet(format!("{before} became {}", orders.len())),
            Err(error) => Look::NotYet(error.to_string()),
        }
    })
    .await
}

async fn signal(project: &Project, service: &str, signal: &str) -> Result<()> {
    let id = project.container(service).await?;
    docker(&["kill", "--signal", signal, &id]).await?;
    docker(&["wait", &id]).await.map(drop)
}

async fn start(project: &Project, service: &str) -> Result<()> {
    let id = project.container(service).await?;
    docker(&["start", &id]).await.map(drop)
}
