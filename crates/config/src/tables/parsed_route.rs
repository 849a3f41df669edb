//! Keeps what could be read of a `[[route]]`, for the checks that look at all tables together.

use crate::report::{KeyPlace, PlacedValue};
use crate::rules::{Name, RouteRules};

/// The parts of a route that could be read; its references are kept even when the rest is wrong.
pub(crate) struct ParsedRoute {
    pub(crate) place: KeyPlace,
    /// The name, with the place that it was written at, or that of the route.
    pub(crate) name: Option<PlacedValue<Name>>,
    /// `None` when the list could not be read.
    pub(crate) limits: Option<Vec<PlacedValue<Name>>>,
    pub(crate) origin: Option<PlacedValue<Name>>,
    /// The listeners that it names.
    pub(crate) listeners: Vec<PlacedValue<Name>>,
    pub(crate) rules: Option<RouteRules>,
}
