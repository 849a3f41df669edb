//! Declares `balance`, `hash_key` and `sticky` of an origin: the choice of a server for the next request.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_config_derive::Table;

use crate::declaration::{DurationIn, ParsedText, ReadBy, WordOf};
use crate::field::{KeyField, quoted};
use crate::form::ValueKind;
use crate::key;
use crate::problem::ParseError;
use crate::rules::{Balance, KeyPart, KeyTemplate, ValueSource};
use crate::section::TableSection;

/// The default name of the cookie.
const COOKIE: &str = "sluicegate-server";

/// Declares the keys of [`Balance`].
#[derive(Table)]
pub(super) struct BalanceTable {
    /// The choice of a server:
    ///   "round-robin"     default: each in turn, in proportion to its weight
    ///   "least-requests"  the one with the fewest requests in flight for its weight
    ///   "power-of-two"    of two random servers, the one with fewer requests in flight for its weight
    ///   "hash"            requests with the same hash_key go to the same server; a change of one server moves only its own requests
    #[key(
        example = "\"round-robin\"",
        default = "round-robin",
        reader = WordOf(
            &[
                ("round-robin", "round-robin"),
                ("least-requests", "least-requests"),
                ("power-of-two", "power-of-two"),
                ("hash", "hash")
            ],
            "there is no balance {}"
        )
    )]
    balance: &'static str,
    /// Required with balance = "hash": a key as of a limit, made of client.ip, host, path, method, header.NAME, cookie.NAME and query.NAME.
    /// Requests that lack a part are distributed in turn.
    #[key(
        example = "\"client.ip\"",
        reader = ReadBy(hash_key, &[ValueKind::String, ValueKind::Array])
    )]
    hash_key: Option<KeyTemplate>,
}

/// Reads `balance`, and the `hash_key` that belongs to one of its words.
pub(super) fn read(section: &TableSection<'_>) -> Option<Balance> {
    let table = BalanceTable::read_keys(section)?;
    match (table.balance, table.hash_key) {
        ("hash", Some(key)) => Some(Balance::Hash(key)),
        ("hash", None) => {
            section.report.absent(
                &section.place,
                "nothing is said about what \"hash\" goes by",
                "write hash_key = \"client.ip\", or another part of a request",
            );
            None
        }
        (name, Some(_)) => {
            section.report.error(
                &section.place,
                format!("hash_key says nothing to balance = \"{name}\""),
                "write balance = \"hash\", or leave hash_key out",
            );
            None
        }
        ("least-requests", None) => Some(Balance::LeastRequests),
        ("power-of-two", None) => Some(Balance::PowerOfTwo),
        _ => Some(Balance::RoundRobin),
    }
}

/// Reads a key like that of a limit, of parts that every route knows from the head alone.
fn hash_key(field: &KeyField<'_>) -> Option<KeyTemplate> {
    let template = key::template(field)?;
    let unfit = template.0.iter().find(|part| match part {
        KeyPart::Global | KeyPart::Place(_) => true,
        KeyPart::Value(value) => !matches!(
            value.source,
            ValueSource::Header(_) | ValueSource::Cookie(_) | ValueSource::Query(_)
        ),
        _ => false,
    });
    match unfit {
        Some(part) => field.refuse(
            format!("a server cannot be chosen by \"{part}\""),
            "use client.ip, host, path, method, header.NAME, cookie.NAME or query.NAME",
        ),
        None => Some(template),
    }
}

/// Session affinity: a cookie keeps a client at its server. With this table the defaults below apply. For cookies that survive the process
/// set [server] state_dir; for cookies that several gateways share set [store] secret_file. Default: none.
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the reference has tables in brackets"
)]
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "origin.NAME.sticky")]
pub struct StickyRules {
    /// Name of the cookie.
    #[key(example = "\"sluicegate-server\"", default = Arc::from(COOKIE), reader = ParsedText(cookie_name))]
    pub cookie: Arc<str>,
    /// The lifetime of the cookie. 1s to 400d. Default: until the browser is closed.
    #[key(
        example = "\"1h\"",
        reader = DurationIn(Duration::from_secs(1)..=Duration::from_secs(400 * 86_400))
    )]
    pub ttl: Option<Duration>,
}

/// RFC 6265 §4.1.1: a cookie's name is a token (RFC 9110 §5.6.2).
fn cookie_name(text: &str) -> Result<Arc<str>, ParseError> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if (1..=64).contains(&text.len()) && text.bytes().all(is_token) {
        return Ok(Arc::from(text));
    }
    Err(ParseError::new(format!(
        "{} cannot be the name of a cookie",
        quoted(text)
    )))
}
