//! Finds the paths for which several comparisons hold together, and writes their expressions.
//!
//! A request whose path has a beginning and an ending that conditions name belongs to neither of the two alone: the rules about both
//! decide about it. The gateway takes one route for it, so it needs a route of its own wherever that gives something else.

use std::collections::BTreeSet;

use super::terms::PathTerm;
use crate::paths;

/// Most comparisons, alone and together, into which the paths of a host are divided.
const MOST_PATHS: usize = 512;

/// Most orders and overlaps of the texts of one path.
const MOST_ARRANGEMENTS: usize = 64;

/// Returns the comparisons, and before them those that can hold together. `None` where there are too many.
pub(crate) fn with_intersections(terms: Vec<PathTerm>) -> Option<Vec<PathTerm>> {
    let mut sets: Vec<Vec<&PathTerm>> = Vec::new();
    let mut known: BTreeSet<Vec<&PathTerm>> = BTreeSet::new();
    for term in &terms {
        let mut added = vec![vec![term]];
        if !matches!(term, PathTerm::Exact(_)) {
            added.extend(sets.iter().filter_map(|set| together(set, term)));
        }
        for mut set in added {
            set.sort();
            if known.insert(set.clone()) && !is_exact(&set) {
                sets.push(set);
            }
        }
        if sets.len() > MOST_PATHS {
            return None;
        }
    }
    let several = sets.into_iter().filter(|set| set.len() > 1);
    let mut found: Vec<PathTerm> = several
        .map(|set| PathTerm::Every(set.into_iter().cloned().collect()))
        .collect();
    found.extend(terms);
    Some(found)
}

fn is_exact(set: &[&PathTerm]) -> bool {
    matches!(set, [PathTerm::Exact(_)])
}

/// Returns the comparisons of a set and one more, without those that the others imply; `None` where that is no other set.
fn together<'t>(set: &[&'t PathTerm], term: &'t PathTerm) -> Option<Vec<&'t PathTerm>> {
    if set.iter().any(|it| term.covers(it)) || !set.iter().all(|it| it.overlaps(term)) {
        return None;
    }
    let mut kept: Vec<&PathTerm> = set.iter().copied().filter(|it| !it.covers(term)).collect();
    let is_several = !kept.is_empty();
    kept.push(term);
    is_several.then_some(kept)
}

/// Returns the expression over the paths for which all comparisons hold.
///
/// # Errors
///
/// That none is known.
pub(super) fn expression(parts: &[PathTerm]) -> Result<String, String> {
    let unknown = || {
        let texts: Vec<String> = parts.iter().map(PathTerm::text).collect();
        format!(
            "no expression of a route is known for the paths with `{}`",
            texts.join("` and `")
        )
    };
    let mut found = Vec::new();
    for texts in PathTexts::read(parts).ok_or_else(unknown)? {
        found.extend(texts.arrangements().ok_or_else(unknown)?);
    }
    found.sort();
    found.dedup();
    match found.as_slice() {
        [] => Err(unknown()),
        [one] => paths::checked(format!("^{one}$")),
        several => paths::checked(format!("^(?:{})$", several.join("|"))),
    }
}

/// The texts that a path has to have.
#[derive(Clone, Default)]
struct PathTexts<'p> {
    begin: &'p str,
    within: Vec<String>,
    /// An expression that is searched, in which no text at the beginning or at the end is fixed.
    searched: Option<&'p str>,
    end: Option<String>,
}

impl<'p> PathTexts<'p> {
    /// Reads comparisons, each result with one of the alternatives; `None` where they are not read.
    fn read(parts: &'p [PathTerm]) -> Option<Vec<Self>> {
        let mut found = vec![Self::default()];
        for part in parts {
            match part {
                PathTerm::Beginning(text) => found.iter_mut().for_each(|it| it.begin(text)),
                PathTerm::Ending(text) => found.retain_mut(|it| it.end(text)),
                PathTerm::Containing(text) => {
                    found.iter_mut().for_each(|it| it.within.push(text.clone()));
                }
                PathTerm::Segments(text) => {
                    let mut last = found.clone();
                    last.retain_mut(|it| it.end(&format!("/{text}")));
                    let inner = format!("/{text}/");
                    found
                        .iter_mut()
                        .for_each(|it| it.within.push(inner.clone()));
                    found.extend(last);
                }
                PathTerm::Expression(text) => {
                    for it in &mut found {
                        it.expression(text)?;
                    }
                }
                PathTerm::Exact(_) | PathTerm::Between(..) | PathTerm::Every(_) => return None,
            }
        }
        Some(found)
    }

