//! Translates bounds and times that hold for every client into `[server]`: the least that the file states for any host.

use std::ops::RangeInclusive;

use super::listens::{self, ServerBlock};
use super::tree::Directive;
use super::{units, zones};
use crate::bounds::{self, HEADER_BYTES, HEADER_FIELDS, HTTP2_STREAMS, URI_BYTES};
use crate::ledger::Ledger;
use crate::model::GatewayModel;
use crate::toml::{duration, quoted};

/// A bound, and the directive that states it.
struct StatedBound<'d> {
    directive: &'d Directive,
    value: u64,
}

/// Sets the keys of `[server]`.
pub(super) fn set(
    http: &[&Directive],
    servers: &[ServerBlock<'_>],
    gateway: &mut GatewayModel,
    ledger: &mut Ledger,
) {
    let all = listens::all_directives(http, servers);
    let named = |name: &str| -> Vec<&Directive> {
        all.iter().copied().filter(|it| it.name == name).collect()
    };
    let times = [
        ("client_header_timeout", "client_header_timeout"),
        ("client_body_timeout", "client_read_timeout"),
        ("send_timeout", "client_write_timeout"),
        ("keepalive_timeout", "keepalive_timeout"),
    ];
    for (name, key) in times {
        let range = bounds::server_millis(key);
        let bounds = stated(named(name), units::millis, &range, key, ledger);
        if let Some(least) = take_least(&bounds, gateway, ledger) {
            gateway.server.push((key, duration(least)));
        }
    }
    let counts = [
        ("max_headers", "max_headers", HEADER_FIELDS),
        (
            "http2_max_concurrent_streams",
            "http2.max_streams",
            HTTP2_STREAMS,
        ),
    ];
    for (name, key, range) in counts {
        let bounds = stated(named(name), |text| text.parse().ok(), &range, key, ledger);
        if let Some(least) = take_least(&bounds, gateway, ledger) {
            gateway.server.push((key, least.to_string()));
        }
    }
    set_head_bytes(&named("large_client_header_buffers"), gateway, ledger);
    let is_everywhere = http.iter().any(|it| passes_underscores(it))
        || (servers.iter()).all(|server| {
            let mut children = server.directive.children().iter();
            children.any(passes_underscores)
        });
    let underscores = named("underscores_in_headers");
    match is_everywhere && underscores.iter().all(|it| passes_underscores(it)) {
        true => pass_underscores(&underscores, gateway, ledger),
        false => strip_underscores(&underscores, ledger),
    }
}

/// Reads the bounds of directives. One above the range is the largest of it; one below is to be filled in.
fn stated<'d>(
    directives: Vec<&'d Directive>,
    read: impl Fn(&str) -> Option<u64>,
    range: &RangeInclusive<u64>,
    key: &str,
    ledger: &mut Ledger,
) -> Vec<StatedBound<'d>> {
    let mut bounds = Vec::new();
    for directive in directives {
        match directive
            .word(0)
            .and_then(&read)
            .filter(|value| value >= range.start())
        {
            Some(value) => bounds.push(StatedBound {
                directive,
                value: value.min(*range.end()),
            }),
            None => ledger.left_out(directive.id, format!("no [server] {key} is this")),
        }
    }
    bounds
}

/// Records bounds of which the least holds for all, and returns it.
fn take_least(
    bounds: &[StatedBound<'_>],
    gateway: &mut GatewayModel,
    ledger: &mut Ledger,
) -> Option<u64> {
    let least = bounds.iter().map(|bound| bound.value).min()?;
    for bound in bounds {
        ledger.translated(bound.directive.id);
        match bound.value == least {
            true => gateway.server_sources.push(bound.directive.id),
            false => ledger.differs(
                bound.directive.id,
                "the least of the file holds for all clients",
            ),
        }
    }
    Some(least)
}

/// Sets the bounds on the line and the head of a request. nginx bounds each field too.
fn set_head_bytes(directives: &[&Directive], gateway: &mut GatewayModel, ledger: &mut Ledger) {
    let mut lines = Vec::new();
    let mut heads = Vec::new();
    for directive in directives {
        let count = directive.word(0).and_then(|word| word.parse::<u64>().ok());
        let size = directive.word(1).and_then(zones::bytes);
        let (Some(count), Some(size)) = (count, size) else {
            ledger.left_out(directive.id, "a number and a size are expected");
            continue;
        };
        lines.push(StatedBound {
            directive,
            value: bounds::nearest(size, &URI_BYTES),
        });
        heads.push(StatedBound {
            directive,
            value: bounds::nearest(size.saturating_mul(count), &HEADER_BYTES),
        });
        let what = format!(
            "a field has at most {size} bytes in nginx; here the head has at most max_header_bytes, and a field no bound of its own"
        );
        ledger.fill_in_for(directive.id, &what);
    }
    if let Some(line) = take_least(&lines, gateway, ledger)
        && let Some(head) = take_least(&heads, gateway, ledger)
    {
        let bytes = |most: u64| quoted(&format!("{most}B"));
        gateway.server.push(("max_header_bytes", bytes(head)));
        gateway.server.push(("max_uri_bytes", bytes(line)));
    }
}

fn passes_underscores(directive: &Directive) -> bool {
    directive.name == "underscores_in_headers" && directive.word(0) == Some("on")
}

/// Passes fields with underscores on, as all blocks do.
fn pass_underscores(directives: &[&Directive], gateway: &mut GatewayModel, ledger: &mut Ledger) {
    for directive in directives {
        ledger.translated(directive.id);
        gateway.server_sources.push(directive.id);
    }
    if !directives.is_empty() {
        gateway.server.push(("underscores", quoted("pass")));
    }
}

/// Strips fields with underscores for all hosts, since some block does.
fn strip_underscores(directives: &[&Directive], ledger: &mut Ledger) {
    for directive in directives {
        match passes_underscores(directive) {
            true => ledger.left_out(
                directive.id,
                "the gateway strips such fields for all hosts; see [server] underscores",
            ),
            false => ledger.translated(directive.id),
        }
    }
}
