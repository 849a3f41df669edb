//! Divides the requests of a site into cells, in each of which every condition has one truth.
//!
//! The values of a later dimension are those of the conditions that can hold for the values of the earlier ones.

use std::collections::BTreeSet;

use super::conditions::RequestCondition;
use super::evaluation::{KnownCell, RequestScheme};
use super::paths::{CurrentPath, SitePathChange, folded};
use super::steps::{ChainStep, StepKind};
use crate::bounds;
use crate::cells::{
    CellDimension, PathTerm, RequestCell, client_parts, combinations, distinct, method_parts,
    with_intersections, within_bound,
};

/// Most prefixes that paths are stripped of before they are compared.
const PREFIXES: usize = 16;

/// Divides the requests for a host.
///
/// # Errors
///
/// That there are too many cells.
pub(super) fn divide(
    host: Option<&str>,
    scheme: RequestScheme,
    steps: &[ChainStep],
) -> Result<Vec<RequestCell>, String> {
    let mut cells = vec![RequestCell {
        host: host.map(str::to_owned),
        ..RequestCell::default()
    }];
    cells = split(cells, |cell| {
        let mut walk = ConditionWalk::new(cell, CellDimension::Host, scheme);
        walk.paths(steps);
        // Routes for one path in two spellings would take the same requests.
        let mut known = BTreeSet::new();
        walk.found_paths.retain(|path| known.insert(folded(path)));
        let paths = with_both(walk.found_paths)?;
        let mut paths = with_intersections(paths).ok_or("its paths overlap in too many ways")?;
        paths.retain(|path| !is_between(path));
        Ok(with(cell, paths, |cell, path| {
            cell.path = path;
        }))
    })?;
    cells = split(cells, |cell| {
        let mut walk = ConditionWalk::new(cell, CellDimension::Path, scheme);
        walk.conditions(steps, &mut CurrentPath::new(cell.path.as_ref()));
        let clients = walk.leaves.iter().filter_map(|it| match it {
            RequestCondition::Client(blocks) => Some(blocks.as_slice()),
            _ => None,
        });
        Ok(with(cell, client_parts(clients), |cell, client| {
            cell.client = client;
        }))
    })?;
    cells = split(cells, |cell| {
        let mut walk = ConditionWalk::new(cell, CellDimension::Client, scheme);
        walk.conditions(steps, &mut CurrentPath::new(cell.path.as_ref()));
        let values = walk.leaves.iter().filter_map(|it| match it {
            RequestCondition::Value(value) => Some(value.clone()),
            _ => None,
        });
        let combinations = combinations(distinct(values))?.into_iter();
        let cells = combinations.map(|values| RequestCell {
            values,
            ..cell.clone()
        });
        Ok(cells.collect())
    })?;
    split(cells, |cell| {
        let mut walk = ConditionWalk::new(cell, CellDimension::Value, scheme);
        walk.conditions(steps, &mut CurrentPath::new(cell.path.as_ref()));
        let methods = walk.leaves.iter().filter_map(|it| match it {
            RequestCondition::Method(method) => Some(std::slice::from_ref(method)),
            _ => None,
        });
        Ok(with(cell, method_parts(methods), |cell, method| {
            cell.method = method;
        }))
    })
}

fn split(
    cells: Vec<RequestCell>,
    parts: impl Fn(&RequestCell) -> Result<Vec<RequestCell>, String>,
) -> Result<Vec<RequestCell>, String> {
    let mut found = Vec::new();
    for cell in cells {
        found.extend(parts(&cell)?);
        within_bound(found.len())?;
    }
    Ok(found)
}

/// Returns a cell for each value, and one for all others.
fn with<T>(
    cell: &RequestCell,
    values: Vec<T>,
    set: impl Fn(&mut RequestCell, Option<T>),
) -> Vec<RequestCell> {
    let options = values.into_iter().map(Some).chain([None]);
    let cells = options.map(|value| {
        let mut cell = cell.clone();
        set(&mut cell, value);
        cell
    });
    cells.collect()
}

/// Adds the paths with one of the beginnings and one of the endings: the gateway prefers endings, whatever the beginning.
fn with_both(paths: Vec<PathTerm>) -> Result<Vec<PathTerm>, String> {
    let mut both = Vec::new();
    for begin in &paths {
        let PathTerm::Beginning(begin) = begin else {
            continue;
        };
        let endings = paths.iter().filter_map(|it| match it {
            PathTerm::Ending(end) => Some(end),
            _ => None,
        });
        both.extend(endings.map(|end| PathTerm::Between(begin.clone(), end.clone())));
        if both.len() > bounds::REQUEST_CELLS {
            return Err("it has too many beginnings and endings of paths".to_owned());
        }
    }
    both.extend(paths);
    Ok(both)
}

/// Returns true for a beginning with an ending, which stands among the paths as a pattern.
fn is_between(path: &PathTerm) -> bool {
    let PathTerm::Every(parts) = path else {
        return false;
    };
    let is_pattern = |it: &PathTerm| matches!(it, PathTerm::Beginning(_) | PathTerm::Ending(_));
    parts.iter().all(is_pattern)
}

