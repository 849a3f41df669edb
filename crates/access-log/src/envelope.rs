//! Takes lines out of what a log driver or a collector has put around them: Docker's json-file, the logs of Kubernetes (CRI), Compose and
//! kubectl, syslog and the journal.
//!
//! Collectors are chained, so an envelope has layers: prefixes, an object of JSON with the line as a string, and prefixes inside of it.
//! Drivers split long lines; the parts are put together again.
//!
//! # Limits
//! The parts of a line take at most [`MAX_LINE`] bytes for each of the two streams of a container.

use arrayvec::ArrayVec;

use crate::json;
use crate::line::LineError;
use crate::lines::MAX_LINE;
use crate::prefix::{LinePiece, LinePrefix, PieceEnd};
use crate::skipped::SkippedKind;
use crate::text::RawText;

/// Prefixes on one side of the object of JSON.
const MAX_PREFIXES: usize = 2;

/// Names of the member that has the line: Docker and Fluent Bit, the journal, Filebeat and Logstash, Loki, Google Cloud.
const LINE_MEMBERS: [&[u8]; 6] = [
    b"log",
    b"MESSAGE",
    b"message",
    b"msg",
    b"line",
    b"textPayload",
];

/// Names of the member that has the name of the service: the journal, Fluentd, Promtail.
const SERVICE_MEMBERS: [&[u8]; 4] = [
    b"SYSLOG_IDENTIFIER",
    b"CONTAINER_NAME",
    b"container_name",
    b"service",
];

/// Bytes of a line after which Docker splits it (moby, `daemon/logger/copier.go`).
const DOCKER_PART: usize = 16 * 1024;

/// The envelope of each line of a log, with what later lines need of earlier ones.
#[derive(Debug, Default)]
pub(crate) struct LogEnvelope {
    layers: EnvelopeLayers,
    /// The line of the latest object of JSON.
    text: Vec<u8>,
    /// The parts of a line of each stream whose last part is not read.
    pending: [PendingLine; 2],
}

/// The layers of an envelope, from the outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnvelopeLayers {
    outside: ArrayVec<LinePrefix, MAX_PREFIXES>,
    has_json: bool,
    inside: ArrayVec<LinePrefix, MAX_PREFIXES>,
}

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvelopeLayer {
    Json,
    Prefix(LinePrefix),
}

/// A line out of its envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenedLine<'l> {
    pub(crate) text: &'l [u8],
    /// The service that wrote the line, as its envelope names it; empty where it names none.
    pub(crate) service: &'l [u8],
}

/// The parts of a line up to its last one.
#[derive(Debug, Default)]
struct PendingLine {
    bytes: Vec<u8>,
    state: PendingState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PendingState {
    #[default]
    None,
    Begun,
    /// It is longer than a line may be, and is not kept.
    TooLong,
}

impl EnvelopeLayers {
    /// Returns these layers with one more inside of them; `None` where there is no place for it.
    pub(crate) fn with(&self, layer: EnvelopeLayer) -> Option<Self> {
        let mut layers = self.clone();
        match layer {
            EnvelopeLayer::Json if layers.has_json => return None,
            EnvelopeLayer::Json => layers.has_json = true,
            EnvelopeLayer::Prefix(prefix) => {
                let side = match layers.has_json {
                    true => &mut layers.inside,
                    false => &mut layers.outside,
                };
                side.try_push(prefix).ok()?;
            }
        }
        Some(layers)
    }

    /// Returns these layers without the last one.
    pub(crate) fn without_innermost(&self) -> Self {
        let mut layers = self.clone();
        if layers.inside.pop().is_none() {
            match layers.has_json {
                true => layers.has_json = false,
                false => drop(layers.outside.pop()),
            }
        }
        layers
    }

    fn is_empty(&self) -> bool {
        self.outside.is_empty() && !self.has_json && self.inside.is_empty()
    }

    /// Returns the names of the layers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let outside = self.outside.iter().map(|prefix| prefix.name());
        let json = self.has_json.then_some("json");
        let inside = self.inside.iter().map(|prefix| prefix.name());
        outside.chain(json).chain(inside)
    }
}

impl EnvelopeLayer {
    /// All kinds of layers.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let prefixes = LinePrefix::ALL.into_iter().map(Self::Prefix);
        prefixes.chain([Self::Json])
    }
}

