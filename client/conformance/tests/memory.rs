//! The conformance suite on the in-memory host.

use std::sync::Arc;

use helve_client::{Client, MemoryBuilder};
use helve_conformance::{CASES, Host};

struct Memory(Client);

impl Host for Memory {
    fn client(&self, _node: usize) -> Client {
        self.0.clone()
    }

    fn own_client(&self) -> Client {
        MemoryBuilder::new().build().expect("it needs nothing")
    }

    fn is_in_process(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_host_conforms() {
    let client = MemoryBuilder::new().build().expect("it needs nothing");
    let host: Arc<dyn Host> = Arc::new(Memory(client));
    for case in CASES {
        println!("{}", case.name);
        let outcome = case.run(Arc::clone(&host)).await;
        outcome.unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
    }
}
