//! Declares `compress`: which answers are compressed, for every route and for one.

use std::sync::Arc;

use sluicegate_config_derive::Table;

use crate::declaration::{IntegerIn, ListBy, SizeIn, TEXT};
use crate::field::{KeyField, all, quoted};
use crate::problem::ParseError;
use crate::section::TableSection;
use crate::suggest;

/// The types of the web that compression makes smaller.
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

/// Most types of one list.
const MOST: usize = 64;

/// Compression of responses for clients that accept it. Excluded are responses that have a coding already, partial responses (206), and
/// those with no-transform. The table of a route takes precedence, and `encodings = []` disables compression there. docs/shaping.md
/// describes the BREACH attack. Default: none.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "compress")]
pub struct CompressRules {
    /// The codings in order of preference: "zstd", "br", "gzip". The preferences of the client take precedence. An empty list disables
    /// compression.
    #[key(
        example = "[\"zstd\", \"br\", \"gzip\"]",
        default = ContentCoding::ALL.to_vec(),
        reader = ListBy(codings, TEXT)
    )]
    pub encodings: Vec<ContentCoding>,
    /// The compression level, 1 to 9. Default: 3 for zstd, 4 for br, 5 for gzip.
    #[key(example = "4", reader = IntegerIn(1..=9))]
    pub level: Option<CompressionLevel>,
    /// Responses with a smaller Content-Length are not compressed, 0B to 1GiB.
    #[key(example = "1024", shown = "\"1KiB\"", default = 1024, reader = SizeIn(0..=1 << 30))]
    pub min_bytes: u64,
    /// Media types that are compressed. Default: text/*, JSON, JavaScript, XML, WebAssembly, SVG, TrueType.
    #[key(
        example = "[\"text/*\"]",
        shown = "[\"text/*\", \"application/json\"]",
        default = TYPES.map(Box::from).to_vec(),
        reader = ListBy(media_ranges, TEXT)
    )]
    pub types: Vec<Box<str>>,
}

/// A content coding, RFC 9110 §8.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCoding {
    /// RFC 8878
    Zstd,
    /// RFC 7932
    Brotli,
    /// RFC 1952
    Gzip,
}

impl ContentCoding {
    /// All of them, in the usual order of preference.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Returns its name in `Content-Encoding`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }
}

/// The effort of a coding, from 1 to 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionLevel(pub u8);

impl TryFrom<u64> for CompressionLevel {
    type Error = std::num::TryFromIntError;

    fn try_from(level: u64) -> Result<Self, Self::Error> {
        u8::try_from(level).map(Self)
    }
}

/// Reads the `compress` of a route or of all: `None` inside when it is not written, outside when it is wrong.
pub(crate) fn from_section(section: &TableSection<'_>) -> Option<Option<Arc<CompressRules>>> {
    let example = "{ encodings = [\"zstd\", \"br\", \"gzip\"] }";
    section.optional("compress", example, |field| {
        CompressRules::read(field.section()?).map(Arc::new)
    })
}

fn codings(field: &KeyField<'_>) -> Option<Vec<ContentCoding>> {
    let mut seen: Vec<ContentCoding> = Vec::new();
    let codings = field.elements()?.into_iter().map(|element| {
        let coding = coding(&element)?;
        if seen.contains(&coding) {
            return element.refuse(format!("{} is named twice", coding.name()), "write it once");
        }
        seen.push(coding);
        Some(coding)
    });
    all(codings)
}

fn coding(element: &KeyField<'_>) -> Option<ContentCoding> {
    let words = ContentCoding::ALL.map(|coding| (coding.name(), coding));
    element.choice(&words, |text| {
        let message = format!("there is no coding {} here", quoted(text));
        let names = ContentCoding::ALL.map(ContentCoding::name);
        let meant = match text {
            "brotli" => Some("br"),
            _ => suggest::nearest(text, names),
        };
        let advice = match meant {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => "write some of \"zstd\", \"br\", \"gzip\"".to_owned(),
        };
        ParseError::with_advice(message, advice)
    })
}

fn media_ranges(field: &KeyField<'_>) -> Option<Vec<Box<str>>> {
    let elements = field.list()?;
    if elements.len() > MOST {
        return field.refuse(
            format!("{} types are too many", elements.len()),
            format!("keep at most {MOST}"),
        );
    }
    all(elements.iter().map(|element| element.parsed(media_range)))
}

/// `text/html` or `text/*`.
fn media_range(text: &str) -> Result<Box<str>, ParseError> {
    let wrong = || ParseError::new(format!("{} is no media type", quoted(text)));
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
