//! Decides which value a field of a multipart form has (RFC 7578), for bodies that were read whole.
//!
//! Parsers of multipart forms differ in almost everything that browsers never send: line ends, folded fields, text before the first
//! boundary, escapes in names, encodings of parts, words that look like a parameter within a value. So only the form that browsers and HTTP
//! libraries write is read, and everything else is malformed: then no parser can find a value that the gateway does not.
//!
//! # Limits
//! A body is at most `max_key_body_bytes` long and has at most [`PARTS`] parts. It is read in one pass, without allocation for each part.

use std::borrow::Cow;

use crate::rejection::MissingReason;
use memchr::{memchr, memchr2, memmem};
use sluicegate_base::parameter_name::{NameMatch, WantedName};

use super::content_type::ContentType;
use super::facts::Value;
use super::value::{agreed, cut_at};

/// Most parts of a form: Django, Litestar and PHP read a thousand.
const PARTS: usize = 1000;

/// A part of a form.
struct FormPart<'a> {
    name: &'a [u8],
    /// A filename in front of the name, which a parser that looks for `name=` alone takes for it.
    leading_filename: Option<&'a [u8]>,
    /// Set if some origin may take the part for a file.
    is_file: bool,
    content: &'a [u8],
}

/// The values in a `Content-Disposition`.
struct Disposition<'a> {
    name: &'a [u8],
    leading_filename: Option<&'a [u8]>,
    has_filename: bool,
}

/// Returns the value of the field with the wanted name of a form with this boundary.
pub(super) fn find<'a>(
    body: &'a [u8],
    boundary: &str,
    wanted: &WantedName<'_>,
) -> Result<Value<'a>, MissingReason> {
    let delimiter = format!("--{boundary}");
    let finder = memmem::Finder::new(&delimiter);
    let undashed = memmem::Finder::new(boundary);
    let mut found = Err(MissingReason::Absent);
    let mut parts = 0;
    let mut rest = without_empty_lines(body)
        .strip_prefix(delimiter.as_bytes())
        .ok_or(MissingReason::Malformed)?;
    while let Some(behind) = rest.strip_prefix(b"\r\n") {
        parts += 1;
        // Wherever the delimiter stands, some parser takes it for one.
        let end = finder
            .find(behind)
            .filter(|_| parts <= PARTS)
            .ok_or(MissingReason::Malformed)?;
        let text = &behind[..end];
        rest = &behind[end + delimiter.len()..];
        let part = text
            .strip_suffix(b"\r\n")
            .and_then(FormPart::parse)
            .ok_or(MissingReason::Malformed)?;
        let likeness = wanted.compare(part.name);
        // Sanic splits at the boundary without its dashes too: a head or a value ends there, and what follows may have a name.
        let head = &text[..text.len() - part.content.len()];
        let may_split = undashed.find(head).is_some()
            || undashed.find(part.content).is_some_and(|at| {
                likeness != NameMatch::Other || find_name(&part.content[at..]).is_some()
            });
        let leading = part.leading_filename;
        if may_split || leading.is_some_and(|name| wanted.is_at_beginning(name)) {
            return Err(MissingReason::Malformed);
        }
        match likeness {
            NameMatch::Other => {}
            NameMatch::Outside => return Err(MissingReason::Malformed),
            NameMatch::Alias => return Err(MissingReason::Repeated),
            NameMatch::Same if part.is_file => return Err(MissingReason::Repeated),
            NameMatch::Same => found = Ok(agreed(found, Cow::Borrowed(part.content))?),
        }
    }
    match rest {
        b"--" | b"--\r\n" | b"--\r\n\r\n" => found,
        _ => Err(MissingReason::Malformed),
    }
}

/// Returns the body from its first delimiter on: some clients write an empty line or two in front of it, which no parser takes for a part.
fn without_empty_lines(body: &[u8]) -> &[u8] {
    let body = body.strip_prefix(b"\r\n").unwrap_or(body);
    body.strip_prefix(b"\r\n").unwrap_or(body)
}

