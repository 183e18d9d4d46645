//! The semantics of Helve, written a second time from the contract: small, slow, and with nothing in common with the state machine.
//!
//! A record is a [`Cell`], an operation on one record an [`Act`], and [`act::step`] says what the
//! act returns and what it leaves. [`whole::Model`] puts cells together and answers whole requests.
//! Where a judge does not know when something was done, times are spans, and a step may have
//! several results; where all is known, it has one.

pub mod act;
pub mod cell;
pub mod parts;
pub mod whole;

pub use act::{Act, At, Said, Write, step};
pub use cell::{Cell, Name, Row, Span};
pub use parts::{Part, Target, parts};
pub use whole::Model;
