//! Decides which limits a log can judge, and removes the others from the rules.
//!
//! A key by a field that is in no line would make all requests look alike, and a number of requests in flight without durations would never
//! be reached: a number for such a limit would be made up. So it is left out, with the reason, and all other limits are judged as if it
//! admitted every request.

use std::num::NonZeroU64;

use serde::Serialize;
use sluicegate_access_log::{LogFacts, LogReader, OpenError};

use sluicegate_config::rules::{
    ActivationRules, CostRules, CostSource, KeyPart, LimitRules, MeasuredCost, Name, ReserveRules,
    RouteRules, Rules, SharedMode, ValueSource,
};
use sluicegate_config::{Action, LoadCondition, LoadFigure};

/// A limit that the log cannot judge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnjudgedLimit {
    /// The limit.
    pub limit: String,
    /// The reason, and the way to judge it.
    pub reason: String,
}

/// The parts of a configuration that the log does not cover.
#[derive(Clone, Debug, Default)]
pub(super) struct LogCoverage {
    pub(super) not_judged: Vec<UnjudgedLimit>,
    /// Differences between replay and a gateway.
    pub(super) notes: Vec<String>,
    /// Set if a limit would be judged, or judged better, had lines a value that they lack.
    pub(super) lacks_values: bool,
}

impl LogCoverage {
    /// Removes from `rules` what the log cannot judge. `has_host` is set if requests have a host.
    pub(super) fn new(rules: &mut Rules, facts: &LogFacts, has_host: bool) -> Self {
        let mut coverage = Self::default();
        for (name, limit) in &mut rules.limits {
            if let Some(reason) = missing_part(limit, facts, has_host) {
                coverage.lacks_values = true;
                coverage.not_judged.push(UnjudgedLimit {
                    limit: name.to_string(),
                    reason,
                });
            }
            coverage.adapt(name, limit, facts);
        }
        coverage.leave_out_dependents(rules);
        if rules.store.take().is_some() {
            for (name, limit) in &rules.limits {
                if let Some(shared) = &limit.shared {
                    let mode = match shared.mode {
                        SharedMode::Strict => "shared-strict",
                        SharedMode::Synced => "shared",
                    };
                    coverage.notes.push(format!(
                        "limit {name}: with store = \"{mode}\" it counts here as if one gateway had served the whole log"
                    ));
                }
            }
        }
        let is_judged = |name: &Name| {
            let mut unjudged = coverage.not_judged.iter();
            !unjudged.any(|limit| *limit.limit == **name)
        };
        for route in &mut rules.routes {
            route.limits.retain(is_judged);
        }
        for limit in rules.limits.values_mut() {
            if let Action::Mark { then, .. } = &mut limit.action {
                *then = then.take().filter(is_judged);
            }
        }
        for route in &rules.routes {
            coverage.notes.extend(unknown_connection(route));
            if let Some(note) = unmatched(route, facts, has_host) {
                coverage.add_lack(note);
            }
        }
        if !knows_crawlers(facts) {
            for (name, list) in &rules.lists {
                if !list.crawlers.is_empty() {
                    coverage.add_lack(format!("list {name}: {NO_CRAWLER}"));
                }
            }
        } else if rules.reads_crawlers() {
            for (name, crawler) in &rules.crawlers {
                if !crawler.domains.is_empty() {
                    coverage.notes.push(format!("crawler {name}: {NO_NAMES}"));
                }
            }
        }
        if !facts.has_method && facts.first_time.is_some() {
            coverage.notes.push(NO_METHOD.to_owned());
        }
        if coverage.lacks_values && facts.is_partial {
            coverage.notes.push(LATER_VALUES.to_owned());
        }
        coverage
    }

    /// Adds a note about a value that lines lack.
    fn add_lack(&mut self, note: String) {
        self.notes.push(note);
        self.lacks_values = true;
    }

    /// Leaves out limits whose conditions compare figures of limits that are left out.
    fn leave_out_dependents(&mut self, rules: &Rules) {
        // Conditions form no circle, so there are at most as many rounds as limits.
        loop {
            let is_judged =
                |name: &Name| self.not_judged.iter().all(|other| *other.limit != **name);
            let mut judged = (rules.limits.iter()).filter(|(name, _)| is_judged(name));
            let found = judged.find_map(|(name, limit)| {
                let rules = limit.activation.as_ref()?;
                let mut figures = rules.conditions().flat_map(LoadCondition::figures);
                let unknown = figures.find(
                    |figure| matches!(figure, LoadFigure::Limit(other, _) if !is_judged(other)),
                )?;
                Some(UnjudgedLimit {
                    limit: name.to_string(),
                    reason: format!(
                        "its condition compares {unknown}, and that limit is not judged"
                    ),
                })
            });
            match found {
                Some(found) => self.not_judged.push(found),
                None => return,
            }
        }
    }