impl<'a> FormPart<'a> {
    /// Parses the text between two delimiters: fields, an empty line, the content. Returns `None` outside of the grammar.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let mut rest = text;
        let mut disposition = None;
        let mut content_type = None;
        let mut length = None;
        let mut encoding = None;
        loop {
            let end = memchr(b'\r', rest)?;
            let line = &rest[..end];
            rest = rest[end..].strip_prefix(b"\r\n")?;
            if line.is_empty() {
                break;
            }
            let (name, value) = cut_at(line, b':')?;
            let value = value.strip_prefix(b" ")?;
            if value.iter().any(u8::is_ascii_control) {
                return None;
            }
            // Each field once, and none that no known client sends: an encoding that some parsers decode, a name in `Content-ID`.
            let known = match name.len() {
                19 if name.eq_ignore_ascii_case(b"content-disposition") => &mut disposition,
                12 if name.eq_ignore_ascii_case(b"content-type") => &mut content_type,
                14 if name.eq_ignore_ascii_case(b"content-length") => &mut length,
                25 if name.eq_ignore_ascii_case(b"content-transfer-encoding") => &mut encoding,
                _ => return None,
            };
            if known.replace(value).is_some() {
                return None;
            }
        }
        let disposition = Disposition::parse(disposition?)?;
        let content_type = match content_type {
            Some(value) => Some(ContentType::parse(std::str::from_utf8(value).ok()?)?),
            None => None,
        };
        let is_sound = content_type
            .is_none_or(|kind| !is_nested(&kind) && kind.charset.holds(rest))
            && encoding.is_none_or(is_identity)
            && length.is_none_or(|value| is_decimal(value, rest.len()))
            && (!disposition.name.eq_ignore_ascii_case(b"_charset_")
                || rest.eq_ignore_ascii_case(b"utf-8"));
        is_sound.then_some(Self {
            name: disposition.name,
            leading_filename: disposition.leading_filename,
            is_file: disposition.has_filename
                || content_type.is_some_and(|kind| !kind.is("text/plain")),
            content: rest,
        })
    }
}

impl<'a> Disposition<'a> {
    /// Parses `form-data; name="…"; filename="…"; filename*=utf-8''…`, the filename before or behind the name. Parsers that look for
    /// ` name=`, `;name=` or the like anywhere find it in its place alone.
    fn parse(value: &'a [u8]) -> Option<Self> {
        let kind = b"form-data";
        let (head, rest) = value.split_at_checked(kind.len())?;
        if !head.eq_ignore_ascii_case(kind) || std::str::from_utf8(value).is_err() {
            return None;
        }
        let (leading_filename, rest) = filename(rest)?;
        let (name, rest) = text(behind_name(rest, b"name=")?)?;
        let (filename, rest) = match leading_filename {
            None => filename(rest).or_else(|| quoted_filename(rest))?,
            Some(_) => (None, rest),
        };
        let extended = behind_name(rest, b"filename*=");
        let rest = extended.map_or(Some(rest), extended_text)?;
        // Rack takes the filename for an empty name, and Netty drops colons at its ends. Some parsers decode `%`, others do not.
        let is_ambiguous = name.is_empty()
            || name.contains(&b'\\')
            || name.contains(&b'%')
            || name.starts_with(b":")
            || name.ends_with(b":")
            || names_parameter(name);
        (rest.is_empty() && !is_ambiguous).then_some(Self {
            name,
            leading_filename,
            has_filename: leading_filename.or(filename).is_some() || extended.is_some(),
        })
    }
}

/// Returns the filename, if one follows, and the rest behind it; `None` where some parser may find another name in it.
fn filename(rest: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let Some(value) = behind_name(rest, b"filename=") else {
        return Some((None, rest));
    };
    let (filename, behind) = text(value)?;
    (!names_parameter(filename)).then_some((Some(filename), behind))
}

/// Returns a filename with quotes in it, as Go and aiohttp escape them, and the rest behind it. Where it ends the line, and has neither `;`
/// nor `=`, a parser that ends it at an earlier quote finds no parameter behind that.
fn quoted_filename(rest: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let inner = behind_name(rest, b"filename=\"")?;
    let filename = inner.strip_suffix(b"\"")?;
    let is_sound = !filename.ends_with(b"\\") && memchr2(b';', b'=', filename).is_none();
    is_sound.then_some((Some(filename), b""))
}

/// Returns the rest behind `; name=`.
fn behind_name<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let text = text.strip_prefix(b";")?;
    text.strip_prefix(b" ").unwrap_or(text).strip_prefix(name)
}

