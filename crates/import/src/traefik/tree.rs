//! Reads and builds the tree that all notations become. Traefik compares names of members without regard to case.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::bounds;
use crate::ingress::yaml::YamlNode;
use crate::ledger::{EntryId, Ledger};
use crate::position::{Position, SyntaxError};

/// Returns a member.
pub(super) fn member<'n>(node: &'n YamlNode, name: &str) -> Option<&'n YamlNode> {
    let mut members = node.members().iter();
    members
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// Returns a member of members, whose names are separated by dots.
pub(super) fn at<'n>(node: &'n YamlNode, path: &str) -> Option<&'n YamlNode> {
    path.split('.').try_fold(node, member)
}

/// Returns the text of a member of members.
pub(super) fn text<'n>(node: &'n YamlNode, path: &str) -> Option<&'n str> {
    at(node, path).and_then(YamlNode::text).map(str::trim)
}

/// Returns the truth that Go's `ParseBool` reads in a label.
pub(super) fn label_truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Returns the truth of a text in a label, an argument or a file: YAML has further words for it.
pub(super) fn truth(text: &str) -> Option<bool> {
    let word = text.trim().to_ascii_lowercase();
    label_truth(&word).or(match word.as_str() {
        "on" | "y" | "yes" => Some(true),
        "n" | "no" | "off" => Some(false),
        _ => None,
    })
}

/// Returns true if a member of members is on.
pub(super) fn is_on(node: &YamlNode, path: &str) -> bool {
    text(node, path).and_then(truth) == Some(true)
}

/// Returns true if a text is the truth that something is off.
pub(super) fn is_off(node: &YamlNode) -> bool {
    node.text().and_then(truth) == Some(false)
}

/// Returns the number of a member of members.
pub(super) fn number(node: &YamlNode, path: &str) -> Option<u64> {
    text(node, path)?.parse().ok()
}

/// Returns the texts of a list, or of a text with commas.
pub(super) fn texts(node: Option<&YamlNode>) -> Vec<String> {
    match node {
        Some(YamlNode::Scalar { text, .. }) => text
            .split(',')
            .map(|it| it.trim().to_owned())
            .filter(|it| !it.is_empty())
            .collect(),
        Some(node) => node
            .elements()
            .iter()
            .filter_map(|it| Some(it.text()?.trim().to_owned()))
            .collect(),
        None => Vec::new(),
    }
}

/// Returns a name without the source behind it.
pub(super) fn unqualified(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

/// Returns the first entry of a value.
pub(super) fn entry(node: &YamlNode) -> Option<EntryId> {
    node.entries().first().copied()
}

/// Returns a duration of Go, such as `1m30s`, or a number of seconds, in milliseconds.
pub(super) fn millis(text: &str) -> Option<u64> {
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(1_000);
    }
    let mut total = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let count: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let factor = match &rest[..end] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        total = total.checked_add(count.checked_mul(factor)?)?;
        rest = &rest[end..];
    }
    Some(total)
}

/// Adds the members of a tree to another one. Lists are joined, and the first of two texts stays.
pub(super) fn merge(into: &mut YamlNode, from: YamlNode) {
    match (into, from) {
        (YamlNode::Map(members), YamlNode::Map(added)) => {
            for (key, value) in added {
                match members
                    .iter_mut()
                    .find(|(known, _)| known.eq_ignore_ascii_case(&key))
                {
                    Some((_, known)) => merge(known, value),
                    None => members.push((key, value)),
                }
            }
        }
        (YamlNode::List(elements), YamlNode::List(added)) => elements.extend(added),
        _ => {}
    }
}

/// The member that is the text of a value which has members too, as of labels `tls=true` and `tls.certresolver=le`.
pub(super) const ITSELF: &str = "";

/// Puts a value at a way of members; `servers[0]` is an element of a list. A value that stands there already stays.
pub(super) fn insert(node: &mut YamlNode, way: &[&str], value: YamlNode) {
    let (Some((first, rest)), YamlNode::Map(members)) = (way.split_first(), node) else {
        return;
    };
    let (name, index) = match first.split_once('[') {
        Some((name, index)) => (name, Some(index.trim_end_matches(']'))),
        None => (*first, None),
    };
    let known = members
        .iter()
        .position(|(key, _)| key.eq_ignore_ascii_case(name));
    let at = known.unwrap_or_else(|| {
        let empty = match index {
            Some(_) => YamlNode::List(Vec::new()),
            None => YamlNode::Map(Vec::new()),
        };
        members.push((name.to_owned(), empty));
        members.len() - 1
    });
    let mut is_new = known.is_none();
    let child = match (index, &mut members[at].1) {
        (Some(index), YamlNode::List(elements)) => {
            let index = index.parse().unwrap_or(0).min(elements.len());
            if index == elements.len() {
                is_new = true;
                elements.push(YamlNode::Map(Vec::new()));
            }
            &mut elements[index]
        }
        (_, child) => child,
    };
    match rest {
        [] if is_new => *child = value,
        [] => {
            if let (YamlNode::Map(members), YamlNode::Scalar { .. }) = (child, &value) {
                members.push((ITSELF.to_owned(), value));
            }
        }
        rest => {
            if let YamlNode::Scalar { .. } = child {
                let known = std::mem::replace(child, YamlNode::Map(Vec::new()));
                *child = map([(ITSELF, known)]);
            }
            insert(child, rest, value);
        }
    }
}

