//! Which hosts and origins are accepted.

use super::*;

#[test]
fn hosts_are_taken_as_clients_send_them() {
    let table = [
        ("shop.example", "shop.example"),
        (" Shop.Example:8443 ", "shop.example:8443"),
        ("shop_1", "shop_1"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("10.0.0.1:8080", "10.0.0.1:8080"),
        ("::1", "[::1]"),
        ("2001:DB8:0:0:0:0:0:1", "[2001:db8::1]"),
        ("::ffff:10.0.0.1", "[::ffff:a00:1]"),
        ("shop.example.", "shop.example."),
        ("[::1]", "[::1]"),
        ("[::1]:8080", "[::1]:8080"),
        ("Shop.Example:443", "shop.example:443"),
        ("10.0.0.1:80", "10.0.0.1:80"),
    ];
    for (value, sent) in table {
        assert_eq!(host(value).as_deref(), Ok(sent), "{value}");
    }
}

#[test]
fn default_port_of_an_allowed_host_is_warned_of() {
    let warned = |hosts: &[&str]| {
        let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
        warnings(&hosts).join("\n")
    };
    for (host, name) in [
        ("shop.example:80", "Add shop.example for"),
        ("shop.example:443", "Add shop.example for"),
        ("[::1]:443", "Add [::1] for"),
    ] {
        let said = warned(&["b.example", host]);
        assert!(said.contains(name), "{host}: {said}");
    }
    for hosts in [
        &["shop.example", "shop.example:443"][..],
        &["shop.example:8443", "[::80]", "[::1]"],
    ] {
        assert_eq!(warned(hosts), "", "{hosts:?}");
    }
}

#[test]
fn hosts_that_never_match_are_refused_with_a_remedy() {
    let long = "a".repeat(64);
    let longer = format!("{}aa", "a.".repeat(126));
    assert!(host(&longer[..NAME_BYTES_MAX]).is_ok());
    let table = [
        (&*longer, "no host name"),
        ("-a.example", "no host name"),
        ("a-.example:80", "no host name"),
        ("none", "leave it out"),
        ("NULL", "leave it out"),
        ("any", "leave it out"),
        ("", "unset"),
        ("  ", "unset"),
        ("https://shop.example/mcp", "write shop.example"),
        ("https://", "such as"),
        ("https://alice@shop.example", "a name such as shop.example"),
        ("*", "each host"),
        ("*.shop.example", "each host"),
        ("shop.example:*", "each host"),
        ("shop.example/mcp", "its name"),
        ("shop.example/", "its name"),
        ("alice@shop.example", "its name"),
        ("a b", "its name"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("127.1", "127.0.0.1"),
        ("shop.example:0", "1 to 65535"),
        ("shop.example:", "1 to 65535"),
        ("shop.example:65536", "1 to 65535"),
        ("shop.example:+80", "1 to 65535"),
        ("shop.example:http", "1 to 65535"),
        (":8080", "no host name"),
        ("[::1", "no host name"),
        ("[2001:db8:0:0:0:0:0:1]", "[2001:db8::1]"),
        ("\"shop.example\"", "no host name"),
        ("shop.example;x", "no host name"),
        ("shop.example,b.example", "no host name"),
        ("a..b", "no host name"),
        (".a", "no host name"),
        ("a..", "no host name"),
        (".", "no host name"),
        (&long, "no host name"),
    ];
    for (value, remedy) in table {
        let refused = host(value).unwrap_err().to_string();
        assert!(refused.contains(remedy), "{value}: {refused}");
    }
}

#[test]
fn origins_are_taken_as_browsers_send_them() {
    let table = [
        ("https://app.example", "https://app.example"),
        ("HTTPS://App.Example", "https://app.example"),
        ("https://app.example:443", "https://app.example"),
        ("http://localhost:6274", "http://localhost:6274"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("https://app.example:80", "https://app.example:80"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
        ("capacitor://localhost", "capacitor://localhost"),
        ("tauri://localhost", "tauri://localhost"),
        ("http://localhost:*", "http://localhost:*"),
        ("http://[::1]:*", "http://[::1]:*"),
    ];
    for (value, sent) in table {
        assert_eq!(origin(value).as_deref(), Ok(sent), "{value}");
    }
}

#[test]
fn origins_that_never_match_or_are_anybodys_are_refused_with_a_remedy() {
    let table = [
        ("", "unset"),
        ("null", "the page's own"),
        ("*", "each origin"),
        ("https://*.app.example", "each origin"),
        ("http://localhost:80:*", "write either"),
        ("localhost:*", "each origin"),
        ("app.example", "https://app.example"),
        ("localhost:3000", "https://localhost:3000"),
        ("//app.example", "such as https://app.example"),
        ("https:/app.example", "such as https://app.example"),
        ("about:blank", "such as https://app.example"),
        ("$ORIGIN", "such as https://app.example"),
        ("https://app.example/", "write that"),
        ("https://app.example/page", "https://app.example:"),
        ("https://alice@app.example", "write that"),
        ("https://app.example?a", "write that"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
        ("https://127.1", "https://127.0.0.1"),
        ("https://app.example:0", "port 0"),
        ("https://app.example:99999", "such as"),
        ("https://", "such as"),
        ("file:///index.html", "null"),
        ("ws://app.example", "write http://"),
        ("WSS://app.example:8443", "write https://"),
        ("wss://localhost:*", "write https://"),
        ("ftp://app.example", "write https://"),
        ("mailto://a", "write https://"),
        ("urn://x", "write https://"),
        ("SSH://a", "write https://"),
        ("gopher://a", "write https://"),
        ("filesystem://a", "write https://"),
        ("view-source://a", "write https://"),
        ("wss+https://a", "write https://"),
        ("http+unix://a:*", "write https://"),
        ("https://-a.example", "such as"),
        ("htps://app.example", "write https://"),
        ("htpps://app.example", "write https://"),
        ("httpss://app.example", "write https://"),
        ("htttp://localhost:3000", "write http://"),
        ("htpt://localhost:*", "write http://"),
        ("data://x", "null"),
        ("javascript://x", "null"),
        ("blob://app.example", "null"),
        ("https://a..b", "such as"),
        ("https://app.example;x", "such as"),
        ("https://\"app.example\"", "such as"),
    ];
    for (value, remedy) in table {
        let refused = origin(value).unwrap_err().to_string();
        assert!(refused.contains(remedy), "{value}: {refused}");
    }
}

#[test]
fn rmcp_is_always_given_a_port() {
    assert_eq!(with_port("https://app.example"), "https://app.example:443");
    assert_eq!(with_port("http://localhost:*"), "http://localhost:*");
    assert_eq!(with_port("http://[::1]"), "http://[::1]:80");
    assert_eq!(with_port("http://localhost:6274"), "http://localhost:6274");
}

#[test]
fn password_in_a_name_is_not_repeated() {
    for refused in [
        host("https://a:s3cret@shop.example"),
        host("a:s3cret@shop.example"),
        origin("https://a:s3cret@app.example"),
        origin("a:s3cret@app.example"),
    ] {
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("...@") && !said.contains("s3cret"), "{said}");
    }
}
