//! Parses the `Content-Type` of a body, or of a part of a form, by a grammar within which parsers agree.
//!
//! Parsers find a parameter in many ways: with a regular expression anywhere in the field, by the rules of RFC 2231 (`charset*=`,
//! `charset*0=`), with or without blanks, quotes and escapes. A parameter that only the origin finds gives the bytes of the body another
//! meaning. So the parameters are an allow-list: `charset` once, UTF-8 or one that is read as ASCII; `boundary` once, for a form; and
//! those of [`HARMLESS`]. A field with anything else is in no reading.
//!
//! # Limits
//! A field has at most [`FIELD_BYTES`]; it is read without allocation.

/// Longest field. The longest of known clients, a list of profiles, has half of it.
const FIELD_BYTES: usize = 512;

/// Longest boundary, RFC 2046 §5.1.1.
const BOUNDARY_BYTES: usize = 70;

/// Words by which some origins choose the parser of a body, wherever they stand in the field, and names of parameters that change how it is
/// read. They stand in no other parameter.
const KIND_WORDS: [&str; 6] = [
    "boundary",
    "charset",
    "form-data",
    "multipart",
    "octet-stream",
    "urlencoded",
];

/// The word that begins with each letter.
const KIND_WORD_BY_INITIAL: [Option<&str>; 256] = {
    let mut words = [None; 256];
    let mut at = 0;
    while at < KIND_WORDS.len() {
        let initial = KIND_WORDS[at].as_bytes()[0];
        words[initial as usize] = Some(KIND_WORDS[at]);
        words[initial.to_ascii_uppercase() as usize] = Some(KIND_WORDS[at]);
        at += 1;
    }
    words
};

/// Returns whether a byte may stand in a value.
type ValueByte = fn(&u8) -> bool;

/// Parameters that change nothing about how bytes are read, in lower case, with the characters of their values.
const HARMLESS: [(&str, ValueByte); 14] = [
    // JSON:API 1.1 §5.2, RFC 6906: lists of URIs.
    ("ext", is_of_uris),
    ("profile", is_of_uris),
    // OData JSON Format 4.01 §3, with and without the prefix of 4.0; Verbose JSON of 3.0.
    ("ieee754compatible", is_of_word),
    ("metadata", is_of_word),
    ("odata", is_of_word),
    ("odata.metadata", is_of_word),
    ("odata.streaming", is_of_word),
    ("streaming", is_of_word),
    // FHIR R4 §3.1.0.1.13.
    ("fhirversion", is_of_word),
    // Versions of APIs, as ASP.NET API Versioning and vendors write them.
    ("api-version", is_of_word),
    ("v", is_of_word),
    ("version", is_of_word),
    // RFC 6381, of recordings that browsers upload: `video/webm;codecs=vp8,opus`.
    ("codecs", is_of_list),
    // RFC 4180 §3, of tables that browsers upload.
    ("header", is_of_word),
];

/// A media type with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentType<'a> {
    /// `type/subtype`, in the case in which it was sent.
    pub(super) essence: &'a str,
    pub(super) charset: Charset,
    /// The text between the parts of a form.
    pub(super) boundary: Option<&'a str>,
}

/// The encoding of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charset {
    /// UTF-8, declared or by default.
    Utf8,
    /// US-ASCII, or ISO 8859-1 of old clients: decoders differ in what they make of other bytes than ASCII.
    Ascii,
}

impl<'a> ContentType<'a> {
    /// Parses a field; returns `None` outside of the grammar.
    pub(super) fn parse(field: &'a str) -> Option<Self> {
        if field.len() > FIELD_BYTES {
            return None;
        }
        let essence_end = field.find(';').unwrap_or(field.len());
        let (essence, mut rest) = field.split_at(essence_end);
        let (kind, subtype) = essence.split_once('/')?;
        // A client that does not know the format of an image writes `image/*`.
        if !is_restricted_name(kind) || (!is_restricted_name(subtype) && subtype != "*") {
            return None;
        }
        let mut charset = None;
        let mut boundary = None;
        while !rest.is_empty() {
            let text = rest.strip_prefix(';')?;
            let text = text.strip_prefix(' ').unwrap_or(text);
            if text.is_empty() {
                // RFC 9110 §5.6.6: a parameter may be empty. Clients write one at the end.
                break;
            }
            let (name, text) = text.split_once('=')?;
            let (value, behind) = value_of(text)?;
            if name.eq_ignore_ascii_case("charset") && charset.is_none() {
                charset = Some(Charset::from_name(value)?);
            } else if name.eq_ignore_ascii_case("boundary") && boundary.is_none() {
                let is_form = starts_with_ignore_case(essence, "multipart/");
                boundary = Some(value).filter(|value| is_form && is_boundary(value));
                boundary?;
            } else if !is_harmless(name, value) {
                return None;
            }
            rest = behind;
        }
        Some(Self {
            essence,
            charset: charset.unwrap_or(Charset::Utf8),
            boundary,
        })
    }

