//! Reads the directives of a block as steps in the order in which Caddy evaluates them.

use std::collections::BTreeMap;

use super::answers::{self, StepAnswer};
use super::conditions::{MatcherTable, RequestMatcher};
use super::fields;
use super::omissions::{leave, leave_quietly};
use super::order::DirectiveOrder;
use super::paths::SitePathChange;
use super::proxies::OriginTable;
use super::tree::CaddyDirective;
use super::units;
use super::zones::{RateZoneTable, RateZoneUse};
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::model::FieldEdits;
use crate::own_fields::EditedMessage;
use crate::toml;

/// A directive with its matcher.
#[derive(Debug)]
pub(super) struct ChainStep {
    pub(super) id: EntryId,
    pub(super) name: String,
    pub(super) matcher: RequestMatcher,
    pub(super) kind: StepKind,
}

/// The effect of a directive.
#[derive(Debug)]
pub(super) enum StepKind {
    Block(Vec<ChainStep>),
    Path(SitePathChange),
    Limits(Vec<RateZoneUse>),
    RequestFields(FieldEdits),
    ResponseFields(FieldEdits),
    MaxBody(String),
    /// `compress`, as TOML.
    Compress(String),
    Answer(StepAnswer),
}

impl ChainStep {
    /// Returns the group of directives of which the first that matches is taken; `None` where each is.
    pub(super) fn group(&self) -> Option<&str> {
        match self.name.as_str() {
            "handle" | "handle_path" => Some("handle"),
            "rewrite" => Some("rewrite"),
            _ => None,
        }
    }
}

/// Directives about files, for those that serve them.
const OF_FILES: [&str; 2] = ["fs", "root"];

/// Directives that change no answer.
const WITHOUT_EFFECT: [&str; 7] = [
    "log",
    "log_append",
    "log_name",
    "log_skip",
    "push",
    "skip_log",
    "tracing",
];

/// Directives about listeners, which other modules read.
const OF_LISTENERS: [&str; 2] = ["bind", "tls"];

/// Reads blocks of directives, and makes origins and limits of them.
pub(super) struct StepReader<'t> {
    pub(super) order: DirectiveOrder,
    pub(super) routes: &'t BTreeMap<String, Vec<CaddyDirective>>,
    pub(super) origins: OriginTable,
    pub(super) zones: RateZoneTable,
    /// Named routes that are being read.
    pub(super) open_routes: Vec<String>,
    /// Steps that were read: routes that invoke others twice each multiply.
    pub(super) steps: usize,
}

