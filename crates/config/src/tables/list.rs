//! Declares `[list.NAME]`: blocks of client addresses, written here or in a file of their own.
//!
//! A file is read whole with the configuration and is watched with it, so that a list and the rules that use it are always one
//! snapshot. A file that is broken is a warning: the content in force stays, and at the start the lines that can be read are the list.

use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_base::address::CidrSet;
use sluicegate_base::bounds::{LIST_BLOCKS, LIST_USES};
use sluicegate_base::geo::{CountryCode, GeoField, PlaceSet};
use sluicegate_config_derive::Table;

use crate::cidr;
use crate::declaration::{ListBy, NUMBER_OR_TEXT, ReadBy, TEXT};
use crate::field::{KeyField, all, quoted, text_or_warning};
use crate::report::PlacedValue;
use crate::rules::{FileState, Name};
use crate::section::TableSection;

use super::{crawler, geo};

pub(crate) const EXAMPLE: &str = "with cidrs = [\"192.0.2.0/24\"] or file = \"bad.txt\"";

/// Reported mistakes of one file; a file of the wrong kind has one a line.
const TOLD: usize = 5;

// The rules hold the compiled form alone: a million lines beside it would be as many again.
/// A named list of client addresses, for routes and [client].
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the reference has tables in brackets"
)]
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "list.NAME", check = warn_of_empty_list)]
pub struct ListRules {
    /// Blocks of addresses, or single ones. Default: none.
    #[key(
        example = "[\"192.0.2.0/24\"]",
        shown = "[\"192.0.2.0/24\", \"2001:db8:1::/48\"]",
        default = Arc::new(CidrSet::new(Vec::new())),
        reader = ListBy(cidrs, TEXT)
    )]
    pub cidrs: Arc<CidrSet>,
    /// Countries by ISO 3166-1 code, and "unknown" for clients without one; docs/geo.md describes the precedence between lists. Needs
    /// [geo]. Default: none.
    #[key(example = "[\"DE\"]", default = Vec::new(), reader = ListBy(countries, TEXT))]
    pub countries: Vec<Option<CountryCode>>,
    /// Cities, each with country and subdivision. Default: none.
    #[key(example = "[\"DE-BE/Berlin\"]", default = Vec::new(), reader = ListBy(cities, TEXT))]
    pub cities: Vec<Option<Arc<str>>>,
    /// Networks by the number of their autonomous system. Default: none.
    #[key(example = "[64496]", default = Vec::new(), reader = ListBy(asns, NUMBER_OR_TEXT))]
    pub asns: Vec<Option<u32>>,
    /// Crawlers by name or group; "unverified" is a client that claims to be a crawler without proof, "none" any other. Needs
    /// [crawler.NAME]. Default: none.
    #[key(example = "[\"search\"]", default = Vec::new(), reader = ListBy(crawlers, TEXT))]
    pub crawlers: Vec<Name>,
    /// A file with one block or address per line; comments begin with # or ;. It is read again when it changes; a broken file keeps the
    /// previous list, and at the start its valid lines are the list. At most 4194304 blocks, of 10 bytes (IPv4) or 34 (IPv6). Default:
    /// none.
    #[key(example = "\"bad.txt\"", reader = ReadBy(file, TEXT))]
    pub file: Option<ListFile>,
}

/// The file of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFile {
    /// Its path; it is watched.
    pub path: PathBuf,
    /// The state of its content.
    pub state: FileState,
    /// The blocks of that content.
    pub blocks: Arc<CidrSet>,
}

impl ListRules {
    /// Returns the sets that hold its blocks.
    pub fn sets(&self) -> impl Iterator<Item = &Arc<CidrSet>> {
        std::iter::once(&self.cidrs).chain(self.file.iter().map(|file| &file.blocks))
    }

    /// Returns the places that it names.
    #[must_use]
    pub fn places(&self) -> PlaceSet {
        PlaceSet {
            countries: self.countries.clone(),
            cities: self.cities.clone(),
            asns: self.asns.clone(),
        }
    }

    /// Returns the number of its blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets().map(|set| set.len()).sum()
    }

    /// Returns whether it names nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.places().is_empty() && self.crawlers.is_empty()
    }

    /// Returns its memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.sets().map(|set| set.bytes()).sum()
    }
}

/// The lists of `[client]` or of a route, each defined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListUse {
    /// Lists of clients that skip the limits.
    pub allow: Vec<Name>,
    /// Lists of clients that are refused.
    pub block: Vec<Name>,
}

