//! Lets a module above the configuration check all routes of a file together, and report its findings at their places.
//!
//! The routes that no request reaches, and those that a client can go around, are found by compiling them as the proxy does. The
//! configuration stands below that code, so its callers pass the review in as a function.

use super::report::ProblemReport;
use super::rules::RouteRules;
use super::tables::parsed_route::ParsedRoute;

/// A review of all routes of a file, which runs before the configuration decides whether the file is valid.
pub type RouteReview = fn(&RouteReport<'_>);

/// Reports nothing: for tests, and for readers of a file that do not look at its problems.
pub fn no_review(_: &RouteReport<'_>) {}

/// The routes of a file in their order, and the report that receives the findings about them.
pub struct RouteReport<'r> {
    routes: &'r [ParsedRoute],
    report: &'r ProblemReport<'r>,
}

impl<'r> RouteReport<'r> {
    pub(super) fn new(routes: &'r [ParsedRoute], report: &'r ProblemReport<'r>) -> Self {
        Self { routes, report }
    }

    /// Returns the rules of each route; `None` for a route that cannot be read.
    pub fn rules(&self) -> impl Iterator<Item = Option<&'r RouteRules>> {
        self.routes.iter().map(|route| route.rules.as_ref())
    }

    /// Returns the rules of all routes; `None` where one of them cannot be read.
    #[must_use]
    pub fn all_rules(&self) -> Option<Vec<RouteRules>> {
        self.rules().map(Option::<&RouteRules>::cloned).collect()
    }

    /// Returns the line of the route at `index`, from 1.
    #[must_use]
    pub fn line(&self, index: usize) -> usize {
        let route = self.routes.get(index);
        route.map_or(1, |route| self.report.line_of(&route.place))
    }

    /// Reports that the file cannot be used because of the route at `index`.
    pub fn error(&self, index: usize, message: impl Into<String>, advice: impl Into<String>) {
        if let Some(route) = self.routes.get(index) {
            self.report.error(&route.place, message, advice);
        }
    }

    /// Reports that the route at `index` is hardly intended so.
    pub fn warning(&self, index: usize, message: impl Into<String>, advice: impl Into<String>) {
        if let Some(route) = self.routes.get(index) {
            self.report.warning(&route.place, message, advice);
        }
    }
}
