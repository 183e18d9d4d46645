//! What benchmarks measure with: callers and their pace, rounds, figures and their medians, what processes use, chance, and tables.

pub(crate) mod caller;
pub(crate) mod chance;
pub(crate) mod figures;
pub(crate) mod interruption;
pub(crate) mod page;
pub(crate) mod round;
pub(crate) mod table;
pub(crate) mod usage;
