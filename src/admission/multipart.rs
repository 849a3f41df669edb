//! Decides which value a field of a multipart form has (RFC 7578), for bodies that were read whole.
//!
//! Parsers of multipart forms differ in almost everything that browsers never send: line ends, folded fields, text before the first
//! boundary, escapes in names, encodings of parts. So only the form that browsers and HTTP libraries write is read, and everything
//! else is malformed: then no parser can find a value that the gateway does not.
//!
//! # Limits
//! A body is at most `max_key_body_bytes` long. It is read in one pass, without allocation.

use std::borrow::Cow;

use http::header::CONTENT_TYPE;
use memchr::memmem;
use sluicegate_base::form_encoding::{PlusMeaning, decode};
use sluicegate_base::parameter_name::{NameMatch, WantedName};
use sluicegate_base::received::ReceivedFields;

use super::value::{Value, agreed, cut_at};
use crate::rejection::MissingReason;

/// Longest boundary, RFC 2046 §5.1.1.
const BOUNDARY_BYTES: usize = 70;

/// The head of a part.
struct FormPart<'a> {
    name: &'a [u8],
    /// Set if some origin may take the part for a file.
    is_file: bool,
    content: &'a [u8],
}

/// Returns the value of the field `name` of a form with these headers.
pub(super) fn find<'a>(
    body: &'a [u8],
    headers: &ReceivedFields,
    name: &str,
) -> Result<Value<'a>, MissingReason> {
    let content_type = headers.get(CONTENT_TYPE).map(|field| field.as_bytes());
    let boundary = content_type
        .and_then(boundary)
        .ok_or(MissingReason::Malformed)?;
    let wanted = WantedName::new(name);
    let mut found = Err(MissingReason::Absent);
    let mut rest = body
        .strip_prefix(b"--")
        .and_then(|rest| rest.strip_prefix(boundary))
        .ok_or(MissingReason::Malformed)?;
    let delimiter = [b"--", boundary].concat();
    while let Some(behind) = rest.strip_prefix(b"\r\n") {
        // Wherever the delimiter stands, some parser takes it for one.
        let end = memmem::find(behind, &delimiter).ok_or(MissingReason::Malformed)?;
        rest = &behind[end + delimiter.len()..];
        let part = part(
            behind[..end]
                .strip_suffix(b"\r\n")
                .ok_or(MissingReason::Malformed)?,
        )?;
        if part.name.eq_ignore_ascii_case(b"_charset_")
            && !part.content.eq_ignore_ascii_case(b"utf-8")
        {
            return Err(MissingReason::Malformed);
        }
        let likeness = match wanted.compare(part.name) {
            NameMatch::Other => match wanted.compare(&decode(part.name, PlusMeaning::Space)) {
                NameMatch::Other => continue,
                _ => NameMatch::Alias,
            },
            likeness => likeness,
        };
        if likeness == NameMatch::Alias || part.is_file {
            return Err(MissingReason::Repeated);
        }
        found = Ok(agreed(found, Cow::Borrowed(part.content))?);
    }
    match rest {
        b"--" | b"--\r\n" => found,
        _ => Err(MissingReason::Malformed),
    }
}

/// Returns the boundary that a content type names. PHP looks for the word anywhere, so it must stand there once.
fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let word = b"boundary";
    let mut words = content_type
        .windows(word.len())
        .filter(|window| window.eq_ignore_ascii_case(word));
    if words.next().is_none() || words.next().is_some() {
        return None;
    }
    let mut parameters = content_type.split(|byte| *byte == b';').skip(1);
    let found = parameters.find_map(|parameter| {
        let (name, value) = cut_at(parameter, b'=')?;
        name.trim_ascii()
            .eq_ignore_ascii_case(word)
            .then(|| value.trim_ascii())
    })?;
    let plain = match found {
        [b'"', inner @ .., b'"'] => inner,
        _ => found,
    };
    // Those of RFC 2046 without space and comma, at which some parsers end it.
    let is_sound = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_-./:=?".contains(byte);
    ((1..=BOUNDARY_BYTES).contains(&plain.len()) && plain.iter().all(is_sound)).then_some(plain)
}

