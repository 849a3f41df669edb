//! Makes origins of `reverse_proxy`, and of directives that serve what the gateway does not.

use super::conditions;
use super::fields;
use super::omissions::{leave, leave_quietly};
use super::paths::SitePathChange;
use super::placeholders::{PlaceholderPiece, own_value, pieces};
use super::transports::TransportSettings;
use super::tree::CaddyDirective;
use super::upstreams::{self, UpstreamScheme};
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::model::{FieldEdits, Origin, Server};
use crate::names::NamePool;
use crate::own_fields::{self, EditedMessage, is_own_field};
use crate::toml::quoted;

/// The name of the origin for requests that Caddy answers from files or by FastCGI.
const FILES: &str = "files";

/// An address that never resolves (RFC 2606), for servers that the operator has to name.
const TO_NAME: &str = "name-a-server.invalid:80";

/// Where requests are forwarded to, and what is changed on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForwardAnswer {
    pub(super) origin: String,
    pub(super) request_fields: FieldEdits,
    pub(super) response_fields: FieldEdits,
    pub(super) rewrite: Option<SitePathChange>,
}

/// All origins that were made.
#[derive(Debug, Default)]
pub(super) struct OriginTable {
    pub(super) origins: Vec<Origin>,
    /// The proxies that each `reverse_proxy` believes.
    pub(super) trusted: Vec<(EntryId, Vec<String>)>,
    names: NamePool,
}

/// Lines of `reverse_proxy` that change no answer.
const WITHOUT_EFFECT: [&str; 9] = [
    "buffer_requests",
    "buffer_responses",
    "flush_interval",
    "lb_try_interval",
    "max_buffer_size",
    "request_buffers",
    "response_buffers",
    "stream_buffer_size",
    "verbose_logs",
];

/// A `reverse_proxy` that is being read.
struct ProxyReader<'t> {
    table: &'t mut OriginTable,
    origin: Origin,
    settings: TransportSettings,
    answer: ForwardAnswer,
    /// The Host that is sent, where a line says so: with the placeholders of Caddy.
    host: Option<String>,
    policy: Vec<String>,
    /// The proxies that it believes, with the line.
    trusted: Option<(EntryId, Vec<String>)>,
}

impl OriginTable {
    /// Returns the origin for what Caddy serves without a proxied server.
    pub(super) fn files(
        &mut self,
        directive: &CaddyDirective,
        ledger: &mut Ledger,
    ) -> ForwardAnswer {
        if !self.origins.iter().any(|origin| origin.name == FILES) {
            self.origins.push(Origin {
                name: self.names.unique(FILES),
                servers: vec![Server {
                    address: TO_NAME.to_owned(),
                    ..Server::default()
                }],
                ..Origin::default()
            });
        }
        ledger.fill_in_for(
            directive.id,
            "[origin.files] servers: the address of a server for this, since the gateway serves no files and speaks HTTP only",
        );
        ledger.differs(directive.id, "the request is forwarded to [origin.files]");
        ForwardAnswer::to(FILES.to_owned())
    }

    /// Returns the origin of a `reverse_proxy`, which is made if it is new.
    ///
    /// # Errors
    ///
    /// The reason for which there is none.
    pub(super) fn proxy(
        &mut self,
        directive: &CaddyDirective,
        words: &[String],
        ledger: &mut Ledger,
    ) -> Result<ForwardAnswer, String> {
        let is_fastcgi = |it: &CaddyDirective| it.name == "transport" && it.word(0) != "http";
        if directive.children().iter().any(is_fastcgi) {
            let children = directive.children().iter();
            children.for_each(|it| leave_quietly(it, "it is about that server", ledger));
            return Ok(self.files(directive, ledger));
        }
        let mut reader = ProxyReader {
            table: self,
            origin: Origin::default(),
            settings: TransportSettings::default(),
            answer: ForwardAnswer::to(String::new()),
            host: None,
            policy: Vec::new(),
            trusted: None,
        };
        let upstreams: Vec<String> = words.to_vec();
        reader.upstreams(&upstreams, directive.id, ledger);
        for line in directive.children() {
            match reader.line(line, ledger) {
                Ok(LineEffect::Taken) => {
                    ledger.translated(line.id);
                }
                Ok(LineEffect::None) => leave_quietly(line, "it changes no answer", ledger),
                Err(reason) => leave(line, &reason, ledger),
            }
        }
        let trusted = reader.trusted.take();
        let answer = reader.finish(directive, ledger);
        self.trusted
            .push(trusted.unwrap_or((directive.id, Vec::new())));
        Ok(answer)
    }