/// Declares the keys of [`ListUse`].
#[derive(Table)]
#[table(check = check_names)]
pub(crate) struct ListNames {
    /// Lists of clients that skip the limits, at most 8; a route may name more. Of all blocks in `allow` and `block` that contain a client
    /// the longest prefix decides, whichever list it is from; of two equally long ones the blocked one. Default: none.
    #[key(example = "[\"office\"]", default = Vec::new(), reader = ListBy(names, TEXT))]
    allow: Vec<PlacedValue<Name>>,
    /// Lists of clients that are rejected with 403, at most 8; a route may name more. Default: none.
    #[key(example = "[\"bad\"]", default = Vec::new(), reader = ListBy(names, TEXT))]
    block: Vec<PlacedValue<Name>>,
}

fn warn_of_empty_list(keys: &ListRulesKeys, section: &TableSection<'_>) -> Option<()> {
    let names = [
        keys.countries.as_ref().map(Vec::len),
        keys.cities.as_ref().map(Vec::len),
        keys.asns.as_ref().map(Vec::len),
        keys.crawlers.as_ref().map(Vec::len),
    ];
    let names_nobody = keys.cidrs.as_ref().is_some_and(|cidrs| cidrs.is_empty())
        && names.iter().all(|names| *names == Some(0));
    if !section.has("file") && names_nobody {
        section.report.warning(
            &section.place,
            "the list names nobody",
            "write cidrs = [\"192.0.2.0/24\"], or file = \"bad.txt\" with one block a line",
        );
    }
    Some(())
}

fn countries(field: &KeyField<'_>) -> Option<Vec<Option<CountryCode>>> {
    Some(named(field, GeoField::Country)?.countries)
}

fn cities(field: &KeyField<'_>) -> Option<Vec<Option<Arc<str>>>> {
    Some(named(field, GeoField::City)?.cities)
}

fn asns(field: &KeyField<'_>) -> Option<Vec<Option<u32>>> {
    Some(named(field, GeoField::Asn)?.asns)
}

/// Reads the places of a list, which has no exceptions: `allow` and `block` of other lists are those.
fn named(field: &KeyField<'_>, geo: GeoField) -> Option<PlaceSet> {
    let named = geo::places(field, geo)?;
    without_exceptions(field, named.except.is_empty(), named.of)
}

fn crawlers(field: &KeyField<'_>) -> Option<Vec<Name>> {
    let named = crawler::named(field)?;
    without_exceptions(field, named.except.is_empty(), named.of)
}

/// Refuses exceptions in a list.
fn without_exceptions<T>(field: &KeyField<'_>, has_none: bool, named: T) -> Option<T> {
    if has_none {
        return Some(named);
    }
    field.refuse(
        "a list has no exceptions",
        "write them in a list of their own, and name that in `allow` where this one is in `block`",
    )
}

fn cidrs(field: &KeyField<'_>) -> Option<Arc<CidrSet>> {
    let blocks = all(field.elements()?.iter().map(cidr::read))?;
    Some(Arc::new(CidrSet::new(blocks)))
}

/// Reads `allow` and `block` of `[client]` or of a route; whether the lists are defined is judged when all are known.
pub(crate) fn uses(section: &TableSection<'_>) -> Option<ListUse> {
    let ListNames { allow, block } = ListNames::read_keys(section)?;
    let values = |names: Vec<PlacedValue<Name>>| names.into_iter().map(|name| name.value).collect();
    Some(ListUse {
        allow: values(allow),
        block: values(block),
    })
}

/// Refuses a list that is allowed and blocked, and notes the uses of the others.
fn check_names(keys: &mut ListNamesKeys, section: &TableSection<'_>) -> Option<()> {
    let allow = keys.allow.iter().flatten();
    let block = keys.block.iter().flatten();
    let is_blocked =
        |name: &&PlacedValue<Name>| block.clone().any(|other| other.value == name.value);
    if let Some(name) = allow.clone().find(is_blocked) {
        let message = format!("the list {} is allowed here too", quoted(&name.value));
        section.refuse::<()>("block", message, "leave it out of one of the two");
        keys.block = None;
    }
    let both = [&keys.allow, &keys.block].into_iter().flatten().flatten();
    section.report.note_lists(both);
    Some(())
}

fn names(field: &KeyField<'_>) -> Option<Vec<PlacedValue<Name>>> {
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

/// One block or address a line, as [`cidr::lines`] reads them. Lines that are none are left out, and mark the file as broken.
fn file(field: &KeyField<'_>) -> Option<ListFile> {
    let (path, text) = text_or_warning(field)?;
    let shown = quoted(&path.display().to_string());
    let mut blocks = Vec::new();
    let mut wrong = usize::from(text.is_none());
    let text = text.unwrap_or_default();
    for (line, entry) in cidr::lines(&text) {
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
                    let message = format!("{shown}, line {line}: {}", mistake.message);
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
