//! What only builds for tests take: a bug to plant, and failpoints to arm.

use std::path::PathBuf;

use helve_machine::{
    limits::FEATURE_LEVEL as NEWEST,
    planted::{self, Plant},
};
use helve_node::failpoint::{self, Script};

use super::FEATURE_LEVEL;

/// Flags that every command has.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Only in builds for tests")]
pub(crate) struct Args {
    /// Name of a bug to plant, to show that the tests find it
    #[arg(long, global = true, env = "HELVE_PLANTED", value_name = "NAME", value_parser = planted)]
    #[arg(default_value = "", hide_default_value = true)]
    planted: Planted,

    /// Failpoints to arm: NAME=ACTION,..., where an action is kill, delay:MS or error, and :NTH
    /// after it means the nth passage alone
    #[arg(long, global = true, env = "HELVE_FAILPOINT", value_name = "SCRIPT")]
    #[arg(default_value = "", hide_default_value = true)]
    failpoint: Script,

    /// File with more failpoints to arm, read again whenever it changes
    #[arg(long, global = true, env = "HELVE_FAILPOINT_FILE", value_name = "FILE")]
    failpoint_file: Option<PathBuf>,

    /// Newest feature level to support: the real one, or one more, to try an upgrade
    #[arg(long, global = true, hide = true, env = FEATURE_LEVEL, value_name = "LEVEL")]
    #[arg(value_parser = clap::value_parser!(u32).range(i64::from(NEWEST)..=i64::from(NEWEST) + 1))]
    #[arg(default_value_t = NEWEST)]
    feature_level: u32,
}

/// The bug to plant, if any.
#[derive(Debug, Clone, Copy)]
struct Planted(Option<Plant>);

/// An empty name is none: a variable that is set to nothing counts as not set.
fn planted(name: &str) -> Result<Planted, String> {
    if name.is_empty() {
        return Ok(Planted(None));
    }
    let known = || {
        Plant::ALL
            .iter()
            .map(|plant| plant.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let plant = name
        .parse()
        .map_err(|_| format!("valid names are {}", known()))?;
    Ok(Planted(Some(plant)))
}

impl Args {
    /// Plants and arms what is asked for.
    pub(crate) fn plant(&self) {
        if let Planted(Some(plant)) = self.planted {
            planted::choose(plant);
            if plant == Plant::NoCors {
                helve_mcp::planted::choose_no_cors();
            }
        }
        if self.feature_level > NEWEST {
            planted::learn_next_level();
        }
        failpoint::arm(self.failpoint.clone());
        if let Some(file) = &self.failpoint_file {
            failpoint::watch(file.clone());
        }
    }
}
