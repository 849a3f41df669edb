//! Says of lines that are not about routes and limits where the gateway has what they are about, and which of them are to be filled in.
//!
//! A line that is left out is to be filled in unless it is known to change no answer: one that nobody knows may limit, restrict,
//! authenticate or encrypt.

use super::rules::is_rule;
use super::sections::{ConfigSection, SectionLine};
use crate::ledger::Ledger;

/// The reason for lines that other lines refer to, or that hold in sections without routes.
const UNUSED: &str = "nothing that is imported depends on it";

/// The reason for lines with a variable.
const IN_ENVIRONMENT: &str = "a value stands in the environment of HAProxy; write it in place of the variable, and import again";

/// Records of each line that is about something else where the gateway has that.
pub(super) fn say(sections: &[ConfigSection], ledger: &mut Ledger) {
    for section in sections {
        if let Some(reason) = section_reason(section, ledger) {
            ledger.left_out(section.id, reason);
        }
        for line in &section.unread {
            let reason = match (depends_on_value(line), line_reason(section, line)) {
                (false, Some(reason)) => reason,
                _ => IN_ENVIRONMENT,
            };
            ledger.left_out(line.id, reason);
        }
        for line in &section.lines {
            if has_lines_of_its_own(section) && is_implied(line) {
                ledger.translated(line.id);
            } else if let Some(reason) = line_reason(section, line) {
                ledger.left_out(line.id, reason);
            }
        }
    }
}

/// Records the lines that are left out and may change an answer as to be filled in. Called when all others are translated.
pub(super) fn fill_in(sections: &[ConfigSection], ledger: &mut Ledger) {
    for section in sections {
        let is_used = section.kind == "global" || ledger.is_translated(section.id);
        if !is_used {
            continue;
        }
        let unread = section.unread.iter().map(|line| {
            let is_harmless = !depends_on_value(line) && changes_no_answer(section, line);
            (line, is_harmless)
        });
        let lines = section
            .lines
            .iter()
            .map(|line| (line, changes_no_answer(section, line)));
        for (line, is_harmless) in lines.chain(unread) {
            if is_harmless || !ledger.has_lost_effect(line.id) {
                continue;
            }
            ledger.require(line.id);
        }
    }
}

/// Returns true for lines whose translation depends on their values.
fn depends_on_value(line: &SectionLine) -> bool {
    is_rule(line)
        || matches!(
            line.word(0),
            "acl" | "bind" | "default_backend" | "server" | "stick-table"
        )
}

fn has_lines_of_its_own(section: &ConfigSection) -> bool {
    matches!(
        section.kind.as_str(),
        "defaults" | "frontend" | "backend" | "listen"
    )
}

fn section_reason(section: &ConfigSection, ledger: &mut Ledger) -> Option<&'static str> {
    Some(match section.kind.as_str() {
        "defaults" => {
            ledger.translated(section.id);
            return None;
        }
        "frontend" | "backend" | "listen" => "no route leads there",
        kind => kind_reason(kind),
    })
}

/// Returns where the gateway has what a section is about.
fn kind_reason(kind: &str) -> &'static str {
    match kind {
        "global" => "the process of HAProxy; see [server]",
        "peers" => "counters are shared by [store]",
        "resolvers" => "names of servers are resolved by the system",
        "userlist" => "the gateway does not authenticate requests",
        "cache" => "see [cache] and [route.cache]",
        "log-forward" | "ring" | "log-profile" => "see [log]",
        "http-errors" => "see [error_pages]",
        "acme" => "see [acme]",
        _ => "the gateway has no counterpart",
    }
}

fn line_reason(section: &ConfigSection, line: &SectionLine) -> Option<&'static str> {
    if section.kind == "defaults" && is_rule(line) {
        return Some("rules of `defaults` are not imported; write them into the frontend");
    }
    if has_lines_of_its_own(section) {
        return reason(line);
    }
    match (section.kind.as_str(), line.word(0)) {
        ("global", "maxconn") => Some(UNUSED),
        ("global", word) if is_process_bound(word) => {
            Some("see the bounds of [server] and [server.http2], and the limits of routes")
        }
        (kind, _) => Some(kind_reason(kind)),
    }
}

/// Returns true if the gateway does in any case what a line asks for.
fn is_implied(line: &SectionLine) -> bool {
    line.starts(&["mode", "http"])
        || (line.starts(&["option", "forwardfor"]) && line.behind("header").is_none())
        || line.starts(&["option", "http-server-close"])
        || line.starts(&["option", "http-keep-alive"])
        || line.starts(&["option", "httplog"])
        || line.starts(&["option", "redispatch"])
        || line.starts(&["option", "dontlognull"])
}

/// Returns true for the words of `stats` by which a section has the page, or restricts it.
fn is_of_page(word: &str) -> bool {
    [
        "admin",
        "auth",
        "enable",
        "http-request",
        "realm",
        "scope",
        "uri",
    ]
    .contains(&word)
}

/// Returns true for lines of `global` that bound what clients can do.
fn is_process_bound(word: &str) -> bool {
    let is_of_process = word.starts_with("max") && word != "maxzlibmem";
    let is_of_requests = ["tune.bufsize", "tune.http.maxhdr"].contains(&word);
    let is_of_streams = word.starts_with("tune.")
        && (word.contains("max-concurrent-streams")
            || word.contains("max-total-streams")
            || word.contains("max-streams")
            || word.contains("glitches-threshold"));
    is_of_process || is_of_requests || is_of_streams
}

