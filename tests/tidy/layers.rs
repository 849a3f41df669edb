//! Holds the order of layers: which module may import which, and that the modules of a crate form no cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{Complaints, Source, assert_none, files, root, words};

/// The line of ARCHITECTURE.md behind which the layers stand, one a line, the lowest last.
const HEADING: &str = "## Layers";

/// Modules and those that each imports, with one place for each import.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// The top-level module that a file below `folder` belongs to; `None` for the roots of crates.
fn module(file: &Source, folder: &str) -> Option<String> {
    let path = file.path.strip_prefix(folder)?.strip_prefix('/')?;
    let first = path.split('/').next()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (name != "lib" && name != "main").then(|| name.to_owned())
}

/// The imports of the crate whose sources lie in `folder`, tests left out.
fn imports(folder: &str) -> Imports {
    let sources = files(&[folder], ".rs");
    let modules: BTreeSet<String> = sources
        .iter()
        .filter_map(|file| module(file, folder))
        .collect();
    let mut imports = Imports::new();
    for file in sources.iter().filter(|file| file.is_shipped()) {
        let Some(own) = module(file, folder) else {
            continue;
        };
        let found = imports.entry(own.clone()).or_default();
        for (number, imported) in imported(file) {
            if imported != own && modules.contains(&imported) {
                found
                    .entry(imported)
                    .or_insert_with(|| format!("{}:{number}", file.path));
            }
        }
    }
    imports
}

/// The modules behind each `crate::`, those of `crate::{…}` over several lines among them, with the numbers of their lines.
fn imported(file: &Source) -> Vec<(usize, String)> {
    let lines: Vec<(usize, &str)> = file.shipped_code().collect();
    let mut found = Vec::new();
    for (index, (number, line)) in lines.iter().enumerate() {
        for (at, start) in line.match_indices("crate::") {
            let begins_name = line[..at]
                .chars()
                .next_back()
                .is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
            if begins_name {
                continue;
            }
            let rest = &line[at + start.len()..];
            if let Some(list) = rest.strip_prefix('{') {
                let more: String = lines[index + 1..]
                    .iter()
                    .take(40)
                    .map(|(_, line)| *line)
                    .collect();
                let list = format!("{list}{more}");
                let names = top_level(&list);
                found.extend(names.into_iter().map(|name| (*number, name)));
            } else if let Some(name) = words(rest).next() {
                found.push((*number, name.to_owned()));
            }
        }
    }
    found
}

/// The first names of a list in braces, up to its end.
fn top_level(list: &str) -> Vec<String> {
    let mut depth = 0;
    let mut names = Vec::new();
    let mut item = String::new();
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(std::mem::take(&mut item)),
            _ if depth == 0 => item.push(c),
            _ => {}
        }
    }
    names.push(item);
    let first = |item: &String| words(item).next().map(str::to_owned);
    names.iter().filter_map(first).collect()
}

/// The layers that ARCHITECTURE.md lists, by module; 0 is the highest.
fn layers() -> BTreeMap<String, usize> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, list) = text.split_once(HEADING).unwrap_or_default();
    let list = list.split("\n## ").next().unwrap_or_default();
    let rows = list.lines().filter(|line| line.starts_with("- "));
    let mut layers = BTreeMap::new();
    for (layer, row) in rows.enumerate() {
        let names = row.split(" — ").next().unwrap_or_default();
        for name in names.split('`').skip(1).step_by(2) {
            layers.insert(name.to_owned(), layer);
        }
    }
    layers
}

#[test]
fn modules_import_only_lower_layers() {
    // Goal: the arrow that ARCHITECTURE.md draws is the one that the code has. Method: each `crate::…` in src against the list.
    let layers = layers();
    let mut complaints = Complaints::new();
    for (module, imports) in imports("src") {
        let Some(layer) = layers.get(&module) else {
            complaints.push(format!(
                "ARCHITECTURE.md: {HEADING}: no layer has `{module}`; add it above all that it imports"
            ));
            continue;
        };
        for (imported, place) in imports {
            let is_below = layers.get(&imported).is_none_or(|other| *other > *layer);
            if !is_below {
                complaints.push(format!(
                    "{place}: {module} imports {imported}, which is not below it; move what both need into a module below both"
                ));
            }
        }
    }
    assert_none(complaints);
}

#[test]
fn modules_of_the_other_crates_form_no_cycle() {
    // Goal: a crate can be read from its lowest module upwards. Method: modules that import nothing are taken away until none is left.
    let mut complaints = Complaints::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let mut open = imports(&format!("crates/{name}/src"));
        loop {
            let modules: BTreeSet<String> = open.keys().cloned().collect();
            let before = open.len();
            open.retain(|_, imports| imports.keys().any(|imported| modules.contains(imported)));
            if open.len() == before {
                break;
            }
        }
        let modules: Vec<&str> = open.keys().map(String::as_str).collect();
        if !modules.is_empty() {
            complaints.push(format!(
                "crates/{name}: a cycle among {}; move what two of them need into a third",
                modules.join(", ")
            ));
        }
    }
    assert_none(complaints);
}

#[test]
fn imports_are_found() {
    // Goal: a walk that finds nothing is not a tree without imports. Method: all ways to write one.
    let file = Source {
        path: "src/admission/value.rs".to_owned(),
        text: "//! A file.\nuse crate::bounds;\nuse crate::{\n    config::{self, rules::Name},\n    clock,\n};\n\
               fn a() -> crate::route::Path {}\n// crate::comment\nuse pingora::proxy;\nuse xcrate::gateway;\n"
            .to_owned(),
    };
    let found: Vec<String> = imported(&file).into_iter().map(|(_, name)| name).collect();
    assert_eq!(found, ["bounds", "config", "clock", "route"]);
    assert!(imports("src").len() > 2);
    assert!(layers().len() > 2);
}
