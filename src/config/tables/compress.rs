//! `compress`: which answers are compressed, for every route and for one.

use std::sync::Arc;

use crate::config::field::{Field, all, quoted};
use crate::config::problem::Mistake;
use crate::config::rules::{Coding, CompressRules, Effort};
use crate::config::section::Section;
use crate::config::suggest;

/// What gains by it, of what the web is made of.
const TYPES: [&str; 14] = [
    "text/*",
    "application/json",
    "application/ld+json",
    "application/problem+json",
    "application/manifest+json",
    "application/vnd.api+json",
    "application/javascript",
    "application/xml",
    "application/xhtml+xml",
    "application/rss+xml",
    "application/atom+xml",
    "application/wasm",
    "image/svg+xml",
    "font/ttf",
];

/// Below, the head of a packet weighs more than what is gained.
const MIN_BYTES: u64 = 1024;
const LARGEST_MIN: u64 = 1 << 30;
/// Most types of one list.
const MOST: usize = 64;

/// The `compress` of a route or of all: `None` inside when it is not written, outside when it is wrong.
pub(in crate::config) fn of(section: &Section<'_>) -> Option<Option<Arc<CompressRules>>> {
    let example = "{ encodings = [\"zstd\", \"br\", \"gzip\"] }";
    section.optional("compress", example, |field| rules(field).map(Arc::new))
}

fn rules(field: &Field<'_>) -> Option<CompressRules> {
    let section = field.section()?;
    let encodings = section.or(
        "encodings",
        "[\"zstd\", \"br\", \"gzip\"]",
        Coding::ALL.to_vec(),
        |field| {
            let mut seen: Vec<Coding> = Vec::new();
            let codings = field.elements()?.into_iter().map(|element| {
                let coding = coding(&element)?;
                if seen.contains(&coding) {
                    return element
                        .refuse(format!("{} is named twice", coding.name()), "write it once");
                }
                seen.push(coding);
                Some(coding)
            });
            all(codings.collect::<Vec<_>>())
        },
    );
    let level = section.optional("level", "4", |field| {
        let level = field.integer(1..=9)?;
        u8::try_from(level).ok().map(Effort)
    });
    let min_bytes = section.or("min_bytes", "1024", MIN_BYTES, |field| {
        field.size(0..=LARGEST_MIN)
    });
    let types = section.or(
        "types",
        "[\"text/*\"]",
        TYPES.map(Box::from).to_vec(),
        |field| {
            let elements = field.list()?;
            if elements.len() > MOST {
                return field.refuse(
                    format!("{} types are too many", elements.len()),
                    format!("keep at most {MOST}"),
                );
            }
            all(elements
                .iter()
                .map(|element| element.parsed(media_range))
                .collect::<Vec<_>>())
        },
    );
    section.finish();
    Some(CompressRules {
        encodings: encodings?,
        level: level?,
        min_bytes: min_bytes?,
        types: types?,
    })
}

fn coding(element: &Field<'_>) -> Option<Coding> {
    let words = Coding::ALL.map(|coding| (coding.name(), coding));
    element.choice(&words, |text| {
        let message = format!("there is no coding {} here", quoted(text));
        let names = Coding::ALL.map(Coding::name);
        let meant = match text {
            "brotli" => Some("br"),
            _ => suggest::nearest(text, names),
        };
        let advice = match meant {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => "write some of \"zstd\", \"br\", \"gzip\"".to_owned(),
        };
        Mistake::with_advice(message, advice)
    })
}

/// `text/html` or `text/*`.
fn media_range(text: &str) -> Result<Box<str>, Mistake> {
    let wrong = || Mistake::new(format!("{} is no media type", quoted(text)));
    let (kind, subtype) = text.split_once('/').ok_or_else(wrong)?;
    let is_token = |text: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        !text.is_empty() && text.bytes().all(allowed)
    };
    if !is_token(kind) || !(subtype == "*" || is_token(subtype)) {
        return Err(wrong());
    }
    Ok(text.to_ascii_lowercase().into())
}
