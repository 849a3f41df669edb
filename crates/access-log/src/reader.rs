//! Reads logs as one stream of requests in the order of time.
//!
//! The next line is always read from the log that is behind in time, so that logs of several servers meet and rotated files follow one
//! another, whatever the order in which they are named. A request is returned when every log is further than it by the window.
//!
//! # Errors
//! A line that is not a request is counted, and the first of them are kept; so is a line whose time is far from that of the lines around
//! it. A log that breaks off ends there, with a notice.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::facts::LogFacts;
use crate::field_selection::FieldSelection;
use crate::format::LogFormat;
use crate::line::{LineError, ParsedLine};
use crate::lines::{LineSplitter, NextLine};
use crate::log_clock::{LineTimes, LogClock, SettledLines, WaitingLine};
use crate::log_parser::LogParser;
use crate::reorder::{OrderStats, REORDER_WINDOW, ReorderBuffer, TimeSpread};
use crate::request::LoggedRequest;
use crate::skipped::SkippedCounts;
use crate::source::LogSource;

/// Lines that are kept of each kind to be shown.
const SHOWN_LINES: usize = 5;
/// Bytes of a broken line that are shown.
const SHOWN_BYTES: usize = 160;

/// The way in which logs are read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format of all logs; `None` to detect that of each.
    pub format: Option<LogFormat>,
    /// The times at which requests count.
    pub spread: TimeSpread,
    /// The request fields that are kept.
    pub fields: FieldSelection,
}

/// The reason why logs cannot be read.
#[derive(Debug)]
pub enum OpenError {
    /// A log cannot be opened.
    Unreadable(PathBuf, io::Error),
    /// No format fits the first lines of a log.
    UnknownFormat(PathBuf),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, into: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(path, error) => {
                write!(into, "{} cannot be read: {error}", path.display())
            }
            Self::UnknownFormat(path) => write!(
                into,
                "{}: the first lines are in no format that is known; write --format with one of {}, with nginx's log_format, or \
                 with Apache's LogFormat",
                path.display(),
                LogFormat::NAMES.join(", ")
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// A line that is not a request, or is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLine {
    /// The log.
    pub log: String,
    /// The number of the line, from 1.
    pub number: u64,
    /// The reason.
    pub error: LineError,
    /// Its first bytes; other characters than printable ones are replaced.
    pub text: String,
}

/// A log whose format was detected and reads requests, none of which says what was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MisreadLog {
    /// The log.
    pub log: String,
    /// The name of the format.
    pub format: &'static str,
}

impl std::fmt::Display for MisreadLog {
    fn fmt(&self, into: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            into,
            "{} was read as {}, and none of its requests has a path: its format was detected wrongly, write it with --format",
            self.log, self.format
        )
    }
}

/// Counts of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Lines, of whatever kind.
    pub lines: u64,
    /// Lines that are not requests although they should be.
    pub broken: u64,
    /// The first of them.
    pub broken_lines: Vec<BrokenLine>,
    /// Lines that are no requests and should be none.
    pub skipped: SkippedCounts,
    /// Requests that are left out, since their time is far from that of the lines around them.
    pub misdated: u64,
    /// The first of them.
    pub misdated_lines: Vec<BrokenLine>,
    /// Requests whose line has more values than are kept.
    pub cut_fields: u64,
    /// Lines that the logs say they have left out.
    pub left_out: u64,
    /// NULs between lines, which are no lines.
    pub nul_bytes: u64,
    /// Logs whose format was detected wrongly.
    pub misread_logs: Vec<MisreadLog>,
    /// Logs that broke off, each with the reason.
    pub cut_logs: Vec<String>,
    /// Requests that came out of order.
    pub order: OrderStats,
}

/// Reads requests.
pub struct LogReader {
    logs: Vec<OpenLog>,
    buffer: ReorderBuffer,
    fields: FieldSelection,
    facts: LogFacts,
    is_surveyed: bool,
    stats: ReadStats,
}

/// A log that is to be read.
struct NamedSource {
    name: String,
    /// The file; `None` of a stream, which is read once.
    file: Option<PathBuf>,
    source: io::Result<LogSource>,
}

/// The way in which the format of a log is known, and whether its lines confirm it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormatDetection {
    /// It is given, or some line says what was requested.
    Certain,
    /// It is detected, and no line was a request yet.
    Detected,
    /// No request says what was requested.
    Doubtful,
}

/// One log.
struct OpenLog {
    name: String,
    /// The file; `None` of a stream.
    file: Option<PathBuf>,
    lines: LineSplitter,
    parser: LogParser,
    detection: FormatDetection,
    /// Number of the line that was read last.
    number: u64,
    clock: LogClock,
    /// The latest time that was read and is confirmed; `None` at the end.
    reached: Option<u64>,
    size: Option<u64>,
    consumed: Arc<AtomicU64>,
}

