//! Compares the crates with their manifests: the graph that ARCHITECTURE.md draws, and what the core that decides is built from.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;

use toml::{Table, Value};

use super::{Complaints, assert_none, files, root};

/// The line of ARCHITECTURE.md behind which the crates stand, one a row, each above those that it depends on.
const HEADING: &str = "## Crates";
/// The program, which the table names by its folder.
const PROGRAM: &str = "sluicegate";
/// The crate that decides.
const CORE: &str = "sluicegate-decide";
/// The beginnings of names that no crate has from which the core is built.
const FRAMEWORKS: &[&str] = &["tokio", "pingora"];

/// The names of crates, each with those that it is built from.
type Graph = BTreeMap<String, BTreeSet<String>>;

fn read(path: &str) -> Table {
    toml::from_str(&fs::read_to_string(root().join(path)).unwrap()).unwrap()
}

/// Returns the crates of the workspace with what their manifests name, for each target and with each feature, but not for tests.
fn manifests() -> Graph {
    let members = files(&["crates"], "/Cargo.toml").into_iter();
    let members = members.map(|file| file.path);
    let paths = members.filter(|path| path.split('/').count() == 3);
    paths
        .chain(["Cargo.toml".to_owned()])
        .map(|path| {
            let manifest = read(&path);
            let name = manifest["package"]["name"].as_str().unwrap().to_owned();
            let targets = manifest.get("target").and_then(Value::as_table);
            let targets = targets.into_iter().flat_map(Table::values);
            let targets = targets.filter_map(Value::as_table);
            let sections = targets.chain([&manifest]);
            let sections = sections
                .flat_map(|table| [table.get("dependencies"), table.get("build-dependencies")])
                .flatten();
            let sections = sections.filter_map(Value::as_table);
            (name, sections.flat_map(Table::keys).cloned().collect())
        })
        .collect()
}

/// Returns all crates of Cargo.lock, those of the workspace without what only their tests need. A name that several versions have is
/// followed by the version.
fn locked(manifests: &Graph) -> Graph {
    let lock = read("Cargo.lock");
    let packages = lock["package"].as_array().unwrap();
    let text = |package: &Value, key: &str| package[key].as_str().unwrap().to_owned();
    let mut versions = BTreeMap::<String, usize>::new();
    for package in packages {
        *versions.entry(text(package, "name")).or_default() += 1;
    }
    packages
        .iter()
        .map(|package| {
            let name = text(package, "name");
            let own = manifests.get(&name);
            let listed = package.get("dependencies").and_then(Value::as_array);
            let listed = listed.into_iter().flatten().filter_map(Value::as_str);
            let built = listed.filter(|listed| {
                let bare = listed.split(' ').next().unwrap_or_default();
                own.is_none_or(|own| own.contains(bare))
            });
            let built = built.map(str::to_owned).collect();
            match versions[&name] {
                1 => (name, built),
                _ => (format!("{name} {}", text(package, "version")), built),
            }
        })
        .collect()
}

/// Returns the shortest way from a crate down to one whose name begins like one of FRAMEWORKS.
fn way_to_framework(graph: &Graph, from: &str) -> Option<Vec<String>> {
    let mut open = VecDeque::from([vec![from.to_owned()]]);
    let mut met = BTreeSet::new();
    while let Some(way) = open.pop_front() {
        let last = way.last()?;
        if FRAMEWORKS.iter().any(|name| last.starts_with(name)) {
            return Some(way);
        }
        let below = graph.get(last).into_iter().flatten();
        for next in below.filter(|next| met.insert((*next).clone())) {
            open.push_back(way.iter().chain([next]).cloned().collect());
        }
    }
    None
}

#[test]
fn the_core_is_built_without_runtime_and_framework() {
    // Goal: the stages that decide cannot wait, nor open a connection. Method: the crates of Cargo.lock below theirs; below the program,
    // where both are, the same walk finds one.
    let graph = locked(&manifests());
    assert!(way_to_framework(&graph, PROGRAM).is_some());
    assert!(graph[CORE].len() > 10);
    let way = way_to_framework(&graph, CORE);
    let complaints = way.map(|way| {
        format!(
            "{}: let src/ do what needs this crate, and give the core its result",
            way.join(" → ")
        )
    });
    assert_none(complaints.into_iter().collect());
}

/// Returns the rows of the table of crates: the name of each, and those that it depends on.
fn drawn() -> Vec<(String, BTreeSet<String>)> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once(HEADING).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let full = |short: &str| format!("{PROGRAM}-{short}");
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let place = cells[0].split('`').nth(1).unwrap_or_default();
        let name = match place.strip_prefix("crates/") {
            Some(folder) => full(folder.trim_end_matches('/')),
            None => PROGRAM.to_owned(),
        };
        let below = cells.last().unwrap().split('`').skip(1).step_by(2);
        (name, below.map(full).collect())
    })
    .collect()
}

#[test]
fn the_graph_of_crates_is_that_of_the_manifests() {
    // Goal: the graph that ARCHITECTURE.md draws is the one that cargo builds, and it leads downwards. Method: each row, against the
    // crates of the workspace that its manifest names, and against the rows above it.
    let manifests = manifests();
    let mut complaints = Complaints::new();
    let mut above = BTreeSet::new();
    for (name, below) in drawn() {
        let named = manifests.get(&name).cloned().unwrap_or_default();
        let named: BTreeSet<String> = named
            .into_iter()
            .filter(|named| manifests.contains_key(named))
            .collect();
        if named != below {
            complaints.push(format!(
                "ARCHITECTURE.md: {HEADING}: {name} depends on {below:?}, its Cargo.toml names {named:?}; write these"
            ));
        }
        for higher in below.intersection(&above) {
            complaints.push(format!(
                "ARCHITECTURE.md: {HEADING}: {higher} stands above {name}, which depends on it; move its row down"
            ));
        }
        above.insert(name);
    }
    let missing = manifests.keys().filter(|name| !above.contains(*name));
    complaints.extend(
        missing.map(|name| {
            format!("ARCHITECTURE.md: {HEADING}: no row has {name}; say what it holds")
        }),
    );
    assert_none(complaints);
}

/// The folders above the crates whose files a line of code includes.
fn included_folders(line: &str) -> Vec<&str> {
    let up = line.split("\"../").skip(1);
    let folders = up.filter_map(|rest| {
        let inner = rest.trim_start_matches("../");
        let folder = inner.split('/').next()?;
        root().join(folder).is_dir().then_some(folder)
    });
    folders.collect()
}

#[test]
fn the_image_is_built_from_all_that_the_code_includes() {
    // Goal: the build of the image finds every file that the program contains. Method: the folders that shipped code includes, in the
    // Dockerfile and in the list of what it may copy.
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let dockerfile = read("Dockerfile");
    let allowed = read(".dockerignore");
    let mut complaints = Vec::new();
    let mut found = 0;
    for file in files(&["src", "crates"], ".rs") {
        let is_code = file.is_shipped() && file.path.contains("src/");
        for (number, line) in file.shipped_code().filter(|_| is_code) {
            for folder in included_folders(line) {
                found += 1;
                let is_copied = dockerfile.contains(&format!("\nCOPY {folder} {folder}\n"));
                if !is_copied || !allowed.contains(&format!("\n!{folder}\n")) {
                    complaints.push(format!(
                        "{}:{number}: includes a file of {folder}/; copy it in Dockerfile, and allow it in .dockerignore",
                        file.path
                    ));
                }
            }
        }
    }
    assert!(found > 0, "the page of operators is included");
    assert_none(complaints);
}
