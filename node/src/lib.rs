//! The Helve node: consensus, storage, the gRPC services and the command line.

pub mod storage;