impl LogReader {
    /// Opens logs; `-` is the standard input.
    ///
    /// # Errors
    /// The first log that cannot be read.
    pub fn open(paths: &[PathBuf], options: &ReadOptions) -> Result<Self, OpenError> {
        let sources = paths.iter().map(|path| NamedSource {
            name: path.display().to_string(),
            file: path.is_file().then(|| path.clone()),
            source: LogSource::open(path),
        });
        Self::of_sources(sources, options)
    }

    /// Reads logs from streams, each with a name for messages; any of them may be compressed.
    ///
    /// # Errors
    /// The first log that cannot be read.
    pub fn from_streams(
        streams: Vec<(String, Box<dyn Read>)>,
        options: &ReadOptions,
    ) -> Result<Self, OpenError> {
        let sources = streams.into_iter();
        let sources = sources.map(|(name, bytes)| NamedSource {
            name,
            file: None,
            source: LogSource::new(bytes, None),
        });
        Self::of_sources(sources, options)
    }

    fn of_sources(
        sources: impl Iterator<Item = NamedSource>,
        options: &ReadOptions,
    ) -> Result<Self, OpenError> {
        let mut facts = LogFacts::default();
        let logs = sources.map(|source| OpenLog::new(source, options, &mut facts));
        let logs = logs.collect::<Result<_, _>>()?;
        let mut buffer = ReorderBuffer::default();
        buffer.spread(options.spread);
        Ok(Self {
            logs,
            buffer,
            fields: options.fields.clone(),
            facts,
            is_surveyed: false,
            stats: ReadStats::default(),
        })
    }

    /// Returns the values that lines have: the first ones, or all after [`Self::survey`].
    #[must_use]
    pub fn facts(&self) -> &LogFacts {
        &self.facts
    }

    /// Reads the files whose lines name their values once to the end, since a value may first come late: the key of a route that few
    /// requests take, a field that few clients send. Other formats have the same values in each line.
    ///
    /// # Errors
    /// The first file that cannot be opened again. One that breaks off ends there, which is reported when its lines are read.
    pub fn survey(&mut self) -> Result<(), OpenError> {
        self.is_surveyed = true;
        for log in self
            .logs
            .iter()
            .filter(|log| log.parser.format().names_values())
        {
            let Some(path) = &log.file else { continue };
            let source = LogSource::open(path)
                .map_err(|error| OpenError::Unreadable(path.clone(), error))?;
            let mut lines = LineSplitter::new(source.bytes);
            let mut parser = log.parser.restarted();
            while let Ok(next @ (NextLine::Found | NextLine::TooLong)) = lines.advance() {
                let mut parsed = ParsedLine::with_fields(&self.fields);
                if next == NextLine::Found && parser.parse(lines.line(), &mut parsed).is_ok() {
                    self.facts.add_line(&parsed);
                }
            }
        }
        Ok(())
    }

    /// Returns whether [`Self::survey`] may find values that the first lines do not have.
    #[must_use]
    pub fn can_survey(&self) -> bool {
        let mut logs = self.logs.iter();
        !self.is_surveyed
            && logs.any(|log| log.file.is_some() && log.parser.format().names_values())
    }

    /// Returns the counts of lines up to now.
    #[must_use]
    pub fn stats(&self) -> ReadStats {
        ReadStats {
            order: self.buffer.stats,
            ..self.stats.clone()
        }
    }

    /// Returns the bytes of files that were read, and all there are; `None` where one of the logs is a pipe.
    #[must_use]
    pub fn progress(&self) -> Option<(u64, u64)> {
        let mut sum = (0, 0);
        for log in &self.logs {
            // Relaxed: the number is for a progress bar.
            sum.0 += log.consumed.load(Ordering::Relaxed);
            sum.1 += log.size?;
        }
        Some(sum)
    }

    /// Returns the next request in the order of time; `None` at the end of all logs.
    pub fn next_request(&mut self) -> Option<LoggedRequest<'_>> {
        self.read_on()?;
        self.buffer.take(1).next()
    }

    /// Returns the next requests in the order of time: at least one, at most `most`, as far as they are of the same second; `None` at the
    /// end of all logs.
    pub fn next_batch(&mut self, most: usize) -> Option<Vec<LoggedRequest<'_>>> {
        self.read_on()?;
        let mut batch = Vec::with_capacity(most);
        batch.extend(self.buffer.take(most));
        Some(batch)
    }

    /// Reads lines until the next request is known; `None` at the end of all logs.
    fn read_on(&mut self) -> Option<()> {
        while !self.buffer.advance(self.complete_until()) {
            let behind = self.logs.iter_mut().filter(|log| log.reached.is_some());
            let log = behind.min_by_key(|log| log.reached)?;
            log.read_line(&self.fields, &mut self.buffer, &mut self.stats);
        }
        Some(())
    }

    /// Returns the time up to which no line comes any more.
    fn complete_until(&self) -> u64 {
        let window = u64::try_from(REORDER_WINDOW.as_nanos()).unwrap_or(u64::MAX);
        let reached = self.logs.iter().filter_map(|log| log.reached).min();
        reached.map_or(u64::MAX, |reached| reached.saturating_sub(window))
    }
}