impl LogEnvelope {
    pub(crate) fn new(layers: EnvelopeLayers) -> Self {
        Self {
            layers,
            ..Self::default()
        }
    }

    /// Returns the layers.
    pub(crate) fn layers(&self) -> &EnvelopeLayers {
        &self.layers
    }

    /// Takes a line out of its envelope; one without it is returned as it stands.
    ///
    /// # Errors
    /// The line is a part of a longer one, which is returned with its last part, or longer than a line may be.
    #[inline]
    pub(crate) fn open<'l>(&'l mut self, line: &'l [u8]) -> Result<OpenedLine<'l>, LineError> {
        match self.layers.is_empty() {
            true => Ok(OpenedLine {
                text: line,
                service: b"",
            }),
            false => self.open_layers(line),
        }
    }

    fn open_layers<'l>(&'l mut self, line: &'l [u8]) -> Result<OpenedLine<'l>, LineError> {
        let mut piece = LinePiece::whole(line.strip_suffix(b"\r").unwrap_or(line));
        for prefix in &self.layers.outside {
            piece = prefix.strip(piece);
        }
        if self.layers.has_json {
            self.text.clear();
            if let Some(unquoted) = unquote(piece, &mut self.text) {
                piece = LinePiece {
                    text: &self.text,
                    ..unquoted
                };
            }
        }
        for prefix in &self.layers.inside {
            piece = prefix.strip(piece);
        }
        let pending = &mut self.pending[usize::from(piece.is_error_stream)];
        let text = match (pending.state, piece.end) {
            (PendingState::None, PieceEnd::Whole) => piece.text,
            (_, PieceEnd::Continued) => {
                pending.add(piece.text);
                return Err(LineError::NoRequest(SkippedKind::Fragment));
            }
            (_, PieceEnd::Whole) => {
                pending.add(piece.text);
                pending.finish()?
            }
        };
        Ok(OpenedLine {
            text,
            service: piece.service,
        })
    }
}

impl PendingLine {
    /// Adds a part.
    fn add(&mut self, part: &[u8]) {
        if self.state == PendingState::None {
            self.bytes.clear();
            self.state = PendingState::Begun;
        }
        if self.bytes.len() + part.len() > MAX_LINE {
            self.state = PendingState::TooLong;
            self.bytes.clear();
        }
        if self.state == PendingState::Begun {
            self.bytes.extend_from_slice(part);
        }
    }

    /// Returns the whole line, and is ready for the next one.
    fn finish(&mut self) -> Result<&[u8], LineError> {
        match std::mem::take(&mut self.state) {
            PendingState::TooLong => Err(LineError::TooLong),
            PendingState::None | PendingState::Begun => Ok(&self.bytes),
        }
    }
}