impl StepReader<'_> {
    /// Reads the directives of a block in the order in which they are evaluated.
    pub(super) fn block(
        &mut self,
        directives: &[CaddyDirective],
        outer: &MatcherTable<'_>,
        ledger: &mut Ledger,
    ) -> Vec<ChainStep> {
        let mut steps = self.list(directives, outer, ledger);
        self.order
            .sort(&mut steps, |it| (it.name.as_str(), &it.matcher));
        steps
    }

    /// Reads directives in the order of the file, as `route` evaluates them.
    fn list(
        &mut self,
        directives: &[CaddyDirective],
        outer: &MatcherTable<'_>,
        ledger: &mut Ledger,
    ) -> Vec<ChainStep> {
        let matchers = MatcherTable::within(outer, directives);
        let mut steps = Vec::new();
        for directive in directives {
            let name = directive.name.as_str();
            if name.starts_with('@') {
                let reason = "no directive that is translated names it";
                leave_quietly(directive, reason, ledger);
            } else if WITHOUT_EFFECT.contains(&name) {
                leave_quietly(directive, "it changes no answer", ledger);
            } else if OF_FILES.contains(&name) {
                let reason = "it is for directives that serve files, which the gateway does not";
                leave_quietly(directive, reason, ledger);
            } else if !OF_LISTENERS.contains(&name) {
                match self.step(directive, &matchers, ledger) {
                    Ok(step) => steps.push(step),
                    Err(reason) => leave(directive, &reason, ledger),
                }
            }
        }
        steps
    }

    fn step(
        &mut self,
        directive: &CaddyDirective,
        matchers: &MatcherTable<'_>,
        ledger: &mut Ledger,
    ) -> Result<ChainStep, String> {
        self.steps += 1;
        let (matcher, words) = match directive.name.as_str() {
            // Its only word is the path, whatever it begins with.
            "rewrite" if directive.words.len() == 1 => {
                (RequestMatcher::all(), directive.words.as_slice())
            }
            "redir" if directive.words.len() == 1 => {
                (RequestMatcher::all(), directive.words.as_slice())
            }
            _ => matchers.split(directive),
        };
        if let Err(reason) = &matcher.condition {
            return Err(reason.clone());
        }
        let kind = self.kind(directive, words, matchers, ledger)?;
        matcher.sources.iter().for_each(|id| ledger.translated(*id));
        Ok(ChainStep {
            id: directive.id,
            name: directive.name.clone(),
            matcher,
            kind,
        })
    }

    fn kind(
        &mut self,
        directive: &CaddyDirective,
        words: &[String],
        matchers: &MatcherTable<'_>,
        ledger: &mut Ledger,
    ) -> Result<StepKind, String> {
        let kind = match directive.name.as_str() {
            "handle" => StepKind::Block(self.block(directive.children(), matchers, ledger)),
            "handle_path" => self.handle_path(directive, matchers, ledger),
            "route" => StepKind::Block(self.list(directive.children(), matchers, ledger)),
            "invoke" => self.invoke(words, matchers, ledger)?,
            "rewrite" => StepKind::Path(SitePathChange::rewrite(words)?),
            "uri" => StepKind::Path(SitePathChange::uri(words)?),
            "rate_limit" => StepKind::Limits(self.zones.read(directive, words, ledger)?),
            "request_header" => {
                StepKind::RequestFields(fields::read(directive, words, EditedMessage::Request)?)
            }
            "header" => {
                StepKind::ResponseFields(fields::read(directive, words, EditedMessage::Response)?)
            }
            "request_body" => request_body(directive)?,
            "encode" => encode(directive, words, ledger)?,
            "reverse_proxy" => {
                let forward = self.origins.proxy(directive, words, ledger)?;
                StepKind::Answer(StepAnswer::Forward(forward))
            }
            "file_server" | "php_fastcgi" => {
                let forward = self.origins.files(directive, ledger);
                StepKind::Answer(StepAnswer::Forward(forward))
            }
            _ => StepKind::Answer(answers::read(directive, words, ledger)?),
        };
        if !matches!(kind, StepKind::Block(_) | StepKind::Limits(_)) {
            let is_proxy = directive.name == "reverse_proxy";
            let children = directive.children().iter();
            children
                .filter(|_| !is_proxy)
                .for_each(|child| ledger.translated(child.id));
        }
        Ok(kind)
    }

    fn handle_path(
        &mut self,
        directive: &CaddyDirective,
        matchers: &MatcherTable<'_>,
        ledger: &mut Ledger,
    ) -> StepKind {
        let mut steps = vec![ChainStep {
            id: directive.id,
            name: "uri".to_owned(),
            matcher: RequestMatcher::all(),
            kind: StepKind::Path(SitePathChange::strip_prefix(
                directive.word(0).trim_end_matches('*'),
            )),
        }];
        steps.extend(self.block(directive.children(), matchers, ledger));
        StepKind::Block(steps)
    }

    fn invoke(
        &mut self,
        words: &[String],
        matchers: &MatcherTable<'_>,
        ledger: &mut Ledger,
    ) -> Result<StepKind, String> {
        let name = words.first().map(String::as_str).unwrap_or_default();
        let routes = self.routes;
        let directives = routes.get(name);
        let directives = directives.ok_or_else(|| format!("no route is named {name}"))?;
        if self.open_routes.iter().any(|open| open == name) {
            return Err(format!("the route {name} invokes itself"));
        }
        if self.steps > bounds::DIRECTIVES {
            let most = bounds::DIRECTIVES;
            return Err(format!(
                "routes that are invoked have more than {most} directives"
            ));
        }
        self.open_routes.push(name.to_owned());
        let steps = self.block(directives, matchers, ledger);
        self.open_routes.pop();
        Ok(StepKind::Block(steps))
    }
}

fn request_body(directive: &CaddyDirective) -> Result<StepKind, String> {
    let mut most = None;
    for line in directive.children() {
        match line.name.as_str() {
            "max_size" => most = Some(units::size(line.word(0))?),
            name => return Err(format!("a route has no key for {name} of a body")),
        }
    }
    let most = most.ok_or("it names no size")?;
    Ok(StepKind::MaxBody(most))
}

/// The size from which Caddy compresses a response.
const LEAST_COMPRESSED: &str = "512B";

fn encode(
    directive: &CaddyDirective,
    words: &[String],
    ledger: &mut Ledger,
) -> Result<StepKind, String> {
    let mut encodings: Vec<String> = Vec::new();
    let mut least = LEAST_COMPRESSED.to_owned();
    let lines = directive.children().iter().map(|it| it.name.as_str());
    for name in words.iter().map(String::as_str).chain(lines) {
        match name {
            "zstd" | "gzip" | "br" => encodings.push(name.to_owned()),
            "minimum_length" => {
                let mut lines = directive.children().iter();
                let line = lines.find(|it| it.name == name);
                let length: u64 = line
                    .and_then(|it| it.word(0).parse().ok())
                    .ok_or("minimum_length is no number")?;
                least = format!("{length}B");
            }
            "prefer" => {}
            "match" => ledger.differs(
                directive.id,
                "the usual types of text are compressed, whatever `match` says",
            ),
            name => return Err(format!("no encoding is {name}")),
        }
    }
    if encodings.is_empty() {
        encodings = ["zstd", "gzip"].map(str::to_owned).to_vec();
    }
    let encodings = toml::list(&encodings);
    Ok(StepKind::Compress(format!(
        "{{ encodings = {encodings}, min_bytes = \"{least}\" }}"
    )))
}
