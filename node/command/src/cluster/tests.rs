//! Tests of the flags that reach a cluster, and of what its answers mean.

use std::{collections::HashMap, fs, process::Command, thread};

use clap::{Args as _, FromArgMatches as _};
use helve_node::tls::authority::{Authority, Life};
use tonic_types::ErrorDetails;

use super::*;

/// What these flags of a command say.
fn args(endpoint: &str, flags: &[&str]) -> ClusterArgs {
    let words = ["helve", "--endpoints", endpoint];
    let words = words.into_iter().chain(flags.iter().copied());
    let command = ClusterArgs::augment_args(clap::Command::new("helve"));
    let matches = command.try_get_matches_from(words).unwrap();
    ClusterArgs::from_arg_matches(&matches).unwrap()
}

#[test]
fn token_goes_beyond_loopback_only_if_that_is_vouched_for() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    fs::write(&token, "hlv_secret").unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&token, private).unwrap();
    let with_token = ["--token-file", token.to_str().unwrap()];
    for endpoint in ["127.0.0.1:7400", "localhost:7400", "http://[::1]:7400"] {
        assert!(client(&args(endpoint, &with_token)).is_ok(), "{endpoint}");
    }
    for endpoint in ["node1:7400", "10.0.0.1:7400", "http://localhost.:7400/"] {
        let refused = args(endpoint, &with_token);
        let through_client = client(&refused).unwrap_err().caused().cloned().unwrap();
        let through_channel = refused.channel(endpoint).unwrap_err();
        let through_channel = through_channel.downcast_ref::<Caused>().unwrap();
        assert_eq!(through_client.message, through_channel.message);
        assert_eq!(through_client.cause, Cause::BadEndpoint);
        let said = through_client.message;
        assert!(said.contains("--insecure-token"), "{said}");
        let vouched_for = [&with_token[..], &["--insecure-token"]].concat();
        assert!(client(&args(endpoint, &vouched_for)).is_ok());
        assert!(client(&args(endpoint, &[])).is_ok(), "there is no token");
    }
}

#[test]
fn named_pipe_of_a_ca_is_written_once_for_a_command() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::make("ca", Life::of(Duration::from_secs(3_600)));
    let (_, issued) = authority.unwrap();
    let path = directory.path().join("ca");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let writer = {
        let path = path.clone();
        thread::spawn(move || fs::write(path, &issued.certificate_pem))
    };
    let args = args("127.0.0.1:7400", &["--tls-ca", path.to_str().unwrap()]);
    // Each of them reads it twice.
    for _ in 0..2 {
        assert!(args.tls.client().unwrap().is_some());
    }
    writer.join().unwrap().unwrap();
}

/// How a command ends that has these flags of TLS.
fn of_tls(flags: &[&str]) -> Caused {
    let args = args("127.0.0.1:7400", flags);
    let ended = [
        client(&args).err().map(|ending| ending.caused().cloned()),
        args.channel("127.0.0.1:7400")
            .err()
            .map(|error| error.downcast_ref().cloned()),
    ];
    let [through_client, through_channel] = ended.map(|caused| caused.flatten().unwrap());
    assert_eq!(through_client.message, through_channel.message);
    through_client
}

#[test]
fn unusable_tls_flag_is_blamed_whatever_the_command() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&path, private).unwrap();
        path.display().to_string()
    };
    let authority = Authority::make("ca", Life::of(Duration::from_secs(3_600)));
    let (authority, issued) = authority.unwrap();
    let client = authority.client("client", Life::of(Duration::from_secs(3_600)));
    let client = file("client.crt", &client.unwrap().certificate_pem);
    let ca = file("ca.crt", &issued.certificate_pem);
    let (empty, text) = (file("empty", ""), file("text", "<html></html>"));
    let table: [(&[&str], Cause, &str); 7] = [
        (&["--tls-ca", &empty], Cause::TlsFile, "--tls-ca: "),
        (&["--tls-ca", &text], Cause::TlsFile, "--tls-ca: "),
        (
            &[
                "--tls-ca",
                &ca,
                "--tls-client-cert",
                &text,
                "--tls-client-key",
                &text,
            ],
            Cause::TlsFile,
            "--tls-client-cert: ",
        ),
        (
            &[
                "--tls-ca",
                &ca,
                "--tls-client-cert",
                &ca,
                "--tls-client-key",
                &text,
            ],
            Cause::TlsFile,
            "--tls-client-cert: ",
        ),
        (
            &[
                "--tls-ca",
                &ca,
                "--tls-client-cert",
                &client,
                "--tls-client-key",
                &text,
            ],
            Cause::TlsFile,
            "--tls-client-key: ",
        ),
        (
            &["--tls-ca", &ca, "--tls-client-cert", &ca],
            Cause::TlsFile,
            "--tls-client-cert and --tls-client-key: ",
        ),
        (
            &["--tls-ca", &ca, "--tls-server-name", "a b"],
            Cause::CertificateName,
            "--tls-server-name: ",
        ),
    ];
    for (flags, cause, begins) in table {
        let caused = of_tls(flags);
        assert_eq!(caused.cause, cause, "{caused}");
        assert!(caused.message.starts_with(begins), "{caused}");
        assert!(caused.message.contains("; "), "no remedy: {caused}");
    }
}

