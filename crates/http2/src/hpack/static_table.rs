//! Owns the static table of RFC 7541 Appendix A.

/// A field of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct StaticField {
    /// The name.
    pub(super) name: &'static [u8],
    /// The value; empty where the table has the name alone.
    pub(super) value: &'static [u8],
}

/// The entries. The first has the index 1.
pub(super) const FIELDS: [StaticField; 61] = [
    field(b":authority", b""),
    field(b":method", b"GET"),
    field(b":method", b"POST"),
    field(b":path", b"/"),
    field(b":path", b"/index.html"),
    field(b":scheme", b"http"),
    field(b":scheme", b"https"),
    field(b":status", b"200"),
    field(b":status", b"204"),
    field(b":status", b"206"),
    field(b":status", b"304"),
    field(b":status", b"400"),
    field(b":status", b"404"),
    field(b":status", b"500"),
    field(b"accept-charset", b""),
    field(b"accept-encoding", b"gzip, deflate"),
    field(b"accept-language", b""),
    field(b"accept-ranges", b""),
    field(b"accept", b""),
    field(b"access-control-allow-origin", b""),
    field(b"age", b""),
    field(b"allow", b""),
    field(b"authorization", b""),
    field(b"cache-control", b""),
    field(b"content-disposition", b""),
    field(b"content-encoding", b""),
    field(b"content-language", b""),
    field(b"content-length", b""),
    field(b"content-location", b""),
    field(b"content-range", b""),
    field(b"content-type", b""),
    field(b"cookie", b""),
    field(b"date", b""),
    field(b"etag", b""),
    field(b"expect", b""),
    field(b"expires", b""),
    field(b"from", b""),
    field(b"host", b""),
    field(b"if-match", b""),
    field(b"if-modified-since", b""),
    field(b"if-none-match", b""),
    field(b"if-range", b""),
    field(b"if-unmodified-since", b""),
    field(b"last-modified", b""),
    field(b"link", b""),
    field(b"location", b""),
    field(b"max-forwards", b""),
    field(b"proxy-authenticate", b""),
    field(b"proxy-authorization", b""),
    field(b"range", b""),
    field(b"referer", b""),
    field(b"refresh", b""),
    field(b"retry-after", b""),
    field(b"server", b""),
    field(b"set-cookie", b""),
    field(b"strict-transport-security", b""),
    field(b"transfer-encoding", b""),
    field(b"user-agent", b""),
    field(b"vary", b""),
    field(b"via", b""),
    field(b"www-authenticate", b""),
];

/// The index of the first entry of each final status that has one.
const FIRST_STATUS: usize = 8;
/// The entries of statuses.
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
/// The first entry of a name that is no pseudo-field.
const FIRST_FIELD: usize = 15;
/// The first entry of each pseudo-field.
const PSEUDO_FIELDS: [usize; 5] = [1, 2, 4, 6, FIRST_STATUS];

const fn field(name: &'static [u8], value: &'static [u8]) -> StaticField {
    StaticField { name, value }
}

/// Returns the entry with this index.
#[inline]
pub(super) fn get(index: usize) -> Option<StaticField> {
    FIELDS.get(index.checked_sub(1)?).copied()
}

/// Returns the index of the entry for a status; `None` where the table has none.
pub(super) fn status_index(status: u16) -> Option<usize> {
    let found = STATUSES.iter().position(|other| *other == status);
    found.map(|place| FIRST_STATUS + place)
}

/// Returns the index of the entry for a pseudo-field of a request; `None` where the table has its name alone.
pub(super) fn pseudo_index(name: &[u8], value: &[u8]) -> Option<usize> {
    let mut fields = FIELDS.iter().take(FIRST_STATUS - 1);
    let found = fields.position(|field| field.name == name && field.value == value);
    found.map(|place| place + 1)
}

/// Returns the index of the first entry with this name.
#[inline]
pub(super) fn name_index(name: &[u8]) -> Option<usize> {
    let group = GROUPS.get(name.len())?;
    let mut index = usize::from(group.first);
    while index != 0 {
        if FIELDS[index - 1].name == name {
            return Some(index);
        }
        index = usize::from(NEXT[index]);
    }
    None
}

/// The entries whose names have one length.
#[derive(Clone, Copy)]
struct LengthGroup {
    /// The first of them; 0 for none.
    first: u8,
}

/// Bytes of the longest name, and one more.
const LENGTHS: usize = 28;
/// The first entry of each length of names.
const GROUPS: [LengthGroup; LENGTHS] = ChainedEntries::NEW.groups;
/// The next entry whose name has the same length, by the index of an entry; 0 for none.
const NEXT: [u8; 62] = ChainedEntries::NEW.next;

struct ChainedEntries {
    groups: [LengthGroup; LENGTHS],
    next: [u8; 62],
}

impl ChainedEntries {
    const NEW: Self = Self::new();

    const fn new() -> Self {
        let mut chained = Self {
            groups: [LengthGroup { first: 0 }; LENGTHS],
            next: [0; 62],
        };
        // The last ones of their chains: few fields of a message are pseudo-fields.
        let mut pseudo = PSEUDO_FIELDS.len();
        while pseudo > 0 {
            pseudo -= 1;
            chained.add(PSEUDO_FIELDS[pseudo]);
        }
        let mut index = FIELDS.len();
        while index >= FIRST_FIELD {
            chained.add(index);
            index -= 1;
        }
        chained
    }

    const fn add(&mut self, index: usize) {
        let length = FIELDS[index - 1].name.len();
        self.next[index] = self.groups[length].first;
        self.groups[length].first = index as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each name is found at its first index. Method: all entries, and names that are none.
    #[test]
    fn each_name_is_found() {
        for field in FIELDS {
            let first = FIELDS.iter().position(|other| other.name == field.name);
            assert_eq!(name_index(field.name), first.map(|place| place + 1));
        }
        for name in [
            &b""[..],
            b"x",
            b"dat",
            b"dave",
            b"x-request-id",
            b":protocol",
            &[b'a'; 40],
        ] {
            assert_eq!(name_index(name), None);
        }
        assert_eq!(status_index(404), Some(13));
        assert_eq!(get(13).map(|field| field.value), Some(&b"404"[..]));
        assert_eq!(status_index(429), None);
        assert_eq!(pseudo_index(b":scheme", b"https"), Some(7));
        assert_eq!(pseudo_index(b":status", b"200"), None);
        assert_eq!(pseudo_index(b":path", b"/x"), None);
        assert!(get(0).is_none() && get(62).is_none());
    }
}
