//! Makes one file of the playground: modules become functions in the order of their imports, the style sheet an element.
//!
//! A module has one import a line, `import { NAMES } from './PATH';`, and exports by `export const` or `export function`. Comments that are
//! lines of their own and indentation are left out.

use std::fmt::Write;
use std::fs;
use std::path::{Component, Path, PathBuf};

const STYLE: &str = "<link rel=\"stylesheet\" href=\"playground.css\">";
const SCRIPT: &str = "<script type=\"module\" src=\"playground.js\"></script>";
const NOTE: &str = "<!-- Made from ui/playground/ by tests/playground.rs: edit those files. -->";

/// The page of a folder with its style and its modules inside.
pub(crate) fn bundle(folder: &Path) -> String {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let mut script = String::new();
    add(
        folder,
        &folder.join("playground.js"),
        &mut Vec::new(),
        &mut script,
    );
    assert!(!script.contains("</script"), "a script that ends itself");
    let page = read("playground.html");
    for element in [STYLE, SCRIPT] {
        assert_eq!(
            page.matches(element).count(),
            1,
            "playground.html: {element}"
        );
    }
    let short = |line: &str| {
        line.trim()
            .replace(": ", ":")
            .replace(" {", "{")
            .replace("; }", "}")
            + "\n"
    };
    let style: String = read("playground.css").lines().map(short).collect();
    page.replace("<!doctype html>", &format!("<!doctype html>\n{NOTE}"))
        .replace(STYLE, &format!("<style>\n{}</style>", style))
        .replace(
            SCRIPT,
            &format!("<script type=\"module\">\n{script}</script>"),
        )
}

/// The name of a module as a variable: `engine/limit.js` is `$engine_limit`.
fn variable(folder: &Path, path: &Path) -> String {
    let name = path.strip_prefix(folder).unwrap().with_extension("");
    format!("${}", name.to_str().unwrap().replace(['/', '-'], "_"))
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Adds a module behind those that it imports, once.
fn add(folder: &Path, path: &Path, added: &mut Vec<PathBuf>, into: &mut String) {
    if added.iter().any(|one| one == path) {
        return;
    }
    added.push(path.to_owned());
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut body, mut exports) = (String::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        let is_comment =
            line.starts_with("//") || (line.starts_with("/**") && line.ends_with("*/"));
        if line.is_empty() || is_comment {
            continue;
        }
        if let Some(import) = line.strip_prefix("import ") {
            let (names, from) = import.trim_end_matches(';').split_once(" from ").unwrap();
            let from = plain(&path.parent().unwrap().join(from.trim_matches('\'')));
            add(folder, &from, added, into);
            let _ = writeln!(body, "const {names} = {};", variable(folder, &from));
            continue;
        }
        let exported = line.strip_prefix("export ");
        if let Some(exported) = exported {
            let name = exported
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .nth(1);
            exports.push(name.unwrap().to_owned());
        }
        let _ = writeln!(body, "{}", exported.unwrap_or(line));
    }
    let _ = writeln!(
        into,
        "const {} = (() => {{\n{body}return {{ {} }};\n}})();",
        variable(folder, path),
        exports.join(", ")
    );
}
