//! Writes one outcome as one line that a person can follow on a terminal: the view of `sluicegate demo`.
//!
//! ```text
//! 07:10:38.042  429  POST /auth/sendOTP        203.0.113.7      rate-limited by otp, again in 41 s             18 µs
//! ```
//!
//! Text of a client is shown as printable ASCII, so that it cannot move the cursor or change a color.

use std::io::{IsTerminal, Write};

use sluicegate_base::address::address_text;
use sluicegate_decide::outcome::RequestDisposition;
use sluicegate_limiter::Verdict;
use sluicegate_telemetry::rfc3339::TimeFormatter;

use super::line::LogEntry;
use super::line_values::{micros, thousandths, whole_seconds};
use super::outcome::Outcome;

/// The use of terminal colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorMode {
    /// ANSI escape sequences.
    Ansi,
    /// Plain text.
    None,
}

impl ColorMode {
    /// Returns the mode with colors on a terminal, unless `NO_COLOR` is set (no-color.org).
    #[must_use]
    pub fn of_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if !refused && std::io::stdout().is_terminal() {
            Self::Ansi
        } else {
            Self::None
        }
    }
}

/// Returns the function that writes a line.
pub(super) fn format(colour: ColorMode) -> fn(&mut Vec<u8>, &mut TimeFormatter, &LogEntry<'_>) {
    match colour {
        ColorMode::Ansi => |into, stamp, entry| write(into, stamp, entry.outcome, ColorMode::Ansi),
        ColorMode::None => |into, stamp, entry| write(into, stamp, entry.outcome, ColorMode::None),
    }
}

const METHOD_AND_TARGET: usize = 32;
const CLIENT: usize = 16;
const STORY: usize = 40;

fn write(into: &mut Vec<u8>, stamp: &mut TimeFormatter, outcome: &Outcome<'_>, colour: ColorMode) {
    paint(into, colour, b"\x1b[2m");
    // Of "2026-11-21T07:10:38.042Z" the time.
    into.extend_from_slice(&stamp.at(outcome.arrived.as_nanos())[11..23]);
    paint(into, colour, b"\x1b[0m");
    paint(into, colour, tint(outcome));
    // Writing to a vector does not fail, here and below.
    let _ = write!(into, "  {:>3}  ", outcome.status);
    paint(into, colour, b"\x1b[0m");
    column(into, METHOD_AND_TARGET, |into| {
        printable(into, outcome.method);
        into.push(b' ');
        printable(into, outcome.target);
    });
    column(into, CLIENT, |into| match outcome.client {
        Some(client) => into.extend_from_slice(address_text(client).as_bytes()),
        None => into.push(b'-'),
    });
    paint(into, colour, tint(outcome));
    column(into, STORY, |into| story(into, outcome));
    paint(into, colour, b"\x1b[0m");
    let micros = micros(outcome.total);
    if micros < 1_000 {
        let _ = write!(into, "{micros:>6} µs");
    } else {
        thousandths(into, b"  ", micros);
        into.extend_from_slice(b" ms");
    }
    into.push(b'\n');
}

/// Writes the outcome in words.
fn story(into: &mut Vec<u8>, outcome: &Outcome<'_>) {
    if outcome.disposition.is_refusal() {
        into.extend_from_slice(outcome.disposition.as_str().as_bytes());
        if let Some(limit) = outcome.refused_by_name() {
            into.extend_from_slice(b" by ");
            printable(into, limit.as_bytes());
        }
        if let Some(wait) = outcome.wait() {
            let _ = write!(into, ", again in {} s", whole_seconds(wait));
        }
        return;
    }
    into.extend_from_slice(outcome.disposition.as_str().as_bytes());
    if let Some(origin) = &outcome.origin {
        into.extend_from_slice(b" to ");
        printable(into, origin.name.as_bytes());
    }
    if let Some(remaining) = outcome.verdict.and_then(Verdict::remaining) {
        let _ = write!(into, ", {remaining} left");
    }
}

fn tint(outcome: &Outcome<'_>) -> &'static [u8] {
    match outcome.disposition {
        RequestDisposition::Forwarded
        | RequestDisposition::Cached
        | RequestDisposition::Responded
        | RequestDisposition::Allowed => b"\x1b[32m",
        RequestDisposition::Refused
        | RequestDisposition::Challenged
        | RequestDisposition::Banned
        | RequestDisposition::RefusedConcurrency => b"\x1b[1;33m",
        RequestDisposition::Blocked
        | RequestDisposition::NoRoute
        | RequestDisposition::Rejected
        | RequestDisposition::ClientGone => b"\x1b[35m",
        RequestDisposition::RefusedStoreAway
        | RequestDisposition::OriginFailed
        | RequestDisposition::Internal
        | RequestDisposition::CutOff => b"\x1b[1;31m",
    }
}

fn paint(into: &mut Vec<u8>, colour: ColorMode, sequence: &[u8]) {
    if colour == ColorMode::Ansi {
        into.extend_from_slice(sequence);
    }
}

/// Returns text as printable ASCII, everything else as `?`, and no more than a line of a terminal.
fn printable(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend(bytes.iter().take(128).map(|&byte| {
        if (0x20..0x7f).contains(&byte) {
            byte
        } else {
            b'?'
        }
    }));
}

/// Pads what `write` writes, which is ASCII, to `width`, or cuts it; two blanks follow.
fn column(into: &mut Vec<u8>, width: usize, write: impl FnOnce(&mut Vec<u8>)) {
    let start = into.len();
    write(into);
    if into.len() - start > width {
        into.truncate(start + width - 1);
        into.push(b'~');
    }
    into.resize(start + width + 2, b' ');
}

#[cfg(test)]
mod tests {
    use super::super::example::{Example, refused};
    use super::*;

    fn shown(outcome: &Outcome<'_>, colour: ColorMode) -> String {
        let mut into = Vec::new();
        write(&mut into, &mut TimeFormatter::default(), outcome, colour);
        String::from_utf8(into).expect("the view is UTF-8")
    }

    /// Goal: a refusal reads as a sentence. Method: the plain form of a refused request.
    #[test]
    fn a_refusal_names_the_limit_and_the_wait() {
        let (route, verdict) = refused();
        let example = Example {
            verdict: Some(&verdict),
            route: Some(&route),
            ..Example::default()
        };
        let line = shown(&example.outcome(), ColorMode::None);
        assert!(line.contains("429  POST /auth/sendOTP"), "{line}");
        assert!(line.contains("rate-limited by otp, again in "), "{line}");
        assert!(!line.contains('\x1b'), "{line}");
        assert!(shown(&example.outcome(), ColorMode::Ansi).contains("\x1b[1;33m"));
    }

    /// Goal: a client cannot steer the terminal. Method: escape sequences and line feeds in the target.
    #[test]
    fn what_a_client_sent_cannot_act_on_the_terminal() {
        let example = Example {
            target: b"/\x1b[31m\r\n\xff\xc2\x9b",
            ..Example::default()
        };
        let line = shown(&example.outcome(), ColorMode::None);
        assert!(line.contains("/?[31m"), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.trim_end().chars().any(char::is_control));
    }
}