    /// Returns whether the media type is this one.
    pub(super) fn is(&self, essence: &str) -> bool {
        self.essence.eq_ignore_ascii_case(essence)
    }

    /// Returns whether the media type begins so.
    pub(super) fn starts_with(&self, beginning: &str) -> bool {
        starts_with_ignore_case(self.essence, beginning)
    }

    /// Returns whether the media type is JSON: `application/json`, or `application/*+json` without a word by which origins choose another
    /// parser.
    pub(super) fn is_json(&self) -> bool {
        let Some((kind, subtype)) = self.essence.split_once('/') else {
            return false;
        };
        let is_suffixed = || ends_with_ignore_case(subtype, "+json") && !names_kind(subtype);
        kind.eq_ignore_ascii_case("application")
            && (subtype.eq_ignore_ascii_case("json") || is_suffixed())
    }
}

impl Charset {
    fn from_name(name: &str) -> Option<Self> {
        // Not the registered name, and no decoder that takes it takes it for another.
        if name.eq_ignore_ascii_case("utf-8") || name.eq_ignore_ascii_case("utf8") {
            Some(Self::Utf8)
        } else {
            let of_ascii = ["us-ascii", "ascii", "iso-8859-1"];
            let is_ascii = of_ascii
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known));
            is_ascii.then_some(Self::Ascii)
        }
    }

    /// Returns whether all decoders of this charset make the same of these bytes.
    pub(super) fn holds(self, bytes: &[u8]) -> bool {
        self == Self::Utf8 || bytes.is_ascii()
    }
}

/// Returns the charset by which an origin reads a request with this field, and `None` where origins may differ. Django decodes the query
/// by it too, whatever the media type is, so its other parameters do not matter here.
pub(super) fn charset_of_query(field: &[u8]) -> Option<Charset> {
    const WORD: &[u8] = b"charset";
    if field.len() > FIELD_BYTES {
        return None;
    }
    let Some(at) = find_ignore_case(field, WORD) else {
        return Some(Charset::Utf8);
    };
    let (before, word) = field.split_at(at);
    let is_parameter = before.ends_with(b";") || before.ends_with(b"; ");
    let behind = word[WORD.len()..].strip_prefix(b"=")?;
    let (name, rest) = value_of(std::str::from_utf8(behind).ok()?)?;
    let is_over = rest.is_empty() || rest.starts_with(';');
    let is_plain = is_parameter && is_over && !contains_ignore_case(rest, "charset");
    Charset::from_name(name).filter(|_| is_plain)
}

/// Returns whether some framework reads parameters from a body with this field: Laravel does wherever it finds `/json` or `+json`, Rails
/// for `text/x-json` and `application/jsonrequest`, and Rack for other kinds of multipart.
pub(super) fn may_have_parameters(field: &[u8]) -> bool {
    let words: [&[u8]; 3] = [b"form", b"json", b"multipart/"];
    let has_word = |word: &&[u8]| find_ignore_case(field, word).is_some();
    field.len() > FIELD_BYTES || words.iter().any(has_word)
}

/// Splits a value, with or without quotes, from the beginning of a text.
fn value_of(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('"') {
        Some(inner) => {
            let (value, rest) = inner.split_once('"')?;
            Some((value, rest)).filter(|_| !value.contains('\\'))
        }
        None => {
            let end = text.find(';').unwrap_or(text.len());
            let (value, rest) = text.split_at(end);
            let is_token = !value.is_empty() && !value.contains([' ', '"', '=', '?', '/', '(']);
            Some((value, rest)).filter(|_| is_token)
        }
    }
}

