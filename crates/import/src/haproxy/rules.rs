//! Reads the rules of a section, and what each does.

use super::redirects::RedirectTarget;
use super::responses::{self, FieldEdit};
use super::samples;
use super::sections::{ConfigSection, SectionLine};
use super::tables::{self, TrackRule};
use super::terms::AclTable;
use crate::cells::TermList;
use crate::cells::{ConditionTerm, PathTerm, RuleCondition, SignedTerm, TermTruth};
use crate::client_fields;
use crate::ledger::{EntryId, Ledger};
use crate::own_fields::{self, EditKind, EditedMessage, FieldValue, is_own_field};

/// A rule that is understood.
pub(super) struct SectionRule {
    pub(super) id: EntryId,
    pub(super) condition: RuleCondition,
    pub(super) kind: RuleKind,
    pub(super) phase: RulePhase,
    /// The difference of its answer.
    pub(super) difference: Option<&'static str>,
}

impl SectionRule {
    /// Returns the conditions of which one is enough.
    pub(super) fn alternatives(&self) -> impl Iterator<Item = &TermList> {
        self.condition.alternatives.iter().map(Vec::as_slice)
    }

    /// Returns the number of the sticky counter that it fills.
    pub(super) fn tracked(&self) -> Option<u8> {
        match self.kind {
            RuleKind::Track(number, _) => Some(number),
            _ => None,
        }
    }
}

/// The order in which HAProxy applies rules, wherever they stand in their section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RulePhase {
    Monitor,
    Connection,
    Session,
    Content,
    Request,
    Redirect,
    Backend,
    Response,
    AfterResponse,
}

/// The action of a rule.
pub(super) enum RuleKind {
    /// Fills a sticky counter.
    Track(u8, TrackRule),
    /// Answers with a status. `Some` where the rule names it.
    Deny(Option<u16>),
    /// Answers with a status and a text.
    Return(u16, String),
    /// Ends the rules of its phase in a section.
    Allow,
    /// Sends to a backend.
    Use(String),
    /// Edits a field of requests.
    Request(FieldEdit),
    /// Takes the address of the client from a field.
    SetSource(String),
    /// Sends to HTTPS, which listeners do.
    ToHttps,
    /// Sends to another URL.
    Redirect(RedirectTarget),
    /// Edits a field of responses.
    Response(FieldEdit),
}

/// The listeners of a frontend that have TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenerTls {
    All,
    None,
    Some,
}

/// The body of the answer to `monitor-uri`.
const MONITOR_BODY: &str = "<html><body><h1>200 OK</h1>\nService ready.\n</body></html>\n";

/// The reason for which a rule about TLS is left out where only some listeners have it.
const MIXED_TLS: &str = "whether a listener has TLS is no condition of a route; name the listeners, and write `listeners` into its routes";

/// The difference of a rule that removes a field of the gateway's own.
const REMOVED_OWN: &str =
    "the gateway removes what clients write there, and writes a value of its own";

/// Parses the rules of a section in their order, each with its entry.
pub(super) fn parse(section: &ConfigSection) -> Vec<(EntryId, Result<SectionRule, String>)> {
    let acls = AclTable::new(section);
    let lines = section.lines.iter().filter(|line| is_rule(line));
    lines
        .map(|line| (line.id, rule(line, section, &acls)))
        .collect()
}

/// Returns the rules of a section in the order in which they are applied. Those that have no counterpart are left out, and are to be filled
/// in unless they change no answer.
pub(super) fn read(
    section: &ConfigSection,
    listeners: ListenerTls,
    ledger: &mut Ledger,
) -> Vec<SectionRule> {
    let mut rules = Vec::new();
    for (id, rule) in parse(section) {
        match rule.and_then(|rule| resolved(rule, listeners)) {
            Ok(rule) => {
                for id in [rule.id].iter().chain(&rule.condition.sources) {
                    ledger.left_out(*id, "no route is affected by it");
                }
                rules.push(rule);
            }
            Err(reason) => {
                let line = section.lines.iter().find(|line| line.id == id);
                let is_harmless = |line| changes_no_answer(line) || is_last_accept(line, section);
                match line.is_some_and(is_harmless) {
                    true => ledger.left_out(id, reason),
                    false => ledger.lose(id, &reason),
                }
            }
        }
    }
    rules.sort_by_key(|rule| rule.phase);
    rules
}

