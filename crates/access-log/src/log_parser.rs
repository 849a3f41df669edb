//! Finds out the envelope and the format of a log by its first lines, and parses its lines by both.

use crate::envelope::{EnvelopeLayer, EnvelopeLayers, LogEnvelope};
use crate::format::{self, LogFormat, SampleScore};
use crate::line::{LineError, ParsedLine};
use crate::messages;
use crate::parse_cache::ParseCache;
use crate::skipped::SkippedKind;

/// Most layers of an envelope that are tried.
const MAX_LAYERS: usize = 3;

/// Most services of one log that are told apart.
const MAX_SERVICES: usize = 256;

/// Parses the lines of one log.
#[derive(Debug)]
pub(crate) struct LogParser {
    envelope: LogEnvelope,
    format: LogFormat,
    cache: ParseCache,
    services: KnownServices,
}

/// The services whose lines were requests, as their envelope names them.
#[derive(Clone, Debug, Default)]
struct KnownServices(Vec<Box<[u8]>>);

/// An envelope with the format that fits best in it.
struct FormatCandidate {
    layers: EnvelopeLayers,
    format: LogFormat,
    score: SampleScore,
}

impl LogParser {
    pub(crate) fn new(layers: EnvelopeLayers, format: LogFormat) -> Self {
        Self {
            envelope: LogEnvelope::new(layers),
            format,
            cache: ParseCache::default(),
            services: KnownServices::default(),
        }
    }

    /// Returns the parser for the log that begins with `sample`, of `format` where that is known; `None` where no format fits a line.
    pub(crate) fn detect(sample: &[u8], format: Option<&LogFormat>) -> Option<Self> {
        let bare = FormatCandidate::best(sample, EnvelopeLayers::default(), format);
        let lines = format::lines(sample).count();
        let is_clear = |found: &FormatCandidate| 2 * found.score.with_resource >= lines;
        let found = match bare {
            Some(found) if is_clear(&found) => Some(found),
            bare => FormatCandidate::enveloped(sample, format, bare),
        };
        let known = || FormatCandidate {
            layers: EnvelopeLayers::default(),
            format: format.cloned().unwrap_or(LogFormat::Sluicegate),
            score: SampleScore::default(),
        };
        let found = match format {
            Some(_) => found.unwrap_or_else(known),
            None => found?,
        };
        let found = Self::new(found.layers, found.format);
        let mut reader = found.restarted();
        for line in format::lines(sample) {
            // What a line is does not matter here: the reader remembers the services whose lines are requests.
            let _ = reader.parse(line, &mut ParsedLine::default());
        }
        // The format of the reader may know the fields that a later line of the sample names.
        Some(Self {
            services: reader.services,
            ..found
        })
    }

    /// Returns a parser of the same log that has read nothing yet.
    pub(crate) fn restarted(&self) -> Self {
        Self {
            services: self.services.clone(),
            ..Self::new(self.envelope.layers().clone(), self.format.clone())
        }
    }

    pub(crate) fn format(&self) -> &LogFormat {
        &self.format
    }

