//! `[list.NAME]`: blocks of client addresses, written here or in a file of their own.
//!
//! A file is read whole with the configuration and is watched with it, so that a list and the rules that use it are always one
//! snapshot. A file that is broken is a warning: the content in force stays, and at the start the lines that can be read are the list.

use std::sync::Arc;

use crate::address::CidrSet;
use crate::bounds::{LIST_BLOCKS, LIST_USES};
use crate::config::cidr;
use crate::config::field::{Field, all, quoted, text_or_warning};
use crate::config::report::Placed;
use crate::config::rules::{FileState, ListFile, ListRules, ListUse, Name};
use crate::config::section::Section;

pub(in crate::config) const EXAMPLE: &str = "with cidrs = [\"192.0.2.0/24\"] or file = \"bad.txt\"";

/// Mistakes of one file that are told; a file of the wrong kind has one a line.
const TOLD: usize = 5;

/// Reads the table.
pub(in crate::config) fn read(section: Section<'_>) -> Option<ListRules> {
    let written = section.or("cidrs", "[\"192.0.2.0/24\"]", Vec::new(), |field| {
        let elements = field.elements()?;
        all(elements.iter().map(cidr::read))
    });
    let named = section.field("file", "\"bad.txt\"");
    let file = named
        .as_ref()
        .map_or(Some(None), |field| file(field).map(Some));
    if named.is_none() && matches!(written.as_deref(), Some([])) {
        section.report.warning(
            &section.place,
            "the list names nobody",
            "write cidrs = [\"192.0.2.0/24\"], or file = \"bad.txt\" with one block a line",
        );
    }
    section.finish();
    Some(ListRules {
        written: Arc::new(CidrSet::new(written?)),
        file: file?,
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

/// One block or address a line; `#` and `;` begin a comment, as in the lists that are published. Lines that are none are left out, and
/// mark the file as broken.
fn file(field: &Field<'_>) -> Option<ListFile> {
    let (path, text) = text_or_warning(field)?;
    let shown = quoted(&path.display().to_string());
    let (mut blocks, mut wrong) = (Vec::new(), usize::from(text.is_none()));
    let text = text.unwrap_or_default();
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let entry = line.split(['#', ';']).next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        if blocks.len() == LIST_BLOCKS {
            return field.refuse(
                format!("{shown} has more than {LIST_BLOCKS} blocks"),
                "merge neighbouring blocks, or split the file into several lists",
            );
        }
        match cidr::block(entry) {
            Ok(block) => blocks.push(block),
            Err(mistake) => {
                wrong += 1;
                if wrong <= TOLD {
                    let message = format!("{shown}, line {}: {}", at + 1, mistake.message);
                    field.warn(message, mistake.advice.unwrap_or_default());
                }
            }
        }
    }
    if wrong > TOLD {
        let message = format!("{shown} has {} more such lines", wrong - TOLD);
        field.warn(
            message,
            "write one block of addresses a line, and comments behind #",
        );
    }
    let state = if wrong == 0 {
        FileState::Read
    } else {
        FileState::Lost
    };
    Some(ListFile {
        path,
        state,
        blocks: Arc::new(CidrSet::new(blocks)),
    })
}
