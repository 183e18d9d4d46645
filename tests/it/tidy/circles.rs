//! Files of a crate that import each other in a circle: none of them can be read, tested or changed alone.
//!
//! An import counts against the file that defines what it names, however it is re-exported. What only tests import does not count.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Finding,
    source::{Source, closing_brace},
};

/// A parent and two children may share what is too small for a file of its own.
const FILES_MAX: usize = 3;

/// Where a module is, from the root of its crate.
type Module = Vec<String>;

/// Circles of more files than there may be.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let circles = of(sources).into_iter();
    let large = circles.filter(|circle| circle.len() > FILES_MAX);
    large
        .map(|circle| {
            let message = format!(
                "is in a circle of {} files, {FILES_MAX} at most: {}",
                circle.len(),
                circle.join(", ")
            );
            Finding::whole(&circle[0], message)
        })
        .collect()
}

/// All circles of files, each in the order of its paths.
fn of(sources: &[Source]) -> Vec<Vec<String>> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources
        .iter()
        .filter(|source| !source.shipped.trim().is_empty())
    {
        if let Some(at) = source.path.find("/src/") {
            crates.entry(&source.path[..at]).or_default().push(source);
        }
    }
    crates
        .into_values()
        .flat_map(|files| Crate::new(&files).circles())
        .collect()
}

/// The files of a crate by their modules.
struct Crate<'a> {
    files: BTreeMap<Module, &'a Source>,
    /// What each module re-exports: a name, and the path that defines it.
    exports: BTreeMap<Module, BTreeMap<String, Module>>,
}

impl<'a> Crate<'a> {
    fn new(sources: &[&'a Source]) -> Self {
        let files: BTreeMap<_, _> = sources
            .iter()
            .map(|source| (module(&source.path), *source))
            .collect();
        let exports = files.iter().map(|(module, source)| {
            let exported = reexports(&source.shipped).into_iter();
            let exported = exported.filter_map(|(name, path)| {
                Some((name, absolute(module, &children(&source.shipped), &path)?))
            });
            (module.clone(), exported.collect())
        });
        let exports = exports.collect();
        Self { files, exports }
    }

    /// The file that defines what a path names.
    fn defined(&self, path: &[String]) -> &'a Source {
        let mut path = path.to_vec();
        // Each step follows one re-export; two that name each other would never end.
        for _ in 0..16 {
            let depth = (0..=path.len())
                .rev()
                .find(|&depth| self.files.contains_key(&path[..depth]));
            let (module, rest) = path.split_at(depth.unwrap_or(0));
            let export = rest
                .first()
                .and_then(|name| self.exports.get(module)?.get(name));
            match export {
                Some(export) => path = [export, &rest[1..]].concat(),
                None => return self.files[module],
            }
        }
        self.files[&Module::new()]
    }

    /// The files that each file imports from, by path.
    fn imports(&self) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let files = self.files.iter().map(|(module, source)| {
            let code = without_reexports(&source.shipped);
            let children = children(&code);
            let named = paths(&code, &children).into_iter();
            let named = named.filter_map(|path| absolute(module, &children, &path));
            let named = named.map(|path| self.defined(&path).path.as_str());
            let others = named.filter(|other| *other != source.path);
            (source.path.as_str(), others.collect())
        });
        files.collect()
    }

    fn circles(&self) -> Vec<Vec<String>> {
        if !self.files.contains_key(&Module::new()) {
            return Vec::new();
        }
        let imports = self.imports();
        let reached: BTreeMap<_, _> = imports
            .keys()
            .map(|file| (*file, reached(&imports, file)))
            .collect();
        let circle = |file: &str| -> Vec<String> {
            let others = reached[file]
                .iter()
                .filter(|other| reached[*other].contains(file));
            others.map(|other| (*other).to_owned()).collect()
        };
        let circles: BTreeSet<_> = imports.keys().map(|file| circle(file)).collect();
        circles
            .into_iter()
            .filter(|circle| circle.len() > 1)
            .collect()
    }
}

/// The files that one imports from, directly or through others.
fn reached<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<_> = imports[from].iter().copied().collect();
    while let Some(file) = open.pop() {
        if found.insert(file) {
            open.extend(&imports[file]);
        }
    }
    found
}

/// The module of a file.
fn module(path: &str) -> Module {
    let (_, inside) = path.split_once("/src/").unwrap_or_default();
    let inside = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    let parts = inside
        .split('/')
        .filter(|part| !matches!(*part, "lib" | "mod"));
    parts.map(str::to_owned).collect()
}

/// Modules that a file declares and that have files of their own.
fn children(code: &str) -> BTreeSet<String> {
    let declared = Source::find_words(code, "mod").filter_map(|offset| {
        let rest = code[offset + "mod".len()..].trim_start();
        let name = &rest[..word_length(rest)];
        rest[name.len()..].starts_with(';').then(|| name.to_owned())
    });
    declared.collect()
}

