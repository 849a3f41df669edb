//! Owns a route of the compiled rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderValue;
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::rules::{
    KeyPart, Name, RefusalRules, RouteRules, Rules, ShapeRules, ValueSource,
};

use crate::admission::{ActiveLimit, AdmissionReport, RouteLimits};
use crate::challenge::{ChallengePage, OpenChallenge};
use crate::client::{ClientLists, ListEffect};
use crate::rejection::{LimitRejection, RejectionReason};
use crate::request_id::RequestId;
use crate::response::{RefusalContext, RefusalResponse, rate_limit_policy};
use crate::url_scheme::UrlScheme;

/// A route, compiled for decisions.
pub struct CompiledRoute {
    /// Its name.
    pub name: Name,
    /// The lists that apply to its clients, those of `[client]` too.
    pub lists: ClientLists,
    /// Its limits, in the order written.
    pub limits: RouteLimits,
    /// `RateLimit-Policy`; `None` where no limit has this style, or where it differs between requests.
    policy: Option<HeaderValue>,
    /// The text of rejections; `None` leaves that to the limit that rejects.
    pub refusal: Option<Arc<RefusalRules>>,
    /// True if a limit counts by a parameter of the path, or a field is made of one, which then must have one reading.
    pub reads_parameters: bool,
    /// The parameters of the path that its limits count by.
    pub parameters: Box<[Arc<str>]>,
    /// True if a limit counts by the path or by a parameter of it, which no client may then choose.
    pub counts_by_path: bool,
    /// True if a limit takes its key or its reserve from the body, which is then read before the decision.
    pub reads_body: bool,
    /// True if a key of its limits is in the query, with which frameworks merge the parameters of a body.
    pub compares_body: bool,
    /// True if a request without a verified certificate of its client is rejected.
    pub needs_certificate: bool,
    /// Largest request body, in bytes.
    pub max_body_bytes: u64,
    /// The edits of requests and answers; `None` where they pass unchanged.
    pub shape: Option<Arc<ShapeRules>>,
}

impl CompiledRoute {
    /// Compiles `route` of `rules`; `limits` are all limits.
    pub(super) fn compile(
        route: &RouteRules,
        rules: &Rules,
        limits: &BTreeMap<Name, Arc<ActiveLimit>>,
    ) -> Self {
        let written = route
            .limits
            .iter()
            .map(|name| Arc::clone(&limits[name]))
            .collect();
        let limits = RouteLimits::new(written, |name| limits.get(name).cloned());
        let names: Vec<Name> = limits.iter().map(|limit| limit.name.clone()).collect();
        let reads = |is_read: fn(&ValueSource) -> bool| {
            let written = names.iter().filter_map(|name| rules.limits.get(name));
            let mut values = written.flat_map(|limit| limit.values_read());
            values.any(|value| is_read(&value.source))
        };
        let mut written = names.iter().filter_map(|name| rules.limits.get(name));
        let announces = written.any(|limit| limit.cost.announced().is_some());
        let fields_read = (route.shape.as_ref()).is_some_and(|shape| shape.fields_read_path());
        let written = names.iter().filter_map(|name| rules.limits.get(name));
        let parameters: Box<[Arc<str>]> = written
            .flat_map(|limit| limit.values_read())
            .filter_map(|value| match &value.source {
                ValueSource::PathParameter(name) => Some(Arc::clone(name)),
                _ => None,
            })
            .collect();
        let reads_segments = !parameters.is_empty();
        let written = names.iter().filter_map(|name| rules.limits.get(name));
        let counts_by_path = reads_segments
            || written
                .flat_map(|limit| &limit.key.0)
                .any(|part| *part == KeyPart::Path);
        Self {
            name: route.name.clone(),
            lists: lists_of(route, rules),
            reads_parameters: fields_read || reads_segments,
            parameters,
            counts_by_path,
            reads_body: reads(ValueSource::is_in_body) || announces,
            compares_body: reads(|source| matches!(source, ValueSource::Query(_))),
            policy: limits
                .are_together()
                .then(|| rate_limit_policy(limits.iter().map(|limit| &limit.items)))
                .flatten(),
            refusal: route.refusal.clone(),
            shape: route.shape.clone(),
            needs_certificate: route.require.needs_certificate(),
            max_body_bytes: route.max_body_bytes.unwrap_or(rules.server.max_body_bytes),
            limits,
        }
    }

    /// Returns `RateLimit-Policy` for the limits in the report: on most routes the same for every request.
    #[must_use]
    pub fn policy(&self, judged: &AdmissionReport) -> Option<HeaderValue> {
        if self.limits.are_together() {
            self.policy.clone()
        } else {
            rate_limit_policy(judged.items(&self.limits))
        }
    }

    /// Returns the response to a request on this route that a limit rejects; `report` is that of the limits, where they were asked.
    #[must_use]
    pub fn refusal(
        &self,
        rejection: &LimitRejection,
        report: Option<&AdmissionReport>,
        headers: &ReceivedFields,
        request_id: RequestId,
        scheme: UrlScheme,
    ) -> RefusalResponse {
        let page = match rejection.reason {
            RejectionReason::Challenged(open) => self.page(rejection, &open, scheme),
            _ => None,
        };
        if let Some(page) = page {
            return RefusalResponse::of_page(page);
        }
        let scene = RefusalContext {
            route: &self.name,
            wording: self.refusal.as_ref(),
            headers,
            request_id,
        };
        let limit = match report.filter(|_| rejection.reason.shows_status()) {
            Some(report) => {
                let check = report.refusing_check();
                check.and_then(|check| report.items(&self.limits).nth(check))
            }
            None => {
                let limit = self.limits.get(usize::from(rejection.limit));
                limit.map(|limit| &limit.items)
            }
        };
        RefusalResponse::new(rejection, limit, &scene)
    }

    /// Returns the page with a challenge of the limit that rejects.
    fn page(
        &self,
        rejection: &LimitRejection,
        open: &OpenChallenge,
        scheme: UrlScheme,
    ) -> Option<ChallengePage> {
        let limit = self.limits.get(usize::from(rejection.limit))?;
        limit.challenge.as_ref()?.page(open, scheme)
    }
}

/// Returns the lists of a route and those of every route; one that both name with one effect counts once.
fn lists_of(route: &RouteRules, rules: &Rules) -> ClientLists {
    let mut lists = ClientLists::default();
    let of_all = &rules.client.lists;
    let of_route = &route.lists;
    for (effect, of_all, of_route) in [
        (ListEffect::Allow, &of_all.allow, &of_route.allow),
        (ListEffect::Block, &of_all.block, &of_route.block),
    ] {
        let more = of_route.iter().filter(|name| !of_all.contains(name));
        for name in of_all.iter().chain(more) {
            let list = &rules.lists[name];
            for blocks in list.sets() {
                lists.add(name, effect, blocks);
            }
            lists.add_places(name, effect, list.places());
            lists.add_crawlers(name, effect, &list.crawlers);
        }
    }
    lists
}