    /// Returns the name of an origin, which is added if no other one is equal.
    fn add(&mut self, mut origin: Origin, wanted: &str) -> String {
        if let Some(known) = self.origins.iter().find(|it| it.serves_as(&origin)) {
            return known.name.clone();
        }
        origin.name = self.names.unique(wanted);
        let name = origin.name.clone();
        self.origins.push(origin);
        name
    }
}

impl ForwardAnswer {
    fn to(origin: String) -> Self {
        Self {
            origin,
            request_fields: FieldEdits::default(),
            response_fields: FieldEdits::default(),
            rewrite: None,
        }
    }
}

/// The effect of a line.
enum LineEffect {
    Taken,
    None,
}

impl ProxyReader<'_> {
    fn upstreams(&mut self, words: &[String], id: EntryId, ledger: &mut Ledger) {
        for word in words {
            match upstreams::read(word) {
                Ok(upstream) => {
                    if upstream.scheme != UpstreamScheme::Http {
                        self.settings.scheme = upstream.scheme;
                    }
                    self.server_addresses(upstream.servers);
                }
                Err(reason) => {
                    self.server_addresses(vec![TO_NAME.to_owned()]);
                    ledger.fill_in_for(id, &format!("the address of a server: {reason}"));
                }
            }
        }
    }

    fn server_addresses(&mut self, addresses: Vec<String>) {
        let servers = addresses.into_iter().map(|address| Server {
            address,
            ..Server::default()
        });
        self.origin.servers.extend(servers);
    }

    fn line(&mut self, line: &CaddyDirective, ledger: &mut Ledger) -> Result<LineEffect, String> {
        let words = line.words.as_slice();
        match line.name.as_str() {
            "to" => self.upstreams(words, line.id, ledger),
            "dynamic" => self.dynamic(line)?,
            "lb_policy" => self.policy = words.to_vec(),
            "lb_retries" | "lb_try_duration" => {
                let difference = "a failed connection is retried once; `retries` of the origin and [origin.NAME.retry] say more";
                ledger.differs(line.id, difference);
            }
            "stream_timeout" | "stream_close_delay" => {
                ledger.differs(
                    line.id,
                    "`tunnel` of `timeouts` bounds the silence of a WebSocket",
                );
            }
            "trusted_proxies" => {
                let blocks = conditions::blocks(words)?;
                self.trusted
                    .get_or_insert((line.id, Vec::new()))
                    .1
                    .extend(blocks);
            }
            "header_up" => return self.header_up(words),
            "header_down" => {
                let edits = &mut self.answer.response_fields;
                fields::read_line(edits, words, EditedMessage::Response)?;
            }
            "rewrite" => self.answer.rewrite = Some(SitePathChange::rewrite(words)?),
            "transport" => {
                for line in line.children() {
                    match self.settings.take(line, &mut self.origin, ledger) {
                        Ok(true) => ledger.translated(line.id),
                        Ok(false) => leave_quietly(line, "it changes no answer", ledger),
                        Err(reason) => leave(line, &reason, ledger),
                    }
                }
            }
            name if WITHOUT_EFFECT.contains(&name) => return Ok(LineEffect::None),
            name => {
                if !self.settings.take_health(line)? {
                    return Err(format!("an origin has no counterpart of {name}"));
                }
            }
        }
        Ok(LineEffect::Taken)
    }

    /// Takes `dynamic a NAME PORT`: the gateway resolves names again in any case.
    fn dynamic(&mut self, line: &CaddyDirective) -> Result<(), String> {
        let inner = |key: &str| {
            let mut lines = line.children().iter();
            let found = lines.find(|it| it.name == key);
            found.map(|it| it.word(0).to_owned())
        };
        let name = line.words.get(1).cloned().or_else(|| inner("name"));
        let port = line.words.get(2).cloned().or_else(|| inner("port"));
        match (line.word(0), name) {
            ("a", Some(name)) => {
                let port = port.unwrap_or_else(|| "80".to_owned());
                let upstream = upstreams::read(&format!("{name}:{port}"))?;
                self.server_addresses(upstream.servers);
                Ok(())
            }
            (kind, _) => {
                self.server_addresses(vec![TO_NAME.to_owned()]);
                Err(format!(
                    "no server is found by `dynamic {kind}`; write its address"
                ))
            }
        }
    }

    fn header_up(&mut self, words: &[String]) -> Result<LineEffect, String> {
        let field = words.first().map(|it| it.to_ascii_lowercase());
        let field = field.unwrap_or_default();
        let value = words.get(1).map(String::as_str).unwrap_or_default();
        let name = field.trim_start_matches(['+', '>']).trim_end_matches(':');
        if name == "host" && words.len() == 2 {
            self.host = Some(value.to_owned());
            return Ok(LineEffect::Taken);
        }
        let is_usual = own_fields::is_usual(name, own_value(name, value));
        if is_own_field(name) && words.len() == 2 && is_usual {
            // The gateway writes what it knows of the client there.
            return Ok(LineEffect::None);
        }
        let edits = &mut self.answer.request_fields;
        fields::read_line(edits, words, EditedMessage::Request)?;
        Ok(LineEffect::Taken)
    }

    /// Returns the answer, and adds the origin.
    fn finish(mut self, directive: &CaddyDirective, ledger: &mut Ledger) -> ForwardAnswer {
        if self.origin.servers.is_empty() {
            self.server_addresses(vec![TO_NAME.to_owned()]);
            ledger.fill_in_for(directive.id, "the address of a server");
        }
        self.set_host(directive, ledger);
        let policy = std::mem::take(&mut self.policy);
        let is_chosen =
            self.origin.servers.len() > 1 || policy.first().is_some_and(|it| it == "cookie");
        if is_chosen && let Err(reason) = balance(&policy, &mut self.origin) {
            ledger.fill_in_for(directive.id, &reason);
        }
        let first = self.origin.servers[0].address.clone();
        let wanted = match first.strip_prefix("unix:") {
            Some(path) => path.rsplit('/').next().unwrap_or(path).to_owned(),
            None => first.replace(':', "-"),
        };
        self.origin.remarks.sources.push(directive.id);
        self.settings.finish(&mut self.origin);
        self.answer.origin = self.table.add(self.origin, &wanted);
        self.answer
    }

    /// Sets the Host that the servers get: with TLS that of the server, as Caddy since 2.11.
    fn set_host(&mut self, directive: &CaddyDirective, ledger: &mut Ledger) {
        let scheme = self.settings.scheme;
        let upstream = || upstreams::host(&self.origin.servers[0].address, scheme);
        let host = match self.host.take() {
            None if scheme == UpstreamScheme::Https => {
                let difference = "the origin gets its own name as Host, as from Caddy since 2.11; before, it got that of the client";
                self.origin.remarks.differences.push(difference.to_owned());
                Some(upstream())
            }
            None => None,
            Some(text) => match pieces(&text).as_slice() {
                [PlaceholderPiece::Placeholder(name)] => match name.as_str() {
                    "http.request.host" | "http.request.hostport" => None,
                    "http.reverse_proxy.upstream.hostport" | "http.reverse_proxy.upstream.host" => {
                        Some(upstream())
                    }
                    name => {
                        ledger.fill_in_for(
                            directive.id,
                            &format!("the Host of an origin is no {{{name}}}"),
                        );
                        None
                    }
                },
                _ => Some(text),
            },
        };
        let has_name = |host: &String| !host.starts_with("unix:") && host != TO_NAME;
        self.origin.host = host.filter(has_name);
        let names = self.origin.servers.iter().map(|it| it.address.as_str());
        let differ = names.collect::<std::collections::BTreeSet<_>>().len() > 1;
        if differ && self.origin.host.is_some() {
            let difference =
                "all servers get this Host; Caddy sends each its own where the placeholder says so";
            self.origin.remarks.differences.push(difference.to_owned());
        }
    }
}

