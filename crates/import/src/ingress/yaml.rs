//! Parses YAML into a tree whose values have their entries in the ledger.
//!
//! Aliases are refused: no manifest needs them, and they make small files large.

use std::sync::Arc;

use saphyr_parser::{Event, Parser, Span};

use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::position::{Position, SyntaxError};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum YamlNode {
    Scalar {
        id: EntryId,
        text: String,
    },
    List(Vec<YamlNode>),
    /// Members in their order.
    Map(Vec<(String, YamlNode)>),
}

impl YamlNode {
    /// Returns a member.
    pub(super) fn get(&self, name: &str) -> Option<&YamlNode> {
        match self {
            Self::Map(members) => members
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, it)| it),
            _ => None,
        }
    }

    /// Returns a member of members.
    pub(super) fn at(&self, names: &[&str]) -> Option<&YamlNode> {
        names.iter().try_fold(self, |node, name| node.get(name))
    }

    /// Returns the elements of a list.
    pub(super) fn elements(&self) -> &[YamlNode] {
        match self {
            Self::List(elements) => elements,
            _ => &[],
        }
    }

    /// Returns the members of a map.
    pub(super) fn members(&self) -> &[(String, YamlNode)] {
        match self {
            Self::Map(members) => members,
            _ => &[],
        }
    }

    /// Returns a text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns the entries of this value and of all within it.
    pub(super) fn entries(&self) -> Vec<EntryId> {
        match self {
            Self::Scalar { id, .. } => vec![*id],
            Self::List(elements) => elements.iter().flat_map(Self::entries).collect(),
            Self::Map(members) => members.iter().flat_map(|(_, it)| it.entries()).collect(),
        }
    }
}

/// Parses all documents of a text.
pub(super) fn parse(
    name: &str,
    text: &str,
    ledger: &mut Ledger,
) -> Result<Vec<YamlNode>, SyntaxError> {
    let file: Arc<str> = name.into();
    if text.len() > bounds::INPUT_BYTES {
        let most = bounds::INPUT_BYTES;
        return Err(Position::start(&file).error(format!("the input has more than {most} bytes")));
    }
    let mut reader = YamlReader {
        parser: Parser::new_from_str(text),
        file,
        ledger,
        nodes: 0,
    };
    let mut documents = Vec::new();
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::Nothing => {}
            other => documents.push(reader.node(other, span, String::new(), 0)?),
        }
    }
    Ok(documents)
}

struct YamlReader<'r> {
    parser: Parser<'r, saphyr_parser::StrInput<'r>>,
    file: Arc<str>,
    ledger: &'r mut Ledger,
    nodes: usize,
}

impl<'r> YamlReader<'r> {
    fn next(&mut self) -> Result<Option<(Event<'r>, Span)>, SyntaxError> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok(found)) => Ok(Some(found)),
            Some(Err(error)) => {
                let marker = error.marker();
                let position = self.position(marker.line(), marker.col());
                Err(position.error(error.info().to_owned()))
            }
        }
    }

    /// Reads the value that an event begins; `path` is how it is reached.
    fn node(
        &mut self,
        event: Event<'r>,
        span: Span,
        path: String,
        depth: usize,
    ) -> Result<YamlNode, SyntaxError> {
        let position = self.position(span.start.line(), span.start.col());
        self.nodes += 1;
        if self.nodes > bounds::DIRECTIVES {
            let most = bounds::DIRECTIVES;
            return Err(position.error(format!("the input has more than {most} values")));
        }
        if depth > bounds::DEPTH {
            let most = bounds::DEPTH;
            return Err(position.error(format!("more than {most} values within each other")));
        }
        match event {
            Event::Scalar(text, ..) => {
                let text = text.into_owned();
                let id = self.ledger.enter(position, &format!("{path}: {text}"));
                Ok(YamlNode::Scalar { id, text })
            }
            Event::SequenceStart(..) => {
                let mut elements = Vec::new();
                loop {
                    let (event, span) = self.expected(&position)?;
                    if event == Event::SequenceEnd {
                        return Ok(YamlNode::List(elements));
                    }
                    let path = format!("{path}[{}]", elements.len());
                    elements.push(self.node(event, span, path, depth + 1)?);
                }
            }
            Event::MappingStart(..) => {
                let mut members: Vec<(String, YamlNode)> = Vec::new();
                loop {
                    let (event, span) = self.expected(&position)?;
                    let key = match event {
                        Event::MappingEnd => return Ok(YamlNode::Map(members)),
                        Event::Scalar(text, ..) => text.into_owned(),
                        _ => return Err(position.error("the name of a member is a text")),
                    };
                    let at = self.position(span.start.line(), span.start.col());
                    if members.iter().any(|(known, _)| *known == key) {
                        return Err(at.error(format!("{key:?} stands here twice")));
                    }
                    let path = if path.is_empty() {
                        key.clone()
                    } else {
                        format!("{path}.{key}")
                    };
                    let (event, span) = self.expected(&at)?;
                    let value = self.node(event, span, path, depth + 1)?;
                    members.push((key, value));
                }
            }
            Event::Alias(_) => Err(position.error("aliases are not read; write the value")),
            _ => Err(position.error("a value is expected")),
        }
    }

    fn expected(&mut self, position: &Position) -> Result<(Event<'r>, Span), SyntaxError> {
        self.next()?
            .ok_or_else(|| position.error("the text ends within a value"))
    }

    fn position(&self, line: usize, column: usize) -> Position {
        Position {
            file: Arc::clone(&self.file),
            line,
            column: column + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse("i", text, &mut Ledger::default())
            .unwrap_err()
            .to_string()
    }

    /// Goal: a wrong text is an error with its place. Method: an alias, a member twice, depth, an open bracket.
    #[test]
    fn errors_have_a_place() {
        assert_eq!(
            error("a: &x 1\nb: *x"),
            "i:2:4: aliases are not read; write the value"
        );
        assert_eq!(error("a: 1\na: 2"), "i:2:1: \"a\" stands here twice");
        assert!(error(&"[".repeat(100)).starts_with("i:1:"));
        assert!(error("a: [1").starts_with("i:"));
    }

    /// Goal: values of all documents are found. Method: two documents with lists and maps.
    #[test]
    fn values_are_found_by_their_way() {
        let documents = parse("i", "a: {b: [1, x]}\n---\nc: d\n", &mut Ledger::default()).unwrap();
        let list = documents[0].at(&["a", "b"]).unwrap();
        assert_eq!(list.elements()[1].text(), Some("x"));
        assert_eq!(documents[1].get("c").and_then(YamlNode::text), Some("d"));
    }
}
