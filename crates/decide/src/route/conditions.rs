//! Compiles the conditions of a route that are neither host, path nor method. Its rank counts them, and its entries check them.

use sluicegate_base::crawler::CrawlerCondition;
use sluicegate_base::geo::PlaceCondition;
use sluicegate_config::rules::{Name, RouteMatch};

use super::client::ClientMatch;
use super::header::HeaderMatch;
use super::query::QueryMatch;

/// The conditions on a request beside host, path and method.
#[derive(Debug)]
pub(super) struct RouteConditions {
    pub(super) listeners: Box<[Name]>,
    pub(super) client: ClientMatch,
    pub(super) place: PlaceCondition,
    pub(super) crawler: CrawlerCondition,
    pub(super) headers: HeaderMatch,
    pub(super) query: QueryMatch,
}

impl RouteConditions {
    pub(super) fn compile(matches: &RouteMatch) -> Self {
        Self {
            listeners: matches.listeners.as_slice().into(),
            client: ClientMatch::compile(&matches.client),
            place: matches.place.clone(),
            crawler: matches.crawler.clone(),
            headers: HeaderMatch::compile(&matches.headers),
            query: QueryMatch::compile(&matches.query),
        }
    }
}
