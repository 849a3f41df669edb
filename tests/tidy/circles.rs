//! Finds circles of files, which nobody can read from the ground up, and keeps them short.
//!
//! An import of a name is one of the file that defines it: a module that hands the name on is passed over.

use std::collections::{BTreeMap, BTreeSet};

use super::{Complaints, Source, assert_none, files, folders_of_crates};

/// The most files that may import each other, directly or around.
const MAX_CIRCLE: usize = 4;
/// The longest chain of modules that hand a name on.
const MAX_HOPS: usize = 8;

/// The files of a crate by the path of their module, and the names that each takes from elsewhere.
struct Modules {
    files: BTreeMap<Vec<String>, String>,
    taken: BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>>,
}

/// A path of a file's code, from the root of its crate.
struct NamedPath {
    path: Vec<String>,
    /// The name under which a `use` takes it.
    name: Option<String>,
    /// True if the file only hands it on.
    is_export: bool,
}

fn module(path: &str, folder: &str) -> Vec<String> {
    let inner = path.strip_prefix(folder).unwrap_or(path).trim_matches('/');
    let inner = inner.strip_suffix(".rs").unwrap_or(inner);
    let parts = inner
        .split('/')
        .filter(|part| !matches!(*part, "lib" | "main" | "mod"));
    parts.map(str::to_owned).collect()
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns an item without the attributes before it, such as `#[cfg(unix)]`.
fn without_attributes(item: &str) -> &str {
    let mut item = item.trim_start();
    while let Some(attribute) = item.strip_prefix("#[") {
        let Some(end) = attribute.find(']') else {
            break;
        };
        item = attribute[end + 1..].trim_start();
    }
    item
}

/// Expands `a::{b, c::d}` into paths, each with the name that it ends with or is renamed to.
fn expand(tree: &str, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim();
    if let Some(list) = tree.strip_prefix('{') {
        let mut depth = 1;
        let mut item = String::new();
        for c in list.chars() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if depth == 0 || (c == ',' && depth == 1) {
                expand(&std::mem::take(&mut item), before, found);
            } else {
                item.push(c);
            }
            if depth == 0 {
                return;
            }
        }
        return;
    }
    let end = tree.find(|c| !is_name(c)).unwrap_or(tree.len());
    let name = &tree[..end];
    if name.is_empty() {
        return;
    }
    let rest = tree[end..].trim_start();
    let mut path = before.to_vec();
    if name != "self" {
        path.push(name.to_owned());
    }
    if let Some(rest) = rest.strip_prefix("::") {
        expand(rest, &path, found);
    } else if let Some(last) = path.last().cloned() {
        let renamed = rest.strip_prefix("as ").map(|name| name.trim().to_owned());
        found.push((path, renamed.unwrap_or(last)));
    }
}

impl Modules {
    fn new(folder: &str, sources: &[Source]) -> Self {
        let files = sources
            .iter()
            .map(|file| (module(&file.path, folder), file.path.clone()));
        let mut modules = Self {
            files: files.collect(),
            taken: BTreeMap::new(),
        };
        for file in sources {
            let own = module(&file.path, folder);
            let named = modules.paths(file, &own);
            let taken = named
                .into_iter()
                .filter_map(|named| Some((named.name?, named.path)));
            let taken = taken.collect();
            modules.taken.insert(own, taken);
        }
        modules
    }

    /// The paths of a file's code that begin in its own crate.
    fn paths(&self, file: &Source, own: &[String]) -> Vec<NamedPath> {
        let lines: Vec<&str> = file.shipped_code().map(|(_, line)| line.trim()).collect();
        let code = lines.join(" ");
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(next) = code[at..].find(is_name) {
            let start = at + next;
            let word = &code[start..];
            let length = word.find(|c| !is_name(c)).unwrap_or(word.len());
            at = start + length;
            if code[..start].ends_with("::") || code[..start].ends_with('.') {
                continue;
            }
            let word = &word[..length];
            // The path of `pub(in path)` is no import.
            if word == "in" && code[..start].ends_with("pub(") {
                at += code[at..].find(')').unwrap_or(0);
            } else if word == "use" {
                let end = code[at..].find(';').map_or(code.len(), |end| at + end);
                let is_export = code[..start].trim_end().ends_with([')', 'b'])
                    && code[..start]
                        .rsplit([';', '}'])
                        .next()
                        .is_some_and(|it| without_attributes(it).starts_with("pub"));
                let mut trees = Vec::new();
                expand(&code[at..end], &[], &mut trees);
                for (path, name) in trees {
                    let path = self.path_from_root(&path, own);
                    found.extend(path.map(|path| NamedPath {
                        path,
                        name: Some(name),
                        is_export,
                    }));
                }
                at = end;
            } else if code[at..].starts_with("::") {
                let mut trees = Vec::new();
                expand(&code[start..], &[], &mut trees);
                let path = trees
                    .first()
                    .and_then(|(path, _)| self.path_from_root(path, own));
                found.extend(path.map(|path| NamedPath {
                    path,
                    name: None,
                    is_export: false,
                }));
            }
        }
        found
    }

