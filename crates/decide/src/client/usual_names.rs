//! Finds the names of the fields that most requests have by one comparison, so that these fields need no review.
//!
//! The table has those names that pass in any request under one configuration. A name that it lacks is reviewed as any other, so a missing
//! name costs time alone.

/// Names that browsers and libraries send. No two have the same slot.
pub(super) const NAMES: [&str; 43] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "authorization",
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "grpc-timeout",
    "host",
    "idempotency-key",
    "if-modified-since",
    "if-none-match",
    "keep-alive",
    "origin",
    "pragma",
    "priority",
    "range",
    "referer",
    "save-data",
    "sec-ch-ua",
    "sec-ch-ua-mobile",
    "sec-ch-ua-platform",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-user",
    "sec-gpc",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-version",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "x-requested-with",
];

const SLOTS: usize = 128;

/// Usual names, each in the slot that its letters name; an empty text where there is none.
#[derive(Clone, Debug)]
pub(super) struct UsualNames(Box<[&'static str; SLOTS]>);

impl UsualNames {
    /// Returns the table of those names that pass.
    pub(super) fn new(passes: impl Fn(&'static str) -> bool) -> Self {
        let mut slots = Box::new([""; SLOTS]);
        for name in NAMES.into_iter().filter(|&name| passes(name)) {
            slots[slot_of(name.as_bytes())] = name;
        }
        Self(slots)
    }

    /// Returns whether the table has this name, which is in lower case.
    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.0[slot_of(name)].as_bytes() == name
    }
}

/// Returns the slot of a name. The factors are the smallest that give each of [`NAMES`] its own.
fn slot_of(name: &[u8]) -> usize {
    let [first, .., before, _, last] = *name else {
        return 0;
    };
    let [first, before, last] = [first, before, last].map(usize::from);
    (14 * name.len() + 16 * first + before + last) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each name that passes is found, and no other text. Method: the table of all names, of none, and texts beside them.
    #[test]
    fn names_that_pass_are_found() {
        let (all, none) = (UsualNames::new(|_| true), UsualNames::new(|_| false));
        for name in NAMES {
            assert!(all.contains(name.as_bytes()), "{name}");
            assert!(!none.contains(name.as_bytes()), "{name}");
            let other = name.replace(|letter: char| !letter.is_ascii_alphabetic(), "_");
            assert_eq!(all.contains(other.as_bytes()), other == name, "{other}");
        }
        for name in ["te", "x-forwarded-for", "acceptt", "Accept"] {
            assert!(!all.contains(name.as_bytes()), "{name}");
        }
    }
}
