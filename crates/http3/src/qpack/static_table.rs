//! Owns the static table of RFC 9204 Appendix A.

/// A field of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct StaticField {
    /// The name.
    pub(super) name: &'static [u8],
    /// The value; empty where the table has the name alone.
    pub(super) value: &'static [u8],
}

/// The entries. The first has the index 0.
pub(super) const FIELDS: [StaticField; 99] = [
    field(b":authority", b""),
    field(b":path", b"/"),
    field(b"age", b"0"),
    field(b"content-disposition", b""),
    field(b"content-length", b"0"),
    field(b"cookie", b""),
    field(b"date", b""),
    field(b"etag", b""),
    field(b"if-modified-since", b""),
    field(b"if-none-match", b""),
    field(b"last-modified", b""),
    field(b"link", b""),
    field(b"location", b""),
    field(b"referer", b""),
    field(b"set-cookie", b""),
    field(b":method", b"CONNECT"),
    field(b":method", b"DELETE"),
    field(b":method", b"GET"),
    field(b":method", b"HEAD"),
    field(b":method", b"OPTIONS"),
    field(b":method", b"POST"),
    field(b":method", b"PUT"),
    field(b":scheme", b"http"),
    field(b":scheme", b"https"),
    field(b":status", b"103"),
    field(b":status", b"200"),
    field(b":status", b"304"),
    field(b":status", b"404"),
    field(b":status", b"503"),
    field(b"accept", b"*/*"),
    field(b"accept", b"application/dns-message"),
    field(b"accept-encoding", b"gzip, deflate, br"),
    field(b"accept-ranges", b"bytes"),
    field(b"access-control-allow-headers", b"cache-control"),
    field(b"access-control-allow-headers", b"content-type"),
    field(b"access-control-allow-origin", b"*"),
    field(b"cache-control", b"max-age=0"),
    field(b"cache-control", b"max-age=2592000"),
    field(b"cache-control", b"max-age=604800"),
    field(b"cache-control", b"no-cache"),
    field(b"cache-control", b"no-store"),
    field(b"cache-control", b"public, max-age=31536000"),
    field(b"content-encoding", b"br"),
    field(b"content-encoding", b"gzip"),
    field(b"content-type", b"application/dns-message"),
    field(b"content-type", b"application/javascript"),
    field(b"content-type", b"application/json"),
    field(b"content-type", b"application/x-www-form-urlencoded"),
    field(b"content-type", b"image/gif"),
    field(b"content-type", b"image/jpeg"),
    field(b"content-type", b"image/png"),
    field(b"content-type", b"text/css"),
    field(b"content-type", b"text/html; charset=utf-8"),
    field(b"content-type", b"text/plain"),
    field(b"content-type", b"text/plain;charset=utf-8"),
    field(b"range", b"bytes=0-"),
    field(b"strict-transport-security", b"max-age=31536000"),
    field(
        b"strict-transport-security",
        b"max-age=31536000; includesubdomains",
    ),
    field(
        b"strict-transport-security",
        b"max-age=31536000; includesubdomains; preload",
    ),
    field(b"vary", b"accept-encoding"),
    field(b"vary", b"origin"),
    field(b"x-content-type-options", b"nosniff"),
    field(b"x-xss-protection", b"1; mode=block"),
    field(b":status", b"100"),
    field(b":status", b"204"),
    field(b":status", b"206"),
    field(b":status", b"302"),
    field(b":status", b"400"),
    field(b":status", b"403"),
    field(b":status", b"421"),
    field(b":status", b"425"),
    field(b":status", b"500"),
    field(b"accept-language", b""),
    field(b"access-control-allow-credentials", b"FALSE"),
    field(b"access-control-allow-credentials", b"TRUE"),
    field(b"access-control-allow-headers", b"*"),
    field(b"access-control-allow-methods", b"get"),
    field(b"access-control-allow-methods", b"get, post, options"),
    field(b"access-control-allow-methods", b"options"),
    field(b"access-control-expose-headers", b"content-length"),
    field(b"access-control-request-headers", b"content-type"),
    field(b"access-control-request-method", b"get"),
    field(b"access-control-request-method", b"post"),
    field(b"alt-svc", b"clear"),
    field(b"authorization", b""),
    field(
        b"content-security-policy",
        b"script-src 'none'; object-src 'none'; base-uri 'none'",
    ),
    field(b"early-data", b"1"),
    field(b"expect-ct", b""),
    field(b"forwarded", b""),
    field(b"if-range", b""),
    field(b"origin", b""),
    field(b"purpose", b"prefetch"),
    field(b"server", b""),
    field(b"timing-allow-origin", b"*"),
    field(b"upgrade-insecure-requests", b"1"),
    field(b"user-agent", b""),
    field(b"x-forwarded-for", b""),
    field(b"x-frame-options", b"deny"),
    field(b"x-frame-options", b"sameorigin"),
];