/// Returns a text in quotes or a token that no parser ends earlier, and the rest behind it.
fn text(value: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some(inner) = value.strip_prefix(b"\"") {
        let (text, behind) = cut_at(inner, b'"')?;
        // An escaped quote ends the text for some parsers only.
        return (!text.ends_with(b"\\")).then_some((text, behind));
    }
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let end = value.iter().position(|byte| !is_token(byte));
    let (text, behind) = value.split_at(end.unwrap_or(value.len()));
    (!text.is_empty()).then_some((text, behind))
}

/// Returns the rest behind a value of RFC 8187 §3.2.1 in UTF-8.
fn extended_text(value: &[u8]) -> Option<&[u8]> {
    const PREFIX: &[u8] = b"utf-8''";
    let (charset, text) = value.split_at_checked(PREFIX.len())?;
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~%".contains(byte);
    let end = text.iter().position(|byte| !is_allowed(byte));
    charset
        .eq_ignore_ascii_case(PREFIX)
        .then(|| &text[end.unwrap_or(text.len())..])
}

/// Returns whether a parser that searches the line may find a parameter `name` in this text: formidable, Rack, Plack and others do.
fn names_parameter(text: &[u8]) -> bool {
    find_name(text).is_some_and(|at| text[at..].contains(&b'='))
}

/// Returns where the word `name` stands first, in any case; whatever the text is, four bytes are compared at once.
fn find_name(text: &[u8]) -> Option<usize> {
    const LOWER: u32 = u32::from_ne_bytes([b' '; 4]);
    text.windows(4).position(|window| match *window {
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]) | LOWER == u32::from_ne_bytes(*b"name"),
        _ => false,
    })
}

fn is_identity(encoding: &[u8]) -> bool {
    [&b"binary"[..], b"8bit", b"7bit"]
        .iter()
        .any(|known| encoding.eq_ignore_ascii_case(known))
}

/// Returns whether the digits are those of a length; parsers could end the content there.
fn is_decimal(digits: &[u8], length: usize) -> bool {
    let text = std::str::from_utf8(digits).unwrap_or_default();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain && text.parse() == Ok(length)
}

