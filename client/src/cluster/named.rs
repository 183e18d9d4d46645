//! Files that a caller of this crate named: a wrong name must end with an error, in bounded time and memory.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _},
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use zeroize::Zeroizing;

/// How long the writer of a pipe may take until it has written all.
const PIPE_PATIENCE: Duration = Duration::from_secs(10);

/// What a file holds. Its bytes are wiped from memory when dropped.
pub struct Content {
    /// Its bytes: one more than were allowed, if it has more.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Of the open file: its name may lead elsewhere by now.
    pub metadata: Metadata,
}

/// Reads a file, or a pipe whose writer ends within ten seconds, and no more than `bytes_max` bytes and one, by which the caller sees that
/// it is too large. Blocks as long.
///
/// # Errors
/// If it cannot be read, or is a device, a directory or a socket.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Content> {
    read_within(path, bytes_max, PIPE_PATIENCE)
}

fn read_within(path: &Path, bytes_max: u64, patience: Duration) -> io::Result<Content> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() {
        return content(File::open(path)?, bytes_max);
    }
    if !is_pipe(&metadata) {
        let why = "it is a device, a directory or a socket";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    // To open a pipe waits for its writer, and nothing but the end of the process ends that.
    let (sender, receiver) = mpsc::sync_channel(1);
    let path = path.to_owned();
    thread::Builder::new().spawn(move || {
        let read = File::open(path).and_then(|file| content(file, bytes_max));
        // The caller may have given up.
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

fn content(file: File, bytes_max: u64) -> io::Result<Content> {
    let metadata = file.metadata()?;
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(Content { bytes, metadata })
}

#[cfg(unix)]
pub(super) fn is_pipe(metadata: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_fifo()
}

#[cfg(not(unix))]
pub(super) fn is_pipe(_: &Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
pub(super) mod tests {
    use std::{path::PathBuf, process::Command};

    use super::*;

    /// A pipe in this directory.
    pub(in super::super) fn pipe(directory: &Path) -> PathBuf {
        let path = directory.join("pipe");
        let made = Command::new("mkfifo")
            .args(["-m", "600"])
            .arg(&path)
            .status()
            .expect("mkfifo runs");
        assert!(made.success(), "{made}");
        path
    }

    #[test]
    fn pipe_without_a_writer_is_not_waited_for_for_ever() {
        let directory = tempfile::tempdir().expect("a place for files");
        let path = pipe(directory.path());
        let read = read_within(&path, 4, Duration::from_millis(1));
        let why = read.err().map(|error| error.to_string());
        let why = why.unwrap_or_default();
        assert!(why.contains("did not end in time"), "{why}");
    }

    #[test]
    fn device_and_directory_are_refused_and_pipe_with_a_writer_is_read() {
        for path in ["/dev/zero", "/dev/null", "/"] {
            let read = read(Path::new(path), 4);
            let why = read.err().map(|error| error.to_string());
            assert!(why.is_some_and(|why| why.contains("device")), "{path}");
        }
        let directory = tempfile::tempdir().expect("a place for files");
        let path = pipe(directory.path());
        let writer = {
            let path = path.clone();
            thread::spawn(move || fs::write(path, "token"))
        };
        let read = read(&path, 5).expect("it has a writer");
        assert_eq!(read.bytes[..], *b"token");
        let written = writer.join().expect("the writer ends");
        written.expect("it is read");
    }
}
