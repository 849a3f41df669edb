//! Writes what types declare into conf/reference.toml, and tests that nothing else stands there.
//!
//! `BLESS=1 cargo test -p sluicegate-config` writes the file anew; read the difference before it is committed.

use std::ops::Range;
use std::path::Path;

use super::*;
use crate::form::ValueKind;

/// Goal: the reference says of declared tables what their types say. Method: write their paragraphs anew; nothing may differ.
#[test]
fn the_reference_writes_what_types_declare() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf/reference.toml");
    let written = std::fs::read_to_string(&path).unwrap();
    let declared = with_declarations(&written);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &declared).unwrap();
        return;
    }
    assert!(
        written == declared,
        "{}: expected\n{declared}\nfound\n{written}",
        path.display()
    );
}

/// The reference, with the texts and values of declared keys as their types declare them. Their order, and which of them are commented
/// out, are the reference's own; a key that is in none of the table's paragraphs is added to the first.
fn with_declarations(reference: &str) -> String {
    let mut lines: Vec<String> = reference.split('\n').map(str::to_owned).collect();
    for table in declared_tables() {
        table.write(&mut lines);
    }
    lines.join("\n")
}

impl TableDeclaration {
    /// Writes the table into the lines of the reference.
    fn write(&self, lines: &mut Vec<String>) {
        for key in &self.keys {
            let paragraphs = self.paragraphs(lines);
            let is_key = |at: &usize| is_line_of(&lines[*at], key.name);
            let at = paragraphs.iter().cloned().flatten().find(is_key);
            let Some(first) = paragraphs.first() else {
                return;
            };
            let is_table = key.form.kinds.contains(&ValueKind::Object);
            let (replaced, mark) = match at {
                // The header of a table in it has the text.
                None if is_table => continue,
                None => (first.end..first.end, "#"),
                Some(at) if lines[at].starts_with('#') => (comment_above(lines, at)..at + 1, "#"),
                Some(at) => (comment_above(lines, at)..at + 1, ""),
            };
            let mut text = commented(key.comment);
            text.push(format!("{mark}{} = {}", key.name, key.shown));
            lines.splice(replaced, text);
        }
        if let Some(first) = self.paragraphs(lines).first()
            && !self.comment.is_empty()
        {
            let header = first.start;
            lines.splice(
                comment_above(lines, header)..header,
                commented(self.comment),
            );
        }
    }

    /// The paragraphs of the table, each from its header on.
    fn paragraphs(&self, lines: &[String]) -> Vec<Range<usize>> {
        let is_header = |at: &usize| {
            header(&lines[*at]).is_some_and(|header| {
                let names = self.path.split('.').map(|name| name.trim_end_matches("[]"));
                let fits = |(name, step): (&str, &str)| name == step || name == "NAME";
                header.split('.').count() == names.clone().count()
                    && names.zip(header.split('.')).all(fits)
            })
        };
        let end = |start: usize| {
            let rest = lines[start..].iter();
            start + rest.take_while(|line| !line.is_empty()).count()
        };
        let headers = (0..lines.len()).filter(is_header);
        headers.map(|start| start..end(start)).collect()
    }
}

/// The path in the header of a table, `[limit.otp]`, `#[jwt]` or `[[route]]`.
fn header(line: &str) -> Option<&str> {
    let line = line.strip_prefix('#').unwrap_or(line);
    Some(line.strip_prefix('[')?.trim_matches(['[', ']']))
}

/// Returns whether a line has the key `name`, perhaps commented out.
fn is_line_of(line: &str, name: &str) -> bool {
    let line = line.strip_prefix('#').unwrap_or(line);
    let rest = line.strip_prefix(name);
    rest.is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// The first of the lines of comment directly above line `at`.
fn comment_above(lines: &[String], at: usize) -> usize {
    let above = lines[..at].iter().rev();
    at - above.take_while(|line| line.starts_with("# ")).count()
}

fn commented(text: &str) -> Vec<String> {
    text.lines().map(|line| format!("# {line}")).collect()
}