/// Returns the rule of `monitor-uri`, which HAProxy answers before all others.
pub(super) fn monitor(line: &SectionLine) -> SectionRule {
    let path = PathTerm::Exact(line.word(1).to_owned());
    SectionRule {
        id: line.id,
        condition: RuleCondition {
            alternatives: vec![vec![SignedTerm {
                term: ConditionTerm::Path(vec![path]),
                is_negated: false,
            }]],
            sources: Vec::new(),
        },
        kind: RuleKind::Return(200, MONITOR_BODY.to_owned()),
        phase: RulePhase::Monitor,
        difference: None,
    }
}

/// Returns true if a rule without a counterpart changes neither an answer nor what the origin gets.
fn changes_no_answer(line: &SectionLine) -> bool {
    let action = line.word(1).split('(').next().unwrap_or_default();
    match line.word(0) {
        "http-request" | "http-response" | "http-after-response" => matches!(
            action,
            "cache-store"
                | "cache-use"
                | "capture"
                | "disable-l7-retry"
                | "set-log-level"
                | "set-mark"
                | "set-nice"
                | "set-priority-class"
                | "set-priority-offset"
                | "set-tos"
                | "set-var"
                | "set-var-fmt"
                | "trace"
                | "unset-var"
        ),
        "tcp-request" => {
            let action = line.word(2).split('(').next().unwrap_or_default();
            line.word(1) == "inspect-delay"
                || matches!(action, "capture" | "set-var" | "unset-var" | "set-mark")
        }
        _ => false,
    }
}

/// Returns true if a rule accepts what no later rule of its phase refuses.
fn is_last_accept(line: &SectionLine, section: &ConfigSection) -> bool {
    let layer = ["tcp-request", line.word(1)];
    let mut later = section.lines.iter().skip_while(|it| it.id != line.id);
    line.word(2) == "accept"
        && line.starts(&layer)
        && later.all(|it| !it.starts(&layer) || it.word(2) == "accept")
}

/// Returns true if a line is a rule.
pub(super) fn is_rule(line: &SectionLine) -> bool {
    matches!(
        line.word(0),
        "http-request"
            | "http-response"
            | "http-after-response"
            | "tcp-request"
            | "tcp-response"
            | "use_backend"
            | "redirect"
            | "block"
    )
}

fn rule(
    line: &SectionLine,
    section: &ConfigSection,
    acls: &AclTable,
) -> Result<SectionRule, String> {
    let (words, mut condition) = acls.condition(line)?;
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let mut written = None;
    let (phase, kind) = match (word(0), word(1)) {
        ("use_backend", name) if !name.contains('%') => {
            (RulePhase::Backend, RuleKind::Use(name.to_owned()))
        }
        ("redirect", _) if is_to_https(&words) => (RulePhase::Redirect, RuleKind::ToHttps),
        ("http-request", "redirect") if is_to_https(&words) => {
            (RulePhase::Request, RuleKind::ToHttps)
        }
        ("redirect", _) => (
            RulePhase::Redirect,
            RuleKind::Redirect(RedirectTarget::read(&words[1..])?),
        ),
        ("http-request", "redirect") => (
            RulePhase::Request,
            RuleKind::Redirect(RedirectTarget::read(&words[2..])?),
        ),
        ("block", _) => (RulePhase::Request, RuleKind::Deny(None)),
        ("http-request", _) => (RulePhase::Request, request_rule(line, &words, section)?),
        ("tcp-request", layer @ ("connection" | "session" | "content")) => {
            let phase = match layer {
                "connection" => RulePhase::Connection,
                "session" => RulePhase::Session,
                _ => RulePhase::Content,
            };
            (phase, connection_rule(line, &words, section)?)
        }
        ("use_backend", _) => return Err("the backend depends on the request".to_owned()),
        ("http-response" | "http-after-response", action) if action.contains("header") => {
            let rule = responses::read(&words, &mut condition)?;
            written = rule.difference;
            (rule.phase, RuleKind::Response(rule.edit))
        }
        (name, action) => return Err(format!("`{name} {action}` has no counterpart")),
    };
    let counts = condition
        .alternatives
        .iter()
        .flatten()
        .any(|literal| matches!(literal.term, ConditionTerm::Above(..)));
    let (kind, difference) = match kind {
        // The text of a refusal at a limit is the gateway's.
        RuleKind::Return(status @ 400..=599, _) if counts => {
            (RuleKind::Deny(Some(status)), Some(OWN_ANSWER))
        }
        RuleKind::Deny(_) if closes(&words) => (kind, Some(CLOSED)),
        RuleKind::Deny(_) => (kind, has_own_answer(&words).then_some(OWN_ANSWER)),
        _ if counts => return Err("only refusals depend on counters".to_owned()),
        RuleKind::Return(..) => (kind, has_own_fields(&words).then_some(OWN_FIELDS)),
        kind => (kind, written),
    };
    Ok(SectionRule {
        id: line.id,
        condition,
        kind,
        phase,
        difference,
    })
}

