//! Writes a configuration as TOML: each table behind comments with the directives that it is made of, and its differences.

use std::collections::BTreeSet;
use std::fmt::Write;

use sluicegate_base::path::PathCase;

use crate::bounds;
use crate::ledger::{EntryId, Ledger, printable};
use crate::model::{
    ClientList, ClientRules, FieldEdits, GatewayModel, KeyPart, Limit, LimitAction, LimitAlgorithm,
    Listener, Origin, Route, RouteAction, Server, TableRemarks,
};

/// Longest line of a comment, in characters.
const COLUMNS: usize = 120;

/// The one address that may announce clients until the operator names the proxies.
const LOOPBACK: &str = "127.0.0.1/32";

/// The rate of limits that only bound the requests in flight.
const OUT_OF_REACH: &str = "1000000 per second";

/// Returns the configuration as TOML.
pub(crate) fn write(gateway: &GatewayModel, ledger: &Ledger) -> String {
    let mut text = TomlText {
        ledger,
        out: String::new(),
    };
    text.head();
    text.keys("[server]", &gateway.server, &gateway.server_sources);
    text.keys("[log]", &gateway.log, &gateway.log_sources);
    text.keys("[acme]", &gateway.acme, &gateway.acme_sources);
    text.client(&gateway.client);
    gateway.listeners.iter().for_each(|it| text.listener(it));
    gateway.lists.iter().for_each(|it| text.list(it));
    gateway.origins.iter().for_each(|it| text.origin(it));
    gateway.limits.iter().for_each(|it| text.limit(it));
    gateway.routes.iter().for_each(|it| text.route(it));
    text.omissions();
    text.out
}

struct TomlText<'a> {
    ledger: &'a Ledger,
    out: String,
}

/// The keys of one table in their order; values are TOML already.
#[derive(Default)]
struct TableKeys(Vec<(String, String)>);

impl TableKeys {
    fn set(&mut self, key: &str, value: impl Into<String>) {
        self.0.push((key.to_owned(), value.into()));
    }

    fn text(&mut self, key: &str, value: &str) {
        self.set(key, quoted(value));
    }

    fn texts(&mut self, key: &str, values: &[String]) {
        if !values.is_empty() {
            self.set(key, list(values));
        }
    }
}