    fn begin(&mut self, text: &'p str) {
        if text.starts_with(self.begin) {
            self.begin = text;
        }
    }

    /// Takes an ending. Returns false if no path has this one and that which is known.
    fn end(&mut self, text: &str) -> bool {
        match &self.end {
            Some(known) if known.ends_with(text) => true,
            Some(known) if !text.ends_with(known.as_str()) => false,
            _ => {
                self.end = Some(text.to_owned());
                true
            }
        }
    }

    /// Takes an expression; `None` where it is not read.
    fn expression(&mut self, text: &'p str) -> Option<()> {
        if let Some(text) = paths::literal(text) {
            self.within.push(text);
        } else if let Some(end) = text.strip_suffix('$').and_then(paths::literal) {
            if !self.end(&end) {
                return None;
            }
        } else if let Some(begin) = text.strip_prefix('^')
            && paths::literal(begin).is_some_and(|literal| literal == begin)
        {
            self.begin(begin);
        } else if self.searched.is_none() {
            self.searched = Some(text);
        } else {
            return None;
        }
        Some(())
    }

    /// Returns the expressions over paths with these texts, each in one order; `None` where there are too many, or where one is unknown.
    fn arrangements(&self) -> Option<Vec<String>> {
        let is_ascii = |text: &str| text.is_ascii();
        let is_read = is_ascii(self.begin)
            && self.within.iter().all(|it| is_ascii(it))
            && self.end.as_deref().is_none_or(is_ascii);
        match self.searched {
            _ if !is_read => None,
            Some(expression) if self.within.is_empty() && self.end.is_none() => {
                paths::found_behind(self.begin, expression)
            }
            Some(_) => None,
            None => {
                let mut found = Vec::new();
                self.place(TextIslands::new(self.begin), &self.within, &mut found)?;
                Some(found)
            }
        }
    }

    /// Places the remaining texts in each order, then the end.
    fn place(
        &self,
        islands: TextIslands,
        remaining: &[String],
        found: &mut Vec<String>,
    ) -> Option<()> {
        for (at, text) in remaining.iter().enumerate() {
            let mut others = remaining.to_vec();
            others.remove(at);
            for longer in islands.with(text) {
                self.place(longer, &others, found)?;
            }
        }
        if remaining.is_empty() {
            match &self.end {
                None => found.push(islands.expression() + ".*"),
                Some(end) => found.extend(islands.ended(end).iter().map(TextIslands::expression)),
            }
        }
        (found.len() <= MOST_ARRANGEMENTS).then_some(())
    }
}

/// Texts that follow each other in a path, with anything between them; the first one stands at its beginning.
#[derive(Clone)]
struct TextIslands(Vec<String>);

impl TextIslands {
    fn new(begin: &str) -> Self {
        Self(vec![begin.to_owned()])
    }

    fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// Returns these texts and one that begins behind the beginning of the last one.
    fn with(&self, text: &str) -> Vec<Self> {
        if self.last().contains(text) {
            return vec![self.clone()];
        }
        let mut found = self.overlapping(text, text.len() - 1);
        found.push(self.apart(text));
        found
    }

    /// Returns these texts and one with which a path ends.
    fn ended(&self, text: &str) -> Vec<Self> {
        let mut found = self.overlapping(text, text.len());
        found.push(self.apart(text));
        found
    }

    fn apart(&self, text: &str) -> Self {
        let mut longer = self.clone();
        longer.0.push(text.to_owned());
        longer
    }

    /// Returns these texts and one whose beginning, of up to this length, is the end of the last one.
    fn overlapping(&self, text: &str, most: usize) -> Vec<Self> {
        let lengths = 1..=most.min(text.len());
        let shared = lengths.filter(|length| self.last().ends_with(&text[..*length]));
        let longer = shared.map(|length| {
            let mut longer = self.clone();
            if let Some(last) = longer.0.last_mut() {
                last.push_str(&text[length..]);
            }
            longer
        });
        longer.collect()
    }

