//! `helve claim run`: a command that is run once for its key.

use std::{os::unix::ffi::OsStrExt as _, pin::pin, process::ExitStatus, time::Duration};

use anyhow::anyhow;
use helve_client::v1::{ClaimFinish, ClaimReply, ClaimStatus, claim_request::Action};
use helve_command::{
    ending::{Ending, Outcome, said},
    output::{self, harmless},
    signals::{Signals, StopSignal},
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Claim,
    answer::{Answer, Status, end},
    args::RunArgs,
    child::{self, Ended, Printed, RESULT_BYTES_MAX},
    unknown,
};

/// Pauses between tries to keep a result, and how long a call may go on after a signal.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(super) async fn run(args: &RunArgs) -> Outcome {
    let parts = args.command.iter().map(|part| part.as_bytes());
    let digest = args.lease.digest(parts).map_err(Ending::Refused)?;
    let claim = Claim::new(&args.common, &args.key).await?;
    let ends = Instant::now() + args.lease.lease;
    let (status, reply) = claim.begin(&args.lease, digest).await?;
    match status {
        Status::Fresh => carry_out(args, &claim, reply, ends).await,
        Status::Done if !args.common.output.is_json() => {
            child::write(&reply.value).map_err(|error| Ending::Fatal(error.into()))
        }
        Status::Done => {
            let answer = Answer::new(status, &args.key, reply);
            args.common.output.print(&answer, |_| String::new())
        }
        _ => Answer::new(status, &args.key, reply).refuse(&args.common.output),
    }
}

async fn carry_out(args: &RunArgs, claim: &Claim<'_>, begun: ClaimReply, ends: Instant) -> Outcome {
    // Before the start: a signal in between would end this process alone, and leave the command to itself.
    let mut signals = match Signals::to_stop() {
        Ok(signals) => signals,
        Err(error) => {
            let free = claim.abandon(begun.fence).await;
            return Err(Ending::Fatal(anyhow!(
                "{} is not started, since SIGTERM could not be passed on to it: {error}; {}",
                program(args),
                abandoned(free)
            )));
        }
    };
    let child = match child::start(&args.command, &variables(args, &begun)) {
        Ok(child) => child,
        Err(error) => {
            let free = given_up(claim, begun.fence, &mut signals).await;
            return Err(Ending::Refused(anyhow!(
                "{} cannot be started: {error}: name a program behind `--`; {free}",
                program(args)
            )));
        }
    };
    let ended = child::wait(child, &mut signals, &args.common.output).await;
    let Ended { status, printed } = ended.map_err(|error| {
        let doubt = "the claim ends with its lease, and its command may have been carried out";
        Ending::Fatal(anyhow!("{}: {error}: {doubt}", program(args)))
    })?;
    if !status.success() {
        return Err(failed(args, claim, begun.fence, status, &mut signals).await);
    }
    warn(args, &printed);
    let finish = ClaimFinish {
        fence: begun.fence,
        result: bytes::Bytes::from(printed.kept),
        result_ttl_ms: args.result.ttl_ms(),
    };
    keep(args, claim, &finish, ends, &mut signals).await?;
    if args.common.output.is_json() {
        let answer = Answer::ran(&args.key, begun, &finish.result);
        return args.common.output.print(&answer, |_| String::new());
    }
    Ok(())
}

/// Says what of the output is not kept.
fn warn(args: &RunArgs, printed: &Printed) {
    let program = program(args);
    if printed.cut > 0 {
        output::say(format_args!(
            "helve: {program} printed {} bytes more than the {RESULT_BYTES_MAX} that are kept",
            printed.cut
        ));
    }
    if printed.is_held_open {
        output::say(format_args!(
            "helve: {program} ended, and a process that it started holds its standard output open: \
             what that process prints from now on is not kept"
        ));
    }
}