impl TomlText<'_> {
    fn head(&mut self) {
        let left_out = self.ledger.omissions().count();
        let all = self.ledger.entries().len();
        self.comment("", "Written by `sluicegate import`.");
        self.comment(
            "",
            &format!(
                "{} of {all} directives are translated; {left_out} are left out and listed at the end. Each table names the directives \
                 that it is made of. A line with \"Differs\" says what the translation means otherwise.",
                all - left_out
            ),
        );
        for what in self.ledger.to_fill_in() {
            self.comment("To fill in: ", what);
        }
    }

    /// Writes a table of keys that are TOML already, if it has any.
    fn keys(&mut self, head: &str, pairs: &[(&'static str, String)], sources: &[EntryId]) {
        if pairs.is_empty() {
            return;
        }
        let remarks = TableRemarks {
            sources: sources.to_vec(),
            differences: Vec::new(),
        };
        let mut keys = TableKeys::default();
        for (key, value) in pairs {
            keys.set(key, value);
        }
        self.table(head, &remarks, keys);
    }

    fn client(&mut self, client: &ClientRules) {
        let mut keys = TableKeys::default();
        keys.texts("trusted_proxies", &client.trusted_proxies);
        if let Some(header) = &client.header {
            keys.text("client_ip_header", header);
        }
        keys.texts("block", &client.block);
        if !keys.0.is_empty() {
            self.table("[client]", &client.remarks, keys);
        }
    }

    fn listener(&mut self, listener: &Listener) {
        let mut keys = TableKeys::default();
        keys.text("address", &listener.address);
        if let Some(name) = &listener.name {
            keys.text("name", name);
        }
        if let Some(from) = &listener.proxy_protocol_from {
            keys.text("proxy_protocol", "required");
            // Nobody else may announce clients until the operator names the proxies.
            let nobody = [LOOPBACK.to_owned()];
            let from = match from.is_empty() {
                true => &nobody[..],
                false => &from[..],
            };
            keys.texts("proxy_protocol_from", from);
        }
        if let Some(to) = &listener.redirect_to_https {
            keys.set("redirect_to_https", to);
        }
        keys.texts("tls.acme", &listener.acme);
        if !listener.certificates.is_empty() {
            let files = listener.certificates.iter().map(|(cert, key)| {
                format!(
                    "{{ cert_file = {}, key_file = {} }}",
                    quoted(cert),
                    quoted(key)
                )
            });
            let files: Vec<String> = files.collect();
            keys.set("tls.certificates", format!("[{}]", files.join(", ")));
        }
        if !listener.certificates.is_empty() || !listener.acme.is_empty() {
            if let Some(file) = &listener.client_ca {
                keys.text("tls.client_ca_file", file);
            }
            for (key, value) in &listener.tls {
                keys.text(&format!("tls.{key}"), value);
            }
        }
        self.table("[[listener]]", &listener.remarks, keys);
    }

    fn list(&mut self, list: &ClientList) {
        let mut keys = TableKeys::default();
        keys.texts("cidrs", &list.cidrs);
        if let Some(file) = &list.file {
            keys.text("file", file);
        }
        self.table(&format!("[list.{}]", key(&list.name)), &list.remarks, keys);
    }

    fn origin(&mut self, origin: &Origin) {
        let mut keys = TableKeys::default();
        let servers: Vec<String> = origin.servers.iter().map(server).collect();
        keys.set("servers", format!("[{}]", servers.join(", ")));
        let texts = [
            ("protocol", origin.protocol),
            ("balance", origin.balance),
            ("hash_key", origin.hash_key.as_deref()),
            ("host", origin.host.as_deref()),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                keys.text(name, value);
            }
        }
        if let Some(tls) = &origin.tls {
            keys.set("tls", tls);
        }
        let inline = |pairs: &[(&str, String)]| {
            let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k} = {v}")).collect();
            format!("{{ {} }}", pairs.join(", "))
        };
        if !origin.timeouts.is_empty() {
            keys.set("timeouts", inline(&origin.timeouts));
        }
        if let Some(health) = &origin.health {
            let health = match health.as_slice() {
                [] => "{}".to_owned(),
                keys => inline(keys),
            };
            keys.set("health", health);
        }
        if let Some(most) = origin.max_connections {
            keys.set("circuit_breaker", format!("{{ max_connections = {most} }}"));
        }
        for (key, value) in &origin.keys {
            keys.set(key, value);
        }
        let head = format!("[origin.{}]", key(&origin.name));
        self.table(&head, &origin.remarks, keys);
    }

    fn limit(&mut self, limit: &Limit) {
        let mut keys = TableKeys::default();
        match limit.key.as_slice() {
            [] => keys.text("key", "global"),
            [part] => keys.text("key", &part.text()),
            parts => {
                let parts: Vec<String> = parts.iter().map(KeyPart::text).collect();
                keys.texts("key", &parts);
            }
        }
        if let Some(choice) = limit.on_missing {
            keys.text("on_missing", choice);
        }
        let (count, period) = &limit.rate;
        if let Some(most) = limit.concurrency {
            keys.set("rates", format!("[\"{OUT_OF_REACH}\"]"));
            keys.set("concurrency", most.to_string());
            keys.text("headers", "none");
        } else {
            keys.set("rates", format!("[\"{count} per {period}\"]"));
            algorithm(limit.algorithm, &mut keys);
        }
        match &limit.action {
            LimitAction::Reject => {}
            LimitAction::Shadow => keys.text("action", "shadow"),
            LimitAction::Mark(fallback) => {
                keys.text("action", "mark");
                keys.text("fallback_limit", fallback);
            }
        }
        if let Some(capacity) = limit.capacity {
            keys.set("capacity", capacity.to_string());
        }
        if let Some(condition) = limit.count_if {
            keys.text("count_if", condition);
        }
        if let Some(status) = limit.status {
            keys.set("refusal", format!("{{ status = {status} }}"));
        }
        let head = format!("[limit.{}]", key(&limit.name));
        self.table(&head, &limit.remarks, keys);
    }

    fn route(&mut self, route: &Route) {
        let mut keys = TableKeys::default();
        if let Some(host) = &route.host {
            keys.text("host", host);
        }
        keys.text("path", &route.path);
        if route.case == PathCase::Kept {
            keys.set("ignore_case", "false");
        }
        keys.texts("listeners", &route.listeners);
        keys.texts("methods", &route.methods);
        for name in ["headers", "query"] {
            let values = route.values.iter().filter(|it| it.key == name);
            let pairs: Vec<String> = values.map(|it| pair(&it.name, &it.value)).collect();
            if !pairs.is_empty() {
                keys.set(name, inline(&pairs));
            }
        }
        keys.texts("client", &route.client);
        keys.texts("limits", &route.limits);
        keys.texts("allow", &route.allow);
        keys.texts("block", &route.block);
        match &route.action {
            RouteAction::Forward {
                origin,
                strip_prefix,
                rewrite,
            } => {
                keys.text("origin", origin);
                for (name, value) in [("strip_prefix", strip_prefix), ("rewrite", rewrite)] {
                    if let Some(value) = value {
                        keys.text(name, value);
                    }
                }
            }
            RouteAction::Respond { status, body } if body.is_empty() => {
                keys.set("respond", format!("{{ status = {status} }}"));
            }
            RouteAction::Respond { status, body } => {
                let body = quoted(body);
                keys.set("respond", format!("{{ status = {status}, body = {body} }}"));
            }
            RouteAction::Redirect { to, status } => {
                let to = quoted(to);
                keys.set("redirect", format!("{{ to = {to}, status = {status} }}"));
            }
        }
        if let Some(most) = &route.max_body {
            keys.text("max_body_bytes", most);
        }
        if let Some(status) = route.status {
            keys.set("refusal", format!("{{ status = {status} }}"));
        }
        for (name, edits) in [
            ("request_headers", &route.request_fields),
            ("response_headers", &route.response_fields),
        ] {
            if let Some(edits) = field_edits(edits) {
                keys.set(name, edits);
            }
        }
        for (key, value) in &route.keys {
            keys.set(key, value);
        }
        self.table("[[route]]", &route.remarks, keys);
    }

    fn omissions(&mut self) {
        let omissions: Vec<(String, &str)> = self
            .ledger
            .omissions()
            .map(|(entry, reason)| (format!("{}: {}", entry.position, entry.text), reason))
            .collect();
        if omissions.is_empty() {
            return;
        }
        self.out.push_str("\n# Left out:\n");
        for (entry, reason) in omissions {
            self.comment("", &entry);
            self.comment("    ", reason);
        }
    }

    fn table(&mut self, head: &str, remarks: &TableRemarks, keys: TableKeys) {
        self.out.push('\n');
        let mut known = BTreeSet::new();
        for source in remarks.sources.iter().filter(|it| known.insert(**it)) {
            self.comment("", &self.ledger.comment(*source));
        }
        for difference in &remarks.differences {
            self.comment("Differs: ", difference);
        }
        self.line(head);
        let width = keys.0.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
        for (key, value) in keys.0 {
            self.line(&format!("{key:width$} = {value}"));
        }
    }

    /// Writes a comment, in lines of bounded length.
    fn comment(&mut self, prefix: &str, text: &str) {
        let indent = " ".repeat(prefix.len());
        let mut line = format!("# {prefix}");
        let mut is_empty = true;
        for word in printable(text).split(' ') {
            if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
                self.line(line.trim_end());
                line = format!("# {indent}");
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.line(line.trim_end());
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }
}

