//! Owns how templates of fields, paths and redirects are written: `"/v2/{rest}"`.
//!
//! Only a word in braces is a slot, and one that is unknown is an error, since origins and clients would get to read it; doubled braces
//! write one anyway, as in the wording of refusals. A part of the path is `{path.id}`, as in the key of a limit, or `{id}` where no other
//! slot has that name, as in the pattern itself.

use http::HeaderValue;
use sluicegate_base::path::PathGroups;

use super::braces::{BracedPart, cut};
use super::field::quoted;
use super::problem::ParseError;
use super::rules::{PathPattern, Segment, Slot, Tail, Template};
use super::suggest;

/// The slots that a template may have.
pub(super) struct AllowedSlots<'r> {
    fixed: &'static [(&'static str, Slot)],
    path: Option<&'r PathPattern>,
    groups: Option<&'r PathGroups>,
}

/// The slots that header fields can have.
const OF_FIELDS: &[(&str, Slot)] = &[
    ("client_ip", Slot::ClientIp),
    ("host", Slot::Host),
    ("request_id", Slot::RequestId),
    ("route", Slot::Route),
];
/// The slots that only redirects can have.
const OF_REDIRECTS: &[(&str, Slot)] = &[("host", Slot::Host)];

impl<'r> AllowedSlots<'r> {
    /// Those of a field, on a route with this path or, for `None`, on every route.
    pub(super) fn of_field(path: Option<&'r PathPattern>, groups: Option<&'r PathGroups>) -> Self {
        Self {
            fixed: OF_FIELDS,
            path,
            groups,
        }
    }

    /// Those of a path for the origin.
    pub(super) fn of_path(path: &'r PathPattern, groups: Option<&'r PathGroups>) -> Self {
        Self {
            fixed: &[],
            path: Some(path),
            groups,
        }
    }

    /// Those of a redirect.
    pub(super) fn of_redirect(path: &'r PathPattern, groups: Option<&'r PathGroups>) -> Self {
        Self {
            fixed: OF_REDIRECTS,
            path: Some(path),
            groups,
        }
    }

    fn find(&self, word: &str) -> Option<Slot> {
        let fixed = self.fixed.iter().find(|(name, _)| *name == word);
        fixed
            .map(|(_, slot)| slot.clone())
            .or_else(|| self.part(word.strip_prefix("path.").unwrap_or(word)))
            .or_else(|| (word == "rest").then(|| self.rest())?)
    }

    fn part(&self, name: &str) -> Option<Slot> {
        if let Some(groups) = self.groups {
            return groups.has(name).then(|| Slot::Group(name.into()));
        }
        self.path?.parameter_position(name).map(Slot::Segment)
    }

    /// Returns the slot of the `*` at the end of the pattern.
    fn rest(&self) -> Option<Slot> {
        let path = self.path.filter(|_| self.groups.is_none())?;
        (path.tail == Tail::Any).then_some(Slot::Rest(path.segments.len()))
    }

    fn names(&self) -> Vec<String> {
        let segments = self.path.into_iter().flat_map(|path| &path.segments);
        let parameters = segments.filter_map(|segment| match segment {
            Segment::Parameter(name) => Some(&**name),
            Segment::Literal(_) => None,
        });
        let groups = self.groups.map(PathGroups::names).unwrap_or_default();
        let parts = parameters.map(str::to_owned).chain(groups);
        let fixed = self.fixed.iter().map(|(name, _)| (*name).to_owned());
        let rest = self.rest().map(|_| "rest".to_owned());
        fixed
            .chain(rest)
            .chain(parts.map(|part| format!("path.{part}")))
            .collect()
    }

    fn unknown(&self, word: &str) -> ParseError {
        let names = self.names();
        let itself = format!("for the text itself write {{{{{word}}}}}");
        let known = names.iter().map(String::as_str);
        let message = match word {
            "rest" => "there is no {rest} without a path that ends in /*".to_owned(),
            _ => format!("there is no slot {{{word}}} here"),
        };
        let advice = match suggest::nearest(word, known) {
            Some(meant) => format!("did you mean {{{meant}}}? {itself}"),
            None if names.is_empty() => format!("leave it out; {itself}"),
            None => format!("write one of {{{}}}; {itself}", names.join("}, {")),
        };
        ParseError::with_advice(message, advice)
    }
}

