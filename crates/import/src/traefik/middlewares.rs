//! Reads the middlewares of a router, in the order in which a request meets them.

use std::collections::{BTreeMap, BTreeSet};

use super::account::TreeAccount;
use super::chain::{MiddlewareChain, MiddlewareStep, SchemeRedirect};
use super::headers;
use super::limits::{self, LimitSource, SourceAddress, UsualSource};
use super::notations::TraefikConfig;
use super::paths::PathEdit;
use super::tree::{self, ITSELF, is_on, member, number, text, texts, unqualified};
use crate::bounds;
use crate::client_fields::ProxyFieldUse;
use crate::ingress::yaml::YamlNode;
use crate::ledger::EntryId;
use crate::model::Limit;
use crate::names::NamePool;

/// The middlewares of the input, and what is made of them.
pub(super) struct MiddlewareTable<'c> {
    config: &'c TraefikConfig,
    /// Routers by middleware.
    uses: BTreeMap<String, usize>,
    /// Chains that routers name.
    chains: BTreeSet<String>,
    names: NamePool,
    pub(super) limits: Vec<Limit>,
    /// The fields by which limits and lists know clients.
    pub(super) fields: Vec<ProxyFieldUse>,
    /// The addresses that they judge, each with its entry.
    pub(super) addresses: Vec<(EntryId, SourceAddress)>,
}

/// A chain names itself at most so often.
const CHAIN_DEPTH: usize = 8;

/// Statuses of redirects for good and for now. Traefik answers 301 and 302 to GET, and these to other methods.
pub(super) const PERMANENT: u16 = 308;
pub(super) const TEMPORARY: u16 = 307;

impl<'c> MiddlewareTable<'c> {
    /// `lists` are the names of middlewares of each router.
    pub(super) fn new(config: &'c TraefikConfig, lists: impl Iterator<Item = Vec<String>>) -> Self {
        let mut table = Self {
            config,
            uses: BTreeMap::new(),
            chains: BTreeSet::new(),
            names: NamePool::default(),
            limits: Vec::new(),
            fields: Vec::new(),
            addresses: Vec::new(),
        };
        for names in lists {
            for name in table.expanded(&names, 0) {
                *table.uses.entry(name).or_default() += 1;
            }
        }
        table
    }

    /// Returns the names of middlewares with those of chains in place of the chains.
    fn expanded(&mut self, names: &[String], depth: usize) -> Vec<String> {
        let mut found = Vec::new();
        for name in names {
            let chain = self
                .config
                .named("http.middlewares", name)
                .and_then(|(_, node)| tree::at(node, "chain.middlewares"));
            match chain {
                Some(chain) if depth < CHAIN_DEPTH && found.len() < bounds::WORDS => {
                    self.chains.insert(unqualified(name).to_owned());
                    found.extend(self.expanded(&texts(Some(chain)), depth + 1));
                }
                _ => found.push(unqualified(name).to_owned()),
            }
        }
        found.truncate(bounds::WORDS);
        found
    }

    /// Returns the chain of a router.
    pub(super) fn chain(
        &mut self,
        router: &str,
        names: &[String],
        account: &mut TreeAccount<'_>,
    ) -> MiddlewareChain {
        let mut steps = Vec::new();
        for name in self.expanded(names, 0) {
            let Some((key, node)) = self.config.named("http.middlewares", &name) else {
                account.ledger.fill_in(format!(
                    "[[route]] of the router {router}: the middleware {name} is not in the input"
                ));
                continue;
            };
            for (kind, value) in node.members() {
                let kind = kind.to_ascii_lowercase();
                let made = self.step((&kind, value), (router, key), account);
                steps.extend(made.into_iter().map(|step| (tree::entry(value), step)));
            }
        }
        steps
    }