/// A path from the root of the crate; `None` if it names something of another crate.
fn absolute(module: &Module, children: &BTreeSet<String>, path: &[String]) -> Option<Module> {
    let first = path.first()?;
    if first == "crate" {
        return Some(path[1..].to_vec());
    }
    if children.contains(first) {
        return Some([module, path].concat());
    }
    let climbs = path.iter().take_while(|part| *part == "super").count();
    let begins = climbs
        + path[climbs..]
            .iter()
            .take_while(|part| *part == "self")
            .count();
    let above = module.len().checked_sub(climbs)?;
    (begins > 0).then(|| [&module[..above], &path[begins..]].concat())
}

/// Every path of the code that may name something of the same crate, written as from the file's own module.
fn paths(code: &str, children: &BTreeSet<String>) -> Vec<Module> {
    let inline = inline_modules(code);
    let mut found = Vec::new();
    let starts = ["crate", "super", "self"].into_iter();
    for start in starts.chain(children.iter().map(String::as_str)) {
        for offset in Source::find_words(code, start) {
            let before = code[..offset].trim_end();
            let is_inside =
                before.ends_with("::") || before.ends_with('.') || before.ends_with("(in");
            if is_inside || !code[offset + start.len()..].starts_with("::") {
                continue;
            }
            let depth = inline
                .iter()
                .filter(|(from, to)| (*from..*to).contains(&offset))
                .count();
            found.extend(
                spread(&code[offset..])
                    .into_iter()
                    .filter_map(|path| outside(path, depth)),
            );
        }
    }
    found
}

/// A path as it is written in an inline module this deep, as from the file's own module; `None` if it stays inside.
fn outside(path: Module, depth: usize) -> Option<Module> {
    let climbs = path.iter().take_while(|part| *part == "super").count();
    let is_relative = climbs > 0 || path[0] == "self";
    match climbs.checked_sub(depth) {
        _ if !is_relative || depth == 0 => Some(path),
        Some(0) => Some([&["self".to_owned()], &path[depth..]].concat()),
        Some(_) => Some(path[depth..].to_vec()),
        None => None,
    }
}

/// From where to where the modules go that are written in the file itself.
fn inline_modules(code: &str) -> Vec<(usize, usize)> {
    let found = Source::find_words(code, "mod").filter_map(|offset| {
        let open = offset + code[offset..].find(['{', ';'])?;
        (code.as_bytes()[open] == b'{').then(|| (open, closing_brace(code, open)))
    });
    found.collect()
}

/// The paths that a path with braces abbreviates. A glob names the module before it.
fn spread(code: &str) -> Vec<Module> {
    let (mut path, mut rest) = (Module::new(), code);
    loop {
        let name = &rest[..word_length(rest)];
        if name.is_empty() {
            break;
        }
        path.push(name.to_owned());
        match rest[name.len()..].strip_prefix("::") {
            Some(next) => rest = next,
            None => return vec![path],
        }
    }
    if !rest.starts_with('{') {
        return vec![path];
    }
    let list = &rest[1..closing_brace(rest, 0) - 1];
    let spread = items(list).into_iter().flat_map(spread);
    spread.map(|tail| [&path[..], &tail].concat()).collect()
}

/// The items of a list, whose own lists stay whole.
fn items(list: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let items = list.split(move |c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    items
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .collect()
}

/// Statements that re-export: from where to where their paths go.
fn reexport_spans(code: &str) -> Vec<(usize, usize)> {
    let found = Source::find_words(code, "use").filter_map(|offset| {
        let before = code[..offset].trim_end();
        let is_public = before.ends_with("pub") || before.ends_with(')');
        let from = offset + "use".len();
        is_public.then_some((from, from + code[from..].find(';')?))
    });
    found.collect()
}

/// The names that a file re-exports, and their paths as written.
fn reexports(code: &str) -> Vec<(String, Module)> {
    let spans = reexport_spans(code).into_iter();
    let leaves = spans.flat_map(|(from, to)| leaves(code[from..to].trim()));
    leaves.collect()
}

/// The leaves of a tree of imports: the name by which each is known, and its path.
fn leaves(tree: &str) -> Vec<(String, Module)> {
    if let Some(open) = tree.find('{') {
        let inner = items(&tree[open + 1..closing_brace(tree, open) - 1]).into_iter();
        let before = spread(&tree[..open]).concat();
        return inner
            .flat_map(leaves)
            .map(|(name, path)| (name, [&before[..], &path].concat()))
            .collect();
    }
    let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
    let path = spread(path.trim()).concat();
    let own = path.iter().rfind(|part| *part != "self");
    let own = own.cloned().unwrap_or_default();
    let name = if name.is_empty() {
        own
    } else {
        name.trim().to_owned()
    };
    vec![(name, path)]
}

fn without_reexports(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for (from, to) in reexport_spans(code) {
        bytes[from..to].fill(b' ');
    }
    String::from_utf8(bytes).expect("whole statements were blanked")
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests;
