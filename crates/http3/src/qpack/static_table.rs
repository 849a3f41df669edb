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

/// Returns the index of an entry with this name and value.
pub(super) fn index(name: &[u8], value: &[u8]) -> Option<usize> {
    let first = name_index(name)?;
    let behind = FIELDS.get(first..)?;
    let is_same = |field: &StaticField| field.name == name && field.value == value;
    behind.iter().position(is_same).map(|place| first + place)
}

/// Returns the index of the first entry with this name.
pub(super) fn name_index(name: &[u8]) -> Option<usize> {
    FIELDS.iter().position(|field| field.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: entries are found by name, and by name and value. Method: each entry; RFC 9204 has no two that are the same.
    #[test]
    fn entries_are_found() {
        for (place, field) in FIELDS.iter().enumerate() {
            assert_eq!(index(field.name, field.value), Some(place));
            let first = name_index(field.name).unwrap();
            assert!(first <= place && FIELDS[first].name == field.name);
        }
        assert_eq!(index(b"server", b"x"), None);
        assert_eq!(name_index(b"x-a"), None);
    }
}
