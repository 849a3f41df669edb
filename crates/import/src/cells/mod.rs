//! Divides requests into cells, and finds the cells that need a route: the part of an import that knows no proxy.
//!
//! A translator reads its rules as conditions, divides requests by their terms, decides what the rules do with the requests of each cell,
//! and makes routes of the cells that remain.

mod division;
mod intersection;
mod partition;
mod reduction;
mod route_paths;
mod terms;

pub(crate) use self::division::{
    CellDimension, CellDivision, RequestCell, TermList, client_parts, combinations, covers_host,
    distinct, divide, hosts, method_parts, within_bound,
};
pub(crate) use self::intersection::with_intersections;
pub(crate) use self::reduction::{is_expression, lost_overlaps, needed, open_prefixes};
pub(crate) use self::route_paths::path;
pub(crate) use self::terms::{
    ConditionTerm, CounterKind, PathTerm, RuleCondition, SignedTerm, TableCounter, TermTruth,
};