    /// Returns the names of the layers around lines, from the outside.
    pub(crate) fn envelope(&self) -> impl Iterator<Item = &'static str> {
        self.envelope.layers().names()
    }

    /// Parses the next line.
    ///
    /// # Errors
    /// The reason why the line is not a request.
    #[inline]
    pub(crate) fn parse<'a>(
        &'a mut self,
        line: &'a [u8],
        into: &mut ParsedLine<'a>,
    ) -> Result<(), LineError> {
        let opened = self.envelope.open(line)?;
        match self.format.parse_next(opened.text, &mut self.cache, into) {
            Ok(()) => self.services.add(opened.service),
            // Some messages are known by the name of the program, which the envelope has.
            Err(LineError::Malformed(_)) if messages::is_message(line) => {
                return Err(LineError::NoRequest(SkippedKind::Message));
            }
            Err(LineError::Malformed(_)) if self.services.lacks(opened.service) => {
                return Err(LineError::NoRequest(SkippedKind::OtherService));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl KnownServices {
    /// Remembers a service whose line is a request.
    fn add(&mut self, service: &[u8]) {
        if self.lacks(service) && self.0.len() < MAX_SERVICES {
            self.0.push(service.into());
        }
    }

    /// Returns whether no line of a service was a request. A line without the name of a service may be one of any.
    fn lacks(&self, service: &[u8]) -> bool {
        !service.is_empty() && !self.0.iter().any(|known| **known == *service)
    }
}

impl FormatCandidate {
    /// Returns the format that fits the lines in this envelope best; `None` where none fits a line.
    fn best(sample: &[u8], layers: EnvelopeLayers, format: Option<&LogFormat>) -> Option<Self> {
        let mut envelope = LogEnvelope::new(layers.clone());
        let mut lines = Vec::new();
        for line in format::lines(sample) {
            if let Ok(line) = envelope.open(line) {
                lines.push(line.text.to_vec());
            }
        }
        let lines = lines.iter().map(Vec::as_slice);
        let (found, score) = LogFormat::best(lines, format)?;
        Some(Self {
            layers,
            // A format that is given reads the first line as it is given.
            format: format.cloned().unwrap_or(found),
            score,
        })
    }

    /// Returns the best format in the envelope with the fewest layers in which one fits better than `bare`, which has none.
    fn enveloped(sample: &[u8], format: Option<&LogFormat>, bare: Option<Self>) -> Option<Self> {
        let mut best = bare;
        let mut envelopes = vec![EnvelopeLayers::default()];
        for _ in 0..MAX_LAYERS {
            let deeper: Vec<EnvelopeLayers> = (envelopes.iter())
                .flat_map(|layers| EnvelopeLayer::all().filter_map(|layer| layers.with(layer)))
                .filter(|layers| changes_most(sample, layers))
                .collect();
            let before = best.as_ref().map(|found| found.score);
            for layers in &deeper {
                let found = Self::best(sample, layers.clone(), format);
                if found.as_ref().map(|found| found.score) > best.as_ref().map(|found| found.score)
                {
                    best = found;
                }
            }
            if best.as_ref().map(|found| found.score) > before {
                break;
            }
            envelopes = deeper;
        }
        best
    }
}

/// Returns whether the innermost layer is around most lines.
fn changes_most(sample: &[u8], layers: &EnvelopeLayers) -> bool {
    let mut all = 0;
    let mut changed = 0;
    let mut outer = LogEnvelope::new(layers.without_innermost());
    let mut whole = LogEnvelope::new(layers.clone());
    for line in format::lines(sample) {
        all += 1;
        let before = outer.open(line).map(|line| line.text.len());
        changed += usize::from(whole.open(line).map(|line| line.text.len()) != before);
    }
    2 * changed > all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts an envelope around a line.
    type WrapLine<'w> = &'w dyn Fn(&str) -> String;

    /// Puts an envelope around a line of a service.
    type WrapServiceLine<'w> = &'w dyn Fn(&str, &str) -> String;

    /// Goal: a log in any envelope has the format of its lines. Method: lines of formats of text and of JSON in each envelope that is
    /// common, detected, and with the format given.
    #[test]
    fn envelopes_are_found_by_their_lines() {
        let text =
            "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"curl\"";
        let json = include_str!("formats/samples/caddy.log").trim_end();
        let envoy = include_str!("formats/samples/envoy-gateway.log").trim_end();
        let envelopes: [(&[&str], WrapLine<'_>); 13] = [
            (&[], &|line| line.to_owned()),
            (&["json"], &|line| {
                let log = serde_json::Value::from(format!("{line}\n"));
                format!(
                    "{{\"log\":{log},\"stream\":\"stdout\",\"time\":\"2026-11-21T07:10:38.042Z\"}}"
                )
            }),
            (&["json"], &|line| {
                format!("{{\"MESSAGE\":{}}}", serde_json::Value::from(line))
            }),
            (&["cri"], &|line| {
                format!("2026-11-21T07:10:38.042Z stdout F {line}")
            }),
            (&["time"], &|line| {
                format!("2026-11-21T07:10:38.042Z {line}")
            }),
            (&["compose"], &|line| format!("web-1  | {line}")),
            (&["compose", "time"], &|line| {
                format!("web-1  | 2026-11-21T07:10:38.042Z {line}")
            }),
            (&["compose"], &|line| {
                format!("\u{1b}[36mweb-1  | \u{1b}[0m{line}")
            }),
            (&["compose"], &|line| {
                format!("\u{1b}[36mweb_1  |\u{1b}[0m {line}")
            }),
            (&["stern"], &|line| format!("web-7d4f nginx {line}")),
            (&["stern"], &|line| {
                format!("\u{1b}[91mweb-7d4f\u{1b}[0m \u{1b}[91mnginx\u{1b}[0m {line}")
            }),
            (&["pod"], &|line| format!("[pod/web/nginx] {line}")),
            (&["syslog"], &|line| {
                format!("<190>Nov 21 07:10:38 web caddy: {line}")
            }),
        ];
        for (names, wrap) in envelopes {
            for (format, line) in [("combined", text), ("caddy", json), ("envoy-json", envoy)] {
                let sample = format!("{}\n{}\n", wrap(line), wrap(line));
                let given = LogFormat::named(format).unwrap();
                for given in [None, Some(&given)] {
                    let mut parser = LogParser::detect(sample.as_bytes(), given).unwrap();
                    assert_eq!(parser.format().name(), format, "{sample}");
                    assert_eq!(parser.envelope().collect::<Vec<_>>(), names, "{sample}");
                    let wrapped = wrap(line);
                    let mut parsed = ParsedLine::default();
                    parser.parse(wrapped.as_bytes(), &mut parsed).unwrap();
                    assert!(parsed.names_resource());
                }
            }
        }
    }

    /// Goal: what another service writes is no broken line, and what the service with the requests writes is one. Method: the lines of
    /// three services in each envelope that names them; one of them first writes a request late.
    #[test]
    fn lines_of_other_services_are_told_apart() {
        let request = "192.0.2.1 - - [21/Nov/2026:07:10:38 +0000] \"GET / HTTP/1.1\" 200 1";
        let wraps: [WrapServiceLine<'_>; 6] = [
            &|service, line| format!("{service}-1  | {line}"),
            &|service, line| format!("\u{1b}[36m{service}-1  |\u{1b}[0m {line}"),
            &|service, line| format!("{service}-7d4f {service} {line}"),
            &|service, line| format!("[pod/{service}-7d4f/{service}] {line}"),
            &|service, line| format!("<30>Nov 21 07:10:38 host {service}[7]: {line}"),
            &|service, line| {
                let message = serde_json::Value::from(line);
                format!("{{\"SYSLOG_IDENTIFIER\":\"{service}\",\"MESSAGE\":{message}}}")
            },
        ];
        let other = Err(LineError::NoRequest(SkippedKind::OtherService));
        for wrap in wraps {
            let sample = [wrap("web", request), wrap("db", "checkpoint complete")];
            let sample = format!("{}\n", sample.join("\n")).repeat(2);
            let mut parser = LogParser::detect(sample.as_bytes(), None).unwrap();
            let mut parse = |service, line| {
                let line = wrap(service, line);
                parser.parse(line.as_bytes(), &mut ParsedLine::default())
            };
            for service in ["db", "late"] {
                assert_eq!(parse(service, "checkpoint complete"), other, "{sample}");
            }
            let broken = parse("web", "checkpoint complete");
            assert!(matches!(broken, Err(LineError::Malformed(_))), "{broken:?}");
            assert_eq!(parse("late", request), Ok(()));
            let broken = parse("late", "checkpoint complete");
            assert!(matches!(broken, Err(LineError::Malformed(_))), "{broken:?}");
        }
    }

    /// Goal: a message is known by the name of its program, also where an envelope has that. Method: HAProxy with lines in the common
    /// format, behind syslog.
    #[test]
    fn messages_are_known_by_their_envelope() {
        let begin = "Nov 21 07:10:38 web haproxy[1]: ";
        let request = "192.0.2.1 - - [21/Nov/2026:07:10:38 +0000] \"GET / HTTP/1.1\" 200 1";
        let sample = format!("{begin}{request}\n").repeat(3);
        let mut parser = LogParser::detect(sample.as_bytes(), None).unwrap();
        assert_eq!(parser.envelope().collect::<Vec<_>>(), ["syslog"]);
        for (text, expected) in [
            (request, Ok(())),
            (
                "Server app/a is DOWN.",
                Err(LineError::NoRequest(SkippedKind::Message)),
            ),
            (
                "192.0.2.1 \"GET /\"",
                Err(LineError::Malformed("there is no [time]")),
            ),
        ] {
            let line = format!("{begin}{text}");
            let parsed = parser.parse(line.as_bytes(), &mut ParsedLine::default());
            assert_eq!(parsed, expected, "{text}");
        }
    }
}
