//! A source file, and views of it in which comments, text and tests are blanked, so that a rule sees code alone.

/// A file with its views. All views have the same length and the same line ends, so an offset means the same place in each.
pub(super) struct Source {
    /// Relative to the top of the checkout.
    pub(super) path: String,
    pub(super) text: String,
    /// Without comments and the insides of literals.
    pub(super) code: String,
    /// `code` without what only tests compile: empty for a file of tests.
    pub(super) shipped: String,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let code = without_prose(text);
        let shipped = if is_test_path(path) {
            blank(&code, 0, code.len())
        } else {
            without_tests(&code)
        };
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            shipped,
        }
    }

    /// Counted from 1.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count()
    }

    /// Where `word` is in `view`, not as a part of a longer word.
    pub(super) fn find_words<'a>(view: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let is_part = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        view.match_indices(word)
            .map(|(offset, _)| offset)
            .filter(move |&offset| {
                let bytes = view.as_bytes();
                let before = offset.checked_sub(1).and_then(|at| bytes.get(at));
                !is_part(before) && !is_part(bytes.get(offset + word.len()))
            })
    }
}

/// Whether a file holds nothing but tests, and what tests and fuzz targets share.
pub(super) fn is_test_path(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.contains("/benches/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || path.ends_with("/fuzzing.rs")
        || path.ends_with("/seeds.rs")
}

/// The offset after the brace that closes the one at `open`; the end of the text if none does.
pub(super) fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return offset + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// `text` with spaces from `from` to `to`; line ends stay.
fn blank(text: &str, from: usize, to: usize) -> String {
    let blanked = text.bytes().enumerate().map(|(offset, byte)| {
        let inside = (from..to).contains(&offset) && byte != b'\n';
        if inside { b' ' } else { byte }
    });
    String::from_utf8(blanked.collect()).expect("whole characters were blanked")
}

/// Attributes of items that do not ship.
const UNSHIPPED: [&str; 2] = ["#[cfg(test)]", "#[cfg(any(test, fuzzing))]"];

/// Blanks the item behind each of [`UNSHIPPED`]: up to its closing brace, or up to the semicolon of
/// an item without one.
fn without_tests(code: &str) -> String {
    let mut shipped = code.to_owned();
    let mut from = 0;
    let next = |rest: &str| UNSHIPPED.iter().filter_map(|mark| rest.find(mark)).min();
    while let Some(found) = next(&shipped[from..]) {
        let start = from + found;
        let item = &shipped[start..];
        let end = match (item.find('{'), item.find(';')) {
            (Some(open), Some(stop)) if stop < open => start + stop + 1,
            (Some(open), _) => closing_brace(&shipped, start + open),
            (None, Some(stop)) => start + stop + 1,
            (None, None) => shipped.len(),
        };
        shipped = blank(&shipped, start, end);
        from = end;
    }
    shipped
}

/// Blanks comments and the insides of string and character literals.
fn without_prose(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = prose_end(bytes, at);
        if let Some((from, to)) = end {
            code[from..to]
                .iter_mut()
                .filter(|byte| **byte != b'\n')
                .for_each(|byte| *byte = b' ');
            at = to.max(at + 1);
        } else {
            at += 1;
        }
    }
    String::from_utf8(code).expect("whole literals and comments were blanked")
}

/// If a comment or a literal begins at `at`: what of it to blank.
fn prose_end(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        let length = rest
            .iter()
            .position(|&byte| byte == b'\n')
            .unwrap_or(rest.len());
        return Some((at, at + length));
    }
    if rest.starts_with(b"/*") {
        return Some((at, at + find(rest, b"*/").map_or(rest.len(), |end| end + 2)));
    }
    let after_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest[0] == b'r' && (!after_word || bytes[at - 1] == b'b') {
        let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
        if rest.get(1 + hashes) == Some(&b'"') {
            let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
            let inside = at + 2 + hashes;
            let length = find(&bytes[inside..], &close)
                .map_or(bytes.len() - inside, |end| end + close.len());
            return Some((inside, inside + length));
        }
    }
    if rest[0] == b'"' {
        return Some((at + 1, at + 1 + escaped_length(&rest[1..], b'"')));
    }
    // A lifetime has no closing quote right behind its first character.
    if rest[0] == b'\'' && (rest.get(1) == Some(&b'\\') || character_closes(rest)) {
        return Some((at + 1, at + 1 + escaped_length(&rest[1..], b'\'')));
    }
    None
}

/// Whether the quote at the start is followed by one character and another quote.
fn character_closes(rest: &[u8]) -> bool {
    let width = match rest.get(1) {
        Some(byte) if *byte < 0x80 => 1,
        Some(byte) if *byte < 0xe0 => 2,
        Some(byte) if *byte < 0xf0 => 3,
        _ => 4,
    };
    rest.get(1 + width) == Some(&b'\'')
}

/// Bytes up to and with the closing quote.
fn escaped_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

#[test]
fn comments_and_literals_are_no_code() {
    let text = "let a = \"todo!() \\\" unwrap()\"; // todo!()\nlet b = r#\"todo!()\"#; /* todo!() */ let c: &'a str = d('\"', '\\'');";
    let source = Source::new("node/src/a.rs", text);
    assert!(!source.code.contains("todo"), "{}", source.code);
    assert!(source.code.contains("&'a str = d("), "{}", source.code);
    assert_eq!(source.code.len(), text.len());
}

#[test]
fn tests_are_not_shipped() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c.unwrap() } }\n#[cfg(any(test, fuzzing))]\nmod more;\nfn d() {}\n";
    let source = Source::new("node/src/a.rs", text);
    assert!(
        !source.shipped.contains("unwrap") && !source.shipped.contains("more"),
        "{}",
        source.shipped
    );
    assert!(source.shipped.contains("fn a()") && source.shipped.contains("fn d()"));
    assert!(
        Source::new("node/src/raft/tests.rs", text)
            .shipped
            .trim()
            .is_empty()
    );
}
