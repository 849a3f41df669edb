//! `[list.NAME]`: blocks of client addresses, written here or in a file of their own.
//!
//! A file is read whole with the configuration and is watched with it, so that a list and the rules that use it are always one
//! snapshot, and a file that is broken changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;

use crate::bounds::{LIST_BLOCKS, LIST_USES};
use crate::client::Cidrs;
use crate::config::cidr;
use crate::config::field::{Field, all, quoted, text_of};
use crate::config::report::Placed;
use crate::config::rules::{ListRules, ListUse, Name};
use crate::config::section::Section;

pub(in crate::config) const EXAMPLE: &str = "with cidrs = [\"192.0.2.0/24\"] or file = \"bad.txt\"";

/// Mistakes of one file that are told; a file of the wrong kind has one a line.
const TOLD: usize = 5;

/// Reads the table; relative paths begin at `base`, the directory of the configuration.
pub(in crate::config) fn read(section: Section<'_>, base: &Path) -> Option<ListRules> {
    let written = section.or("cidrs", "[\"192.0.2.0/24\"]", Vec::new(), |field| {
        let elements = field.elements()?;
        all(elements.iter().map(cidr::read))
    });
    let file = section.field("file", "\"bad.txt\"");
    let from_file = file.as_ref().map_or(Some((None, Vec::new())), |field| {
        let (path, blocks) = blocks_of_file(field, base)?;
        Some((Some(path), blocks))
    });
    if file.is_none() && matches!(written.as_deref(), Some([])) {
        section.report.warning(
            &section.place,
            "the list names nobody",
            "write cidrs = [\"192.0.2.0/24\"], or file = \"bad.txt\" with one block a line",
        );
    }
    section.finish();
    let (file, from_file) = from_file?;
    let blocks = Cidrs::new(written?.into_iter().chain(from_file));
    Some(ListRules {
        file,
        blocks: Arc::new(blocks),
    })
}

/// `allow` and `block` of `[client]` or of a route; whether the lists are defined is judged when all are known.
pub(in crate::config) fn uses(section: &Section<'_>) -> (Option<ListUse>, Vec<Placed<Name>>) {
    let allow = section.or("allow", "[\"office\"]", Vec::new(), names);
    let block = section.or("block", "[\"bad\"]", Vec::new(), |field| {
        let names = names(field)?;
        let both = allow.iter().flatten();
        let mut both = both.filter(|name| names.iter().any(|other| other.value == name.value));
        match both.next() {
            Some(name) => field.refuse(
                format!("the list {} is allowed here too", quoted(&name.value)),
                "leave it out of one of the two",
            ),
            None => Some(names),
        }
    });
    let placed = allow.iter().chain(&block).flatten().cloned().collect();
    let values = |names: Vec<Placed<Name>>| names.into_iter().map(|name| name.value).collect();
    let uses = allow.zip(block).map(|(allow, block)| ListUse {
        allow: values(allow),
        block: values(block),
    });
    (uses, placed)
}

fn names(field: &Field<'_>) -> Option<Vec<Placed<Name>>> {
    let elements = field.elements()?;
    if elements.len() > LIST_USES {
        let message = format!("{} lists are too many here", elements.len());
        return field.refuse(
            message,
            format!("keep at most {LIST_USES}; one list can hold them all"),
        );
    }
    let mut seen: Vec<&str> = Vec::new();
    all(elements
        .iter()
        .map(|element| {
            let text = element.text()?;
            if seen.contains(&text) {
                let message = format!("the list {} stands here already", quoted(text));
                return element.refuse(message, "write it once");
            }
            seen.push(text);
            Some(element.placed(Name::from(text)))
        })
        .collect::<Vec<_>>())
}

/// One block or address a line; `#` and `;` begin a comment, as in the lists that are published.
fn blocks_of_file(field: &Field<'_>, base: &Path) -> Option<(PathBuf, Vec<IpNet>)> {
    let advice = "put a file there with one block of addresses a line, readable for the user that runs the gateway";
    let (path, text) = text_of(field, base, advice)?;
    let shown = path.display().to_string();
    let mut blocks = Vec::new();
    let mut wrong = 0;
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let entry = line.split(['#', ';']).next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        if blocks.len() == LIST_BLOCKS {
            return field.refuse(
                format!("{} has more than {LIST_BLOCKS} blocks", quoted(&shown)),
                "merge neighbouring blocks, or split the file into several lists",
            );
        }
        match cidr::block(entry) {
            Ok(block) => blocks.push(block),
            Err(mistake) => {
                wrong += 1;
                if wrong <= TOLD {
                    let message =
                        format!("{}, line {}: {}", quoted(&shown), at + 1, mistake.message);
                    field.refuse::<()>(message, mistake.advice.unwrap_or_default());
                }
            }
        }
    }
    if wrong > TOLD {
        let message = format!("{} has {} more such lines", quoted(&shown), wrong - TOLD);
        field.refuse::<()>(
            message,
            "write one block of addresses a line, and comments behind #",
        );
    }
    (wrong == 0).then_some((path, blocks))
}