/// Returns whether some parser looks for parts within a part of this type. Clients of Android write the type of the form, without its
/// boundary, where they mean none.
fn is_nested(content_type: &ContentType<'_>) -> bool {
    let has_parts = !content_type.is("multipart/form-data") || content_type.boundary.is_some();
    (content_type.starts_with("multipart/") && has_parts) || content_type.starts_with("message/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_base::parameter_name::OtherNames;

    use super::*;

    fn asked(boundary: &str, body: &[u8]) -> Result<String, MissingReason> {
        let wanted = WantedName {
            name: "phone",
            others: OtherNames::Canonical,
        };
        find(body, boundary, &wanted).map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    /// A form of parts whose lines are separated by `|`.
    fn form(parts: &[&str]) -> Vec<u8> {
        let parts = parts
            .iter()
            .map(|part| format!("--0b\r\n{}\r\n", part.replace('|', "\r\n")));
        (parts.collect::<String>() + "--0b--\r\n").into_bytes()
    }

    fn of(parts: &[&str]) -> Result<String, MissingReason> {
        asked("0b", &form(parts))
    }

    const PHONE: &str = "Content-Disposition: form-data; name=\"phone\"||1";

    /// Goal: forms of browsers and libraries are read. Method: what Chromium, curl, Python's requests, .NET and Node write.
    #[test]
    fn forms_of_browsers_and_libraries_are_read() {
        for parts in [
            &[PHONE][..],
            &["Content-Disposition: form-data; name=\"x\"||2", PHONE],
            &[
                PHONE,
                "Content-Disposition: form-data; name=\"f\"; filename=\"C:\\a;b.png\"|Content-Type: image/png||\u{1}\n\r",
            ],
            &[
                "Content-Type: text/plain; charset=utf-8|Content-Disposition: form-data; name=phone||1",
            ],
            &[
                "Content-Disposition: form-data; name=\"phone\"|Content-Length: 1|Content-Transfer-Encoding: binary||1",
            ],
            &[
                PHONE,
                "Content-Disposition: form-data; name=f; filename=a.txt; filename*=utf-8''a.txt||x",
            ],
            &[PHONE, PHONE],
            &[
                "Content-Disposition: form-data; filename=\"plain.txt\"; name=\"upload\"|Content-Type: text/plain||x",
                PHONE,
            ],
            &[
                "Content-Disposition: form-data; name=\"x\"; filename=\": \\ ? % * %22 < > . \u{2028} ; ' @ # $ ^ & ( ) - _ = + [ ]\"||x",
                PHONE,
            ],
            &[
                "Content-Disposition: form-data; name=\"x\"; filename=\"my \\\"best\\\" photo.png\"||x",
                PHONE,
            ],
            &[
                "Content-Disposition: form-data; name=\"x\"|Content-Type: text/plain; charset=utf8||x",
                "Content-Disposition: form-data; name=bit||2",
                PHONE,
            ],
            &[
                "Content-Disposition: form-data; name=\"x\"|Content-Type: multipart/form-data; charset=utf-8||x",
                "Content-Disposition: form-data; name=\"f\"; filename=\"f\"|Content-Type: image/*||\u{1}",
                "Content-Disposition: form-data; name=\"born_on(1i)\"||2",
                PHONE,
            ],
        ] {
            assert_eq!(of(parts).as_deref(), Ok("1"), "{parts:?}");
        }
        assert_eq!(
            of(&["Content-Disposition: form-data; name=\"phone\"||"]).as_deref(),
            Ok("")
        );
        assert_eq!(
            of(&["Content-Disposition: form-data; name=\"phones\"||1"]),
            Err(MissingReason::Absent)
        );
        let spaced = [&b"\r\n\r\n"[..], &form(&[PHONE]), b"\r\n"].concat();
        assert_eq!(asked("0b", &spaced).as_deref(), Ok("1"));
        assert_eq!(asked("0b", b"--0b--\r\n"), Err(MissingReason::Absent));
    }

    /// Goal: what parsers read in different ways is no value. Method: each way alone, beside a plain field.
    #[test]
    fn what_parsers_read_in_different_ways_is_no_value() {
        for odd in [
            "Content-Disposition: form-data; name=\"phone\"||2",
            "Content-Disposition: form-data; name=\"phone\"; filename=\"x\"||1",
            "Content-Disposition: form-data; name=\"phone\"|Content-Type: application/json||1",
            "Content-Disposition: form-data; name=\"phone[]\"||1",
            "Content-Disposition: form-data; name=\"phone(1i)\"||1",
        ] {
            assert_eq!(of(&[PHONE, odd]), Err(MissingReason::Repeated), "{odd}");
        }
        for odd in [
            "Content-Disposition: form-data; name=\" phone\"||1",
            "Content-Disposition: form-data; name=\"ph%6fne\"||1",
            "Content-Disposition: form-data; name=\"x\"; name=\"phone\"||2",
            "Content-Disposition: form-data; filename=\",name=phone\"; name=\"x\"||2",
            "Content-Disposition: form-data; name=\"x\"; filename=\",name=phone\"||2",
            "Content-Disposition: form-data; name=\"x\"; filename=\"; NAME = phone\"||2",
            "Content-Disposition: form-data; name=\"x\"; filename=\"; name*=utf-8''phone\"||2",
            "Content-Disposition: form-data; name=\"x\"; filename*=\"; name=phone\"||2",
            "Content-Disposition: form-data; name=\"x\"; filename*=utf-8''a'; name=phone||2",
            "Content-Disposition: form-data; name=\"x\"; filename*0=\"a\"||2",
            "Content-Disposition: form-data; name=\"x\"; filename=\"a\"; filename=\"c\"||2",
            "Content-Disposition: form-data; name=\"x;name=phone\"||2",
            "Content-Disposition: form-data; name=x,name=phone||2",
            "Content-Disposition: form-data; name=\"x\"; filename=\"a\\\"; name=phone\"||2",
            "Content-Disposition: form-data; name=\"x\"; filename=\"a\\\"\"; name=phone||2",
            "Content-Disposition: form-data; name=\"x\"; filename=\"a\\\"||2",
            "Content-Disposition: form-data; filename=\"a\\\"b\"; name=\"phone\"||2",
            "Content-Disposition: form-data; name=\"x\"; size=1||2",
            "Content-Disposition: form-data; name=\"\"; filename=\"phone\"||2",
            "Content-Disposition: form-data; filename=\"phone\"; name=\"x\"||2",
            "Content-Disposition: form-data; filename=\"a\"; name=\"x\"; filename=\"c\"||2",
            "Content-Disposition: form-data; name=\"phone:\"||2",
            "Content-Disposition: form-data; name=\"x\"|Content-Type: image/png; name=\"phone\"||2",
            "Content-Disposition: form-data; name=\"x\"|Content-Type: text/plain; charset*=''utf-7||2",
            "Content-Disposition: form-data; name=\"x\"|Content-Type: text/plain; charset=us-ascii||\u{e9}",
            "Content-Disposition: form-data; name=\"x\"|Content-Type: message/rfc822||2",
            "Content-Disposition: form-data; name=\"x\"|Content-ID: phone||2",
            "Content-Disposition: form-data; name=\"x\"|Content-Length: 9||2",
            "Content-Disposition: form-data; name=\"x\"|Content-Length: 1|Content-Length: 1||2",
            "Content-Disposition:form-data; name=\"x\"||2",
            "Content-Disposition: form-data; name=\"x\"||0b\nContent-Disposition: form-data; name=\"phone\"||2",
            "Content-Disposition: form-data; name=\"phone\"||20b",
            "Content-Disposition: form-data; name=\"phone\"|Content-Type: text/plain; v=0b||2",
            "Content-Disposition: form-data; name*=utf-8''phone||2",
            "Content-Disposition: form-data; name=\"x\\\"; name=\"phone\"||2",
            "Content-Disposition: form-data; name='phone'||2",
            "Content-Disposition: form-data; name=\"phone||2",
            "Content-Disposition: form-data; name=||2",
            "Content-Disposition: form-data||2",
            "Content-Disposition: attachment; name=\"phone\"||2",
            "Content-Disposition: form-data;| name=\"phone\"||2",
            "Content-Disposition : form-data; name=\"phone\"||2",
            "Content-Disposition: form-data; name=\"x\"|Content-Disposition: form-data; name=\"phone\"||2",
            "Content-Disposition: form-data; name=\"x\"|Content-Transfer-Encoding: base64||Mg==",
            "Content-Disposition: form-data; name=\"x\"|Content-Type: text/plain; charset=utf-16||2",
            "Content-Disposition: form-data; name=\"x\"|Content-Type: multipart/mixed; boundary=c||2",
            "Content-Disposition: form-data; name=\"_charset_\"||utf-16",
            "Content-Disposition: form-data; name=\"x\"||2\n--0b\nContent-Disposition: form-data; name=\"phone\"\n\n2",
            "Content-Disposition: form-data; name=\"x\"||2--0b",
            "Content-Disposition: form-data; name=\"x\"|X: y||2",
            "Content-Disposition: form-data; name=\"x\"",
            "|Content-Disposition: form-data; name=\"x\"||2",
        ] {
            assert_eq!(of(&[PHONE, odd]), Err(MissingReason::Malformed), "{odd}");
        }
        let plain = form(&[PHONE]);
        for (before, behind) in [
            ("\r\n\r\n\r\n", ""),
            ("\n", ""),
            ("x\r\n", ""),
            ("", "x"),
            ("", "\r\n--0b\r\n"),
            (" ", ""),
        ] {
            let text = [before.as_bytes(), &plain, behind.as_bytes()].concat();
            assert_eq!(asked("0b", &text), Err(MissingReason::Malformed));
        }
        let open = plain.strip_suffix(b"--\r\n").unwrap();
        assert_eq!(asked("0b", open), Err(MissingReason::Malformed));
    }

    /// Goal: the number of parts is bounded. Method: as many as are read, and one more.
    #[test]
    fn a_form_has_at_most_a_thousand_parts() {
        let part = "Content-Disposition: form-data; name=x||";
        let most = vec![part; PARTS - 1];
        let read = |parts: &[&str]| of(&[parts, &[PHONE]].concat());
        assert_eq!(read(&most).as_deref(), Ok("1"));
        assert_eq!(read(&vec![part; PARTS]), Err(MissingReason::Malformed));
    }

    proptest! {
        /// Goal: nothing a client sends stops the process. Method: texts of what forms are made of.
        #[test]
        fn every_text_is_a_value_or_a_reason(
            pieces in proptest::collection::vec("--0b|\r\n|--|content-disposition: form-data|; name=|\"|phone|;|[a\n]", 0..16)
        ) {
            let _ = asked("0b", pieces.concat().as_bytes());
            let _ = asked("0b", format!("--0b\r\n{}\r\n--0b--", pieces.concat()).as_bytes());
        }
    }
}
