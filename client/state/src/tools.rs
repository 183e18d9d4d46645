//! State tools that keep their keys elsewhere than in Helve. Each says in its [`Promises`](helve_client::Promises) what it cannot promise.

mod bounds;
mod failures;
#[cfg(feature = "file")]
mod file;
mod gate;
mod keeper;
#[cfg(any(feature = "file", feature = "s3"))]
mod names;
mod options;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "file", feature = "s3"))]
mod row;
#[cfg(feature = "s3")]
mod s3;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod trust;

#[cfg(feature = "file")]
pub use self::file::FileTool;
pub use self::options::ToolOptions;
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresTool;
#[cfg(feature = "redis")]
pub use self::redis::RedisTool;
#[cfg(feature = "s3")]
pub use self::s3::{S3Options, S3Tool};
