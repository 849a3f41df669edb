//! Reads logs as one stream of requests in the order of time.
//!
//! The next line is always read from the log that is behind in time, so that logs of several servers meet and rotated files follow one
//! another, whatever the order in which they are named. A request is returned when every log is further than it by the window.
//!
//! # Errors
//! A line that is not a request is counted, and the first of them are kept. A log that breaks off ends there, with a notice.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::facts::LogFacts;
use crate::format::LogFormat;
use crate::line::{LineError, ParsedLine};
use crate::lines::{LineSplitter, NextLine};
use crate::reorder::{OrderStats, ReorderBuffer, TimeSpread};
use crate::request::LoggedRequest;
use crate::source::LogSource;

/// Time by which lines may be out of order.
pub const REORDER_WINDOW: Duration = Duration::from_secs(120);

/// Broken lines that are kept to be shown.
const SHOWN_BROKEN_LINES: usize = 5;
/// Bytes of a broken line that are shown.
const SHOWN_BYTES: usize = 160;

/// The way in which logs are read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format of all logs; `None` to detect that of each.
    pub format: Option<LogFormat>,
    /// The times at which requests count.
    pub spread: TimeSpread,
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
                "{}: the first lines are in no format that is known; write --format with one of {}, or with nginx's log_format",
                path.display(),
                LogFormat::NAMES.join(", ")
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// A line that is not a request.
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

/// Counts of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Lines, of whatever kind.
    pub lines: u64,
    /// Lines that are not requests although they should be.
    pub broken: u64,
    /// The first of them.
    pub broken_lines: Vec<BrokenLine>,
    /// Lines that the logs say they have left out.
    pub left_out: u64,
    /// Logs that broke off, each with the reason.
    pub cut_logs: Vec<String>,
    /// Requests that came out of order.
    pub order: OrderStats,
}

