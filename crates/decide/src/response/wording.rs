//! Expands the templates of rejections.
//!
//! No value of a client is filled in: the names of limit and route come from the configuration, the rest is digits. Names are
//! escaped nevertheless, since a route may be named by its pattern, and an operator may have written quotes into that.

use bytes::{Bytes, BytesMut};
use sluicegate_config::rules::{Escape, Piece, Wording};

use crate::request_id::RequestId;

/// The values that a wording can use.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordingValues<'a> {
    pub(super) limit: &'a str,
    pub(super) route: &'a str,
    /// Whole seconds.
    pub(super) retry_after: u64,
    pub(super) request_id: RequestId,
}

/// Returns the body.
pub(super) fn fill_in(wording: &Wording, told: &WordingValues<'_>) -> Bytes {
    if let [Piece::Text(text)] = &*wording.template {
        return Bytes::copy_from_slice(text.as_bytes());
    }
    let mut body = BytesMut::new();
    for piece in &wording.template {
        match piece {
            Piece::Text(text) => body.extend_from_slice(text.as_bytes()),
            Piece::Limit => escaped(&mut body, told.limit, wording.escape),
            Piece::Route => escaped(&mut body, told.route, wording.escape),
            Piece::RetryAfter => {
                body.extend_from_slice(itoa::Buffer::new().format(told.retry_after).as_bytes());
            }
            Piece::RequestId => body.extend_from_slice(told.request_id.text().as_bytes()),
        }
    }
    body.freeze()
}

fn escaped(into: &mut BytesMut, value: &str, escape: Escape) {
    let mut unicode = [0; 4];
    for character in value.chars() {
        let code = u32::from(character);
        match (escape, character) {
            (Escape::Json, '"') => into.extend_from_slice(b"\\\""),
            (Escape::Json, '\\') => into.extend_from_slice(b"\\\\"),
            // RFC 8259 §7.
            (Escape::Json, '\0'..='\x1f') => {
                into.extend_from_slice(format!("\\u{code:04x}").as_bytes());
            }
            (Escape::Html, '&' | '<' | '>' | '"' | '\'') => {
                into.extend_from_slice(format!("&#{code};").as_bytes());
            }
            _ => into.extend_from_slice(character.encode_utf8(&mut unicode).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn filled(escape: Escape, route: &str) -> String {
        let wording = Wording {
            content_type: HeaderValue::from_static("text/plain"),
            escape,
            template: vec![
                Piece::Text("\"".into()),
                Piece::Route,
                Piece::Text("\" ".into()),
                Piece::Limit,
                Piece::Text(" ".into()),
                Piece::RetryAfter,
            ],
        };
        let told = WordingValues {
            limit: "otp",
            route,
            retry_after: 41,
            request_id: RequestId::next(),
        };
        String::from_utf8(fill_in(&wording, &told).to_vec()).expect("UTF-8")
    }

    /// Goal: values stay values. Method: a name with every character that has a meaning in HTML.
    #[test]
    fn html_keeps_its_structure() {
        assert_eq!(
            filled(Escape::Html, "<b a='&\">"),
            "\"&#60;b a=&#39;&#38;&#34;&#62;\" otp 41"
        );
        assert_eq!(filled(Escape::None, "<b>"), "\"<b>\" otp 41");
    }

    proptest! {
        /// Goal: JSON stays valid, whatever a name contains. Method: read back the values that were filled in.
        #[test]
        fn any_name_reads_back_from_json(name in ".*") {
            let filled = filled(Escape::Json, &name);
            let json = filled.strip_suffix(" otp 41").expect("the rest of the template");
            prop_assert_eq!(serde_json::from_str::<String>(json).expect("JSON"), name);
        }
    }
}
