//! Sizes as operators write them: `512KiB`, `256MiB`, `1GiB`, or a number of bytes.

/// Parses a size in bytes. Units are powers of 1,024.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is not a size: write 512KiB, 256MiB, 1GiB, or a number of bytes");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(wrong()),
    };
    let count: u64 = count.parse().map_err(|_| wrong())?;
    count
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("`{text}` does not fit 64 bits of bytes"))
}

/// Parses the size of a cache. RocksDB ends the process for one of 0 bytes, or of more than can be
/// mapped.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse_cache(text: &str) -> Result<u64, String> {
    let bytes = parse(text)?;
    if (1..=1 << 40).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("`{text}` is no size of a cache: give 1 to 1TiB"))
}

/// Parses the size at which a file is put aside: one of 0 bytes would be put aside for each line.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse_file(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err(format!(
            "`{text}` is no size of a file: give 1 byte or more"
        )),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_cache, parse_file};

    #[test]
    fn cache_that_rocksdb_cannot_make_is_refused() {
        for (text, bytes) in [
            ("0", None),
            ("1", Some(1)),
            ("1TiB", Some(1 << 40)),
            ("2TiB", None),
        ] {
            assert_eq!(parse_cache(text).ok(), bytes, "{text}");
        }
    }

    #[test]
    fn file_of_no_bytes_is_refused() {
        assert_eq!(
            (parse_file("0KiB").ok(), parse_file("1").ok()),
            (None, Some(1))
        );
    }

    #[test]
    fn sizes_are_counts_with_binary_units() {
        let table = [
            ("0", Some(0)),
            ("4096", Some(4_096)),
            ("512KiB", Some(512 << 10)),
            ("256 MiB", Some(256 << 20)),
            ("1GiB", Some(1 << 30)),
            ("", None),
            ("MiB", None),
            ("-1", None),
            ("1MB", None),
            ("16777216TiB", None),
        ];
        for (text, bytes) in table {
            assert_eq!(parse(text).ok(), bytes, "{text}");
        }
    }
}
