//! What all rounds of one product come to.

use serde::Serialize;

use crate::{measure::figures::Figures, product::Product, workload::Workload};

/// All rounds of one product under one workload with this many callers.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) workload: Workload,
    pub(crate) callers: usize,
    pub(crate) product: Product,
    pub(crate) median: Figures,
    pub(crate) rounds: Vec<Figures>,
}

impl Cell {
    /// `None` without rounds.
    pub(crate) fn new(
        workload: Workload,
        callers: usize,
        product: Product,
        rounds: Vec<Figures>,
    ) -> Option<Self> {
        let median = Figures::median(&rounds)?;
        Some(Self {
            workload,
            callers,
            product,
            median,
            rounds,
        })
    }
}