    /// Removes parts of a limit that cannot be judged, where the rest of it can.
    fn adapt(&mut self, name: &Name, limit: &mut LimitRules, facts: &LogFacts) {
        if let Action::Challenge { .. } = limit.action {
            limit.action = Action::Reject;
            self.notes.push(format!(
                "limit {name}: a log does not say who would solve its challenge, so all that exceeds it counts as rejected"
            ));
        }
        if limit.concurrency.is_some() && !facts.has_duration {
            limit.concurrency = None;
            self.add_lack(format!(
                "limit {name}: its concurrency is not judged, since the log has no durations"
            ));
        }
        if let CostRules::Measured(measured) = &mut limit.cost {
            if let ReserveRules::Announced(_) = measured.reserve
                && !facts.reserves.contains(&**name)
            {
                measured.reserve = ReserveRules::OneUnit;
                self.add_lack(format!(
                    "limit {name}: each request reserves 1, since what it announces is not in the log; [log] replay = true records it"
                ));
            }
            // The log has what was charged, in units.
            if let CostSource::ResponseField(_) = measured.source
                && facts.costs.contains(&**name)
            {
                measured.per_unit = NonZeroU64::MIN;
            }
        }
        if let Some(unknown) = limit
            .cost
            .measured()
            .and_then(|cost| unknown_cost(cost, facts))
            && !facts.costs.contains(&**name)
        {
            self.add_lack(format!(
                "limit {name}: each request costs what is reserved, since {unknown} is not in the log"
            ));
        }
        let hashed = is_recorded(limit, facts);
        let tiers = limit.tier.iter_mut().flat_map(|named| &mut named.tiers);
        for tier in tiers {
            if let Some(rules) = tier
                .activation
                .take_if(|rules| unlogged_figure(rules).is_some())
            {
                self.notes.push(format!(
                    "limit {name}: its tier {:?} is judged as if it always applied, since no log shows when {}",
                    tier.name, rules.when
                ));
            }
        }
        if let Some(tier) = &limit.tier
            && let Some(named_by) = tier.named_by.value()
            && let Some(part) = missing_value(&named_by.source, facts)
        {
            limit.tier = None;
            self.add_lack(format!(
                "limit {name}: its tiers are not judged, since {part} is not in the log; all requests have the limit's own rates"
            ));
        }
        if hashed && limit.overrides.take().is_some() {
            self.notes.push(format!(
                "limit {name}: its overrides are not judged, since the log has hashes of keys instead of values"
            ));
        }
    }
}

/// The note about values that only later lines of a pipe have.
const LATER_VALUES: &str = "of a log from a pipe only the first lines say which values it has; \
     name the file to have all of its lines searched for them";

/// Surveys the logs of `reader` where their first lines lack a value that `rules` need. `host` is the host of requests whose line has none.
///
/// # Errors
/// A log cannot be opened again.
pub(super) fn survey_for(
    rules: &Rules,
    reader: &mut LogReader,
    host: Option<&str>,
) -> Result<(), OpenError> {
    if !reader.can_survey() {
        return Ok(());
    }
    let has_host = reader.facts().has_host || host.is_some();
    let coverage = LogCoverage::new(&mut rules.clone(), reader.facts(), has_host);
    match coverage.lacks_values {
        true => reader.survey(),
        false => Ok(()),
    }
}

/// The note about a log without methods.
const NO_METHOD: &str = "the log has no methods: every request counts as GET";

/// The note about what a log without crawlers does not decide.
const NO_CRAWLER: &str = "its crawlers are not judged, since the log has neither crawlers nor user agents; \
     [log] fields = [\"user-agent\"] records these";

/// The note about addresses whose names a replay does not look up.
const NO_NAMES: &str = "names of addresses are not looked up, so who claims to be it is unverified where neither its ranges \
     nor crawler_proof in the log prove it";

/// Returns whether lines say which crawler a client is or claims to be.
fn knows_crawlers(facts: &LogFacts) -> bool {
    facts.has_crawler
        || facts
            .request_fields
            .contains(http::header::USER_AGENT.as_str())
}

/// Returns what a cost is measured by, where no log has it.
fn unknown_cost(cost: &MeasuredCost, facts: &LogFacts) -> Option<String> {
    match &cost.source {
        CostSource::ResponseField(by) if *by == http::header::CONTENT_LENGTH => None,
        CostSource::ResponseField(by) => Some(format!("the cost in the response field {by}")),
        CostSource::ResponseBytes => None,
        CostSource::ResponseDuration if facts.has_duration => None,
        CostSource::ResponseDuration => Some("the duration of requests".to_owned()),
        CostSource::ResponseJson(at) => Some(format!("the cost at {at} in the response's body")),
        CostSource::RequestBytes => Some("the length of request bodies".to_owned()),
    }
}