impl OpenLog {
    fn new(
        NamedSource { name, file, source }: NamedSource,
        options: &ReadOptions,
        facts: &mut LogFacts,
    ) -> Result<Self, OpenError> {
        let unreadable = |error| OpenError::Unreadable(PathBuf::from(&name), error);
        let source = source.map_err(unreadable)?;
        let mut lines = LineSplitter::new(source.bytes);
        let sample = lines.sample().map_err(unreadable)?;
        let detection = match options.format {
            Some(_) => FormatDetection::Certain,
            None => FormatDetection::Detected,
        };
        // An empty log, as rotation leaves behind, has no request.
        let format = match sample.is_empty() {
            true => Some(options.format.clone().unwrap_or(LogFormat::Sluicegate)),
            false => options.format.clone(),
        };
        let parser = LogParser::detect(sample, format.as_ref());
        let parser = parser.ok_or_else(|| OpenError::UnknownFormat(PathBuf::from(&name)))?;
        facts.add_sample(sample, &parser, &options.fields);
        facts.is_partial |= file.is_none() && parser.format().names_values();
        Ok(Self {
            name,
            file,
            lines,
            parser,
            detection,
            number: 0,
            clock: LogClock::default(),
            reached: Some(0),
            size: source.size,
            consumed: source.consumed,
        })
    }

    /// Reads a line into `buffer`, or reaches the end.
    fn read_line(
        &mut self,
        fields: &FieldSelection,
        buffer: &mut ReorderBuffer,
        stats: &mut ReadStats,
    ) {
        let next = self.lines.advance().unwrap_or_else(|error| {
            stats
                .cut_logs
                .push(format!("{} breaks off: {error}", self.name));
            NextLine::End
        });
        if next == NextLine::End {
            self.reached = None;
            stats.nul_bytes += self.lines.nul_bytes();
            if self.detection == FormatDetection::Doubtful {
                stats.misread_logs.push(MisreadLog {
                    log: self.name.clone(),
                    format: self.parser.format().name(),
                });
            }
            let settled = self.clock.finish();
            settle(&self.name, settled, buffer, stats);
            return;
        }
        self.number += 1;
        stats.lines += 1;
        let mut parsed = ParsedLine::with_fields(fields);
        let result = match next {
            NextLine::TooLong => Err(LineError::TooLong),
            NextLine::Found | NextLine::End => self.parser.parse(self.lines.line(), &mut parsed),
        };
        match result {
            Ok(()) => {
                if self.detection != FormatDetection::Certain {
                    self.detection = match parsed.names_resource() {
                        true => FormatDetection::Certain,
                        false => FormatDetection::Doubtful,
                    };
                }
                stats.left_out += parsed.left_out;
                stats.cut_fields += u64::from(parsed.cut_fields > 0);
                let request = buffer.add(&parsed);
                let times = LineTimes {
                    begun: parsed.time,
                    written: parsed.time.saturating_add(parsed.duration.unwrap_or(0)),
                };
                let settled = if self.clock.is_near(times) {
                    buffer.confirm(request);
                    self.clock.add_near(times)
                } else {
                    let is_far = self.clock.is_far(times);
                    Some(self.clock.add_ahead(WaitingLine {
                        times,
                        request,
                        number: self.number,
                        text: is_far.then(|| shown(self.lines.line())),
                    }))
                };
                if let Some(settled) = settled {
                    settle(&self.name, settled, buffer, stats);
                }
                self.reached = Some(self.clock.begun());
            }
            Err(LineError::NoRequest(kind)) => stats.skipped.add(kind),
            Err(error) => {
                stats.broken += 1;
                if stats.broken_lines.len() < SHOWN_LINES {
                    let line = BrokenLine {
                        log: self.name.clone(),
                        number: self.number,
                        error,
                        text: shown(self.lines.line()),
                    };
                    stats.broken_lines.push(line);
                }
            }
        }
    }
}

/// Leaves out the requests of lines of `log` whose time is far from that of the lines around them.
fn settle(log: &str, lines: SettledLines, buffer: &mut ReorderBuffer, stats: &mut ReadStats) {
    for line in lines.confirmed {
        buffer.confirm(line.request);
    }
    for line in lines.misdated {
        if !buffer.leave_out(line.request) {
            continue;
        }
        stats.misdated += 1;
        if stats.misdated_lines.len() < SHOWN_LINES {
            stats.misdated_lines.push(BrokenLine {
                log: log.to_owned(),
                number: line.number,
                error: LineError::Misdated,
                text: line.text.unwrap_or_default(),
            });
        }
    }
}

/// Returns the beginning of a line for a terminal.
fn shown(line: &[u8]) -> String {
    let begin = line.get(..SHOWN_BYTES).unwrap_or(line);
    let text = String::from_utf8_lossy(begin);
    let printable = text
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut shown: String = printable.collect();
    if begin.len() < line.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