/// Parses the text between two delimiters: fields, an empty line, the content.
fn part(text: &[u8]) -> Result<FormPart<'_>, MissingReason> {
    let mut rest = text;
    let (mut disposition, mut is_typed) = (None, None);
    loop {
        let end = memmem::find(rest, b"\r\n").ok_or(MissingReason::Malformed)?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        if line.is_empty() {
            break;
        }
        let (name, value) = cut_at(line, b':').ok_or(MissingReason::Malformed)?;
        let is_text = value.iter().all(|byte| *byte >= b' ' && *byte != 0x7f);
        if !is_text
            || !name
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        {
            return Err(MissingReason::Malformed);
        }
        let value = value.trim_ascii();
        match &*name.to_ascii_lowercase() {
            b"content-disposition" if disposition.is_none() => {
                disposition = Some(self::disposition(value)?)
            }
            b"content-type" if is_typed.is_none() => is_typed = Some(!is_plain_text(value)?),
            b"content-length" => {}
            b"content-transfer-encoding" if is_identity(value) => {}
            // A second one, an encoding that some parsers decode, or what none of the known clients sends.
            _ => return Err(MissingReason::Malformed),
        }
    }
    let (name, has_filename) = disposition.ok_or(MissingReason::Malformed)?;
    Ok(FormPart {
        name,
        is_file: has_filename || is_typed == Some(true),
        content: rest,
    })
}

fn is_identity(encoding: &[u8]) -> bool {
    [&b"binary"[..], b"8bit", b"7bit"]
        .iter()
        .any(|known| encoding.eq_ignore_ascii_case(known))
}

/// Returns whether a part of this type is text for all parsers.
fn is_plain_text(value: &[u8]) -> Result<bool, MissingReason> {
    let lower = value.to_ascii_lowercase();
    if lower.starts_with(b"multipart/") {
        return Err(MissingReason::Malformed);
    }
    let mut pieces = lower.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let is_text = pieces.next() == Some(b"text/plain");
    let in_utf8 =
        pieces.all(|parameter| matches!(parameter, b"charset=utf-8" | b"charset=\"utf-8\""));
    // Another charset gives the same bytes another meaning.
    if is_text && !in_utf8 {
        Err(MissingReason::Malformed)
    } else {
        Ok(is_text)
    }
}

/// Returns the name in a `Content-Disposition`, and whether it names a file.
fn disposition(value: &[u8]) -> Result<(&[u8], bool), MissingReason> {
    let kind_end = value
        .iter()
        .position(|byte| *byte == b';')
        .ok_or(MissingReason::Malformed)?;
    if !value[..kind_end]
        .trim_ascii()
        .eq_ignore_ascii_case(b"form-data")
    {
        return Err(MissingReason::Malformed);
    }
    let mut rest = &value[kind_end..];
    let (mut name, mut is_file) = (None, false);
    while let Some(behind) = rest.strip_prefix(b";") {
        let (key, behind) = cut_at(behind, b'=').ok_or(MissingReason::Malformed)?;
        let (text, behind) = text(behind)?;
        match &*key.trim_ascii().to_ascii_lowercase() {
            b"name" if name.is_none() && !text.contains(&b'\\') => name = Some(text),
            b"filename" | b"filename*" => is_file = true,
            _ => return Err(MissingReason::Malformed),
        }
        rest = behind.trim_ascii_start();
    }
    match name {
        Some(name) if rest.is_empty() => Ok((name, is_file)),
        _ => Err(MissingReason::Malformed),
    }
}