    fn expression(&self) -> String {
        let texts = self.0.iter().map(|it| paths::escaped(it));
        texts.collect::<Vec<_>>().join(".*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beginning(text: &str) -> PathTerm {
        PathTerm::Beginning(text.to_owned())
    }

    fn ending(text: &str) -> PathTerm {
        PathTerm::Ending(text.to_owned())
    }

    fn containing(text: &str) -> PathTerm {
        PathTerm::Containing(text.to_owned())
    }

    /// A comparison, and the same in Rust.
    type ComparedPath = (PathTerm, fn(&str) -> bool);

    /// Returns whether comparisons hold together for a path, as the expression says.
    fn is_match(parts: &[PathTerm], path: &str) -> bool {
        let expression = expression(parts).unwrap();
        let expression = expression.trim_start_matches("~ ");
        regex::Regex::new(expression).unwrap().is_match(path)
    }

    /// Goal: an expression holds where all comparisons hold, also where their texts share characters. Method: all paths of up to seven
    /// characters of a small alphabet, for each pair and triple of comparisons.
    #[test]
    fn an_expression_is_the_intersection() {
        let all: Vec<ComparedPath> = vec![
            (beginning("/a"), |path| path.starts_with("/a")),
            (beginning("/ab/a"), |path| path.starts_with("/ab/a")),
            (ending("a/b"), |path| path.ends_with("a/b")),
            (ending("b"), |path| path.ends_with('b')),
            (containing("b/a"), |path| path.contains("b/a")),
            (containing("aa"), |path| path.contains("aa")),
            (PathTerm::Segments("b".to_owned()), |path| {
                format!("{path}/").contains("/b/")
            }),
            (PathTerm::Expression("b$".to_owned()), |path| {
                path.ends_with('b')
            }),
        ];
        let mut paths = vec!["/".to_owned()];
        for _ in 0..6 {
            let last = paths
                .iter()
                .flat_map(|it| ["a", "b", "/"].map(|c| format!("{it}{c}")));
            let longer: Vec<String> = last.collect();
            paths.extend(longer);
            paths.sort();
            paths.dedup();
        }
        let mut compared = 0;
        for one in 0..all.len() {
            for other in one..all.len() {
                for third in other..all.len() {
                    let numbers: BTreeSet<usize> = [one, other, third].into();
                    let parts: Vec<PathTerm> =
                        numbers.iter().map(|it| all[*it].0.clone()).collect();
                    let Ok(expression) = expression(&parts) else {
                        continue;
                    };
                    let regex = regex::Regex::new(expression.trim_start_matches("~ ")).unwrap();
                    compared += 1;
                    for path in &paths {
                        let holds = numbers.iter().all(|it| all[*it].1(path));
                        assert_eq!(regex.is_match(path), holds, "{parts:?} {path} {expression}");
                    }
                }
            }
        }
        assert!(compared > 80, "{compared}");
    }

    /// Goal: an expression that is searched holds behind a beginning, also where it begins within that. Method: both, and expressions for
    /// which nothing is known.
    #[test]
    fn an_expression_is_searched_behind_a_beginning() {
        let searched = |text: &str| PathTerm::Expression(text.to_owned());
        let parts = [beginning("/api/"), searched("/v[0-9]+$")];
        assert!(is_match(&parts, "/api/v1"));
        assert!(is_match(&parts, "/api/x/v1"));
        assert!(!is_match(&parts, "/x/v1"));
        assert!(!is_match(&parts, "/api/v1/x"));
        let parts = [beginning("/api"), searched("v[0-9]+")];
        assert!(is_match(&parts, "/api-v1/x"));
        for unknown in ["[0-9]+", "a.*b", "^/.[a-z]+", "v[0-9]+|x"] {
            let parts = [beginning("/api/"), searched(unknown)];
            assert!(expression(&parts).is_err(), "{unknown}");
        }
    }

    /// Goal: comparisons that can hold together are a path of their own, and no other ones. Method: beginnings within each other, endings,
    /// an exact path, and too many comparisons.
    #[test]
    fn comparisons_that_hold_together_are_a_path() {
        let all = vec![
            beginning("/a/"),
            beginning("/a/b/"),
            ending(".php"),
            ending(".asp"),
            PathTerm::Exact("/a/x.php".to_owned()),
        ];
        let found = with_intersections(all).unwrap();
        let texts: Vec<String> = found.iter().take(4).map(PathTerm::text).collect();
        assert_eq!(
            texts,
            [
                "path_beg /a/ path_end .php",
                "path_beg /a/b/ path_end .php",
                "path_beg /a/ path_end .asp",
                "path_beg /a/b/ path_end .asp"
            ]
        );
        assert_eq!(found.len(), 9);
        let many = (0..20).map(|it| containing(&format!("x{it}x"))).collect();
        assert!(with_intersections(many).is_none());
    }
}