fn reason(line: &SectionLine) -> Option<&'static str> {
    let reason = match (line.word(0), line.word(1)) {
        (
            "log" | "log-format" | "log-format-sd" | "log-tag" | "error-log-format" | "capture",
            _,
        ) => "see [log]",
        ("option", "tcplog" | "httpslog" | "dontlog-normal" | "logasap" | "log-health-checks") => {
            "see [log]"
        }
        ("option", "log-separate-errors") => "see [log]",
        ("unique-id-header" | "unique-id-format", _) => "see [client] request_id",
        ("errorfile" | "errorloc" | "errorloc302" | "errorloc303" | "http-error", _) => {
            "see [error_pages]"
        }
        ("errorfiles", _) => "see [error_pages]",
        ("declare", "capture") => "see [log]",
        ("ignore-persist" | "force-persist" | "persist", _) => "see [origin.NAME.sticky]",
        ("clitcpka-cnt" | "clitcpka-idle" | "clitcpka-intvl" | "grace", _)
        | ("srvtcpka-cnt" | "srvtcpka-idle" | "srvtcpka-intvl" | "max-keep-alive-queue", _) => {
            "it changes how long connections are kept"
        }
        ("http-send-name-header", _) => "see [route.request_headers]",
        ("compression", _) | ("filter", "compression") => "see [compress]",
        ("filter", _) => "the gateway has no filters",
        ("cookie" | "stick" | "appsession", _) => "see [origin.NAME.sticky]",
        ("retries" | "retry-on", _) => "see [origin.NAME.retry]",
        ("rate-limit", _) => "see the limits of routes",
        ("monitor", _) => "see /readyz of [admin]",
        ("stats", word) if is_of_page(word) => {
            "the gateway has no such page at the path of `stats uri`, where requests go on to the backend; see [admin]"
        }
        ("stats", _) => "it is about the look of a page",
        ("option", "httpchk") => "no server is checked",
        ("option", "forwardfor") => {
            "the origin gets X-Forwarded-For; request_headers = { set = { NAME = \"{client_ip}\" } } of a route sets another field"
        }
        ("option", "http_proxy" | "transparent") => {
            "it sends requests to the address that they name"
        }
        ("option", _) => "an option of HAProxy's own",
        ("http-check" | "tcp-check" | "external-check", _) => "see [origin.NAME.health]",
        ("acl", _) => "no route depends on it",
        _ if is_rule(line) => UNUSED,
        ("description" | "id" | "guid" | "enabled", _) => "it changes nothing",
        ("mode", _) => "the gateway speaks HTTP",
        ("timeout", "client" | "server" | "connect" | "http-request" | "http-keep-alive") => UNUSED,
        ("timeout", "queue") => "no server has maxconn, so no request waits",
        ("timeout", _) => "see [server] and [origin.NAME.timeouts]",
        ("fullconn", _) => "it is for minconn, which has no counterpart",
        ("backlog" | "hash-type" | "hash-balance-factor" | "http-reuse", _) => "see [origin.NAME]",
        (
            "maxconn" | "bind" | "server" | "default-server" | "balance" | "default_backend"
            | "stick-table" | "monitor-uri" | "disabled",
            _,
        ) => UNUSED,
        ("server-template" | "dispatch" | "use-server", _) => "see [origin.NAME] servers",
        ("email-alert" | "server-state-file-name" | "load-server-state-from-file", _) => {
            "it changes nothing"
        }
        _ => return None,
    };
    Some(reason)
}

/// Returns true if a line that is left out neither limits, restricts, authenticates nor encrypts, and leads no request elsewhere. Rules say
/// so themselves.
fn changes_no_answer(section: &ConfigSection, line: &SectionLine) -> bool {
    if section.kind == "global" {
        let word = line.word(0);
        return !is_process_bound(word)
            && !word.starts_with("ssl-d")
            && word != "ssl-server-verify";
    }
    let has_own_answer = |line: &SectionLine| {
        matches!(
            line.word(0),
            "dispatch"
                | "errorloc"
                | "errorloc302"
                | "errorloc303"
                | "filter"
                | "force-persist"
                | "http-send-name-header"
                | "monitor"
                | "rate-limit"
                | "server-template"
                | "use-server"
        )
    };
    match (line.word(0), line.word(1)) {
        _ if is_rule(line) => section.kind != "defaults",
        ("filter", "compression" | "cache" | "trace") => true,
        ("option", "forwardfor") => false,
        ("option", "checkcache" | "http_proxy" | "transparent") => false,
        ("stats", word) => !is_of_page(word),
        ("option", "http-restrict-req-hdr-names") => line.word(2) != "reject",
        // It is to be filled in where it is read.
        ("bind" | "server", _) => true,
        _ => reason(line).is_some() && !has_own_answer(line),
    }
}

/// Returns why a frontend has no routes; `None` where it has. `lines` are its own, then those that it inherits.
pub(super) fn omission(
    frontend: &ConfigSection,
    lines: &[&SectionLine],
) -> Option<FrontendOmission> {
    if frontend.named("disabled").next().is_some() {
        return Some(FrontendOmission::Disabled);
    }
    let leads_on = ["default_backend", "use_backend", "server"];
    let shows_statistics = frontend.named("stats").next().is_some()
        && !lines.iter().any(|line| leads_on.contains(&line.word(0)));
    if shows_statistics {
        return Some(FrontendOmission::Statistics);
    }
    // HAProxy's default is `tcp`; a part of a file without `defaults` is taken for HTTP.
    let mode = lines.iter().find(|line| line.word(0) == "mode");
    let is_http = mode.is_none_or(|line| line.word(1) == "http");
    (!is_http).then_some(FrontendOmission::NotHttp)
}

/// The reason for which a frontend has no routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontendOmission {
    Disabled,
    Statistics,
    NotHttp,
}

impl FrontendOmission {
    /// Returns the reason.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Disabled => "it is disabled",
            Self::Statistics => "statistics are in the metrics of [admin]",
            Self::NotHttp => "the gateway speaks HTTP",
        }
    }
}