/// A walk through the steps that the requests of a cell can reach, which collects conditions.
struct ConditionWalk<'s, 'c> {
    known: KnownCell<'c>,
    leaves: Vec<&'s RequestCondition>,
    /// The prefixes that the path can have lost.
    prefixes: Vec<String>,
    found_paths: Vec<PathTerm>,
}

impl<'s, 'c> ConditionWalk<'s, 'c> {
    fn new(cell: &'c RequestCell, known: CellDimension, scheme: RequestScheme) -> Self {
        Self {
            known: KnownCell {
                cell,
                known,
                scheme,
            },
            leaves: Vec::new(),
            prefixes: vec![String::new()],
            found_paths: Vec::new(),
        }
    }

    /// Collects the terms of conditions behind the known dimensions, up to the step that answers all requests. Returns true if one does.
    fn conditions(&mut self, steps: &'s [ChainStep], path: &mut CurrentPath) -> bool {
        let mut taken: Vec<&str> = Vec::new();
        for step in steps {
            let Ok(condition) = &step.matcher.condition else {
                continue;
            };
            let group = step.group();
            let truth = self.known.truth(condition, path);
            if truth == Some(false) || group.is_some_and(|group| taken.contains(&group)) {
                continue;
            }
            let is_certain = truth == Some(true);
            taken.extend(group.filter(|_| is_certain));
            leaves(condition, &mut self.leaves);
            match &step.kind {
                StepKind::Answer(_) if is_certain => return true,
                StepKind::Block(steps) => {
                    let answers = self.conditions(steps, path);
                    if answers && is_certain {
                        return true;
                    }
                }
                StepKind::Limits(zones) => {
                    for zone in zones {
                        if self.known.truth(&zone.condition, path) != Some(false) {
                            leaves(&zone.condition, &mut self.leaves);
                        }
                    }
                }
                // A change that not all requests undergo makes the path unknown.
                StepKind::Path(change) if !is_certain || path.change(change).is_err() => {
                    path.term = None;
                    path.template = None;
                }
                _ => {}
            }
        }
        false
    }

    /// Collects the paths that conditions compare, as they are before prefixes are stripped.
    fn paths(&mut self, steps: &'s [ChainStep]) {
        let unknown = CurrentPath {
            term: None,
            template: None,
        };
        for step in steps {
            let Ok(condition) = &step.matcher.condition else {
                continue;
            };
            if self.known.truth(condition, &unknown) == Some(false) {
                continue;
            }
            self.compared(condition);
            match &step.kind {
                StepKind::Block(steps) => {
                    let before = self.prefixes.clone();
                    self.paths(steps);
                    // A path that a block has stripped stays so where the block answers nothing.
                    if always_answers(steps) {
                        self.prefixes = before;
                    }
                }
                StepKind::Limits(zones) => {
                    zones.iter().for_each(|zone| self.compared(&zone.condition));
                }
                StepKind::Path(SitePathChange::Strip(prefix)) => {
                    let stripped: Vec<String> = (self.prefixes.iter())
                        .map(|before| format!("{before}{prefix}"))
                        .take(PREFIXES.saturating_sub(self.prefixes.len()))
                        .collect();
                    for prefix in &stripped {
                        self.found_paths.push(PathTerm::Exact(prefix.clone()));
                        let below = PathTerm::Beginning(format!("{prefix}/"));
                        self.found_paths.push(below);
                    }
                    self.prefixes.extend(stripped);
                }
                _ => {}
            }
        }
    }

    fn compared(&mut self, condition: &'s RequestCondition) {
        let mut terms = Vec::new();
        leaves(condition, &mut terms);
        for term in terms {
            let RequestCondition::Path(term) = term else {
                continue;
            };
            let found = self.prefixes.iter().map(|prefix| match term {
                PathTerm::Exact(text) => PathTerm::Exact(format!("{prefix}{text}")),
                PathTerm::Beginning(text) => PathTerm::Beginning(format!("{prefix}{text}")),
                other => other.clone(),
            });
            self.found_paths.extend(found);
        }
    }
}

/// Returns true if no request leaves a block without an answer.
fn always_answers(steps: &[ChainStep]) -> bool {
    let is_for_all = |step: &ChainStep| !step.matcher.is_some;
    steps
        .iter()
        .filter(|it| is_for_all(it))
        .any(|step| match &step.kind {
            StepKind::Answer(_) => true,
            StepKind::Block(steps) => always_answers(steps),
            _ => false,
        })
}

/// Collects the terms of a condition.
pub(super) fn leaves<'s>(condition: &'s RequestCondition, into: &mut Vec<&'s RequestCondition>) {
    match condition {
        RequestCondition::All(all) | RequestCondition::Any(all) => {
            all.iter().for_each(|it| leaves(it, into))
        }
        RequestCondition::Not(inner) => leaves(inner, into),
        term => into.push(term),
    }
}
