//! Translates an access log at a syslog server into `[log.syslog]`.

use super::listens::{self, ServerBlock};
use super::tree::Directive;
use crate::ledger::Ledger;
use crate::model::GatewayModel;
use crate::toml::quoted;

/// The port of a server that names none.
const PORT: u16 = 514;

/// Sets the one access log: that of the first directive with a server. Those in files are at the default of the gateway.
pub(super) fn set(
    http: &[&Directive],
    servers: &[ServerBlock<'_>],
    gateway: &mut GatewayModel,
    ledger: &mut Ledger,
) {
    let all = listens::all_directives(http, servers);
    let logs = all.iter().filter(|it| it.name == "access_log");
    let mut taken: Option<&str> = None;
    for directive in logs {
        let Some(parameters) = directive.word(0).and_then(|it| it.strip_prefix("syslog:")) else {
            continue;
        };
        match (taken, keys(parameters)) {
            (Some(known), _) if known == parameters => ledger.translated(directive.id),
            (Some(_), _) => {
                let reason = "[log] has one access log, and another syslog server is it";
                ledger.left_out(directive.id, reason);
            }
            (None, Ok(keys)) => {
                taken = Some(parameters);
                gateway.log = keys;
                gateway.log_sources.push(directive.id);
                ledger.differs(
                    directive.id,
                    "lines have the format of the gateway, and there is one for each request of all server blocks",
                );
            }
            (None, Err(reason)) => ledger.left_out(directive.id, reason),
        }
    }
}

/// Returns keys of `[log]` for the parameters of `syslog:`.
///
/// # Errors
///
/// The reason for which no server is this.
fn keys(parameters: &str) -> Result<Vec<(&'static str, String)>, String> {
    let values = |name: &str| {
        let mut parameters = parameters.split(',');
        parameters.find_map(|it| it.strip_prefix(name)?.strip_prefix('='))
    };
    let server = match values("server") {
        Some(path) if path.starts_with("unix:/") => path.to_owned(),
        Some(place) if !place.is_empty() && !place.starts_with("unix:") => {
            let has_port = place
                .rsplit_once(':')
                .is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
            match has_port {
                true => format!("udp://{place}"),
                false => format!("udp://{place}:{PORT}"),
            }
        }
        _ => {
            return Err(
                "`server` of [log.syslog] is an address or the whole path of a socket".to_owned(),
            );
        }
    };
    // The defaults are those of nginx.
    let facility = values("facility").unwrap_or("local7");
    let tag = values("tag").unwrap_or("nginx");
    Ok(vec![
        ("access", quoted("syslog")),
        ("syslog.server", quoted(&server)),
        ("syslog.facility", quoted(facility)),
        ("syslog.app_name", quoted(tag)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: servers are written as `[log.syslog]` takes them. Method: names with and without a port, addresses of both families, sockets.
    #[test]
    fn servers_of_syslog_are_translated() {
        let server = |parameters: &str| {
            let keys = keys(parameters).ok()?;
            let server = keys.into_iter().find(|(key, _)| *key == "syslog.server");
            server.map(|(_, value)| value)
        };
        for (parameters, expected) in [
            ("server=10.0.0.9", Some("\"udp://10.0.0.9:514\"")),
            ("server=logs:5140,tag=web", Some("\"udp://logs:5140\"")),
            ("server=[fd00::1]:514", Some("\"udp://[fd00::1]:514\"")),
            (
                "facility=local1,server=[fd00::1]",
                Some("\"udp://[fd00::1]:514\""),
            ),
            ("server=unix:/dev/log,nohostname", Some("\"unix:/dev/log\"")),
            ("server=unix:log", None),
            ("tag=web", None),
        ] {
            assert_eq!(server(parameters).as_deref(), expected, "{parameters}");
        }
    }
}
