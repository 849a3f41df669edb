//! Finds the most specific route of one host, by the segments of the path.
//!
//! A look-up goes down in the order of precedence: text, then parameter, then the ends of this node. The first entry that
//! takes the request is therefore the greatest of all, and looking can stop. When the more specific branch has none, the
//! look-up comes back and tries the next.

use std::collections::HashMap;

use http::{HeaderMap, Method};

use super::header::HeaderMatch;
use super::method::MethodMatch;
use super::pattern::{End, Pattern, Step};
use super::summary::Summary;

/// The routes whose patterns begin alike.
#[derive(Debug, Default)]
pub(super) struct Node {
    literals: HashMap<Box<str>, Node>,
    parameter: Option<Box<Node>>,
    slash: Entries,
    exact: Entries,
    tail: Entries,
}

/// What a request asks for beside host and path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) method: &'a Method,
    pub(super) headers: &'a HeaderMap,
}

/// One way into a route.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) route: usize,
    pub(super) summary: Summary,
    pub(super) methods: MethodMatch,
    pub(super) headers: HeaderMatch,
}

/// The entries of one pattern, the most specific first.
#[derive(Debug, Default)]
struct Entries(Vec<Entry>);

impl Node {
    pub(super) fn insert(&mut self, pattern: &Pattern, entry: Entry) {
        let mut node = self;
        for step in &pattern.steps {
            node = match step {
                Step::Literal(text) => node.literals.entry(text.clone()).or_default(),
                Step::Parameter => node.parameter.get_or_insert_default(),
            };
        }
        match pattern.end {
            End::Slash => node.slash.insert(entry),
            End::Exact => node.exact.insert(entry),
            End::Tail => node.tail.insert(entry),
        }
    }

    /// The most specific entry that takes a request for this path, which is in normal form.
    pub(super) fn find(&self, path: &str, asked: &Asked<'_>) -> Option<&Entry> {
        self.walk(Some(path.strip_prefix('/').unwrap_or(path)), asked)
    }

    /// `rest` is what follows the slash behind this node's segment; `None` where there is no such slash.
    fn walk(&self, rest: Option<&str>, asked: &Asked<'_>) -> Option<&Entry> {
        match rest {
            None => self.exact.first(asked),
            Some("") => self
                .slash
                .first(asked)
                .or_else(|| self.exact.first(asked))
                .or_else(|| self.tail.first(asked)),
            Some(rest) => {
                let (segment, rest) = match rest.split_once('/') {
                    Some((segment, rest)) => (segment, Some(rest)),
                    None => (rest, None),
                };
                let literal = self
                    .literals
                    .get(segment)
                    .and_then(|node| node.walk(rest, asked));
                literal
                    .or_else(|| {
                        self.parameter
                            .as_ref()
                            .and_then(|node| node.walk(rest, asked))
                    })
                    .or_else(|| self.tail.first(asked))
            }
        }
    }
}

impl Entries {
    fn insert(&mut self, entry: Entry) {
        let at = self
            .0
            .partition_point(|other| other.summary > entry.summary);
        self.0.insert(at, entry);
    }

    fn first(&self, asked: &Asked<'_>) -> Option<&Entry> {
        self.0
            .iter()
            .find(|entry| entry.methods.takes(asked.method) && entry.headers.takes(asked.headers))
    }
}