/// Appends the line that an object of JSON has as a string to `text`, without its end. Returns the kind of the piece, without its text;
/// `None` where the piece is no such object.
fn unquote<'a>(piece: LinePiece<'a>, text: &mut Vec<u8>) -> Option<LinePiece<'a>> {
    let mut found: Option<RawText<'a>> = None;
    let mut is_error_stream = piece.is_error_stream;
    let mut service = piece.service;
    json::members(piece.text, |name, value| {
        let name = name.raw();
        if LINE_MEMBERS.contains(&name) {
            found = found.or(value.string());
        } else if SERVICE_MEMBERS.contains(&name) {
            service = value.raw();
        } else if name == b"stream" {
            is_error_stream = value.raw() == b"stderr";
        }
        Ok(())
    })
    .ok()?;
    found?.append_to(text);
    let is_ended = text.ends_with(b"\n");
    while matches!(text.last(), Some(b'\n' | b'\r')) {
        text.pop();
    }
    let end = match piece.end {
        // Docker puts the line end into the string of the last part.
        PieceEnd::Whole if is_ended || text.len() < DOCKER_PART => PieceEnd::Whole,
        _ => PieceEnd::Continued,
    };
    Some(LinePiece {
        text: b"",
        end,
        service,
        is_error_stream,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(layers: &[EnvelopeLayer]) -> LogEnvelope {
        let mut all = EnvelopeLayers::default();
        for layer in layers {
            all = all.with(*layer).unwrap();
        }
        LogEnvelope::new(all)
    }

    fn opened(envelope: &mut LogEnvelope, line: &str) -> Result<String, LineError> {
        let opened = envelope.open(line.as_bytes())?;
        Ok(String::from_utf8(opened.text.to_vec()).unwrap())
    }

    /// Writes a part of a line, with `\n` behind its last one, as one of a stream.
    type WritePart<'w> = &'w dyn Fn(&str, &str) -> String;

    const FRAGMENT: Result<String, LineError> = Err(LineError::NoRequest(SkippedKind::Fragment));

    /// Goal: the string of an object is the line. Method: the objects of several collectors, and lines that are none.
    #[test]
    fn lines_are_taken_out_of_json() {
        let mut envelope = envelope(&[EnvelopeLayer::Json]);
        for line in [
            r#"{"log":"a \"b\"\n","stream":"stdout","time":"2026-11-21T07:10:38.042Z"}"#,
            r#"{"_HOSTNAME":"web","MESSAGE":"a \"b\"","PRIORITY":"6"}"#,
            r#"{"@timestamp":"2026-11-21T07:10:38Z","message":"a \u0022b\u0022\r\n"}"#,
            r#"a "b""#,
        ] {
            assert_eq!(
                opened(&mut envelope, line),
                Ok("a \"b\"".to_owned()),
                "{line}"
            );
        }
        for other in ["{\"log\":5}", "{\"log\":\"", "", "{}"] {
            assert_eq!(opened(&mut envelope, other), Ok(other.to_owned()));
        }
    }

    /// Goal: a split line is one line, whatever stands between its parts, and its memory is bounded. Method: parts by Docker and by CRI
    /// with a line of the other stream between them; more parts than a line may have.
    #[test]
    fn parts_of_a_line_are_put_together() {
        let part = "x".repeat(DOCKER_PART);
        let docker = |text: &str, stream: &str| {
            format!(r#"{{"log":"{text}","stream":"{stream}","time":"2026-11-21T07:10:38Z"}}"#)
        };
        let cri = |text: &str, stream: &str| {
            let (tag, text) = match text.strip_suffix("\\n") {
                Some(text) => ("F", text),
                None => ("P", text),
            };
            format!("2026-11-21T07:10:38.042Z {stream} {tag} {text}")
        };
        let forms: [(EnvelopeLayer, WritePart<'_>); 2] = [
            (EnvelopeLayer::Json, &docker),
            (EnvelopeLayer::Prefix(LinePrefix::Cri), &cri),
        ];
        for (layer, write) in forms {
            let mut envelope = envelope(&[layer]);
            assert_eq!(opened(&mut envelope, &write(&part, "stdout")), FRAGMENT);
            assert_eq!(
                opened(&mut envelope, &write("e\\n", "stderr")),
                Ok("e".to_owned())
            );
            assert_eq!(opened(&mut envelope, &write(&part, "stdout")), FRAGMENT);
            let whole = opened(&mut envelope, &write("y\\n", "stdout")).unwrap();
            assert_eq!(whole, format!("{part}{part}y"));
            for _ in 0..5 {
                assert_eq!(opened(&mut envelope, &write(&part, "stdout")), FRAGMENT);
            }
            assert!(envelope.pending[0].bytes.len() <= MAX_LINE);
            assert_eq!(
                opened(&mut envelope, &write("y\\n", "stdout")),
                Err(LineError::TooLong)
            );
            assert_eq!(
                opened(&mut envelope, &write("z\\n", "stdout")),
                Ok("z".to_owned())
            );
        }
    }

    /// Goal: collectors may be chained. Method: syslog around JSON around a time.
    #[test]
    fn layers_are_taken_off_from_the_outside() {
        let mut envelope = envelope(&[
            EnvelopeLayer::Prefix(LinePrefix::Syslog),
            EnvelopeLayer::Json,
            EnvelopeLayer::Prefix(LinePrefix::Time),
        ]);
        let line = r#"<30>Nov 21 07:10:38 web docker[1]: {"log":"2026-11-21T07:10:38Z a b\n"}"#;
        assert_eq!(opened(&mut envelope, line), Ok("a b".to_owned()));
        assert_eq!(
            envelope.layers().names().collect::<Vec<_>>(),
            ["syslog", "json", "time"]
        );
    }
}
