//! Owns the formats of lines by name, and finds out the format of a log by trying each on its first lines.

use crate::formats::csv::CsvHeader;
use crate::formats::json_members::MemberNames;
use crate::formats::w3c::ColumnOrder;
use crate::formats::{alb, apache, caddy, combined, envoy, haproxy, nginx, sluicegate};
use crate::line::{LineError, LoggedTreatment, ParsedLine};
use crate::messages;
use crate::parse_cache::ParseCache;
use crate::skipped::SkippedKind;
use crate::template::LogTemplate;

/// Lines on which each format is tried.
const TRIED_LINES: usize = 200;

/// A format of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Sluicegate's lines of JSON.
    Sluicegate,
    /// The combined format of Apache and nginx.
    Combined,
    /// The common format.
    Common,
    /// JSON whose members have the names of nginx's variables.
    NginxJson,
    /// A `log_format` of nginx, or a `LogFormat` of Apache.
    Template(LogTemplate),
    /// Caddy's lines of JSON.
    Caddy,
    /// Envoy's default format.
    Envoy,
    /// JSON with the members of a server or a service.
    Json(MemberNames),
    /// Rows of CSV under a header with the names of Cloudflare's members.
    Csv(CsvHeader),
    /// HAProxy's HTTP log format.
    Haproxy,
    /// The W3C extended format: the standard logs of CloudFront, and those of IIS.
    W3c(ColumnOrder),
    /// The logs of AWS Application Load Balancers.
    Alb,
    /// The combined format of Apache behind the virtual host.
    VhostCombined,
}

/// The number of lines that a format reads. Lines that say what was requested count first, so that a format which finds times and addresses
/// alone does not win.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SampleScore {
    pub(crate) with_resource: usize,
    pub(crate) requests: usize,
}

impl LogFormat {
    /// The names of all formats that have one.
    pub const NAMES: [&str; 16] = [
        "sluicegate",
        "combined",
        "common",
        "nginx-json",
        "caddy",
        "envoy",
        "envoy-json",
        "haproxy",
        "cloudfront",
        "alb",
        "vhost_combined",
        "traefik",
        "cloudflare",
        "cloudflare-csv",
        "fastly",
        "iis",
    ];

