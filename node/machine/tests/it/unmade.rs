//! Tenants that no table names. No node proposes anything for one, but the machine asks for none to be made, so the raise finds them by
//! their rows.

use bytes::Bytes;
use helve_machine::limits;
use helve_proto::{
    command::v1::{Command, RaiseFeatureLevel, Tick, TombstonesRow, UsageRow, command::Operation},
    v1::{DeleteRequest, OpenSessionRequest, PutRequest, TakeRequest},
};

use crate::{
    bounded::{DAY_MS, audited, host, sweep_all},
    drift::{TOMBSTONE_SUMMARY, USAGE, expiring, forge},
    host::{START_MS, command, request_identity},
};

/// Of a tenant that was never made.
fn of_stray(operation: Operation) -> Command {
    Command {
        tenant: "stray".to_owned(),
        ..command(START_MS, operation)
    }
}

/// The same, under an identity of its own.
fn call(number: u64, operation: Operation) -> Command {
    Command {
        identity: Some(request_identity(START_MS, number)),
        ..of_stray(operation)
    }
}

fn put(number: u64) -> Command {
    let put = PutRequest {
        store: "cart".into(),
        id: "a".into(),
        ..PutRequest::default()
    };
    call(number, Operation::Put(put))
}

fn take(number: u64) -> Command {
    let take = TakeRequest {
        store: "cart".into(),
        id: "a".into(),
        ..TakeRequest::default()
    };
    call(number, Operation::Take(take))
}

fn delete(number: u64) -> Command {
    let delete = DeleteRequest {
        store: "cart".into(),
        id: "a".into(),
        ..DeleteRequest::default()
    };
    call(number, Operation::Delete(delete))
}

fn open() -> Command {
    let open = OpenSessionRequest {
        session_id: Bytes::from_static(&[7; limits::IDENTITY_BYTES]),
    };
    of_stray(Operation::OpenSession(open))
}

fn raise(after_ms: u64) -> Command {
    let level = limits::FEATURE_LEVEL;
    let raise = Operation::RaiseFeatureLevel(RaiseFeatureLevel { level });
    command(START_MS + after_ms, raise)
}

#[test]
fn raise_counts_a_tenant_that_was_never_made_again() {
    let mut host = host(4);
    let kept = call(1, expiring("kept", DAY_MS));
    for command in [kept, put(2), take(3), open()] {
        host.apply(&command);
    }
    assert_eq!(audited(&host), Ok(()));
    // Of the tenant and of its sessions; what stores and owners hold is not counted again.
    for table in [USAGE[0], USAGE[3]] {
        let forged = forge(&mut host, table, |row: &mut UsageRow| {
            row.rows += 5;
            row.bytes += 500;
        });
        assert_eq!(forged, 1);
    }
    let forged = forge(&mut host, TOMBSTONE_SUMMARY, |row: &mut TombstonesRow| {
        row.rows += 5;
    });
    assert_eq!(forged, 1);
    host.apply(&raise(0));
    sweep_all(&mut host, 3);
    assert_eq!((audited(&host), host.repairs), (Ok(()), 3));
}

/// Counters and sessions are written when a batch is finished, and a raise may be anywhere in one.
#[test]
fn raise_finds_the_same_tenants_however_it_is_batched() {
    let later_ms = 5 * DAY_MS;
    let tick = command(
        START_MS + later_ms,
        Operation::Tick(Tick { rows_max: 1024 }),
    );
    let (ticks, soon) = ([tick.clone(), tick], call(1, expiring("a", 1)));
    let cases: [(&[Command], &[Command]); 8] = [
        (&[], &[open()]),
        (&[], &[put(1)]),
        (&[], &[put(1), delete(2)]),
        (&[], &[put(1), take(2)]),
        (&[put(1)], &[delete(2)]),
        (&[open()], &ticks),
        (&[soon], &ticks),
        (&[put(1), take(2), open()], &ticks),
    ];
    for (before, beside) in cases {
        let hosts = [1, 2, 3].map(|batch| {
            let mut host = host(4);
            host.apply_all(before);
            let commands = [beside, &[raise(later_ms)]].concat();
            for chunk in commands.chunks(batch) {
                host.apply_all(chunk);
            }
            host
        });
        for other in &hosts[1..] {
            assert_eq!(other.rows, hosts[0].rows, "{before:?}, then {beside:?}");
        }
        for mut host in hosts {
            sweep_all(&mut host, later_ms);
            assert_eq!((audited(&host), host.repairs), (Ok(()), 0));
        }
    }
}
