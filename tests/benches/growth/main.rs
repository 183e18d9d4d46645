//! What is left of Helve's speed when millions of handles live, and what a restart, a new node and a storm of expiry cost then.
//!
//! Two clusters of three nodes run side by side, one with few handles and one with many, and take
//! turns. `promise.rs` holds the aims; a figure that misses its aim is reported, and is no error. With
//! `--beside` both are alike but for their binaries, to see what a change brings.

mod bulk;
mod cold;
mod fill;
mod footprint;
mod handles;
mod load;
#[path = "../measure/mod.rs"]
mod measure;
mod newcomer;
mod nodes;
mod plan;
mod promise;
mod report;
mod restart;
mod storm;

use anyhow::Result;
use clap::Parser as _;

use crate::{
    fill::fill,
    footprint::{Disk, Memory},
    load::compare,
    measure::interruption::until_interrupted,
    nodes::{Nodes, Size},
    plan::Plan,
    report::Report,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let plan = Plan::parse();
    plan.check()?;
    let mut report = Report::new(&plan);
    let course = until_interrupted(run(&plan, &mut report)).await;
    // What was measured before something failed took its time, too.
    println!("{}", report.text());
    if let Some(path) = &plan.json {
        report.write_json(path)?;
    }
    course
}

async fn run(plan: &Plan, report: &mut Report) -> Result<()> {
    let small = Nodes::start(Size::Small, plan).await?;
    let mut grown = Nodes::start(Size::Grown, plan).await?;
    for nodes in [&small, &grown] {
        report.filled.push(fill(nodes, plan).await?);
        report.disk.extend(Disk::of(nodes)?);
        report.memory.extend(Memory::of(nodes, "filled")?);
    }
    for &operation in &plan.operations {
        let measured = compare(plan, [&small, &grown], operation).await?;
        report.operations.extend(measured);
    }
    for nodes in [&small, &grown] {
        report.memory.extend(Memory::of(nodes, "under load")?);
    }
    if plan.beside.is_some() {
        for nodes in [&small, &grown] {
            storm::measure(nodes, plan, &mut report.storms).await?;
        }
        small.stop().await?;
        return grown.stop().await;
    }
    small.stop().await?;
    report.restarts = restart::measure(&mut grown, plan).await?;
    report.memory.extend(Memory::of(&grown, "restarted")?);
    report.newcomer = Some(newcomer::measure(&mut grown, plan).await?);
    let when = "one wiped and back";
    report.memory.extend(Memory::of(&grown, when)?);
    storm::measure(&grown, plan, &mut report.storms).await?;
    report
        .memory
        .extend(Memory::of(&grown, "after the storms")?);
    grown.stop().await
}
