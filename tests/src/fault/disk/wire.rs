//! The kernel's messages to a file system in user space, and the answers: the part of FUSE that is needed here.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    time::{Duration, SystemTime},
};

use rustix::io::Errno;

/// The version that is spoken; the kernel speaks down to it.
const MAJOR: u32 = 7;
const MINOR: u32 = 31;
/// Several reads of one file at a time; writes of more than a page; more than 32 pages.
const FLAGS: u32 = 1 | (1 << 5) | (1 << 22);
/// What one write may bring.
pub(super) const WRITE_BYTES_MAX: u32 = 1 << 20;
const PAGE_BYTES: u32 = 4096;
/// Room for the largest message.
pub(super) const MESSAGE_BYTES_MAX: usize = WRITE_BYTES_MAX as usize + 2 * PAGE_BYTES as usize;
/// The kernel may remember names and attributes: only the kernel changes them.
const REMEMBER: Duration = Duration::from_secs(3600);
/// An opened file's pages may stay in the kernel's cache.
const KEEP_CACHE: u32 = 1 << 1;

/// What the kernel asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Operation {
    Lookup = 1,
    Forget = 2,
    GetAttributes = 3,
    SetAttributes = 4,
    MakeDirectory = 9,
    Unlink = 10,
    RemoveDirectory = 11,
    Rename = 12,
    Link = 13,
    Open = 14,
    Read = 15,
    Write = 16,
    FileSystem = 17,
    Release = 18,
    Sync = 20,
    Flush = 25,
    Init = 26,
    OpenDirectory = 27,
    ReadDirectory = 28,
    ReleaseDirectory = 29,
    SyncDirectory = 30,
    Create = 35,
    Interrupt = 36,
    ForgetMany = 42,
    RenameWithFlags = 45,
}

impl Operation {
    const ALL: [Self; 25] = [
        Self::Lookup,
        Self::Forget,
        Self::GetAttributes,
        Self::SetAttributes,
        Self::MakeDirectory,
        Self::Unlink,
        Self::RemoveDirectory,
        Self::Rename,
        Self::Link,
        Self::Open,
        Self::Read,
        Self::Write,
        Self::FileSystem,
        Self::Release,
        Self::Sync,
        Self::Flush,
        Self::Init,
        Self::OpenDirectory,
        Self::ReadDirectory,
        Self::ReleaseDirectory,
        Self::SyncDirectory,
        Self::Create,
        Self::Interrupt,
        Self::ForgetMany,
        Self::RenameWithFlags,
    ];

    fn of(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u32 == code)
    }

    /// Whether the kernel waits for an answer.
    pub(super) fn is_answered(self) -> bool {
        !matches!(self, Self::Forget | Self::ForgetMany | Self::Interrupt)
    }
}

/// A message of the kernel.
#[derive(Debug)]
pub(super) struct Request<'a> {
    /// `None`: one that is not known here.
    pub(super) operation: Option<Operation>,
    unique: u64,
    /// The file or directory that it is about.
    pub(super) ino: u64,
    pub(super) body: Body<'a>,
}

impl<'a> Request<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, Errno> {
        let mut body = Body(message);
        let _length = body.u32()?;
        let operation = Operation::of(body.u32()?);
        let (unique, ino) = (body.u64()?, body.u64()?);
        // Who asks: user, group, process; and the length of extensions, which were not asked for.
        for _ in 0..4 {
            body.u32()?;
        }
        Ok(Self {
            operation,
            unique,
            ino,
            body,
        })
    }

    /// The message that answers it.
    pub(super) fn answer(&self, result: Result<Answer, Errno>) -> Vec<u8> {
        let (content, errno) = match result {
            Ok(answer) => (answer.0, 0),
            Err(errno) => (Vec::new(), errno.raw_os_error()),
        };
        let length = u32::try_from(16 + content.len()).unwrap_or(u32::MAX);
        let mut message = Answer::default();
        message.u32(length);
        message.u32((-errno).cast_unsigned());
        message.u64(self.unique);
        message.0.extend_from_slice(&content);
        message.0
    }
}

/// What a message says, read from front to back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Errno> {
        self.take().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Errno> {
        self.take().map(u64::from_ne_bytes)
    }

    /// A name, up to its zero byte.
    pub(super) fn name(&mut self) -> Result<&'a OsStr, Errno> {
        let end = self.0.iter().position(|&byte| byte == 0);
        let end = end.ok_or(Errno::INVAL)?;
        let name = OsStr::from_bytes(&self.0[..end]);
        self.0 = &self.0[end + 1..];
        Ok(name)
    }

    /// This many bytes.
    pub(super) fn bytes(&mut self, count: u32) -> Result<&'a [u8], Errno> {
        let (bytes, rest) = self
            .0
            .split_at_checked(count as usize)
            .ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(bytes)
    }
}

/// What a file or directory is, as the kernel wants to know it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    pub(super) ino: u64,
    pub(super) size: u64,
    /// Kind and permissions.
    pub(super) mode: u32,
    pub(super) links: u32,
    pub(super) modified: SystemTime,
}

/// The content of an answer.
#[derive(Debug, Default)]
pub(super) struct Answer(Vec<u8>);

impl Answer {
    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn all_u32(&mut self, values: &[u32]) {
        values.iter().for_each(|&value| self.u32(value));
    }

    fn all_u64(&mut self, values: &[u64]) {
        values.iter().for_each(|&value| self.u64(value));
    }

    pub(super) fn empty() -> Self {
        Self::default()
    }