/// The differences of answers.
const OWN_ANSWER: &str = "the text and the fields of the answer are the gateway's";
const OWN_FIELDS: &str =
    "the fields of the answer are the gateway's, of which Content-Type is text/plain";

/// The difference of a refusal without an answer.
pub(super) const CLOSED: &str =
    "the refusal is an answer, with 403 or, at a limit, 429; HAProxy closes the connection";

/// Returns true if a refusal closes the connection without an answer.
fn closes(words: &[String]) -> bool {
    let action = match words.first().map(String::as_str) {
        Some("tcp-request") => words.get(2),
        _ => words.get(1),
    };
    action.is_some_and(|it| it == "reject" || it == "silent-drop")
}

/// Returns true if a refusal has a text, a file or fields of its own.
fn has_own_answer(words: &[String]) -> bool {
    let is_text = |it: &String| it.contains("string") || it.ends_with("file") || it == "errorfiles";
    words.iter().any(is_text) || has_own_fields(words)
}

/// Returns true if an answer has fields of its own.
fn has_own_fields(words: &[String]) -> bool {
    let at = |name: &str| words.iter().position(|it| it == name);
    let kind = at("content-type").and_then(|it| words.get(it + 1));
    at("hdr").is_some() || kind.is_some_and(|it| !it.starts_with("text/plain"))
}

fn is_to_https(words: &[String]) -> bool {
    let at = words.iter().position(|word| word == "scheme");
    at.is_some_and(|at| words.get(at + 1).is_some_and(|word| word == "https"))
}

/// Returns the action of `http-request`.
fn request_rule(
    line: &SectionLine,
    words: &[String],
    section: &ConfigSection,
) -> Result<RuleKind, String> {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let status = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1)?.parse::<u16>().ok()
    };
    let refusal = || {
        let status = status("deny_status").or_else(|| status("status"));
        status.filter(|status| (400..=599).contains(status))
    };
    let kind = match word(1) {
        name if name.starts_with("track-sc") => {
            let (number, track) = tables::track(line, 1, &section.name)?;
            RuleKind::Track(number, track)
        }
        "deny" => RuleKind::Deny(refusal()),
        "tarpit" => RuleKind::Deny(refusal().or(Some(500))),
        "reject" | "silent-drop" => RuleKind::Deny(None),
        "allow" => RuleKind::Allow,
        "return" => {
            let is_other = |it: &&String| {
                it.starts_with("lf-") || it.ends_with("file") || it.as_str() == "errorfiles"
            };
            if let Some(other) = words.iter().find(is_other) {
                return Err(format!(
                    "an answer has a text without variables, not `{other}`"
                ));
            }
            let at = words.iter().position(|it| it == "string");
            let text = at.map_or("", |at| word(at + 1));
            RuleKind::Return(status("status").unwrap_or(200), text.to_owned())
        }
        "set-src" => set_source(word(2))?,
        other => match FieldEdit::read(words, EditedMessage::Request)? {
            Some(edit) => RuleKind::Request(edit),
            None => return Err(action_reason(other)),
        },
    };
    Ok(kind)
}