    /// Returns the steps of a middleware, and records what it has that no step says.
    fn step(
        &mut self,
        (kind, node): (&str, &YamlNode),
        (router, name): (&str, &str),
        account: &mut TreeAccount<'_>,
    ) -> Vec<MiddlewareStep> {
        let step = match kind {
            "ratelimit" | "inflightreq" => self.limit((kind, node), (router, name), account),
            "ipallowlist" | "ipwhitelist" => self.allow(node, name, account),
            "stripprefix" | "addprefix" | "replacepath" | "replacepathregex"
            | "stripprefixregex" => {
                let known = [
                    "prefixes",
                    "prefix",
                    "path",
                    "regex",
                    "replacement",
                    "forceSlash",
                ];
                account.members(node, name, &known);
                PathEdit::read(kind, node)
                    .map(MiddlewareStep::Path)
                    .ok_or_else(|| "it has no counterpart".to_owned())
            }
            "redirectscheme" => {
                account.members(node, name, &["scheme", "port", "permanent"]);
                Ok(MiddlewareStep::ToScheme(SchemeRedirect {
                    scheme: text(node, "scheme").unwrap_or("https").to_ascii_lowercase(),
                    port: text(node, "port")
                        .filter(|it| !it.is_empty())
                        .map(str::to_owned),
                    status: status(node),
                }))
            }
            "redirectregex" => {
                account.members(node, name, &["regex", "replacement", "permanent"]);
                let plain = |name: &str| text(node, name).unwrap_or_default().to_owned();
                Ok(MiddlewareStep::ToUrl(
                    plain("regex"),
                    plain("replacement"),
                    status(node),
                ))
            }
            "headers" => return headers::steps(node, name, account),
            "compress" => return vec![compress(node, name, account)],
            "buffering" => return buffering(node, name, account),
            "retry" => {
                account.members(node, name, &["attempts", "initialInterval", "timeout"]);
                for idle in ["initialInterval", "timeout"] {
                    if let Some(node) = member(node, idle) {
                        account.differs(node, "retries follow each other at once");
                    }
                }
                Ok(MiddlewareStep::Retry(number(node, "attempts").unwrap_or(1)))
            }
            other => Err(reason(other, node).to_owned()),
        };
        match step {
            Ok(step) => vec![step],
            Err(reason) if reason.is_empty() => Vec::new(),
            Err(reason) => {
                account.lost(node, &format!("http.middlewares.{name}.{kind}"), &reason);
                Vec::new()
            }
        }
    }

    /// Returns the limit of a middleware for a router. An empty error stands for none.
    fn limit(
        &mut self,
        (kind, node): (&str, &YamlNode),
        (router, name): (&str, &str),
        account: &mut TreeAccount<'_>,
    ) -> Result<MiddlewareStep, String> {
        let wanted = match self.uses.get(name) {
            Some(uses) if *uses > 1 => format!("{name}-{router}"),
            _ => name.to_owned(),
        };
        let usual = match kind {
            "ratelimit" => UsualSource::Client,
            _ => UsualSource::Host,
        };
        let source = limits::source(node, usual)?;
        let limit = match kind {
            "ratelimit" => {
                let known = ["average", "period", "burst", "sourceCriterion"];
                let limit = limits::rate(node, wanted, &source, account)?;
                account.members(node, name, &known);
                limit.ok_or_else(String::new)?
            }
            _ => {
                let limit = limits::in_flight(node, wanted, &source, account)?;
                account.members(node, name, &["amount", "sourceCriterion"]);
                limit
            }
        };
        self.take_source(source, node);
        let limit = Limit {
            name: self.names.unique(&limit.name),
            ..limit
        };
        let name = limit.name.clone();
        self.limits.push(limit);
        Ok(MiddlewareStep::Limit(name))
    }

    fn take_source(&mut self, source: LimitSource, node: &YamlNode) {
        self.fields.extend(source.field);
        if let Some(id) = tree::entry(node) {
            self.addresses.push((id, source.address));
        }
    }

    fn allow(
        &mut self,
        node: &YamlNode,
        name: &str,
        account: &mut TreeAccount<'_>,
    ) -> Result<MiddlewareStep, String> {
        let ranges = texts(member(node, "sourceRange")).join(",");
        let blocks = crate::ingress::annotations::blocks(&ranges)?;
        if blocks.is_empty() {
            return Err("it names no addresses".to_owned());
        }
        let strategy = member(node, "ipStrategy").map(|it| ("ipStrategy", it.clone()));
        let criterion = YamlNode::Map(
            strategy
                .into_iter()
                .map(|(name, it)| (name.to_owned(), it))
                .collect(),
        );
        let wrapped = tree::map([("sourceCriterion", criterion)]);
        self.take_source(limits::source(&wrapped, UsualSource::Client)?, node);
        let known = ["sourceRange", "ipStrategy", "rejectStatusCode"];
        account.members(node, name, &known);
        let status = number(node, "rejectStatusCode").and_then(|it| u16::try_from(it).ok());
        let status = status.filter(|it| (200..=599).contains(it));
        Ok(MiddlewareStep::Allow(blocks, status.unwrap_or(403)))
    }

