//! Declares `[log]`: the access log.

use std::path::PathBuf;

use http::HeaderName;
use sluicegate_base::bounds;
use sluicegate_config_derive::Table;

use super::parsed_route::ParsedRoute;
use super::syslog::SyslogRules;
use crate::declaration::{ChoiceOf, Flag, ListBy, ReadBy, TableOf, WordOf};
use crate::field::{KeyField, quoted};
use crate::form::ValueKind;
use crate::line_filter::{LineFilter, line_filter};
use crate::opened_paths;
use crate::problem::ParseError;
use crate::report::{KeyPlace, ProblemReport};
use crate::rules::{AccessLogTarget, AuditLogTarget, LogFormat, LoggedKeys, RefusedLines};
use crate::section::TableSection;
use crate::suggest;

/// The access log.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "log", check = check_fields)]
pub struct LogRules {
    /// One line for each request: "stdout", "off", the path of a file, which is reopened at SIGUSR1, or "syslog", the server of
    /// [log.syslog].
    #[key(
        example = "\"stdout\"",
        default = AccessLogTarget::Stdout,
        reader = ReadBy(access, &[ValueKind::String])
    )]
    pub access: AccessLogTarget,
    /// One JSON line for each change by an operator: "stdout", "stderr", or the path of a file, which is reopened at SIGUSR1. Default: the
    /// process log has these lines.
    #[key(
        example = "\"/var/log/sluicegate/audit.log\"",
        reader = ReadBy(audit, &[ValueKind::String])
    )]
    pub audit: Option<AuditLogTarget>,
    /// The form of the limit's key in lines of rejected requests, and for operators with the token: "hash"; "masked", which adds its values
    /// with most characters hidden and addresses reduced to their network; "plain", which adds its values.
    #[key(
        example = "\"hash\"",
        default = LoggedKeys::Hash,
        reader = ChoiceOf(&KEYS, "{} is no way to log keys", "write \"hash\", \"masked\" or \"plain\"")
    )]
    pub keys: LoggedKeys,
    /// The format of a line: "json", or "combined", the format of Apache and nginx, in UTC.
    #[key(
        example = "\"json\"",
        default = LogFormat::Json,
        reader = WordOf(&FORMATS, "{} is no format of access lines")
    )]
    pub format: LogFormat,
    /// Request fields that JSON lines contain, at most 8, cut after 512 bytes. Fields that carry credentials are an error. Default: none.
    #[key(
        example = "[\"user-agent\", \"referer\"]",
        default = Vec::new(),
        reader = ListBy(fields, &[ValueKind::String])
    )]
    pub fields: Vec<HeaderName>,
    /// True adds to JSON lines the fields that `sluicegate replay` needs to repeat each decision: its time in nanoseconds, and the hash of
    /// each limit's key, including keys whose values are in no log.
    #[key(example = "false", default = false, reader = Flag(false, true))]
    pub replay: bool,
    /// A filter for requests: comparisons of status, outcome, method, route ("==", "!=", "in [a, b]", "not in [a, b]"; status also "<" and
    /// so on, and "in 500..=599") and duration ("<", "<=", ">", ">="), joined by "and", which binds closer, and "or". Default: all requests
    /// have a line.
    #[key(
        example = "\"status >= 400\"",
        shown = "\"status >= 400 or duration >= 1s\"",
        reader = ReadBy(line_filter, &[ValueKind::String])
    )]
    pub only: Option<LineFilter>,
    /// A filter for rejected requests, after `only`: "all"; "1%", a random sample; or "one per key and second". Metrics count every
    /// request, and `left_out` is the number of lines omitted before one.
    #[key(
        example = "\"1%\"",
        shown = "\"all\"",
        default = RefusedLines::All,
        reader = ReadBy(refused_lines, &[ValueKind::String])
    )]
    pub refused: RefusedLines,
    /// The syslog server that lines are sent to. Default: none.
    #[key(example = "{ server = \"unix:/dev/log\" }", reader = TableOf(SyslogRules::read))]
    pub syslog: Option<SyslogRules>,
}

const KEYS: [(&str, LoggedKeys); 3] = [
    ("hash", LoggedKeys::Hash),
    ("masked", LoggedKeys::Masked),
    ("plain", LoggedKeys::Plain),
];

const FORMATS: [(&str, LogFormat); 2] =
    [("json", LogFormat::Json), ("combined", LogFormat::Combined)];

impl LogRules {
    /// Rules under which every request has a line in `access`.
    #[must_use]
    pub fn to(access: AccessLogTarget) -> Self {
        Self {
            access,
            syslog: None,
            audit: None,
            keys: LoggedKeys::Hash,
            format: LogFormat::Json,
            replay: false,
            fields: Vec::new(),
            only: None,
            refused: RefusedLines::All,
        }
    }
}