/// Reads requests.
pub struct LogReader {
    logs: Vec<OpenLog>,
    buffer: ReorderBuffer,
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

/// One log.
struct OpenLog {
    name: String,
    /// The file; `None` of a stream.
    file: Option<PathBuf>,
    lines: LineSplitter,
    format: LogFormat,
    /// Number of the line that was read last.
    number: u64,
    /// The latest time that was read; `None` at the end.
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
        for log in self.logs.iter().filter(|log| log.format.names_values()) {
            let Some(path) = &log.file else { continue };
            let source = LogSource::open(path)
                .map_err(|error| OpenError::Unreadable(path.clone(), error))?;
            let mut lines = LineSplitter::new(source.bytes);
            let mut format = log.format.clone();
            while let Ok(next @ (NextLine::Found | NextLine::TooLong)) = lines.advance() {
                let mut parsed = ParsedLine::default();
                if next == NextLine::Found && format.parse(lines.line(), &mut parsed).is_ok() {
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
        !self.is_surveyed && logs.any(|log| log.file.is_some() && log.format.names_values())
    }

    /// Keeps the request field of this name; those that nobody wants are not copied.
    pub fn want_field(&mut self, name: &str) {
        self.buffer.want(name);
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
            log.read_line(&mut self.buffer, &mut self.stats);
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
        let detected = || match sample.is_empty() {
            // An empty log, as rotation leaves behind, has no request.
            true => Some(LogFormat::Sluicegate),
            false => LogFormat::detect(sample),
        };
        let format = options.format.clone().or_else(detected);
        let format = format.ok_or_else(|| OpenError::UnknownFormat(PathBuf::from(&name)))?;
        let first = facts.add_sample(sample, &format);
        facts.is_partial |= file.is_none() && format.names_values();
        Ok(Self {
            name,
            file,
            lines,
            format,
            number: 0,
            reached: Some(first.unwrap_or(0)),
            size: source.size,
            consumed: source.consumed,
        })
    }

    /// Reads a line into `buffer`, or reaches the end.
    fn read_line(&mut self, buffer: &mut ReorderBuffer, stats: &mut ReadStats) {
        let next = self.lines.advance().unwrap_or_else(|error| {
            stats
                .cut_logs
                .push(format!("{} breaks off: {error}", self.name));
            NextLine::End
        });
        if next == NextLine::End {
            self.reached = None;
            return;
        }
        self.number += 1;
        stats.lines += 1;
        let mut parsed = ParsedLine::default();
        let result = match next {
            NextLine::TooLong => Err(LineError::TooLong),
            NextLine::Found | NextLine::End => self.format.parse(self.lines.line(), &mut parsed),
        };
        match result {
            Ok(()) => {
                stats.left_out += parsed.left_out;
                buffer.add(&parsed);
                let time = parsed.time;
                self.reached = self.reached.max(Some(time));
            }
            Err(LineError::NoRequest) => {}
            Err(error) => {
                stats.broken += 1;
                if stats.broken_lines.len() < SHOWN_BROKEN_LINES {
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
mod tests {
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    const BEGIN: i64 = 1_795_245_000;

    fn line(second: i64, client: usize) -> String {
        let time = jiff::Timestamp::from_second(BEGIN + second).unwrap();
        let time = time.strftime("%d/%b/%Y:%H:%M:%S +0000");
        format!(
            "192.0.2.{client} - - [{time}] \"GET /{client} HTTP/1.1\" 200 1 \"-\" \"a\\x22b\"\n"
        )
    }

    /// Milliseconds from the begin and targets of all requests of these logs.
    fn read(logs: &[String], options: &ReadOptions) -> (Vec<(u64, String)>, ReadStats) {
        let directory = TempDir::new().unwrap();
        let paths: Vec<PathBuf> = (0..logs.len())
            .map(|index| directory.path().join(index.to_string()))
            .collect();
        for (path, text) in paths.iter().zip(logs) {
            std::fs::write(path, text).unwrap();
        }
        let mut reader = LogReader::open(&paths, options).unwrap();
        reader.want_field("User-Agent");
        let mut found = Vec::new();
        while let Some(request) = reader.next_request() {
            let millis = request.time / 1_000_000 - BEGIN as u64 * 1_000;
            let fields: Vec<_> = request.fields.iter().collect();
            assert_eq!(
                (fields.len(), fields[0].name, fields[0].value),
                (1, &b"user-agent"[..], &b"a\"b"[..])
            );
            let target = String::from_utf8(request.target.to_vec()).unwrap();
            assert_eq!(
                target,
                format!(
                    "/{}",
                    request.client.to_string().rsplit_once('.').unwrap().1
                )
            );
            found.push((millis, target));
        }
        (found, reader.stats())
    }

    /// Goal: a line that comes too late for its second is not before those of that second which were returned, spread or not. Method: a
    /// line of the first second behind one that is minutes later.
    #[test]
    fn a_late_line_is_not_before_its_second() {
        let text = [line(0, 1), line(0, 2), line(200, 3), line(0, 4)].concat();
        for (spread, second) in [(TimeSpread::AsLogged, 0), (TimeSpread::OverSecond, 500)] {
            let options = ReadOptions {
                spread,
                ..ReadOptions::default()
            };
            let (found, _) = read(std::slice::from_ref(&text), &options);
            let times = [(0, 1), (second, 2), (second, 4), (200_000, 3)];
            let times = times.map(|(time, client)| (time, format!("/{client}")));
            assert_eq!(found, times);
        }
    }

    /// Goal: times say which order requests have, and whether they were too late. Method: a line two minutes out of order, one more than
    /// that, a broken one, and an empty log beside.
    #[test]
    fn lines_are_sorted_within_the_window() {
        let text = [
            line(0, 1),
            line(200, 2),
            line(80, 3),
            line(300, 4),
            line(170, 5),
            "x\n".to_owned(),
        ]
        .concat();
        let (found, stats) = read(&[text, String::new()], &ReadOptions::default());
        let times: Vec<u64> = found.iter().map(|(time, _)| *time).collect();
        // Requests up to 80 were returned when the line at 300 was read; the one at 170 came after that, in time.
        assert_eq!(times, [0, 80_000, 170_000, 200_000, 300_000]);
        assert_eq!((stats.order.sorted, stats.order.late), (2, 0));
        assert_eq!((stats.lines, stats.broken), (6, 1));
        assert_eq!(stats.broken_lines[0].number, 6);
        let text = [
            line(0, 1),
            line(400, 2),
            line(401, 3),
            line(5, 4),
            line(402, 5),
        ]
        .concat();
        let (found, stats) = read(&[text], &ReadOptions::default());
        let targets: Vec<&str> = found.iter().map(|(_, target)| &**target).collect();
        // Only the first was returned when the late one came, so it is still in its place.
        assert_eq!(targets, ["/1", "/4", "/2", "/3", "/5"]);
        assert_eq!(stats.order.late, 0);
    }

    /// Goal: requests of a second fill it. Method: four lines in one second, one in the next.
    #[test]
    fn requests_are_spread_over_their_second() {
        let text = [line(7, 1), line(7, 2), line(7, 3), line(7, 4), line(8, 5)].concat();
        let options = ReadOptions {
            spread: TimeSpread::OverSecond,
            ..ReadOptions::default()
        };
        let (found, _) = read(&[text], &options);
        let times: Vec<u64> = found.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [7_000, 7_250, 7_500, 7_750, 8_000]);
    }

    /// Goal: a batch has the next requests of one second, no more than asked for. Method: five lines in one second, two in the next, out of
    /// order.
    #[test]
    fn batches_are_of_one_second() {
        let lines = [line(8, 6), line(7, 1), line(7, 2), line(7, 3), line(7, 4)];
        let text = [lines.concat(), line(7, 5), line(8, 7)].concat();
        let stream: Box<dyn Read> = Box::new(io::Cursor::new(text));
        let streams = vec![("log".to_owned(), stream)];
        let mut reader = LogReader::from_streams(streams, &ReadOptions::default()).unwrap();
        let mut batches = Vec::new();
        while let Some(batch) = reader.next_batch(3) {
            let targets = batch.iter().map(|request| request.target.to_vec());
            batches.push(String::from_utf8(targets.collect::<Vec<_>>().concat()).unwrap());
        }
        assert_eq!(batches, ["/1/2/3", "/4/5", "/6/7"]);
    }

    proptest! {
        /// Goal: whatever the order within the window and the number of logs, requests come as a stable sort by time has them. Method: any
        /// seconds within two minutes of each other, in up to three logs.
        #[test]
        fn requests_come_in_the_order_of_time(
            jitter in proptest::collection::vec((0_i64..119, 0_i64..90), 1..60),
            logs in 1_usize..4,
        ) {
            let mut texts = vec![String::new(); logs];
            let mut expected = Vec::new();
            let mut base = 0;
            for (index, (back, step)) in jitter.iter().enumerate() {
                base += step;
                let second = (base - back).max(0);
                texts[index % logs] += &line(second, index % 200);
                expected.push((second as u64 * 1_000, format!("/{}", index % 200)));
            }
            expected.sort_by_key(|(millis, _)| *millis);
            let (mut found, stats) = read(&texts, &ReadOptions::default());
            if logs > 1 {
                // Equal times of several logs have no order.
                found.sort();
                expected.sort();
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!(stats.order.late, 0);
        }
    }
}
