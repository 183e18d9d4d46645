//! Tests of the configuration.

mod secured;

use super::*;

fn settings() -> Settings {
    Settings {
        seat: 1,
        data_dir: "data".into(),
        listen: "127.0.0.1:7400".into(),
        peer_listen: "127.0.0.1:7401".into(),
        http_listen: "127.0.0.1:7402".into(),
        console: false,
        peers: [
            "1=127.0.0.1:7401",
            "2=127.0.0.1:7411",
            "3=node-3.example:7401",
        ]
        .map(Into::into)
        .into(),
        advertise: None,
        disk_reserve_bytes: 0,
        auth: AuthSetting::None,
        operator_token_file: None,
        exposure: Exposure::Loopback,
        tls: TlsSettings::default(),
        bootstrap: Bootstrap::WhenAllPristine,
        learner: false,
        audit: None,
        data_keys: KeyFiles::none(),
        traces: TraceSettings::default(),
        tuning: Tuning::default(),
    }
}

/// The settings of a right start, with these flags said otherwise.
fn said(flags: &[(&str, &str)]) -> Settings {
    let mut settings = settings();
    for &(flag, value) in flags {
        match flag {
            "--id" => settings.seat = value.parse().unwrap(),
            "--data-dir" => settings.data_dir = value.into(),
            "--listen" => settings.listen = value.into(),
            "--peer-listen" => settings.peer_listen = value.into(),
            "--http-listen" => settings.http_listen = value.into(),
            "--console" => settings.console = true,
            "--learner" => settings.learner = true,
            "--force-bootstrap" => settings.bootstrap = Bootstrap::Forced,
            "--advertise" => settings.advertise = Some(value.into()),
            "--peers" => {
                let entries = value.split(',').filter(|entry| !entry.is_empty());
                settings.peers = entries.map(Into::into).collect();
            }
            "--auth" => settings.auth = AuthSetting::Tokens,
            "--insecure" => settings.exposure = Exposure::Insecure,
            "--insecure-peers" => settings.exposure = Exposure::LocalPeers,
            "--tls-cert" => settings.tls.cert = Some(value.into()),
            "--tls-key" => settings.tls.key = Some(value.into()),
            "--tls-client-ca" => settings.tls.client_ca = Some(value.into()),
            "--peer-tls-cert" => settings.tls.peer_cert = Some(value.into()),
            "--peer-tls-key" => settings.tls.peer_key = Some(value.into()),
            "--peer-tls-ca" => settings.tls.peer_ca = Some(value.into()),
            _ => panic!("no flag {flag}"),
        }
    }
    settings
}

/// Flags as said, the flag that is refused, and the problem.
type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str);