/// Returns a figure of a condition that a log does not show; `None` where it shows all.
fn unlogged_figure(rules: &ActivationRules) -> Option<&LoadFigure> {
    let mut figures = rules.conditions().flat_map(LoadCondition::figures);
    figures.find(|figure| !matches!(figure, LoadFigure::Limit(..)))
}

/// Returns whether lines have the hashes of a limit's keys.
fn is_recorded(limit: &LimitRules, facts: &LogFacts) -> bool {
    facts.key_templates.contains(&limit.key.to_string())
}

/// Returns why a limit cannot be judged; `None` where it can.
fn missing_part(limit: &LimitRules, facts: &LogFacts, has_host: bool) -> Option<String> {
    if let Some(condition) = &limit.count_if {
        if let Some(field) = condition.fields().next() {
            return Some(format!(
                "count_if reads the response field {field}, which no log has"
            ));
        }
        if !facts.has_status {
            return Some("count_if reads the status, which the log does not have".to_owned());
        }
    }
    if let Some(rules) = &limit.activation
        && let Some(figure) = unlogged_figure(rules)
    {
        return Some(format!(
            "it applies only while {}, and no log shows {figure}",
            rules.when
        ));
    }
    if is_recorded(limit, facts) {
        return None;
    }
    limit.key.0.iter().find_map(|part| match part {
        KeyPart::Host if !has_host => Some(
            "it counts by the host, which the log does not have; name the host of all requests by --host".to_owned(),
        ),
        KeyPart::Method if !facts.has_method => {
            Some("it counts by the method, which the log does not have".to_owned())
        }
        KeyPart::Crawler if !knows_crawlers(facts) => Some(
            "it counts by client.crawler, and the log has neither crawlers nor user agents; \
             [log] fields = [\"user-agent\"] records these"
                .to_owned(),
        ),
        KeyPart::Value(value) => {
            let missing = missing_value(&value.source, facts)?;
            Some(format!(
                "it counts by {}, and {missing} is not in the log; [log] replay = true records the hashes of such keys",
                value.source
            ))
        }
        _ => None,
    })
}

/// Returns the part of a request that a value is read from, where the log does not have it.
fn missing_value(source: &ValueSource, facts: &LogFacts) -> Option<String> {
    let field = |name: &str| {
        let is_there = facts.request_fields.contains(name);
        (!is_there).then(|| format!("the request field {name}"))
    };
    match source {
        ValueSource::Header(name) => field(name.as_str()),
        ValueSource::Cookie(_) => field("cookie"),
        ValueSource::Claim(_) => field("authorization"),
        ValueSource::Query(_) | ValueSource::PathParameter(_) => None,
        ValueSource::Json(_) | ValueSource::Form(_) => Some("the body".to_owned()),
        ValueSource::CertificateSubject
        | ValueSource::CertificateFingerprint
        | ValueSource::Ja4 => Some("the TLS handshake".to_owned()),
    }
}

/// Returns what is assumed of the connections of a route's requests, which no log has.
fn unknown_connection(route: &RouteRules) -> Option<String> {
    let name = &route.name;
    if !route.matches.listeners.is_empty() {
        return Some(format!(
            "route {name:?} is judged as if every request had come by a listener that it names, since no log has the listener"
        ));
    }
    (route.require.needs_certificate())
        .then(|| format!("route {name:?} is judged as if every client had shown a certificate"))
}

