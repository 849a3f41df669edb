//! Owns the rules of `[[route]]`.

use std::sync::Arc;

use super::{
    FixedResponse, ListUse, Name, RedirectRules, RefusalRules, RequireRules, RouteCacheRules,
    RouteMatch, ShapeRules,
};

/// `[[route]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRules {
    /// `name`, or made from the match: `POST example.com/auth/sendOTP`. Distinct; a label of metrics and a field of the log.
    pub name: Name,
    /// Which requests.
    pub matches: RouteMatch,
    /// Names of limits, at most 8, each defined.
    pub limits: Vec<Name>,
    /// The action for an admitted request.
    pub action: RouteAction,
    /// The lists that apply to it, beside those of `[client]`.
    pub lists: ListUse,
    /// `require`: what clients must have shown.
    pub require: RequireRules,
    /// Largest request body on this route; default: the server's.
    pub max_body_bytes: Option<u64>,
    /// The response to rejections here, whatever limit rejects; `None` leaves that to the limit.
    pub refusal: Option<Arc<RefusalRules>>,
    /// The rules by which its responses are stored; `None`: not at all.
    pub cache: Option<RouteCacheRules>,
    /// The shape of requests and responses, of this route and of every route; `None` where they pass as they are.
    pub shape: Option<Arc<ShapeRules>>,
}

/// The action for an admitted request of a route.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteAction {
    /// `origin = "app"`.
    Forward(Name),
    /// `respond = { status = 204 }`.
    Respond(FixedResponse),
    /// `redirect = { to = "/new" }`.
    Redirect(Arc<RedirectRules>),
}