/// Letters, digits and those marks of RFC 6838 §4.2 that are in use.
fn is_restricted_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._+".contains(&byte);
    !name.is_empty() && name.bytes().all(is_allowed)
}

/// Returns whether all parsers read the boundary alike: RFC 2046 §5.1.1 without the marks at which some of them end it, without a word
/// that some of them look for anywhere, and not of dashes alone, as the delimiter begins.
fn is_boundary(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._+=/".contains(&byte);
    (1..=BOUNDARY_BYTES).contains(&text.len())
        && text.bytes().all(is_allowed)
        && text.bytes().any(|byte| byte.is_ascii_alphanumeric())
        && !contains_ignore_case(text, "charset")
}

fn is_harmless(name: &str, value: &str) -> bool {
    let known = HARMLESS
        .iter()
        .find(|(known, _)| name.eq_ignore_ascii_case(known));
    known.is_some_and(|(_, is_allowed)| {
        value.as_bytes().iter().all(is_allowed) && !names_kind(value)
    })
}

fn is_of_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

fn is_of_list(byte: &u8) -> bool {
    is_of_word(byte) || matches!(byte, b',' | b' ')
}

fn is_of_uris(byte: &u8) -> bool {
    is_of_word(byte)
        || matches!(
            byte,
            b' ' | b'~' | b':' | b'/' | b'?' | b'#' | b'@' | b'!' | b'$' | b'&' | b'+' | b'%'
        )
}

fn names_kind(text: &str) -> bool {
    let mut starts = text.bytes().enumerate();
    starts.any(|(at, byte)| {
        let word = KIND_WORD_BY_INITIAL[usize::from(byte)];
        word.is_some_and(|word| starts_with_ignore_case(&text[at..], word))
    })
}

fn starts_with_ignore_case(text: &str, beginning: &str) -> bool {
    let head = text.get(..beginning.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(beginning))
}

