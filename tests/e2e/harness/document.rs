//! What the project ships and documents, as tests read it: files, blocks of the Markdown, and blocks of shell, which run as printed.

use std::path::Path;
use std::process::Command;

use super::gateway::BINARY;

/// The text of a file of the project.
pub fn project_file(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The section of a document below this heading.
pub fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, rest) = document.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split("\n## ").next().unwrap()
}

/// The blocks of this language.
pub fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    let blocks = text.split(opening.as_str()).skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap())
        .collect()
}

/// A shell that runs these commands until one fails; its `sluicegate` is the program under test.
pub fn shell(commands: &str) -> Command {
    let folder = Path::new(BINARY).parent().unwrap().display();
    let path = std::env::var("PATH").unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-ec", commands])
        .env("PATH", format!("{folder}:{path}:/usr/sbin"));
    shell
}