/// The template that a text is.
pub(super) fn template(text: &str, slots: &AllowedSlots<'_>) -> Result<Template, ParseError> {
    let mut pieces = Vec::new();
    for piece in cut(text, is_in_word) {
        pieces.push(match piece {
            BracedPart::Text(plain) => Slot::Text(plain.into()),
            BracedPart::Word(word) => slots.find(word).ok_or_else(|| slots.unknown(word))?,
        });
    }
    // RFC 9110 §5.5: what is no field value is no path and no URL either.
    let cannot_be_sent = || {
        ParseError::with_advice(
            format!("{} cannot be sent", quoted(text)),
            "write visible characters of ASCII and spaces",
        )
    };
    let is_value = |text: &str| HeaderValue::from_str(text).is_ok() && text.is_ascii();
    let is_right = |piece: &Slot| !matches!(piece, Slot::Text(text) if !is_value(text));
    if !pieces.iter().all(is_right) {
        return Err(cannot_be_sent());
    }
    match &*pieces {
        [] => Ok(Template::Fixed(HeaderValue::from_static(""))),
        [Slot::Text(plain)] => HeaderValue::from_str(plain)
            .map(Template::Fixed)
            .map_err(|_| cannot_be_sent()),
        _ => Ok(Template::Filled(pieces)),
    }
}

/// Returns whether a byte may be in the name of a slot, parameters of patterns and groups included.
fn is_in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern;

    fn read(path: &str, text: &str) -> Result<Template, ParseError> {
        let (pattern, regex) = pattern::path(path).expect("a path");
        let groups = regex.as_ref().and_then(PathGroups::from_expression);
        template(
            text,
            &AllowedSlots::of_field(Some(&pattern), groups.as_ref()),
        )
    }

    fn text(text: &str) -> Slot {
        Slot::Text(text.into())
    }

    /// Goal: parts of the path go by their names, and other slots before them. Method: a pattern with both, and an expression.
    #[test]
    fn parts_of_the_path_go_by_their_names() {
        let path = "/t/{id}/{host}/*";
        let all = read(path, "{id} {path.id} {host} {path.host} {rest}");
        let space = || text(" ");
        assert_eq!(
            all.unwrap(),
            Template::Filled(vec![
                Slot::Segment(1),
                space(),
                Slot::Segment(1),
                space(),
                Slot::Host,
                space(),
                Slot::Segment(2),
                space(),
                Slot::Rest(3)
            ])
        );
        let group = |name: &str| Template::Filled(vec![Slot::Group(name.into())]);
        let expression = "~ ^/(v[0-9])/(?P<what>.*)$";
        assert_eq!(read(expression, "{1}").unwrap(), group("1"));
        assert_eq!(read(expression, "{path.what}").unwrap(), group("what"));
    }

    /// Goal: nobody reads a misspelt slot, and braces that hold no word are text. Method: a near miss, a far one, and JSON.
    #[test]
    fn a_word_that_is_no_slot_is_answered() {
        let advice = |path: &str, text: &str| read(path, text).unwrap_err().advice.unwrap();
        assert_eq!(
            advice("/{tenant}", "{path.tenent}"),
            "did you mean {path.tenant}? for the text itself write {{path.tenent}}"
        );
        assert!(
            advice("/a", "{x}")
                .starts_with("write one of {client_ip}, {host}, {request_id}, {route};")
        );
        assert_eq!(
            read("/a", "{rest}").unwrap_err().message,
            "there is no {rest} without a path that ends in /*"
        );
        let same = |text: &str| Template::Fixed(HeaderValue::from_str(text).unwrap());
        assert_eq!(read("/a", r#"{"a":1}"#).unwrap(), same(r#"{"a":1}"#));
        assert_eq!(read("/a", "{{host}}").unwrap(), same("{host}"));
        assert!(read("/a", "é").is_err() && read("/a", "a\n{host}").is_err());
    }
}