fn check_fields(keys: &LogRulesKeys, section: &TableSection<'_>) -> Option<()> {
    check_syslog(keys, section)?;
    if let (Some(AccessLogTarget::File(access)), Some(Some(AuditLogTarget::File(audit)))) =
        (&keys.access, &keys.audit)
        && access == audit
    {
        return section.refuse(
            "audit",
            "the access log has this file",
            "write a file of its own: \"/var/log/sluicegate/audit.log\"",
        );
    }
    if keys.format == Some(LogFormat::Combined) && keys.replay == Some(true) {
        return section.refuse(
            "replay",
            "lines in the combined format have no place for the hashes of keys",
            "leave `replay` out, or write format = \"json\"",
        );
    }
    if keys.format == Some(LogFormat::Combined) && !keys.fields.as_ref()?.is_empty() {
        return section.refuse(
            "fields",
            "lines in the combined format have no place for more fields than Referer and User-Agent, which they have anyway",
            "leave `fields` out, or write format = \"json\"",
        );
    }
    Some(())
}

fn check_syslog(keys: &LogRulesKeys, section: &TableSection<'_>) -> Option<()> {
    let is_target = *keys.access.as_ref()? == AccessLogTarget::Syslog;
    match (is_target, section.has("syslog")) {
        (true, false) => section.refuse(
            "access",
            "no syslog server is named",
            "write [log.syslog] with server = \"unix:/dev/log\", \"udp://10.0.0.9:514\" or \"tcp://10.0.0.9:601\"",
        ),
        (false, true) => {
            section.report.warning(
                &section.place,
                "no line goes to the server of [log.syslog]",
                "write access = \"syslog\" beside it, or leave it out",
            );
            Some(())
        }
        _ => Some(()),
    }
}

/// Reads `"stdout"`, `"off"`, `"syslog"` or the path of a file.
fn access(field: &KeyField<'_>) -> Option<AccessLogTarget> {
    match field.text()? {
        "stdout" => Some(AccessLogTarget::Stdout),
        "off" => Some(AccessLogTarget::Off),
        "syslog" => Some(AccessLogTarget::Syslog),
        text if let Some(mistake) = syslog_server(text) => field.mistaken(mistake),
        path => log_path(field, path, &ACCESS).map(AccessLogTarget::File),
    }
}

/// Reads `"stdout"`, `"stderr"` or the path of a file.
fn audit(field: &KeyField<'_>) -> Option<AuditLogTarget> {
    match field.text()? {
        "stdout" => Some(AuditLogTarget::Stdout),
        "stderr" => Some(AuditLogTarget::Stderr),
        path => log_path(field, path, &AUDIT).map(AuditLogTarget::File),
    }
}

/// A log in messages.
struct NamedLog {
    name: &'static str,
    /// The words for targets that are not files.
    words: &'static str,
    /// All its targets.
    targets: &'static str,
}

const ACCESS: NamedLog = NamedLog {
    name: "access",
    words: "\"stdout\", \"off\", \"syslog\"",
    targets: "a file, the standard output or a syslog server",
};

const AUDIT: NamedLog = NamedLog {
    name: "audit",
    words: "\"stdout\", \"stderr\"",
    targets: "a file, the standard output or the standard error",
};

/// Reads the path of a log.
fn log_path(field: &KeyField<'_>, text: &str, log: &NamedLog) -> Option<PathBuf> {
    let NamedLog { name, words, .. } = log;
    match text {
        path if path.is_empty() || path.ends_with('/') || path.contains('\0') => field.refuse(
            "this is not the path of a file",
            format!("write {words} or \"/var/log/sluicegate/{name}.log\""),
        ),
        text if let Some(mistake) = no_file(text, log) => field.mistaken(mistake),
        // A word without a slash or dot is more likely a slip than a file in the working directory.
        slip if !slip.contains(['/', '.']) => field.refuse(
            format!("{slip:?} is none of {words}"),
            format!("write one of them, or \"./{slip}\" if a file is meant"),
        ),
        path => opened_paths::log_file(field, field.report.path(path), name),
    }
}

/// Destinations of other programs' logs that are not files.
const OTHER_DESTINATIONS: [&str; 12] = [
    "fluentd", "gelf", "http", "https", "journald", "journal", "kafka", "net", "syslog", "tcp",
    "udp", "unix",
];

/// Schemes of syslog servers, as other programs write them.
const SYSLOG: [&str; 4] = ["syslog", "tcp", "udp", "unix"];

/// Returns the mistake of a text that names a syslog server, as other programs write it.
fn syslog_server(text: &str) -> Option<ParseError> {
    let scheme = text.split_once(':')?.0;
    SYSLOG.contains(&scheme).then(|| {
        ParseError::with_advice(
            format!("{} is not the path of a file", quoted(text)),
            "for a syslog server write access = \"syslog\", and [log.syslog] with server = \"unix:/dev/log\", \"udp://10.0.0.9:514\" or \
             \"tcp://10.0.0.9:601\"",
        )
    })
}

