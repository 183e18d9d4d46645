//! How long files and functions may be.

use super::{
    Finding,
    source::{Source, closing_brace},
};

const FILE_LINES_MAX: usize = 400;
const FILE_LINES_MEDIAN_MAX: usize = 150;
const FUNCTION_LINES_MAX: usize = 70;
/// Of ten functions, nine are no longer.
const FUNCTION_LINES_P90_MAX: usize = 30;

/// Too long a file, or functions in it.
pub(super) fn check_source(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        findings.push(Finding::whole(
            &source.path,
            format!("{lines} lines, {FILE_LINES_MAX} at most: split it"),
        ));
    }
    for (offset, name, lines) in functions(source) {
        if lines > FUNCTION_LINES_MAX {
            let message = format!("fn {name} has {lines} lines, {FUNCTION_LINES_MAX} at most");
            findings.push(Finding::at(source, offset, message));
        }
    }
    findings
}

/// The middle file of all must be short: a few long files are no excuse for many.
pub(super) fn check_median(sources: &[Source]) -> Option<Finding> {
    let mut lines: Vec<usize> = sources
        .iter()
        .map(|source| source.text.lines().count())
        .collect();
    lines.sort_unstable();
    let median = *lines.get(lines.len() / 2)?;
    let message = format!("the median file has {median} lines, {FILE_LINES_MEDIAN_MAX} at most");
    (median > FILE_LINES_MEDIAN_MAX).then(|| Finding::whole(".", message))
}

/// Nine functions of ten must be short: what is under the bound for one is too long for all.
pub(super) fn check_functions(sources: &[Source]) -> Option<Finding> {
    let functions = sources.iter().flat_map(functions);
    let mut lines: Vec<usize> = functions.map(|(_, _, lines)| lines).collect();
    lines.sort_unstable();
    let p90 = *lines.get(lines.len() * 9 / 10)?;
    let message =
        format!("one function in ten has {p90} lines or more, {FUNCTION_LINES_P90_MAX} at most");
    (p90 > FUNCTION_LINES_P90_MAX).then(|| Finding::whole(".", message))
}

/// Offset, name and lines of code of each function, inside its braces, without blank lines and comments: as clippy counts.
fn functions(source: &Source) -> Vec<(usize, String, usize)> {
    let code = &source.code;
    let bodies = Source::find_words(code, "fn").filter_map(|offset| {
        let name: String = code[offset + 2..]
            .trim_start()
            .chars()
            .take_while(|&c| c.is_alphanumeric() || c == '_')
            .collect();
        // A function pointer's type has no name, a trait's declaration no body.
        let open = offset + signature_end(&code[offset..])?;
        if name.is_empty() || code.as_bytes()[open] == b';' {
            return None;
        }
        let body = code[open..closing_brace(code, open)].trim_matches(['{', '}']);
        let lines = body.lines().filter(|line| !line.trim().is_empty());
        Some((offset, name, lines.count()))
    });
    bodies.collect()
}

/// Where a body begins, or the semicolon of a declaration is; semicolons in array types are
/// neither.
fn signature_end(code: &str) -> Option<usize> {
    let mut brackets = 0_usize;
    code.find(|c| {
        match c {
            '[' => brackets += 1,
            ']' => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        brackets == 0 && matches!(c, '{' | ';')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_found() {
        let text = "//! Head.\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(check_source(&Source::new("node/src/a.rs", &text)).len(), 1);
        assert_eq!(
            check_source(&Source::new("node/src/a.rs", &text[10..])).len(),
            0
        );
    }

    #[test]
    fn a_long_function_is_found() {
        let function = |lines: usize| {
            format!(
                "impl A {{\n    fn a() -> [u8; 2] {{\n{}    }}\n}}\n",
                "b();\n".repeat(lines)
            )
        };
        let found = check_source(&Source::new(
            "node/src/a.rs",
            &function(FUNCTION_LINES_MAX + 1),
        ));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
        assert_eq!(
            check_source(&Source::new("node/src/a.rs", &function(FUNCTION_LINES_MAX))).len(),
            0
        );
    }

    #[test]
    fn many_longish_files_are_found() {
        let of_lines = |lines: usize| Source::new("node/src/a.rs", &"a\n".repeat(lines));
        assert!(check_median(&[of_lines(1), of_lines(151), of_lines(151)]).is_some());
        assert!(check_median(&[of_lines(1), of_lines(150), of_lines(399)]).is_none());
    }

    #[test]
    fn many_longish_functions_are_found() {
        let of = |long: usize, short: usize| {
            let function = |lines: usize| format!("fn a() {{\n{}}}\n", "b();\n".repeat(lines));
            let text =
                function(FUNCTION_LINES_P90_MAX + 1).repeat(long) + &function(1).repeat(short);
            check_functions(&[Source::new("node/src/a.rs", &text)])
        };
        assert!(of(2, 9).is_some());
        assert!(of(1, 10).is_none());
    }
}