/// Returns a quoted text or a token, and the rest behind it.
fn text(value: &[u8]) -> Result<(&[u8], &[u8]), MissingReason> {
    if let Some(inner) = value.strip_prefix(b"\"") {
        let (text, behind) = cut_at(inner, b'"').ok_or(MissingReason::Malformed)?;
        // An escaped quote ends the text for some parsers only.
        return if text.ends_with(b"\\") {
            Err(MissingReason::Malformed)
        } else {
            Ok((text, behind))
        };
    }
    let is_token = |byte: &u8| {
        byte.is_ascii_alphanumeric() || *byte >= 0x80 || b"!#$%&'*+-.^_`|~[]/:@".contains(byte)
    };
    let end = value
        .iter()
        .position(|byte| !is_token(byte))
        .unwrap_or(value.len());
    if end == 0 || value.starts_with(b"'") {
        Err(MissingReason::Malformed)
    } else {
        Ok(value.split_at(end))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn asked(content_type: &str, body: &[u8]) -> Result<String, MissingReason> {
        let mut headers = ReceivedFields::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
        find(body, &headers, "phone").map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    /// A form of parts whose lines are separated by `|`.
    fn form(parts: &[&str]) -> Vec<u8> {
        let parts = parts
            .iter()
            .map(|part| format!("--b\r\n{}\r\n", part.replace('|', "\r\n")));
        (parts.collect::<String>() + "--b--\r\n").into_bytes()
    }

    fn of(parts: &[&str]) -> Result<String, MissingReason> {
        asked("multipart/form-data; boundary=b", &form(parts))
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
        ] {
            assert_eq!(of(parts).as_deref(), Ok("1"), "{parts:?}");
        }
        let plain = form(&[PHONE]);
        for kind in [
            "multipart/form-data; boundary=\"b\"",
            "Multipart/Form-Data; charset=utf-8; Boundary=b",
        ] {
            assert_eq!(asked(kind, &plain).as_deref(), Ok("1"), "{kind}");
        }
        assert_eq!(
            of(&["Content-Disposition: form-data; name=\"phone\"||"]).as_deref(),
            Ok("")
        );
        assert_eq!(
            of(&["Content-Disposition: form-data; name=\"phones\"||1"]),
            Err(MissingReason::Absent)
        );
        assert_eq!(
            asked("multipart/form-data; boundary=b", b"--b--\r\n"),
            Err(MissingReason::Absent)
        );
    }

    /// Goal: what parsers read in different ways is no value. Method: each way alone, beside a plain field.
    #[test]
    fn what_parsers_read_in_different_ways_is_no_value() {
        for odd in [
            "Content-Disposition: form-data; name=\"phone\"||2",
            "Content-Disposition: form-data; name=\"phone\"; filename=\"x\"||1",
            "Content-Disposition: form-data; name=\"phone\"|Content-Type: application/json||1",
            "Content-Disposition: form-data; name=\" phone\"||1",
            "Content-Disposition: form-data; name=\"phone[]\"||1",
            "Content-Disposition: form-data; name=\"ph%6fne\"||1",
        ] {
            assert_eq!(of(&[PHONE, odd]), Err(MissingReason::Repeated), "{odd}");
        }
        for odd in [
            "Content-Disposition: form-data; name=\"x\"; name=\"phone\"||2",
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
            "Content-Disposition: form-data; name=\"x\"||2\n--b\nContent-Disposition: form-data; name=\"phone\"\n\n2",
            "Content-Disposition: form-data; name=\"x\"||2--b",
            "Content-Disposition: form-data; name=\"x\"|X: y||2",
            "Content-Disposition: form-data; name=\"x\"",
            "|Content-Disposition: form-data; name=\"x\"||2",
        ] {
            assert_eq!(of(&[PHONE, odd]), Err(MissingReason::Malformed), "{odd}");
        }
        let plain = form(&[PHONE]);
        for kind in [
            "multipart/form-data",
            "multipart/form-data; boundary=c; boundary=b",
            "multipart/form-data; xboundary=c; boundary=b",
            "multipart/form-data; boundary*=b",
            "multipart/form-data; boundary=\"b",
            "multipart/form-data; boundary=b,c",
            "multipart/form-data; boundary=",
        ] {
            assert_eq!(asked(kind, &plain), Err(MissingReason::Malformed), "{kind}");
        }
        for (before, behind) in [
            ("\r\n", ""),
            ("x\r\n", ""),
            ("", "x"),
            ("", "\r\n--b\r\n"),
            (" ", ""),
        ] {
            let text = [before.as_bytes(), &plain, behind.as_bytes()].concat();
            assert_eq!(
                asked("multipart/form-data; boundary=b", &text),
                Err(MissingReason::Malformed)
            );
        }
        let open = plain.strip_suffix(b"--\r\n").unwrap();
        assert_eq!(
            asked("multipart/form-data; boundary=b", open),
            Err(MissingReason::Malformed)
        );
    }

    proptest! {
        /// Goal: nothing a client sends stops the process. Method: texts of what forms are made of.
        #[test]
        fn every_text_is_a_value_or_a_reason(
            pieces in proptest::collection::vec("--b|\r\n|--|content-disposition: form-data|; name=|\"|phone|;|[a\n]", 0..16)
        ) {
            let _ = asked("multipart/form-data; boundary=b", pieces.concat().as_bytes());
            let _ = asked("multipart/form-data; boundary=b", format!("--b\r\n{}\r\n--b--", pieces.concat()).as_bytes());
        }
    }
}