const fn field(name: &'static [u8], value: &'static [u8]) -> StaticField {
    StaticField { name, value }
}

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StaticMatch {
    /// The entry at this index has its name and its value.
    Field(usize),
    /// The first entry with its name has this index.
    Name(usize),
    /// No entry has its name.
    Nothing,
}

/// Finds a field, which is no pseudo-field.
pub(super) fn find(name: &[u8], value: &[u8]) -> StaticMatch {
    let mut found = StaticMatch::Nothing;
    let mut next = *CHAINS.first.get(name.len()).unwrap_or(&END);
    while let Some(field) = FIELDS.get(usize::from(next)) {
        let index = usize::from(next);
        if field.name == name {
            if field.value == value {
                return StaticMatch::Field(index);
            }
            if found == StaticMatch::Nothing {
                found = StaticMatch::Name(index);
            }
        }
        next = CHAINS.next[index];
    }
    found
}

/// Returns the index of the entry with this status.
pub(super) fn status_index(status: u16) -> Option<usize> {
    let index = match status {
        103 => 24,
        200 => 25,
        304 => 26,
        404 => 27,
        503 => 28,
        100 => 63,
        204 => 64,
        206 => 65,
        302 => 66,
        400 => 67,
        403 => 68,
        421 => 69,
        425 => 70,
        500 => 71,
        _ => return None,
    };
    Some(index)
}

/// Bytes of the longest name, and one more.
const LENGTHS: usize = 33;
/// The end of a chain: no index.
const END: u8 = u8::MAX;
/// The entries with names of one length, each length a chain in the order of the table.
static CHAINS: ChainedFields = ChainedFields::new();

struct ChainedFields {
    /// The first entry of each length of names.
    first: [u8; LENGTHS],
    /// The next entry of the same length, by the index of an entry.
    next: [u8; FIELDS.len()],
}

impl ChainedFields {
    const fn new() -> Self {
        let mut chained = Self {
            first: [END; LENGTHS],
            next: [END; FIELDS.len()],
        };
        let mut index = FIELDS.len();
        while index > 0 {
            index -= 1;
            let name = FIELDS[index].name;
            // Pseudo-fields are looked up by themselves.
            if name[0] != b':' {
                chained.next[index] = chained.first[name.len()];
                chained.first[name.len()] = index as u8;
            }
        }
        chained
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: entries are found by name, and by name and value. Method: each entry; RFC 9204 has no two that are the same.
    #[test]
    fn entries_are_found() {
        for (place, field) in FIELDS.iter().enumerate() {
            if field.name.starts_with(b":") {
                assert_eq!(find(field.name, field.value), StaticMatch::Nothing);
                continue;
            }
            assert_eq!(find(field.name, field.value), StaticMatch::Field(place));
            let first = FIELDS.iter().position(|other| other.name == field.name);
            let first = StaticMatch::Name(first.unwrap());
            assert_eq!(find(field.name, b"another"), first);
        }
        for name in [&b""[..], b"x-a", b"serves", &[b'a'; 40]] {
            assert_eq!(find(name, b""), StaticMatch::Nothing);
        }
    }

    /// Goal: each status of the table is found, and no other one. Method: all statuses.
    #[test]
    fn statuses_are_found() {
        for status in 100..1000 {
            let digits = status.to_string();
            let is_it =
                |field: &StaticField| field.name == b":status" && field.value == digits.as_bytes();
            assert_eq!(status_index(status), FIELDS.iter().position(is_it));
        }
    }
}