/// Returns a map with these members.
pub(super) fn map<const N: usize>(members: [(&str, YamlNode); N]) -> YamlNode {
    let members = members.into_iter();
    YamlNode::Map(
        members
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    )
}

/// Returns a text that stands for an entry.
pub(super) fn scalar(id: EntryId, text: impl Into<String>) -> YamlNode {
    let text = text.into();
    YamlNode::Scalar { id, text }
}

/// Parses TOML.
pub(super) fn parse_toml(
    name: &str,
    text: &str,
    ledger: &mut Ledger,
) -> Result<YamlNode, SyntaxError> {
    let file: Arc<str> = name.into();
    let starts = text.match_indices('\n').map(|(at, _)| at + 1);
    let mut reader = TomlReader {
        text,
        line_starts: [0].into_iter().chain(starts).collect(),
        file,
        ledger,
        values: 0,
    };
    if text.len() > bounds::INPUT_BYTES {
        let most = bounds::INPUT_BYTES;
        let start = Position::start(&reader.file);
        return Err(start.error(format!("the input has more than {most} bytes")));
    }
    let table = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        reader.position(start).error(error.message())
    })?;
    reader.table(table.get_ref(), "")
}

struct TomlReader<'r> {
    text: &'r str,
    line_starts: Vec<usize>,
    file: Arc<str>,
    ledger: &'r mut Ledger,
    values: usize,
}

impl TomlReader<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &str) -> Result<YamlNode, SyntaxError> {
        let mut members: Vec<_> = table.iter().collect();
        members.sort_by_key(|(key, _)| key.span().start);
        let mut found = Vec::new();
        for (key, value) in members {
            let key = key.get_ref().to_string();
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            found.push((key, self.value(value, &path)?));
        }
        Ok(YamlNode::Map(found))
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, path: &str) -> Result<YamlNode, SyntaxError> {
        self.values += 1;
        let position = self.position(value.span().start);
        if self.values > bounds::DIRECTIVES {
            let most = bounds::DIRECTIVES;
            return Err(position.error(format!("the input has more than {most} values")));
        }
        let text = match value.get_ref() {
            DeValue::Table(table) => return self.table(table, path),
            DeValue::Array(elements) => {
                let mut found = Vec::new();
                for element in elements.iter() {
                    found.push(self.value(element, &format!("{path}[{}]", found.len()))?);
                }
                return Ok(YamlNode::List(found));
            }
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(is_on) => is_on.to_string(),
            DeValue::Datetime(time) => time.to_string(),
        };
        let id = self.ledger.enter(position, &format!("{path}: {text}"));
        Ok(scalar(id, text))
    }

    fn position(&self, offset: usize) -> Position {
        let line = self.line_starts.partition_point(|it| *it <= offset);
        let start = line.checked_sub(1).map_or(0, |at| self.line_starts[at]);
        let before = self.text.get(start..offset).unwrap_or_default();
        Position {
            file: Arc::clone(&self.file),
            line,
            column: before.chars().count() + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a duration of Go is read or refused. Method: units, several of them, none, others.
    #[test]
    fn durations_of_go_are_read() {
        for (text, expected) in [
            ("10", Some(10_000)),
            ("1m30s", Some(90_000)),
            ("100ms", Some(100)),
            ("1h", Some(3_600_000)),
            ("1.5s", None),
            ("s", None),
            ("5d", None),
            ("99999999999999999h", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
    }

    /// Goal: an error of TOML has its place, and values of tables have theirs. Method: a broken text, and a value in the third line.
    #[test]
    fn values_of_toml_have_places() {
        let mut ledger = Ledger::default();
        let error = parse_toml("t", "a = 1\nb = \n", &mut ledger).unwrap_err();
        assert!(error.to_string().starts_with("t:2:"), "{error}");
        let tree = parse_toml("t", "[http.x]\n\na = [\"b\"]\n", &mut ledger).unwrap();
        let id = entry(at(&tree, "HTTP.X.A").unwrap()).unwrap();
        assert_eq!(ledger.comment(id), "t:3: http.x.a[0]: b");
    }
}
