//! The attack suite: each attack that is known, on a cluster of real processes that have 1 GiB of memory each, while an honest
//! tenant and an operator go on. Prints what each cost.

mod arguments;
mod attacks;
mod budgets;
mod burner;
mod handshakes;
mod history;
mod house;
mod measure;
mod table;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use arguments::Arguments;
use clap::Parser as _;

use crate::{
    attacks::{Attack, Ports},
    house::House,
    table::Report,
};

/// How long each attack goes on in the short form.
const SHORT: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let held = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(go(&arguments)));
    match held {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all held.
async fn go(arguments: &Arguments) -> Result<bool> {
    let attacks = attacks::chosen(&arguments.only)?;
    let time = if arguments.short {
        SHORT
    } else {
        Duration::from_secs(arguments.seconds)
    };
    let mut report = None;
    for ports in [Ports::Plain, Ports::Secured] {
        let of_ports = attacks.iter().filter(|attack| attack.ports == ports);
        let of_ports: Vec<Attack> = of_ports.cloned().collect();
        if of_ports.is_empty() {
            continue;
        }
        let mut house = House::start(ports).await?;
        let report = report.get_or_insert_with(|| Report::new(house.limited_by(), arguments));
        for attack in &of_ports {
            eprintln!("{}", attack.name);
            report.add(house.withstand(std::slice::from_ref(attack), time).await?);
        }
        if of_ports.len() > 1 {
            eprintln!("all at once");
            report.add(house.withstand(&of_ports, time).await?);
        }
    }
    let report = report.context("no attack was chosen")?;
    report.print(arguments.output)?;
    Ok(report.held())
}