    /// Returns the format with this name, or the one of a `log_format` of nginx or a `LogFormat` of Apache, as it stands in a configuration
    /// or its text alone.
    ///
    /// # Errors
    /// The mistake, and what to write instead.
    pub fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "sluicegate" => Self::Sluicegate,
            "combined" => Self::Combined,
            "common" => Self::Common,
            "nginx-json" => Self::NginxJson,
            "caddy" => Self::Caddy,
            "envoy" => Self::Envoy,
            "envoy-json" => Self::Json(MemberNames::Envoy),
            "haproxy" => Self::Haproxy,
            "cloudfront" => Self::W3c(ColumnOrder::cloud_front()),
            "alb" => Self::Alb,
            "vhost_combined" => Self::VhostCombined,
            "iis" => Self::W3c(ColumnOrder::iis()),
            "traefik" => Self::Json(MemberNames::Traefik),
            "cloudflare" => Self::Json(MemberNames::Cloudflare),
            "cloudflare-csv" => Self::Csv(CsvHeader::default()),
            "fastly" => Self::Json(MemberNames::Fastly),
            text if is_nginx(text) => Self::Template(nginx::template(text)?),
            text if apache::is_format(text) => Self::Template(apache::template(text)?),
            _ => {
                let names = Self::NAMES.join(", ");
                return Err(format!(
                    "{name:?} is no format; write {names}, nginx's log_format with its $variables, or Apache's LogFormat with its \
                     %directives"
                ));
            }
        })
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Sluicegate => "sluicegate",
            Self::Combined => "combined",
            Self::Common => "common",
            Self::NginxJson => "nginx-json",
            Self::Template(template) => template.name(),
            Self::Caddy => "caddy",
            Self::Envoy => "envoy",
            Self::Json(names) => names.name(),
            Self::Csv(_) => "cloudflare-csv",
            Self::Haproxy => "haproxy",
            Self::W3c(columns) => columns.name(),
            Self::Alb => "alb",
            Self::VhostCombined => "vhost_combined",
        }
    }

    /// Returns whether each line names its values, so that a line may have one that no line before it has.
    pub(crate) const fn names_values(&self) -> bool {
        match self {
            Self::Sluicegate | Self::NginxJson | Self::Caddy | Self::Json(_) => true,
            Self::Combined
            | Self::Common
            | Self::Template(_)
            | Self::Envoy
            | Self::Csv(_)
            | Self::Haproxy
            | Self::W3c(_)
            | Self::Alb
            | Self::VhostCombined => false,
        }
    }

    /// Finds the format by which most of the first lines in `sample` are requests; `None` where none fits a line.
    #[must_use]
    pub fn detect(sample: &[u8]) -> Option<Self> {
        let (format, _) = Self::best(lines(sample), None)?;
        Some(format)
    }

    /// Returns the format that fits the lines best, or `given`, with its score; `None` where it fits no line.
    pub(crate) fn best<'s>(
        lines: impl Iterator<Item = &'s [u8]> + Clone,
        given: Option<&Self>,
    ) -> Option<(Self, SampleScore)> {
        let known = given.cloned();
        let named = Self::NAMES.iter().filter(|_| given.is_none());
        let named = named.filter_map(|name| Self::named(name).ok());
        let mut best: Option<(Self, SampleScore)> = None;
        for mut format in known.into_iter().chain(named) {
            let score = format.score(lines.clone());
            if score
                > best
                    .as_ref()
                    .map_or(SampleScore::default(), |(_, most)| *most)
            {
                best = Some((format, score));
            }
        }
        let Some((format, score)) = best else {
            let is_head = given.is_none() && is_head_alone(lines);
            return is_head.then(|| (Self::W3c(ColumnOrder::iis()), SampleScore::default()));
        };
        let format = match format {
            Self::Combined if given.is_none() && !lines.clone().any(combined::is_combined) => {
                Self::Common
            }
            other => other,
        };
        Some((format, score))
    }

    /// Returns how well the format fits some lines.
    fn score<'s>(&mut self, lines: impl Iterator<Item = &'s [u8]>) -> SampleScore {
        let mut score = SampleScore::default();
        for line in lines {
            let mut parsed = ParsedLine::default();
            if self.parse(line, &mut parsed).is_ok() {
                score.requests += 1;
                score.with_resource += usize::from(parsed.names_resource());
            }
        }
        score
    }

    /// Parses a line without its end.
    ///
    /// # Errors
    /// The reason why the line is not a request of this format.
    pub fn parse<'a>(
        &'a mut self,
        line: &'a [u8],
        into: &mut ParsedLine<'a>,
    ) -> Result<(), LineError> {
        self.parse_next(line, &mut ParseCache::default(), into)
    }

    /// Parses a line like [`Self::parse`], with the cache of the log that it is out of.
    pub(crate) fn parse_next<'a>(
        &'a mut self,
        line: &'a [u8],
        cache: &mut ParseCache,
        into: &mut ParsedLine<'a>,
    ) -> Result<(), LineError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Err(LineError::NoRequest(SkippedKind::Blank));
        }
        let is_text = !self.names_values();
        let read = match self {
            Self::Combined | Self::Common => combined::parse(line, &mut cache.minute, into),
            Self::Sluicegate => {
                sluicegate::parse(line, &mut cache.members, &mut cache.minute, into)
            }
            Self::NginxJson => nginx::json(line, into),
            Self::Template(template) => template.line(line, into),
            Self::Caddy => caddy::parse(line, into),
            Self::Envoy => envoy::parse(line, into),
            Self::Json(names) => names.parse(line, into),
            Self::Csv(header) => header.line(line, into),
            Self::Haproxy => haproxy::parse(line, into),
            Self::W3c(columns) => columns.line(line, into),
            Self::Alb => alb::parse(line, into),
            Self::VhostCombined => apache::vhost_combined(line, &mut cache.minute, into),
        };
        read.map_err(|error| match error {
            LineError::Malformed(_) if is_text && messages::is_json_message(line) => {
                LineError::NoRequest(SkippedKind::Message)
            }
            LineError::Malformed(_) => no_request(line).unwrap_or(error),
            error => error,
        })?;
        into.split_absolute_target();
        if into.time == 0 {
            return Err(LineError::Malformed("there is no time that can be read"));
        }
        match into.client {
            None if into.treatment == LoggedTreatment::Malformed => {
                Err(LineError::NoRequest(SkippedKind::UnreadRequest))
            }
            None => Err(LineError::Malformed("there is no address of a client")),
            Some(client) => {
                into.client = Some(client.to_canonical());
                Ok(())
            }
        }
    }
}

