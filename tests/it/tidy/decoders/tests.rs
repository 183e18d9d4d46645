//! Tests of the rule.

use super::{list::MADE_UP, *};

#[test]
fn a_decoder_that_nobody_listed_is_found() {
    let text = "//! Head.\nfn a(b: &[u8]) { serde_json::from_slice::<C>(b); }\n";
    let found = decoding(&Source::new("client/mcp/src/a.rs", text));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].1, "a");
    let innocent = "fn decode() { d.copy_from_slice(e); let parse = 1; f.decoded(); }";
    assert!(decoding(&Source::new("client/mcp/src/a.rs", innocent)).is_empty());
    let mut sources = vec![Source::new("node/src/service/new.rs", text)];
    let findings = check_sources(&sources);
    assert!(
        findings
            .iter()
            .any(|finding| finding.path.ends_with("new.rs"))
    );
    let converting =
        "fn b_from_proto(b: B) -> Result<C, E> { c }\nfn c_from_proto(b: B) -> C { c }\n";
    let found = decoding(&Source::new("node/src/raft/codec/new.rs", converting));
    assert_eq!(found, [(0, "b_from_proto".to_owned())]);
    sources[0] = Source::new("node/src/storage/new.rs", text);
    let findings = check_sources(&sources);
    assert!(
        findings
            .iter()
            .all(|finding| !finding.path.ends_with("new.rs"))
    );
}

#[test]
fn a_fuzz_target_that_is_gone_unlisted_or_without_seeds_is_found() {
    let manifest: String = TARGETS
        .iter()
        .map(|target| format!("name = \"{}\"\n", target.name))
        .collect();
    let good: Vec<String> = TARGETS
        .iter()
        .flat_map(|target| {
            let name = target.name;
            [
                format!("{TARGETS_DIR}{name}.rs"),
                format!("{SEEDS_DIR}{name}/a"),
            ]
        })
        .collect();
    assert!(check_targets(&good, &manifest).is_empty());
    assert_eq!(check_targets(&good[1..], &manifest).len(), 1);
    assert_eq!(check_targets(&good, &manifest["name = ".len()..]).len(), 1);
    let mut unsown = good.clone();
    unsown.remove(1);
    assert_eq!(check_targets(&unsown, &manifest).len(), 1);
    let unlisted = format!("{TARGETS_DIR}new.rs");
    let unlisted: Vec<_> = good.into_iter().chain([unlisted]).collect();
    assert_eq!(check_targets(&unlisted, &manifest).len(), 1);
}

#[test]
fn a_property_that_is_gone_or_small_or_not_run_is_found() {
    let good = "HELVE_CASES 10_000 proptest! { #[test]\nfn ";
    let all = |read: &str| {
        match read {
        "Makefile" => {
            "\nfuzz: x\n\tclient_makes_up issuer_makes_up peer_makes_up node_makes_up bucket_makes_up state_codec::tests bytes_on_the_wire\n\n".to_owned()
        }
        RUNNER => "HELVE_CASES 10_000".to_owned(),
        file => {
            let names = decoders().filter_map(|decoder| match decoder.shown {
                Shown::By(in_file, test) if in_file == file => Some(test),
                _ => None,
            });
            let elsewhere = ELSEWHERE.iter().filter(|(in_file, _)| *in_file == file);
            let names = names.chain(elsewhere.map(|(_, test)| *test));
            names.map(|name| format!("{good}{name}() {{}}\n")).collect()
        }
    }
    };
    assert!(check_tests(all).is_empty());
    let small = |file: &str| all(file).replace("10_000", "300");
    assert!(!check_tests(small).is_empty());
    let shared = |file: &str| all(file).replace("HELVE_CASES 10_000 p", "properties::check p");
    assert!(check_tests(shared).is_empty());
    let small = |file: &str| shared(file).replace("10_000", "300");
    assert!(!check_tests(small).is_empty());
    let unrun = |file: &str| all(file).replace("client_makes_up", "");
    assert!(!check_tests(unrun).is_empty());
    let gone = |file: &str| all(file).replace(MADE_UP, "other");
    assert!(!check_tests(gone).is_empty());
}
