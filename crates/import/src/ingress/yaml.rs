//! Parses YAML into a tree whose values have their entries in the ledger.
//!
//! An alias is the value that it names, with the same entries. All values count against a bound, since aliases make small files large.

use std::collections::BTreeMap;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::position::{Position, SyntaxError};

/// The member by which a map has those of other maps too.
const MERGE: &str = "<<";

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum YamlNode {
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
    pub(crate) fn get(&self, name: &str) -> Option<&YamlNode> {
        match self {
            Self::Map(members) => members
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, it)| it),
            _ => None,
        }
    }

    /// Returns a member of members.
    pub(crate) fn at(&self, names: &[&str]) -> Option<&YamlNode> {
        names.iter().try_fold(self, |node, name| node.get(name))
    }

    /// Returns the elements of a list.
    pub(crate) fn elements(&self) -> &[YamlNode] {
        match self {
            Self::List(elements) => elements,
            _ => &[],
        }
    }

    /// Returns the members of a map.
    pub(crate) fn members(&self) -> &[(String, YamlNode)] {
        match self {
            Self::Map(members) => members,
            _ => &[],
        }
    }

    /// Returns a text.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns the number of values, this one and all within it.
    fn size(&self) -> usize {
        match self {
            Self::Scalar { .. } => 1,
            Self::List(elements) => 1 + elements.iter().map(Self::size).sum::<usize>(),
            Self::Map(members) => 1 + members.iter().map(|(_, it)| it.size()).sum::<usize>(),
        }
    }

    /// Returns the entries of this value and of all within it.
    pub(crate) fn entries(&self) -> Vec<EntryId> {
        match self {
            Self::Scalar { id, .. } => vec![*id],
            Self::List(elements) => elements.iter().flat_map(Self::entries).collect(),
            Self::Map(members) => members.iter().flat_map(|(_, it)| it.entries()).collect(),
        }
    }
}

/// Parses all documents of a text.
pub(crate) fn parse(
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
        anchors: BTreeMap::new(),
    };
    let mut documents = Vec::new();
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::Nothing => {}
            // A document without a value, as behind the last `---` or with a comment alone.
            Event::Scalar(text, ScalarStyle::Plain, ..) if ["", "~", "null"].contains(&&*text) => {}
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
    /// The values that aliases name.
    anchors: BTreeMap<usize, YamlNode>,
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
        self.count(1, &position)?;
        if depth > bounds::DEPTH {
            let most = bounds::DEPTH;
            return Err(position.error(format!("more than {most} values within each other")));
        }
        let (anchor, node) = match event {
            Event::Scalar(text, _, anchor, _) => {
                let text = text.into_owned();
                let id = self.ledger.enter(position, &format!("{path}: {text}"));
                (anchor, YamlNode::Scalar { id, text })
            }
            Event::SequenceStart(anchor, _) => (anchor, self.list(&position, &path, depth)?),
            Event::MappingStart(anchor, _) => (anchor, self.map(&position, &path, depth)?),
            Event::Alias(anchor) => return self.aliased(anchor, &position),
            _ => return Err(position.error("a value is expected")),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    /// Reads the elements of a list.
    fn list(
        &mut self,
        position: &Position,
        path: &str,
        depth: usize,
    ) -> Result<YamlNode, SyntaxError> {
        let mut elements = Vec::new();
        loop {
            let (event, span) = self.expected(position)?;
            if event == Event::SequenceEnd {
                return Ok(YamlNode::List(elements));
            }
            let path = format!("{path}[{}]", elements.len());
            elements.push(self.node(event, span, path, depth + 1)?);
        }
    }

    /// Reads the members of a map. Those of a merge key (`<<: *name`) are weaker than its own.
    fn map(
        &mut self,
        position: &Position,
        path: &str,
        depth: usize,
    ) -> Result<YamlNode, SyntaxError> {
        let mut members: Vec<(String, YamlNode)> = Vec::new();
        let mut merged: Vec<YamlNode> = Vec::new();
        loop {
            let (event, span) = self.expected(position)?;
            let key = match event {
                Event::MappingEnd => break,
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
            match self.node(event, span, path, depth + 1)? {
                YamlNode::List(maps) if key == MERGE => merged.extend(maps),
                value if key == MERGE => merged.push(value),
                value => members.push((key, value)),
            }
        }
        for (key, value) in merged.iter().flat_map(YamlNode::members) {
            if !members.iter().any(|(known, _)| known == key) {
                members.push((key.clone(), value.clone()));
            }
        }
        Ok(YamlNode::Map(members))
    }

    /// Returns the value that an alias names.
    fn aliased(&mut self, anchor: usize, position: &Position) -> Result<YamlNode, SyntaxError> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(position.error("an alias names a value before it"));
        };
        self.count(node.size(), position)?;
        Ok(node)
    }

    /// Counts values.
    fn count(&mut self, values: usize, position: &Position) -> Result<(), SyntaxError> {
        self.nodes += values;
        if self.nodes > bounds::DIRECTIVES {
            let most = bounds::DIRECTIVES;
            return Err(position.error(format!("the input has more than {most} values")));
        }
        Ok(())
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
        assert!(error("a: 1\nb: *x").starts_with("i:2:"));
        let doubled: String = (1..30)
            .map(|it| format!("a{it}: &a{it} [*a{}, *a{}]\n", it - 1, it - 1))
            .collect();
        let bomb = format!("a0: &a0 x\n{doubled}");
        assert!(error(&bomb).ends_with("the input has more than 200000 values"));
        assert_eq!(error("a: 1\na: 2"), "i:2:1: \"a\" stands here twice");
        assert!(error(&"[".repeat(100)).starts_with("i:1:"));
        assert!(error("a: [1").starts_with("i:"));
    }

    /// Goal: an alias is the value that it names, and members of a map are stronger than those that it merges. Method: both.
    #[test]
    fn aliases_are_values() {
        let text = "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\ne: *x\n";
        let documents = parse("i", text, &mut Ledger::default()).unwrap();
        let text = |names: &[&str]| documents[0].at(names).and_then(YamlNode::text);
        assert_eq!(text(&["d", "b"]), Some("1"));
        assert_eq!(text(&["d", "c"]), Some("3"));
        assert_eq!(text(&["e", "c"]), Some("2"));
    }

    /// Goal: values of all documents are found. Method: two documents with lists and maps.
    #[test]
    fn values_are_found_by_their_way() {
        let documents = parse("i", "a: {b: [1, x]}\n---\nc: d\n", &mut Ledger::default()).unwrap();
        let list = documents[0].at(&["a", "b"]).unwrap();
        assert_eq!(list.elements()[1].text(), Some("x"));
        assert_eq!(documents[1].get("c").and_then(YamlNode::text), Some("d"));
    }

    /// Goal: documents without a value are none, and enter nothing. Method: those that Helm and `kubectl` write before, between and behind
    /// others, and a text that is a value.
    #[test]
    fn empty_documents_are_none() {
        let text =
            "---\n# Source: a.yaml\n---\na: 1\n---\n\n--- null\n---\nb: 2\n---\n# end\n---\n";
        let mut ledger = Ledger::default();
        assert_eq!(parse("i", text, &mut ledger).unwrap().len(), 2);
        assert_eq!(ledger.entries().len(), 2);
        assert_eq!(parse("i", "", &mut ledger).unwrap().len(), 0);
        assert_eq!(parse("i", "''\n", &mut ledger).unwrap().len(), 1);
    }
}
