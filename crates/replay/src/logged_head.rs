//! Makes a head of a logged request, which the stages read like that of a live one.

use std::net::IpAddr;

use http::{HeaderName, HeaderValue, Method};
use sluicegate_access_log::{FieldKind, LogFacts, LoggedRequest};
use sluicegate_base::received::ReceivedFields;

use sluicegate_config::rules::ForwardedSource;
use sluicegate_decide::compiled_rules::CompiledRules;
use sluicegate_decide::request_head::RequestHead;

/// The fields that heads of logged requests get.
#[derive(Debug)]
pub(super) struct LoggedHeads {
    /// The fields that the log has and the configuration reads.
    wanted: Vec<HeaderName>,
    forwarded: ForwardedSource,
    /// The host of requests whose line has none.
    host: Option<String>,
    /// The method of requests whose line has none, where no line of the log has one.
    method: Option<Method>,
}

/// The head of a logged request.
#[derive(Debug)]
pub(super) struct LoggedHead<'a> {
    method: Method,
    host: Option<&'a str>,
    target: &'a str,
    headers: ReceivedFields,
    /// The other end of its connection.
    pub(super) peer: IpAddr,
}

impl LoggedHeads {
    /// Returns the fields for a configuration and a log.
    pub(super) fn new(compiled: &CompiledRules, facts: &LogFacts, host: Option<&str>) -> Self {
        let client = &compiled.rules.client;
        let forwarded = client.client_ip_header.field_name();
        let read = compiled.fields().cloned().chain([forwarded]);
        let mut wanted: Vec<HeaderName> = read
            .filter(|name| facts.request_fields.contains(name.as_str()))
            .collect();
        wanted.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        wanted.dedup();
        Self {
            wanted,
            forwarded: client.client_ip_header.clone(),
            host: host.map(str::to_owned),
            method: (!facts.has_method).then_some(Method::GET),
        }
    }

    /// Returns the head of a request, or `None` where its method or target cannot be one.
    pub(super) fn head<'a>(
        &'a self,
        compiled: &CompiledRules,
        request: &LoggedRequest<'a>,
    ) -> Option<LoggedHead<'a>> {
        let host = match std::str::from_utf8(request.host).ok()? {
            "" => self.host.as_deref(),
            host => Some(host),
        };
        let method = match (request.method, &self.method) {
            (b"", Some(method)) => method.clone(),
            (method, _) => Method::from_bytes(method).ok()?,
        };
        let peer = request.peer.unwrap_or(request.client);
        let logged = request.fields.iter();
        let logged = logged.filter(|field| field.kind == FieldKind::RequestField);
        let wanted = logged.filter_map(|field| {
            let is_wanted = |name: &&HeaderName| name.as_str().as_bytes() == field.name;
            let name = self.wanted.iter().find(is_wanted)?;
            let value = HeaderValue::from_bytes(field.value).ok()?;
            Some((name.clone(), value))
        });
        let mut headers: ReceivedFields = wanted.collect();
        if !headers.is_empty() {
            let review = (compiled.field_policy).review(&headers, peer, &compiled.rules.client);
            headers.remove_all(review.remove);
        }
        if peer != request.client {
            self.forward(request.client, &mut headers);
        }
        Some(LoggedHead {
            method,
            host,
            target: std::str::from_utf8(request.target).ok()?,
            headers,
            peer,
        })
    }

    /// Sets the field in which a trusted hop names the client.
    fn forward(&self, client: IpAddr, headers: &mut ReceivedFields) {
        let text = match (&self.forwarded, client) {
            (ForwardedSource::Forwarded, IpAddr::V6(client)) => format!("for=\"[{client}]\""),
            (ForwardedSource::Forwarded, IpAddr::V4(client)) => format!("for={client}"),
            (ForwardedSource::XForwardedFor | ForwardedSource::SingleValue(_), client) => {
                client.to_string()
            }
        };
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(self.forwarded.field_name(), value);
        }
    }
}

impl LoggedHead<'_> {
    /// Returns the head as stages read it.
    pub(super) fn as_request(&self) -> RequestHead<'_> {
        RequestHead {
            method: &self.method,
            target: self.target,
            authority: self.host,
            headers: &self.headers,
        }
    }
}