/// What the command finds in its environment.
fn variables(args: &RunArgs, begun: &ClaimReply) -> [(&'static str, String); 4] {
    let earlier = begun.earlier;
    [
        ("HELVE_CLAIM_KEY", args.key.clone()),
        ("HELVE_CLAIM_FENCE", begun.fence.to_string()),
        ("HELVE_CLAIM_EARLIER", earlier.map_or("", end).to_owned()),
        (
            "HELVE_CLAIM_EARLIER_FENCE",
            earlier.map_or_else(String::new, |earlier| earlier.fence.to_string()),
        ),
    ]
}

/// How the command ends whose own command failed.
async fn failed(
    args: &RunArgs,
    claim: &Claim<'_>,
    fence: u64,
    status: ExitStatus,
    signals: &mut Signals,
) -> Ending {
    let next = match (args.undone_on_failure, status.code()) {
        (false, _) => "it may have done a part: the claim ends with its lease".to_owned(),
        // A command that was killed did not say that it did nothing.
        (true, None) => {
            "it was killed, and may have done a part before: the claim ends with its lease"
                .to_owned()
        }
        (true, Some(_)) => given_up(claim, fence, signals).await,
    };
    Ending::Fatal(anyhow!("{} failed ({status}): {next}", program(args)))
}

/// Gives the lease up, and says what became of the key.
async fn given_up(claim: &Claim<'_>, fence: u64, signals: &mut Signals) -> String {
    match unless_stopped(claim.abandon(fence), signals).await {
        (Some(answered), _) => abandoned(answered),
        (None, signal) => {
            let signal = signal.map_or("a signal", StopSignal::name);
            format!(
                "its claim ends with its lease, since {signal} came before the cluster's answer"
            )
        }
    }
}

/// What became of the key of a lease that was given up.
fn abandoned(answered: Result<ClaimReply, Ending>) -> String {
    match answered {
        Ok(reply) if reply.status() == ClaimStatus::Abandoned => {
            "its claim is abandoned".to_owned()
        }
        Ok(_) => "its claim was over before".to_owned(),
        Err(ending) => {
            let why = said(&**ending.error());
            format!("its claim ends with its lease, since it cannot be abandoned: {why}")
        }
    }
}

/// Keeps the result: tries until the lease ends, since the command must not be run again for a cluster that does not answer. A signal
/// that asks to stop ends the tries.
async fn keep(
    args: &RunArgs,
    claim: &Claim<'_>,
    finish: &ClaimFinish,
    ends: Instant,
    signals: &mut Signals,
) -> Outcome {
    let mut last = None;
    let signal = loop {
        let (tried, stopped) = unless_stopped(try_to_keep(claim, finish), signals).await;
        let why = match tried {
            Some(Try::Kept) => return Ok(()),
            Some(Try::Failed(why)) => return Err(not_kept(args, &why)),
            Some(Try::MayPass(why)) if Instant::now() + PAUSE >= ends => {
                return Err(not_kept(args, &why));
            }
            Some(Try::MayPass(why)) => Some(why),
            None => None,
        };
        let is_first = last.is_none();
        last = why.or(last);
        if let Some(signal) = stopped {
            break signal;
        }
        if let Some(why) = last.as_ref().filter(|_| is_first) {
            output::say(format_args!(
                "helve: the result is not kept yet, and is tried until the lease ends: {}",
                harmless(why)
            ));
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            signal = signals.recv() => break signal,
        }
    };
    let why = last.unwrap_or_else(|| "the cluster did not answer before".to_owned());
    Err(Ending::Unknown(anyhow!(
        "{} ended well, and then {signal} stopped the tries to keep its result: whether it is kept is not known: {why}: \
         run the same again later: it prints what was kept, or says that the command may have been run",
        program(args)
    )))
}

/// What became of a try to keep a result.
enum Try {
    Kept,
    /// Another try may keep it.
    MayPass(String),
    Failed(String),
}

async fn try_to_keep(claim: &Claim<'_>, finish: &ClaimFinish) -> Try {
    let ending = match claim.act(Action::Finish(finish.clone())).await {
        Ok(reply) => match reply.status() {
            // It may have finished the claim by itself.
            ClaimStatus::Finished | ClaimStatus::Done => return Try::Kept,
            ClaimStatus::LeaseLost => {
                let why = "the lease was over before, so that another caller may have run it: give a longer --lease";
                return Try::Failed(why.to_owned());
            }
            status => unknown(status),
        },
        Err(ending) => ending,
    };
    let why = said(&**ending.error());
    match ending {
        Ending::Unknown(_) | Ending::Unanswered(_) | Ending::NotNow(_) => Try::MayPass(why),
        _ => Try::Failed(why),
    }
}

fn not_kept(args: &RunArgs, why: &str) -> Ending {
    Ending::Fatal(anyhow!(
        "{} ended well, but its result is not known to be kept: {why}",
        program(args)
    ))
}

/// Waits for a call, but only for [`PAUSE`] more once a signal asks to stop. Returns what the call came to, if it ended, and the signal.
/// A service manager may have sent the signal to the command too: then the command has ended by it, and the cluster answers at once.
async fn unless_stopped<T>(
    call: impl Future<Output = T>,
    signals: &mut Signals,
) -> (Option<T>, Option<StopSignal>) {
    let mut call = pin!(call);
    tokio::select! {
        biased;
        ended = &mut call => (Some(ended), None),
        signal = signals.recv() => (timeout(PAUSE, call).await.ok(), Some(signal)),
    }
}

/// The command, as an error names it.
fn program(args: &RunArgs) -> String {
    let program = args
        .command
        .first()
        .map(|program| program.to_string_lossy());
    format!("command `{}`", harmless(&program.unwrap_or_default()))
}