/// Returns the action of `tcp-request connection`, `session` and `content`.
fn connection_rule(
    line: &SectionLine,
    words: &[String],
    section: &ConfigSection,
) -> Result<RuleKind, String> {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match word(2) {
        name if name.starts_with("track-sc") => {
            let (number, track) = tables::track(line, 2, &section.name)?;
            Ok(RuleKind::Track(number, track))
        }
        "reject" | "silent-drop" => Ok(RuleKind::Deny(None)),
        "accept" => Ok(RuleKind::Allow),
        "set-src" => set_source(word(3)),
        "expect-proxy" => {
            Err("see proxy_protocol and proxy_protocol_from of [[listener]]".to_owned())
        }
        other => Err(format!(
            "`tcp-request {} {other}` has no counterpart",
            word(1)
        )),
    }
}

/// Returns why an action of `http-request` is left out: where the gateway has something like it, or that it has nothing.
fn action_reason(action: &str) -> String {
    let name = action.split('(').next().unwrap_or_default();
    let place = match name {
        "auth" => return "the gateway does not authenticate requests".to_owned(),
        "replace-header" | "replace-value" => "request_headers",
        "replace-path" | "replace-pathq" | "replace-uri" | "set-path" | "set-pathq" | "set-uri" => {
            "`rewrite` of a route"
        }
        "cache-use" | "cache-store" => "[cache] and [route.cache]",
        "capture" | "set-log-level" => "[log]",
        "set-timeout" => "[origin.NAME.timeouts]",
        "use-service" => "[admin]",
        _ => return format!("`http-request {name}` has no counterpart"),
    };
    format!("see {place} in place of `http-request {name}`")
}

fn set_source(sample: &str) -> Result<RuleKind, String> {
    let field = samples::field(sample).map(str::to_ascii_lowercase);
    field
        .filter(|name| client_fields::names_client(name))
        .map(RuleKind::SetSource)
        .ok_or_else(|| format!("no field that names the client is {sample:?}"))
}

/// Replaces the terms about TLS by what all listeners have.
///
/// # Errors
///
/// Some listeners have TLS, and the rule depends on it; or it gives a field of the gateway's own another value.
fn resolved(mut rule: SectionRule, listeners: ListenerTls) -> Result<SectionRule, String> {
    let own = match &rule.kind {
        RuleKind::Request(edit) if is_own_field(&edit.name) => Some(edit),
        _ => None,
    };
    let is_own = own.is_some();
    if let Some(edit) = own {
        if !is_usual(edit, &rule.condition, listeners) {
            return Err(own_fields::OTHER_VALUE.to_owned());
        }
        if edit.kind == EditKind::Remove {
            rule.difference = Some(REMOVED_OWN);
        }
    }
    // The gateway writes its own fields.
    let is_exempt = is_own || matches!(rule.kind, RuleKind::ToHttps);
    let terms = rule.condition.alternatives.iter_mut().flatten();
    for literal in terms.filter(|literal| literal.term == ConditionTerm::Tls) {
        literal.term = match listeners {
            _ if is_exempt => ConditionTerm::Tls,
            ListenerTls::All => ConditionTerm::Constant(TermTruth::True),
            ListenerTls::None => ConditionTerm::Constant(TermTruth::False),
            ListenerTls::Some => return Err(MIXED_TLS.to_owned()),
        };
    }
    Ok(rule)
}

/// Returns true if the gateway writes the value of an edit itself. It removes what clients write into such a field, as `del-header` does.
fn is_usual(edit: &FieldEdit, condition: &RuleCondition, listeners: ListenerTls) -> bool {
    let FieldEdit { kind, name, value } = edit;
    if *kind == EditKind::Remove {
        return name != "upgrade";
    }
    let scheme = match listeners {
        ListenerTls::All => "https",
        ListenerTls::None => "http",
        ListenerTls::Some => "",
    };
    let is_implied = |wanted: &str| match condition.alternatives.as_slice() {
        [terms] => match terms.as_slice() {
            [] => wanted == scheme,
            [only] => only.term == ConditionTerm::Tls && only.is_negated == (wanted == "http"),
            _ => false,
        },
        _ => false,
    };
    let sample = value.strip_prefix("%[").and_then(|it| it.strip_suffix(']'));
    let field = sample.and_then(samples::field);
    let written = match value.as_str() {
        "{client_ip}" => FieldValue::ClientAddress,
        "%ID" | "%[unique-id]" => FieldValue::RequestId,
        "http" | "https" if name == "x-forwarded-proto" && is_implied(value) => FieldValue::Scheme,
        _ if field.is_some_and(|it| it.eq_ignore_ascii_case("host")) => FieldValue::Host,
        _ if field.is_some_and(|it| it.eq_ignore_ascii_case(name)) => FieldValue::FieldOfClient,
        text if text.contains('%') => FieldValue::Other,
        text => FieldValue::Text(text),
    };
    own_fields::is_usual(name, written)
}

