//! Every story, told twice: removing what is due as late as possible, and as soon as possible. Both must be the same.

use std::{fs, path::PathBuf};

use crate::story::{Story, Sweep};

#[test]
fn the_stories_hold_whether_due_rows_are_removed_late_or_at_once() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/stories");
    #[expect(clippy::disallowed_methods, reason = "stories are files")]
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let mut told = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = read(&path);
        for sweep in [Sweep::Late, Sweep::AtOnce] {
            if sweep == Sweep::AtOnce && text.starts_with("# late only") {
                continue;
            }
            let mut story = Story::new(sweep);
            for (number, line) in text.lines().enumerate() {
                story.line(
                    line,
                    &format!("{}:{} ({sweep:?})", path.display(), number + 1),
                );
            }
            story.audit(&path.display().to_string());
            told += 1;
        }
    }
    assert!(told >= 20, "only {told} stories were told");
}