    /// Records the middlewares that no router names.
    pub(super) fn report_unused(&self, account: &mut TreeAccount<'_>) {
        for (name, node) in self.config.members("http.middlewares") {
            let name = unqualified(name);
            if self.chains.contains(name) {
                account.translated(node);
            } else if !self.uses.contains_key(name) {
                account.idle(node, "no router names it");
            }
        }
    }
}

/// Returns the status of a redirect.
fn status(node: &YamlNode) -> u16 {
    match is_on(node, "permanent") {
        true => PERMANENT,
        false => TEMPORARY,
    }
}

fn compress(node: &YamlNode, name: &str, account: &mut TreeAccount<'_>) -> MiddlewareStep {
    let mut keys = Vec::new();
    let known = ["zstd", "br", "gzip"];
    let encodings = texts(member(node, "encodings"));
    let encodings: Vec<String> = encodings
        .into_iter()
        .filter(|it| known.contains(&it.as_str()))
        .collect();
    if !encodings.is_empty() {
        keys.push(format!("encodings = {}", crate::toml::list(&encodings)));
    }
    if let Some(least) = number(node, "minResponseBodyBytes").filter(|it| *it <= 1 << 30) {
        keys.push(format!("min_bytes = \"{least}B\""));
    }
    let types = texts(member(node, "includedContentTypes"));
    if !types.is_empty() {
        keys.push(format!("types = {}", crate::toml::list(&types)));
    }
    if let Some(excluded) = member(node, "excludedContentTypes") {
        account.differs(
            excluded,
            "types are named that are compressed: write `types` of [route.compress]",
        );
    }
    if let Some(usual) = member(node, "defaultEncoding") {
        account.idle(usual, "clients that name no coding get none");
    }
    if node.text().is_some() {
        account.translated(node);
    }
    let known = [
        ITSELF,
        "encodings",
        "minResponseBodyBytes",
        "includedContentTypes",
        "excludedContentTypes",
        "defaultEncoding",
    ];
    for (member, value) in node.members() {
        match known.iter().any(|it| it.eq_ignore_ascii_case(member)) {
            true if member.eq_ignore_ascii_case("defaultEncoding") => {}
            true => account.translated(value),
            false => account.lost(value, name, "it has no counterpart"),
        }
    }
    MiddlewareStep::Further("compress", crate::toml::inline(&keys))
}

fn buffering(node: &YamlNode, name: &str, account: &mut TreeAccount<'_>) -> Vec<MiddlewareStep> {
    for idle in ["memRequestBodyBytes", "memResponseBodyBytes"] {
        if let Some(node) = member(node, idle) {
            account.idle(node, "bodies are passed on as they come");
        }
    }
    for lost in ["maxResponseBodyBytes", "retryExpression"] {
        if let Some(value) = member(node, lost).filter(|it| !matches!(it.text(), Some("0" | ""))) {
            let name = format!("http.middlewares.{name}.buffering.{lost}");
            account.lost(value, &name, "it has no counterpart");
        }
    }
    let Some(most) = member(node, "maxRequestBodyBytes") else {
        return Vec::new();
    };
    match number(node, "maxRequestBodyBytes") {
        Some(0) => {
            account.idle(most, "a size of 0 limits nothing");
            Vec::new()
        }
        Some(size) if size <= 1 << 40 => {
            account.translated(most);
            vec![MiddlewareStep::MaxBody(format!("{size}B"))]
        }
        _ => {
            account.lost(most, name, "a body has at most 1TiB");
            Vec::new()
        }
    }
}

/// Returns the reason for which a middleware is left out. An empty one stands for a middleware that does nothing.
fn reason(kind: &str, node: &YamlNode) -> &'static str {
    match kind {
        "basicauth" | "digestauth" | "forwardauth" | "jwt" => {
            "the gateway does not authenticate requests"
        }
        "circuitbreaker" => {
            "an expression over answers has no counterpart; see [origin.NAME.outlier_detection] and adaptive_concurrency"
        }
        "errors" => "pages are texts or files of the gateway; see [route.error_pages]",
        "passtlsclientcert" => "no field for the origin has a part of the client's certificate",
        "plugin" => "a plugin is a program",
        "grpcweb" => "the gateway does not translate gRPC-Web",
        "contenttype" if !is_on(node, "autoDetect") && member(node, "autoDetect").is_some() => {
            "it has no counterpart and needs none: the gateway adds no Content-Type"
        }
        "contenttype" => "the gateway adds no Content-Type",
        "chain" => "",
        _ => "`sluicegate import` does not know it",
    }
}
