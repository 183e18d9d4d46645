//! The tasks that run beside the services. None may end unnoticed: without the ticker, nothing expires any more, and nobody would know.

use std::future::{Future, pending};

use tokio::{runtime::Handle, task::JoinSet};

/// Tasks of a node. Dropping it ends them.
pub(super) struct Background {
    runtime: Handle,
    /// Each answers its name if the node cannot do without it.
    tasks: JoinSet<Option<&'static str>>,
}

impl Background {
    /// No tasks yet; those to come run on this runtime.
    pub(super) fn on(runtime: &Handle) -> Self {
        Self {
            runtime: runtime.clone(),
            tasks: JoinSet::new(),
        }
    }

    /// Starts a task that runs as long as the node does.
    pub(super) fn run(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = async move {
            task.await;
            Some(name)
        };
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Starts a task that ends once its work is done.
    pub(super) fn finish(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let task = async move {
            task.await;
            None
        };
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Waits until a task has ended that should not have, and says which.
    pub(super) async fn broken(&mut self) -> String {
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(None) => {}
                Ok(Some(name)) => return format!("the task `{name}` of this node has ended"),
                Err(error) => return format!("a task of this node broke: {error}"),
            }
        }
        pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_too_early_is_noticed_and_one_that_is_done_is_not() {
        let mut background = Background::on(&Handle::current());
        background.finish(async {});
        background.run("waits", pending());
        background.run("ticks", async {});
        let why = background.broken().await;
        assert!(why.contains("`ticks`"), "{why}");
    }

    #[tokio::test]
    async fn a_task_that_panics_is_noticed_whether_or_not_it_may_end() {
        let mut background = Background::on(&Handle::current());
        background.finish(async { panic!("planted") });
        let why = background.broken().await;
        assert!(why.contains("planted"), "{why}");
    }
}