/// Returns the kind of a line that the format does not read, if it is one that a log may have beside requests.
#[cold]
fn no_request(line: &[u8]) -> Option<LineError> {
    let kind = if line.trim_ascii().is_empty() {
        SkippedKind::Blank
    } else if line.starts_with(b"#") {
        SkippedKind::Comment
    } else if messages::is_message(line) {
        SkippedKind::Message
    } else {
        return None;
    };
    Some(LineError::NoRequest(kind))
}

/// Returns whether a text is a format of nginx: one of Apache has a `$` only in the name of a file.
fn is_nginx(text: &str) -> bool {
    text.contains('$') && !apache::is_directive(text)
}

/// Returns whether lines are nothing but the head of a log in the W3C extended format, as a server leaves behind that got no request.
fn is_head_alone<'s>(lines: impl Iterator<Item = &'s [u8]>) -> bool {
    let mut lines = lines.map(|line| line.starts_with(b"#")).peekable();
    lines.peek().is_some() && lines.all(|is_comment| is_comment)
}

/// Returns the first lines of a sample; the last of a small log may be without an end.
pub(crate) fn lines(sample: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let lines = sample.split(|byte| matches!(byte, b'\n' | 0));
    lines.filter(|line| !line.is_empty()).take(TRIED_LINES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [(&str, &str); 16] = [
        (
            "combined",
            "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"curl\"",
        ),
        (
            "common",
            "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1",
        ),
        (
            "sluicegate",
            r#"{"time":"2026-11-21T07:10:38.042Z","client":"::1","method":"GET","target":"/","outcome":"forwarded","status":200}"#,
        ),
        (
            "nginx-json",
            r#"{"time_iso8601":"2026-11-21T07:10:38+00:00","remote_addr":"::1","request":"GET / HTTP/1.1","status":200}"#,
        ),
        (
            "caddy",
            r#"{"ts":1646861401.52,"request":{"remote_ip":"::1","method":"GET","uri":"/"},"duration":0.1,"status":200}"#,
        ),
        (
            "envoy",
            "[2016-04-15T20:17:00.310Z] \"GET / HTTP/2\" 204 - 154 0 226 100 \"10.0.35.28\" \"a\" \"b\" \"c\" \"d\"",
        ),
        (
            "envoy-json",
            r#"{"downstream_remote_address":"10.4.1.2:1","path":"/","response_code":418,"start_time":"2020-11-25T21:26:18.409Z"}"#,
        ),
        (
            "haproxy",
            "haproxy[1]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] a b/c 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 \"GET / HTTP/1.1\"",
        ),
        (
            "cloudfront",
            "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n2019-12-04\t21:02:31\t::1\tGET\t/\t200",
        ),
        (
            "alb",
            include_str!("formats/samples/alb.log").trim_ascii_end(),
        ),
        (
            "vhost_combined",
            "a.test:80 192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"curl\"",
        ),
        (
            "traefik",
            include_str!("formats/samples/traefik.log").trim_ascii_end(),
        ),
        (
            "cloudflare",
            include_str!("formats/samples/cloudflare.log").trim_ascii_end(),
        ),
        (
            "cloudflare-csv",
            "EdgeStartTimestamp,ClientIP,ClientRequestURI\n1795245038,192.0.2.1,/",
        ),
        (
            "fastly",
            include_str!("formats/samples/fastly.log").trim_ascii_end(),
        ),
        (
            "iis",
            include_str!("formats/samples/iis.log").trim_ascii_end(),
        ),
    ];

    /// Goal: the format of a log need not be named. Method: a line of each, in a log with two broken ones.
    #[test]
    fn each_format_is_found_by_its_lines() {
        for (name, line) in LINES {
            let sample = format!("broken\n{line}\n{line}\nbro");
            let found = LogFormat::detect(sample.as_bytes());
            assert_eq!(found.map(|format| format.name()), Some(name), "{line}");
        }
        assert_eq!(LogFormat::detect(b"a\nb\n"), None);
        let head = LogFormat::detect(b"#Software: IIS\r\n#Fields: date time\r\n");
        assert_eq!(head.map(|format| format.name()), Some("iis"));
        assert_eq!(LogFormat::detect(b""), None);
        let (_, line) = LINES[1];
        let found = LogFormat::detect(format!("# a b\n{line}").as_bytes());
        assert_eq!(found.map(|format| format.name()), Some("common"));
    }

    /// Goal: comments and lines of blanks are none of the broken lines in any format. Method: both, read by each.
    #[test]
    fn comments_and_blanks_are_skipped() {
        for name in LogFormat::NAMES {
            let mut format = LogFormat::named(name).unwrap();
            for (line, kind) in [
                ("# rotated", SkippedKind::Comment),
                ("\t  ", SkippedKind::Blank),
                ("\r", SkippedKind::Blank),
            ] {
                let read = format.parse(line.as_bytes(), &mut ParsedLine::default());
                assert_eq!(read, Err(LineError::NoRequest(kind)), "{name} {line:?}");
            }
        }
    }

    /// Goal: a name that is none says what to write. Method: a slip, and a template that lacks a time.
    #[test]
    fn a_wrong_name_says_what_to_write() {
        assert!(
            LogFormat::named("combind")
                .unwrap_err()
                .contains("combined, common")
        );
        assert!(
            LogFormat::named("$remote_addr")
                .unwrap_err()
                .contains("$time_local")
        );
        assert_eq!(LogFormat::named("alb"), Ok(LogFormat::Alb));
        let named = |text: &str| LogFormat::named(text).unwrap().name();
        assert_eq!(
            named("log_format a '$remote_addr $msec $request';"),
            "nginx log_format"
        );
        assert_eq!(
            named("CustomLog ${LOGS}/a.log \"%h %t %r\""),
            "Apache LogFormat"
        );
        assert_eq!(named("%h %t %r"), "Apache LogFormat");
    }

    /// The lines that are damaged: each format's own, and a `log_format` of nginx.
    fn formats() -> Vec<(LogFormat, Vec<u8>)> {
        let named = LINES.iter().map(|(name, line)| {
            let line = line.rsplit('\n').next().unwrap_or_default();
            (LogFormat::named(name).unwrap(), line.as_bytes().to_vec())
        });
        let template = include_str!("formats/samples/nginx-log-format.txt").trim_end();
        let line = b"192.0.2.1 - - [21/Nov/2026:07:10:38 +0000] \"GET /\\x22 HTTP/1.1\" 200 7 \"-\" \"curl/8\" rt=1.000";
        let template = (LogFormat::named(template).unwrap(), line.to_vec());
        named.chain([template]).collect()
    }

    proptest::proptest! {
        /// Goal: no line panics, or is read without a time and a client. Method: lines of every format with bytes replaced, removed, added.
        #[test]
        fn damaged_lines_are_errors_or_requests(
            edits in proptest::collection::vec((0_usize..600, 0_u8..4, proptest::prelude::any::<u8>()), 1..6),
        ) {
            for (mut format, mut line) in formats() {
                for (at, kind, byte) in &edits {
                    let at = at % line.len().max(1);
                    match kind {
                        0 if at < line.len() => line[at] = *byte,
                        1 if at < line.len() => drop(line.remove(at)),
                        2 => line.truncate(at),
                        _ => line.insert(at, b"9\"\\ -:"[usize::from(byte % 6)]),
                    }
                }
                let mut parsed = ParsedLine::default();
                if format.parse(&line, &mut parsed).is_ok() {
                    assert!(parsed.time > 0 && parsed.client.is_some());
                }
            }
        }
    }
}