/// Returns why a route takes no logged request although it takes live ones.
fn unmatched(route: &RouteRules, facts: &LogFacts, has_host: bool) -> Option<String> {
    let name = &route.name;
    if route.matches.host.is_some() && !has_host {
        return Some(format!(
            "route {name:?} takes no request, since the log has no hosts; name the host of all requests by --host"
        ));
    }
    if !route.matches.crawler.is_any() && !knows_crawlers(facts) {
        return Some(format!("route {name:?}: {NO_CRAWLER}"));
    }
    let mut headers = route.matches.headers.iter();
    let (field, _) = headers.find(|(field, _)| !facts.request_fields.contains(field.as_str()))?;
    Some(format!(
        "route {name:?} takes no request, since the log does not have the request field {field}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Rules {
        let text = format!("[[listener]]\naddress = \"127.0.0.1:1\"\n{text}");
        let loaded = sluicegate_config::parse("gateway.toml", &text, sluicegate_config::no_review);
        loaded.expect("a configuration").rules
    }

    const RULES: &str = r#"
[limit.ip]
key = "client.ip"
rates = ["5 per 10s"]
concurrency = 2
[limit.api-key]
key = "header.x-api-key"
on_missing = "ip"
rates = ["5 per 10s"]
[limit.agent]
key = "header.user-agent"
on_missing = "ip"
rates = ["5 per 10s"]
[limit.mark]
key = "client.ip"
rates = ["5 per 10s"]
action = "mark"
mark = { header = "x-sluicegate-limit" }
fallback_limit = "token"
[limit.token]
key = "header.x-token"
on_missing = "ip"
rates = ["9 per 10s"]
[[route]]
path = "/*"
host = "a.test"
limits = ["ip", "api-key", "agent", "mark"]
respond = { status = 200 }
"#;

    /// Goal: only what the log has is judged, and the rest is said. Method: a log with user agents and without hosts or durations.
    #[test]
    fn limits_by_other_values_are_left_out() {
        let mut rules = rules(RULES);
        let facts = LogFacts {
            request_fields: ["user-agent".to_owned()].into(),
            ..LogFacts::default()
        };
        let coverage = LogCoverage::new(&mut rules, &facts, false);
        let names: Vec<_> = coverage
            .not_judged
            .iter()
            .map(|limit| &*limit.limit)
            .collect();
        assert_eq!(names, ["api-key", "token"]);
        let left: Vec<_> = rules.routes[0].limits.iter().map(|name| &**name).collect();
        assert_eq!(left, ["ip", "agent", "mark"]);
        assert!(rules.limits["ip"].concurrency.is_none());
        assert!(matches!(
            &rules.limits["mark"].action,
            Action::Mark { then: None, .. }
        ));
        let notes = coverage.notes.join("\n");
        assert!(
            notes.contains("concurrency") && notes.contains("--host"),
            "{notes}"
        );
    }

    /// Goal: conditions over limits are judged, others are said to be none that a log shows, and so are those that depend on such. Method:
    /// a limit and a tier by an origin's load, one by what the first rejects, and one by the use of another limit.
    #[test]
    fn conditions_over_the_load_of_an_origin_are_left_out() {
        let mut rules = rules(
            r#"
[origin.app]
servers = ["127.0.0.1:2"]
[client]
trusted_proxies = ["10.0.0.0/8"]
[limit.site]
key = "global"
rates = ["100 per 1m"]
[limit.slow]
key = "client.ip"
rates = ["5 per 10s"]
when = "origin.app.p99 > 500ms"
[limit.after]
key = "client.ip"
rates = ["4 per 10s"]
when = "limit.slow.rejected > 5"
[limit.full]
key = "client.ip"
rates = ["5 per 10s"]
when = "limit.site.used > 80%"
tier = "header.user-agent"
tiers = { bot = { rates = ["1 per 10s"], when = "origin.app.in_flight > 5" } }
[[route]]
path = "/*"
limits = ["site", "slow", "after", "full"]
origin = "app"
"#,
        );
        let facts = LogFacts {
            request_fields: ["user-agent".to_owned()].into(),
            ..LogFacts::default()
        };
        let coverage = LogCoverage::new(&mut rules, &facts, true);
        let reasons: Vec<_> = (coverage.not_judged.iter())
            .map(|limit| (&*limit.limit, &*limit.reason))
            .collect();
        assert_eq!(
            reasons,
            [
                (
                    "slow",
                    "it applies only while origin.app.p99 > 500ms, and no log shows origin.app.p99"
                ),
                (
                    "after",
                    "its condition compares limit.slow.rejected, and that limit is not judged"
                ),
            ]
        );
        let notes = coverage.notes.join("\n");
        assert!(
            notes.contains("its tier \"bot\" is judged as if it always applied"),
            "{notes}"
        );
        let left: Vec<_> = rules.routes[0].limits.iter().map(|name| &**name).collect();
        assert_eq!(left, ["site", "full"]);
    }

    /// Goal: a log with hashes of keys judges all limits. Method: the same configuration, hashes of its keys and durations.
    #[test]
    fn hashes_of_keys_are_enough() {
        let mut rules = rules(RULES);
        let facts = LogFacts {
            has_duration: true,
            key_templates: ["x-api-key", "user-agent", "x-token"]
                .map(|name| format!("header.{name}"))
                .into(),
            ..LogFacts::default()
        };
        let coverage = LogCoverage::new(&mut rules, &facts, true);
        assert_eq!(coverage.not_judged, []);
        assert_eq!(coverage.notes, Vec::<String>::new());
        assert!(rules.limits["ip"].concurrency.is_some());
    }
}