/// Sets the choice of a server.
fn balance(policy: &[String], origin: &mut Origin) -> Result<(), String> {
    let name = policy.first().map_or("random", String::as_str);
    let argument = policy.get(1).map(String::as_str).unwrap_or_default();
    let mut hash = |key: String| {
        origin.balance = Some("hash");
        origin.hash_key = Some(key);
    };
    match name {
        "random" => {
            let difference = "servers are chosen in turn; Caddy chooses at random";
            origin.remarks.differences.push(difference.to_owned());
        }
        "round_robin" => {}
        "weighted_round_robin" => {
            for (server, weight) in origin.servers.iter_mut().zip(&policy[1..]) {
                let weight: u64 = weight
                    .parse()
                    .map_err(|_| format!("{weight} is no weight"))?;
                server.weight = Some(weight.clamp(1, bounds::SERVER_WEIGHT));
            }
        }
        "first" => origin.servers[1..]
            .iter_mut()
            .for_each(|it| it.backup = true),
        "least_conn" => origin.balance = Some("least-requests"),
        "random_choose" => origin.balance = Some("power-of-two"),
        "ip_hash" | "client_ip_hash" => hash("client.ip".to_owned()),
        "uri_hash" => hash("path".to_owned()),
        "header" if !argument.is_empty() => {
            hash(format!("header.{}", argument.to_ascii_lowercase()));
        }
        "query" if !argument.is_empty() => hash(format!("query.{argument}")),
        "cookie" => {
            let cookie = if argument.is_empty() { "lb" } else { argument };
            let sticky = format!("{{ cookie = {} }}", quoted(cookie));
            origin.keys.push(("sticky", sticky));
        }
        name => return Err(format!("no `balance` is {name}")),
    }
    Ok(())
}