/// Each start is refused because of a flag, for a problem, and with a remedy.
fn refused(table: &[Row<'_>]) {
    for (flags, flag, problem) in table {
        let refusal = Config::check(&said(flags)).expect_err(problem);
        assert_eq!(refusal.flag, *flag, "{refusal}");
        assert!(
            refusal.problem.contains(problem),
            "`{refusal}` does not say `{problem}`"
        );
        assert!(!refusal.remedy.is_empty());
    }
}

#[test]
fn a_right_configuration_is_taken_as_said() {
    let config = Config::check(&settings()).unwrap();
    assert_eq!(config.peers.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(config.peers[&3], "node-3.example:7401");
    assert_eq!(config.listen.port(), 7400);
}

#[test]
fn repeated_seat_with_one_address_counts_once() {
    let config = Config::check(&said(&[("--peers", "1=a:1,2=b:1,1=a:1")])).unwrap();
    assert_eq!(config.peers.len(), 2);
}

#[test]
fn learner_that_would_found_a_cluster_is_refused() {
    let learner = ("--learner", "");
    let alone = ("--peers", "1=127.0.0.1:7401");
    assert!(Config::check(&said(&[learner])).unwrap().learner);
    refused(&[
        (&[learner, alone], "--learner", "founds no cluster"),
        (
            &[learner, ("--force-bootstrap", "")],
            "--learner",
            "founds no cluster",
        ),
    ]);
}

#[test]
fn wrong_peers_are_refused() {
    let peers = "--peers";
    let many: Vec<_> = (1..=16)
        .map(|seat| format!("{seat}=host-{seat}:1"))
        .collect();
    refused(&[
        (&[(peers, "")], peers, "no seat is listed"),
        (&[("--id", "4")], peers, "is not among the listed"),
        (&[("--id", "0")], "--id", "0 is no seat"),
        (&[(peers, "1=a:1,1=b:1")], peers, "listed twice"),
        (&[(peers, "1=a:1,2=a:1")], peers, "same address"),
        (&[(peers, "127.0.0.1:7401")], peers, "has no `=`"),
        (&[(peers, "x=127.0.0.1:7401")], peers, "is no seat"),
        (&[(peers, "0=127.0.0.1:7401")], peers, "is no seat"),
        (&[(peers, "1=127.0.0.1")], peers, "has no port"),
        (&[(peers, "1=127.0.0.1:0")], peers, "is no port"),
        (&[(peers, "1=127.0.0.1:77777")], peers, "is no port"),
        (&[(peers, "1=127.0.0.1:+7401")], peers, "is no port"),
        (&[(peers, "1=[::1]")], peers, "has no port"),
        (
            &[(peers, "1=0.0.0.0:7401")],
            peers,
            "no address to connect to",
        ),
        (&[(peers, "1=[::]:7401")], peers, "no address to connect to"),
        (&[(peers, "1=:7401")], peers, "is no host"),
        (&[(peers, "1=http://a:7401")], peers, "is no host"),
        (&[(peers, "1=::1:7401")], peers, "is no host"),
        (&[(peers, "1=127.0.0.1:7400")], peers, "port for clients"),
        (&[(peers, &many.join(","))], peers, "at most"),
    ]);
}

#[test]
fn wrong_or_unsafe_listeners_are_refused() {
    let (listen, peer, http) = ("--listen", "--peer-listen", "--http-listen");
    let insecure = ("--insecure", "");
    refused(&[
        (&[(listen, "7400")], listen, "is no address"),
        (&[(listen, "no such host:7400")], listen, "is no address"),
        (&[(listen, "192.0.2.1:7400")], listen, "beyond this machine"),
        (&[(listen, "0.0.0.0:7400")], listen, "beyond this machine"),
        (&[(peer, "[::]:7401")], peer, "beyond this machine"),
        (&[(http, "192.0.2.1:7402")], http, "beyond this machine"),
        (&[(peer, "127.0.0.1:7400")], peer, "the port of --listen"),
        (
            &[(http, "0.0.0.0:7401"), insecure],
            http,
            "the port of --peer-listen",
        ),
        (
            &[(listen, "0.0.0.0:7400"), insecure],
            "--advertise",
            "cannot be told",
        ),
        (&[("--advertise", "host")], "--advertise", "has no port"),
        (&[("--advertise", "host:0")], "--advertise", "is no port"),
        (
            &[("--advertise", "0.0.0.0:1")],
            "--advertise",
            "no address to connect to",
        ),
        (&[(listen, "127.0.0.1")], listen, "is no address"),
        (&[(peer, "127.0.0.1")], peer, "is no address"),
        (&[(http, "127.0.0.1")], http, "is no address"),
        (&[(peer, "127.0.0.1:0")], peer, "any free port"),
        (&[("--data-dir", "")], "--data-dir", "empty"),
    ]);
}

#[test]
fn a_listener_beyond_loopback_needs_the_operators_word() {
    let flags = [
        ("--listen", "0.0.0.0:7400"),
        ("--advertise", "node-1.example:7400"),
    ];
    assert!(Config::check(&said(&flags)).is_err());
    assert!(Config::check(&said(&[flags[0], flags[1], ("--insecure", "")])).is_ok());
}

#[test]
fn free_ports_do_not_collide() {
    let any = [
        ("--listen", "127.0.0.1:0"),
        ("--http-listen", "127.0.0.1:0"),
    ];
    assert!(Config::check(&said(&any)).is_ok());
}

#[test]
fn console_is_refused_where_tokens_could_be_read_on_the_way() {
    let beyond = ("--http-listen", "10.0.0.7:7402");
    let console = ("--console", "");
    refused(&[
        (
            &[beyond, console, ("--insecure", "")],
            "--console",
            "without TLS",
        ),
        (
            &[beyond, console, ("--insecure", ""), ("--auth", "tokens")],
            "--console",
            "without TLS",
        ),
    ]);
    assert!(
        Config::check(&said(&[console]))
            .expect("it is on loopback")
            .console
    );
    assert!(!Config::check(&settings()).expect("a right start").console);
}