fn algorithm(algorithm: LimitAlgorithm, keys: &mut TableKeys) {
    match algorithm {
        LimitAlgorithm::Gcra(burst) => {
            keys.text("algorithm", "gcra");
            keys.set("burst", burst.to_string());
        }
        LimitAlgorithm::TokenBucket(burst) => {
            keys.text("algorithm", "token-bucket");
            keys.set("burst", burst.to_string());
        }
        LimitAlgorithm::LeakyBucket(queue, max_wait) => {
            keys.text("algorithm", "leaky-bucket");
            keys.set("queue", queue.to_string());
            if let Some(wait) = max_wait {
                keys.set("max_wait", duration(wait));
            }
        }
        LimitAlgorithm::SlidingWindow => keys.text("algorithm", "sliding-window"),
        LimitAlgorithm::Exact => keys.text("algorithm", "exact"),
    }
}

fn server(server: &Server) -> String {
    let address = quoted(&server.address);
    if server.weight.is_none() && !server.backup {
        return address;
    }
    let mut table = format!("{{ address = {address}");
    if let Some(weight) = server.weight {
        let _ = write!(table, ", weight = {weight}");
    }
    if server.backup {
        table.push_str(", backup = true");
    }
    table + " }"
}

/// Returns a key of a table, in quotes where TOML needs them.
pub(crate) fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// Returns a key with a text as TOML.
pub(crate) fn pair(name: &str, value: &str) -> String {
    format!("{} = {}", key(name), quoted(value))
}

