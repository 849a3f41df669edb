//! Says of lines that are not about routes and limits where the gateway has what they are about.

use super::sections::{ConfigSection, SectionLine};
use crate::ledger::Ledger;

/// Records of each line that is about something else where the gateway has that.
pub(super) fn say(sections: &[ConfigSection], ledger: &mut Ledger) {
    for section in sections {
        let of_section = match section.kind.as_str() {
            "global" => Some("the process of HAProxy; see [server]"),
            "peers" => Some("counters are shared by [store]"),
            "resolvers" => Some("names of servers are resolved by the system"),
            "userlist" => Some("the gateway does not authenticate requests"),
            "cache" => Some("see [cache] and [route.cache]"),
            "defaults" => {
                ledger.translated(section.id);
                None
            }
            "frontend" | "backend" | "listen" => {
                ledger.left_out(section.id, "no route leads there");
                None
            }
            _ => Some("the gateway has no counterpart"),
        };
        if let Some(reason) = of_section {
            ledger.left_out(section.id, reason);
        }
        for line in &section.lines {
            if of_section.is_none() && is_implied(line) {
                ledger.translated(line.id);
            } else if let Some(reason) = of_section.or_else(|| reason(line)) {
                ledger.left_out(line.id, reason);
            }
        }
    }
}

/// Returns true if the gateway does in any case what a line asks for.
fn is_implied(line: &SectionLine) -> bool {
    line.starts(&["mode", "http"])
        || line.starts(&["option", "forwardfor"])
        || line.starts(&["option", "http-server-close"])
        || line.starts(&["option", "http-keep-alive"])
        || line.starts(&["option", "httplog"])
        || line.starts(&["option", "redispatch"])
        || line.starts(&["option", "dontlognull"])
}

fn reason(line: &SectionLine) -> Option<&'static str> {
    let reason = match (line.word(0), line.word(1)) {
        ("log" | "log-format" | "capture", _) | ("option", "tcplog" | "dontlog-normal") => {
            "see [log]"
        }
        ("errorfile" | "errorloc" | "http-error" | "errorfiles", _) => "see [error_pages]",
        ("compression" | "filter", _) => "see [compress]",
        ("http-response" | "http-after-response" | "rspadd", _) => "see [response_headers]",
        ("cookie", _) => "see [origin.NAME.sticky]",
        ("maxconn", _) => "see [server] max_connections",
        ("retries" | "retry-on", _) => "see [origin.NAME.retry]",
        ("stats" | "monitor-uri" | "monitor", _) => "see [admin]",
        ("timeout", "client" | "server" | "connect" | "http-request" | "http-keep-alive") => {
            return None;
        }
        ("timeout", _) => "see [server] and [origin.NAME.timeouts]",
        ("option", "httpchk") => return None,
        ("option", _) => "an option of HAProxy's own",
        ("http-check" | "tcp-check" | "default-server", _) => "see [origin.NAME.health]",
        ("acl", _) => "no route depends on it",
        ("stick", _) => "see [origin.NAME.sticky]",
        ("description" | "id" | "enabled", _) => "it changes nothing",
        ("mode", _) => "the gateway speaks HTTP",
        _ => return None,
    };
    Some(reason)
}

/// Returns true if a frontend has no routes: it is not for HTTP, or shows statistics.
pub(super) fn is_left_out(frontend: &ConfigSection, defaults: &[&SectionLine]) -> bool {
    let own = frontend.named("mode").last();
    let inherited = || defaults.iter().copied().find(|line| line.word(0) == "mode");
    // HAProxy's default is `tcp`; a part of a file without `defaults` is taken for HTTP.
    let is_tcp = own
        .or_else(inherited)
        .is_some_and(|line| line.word(1) != "http");
    let shows_statistics = frontend.named("stats").next().is_some()
        && frontend.named("default_backend").next().is_none()
        && frontend.named("server").next().is_none();
    is_tcp || shows_statistics
}
