//! The kernel's requests, answered from the tree.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _, Write as _},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::io::Errno;

use super::{
    content::Content,
    state::State,
    switches::Switches,
    tree::Node,
    wire::{Answer, Body, MESSAGE_BYTES_MAX, Operation, Request},
};

/// Between two looks whether the file system is mounted yet.
const PAUSE: Duration = Duration::from_millis(1);
/// In what to change: permissions and length. Owner and times are taken, and forgotten.
const SETS_MODE: u32 = 1 << 0;
const SETS_SIZE: u32 = 1 << 3;

/// Answers the kernel. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Server(Arc<Mutex<State>>);

impl Server {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State::new())))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .expect("no thread panics while it answers the kernel")
    }

    /// Answers what comes through the device, until the file system is unmounted, or will not be mounted any more.
    pub(super) fn run(&self, mut device: &File, wanted: &AtomicBool) -> io::Result<()> {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        loop {
            let length = match device.read(&mut buffer) {
                Ok(length) => length,
                Err(error) => match Errno::from_io_error(&error) {
                    // Unmounted.
                    Some(Errno::NODEV) => return Ok(()),
                    // The process that asked has been killed.
                    Some(Errno::NOENT | Errno::INTR | Errno::AGAIN) => continue,
                    // Not mounted yet.
                    Some(Errno::PERM) if wanted.load(Ordering::Relaxed) => {
                        thread::sleep(PAUSE);
                        continue;
                    }
                    Some(Errno::PERM) => return Ok(()),
                    _ => return Err(error),
                },
            };
            let request = Request::parse(&buffer[..length])?;
            if request.operation.is_some_and(|o| !o.is_answered()) {
                continue;
            }
            let answer = request.answer(self.answer(&request));
            if let Err(error) = device.write_all(&answer)
                && Errno::from_io_error(&error) != Some(Errno::NOENT)
            {
                return Err(error);
            }
        }
    }

    fn answer(&self, request: &Request<'_>) -> Result<Answer, Errno> {
        let operation = request.operation.ok_or(Errno::NOSYS)?;
        let (ino, body) = (request.ino, request.body);
        match operation {
            Operation::Init => Answer::init(body),
            Operation::Lookup
            | Operation::GetAttributes
            | Operation::SetAttributes
            | Operation::FileSystem => self.look(operation, ino, body),
            Operation::MakeDirectory
            | Operation::Create
            | Operation::Unlink
            | Operation::RemoveDirectory
            | Operation::Rename
            | Operation::RenameWithFlags
            | Operation::Link => self.name(operation, ino, body),
            Operation::Open
            | Operation::Release
            | Operation::OpenDirectory
            | Operation::ReadDirectory
            | Operation::ReleaseDirectory => self.open(operation, ino, body),
            Operation::Read => self.read(ino, body),
            Operation::Write => self.write(ino, body),
            Operation::Sync | Operation::SyncDirectory => {
                self.take_time(|switches| switches.sync_delay);
                self.state().sync(ino).map(|()| Answer::empty())
            }
            Operation::Flush => Ok(Answer::empty()),
            // The kernel waits for no answer to these.
            Operation::Forget | Operation::ForgetMany | Operation::Interrupt => Err(Errno::NOSYS),
        }
    }

    /// Takes the time that a slow disk takes; other calls go on meanwhile.
    fn take_time(&self, delay: impl Fn(&Switches) -> Duration) {
        let delay = {
            let mut state = self.state();
            let delay = delay(&state.switches);
            state.counts.delayed += u64::from(!delay.is_zero());
            delay
        };
        if !delay.is_zero() {
            thread::sleep(delay);
        }
    }

    fn look(&self, operation: Operation, ino: u64, mut body: Body<'_>) -> Result<Answer, Errno> {
        let mut state = self.state();
        match operation {
            Operation::Lookup => {
                let found = state.tree.find(ino, body.name()?)?;
                Ok(Answer::entry(&state.attributes(found)?))
            }
            Operation::SetAttributes => {
                let sets = body.u32()?;
                let (_padding, _handle, size) = (body.u32()?, body.u64()?, body.u64()?);
                // The lock's owner, and three times with their nanoseconds.
                body.bytes(8 + 3 * (8 + 4))?;
                let mode = body.u32()?;
                if sets & SETS_SIZE != 0 {
                    state.resize(ino, size)?;
                }
                if sets & SETS_MODE != 0 {
                    state.tree.inode_mut(ino)?.permissions = mode & 0o7777;
                }
                Ok(Answer::attributes(&state.attributes(ino)?))
            }
            Operation::FileSystem => {
                let total_bytes = state.switches.capacity_bytes;
                let free_bytes = total_bytes.saturating_sub(state.tree.used_bytes());
                Ok(Answer::room(total_bytes, free_bytes))
            }
            _ => Ok(Answer::attributes(&state.attributes(ino)?)),
        }
    }

    fn name(&self, operation: Operation, ino: u64, mut body: Body<'_>) -> Result<Answer, Errno> {
        let mut state = self.state();
        match operation {
            Operation::MakeDirectory => {
                let (mode, _umask) = (body.u32()?, body.u32()?);
                let node = Node::Directory(BTreeMap::new());
                let made = state.create(ino, body.name()?, node, mode)?;
                Ok(Answer::entry(&made))
            }
            Operation::Create => {
                let (_flags, mode) = (body.u32()?, body.u32()?);
                let (_umask, _open_flags) = (body.u32()?, body.u32()?);
                let node = Node::File(Content::default());
                let made = state.create(ino, body.name()?, node, mode)?;
                state.tree.open(made.ino)?;
                Ok(Answer::created(&made))
            }
            Operation::Link => {
                let linked = body.u64()?;
                state.link(linked, ino, body.name()?)?;
                Ok(Answer::entry(&state.attributes(linked)?))
            }
            Operation::Unlink => {
                state.unlink(ino, body.name()?)?;
                Ok(Answer::empty())
            }
            Operation::RemoveDirectory => {
                state.remove_directory(ino, body.name()?)?;
                Ok(Answer::empty())
            }
            _ => {
                let directory = body.u64()?;
                if operation == Operation::RenameWithFlags {
                    let (flags, _padding) = (body.u32()?, body.u32()?);
                    // Neither exchanging nor keeping is needed here.
                    if flags != 0 {
                        return Err(Errno::INVAL);
                    }
                }
                state.rename((ino, body.name()?), (directory, body.name()?))?;
                Ok(Answer::empty())
            }
        }
    }

    fn open(&self, operation: Operation, ino: u64, mut body: Body<'_>) -> Result<Answer, Errno> {
        let mut state = self.state();
        match operation {
            Operation::Open => {
                state.tree.open(ino)?;
                Ok(Answer::opened(0))
            }
            Operation::Release => {
                state.tree.release(ino);
                Ok(Answer::empty())
            }
            Operation::OpenDirectory => Ok(Answer::opened(state.open_directory(ino)?)),
            Operation::ReadDirectory => {
                let (handle, offset, size) = (body.u64()?, body.u64()?, body.u32()?);
                Ok(state.list(ino, handle, offset, size as usize))
            }
            _ => {
                state.close_directory(body.u64()?);
                Ok(Answer::empty())
            }
        }
    }

    fn read(&self, ino: u64, mut body: Body<'_>) -> Result<Answer, Errno> {
        let (_handle, offset, size) = (body.u64()?, body.u64()?, body.u32()?);
        let state = self.state();
        let at = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let bytes = state.tree.content(ino)?.read(at, size as usize);
        Ok(Answer::bytes(bytes))
    }

    fn write(&self, ino: u64, mut body: Body<'_>) -> Result<Answer, Errno> {
        let (_handle, offset, size) = (body.u64()?, body.u64()?, body.u32()?);
        let (_write_flags, _lock_owner) = (body.u32()?, body.u64()?);
        let (_flags, _padding) = (body.u32()?, body.u32()?);
        let data = body.bytes(size)?;
        self.take_time(|switches| switches.write_delay);
        self.state().write(ino, offset, data)?;
        Ok(Answer::written(size))
    }
}
