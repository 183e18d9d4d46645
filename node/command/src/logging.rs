//! Structured logs on standard error.

use std::{
    io::{self, IsTerminal},
    path::Path,
    sync::Arc,
};

use anyhow::{Context as _, anyhow};
use helve_seal::NamedContent;
use tracing_subscriber::{EnvFilter, fmt, reload};

/// Bytes that a file of directives may have.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// What is logged by default. rmcp's worker logs each request of a client that fails, as its own
/// types are printed; what sent the request says that, too. A server's legacy session that breaks
/// is not logged, either: its client is answered.
const DEFAULT: &str = "info,openraft=error,rmcp=error,rmcp::transport::worker=off";

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One line of text an event.
    Text,
    /// One JSON object an event.
    Json,
}

/// Flags of the commands that log.
#[derive(Debug, Clone, clap::Args)]
pub struct LogArgs {
    /// Form of the log on standard error
    #[arg(
        long,
        help_heading = "Logs",
        value_enum,
        default_value = "text",
        env = "HELVE_LOG_FORMAT",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,

    /// Events to log, as tracing directives such as `info` or `helve_node=debug,info`; `@FILE`
    /// reads them from a file, and again at SIGHUP
    #[arg(
        long,
        help_heading = "Logs",
        default_value = DEFAULT,
        env = "HELVE_LOG",
        value_name = "DIRECTIVES|@FILE"
    )]
    pub log: String,
}

/// The log of this process, whose directives can be read again. Cheap to clone.
#[derive(Clone)]
pub struct Logging {
    /// What `--log` says.
    said: String,
    set: Set,
}

impl Logging {
    /// Reads the directives again, and returns those that are in use now.
    ///
    /// # Errors
    /// If the file cannot be read or holds no directives. Then those before stay in use.
    pub fn read_again(&self) -> anyhow::Result<String> {
        let directives = directives(&self.said)?;
        (self.set)(filter(&directives)?)?;
        Ok(directives)
    }
}

/// Starts to log.
///
/// # Errors
/// What is wrong with the directives, or that logging had begun already.
pub fn start(args: &LogArgs) -> anyhow::Result<Logging> {
    let filter = filter(&directives(&args.log).context("--log")?).context("--log")?;
    let builder = fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        // Standard error may be a terminal or a pipe that has gone. What cannot be written there must not break the task that
        // says it, and there is no other place to report it.
        .log_internal_errors(false);
    let (started, set) = match args.log_format {
        LogFormat::Text => {
            let builder = builder.with_filter_reloading();
            let set = setter(builder.reload_handle());
            (builder.try_init(), set)
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let set = setter(builder.reload_handle());
            (builder.try_init(), set)
        }
    };
    started.map_err(|error| anyhow!("logging cannot start: {error}"))?;
    Ok(Logging {
        said: args.log.clone(),
        set,
    })
}

type Set = Arc<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>;

fn setter<S: 'static>(handle: reload::Handle<EnvFilter, S>) -> Set {
    Arc::new(move |filter| handle.reload(filter))
}

fn filter(directives: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(directives)
        .map_err(|error| anyhow!("`{directives}` is not a filter: {error}"))
}

/// The directives themselves, or those in the file that is named. Lines of a file are joined; `#` begins a comment.
fn directives(said: &str) -> anyhow::Result<String> {
    let Some(path) = said.strip_prefix('@').map(Path::new) else {
        return Ok(said.to_owned());
    };
    let refused = |why: &dyn std::fmt::Display| {
        anyhow!(
            "{} cannot be read: {why}; name a file of directives, or give them, such as `info`",
            path.display()
        )
    };
    // A pipe without a writer must not hold up what reads other files again.
    let read = NamedContent::read(path, FILE_BYTES_MAX).map_err(|error| refused(&error))?;
    if read.bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refused(&format!("it has over {FILE_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(&read.bytes).map_err(|_| refused(&"it is no text in UTF-8"))?;
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return Err(anyhow!(
            "{} holds no directives, such as `info`",
            path.display()
        ));
    }
    Ok(lines.join(","))
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command, thread};

    use super::*;

    #[test]
    fn directives_are_read_from_the_file_that_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let said = format!("@{}", file.path().display());
        assert!(directives(&said).is_err(), "the file is empty");
        fs::write(
            file.path(),
            "# by default\ninfo\n\nopenraft=error # it is chatty\n",
        )
        .unwrap();
        assert_eq!(directives(&said).unwrap(), "info,openraft=error");
        assert_eq!(directives("debug").unwrap(), "debug");
        let missing = directives("@/nowhere/at/all").unwrap_err().to_string();
        assert!(missing.contains("name a file of directives"), "{missing}");
        assert!(filter("info,=").is_err());
    }

    #[test]
    fn file_that_is_a_pipe_or_too_large_is_read_in_bounds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("directives");
        let said = format!("@{}", path.display());
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let writer = {
            let path = path.clone();
            thread::spawn(move || fs::write(path, "debug"))
        };
        // It has no second writer.
        for _ in 0..2 {
            assert_eq!(directives(&said).unwrap(), "debug");
        }
        writer.join().unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        let size = usize::try_from(FILE_BYTES_MAX).unwrap() + 1;
        fs::write(&path, "info,".repeat(size / 5 + 1)).unwrap();
        let why = directives(&said).unwrap_err().to_string();
        assert!(why.contains("over 65536 bytes"), "{why}");
        let why = directives("@/dev/zero").unwrap_err().to_string();
        assert!(why.contains("device"), "{why}");
    }
}
