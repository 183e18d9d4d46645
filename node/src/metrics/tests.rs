//! Tests of the page that scrapers get.

use helve_proto::v1::{Member, Quotas, TenantUsage};

use super::*;

#[test]
fn a_scrape_states_calls_and_status_in_one_page() {
    let metrics = Metrics::default();
    metrics.call("Mint").answered("ok");
    drop(metrics.call("Get"));
    let node = NodeStatus {
        term: 7,
        log_syncs: 3,
        wall_off_ms: 11_000,
        removal_lag_ms: 2_000,
        walls_ahead_ms: Some(-606_000),
        repaired_rows: 4,
        held_level: 5,
        sealed_key_id: "00000000000000a1".into(),
        held_key_id: "00000000000000b2".into(),
        ..Default::default()
    };
    let member = Member {
        id: 2,
        lag_entries: Some(5),
        ..Default::default()
    };
    let status = StatusReply {
        node: Some(node),
        members: vec![member],
        ..Default::default()
    };
    let tenant = TenantInfo {
        tenant: "default".into(),
        usage: Some(TenantUsage { rows: 9, bytes: 99 }),
        quotas: Some(Quotas {
            rows: 10,
            writes_per_second: 5,
            ..Default::default()
        }),
        ..Default::default()
    };
    let page = metrics
        .encode(&status, &[tenant], &Load::default())
        .unwrap();
    for line in [
        r#"helve_requests_total{rpc="Mint",code="ok"} 1"#,
        r#"helve_requests_total{rpc="Get",code="cancelled"} 1"#,
        "helve_requests_in_flight 0",
        "helve_wall_off_seconds 11.0",
        r#"helve_term{group_id="1"} 7"#,
        r#"helve_removal_lag_seconds{group_id="1"} 2.0"#,
        r#"helve_walls_ahead_seconds{group_id="1"} -606.0"#,
        r#"helve_live_rows{group_id="1"} 9"#,
        r#"helve_repaired_rows_total{group_id="1"} 4"#,
        r#"helve_feature_level_held{group_id="1"} 1"#,
        r#"helve_sealed{group_id="1"} 1"#,
        r#"helve_data_key{group_id="1",key_id="00000000000000b2"} 1"#,
        r#"helve_tenant_live_bytes{group_id="1",tenant="default"} 99"#,
        r#"helve_tenant_quota_rows{group_id="1",tenant="default"} 10"#,
        r#"helve_tenant_quota_writes_per_second{group_id="1",tenant="default"} 5"#,
        r#"helve_log_syncs_total{group_id="1"} 3"#,
        r#"helve_member_lag_entries{group_id="1",member_id="2"} 5"#,
    ] {
        assert!(page.contains(line), "`{line}` is not in\n{page}");
    }
    let free = metrics.encode(&StatusReply::default(), &[], &Load::default());
    let free = free.unwrap();
    let line = r#"helve_feature_level_held{group_id="1"} 0"#;
    assert!(free.contains(line), "`{line}` is not in\n{free}");
    // What a tenant has no quota of has no line.
    assert!(!page.contains("helve_tenant_quota_bytes{"), "{page}");
    assert!(page.ends_with("# EOF\n"));
}

#[test]
fn a_stream_is_counted_by_its_end_and_is_no_call_under_way() {
    let metrics = Metrics::default();
    let mut watch = metrics.stream("Watch");
    let encode = || metrics.encode(&StatusReply::default(), &[], &Load::default());
    let page = encode().unwrap();
    assert!(page.contains("helve_requests_in_flight 0\n"), "{page}");
    watch.answered("WATCH_LAPSED");
    drop(watch);
    let page = encode().unwrap();
    let counted = r#"helve_requests_total{rpc="Watch",code="WATCH_LAPSED"} 1"#;
    assert!(page.contains(counted), "{page}");
    assert!(
        !page.contains(r#"helve_request_seconds_count{rpc="Watch"}"#),
        "{page}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_scrape_shows_the_process_in_the_names_of_prometheus() {
    let page = Metrics::default().encode(&StatusReply::default(), &[], &Load::default());
    let page = page.unwrap();
    for name in [
        "process_cpu_seconds_total ",
        "process_resident_memory_bytes ",
        "process_open_fds ",
        "process_max_fds ",
        "process_start_time_seconds ",
        "process_threads ",
    ] {
        let line = page.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        assert!(value.is_some_and(|value| value >= 0.0), "{name}: {page}");
    }
}

#[test]
fn no_metric_is_in_another_unit_than_prometheus_wants() {
    let (observed, audit) = (Observed::default(), AuditCounters::default());
    observed.peer_answered(2, Duration::from_millis(1));
    let metrics = Metrics::showing(&observed, &Times::default(), Some(&audit));
    drop(metrics.call("Get"));
    let node = NodeStatus {
        certificate_expires_ms: 1,
        walls_ahead_ms: Some(1),
        ..NodeStatus::default()
    };
    let member = Member {
        lag_entries: Some(1),
        silent_ms: Some(1),
        wall_ahead_ms: Some(1),
        ..Member::default()
    };
    let status = StatusReply {
        node: Some(node),
        members: vec![member],
        ..StatusReply::default()
    };
    let page = metrics.encode(&status, &[], &Load::default()).unwrap();
    // A page without these would say nothing of their units.
    for name in [
        "audit_queued_bytes",
        "certificate_expires_seconds",
        "log_sync_seconds",
        "peer_round_trip_seconds",
        "walls_ahead_seconds",
    ] {
        assert!(
            page.contains(&format!("# TYPE helve_{name} ")),
            "{name}: {page}"
        );
    }
    for unit in ["milliseconds", "_ms", "micros", "kib", "percent"] {
        assert!(!page.contains(unit), "{unit} in\n{page}");
    }
}