/// Returns true if a rule leads certificate authorities to a backend, and nobody else.
pub(super) fn is_for_authorities(rule: &SectionRule) -> bool {
    let is_of_authority = |literal: &SignedTerm| match &literal.term {
        ConditionTerm::Path(paths) => !literal.is_negated && paths.iter().all(is_challenge),
        _ => false,
    };
    let mut alternatives = rule.condition.alternatives.iter();
    matches!(rule.kind, RuleKind::Use(_))
        && alternatives.all(|alternative| alternative.iter().any(is_of_authority))
}

/// Returns true for the paths at which certificate authorities look for a proof.
fn is_challenge(path: &PathTerm) -> bool {
    matches!(path, PathTerm::Beginning(text) | PathTerm::Exact(text)
        if text.starts_with("/.well-known/acme-challenge"))
}

/// Returns true if a redirect to HTTPS holds for all requests in clear text but those of certificate authorities, as that of a listener.
pub(super) fn is_for_all(rule: &SectionRule) -> bool {
    let is_implied = |literal: &SignedTerm| match &literal.term {
        ConditionTerm::Tls => literal.is_negated,
        ConditionTerm::Constant(truth) => (*truth == TermTruth::True) != literal.is_negated,
        ConditionTerm::Path(paths) => literal.is_negated && paths.iter().all(is_challenge),
        _ => false,
    };
    let mut alternatives = rule.condition.alternatives.iter();
    alternatives.any(|alternative| alternative.iter().all(is_implied))
}

/// The clients of a condition: blocks of addresses, and files with further ones.
#[derive(Default)]
pub(super) struct NamedClients {
    pub(super) blocks: Vec<String>,
    pub(super) files: Vec<String>,
}

/// Returns the clients that a rule refuses with 403 whatever they ask for; `None` where it is another rule.
pub(super) fn blocked(rule: &SectionRule) -> Option<NamedClients> {
    if !matches!(rule.kind, RuleKind::Deny(None | Some(403))) {
        return None;
    }
    named_clients(&rule.condition)
}

/// Returns the blocks of clients for which a condition holds; `None` where it depends on anything else.
pub(super) fn clients(condition: &RuleCondition) -> Option<Vec<String>> {
    let named = named_clients(condition)?;
    named.files.is_empty().then_some(named.blocks)
}

fn named_clients(condition: &RuleCondition) -> Option<NamedClients> {
    let mut named = NamedClients::default();
    for alternative in &condition.alternatives {
        match alternative.as_slice() {
            [only] if only.is_negated => return None,
            [only] => match &only.term {
                ConditionTerm::Client(blocks) => named.blocks.extend(blocks.iter().cloned()),
                ConditionTerm::ClientFile(file) => named.files.push(file.clone()),
                _ => return None,
            },
            _ => return None,
        }
    }
    (!condition.alternatives.is_empty()).then_some(named)
}

/// The reason for clients in a file.
const IN_FILE: &str =
    "no condition of a route is a file; write [list.NAME] file, and its name in `block` or `allow`";

/// Leaves out the rules about clients in a file: routes have lists of addresses.
pub(super) fn leave_out_files(rules: &mut Vec<SectionRule>, ledger: &mut Ledger) {
    let is_file = |it: &SignedTerm| matches!(it.term, ConditionTerm::ClientFile(_));
    for rule in rules.extract_if(.., |rule| rule.alternatives().flatten().any(is_file)) {
        ledger.lose(rule.id, IN_FILE);
    }
}
