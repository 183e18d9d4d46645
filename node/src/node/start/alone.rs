//! A node for tests of its parts: it has no cluster and no ports, nothing that a test does not ask for runs, and its disk goes with it.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use helve_seal::Keyring;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::{Addresses, Background, Core, Parts, identify, open};
use crate::{
    audit::{Class, Destination, Ids, OnFailure, Settings},
    change_feed::ChangeFeed,
    config::{Auth, Bootstrap, Config, Tls, Tuning},
    metrics::Observed,
    raft::Consensus,
    read_index::Reader,
    service::Services,
    traces::Traces,
    vault::KeyFiles,
};

const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// The node. It asks for tokens, and keeps an audit log.
pub(crate) struct Alone {
    pub(crate) consensus: Consensus,
    pub(crate) services: Arc<Services>,
    pub(crate) reader: Reader,
    log: PathBuf,
    _background: Background,
    _directory: TempDir,
}

impl Alone {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        let log = directory.path().join("audit");
        let config = config(directory.path(), &log);
        let (storage, audit) = open(&config).await.expect("the directory is empty");
        let addresses = Addresses {
            client: NOWHERE,
            peer: NOWHERE,
            http: NOWHERE,
        };
        let identity = identify(&config, &storage, &addresses);
        identity.set_node_id(config.seat);
        identity.acknowledged().take_part();
        let parts = Parts {
            config,
            storage,
            identity: Arc::new(identity),
            audit,
            stamper: Arc::default(),
            feed: ChangeFeed::new(1 << 20),
            observed: Observed::default(),
            traces: Traces::default(),
        };
        let runtime = Handle::current();
        let consensus = parts.consensus(&runtime, None).await;
        let consensus = consensus.expect("consensus has nothing to take up");
        let mut background = Background::on(&runtime);
        let Core {
            services, reader, ..
        } = parts.core(&consensus, &mut background);
        Self {
            consensus,
            services,
            reader,
            log,
            _background: background,
            _directory: directory,
        }
    }

    /// What was called, by which tenant's which principal, and how it ended, by the audit log. That ends with this.
    pub(crate) fn recorded(&self) -> Vec<[String; 4]> {
        self.services.access_check().audit().close();
        // Calls that were turned away have a file of their own.
        let text = [self.log.clone(), self.log.with_extension("denied")]
            .map(|path| fs::read_to_string(path).expect("the log is there from the start"))
            .concat();
        let lines = text.lines().map(serde_json::from_str::<Value>);
        let lines = lines.map(|line| line.expect("each line is JSON"));
        let calls = lines.filter(|line| line["event"] == "call");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let said = ["operation", "tenant", "principal", "outcome"];
        calls
            .map(|line| said.map(|field| text(&line[field])))
            .collect()
    }
}

fn config(directory: &Path, log: &Path) -> Config {
    let audit = Settings {
        destination: Destination::File(log.to_owned()),
        classes: vec![Class::Read, Class::Write, Class::Admin],
        ids: Ids::Plain,
        key_file: None,
        size_bytes: u64::MAX,
        keep: 1,
        denied_size_bytes: 16 << 20,
        denied_keep: 16,
        keep_for: std::time::Duration::ZERO,
        on_failure: OnFailure::Refuse,
    };
    Config {
        seat: 1,
        data_dir: directory.join("data"),
        listen: NOWHERE,
        peer_listen: NOWHERE,
        http_listen: NOWHERE,
        console: false,
        peers: BTreeMap::from([(1, NOWHERE.to_string())]),
        advertise: None,
        tls: Tls::default(),
        exposed: Vec::new(),
        disk_reserve_bytes: 0,
        auth: Auth::Tokens { operator: None },
        bootstrap: Bootstrap::WhenAllPristine,
        learner: false,
        audit: Some(audit),
        data_keys: KeyFiles::none(),
        keyring: Keyring::default(),
        traces: None,
        tuning: Tuning::default(),
    }
}
