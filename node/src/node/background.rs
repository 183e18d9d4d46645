//! The tasks that run as long as the node does. None may end unnoticed: without the ticker nothing
//! expires any more, a port that is not served answers no caller, and the node would look alive.

use std::{
    collections::HashMap,
    future::{Future, pending},
    io,
};

use tokio::{
    runtime::Handle,
    task::{Id, JoinError, JoinSet},
};

/// What a node cannot do without, and has lost. Start it again: nothing that was acknowledged is lost.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// A task that runs as long as the node does has come to its end.
    #[error("this node's task `{0}` has ended: report this, and start the node again")]
    Ended(&'static str),
    /// A task has panicked.
    #[error("this node's task `{task}` broke: {error}; report this, and start the node again")]
    Panicked {
        /// Which.
        task: &'static str,
        /// What it said.
        error: JoinError,
    },
    /// A port is not served any more.
    #[error(
        "the {port} is not served any more: {error}; look at the machine's network and limits of open files, and start the node again"
    )]
    Port {
        /// Which.
        port: &'static str,
        /// What the operating system said.
        error: io::Error,
    },
}

/// Tasks of a node. Dropping it ends them.
pub(super) struct Background {
    runtime: Handle,
    /// Each answers what the node has lost by its end, if anything.
    tasks: JoinSet<Option<Broken>>,
    names: HashMap<Id, &'static str>,
}

impl Background {
    /// No tasks yet; those to come run on this runtime.
    pub(super) fn on(runtime: &Handle) -> Self {
        Self {
            runtime: runtime.clone(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
        }
    }

    /// Starts a task that runs as long as the node does.
    pub(super) fn run(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.spawn(name, async move {
            task.await;
            Some(Broken::Ended(name))
        });
    }

    /// Starts to serve a port. It ends without an error only where it is asked to.
    pub(super) fn serve(
        &mut self,
        port: &'static str,
        served: impl Future<Output = io::Result<()>> + Send + 'static,
    ) {
        self.spawn(port, async move {
            let error = served.await.err()?;
            Some(Broken::Port { port, error })
        });
    }

    /// Starts a task that ends once its work is done.
    pub(super) fn finish(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.spawn(name, async move {
            task.await;
            None
        });
    }

    fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Option<Broken>> + Send + 'static,
    ) {
        let task = self.tasks.spawn_on(task, &self.runtime);
        self.names.insert(task.id(), name);
    }

    /// Waits until something has ended that should not have.
    pub(super) async fn broken(&mut self) -> Broken {
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(None) => {}
                Ok(Some(broken)) => return broken,
                Err(error) => {
                    let task = self.names.get(&error.id()).copied().unwrap_or("unknown");
                    return Broken::Panicked { task, error };
                }
            }
        }
        pending().await
    }

    /// Waits until all tasks have ended, as they were asked to.
    pub(super) async fn drained(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Ends all tasks now.
    pub(super) async fn end(&mut self) {
        self.tasks.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_too_early_is_noticed_and_one_that_is_done_is_not() {
        let mut background = Background::on(&Handle::current());
        background.finish("is done", async {});
        background.run("waits", pending());
        background.run("ticks", async {});
        let broken = background.broken().await;
        assert!(matches!(broken, Broken::Ended("ticks")), "{broken}");
    }

    #[tokio::test]
    async fn a_task_that_panics_is_noticed_whether_or_not_it_may_end() {
        let mut background = Background::on(&Handle::current());
        background.finish("breaks", async { panic!("planted") });
        let broken = background.broken().await;
        let why = broken.to_string();
        assert!(why.contains("planted") && why.contains("`breaks`"), "{why}");
    }

    #[tokio::test]
    async fn a_port_that_fails_is_noticed_and_one_that_was_asked_to_end_is_not() {
        let mut background = Background::on(&Handle::current());
        background.serve("HTTP port", async { Ok(()) });
        background.serve("client port", async { Err(io::Error::other("planted")) });
        let broken = background.broken().await;
        assert!(
            matches!(
                broken,
                Broken::Port {
                    port: "client port",
                    ..
                }
            ),
            "{broken}"
        );
    }
}