    /// A path from the root of the crate; `None` where it begins elsewhere.
    fn path_from_root(&self, path: &[String], own: &[String]) -> Option<Vec<String>> {
        let mut base = own.to_vec();
        let supers = path.iter().take_while(|part| *part == "super").count();
        let first = path.first()?;
        let rest = match first.as_str() {
            "crate" => {
                base.clear();
                &path[1..]
            }
            "super" => {
                base.truncate(base.len().checked_sub(supers)?);
                &path[supers..]
            }
            child => {
                let mut child_module = base.clone();
                child_module.push(child.to_owned());
                self.files.get(&child_module)?;
                path
            }
        };
        base.extend(rest.iter().cloned());
        Some(base)
    }

    /// The module whose file defines what a path names.
    fn owner(&self, path: &[String], hops: usize) -> Option<Vec<String>> {
        let known = (0..=path.len())
            .rev()
            .find(|length| self.files.contains_key(&path[..*length]))?;
        let module = &path[..known];
        let handed_on = path
            .get(known)
            .and_then(|name| self.taken.get(module)?.get(name));
        match handed_on {
            Some(other) if hops < MAX_HOPS => {
                let mut other = other.clone();
                other.extend_from_slice(&path[known + 1..]);
                self.owner(&other, hops + 1)
            }
            _ => Some(module.to_vec()),
        }
    }

    fn imports(&self, sources: &[Source], folder: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut imports = BTreeMap::new();
        for file in sources {
            let own = module(&file.path, folder);
            let named = self.paths(file, &own);
            let owners = named.iter().filter(|named| !named.is_export);
            let owners = owners.filter_map(|named| self.owner(&named.path, 0));
            let imported: BTreeSet<String> = owners
                .filter(|owner| *owner != own)
                .filter_map(|owner| self.files.get(&owner).cloned())
                .collect();
            imports.insert(file.path.clone(), imported);
        }
        imports
    }
}

/// The files that each file reaches by imports.
fn reached(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<&str, BTreeSet<&str>> {
    let from = |start: &str| {
        let mut found = BTreeSet::new();
        let mut open: Vec<&str> = imports[start].iter().map(String::as_str).collect();
        while let Some(file) = open.pop() {
            if found.insert(file) {
                open.extend(imports[file].iter().map(String::as_str));
            }
        }
        found
    };
    let from: Vec<(&str, BTreeSet<&str>)> = (imports.keys())
        .map(|file| {
            let found: BTreeSet<&str> = from(file)
                .into_iter()
                .filter_map(|name| imports.get_key_value(name))
                .map(|(name, _)| name.as_str())
                .collect();
            (file.as_str(), found)
        })
        .collect();
    from.into_iter().collect()
}

/// The circles of a graph, the longest first.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<&str>> {
    let reached = reached(imports);
    let mut found: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (file, others) in &reached {
        let circle = others
            .iter()
            .filter(|other| reached[**other].contains(file));
        let circle: Vec<&str> = circle.copied().collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    let mut found: Vec<Vec<&str>> = found.into_iter().collect();
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

#[test]
fn circles_of_files_are_short() {
    // Goal: a file can be read after those that it imports. Method: every path of the shipped code, `super::` among them, up to the file
    // that defines the name.
    let mut complaints = Complaints::new();
    for folder in folders_of_crates() {
        let sources = files(&[&folder], ".rs");
        let sources: Vec<Source> = sources.into_iter().filter(Source::is_shipped).collect();
        let modules = Modules::new(&folder, &sources);
        let imports = modules.imports(&sources, &folder);
        for circle in circles(&imports) {
            if circle.len() > MAX_CIRCLE {
                complaints.push(format!(
                    "{folder}: {} files import each other, at most {MAX_CIRCLE}; move what two of them need into a third: {}",
                    circle.len(),
                    circle.join(", ")
                ));
            }
        }
    }
    assert_none(complaints);
}

#[test]
fn paths_are_followed_to_the_file_that_defines_a_name() {
    // Goal: no import is overlooked, and none is one of a module that only hands a name on. Method: a crate with each form of a path.
    let file = |path: &str, text: &str| Source {
        path: format!("src/{path}"),
        text: text.to_owned(),
    };
    let sources = [
        file("lib.rs", "mod a;\nmod b;\n"),
        file(
            "a/mod.rs",
            "mod one;\nmod two;\n#[cfg(unix)]\npub use one::{One, Other as Another};\nuse two::Two;\n",
        ),
        file(
            "a/one.rs",
            "use super::{\n    Two,\n    two::{self, Three},\n};\nfn f() -> crate::b::B {}\n",
        ),
        file(
            "a/two.rs",
            "// use super::One;\nfn f() { super::one::g() }\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n",
        ),
        file("b.rs", "use crate::a::Another;\nuse std::a::One;\n"),
    ];
    let modules = Modules::new("src", &sources);
    let imports = modules.imports(&sources, "src");
    let found = |path: &str| -> Vec<&str> { imports[path].iter().map(String::as_str).collect() };
    assert_eq!(found("src/a/mod.rs"), ["src/a/two.rs"]);
    assert_eq!(found("src/a/one.rs"), ["src/a/two.rs", "src/b.rs"]);
    assert_eq!(found("src/a/two.rs"), ["src/a/one.rs"]);
    assert_eq!(found("src/b.rs"), ["src/a/one.rs"]);
    assert_eq!(
        circles(&imports),
        [["src/a/one.rs", "src/a/two.rs", "src/b.rs"]]
    );
}
