//! Files that an operator named: a wrong name must end with an error, and in bounded memory.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, SystemTime},
};

use zeroize::Zeroizing;

/// How long the writer of a pipe may take until it has written all.
const PIPE_PATIENCE: Duration = Duration::from_secs(10);

/// Contents of pipes: of a shell's `<(...)`, of `/dev/stdin`, and of those in a file system. A pipe
/// can be read only once, and callers read again, such as for each connection.
static PIPED: Mutex<Vec<(Pipe, Piped)>> = Mutex::new(Vec::new());

/// Its device and inode, and when it was made, if that is known: another pipe may have the inode
/// later.
type Pipe = (u64, u64, Option<SystemTime>);

/// What it held, once it was read.
type Piped = Arc<Mutex<Option<NamedContent>>>;

/// What a file that an operator named holds. Its bytes are wiped from memory when dropped, but for
/// those of a pipe, which are kept.
#[derive(Clone)]
pub struct NamedContent {
    /// Its bytes: one more than were allowed, if it has more.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Of the open file: its name may lead elsewhere by now.
    pub metadata: Metadata,
}

impl NamedContent {
    /// Reads a file, or a pipe whose writer ends within ten seconds, and no more than `bytes_max`
    /// bytes and one, by which the caller sees that it is too large. Blocks as long. What a pipe
    /// held is kept for the next time, as long as the process lives.
    ///
    /// # Errors
    /// If it cannot be read, or is a device, a directory or a socket.
    pub fn read(path: &Path, bytes_max: u64) -> io::Result<Self> {
        Self::read_within(path, bytes_max, PIPE_PATIENCE)
    }

    fn read_within(path: &Path, bytes_max: u64, patience: Duration) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        if metadata.is_file() {
            return Self::of(File::open(path)?, bytes_max);
        }
        if !is_pipe(&metadata) {
            let why = "it is a device, a directory or a socket";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let piped = piped(&metadata);
        // Locked while it is read: two readers would each have a part of it.
        let mut piped = piped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*piped {
            return Ok(known.clone());
        }
        let content = Self::of_pipe(path, bytes_max, patience)?;
        // What was cut is no content for a caller who allows more.
        if content.bytes.len() as u64 <= bytes_max {
            *piped = Some(content.clone());
        }
        Ok(content)
    }

    fn of_pipe(path: &Path, bytes_max: u64, patience: Duration) -> io::Result<Self> {
        // To open a pipe waits for its writer, and nothing but the end of the process ends that.
        let (sender, receiver) = mpsc::sync_channel(1);
        let path = path.to_owned();
        thread::Builder::new().spawn(move || {
            let read = File::open(path).and_then(|file| Self::of(file, bytes_max));
            // Who waited may have given up.
            let _sent = sender.send(read);
        })?;
        receiver.recv_timeout(patience).unwrap_or_else(|error| {
            let why = match error {
                RecvTimeoutError::Timeout => "it is a pipe whose writer did not end in time",
                RecvTimeoutError::Disconnected => "it is a pipe, and its reader failed",
            };
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }

    fn of(file: File, bytes_max: u64) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let mut bytes = Zeroizing::new(Vec::new());
        file.take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)?;
        Ok(Self { bytes, metadata })
    }
}

/// Where the content of this pipe is kept.
fn piped(metadata: &Metadata) -> Piped {
    let pipe = pipe(metadata);
    let mut all = PIPED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = all.iter().find(|(known, _)| *known == pipe) {
        return Arc::clone(known);
    }
    let piped = Piped::default();
    all.push((pipe, Arc::clone(&piped)));
    piped
}

#[cfg(unix)]
fn pipe(metadata: &Metadata) -> Pipe {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino(), metadata.created().ok())
}

#[cfg(not(unix))]
fn pipe(metadata: &Metadata) -> Pipe {
    (0, 0, metadata.created().ok())
}

#[cfg(unix)]
fn is_pipe(metadata: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::{io::Write as _, os::fd::AsRawFd as _, process::Command};

    use super::*;

    fn refused(path: &Path) -> String {
        match NamedContent::read_within(path, 4, Duration::from_millis(1)) {
            Ok(content) => panic!("{:?}", content.bytes),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn devices_and_directories_are_refused_and_files_are_bounded() {
        for path in ["/dev/zero", "/dev/full", "/dev/null", "/"] {
            assert!(refused(Path::new(path)).contains("device"), "{path}");
        }
        let directory = tempfile::tempdir().expect("a place for files");
        let path = directory.path().join("file");
        for (content, expected) in [(&b"abcd"[..], 4), (b"abcdefgh", 5)] {
            fs::write(&path, content).expect("it is written");
            let read = NamedContent::read(&path, 4).expect("it is a file");
            assert_eq!(read.bytes.len(), expected);
        }
    }

    #[test]
    fn an_unnamed_pipe_is_read_once_and_asked_again() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"key").expect("it has room");
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        for _ in 0..3 {
            let read = NamedContent::read(Path::new(&path), 4).expect("it was written");
            assert_eq!(read.bytes[..], *b"key");
        }
    }

    fn made(path: &Path) {
        let made = Command::new("mkfifo").arg(path).status();
        assert!(made.expect("mkfifo runs").success());
    }

    #[test]
    fn a_named_pipe_is_read_once_and_asked_again() {
        let directory = tempfile::tempdir().expect("a place for files");
        let path = directory.path().join("pipe");
        made(&path);
        let writer = {
            let path = path.clone();
            thread::spawn(move || fs::write(path, "key"))
        };
        for _ in 0..3 {
            let read = NamedContent::read(&path, 4).expect("its writer ends");
            assert_eq!(read.bytes[..], *b"key");
        }
        let written = writer.join().expect("it does not panic");
        written.expect("it was read");
    }

    #[test]
    fn a_pipe_without_a_writer_is_given_up() {
        let directory = tempfile::tempdir().expect("a place for files");
        let path = directory.path().join("pipe");
        made(&path);
        // What waits for a writer forever would hang this test, too.
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(refused(&path)));
        let why = receiver.recv_timeout(3 * PIPE_PATIENCE);
        let why = why.expect("it gives up without a writer");
        assert!(why.contains("did not end"), "{why}");
    }
}