/// Returns an array of texts as TOML.
pub(crate) fn list(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    format!("[{}]", values.join(", "))
}

/// Returns an inline table.
pub(crate) fn inline(keys: &[String]) -> String {
    match keys {
        [] => "{}".to_owned(),
        keys => format!("{{ {} }}", keys.join(", ")),
    }
}

/// Returns a duration as TOML.
pub(crate) fn duration(millis: u64) -> String {
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    let whole = |(unit, _): &&(u64, &str)| millis > 0 && millis.is_multiple_of(*unit);
    match units.iter().find(whole) {
        Some((unit, name)) => format!("\"{}{name}\"", millis / unit),
        None => format!("\"{millis}ms\""),
    }
}

/// Returns a timeout of an origin as TOML.
///
/// # Errors
///
/// The reason for which no origin has it.
pub(crate) fn origin_timeout(millis: Option<u64>) -> Result<String, &'static str> {
    let millis = millis.filter(|it| bounds::ORIGIN_MILLIS.contains(it));
    millis.map(duration).ok_or("a timeout is 1ms to 1d")
}

/// Returns a time of `[server]` as TOML.
///
/// # Errors
///
/// The reason for which the key does not have it.
pub(crate) fn server_time(key: &str, millis: Option<u64>) -> Result<String, String> {
    let range = bounds::server_millis(key);
    let found = millis.filter(|it| range.contains(it)).map(duration);
    found.ok_or_else(|| {
        let least = duration(*range.start());
        let most = duration(*range.end());
        format!("{key} of [server] is {least} to {most}")
    })
}

/// Returns a TOML string. A `${env.` is escaped, since it would name a variable of the environment.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.replace("${env.", "$${env.").chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns the edits of fields as an inline table; `None` where there are none.
pub(crate) fn field_edits(edits: &FieldEdits) -> Option<String> {
    let mut keys = Vec::new();
    for (name, values) in [("set", &edits.set), ("add", &edits.add)] {
        let pairs: Vec<String> = values.iter().map(|(name, it)| pair(name, it)).collect();
        if !pairs.is_empty() {
            keys.push(format!("{name} = {}", inline(&pairs)));
        }
    }
    if !edits.remove.is_empty() {
        keys.push(format!("remove = {}", list(&edits.remove)));
    }
    (!keys.is_empty()).then(|| inline(&keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every text survives. Method: quotes, escapes, control characters and a variable of the environment.
    #[test]
    fn texts_are_escaped() {
        assert_eq!(quoted("a\"b\\c\n\u{1}"), r#""a\"b\\c\n\u0001""#);
        assert_eq!(quoted("${env.HOME}"), "\"$${env.HOME}\"");
        assert_eq!(key("a.b"), "\"a.b\"");
        assert_eq!(key("a-b"), "a-b");
    }
}