    pub(super) fn bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// To the first message: what is spoken here. The version of the kernel, and how far it wants to read ahead, are in it.
    pub(super) fn init(mut body: Body<'_>) -> Result<Self, Errno> {
        let major = body.u32()?;
        let _minor = body.u32()?;
        let ahead = body.u32()?;
        if major != MAJOR {
            return Err(Errno::PROTO);
        }
        let mut answer = Self::default();
        // Background requests: at most 16, 12 of which are congestion.
        let background = u32::from_ne_bytes([16, 0, 12, 0]);
        answer.all_u32(&[MAJOR, MINOR, ahead, FLAGS, background, WRITE_BYTES_MAX]);
        // Times are exact to a nanosecond; then pages in a request, as 16 bits.
        let [low, high, ..] = (WRITE_BYTES_MAX / PAGE_BYTES).to_le_bytes();
        answer.all_u32(&[1, u32::from_ne_bytes([low, high, 0, 0])]);
        answer.all_u32(&[0; 8]);
        Ok(answer)
    }

    pub(super) fn attributes(attributes: &Attributes) -> Self {
        let mut answer = Self::default();
        answer.all_u64(&[REMEMBER.as_secs(), 0]);
        answer.push(attributes);
        answer
    }

    pub(super) fn entry(attributes: &Attributes) -> Self {
        let mut answer = Self::default();
        let seconds = REMEMBER.as_secs();
        // Inode, generation, how long the name and the attributes hold, and the nanoseconds of both.
        answer.all_u64(&[attributes.ino, 0, seconds, seconds, 0]);
        answer.push(attributes);
        answer
    }

    pub(super) fn opened(handle: u64) -> Self {
        let mut answer = Self::default();
        answer.open(handle);
        answer
    }

    pub(super) fn created(attributes: &Attributes) -> Self {
        let mut answer = Self::entry(attributes);
        answer.open(0);
        answer
    }

    fn open(&mut self, handle: u64) {
        self.u64(handle);
        self.all_u32(&[KEEP_CACHE, 0]);
    }

    pub(super) fn written(count: u32) -> Self {
        let mut answer = Self::default();
        answer.all_u32(&[count, 0]);
        answer
    }

    /// Room in the file system, in blocks of a page.
    pub(super) fn room(total_bytes: u64, free_bytes: u64) -> Self {
        let mut answer = Self::default();
        let page = u64::from(PAGE_BYTES);
        let (blocks, free, files) = (total_bytes / page, free_bytes / page, u64::from(u32::MAX));
        answer.all_u64(&[blocks, free, free, files, files]);
        answer.all_u32(&[PAGE_BYTES, 255, PAGE_BYTES, 0]);
        answer.all_u32(&[0; 6]);
        answer
    }

    /// Adds an entry of a directory, if the answer does not grow beyond `limit` by it. `next` is where to go on behind it.
    pub(super) fn add_entry(
        &mut self,
        limit: usize,
        (ino, next, mode): (u64, u64, u32),
        name: &OsStr,
    ) -> bool {
        let length = (24 + name.len()).next_multiple_of(8);
        if self.0.len() + length > limit {
            return false;
        }
        let end = self.0.len() + length;
        self.all_u64(&[ino, next]);
        let name_length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        self.all_u32(&[name_length, mode >> 12]);
        self.0.extend_from_slice(name.as_bytes());
        self.0.resize(end, 0);
        true
    }

    fn push(&mut self, attributes: &Attributes) {
        let since = attributes.modified.duration_since(SystemTime::UNIX_EPOCH);
        let since = since.unwrap_or_default();
        let (seconds, nanos) = (since.as_secs(), since.subsec_nanos());
        let sectors = attributes.size.div_ceil(512);
        self.all_u64(&[attributes.ino, attributes.size, sectors]);
        self.all_u64(&[seconds; 3]);
        self.all_u32(&[nanos; 3]);
        self.all_u32(&[attributes.mode, attributes.links]);
        let user = rustix::process::getuid().as_raw();
        let group = rustix::process::getgid().as_raw();
        self.all_u32(&[user, group, 0, PAGE_BYTES, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_lengths_that_the_kernel_expects() {
        let attributes = Attributes {
            ino: 7,
            size: 1000,
            mode: 0o100_644,
            links: 1,
            modified: SystemTime::now(),
        };
        assert_eq!(Answer::attributes(&attributes).0.len(), 104);
        assert_eq!(Answer::entry(&attributes).0.len(), 128);
        assert_eq!(Answer::created(&attributes).0.len(), 144);
        assert_eq!(Answer::room(1, 1).0.len(), 80);
        let init: Vec<u8> = [7_u32, 44, 131_072, 0]
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .collect();
        assert_eq!(Answer::init(Body(&init)).unwrap().0.len(), 64);
    }

    #[test]
    fn a_short_or_unknown_message_is_refused() {
        assert!(Request::parse(&[0; 39]).is_err());
        let request = Request::parse(&[0; 40]).unwrap();
        assert!(request.operation.is_none());
        assert_eq!(request.answer(Err(Errno::NOSYS)).len(), 16);
    }

    #[test]
    fn a_directory_is_listed_up_to_the_limit() {
        let mut answer = Answer::default();
        assert!(answer.add_entry(64, (1, 1, 0o040_000), "a".as_ref()));
        assert!(answer.add_entry(64, (2, 2, 0o100_000), "b".as_ref()));
        assert!(!answer.add_entry(64, (3, 3, 0o100_000), "c".as_ref()));
        assert_eq!(answer.0.len(), 64);
    }
}