fn ends_with_ignore_case(text: &str, end: &str) -> bool {
    let at = text.len().checked_sub(end.len());
    at.and_then(|at| text.get(at..))
        .is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

fn contains_ignore_case(text: &str, word: &str) -> bool {
    find_ignore_case(text.as_bytes(), word.as_bytes()).is_some()
}

/// Returns where a word stands first, in any case.
fn find_ignore_case(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len())
        .position(|window| window.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what clients send is read. Method: fields of browsers, HTTP libraries and APIs, with their charset and boundary.
    #[test]
    fn fields_of_clients_are_read() {
        for (field, boundary) in [
            ("application/json", None),
            // requests, httpx, curl; OkHttp, .NET, axios; RestTemplate.
            ("application/json; charset=utf-8", None),
            ("application/json;charset=UTF-8", None),
            ("Application/JSON;Charset=\"utf-8\"", None),
            ("application/json; charset=us-ascii", None),
            ("text/plain; charset=utf8", None),
            // Apache HttpClient.
            (
                "application/x-www-form-urlencoded; charset=ISO-8859-1",
                None,
            ),
            ("image/*", None),
            ("application/json;", None),
            ("application/json; charset=utf-8;", None),
            ("application/x-www-form-urlencoded;charset=UTF-8", None),
            (
                "application/vnd.api+json; ext=\"https://jsonapi.org/ext/atomic\"",
                None,
            ),
            (
                "application/vnd.api+json; profile=\"https://a.test/x http://b.test/#y\"",
                None,
            ),
            (
                "application/json; odata.metadata=minimal; odata.streaming=true",
                None,
            ),
            ("application/json;odata=verbose", None),
            (
                "application/json;odata.metadata=full;IEEE754Compatible=true;charset=utf-8",
                None,
            ),
            (
                "application/fhir+json; fhirVersion=4.0; charset=utf-8",
                None,
            ),
            ("application/problem+json", None),
            (
                "application/ld+json; profile=\"https://www.w3.org/ns/activitystreams\"",
                None,
            ),
            ("application/json; v=1.0", None),
            ("video/webm;codecs=vp8,opus", None),
            ("video/mp4; codecs=\"avc1.42E01E, mp4a.40.2\"", None),
            (
                "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
                Some("----WebKitFormBoundary7MA4YWxkTrZu0gW"),
            ),
            (
                "multipart/form-data; boundary=\"5f1b4f2e-1c0a-4b55-8f6e-2f7f9d1c1c1a\"",
                Some("5f1b4f2e-1c0a-4b55-8f6e-2f7f9d1c1c1a"),
            ),
            (
                "multipart/form-data; boundary=\"===============1234==\"",
                Some("===============1234=="),
            ),
            // Qt, with base64.
            (
                "multipart/form-data; boundary=\"boundary_.oOo._a/b+c==\"",
                Some("boundary_.oOo._a/b+c=="),
            ),
            (
                "multipart/form-data;boundary=dart-http-boundary-+a_B.9; charset=UTF-8",
                Some("dart-http-boundary-+a_B.9"),
            ),
        ] {
            let found = ContentType::parse(field);
            assert_eq!(found.map(|found| found.boundary), Some(boundary), "{field}");
            assert!(charset_of_query(field.as_bytes()).is_some(), "{field}");
        }
    }

    /// Goal: a field that some parser reads as another charset or boundary is in no reading. Method: spellings of RFC 2231, words within
    /// other parameters, copies, blanks, quotes, escapes, comments and lists.
    #[test]
    fn fields_that_parsers_read_in_different_ways_are_refused() {
        for charset in [
            "charset=utf-7",
            "charset=utf-16",
            "charset=utf-8-sig",
            "charset=",
            "charset",
            "charset*=''utf-7",
            "charset*=utf-7",
            "charset*0=utf-7",
            "charset*0*=''utf-7",
            "CHARSET*=''utf-7",
            "xcharset=utf-7",
            "a=\"charset=utf-7\"",
            "a=\"; charset=utf-7\"",
            "v=charset=utf-7",
            "profile=\"charset=utf-7\"",
            "profile=\"https://a.test/charset:utf-7\"",
            "charset=utf-8; charset=utf-7",
            "charset=utf-8; charset=utf-8",
            "charset=utf-8; charset*=utf-7",
            "charset =utf-7",
            "charset= utf-7",
            "charset=utf-8 utf-7",
            "charset=\"utf-7",
            "charset=\"ut\\f-8\"",
            "charset='utf-8'",
            "charset=(x)utf-8",
            "charset=utf-8, text/plain; charset=utf-7",
            "charset=utf-8,utf-7",
            "\tcharset=utf-8",
            ", charset=utf-7",
            "charset:utf-7",
        ] {
            let field = format!("application/json; {charset}");
            assert_eq!(ContentType::parse(&field), None, "{field}");
            assert_eq!(charset_of_query(field.as_bytes()), None, "{field}");
        }
        for field in [
            "",
            "json",
            "application/",
            "/json",
            "application/json ",
            "application/json ; charset=utf-8",
            "application/json;  charset=utf-8",
            "application/json;;charset=utf-8",
            "application/json, text/plain",
            "application/json; q=0.5",
            "application/json; boundary=b",
            "application/json; name=\"x\"",
            "application/json; profile=\"https://a.test/?x=1\"",
            "application/json; profile=\"urlencoded\"",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=--",
            "multipart/form-data; boundary=a/b",
            "multipart/form-data; boundary=b,c",
            "multipart/form-data; boundary=\"b c\"",
            "multipart/form-data; boundary=\"b",
            "multipart/form-data; boundary=\"charset=x\"",
            "multipart/form-data; boundary=b; boundary=b",
            "multipart/form-data; boundary*=b",
            "multipart/form-data; boundary*0=b",
            "multipart/form-data; xboundary=c; boundary=b",
        ] {
            assert_eq!(ContentType::parse(field), None, "{field}");
        }
        assert_eq!(
            charset_of_query(b"text/xml; charset=utf-8; action=\"urn:x\""),
            Some(Charset::Utf8)
        );
        assert_eq!(
            charset_of_query(b"text/plain;charset=us-ascii"),
            Some(Charset::Ascii)
        );
        let is_json = |field| ContentType::parse(field).is_some_and(|found| found.is_json());
        assert!(is_json("application/vnd.a+json") && !is_json("text/json"));
        assert!(!is_json("application/x-www-form-urlencoded+json"));
        let long = format!("text/plain; v={}", "1".repeat(FIELD_BYTES));
        assert_eq!(ContentType::parse(&long), None);
        assert_eq!(charset_of_query(long.as_bytes()), None);
        assert!(may_have_parameters(long.as_bytes()));
    }
}
