//! The attack suite: each attack that is known, on a cluster of real processes that have 1 GiB of memory each, while an honest
//! tenant and an operator go on. Prints what each cost.

mod arguments;
mod attacks;
mod budgets;
mod burner;
mod history;
mod house;
mod measure;
mod table;

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use arguments::Arguments;
use clap::Parser as _;

use crate::{attacks::Attack, house::House, table::Report};

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
    let mut house = House::start().await?;
    let mut report = Report::new(house.limited_by(), arguments);
    for attack in &attacks {
        eprintln!("{}", attack.name);
        report.add(house.withstand(std::slice::from_ref(attack), time).await?);
    }
    if attacks.len() > 1 {
        eprintln!("all at once");
        let all: Vec<Attack> = attacks.clone();
        report.add(house.withstand(&all, time).await?);
    }
    report.print(arguments.output)?;
    Ok(report.held())
}
