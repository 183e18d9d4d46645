//! The token of `--token-file`.

use std::path::Path;

use helve_client::Bearer;
use helve_node::tls::NamedFile;

use super::tls::is_piped;
use crate::ending::{Cause, Caused};

const FLAG: &str = "--token-file";
const NEXT: &str = "name a file with the token that `helve token create --out FILE` wrote";

/// Reads the token in a file. One of a pipe, such as a shell's `<(...)`, is read once for all connections of the command.
///
/// # Errors
/// If the file cannot be read, can be read by everyone, or holds no token.
pub(super) fn bearer(file: &Path) -> Result<Bearer, Caused> {
    let given = if is_piped(file) {
        let named = NamedFile {
            flag: FLAG,
            path: file.to_owned(),
        };
        let content = named.secret().map_err(|error| refused(&error.problem))?;
        let text = std::str::from_utf8(&content);
        let text = text.map_err(|_| refused("it holds no text in UTF-8"))?;
        Bearer::given(text.trim())
    } else {
        Bearer::from_file(file)
    };
    given.map_err(|error| refused(&Caused::of_file(Cause::TokenFile, &error).message))
}

fn refused(why: &str) -> Caused {
    Caused::new(Cause::TokenFile, format!("{FLAG}: {why}; {NEXT}"))
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::fd::AsRawFd as _};

    use super::*;

    #[test]
    fn token_of_a_pipe_is_there_for_each_connection() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"hlv_a\n").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        for _ in 0..2 {
            assert!(bearer(Path::new(&path)).is_ok());
        }
        let missing = bearer(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(
            missing.starts_with("--token-file: ") && missing.ends_with(NEXT),
            "{missing}"
        );
    }

    #[test]
    fn piped_token_that_is_no_text_is_not_called_empty() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"hlv_\xff\n").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        let refused = bearer(Path::new(&path)).unwrap_err().to_string();
        assert!(refused.contains("it holds no text in UTF-8"), "{refused}");
    }
}