#[test]
fn endpoint_is_refused_with_the_remedy_that_fits() {
    for (address, scheme, remedy) in [
        ("https://a:7400", "http", "pass --tls-ca FILE"),
        ("http://a:7400", "https", "remove --tls-ca"),
        ("ftp://a:7400", "http", "give HOST:PORT"),
        ("a", "http", "give HOST:PORT"),
        ("::1:7400", "http", "[::1]:7400"),
        ("[::1]", "http", "give HOST:PORT"),
    ] {
        let refused = check_endpoint(address, scheme).unwrap_err();
        let says_port = refused.message.contains("`[::1]` has no port");
        assert_eq!(says_port, address == "[::1]", "{refused}");
        let (_, next) = refused.message.rsplit_once("; ").unwrap();
        assert!(next.starts_with(remedy) || next.ends_with(remedy), "{next}");
    }
    assert!(check_endpoint("[::1]:7400", "http").is_ok());
    assert!(check_endpoint("https://a:7400", "https").is_ok());
}

#[test]
fn list_of_endpoints_has_no_empty_one() {
    let command = || ClusterArgs::augment_args(clap::Command::new("helve"));
    let parsed = |list: &str| command().try_get_matches_from(["helve", "--endpoints", list]);
    assert!(parsed("a:1, b:1").is_ok());
    for list in ["a:1,", ",a:1", "a:1,,b:1", "", " "] {
        let refused = parsed(list).unwrap_err().to_string();
        assert!(
            refused.contains("--endpoints") && refused.contains("empty"),
            "{refused}"
        );
    }
}

#[test]
fn time_that_no_call_can_have_is_refused() {
    let command = || ClusterArgs::augment_args(clap::Command::new("helve"));
    let parsed = |time: &str| command().try_get_matches_from(["helve", "--timeout", time]);
    assert!(parsed("24h").is_ok());
    for time in ["0s", "99999999999d"] {
        let refused = parsed(time).unwrap_err().to_string();
        assert!(refused.contains("--timeout"), "{refused}");
    }
}

#[test]
fn refusal_that_no_endpoint_gave_is_not_blamed_on_the_endpoints() {
    let local = helve_client::Error::new(ErrorKind::Invalid, "the key ring has no key");
    let ended = failed(local);
    assert_eq!((ended.status(), ended.cause().as_str()), (2, "refused"));
}

#[test]
fn change_that_a_proxy_refused_is_in_doubt_only_if_it_may_have_passed_it_on() {
    for (code, message, read, change) in [
        (Code::Unavailable, "no healthy upstream", 3, 3),
        (Code::Unavailable, "", 3, 5),
        (Code::DeadlineExceeded, "", 3, 5),
        (Code::ResourceExhausted, "too many requests", 6, 6),
        (Code::PermissionDenied, "RBAC: access denied", 2, 2),
        (Code::Unauthenticated, "", 2, 2),
        (Code::Internal, "Missing response message.", 3, 5),
    ] {
        let status = Status::new(code, message);
        let ends = (ending(&status).status(), ending_of_change(&status).status());
        assert_eq!(ends, (read, change), "{status:?}");
    }
}

#[test]
fn node_that_says_why_it_took_too_long_is_quoted() {
    let reason = Reason::NodeSilent.as_str();
    let details = ErrorDetails::with_error_info(reason, ERROR_DOMAIN, HashMap::new());
    let why = "nothing was changed";
    let told = Status::with_error_details(Code::DeadlineExceeded, why, details);
    assert_eq!(transport(&told), why);
    assert!(transport(&Status::deadline_exceeded("")).contains("--timeout"));
}

#[test]
fn call_of_another_time_blames_this_machines_clock() {
    for reason in [Reason::TooEarly, Reason::RequestTooOld] {
        let details = ErrorDetails::with_error_info(reason.as_str(), ERROR_DOMAIN, HashMap::new());
        let told = Status::with_error_details(Code::FailedPrecondition, "not executed", details);
        for ended in [ending(&told), ending_of_change(&told)] {
            let caused = ended.caused().unwrap();
            assert_eq!(caused.cause, Cause::Told(reason));
            assert!(matches!(ended, Ending::NotNow(_)), "{caused}");
            let said = &caused.message;
            assert!(said.contains("this machine's clock") && said.contains("not executed"));
        }
    }
}
