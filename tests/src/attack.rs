//! What hostile callers do, for tests at small scale and for `make attack` at large.
//!
//! Each attack is a function of where it goes and how large it is. It says how its calls ended; what it
//! cost the node, and honest callers beside it, is for the test to look at, with [`memory`].

pub mod answers;
pub mod denied;
pub mod ends;
pub mod json;
pub mod limit;
pub mod memory;
pub mod messages;
pub mod names;
pub mod pages;
pub mod replay;
pub mod silence;
pub mod streams;
pub mod watches;