/// Returns the mistake of a text that other programs take for a destination, and that would be the name of an odd file here.
fn no_file(text: &str, log: &NamedLog) -> Option<ParseError> {
    const FORWARDED: &str =
        "write \"stdout\", and let the service manager or a log shipper forward the lines";
    if text.trim_start().starts_with('|') {
        let message = "lines are not piped to a program";
        return Some(ParseError::with_advice(message, FORWARDED));
    }
    let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
    if scheme == "file" && !rest.is_empty() {
        let path = rest.strip_prefix("//").unwrap_or(rest);
        return Some(ParseError::with_advice(
            format!("{} is a URL", quoted(text)),
            format!("write the path alone: {}", quoted(path)),
        ));
    }
    OTHER_DESTINATIONS.contains(&scheme).then(|| {
        let message = format!("lines are written to {}, not to {scheme}", log.targets);
        ParseError::with_advice(message, FORWARDED)
    })
}

/// Warns of routes that `only`, which stands at `place`, names and the file has not: `==` keeps none of their lines, and `!=` drops none.
pub(crate) fn check_routes(
    only: &LineFilter,
    place: &KeyPlace,
    routes: &[ParsedRoute],
    report: &ProblemReport<'_>,
) {
    let rules = routes.iter().filter_map(|route| route.rules.as_ref());
    let known: Vec<&str> = rules.map(|rules| &*rules.name).collect();
    for name in only.routes().filter(|name| !known.contains(name)) {
        let advice = match suggest::nearest(name, known.iter().copied()) {
            Some(meant) => format!("did you mean {}?", quoted(meant)),
            None => "write the name of a route; one without `name` is called by its match, as in \"POST /auth/sendOTP\"".to_owned(),
        };
        report.warning(
            place,
            format!("no route is called {}", quoted(name)),
            advice,
        );
    }
}

/// Fields that carry credentials. A log is read by more people than may act for every client, and kept for longer than a password.
const CREDENTIALS: [&str; 10] = [
    "api-key",
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-access-token",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-xsrf-token",
];

/// Reads `fields = ["user-agent", "referer"]`.
fn fields(field: &KeyField<'_>) -> Option<Vec<HeaderName>> {
    let elements = field.elements()?;
    if elements.len() > bounds::LOGGED_FIELDS {
        return field.refuse(
            format!("there are more than {} fields", bounds::LOGGED_FIELDS),
            "name those that somebody reads",
        );
    }
    let mut names = Vec::with_capacity(elements.len());
    let mut sound = true;
    for element in elements {
        match element.parsed(field_name) {
            Some(name) if names.contains(&name) => {
                let message = format!("{:?} stands here already", name.as_str());
                element.refuse::<()>(message, "write it once");
                sound = false;
            }
            Some(name) => names.push(name),
            None => sound = false,
        }
    }
    sound.then_some(names)
}

fn field_name(text: &str) -> Result<HeaderName, ParseError> {
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| {
        ParseError::with_advice(
            format!("{} is not the name of a request field", quoted(text)),
            "write one such as \"user-agent\"",
        )
    })?;
    if CREDENTIALS.contains(&name.as_str()) {
        return Err(ParseError::with_advice(
            format!(
                "{} carries a credential, and whoever reads the log could act for the client",
                quoted(text)
            ),
            "leave it out; to tell clients apart by it, key a limit on it, and `key` in the log is its hash",
        ));
    }
    Ok(name)
}

/// Reads `refused = "1%"`, `"one per key and second"` or `"all"`.
fn refused_lines(field: &KeyField<'_>) -> Option<RefusedLines> {
    field.parsed(|text| match text {
        "all" => Ok(RefusedLines::All),
        "one per key and second" => Ok(RefusedLines::OnePerKeyAndSecond),
        _ => match text.strip_suffix('%').map(|share| share.trim().parse::<f64>()) {
            Some(Ok(share)) if (0.000_1..=100.0).contains(&share) => {
                // Between 1 and 1,000,000.
                Ok(RefusedLines::PerMillion((share * 10_000.0).round() as u32))
            }
            Some(Ok(0.0)) => Err(ParseError::with_advice(
                "with \"0%\" no line says that anybody is refused",
                "write only = \"outcome not in [rate-limited, banned, refused-concurrency, blocked]\" if that is meant",
            )),
            Some(Ok(_)) => Err(ParseError::with_advice(
                format!("{} is not between 0.0001% and 100%", quoted(text)),
                "write \"1%\"",
            )),
            _ => Err(ParseError::with_advice(
                format!("{} does not say which lines of refused requests are written", quoted(text)),
                "write \"all\", \"1%\" or \"one per key and second\"",
            )),
        },
    })
}
