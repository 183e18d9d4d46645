//! The documentation's table says what the tools say.

use helve_client::Promises;
use helve_state::{FileTool, PostgresTool, RedisTool, S3Tool};

const PAGE: &str = include_str!("../../../../docs/state-tools.md");

#[test]
fn the_table_in_the_documentation_says_what_each_tool_promises() {
    let tools = [
        ("helve", Promises::CLUSTER),
        ("memory", Promises::MEMORY),
        ("file", FileTool::PROMISES),
        ("redis", RedisTool::PROMISES),
        ("postgres", PostgresTool::PROMISES),
        ("s3", S3Tool::PROMISES),
    ];
    let rows: Vec<Vec<&str>> = PAGE.lines().map(cells).collect();
    let head = rows.iter().find(|row| row.first() == Some(&"promise"));
    let head = head.expect("the page has the table");
    for (tool, promises) in tools {
        let column = head.iter().position(|cell| cell.trim_matches('`') == tool);
        let column = column.unwrap_or_else(|| panic!("{tool} has no column"));
        for (name, is_promised) in promises.named() {
            let row = rows.iter().find(|row| row.first() == Some(&name));
            let row = row.unwrap_or_else(|| panic!("{name} has no row"));
            let expected = if is_promised { "yes" } else { "no" };
            assert_eq!(
                row[column].split([' ', ':']).next(),
                Some(expected),
                "{tool}: {name}"
            );
        }
    }
}

fn cells(line: &str) -> Vec<&str> {
    let inside = line.trim().trim_start_matches('|').trim_end_matches('|');
    inside.split('|').map(str::trim).collect()
}
