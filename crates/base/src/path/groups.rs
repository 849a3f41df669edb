//! Finds the groups of a regular expression over a path, for templates that use them.
//!
//! One automaton for all expressions of a host finds the route, without groups; so an expression whose groups are used is
//! compiled a second time, alone, and runs only once its route is known. As in the automaton, a slash at the end is optional.

use regex::bytes::{Captures, Regex, RegexBuilder};

use super::regex::PathRegex;
use crate::bounds;

/// An expression with its groups.
#[derive(Clone, Debug)]
pub struct PathGroups {
    expression: PathRegex,
    compiled: Regex,
}

impl PathGroups {
    /// Returns the groups of `expression`; `None` where it is too large with them.
    #[must_use]
    pub fn from_expression(expression: &PathRegex) -> Option<Self> {
        let compiled = RegexBuilder::new(&expression.pattern())
            .unicode(false)
            .nest_limit(64)
            .size_limit(bounds::PATH_GROUPS_BYTES)
            .build()
            .ok()?;
        Some(Self {
            expression: expression.clone(),
            compiled,
        })
    }

    /// Returns whether there is a group of this name or number; 0 is the whole path.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        match name.parse::<usize>() {
            Ok(number) => number < self.compiled.captures_len(),
            Err(_) => self
                .compiled
                .capture_names()
                .flatten()
                .any(|known| known == name),
        }
    }

    /// Returns their names, and the numbers of those that have none.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let groups = self.compiled.capture_names().enumerate().skip(1);
        groups
            .map(|(number, name)| name.map_or_else(|| number.to_string(), str::to_owned))
            .collect()
    }

    /// Returns the part of a path in normal form that a group matched; empty where it matched nothing.
    #[must_use]
    pub fn find<'p>(&self, path: &'p str, name: &str) -> &'p str {
        let shorter = path.strip_suffix('/').filter(|path| !path.is_empty());
        let readings = [Some(path), shorter].into_iter().flatten();
        let found = readings.filter_map(|reading| {
            let captures = self.compiled.captures(reading.as_bytes())?;
            Some(group(&captures, name).map_or("", |range| reading.get(range).unwrap_or_default()))
        });
        found.into_iter().next().unwrap_or_default()
    }
}

fn group(captures: &Captures<'_>, name: &str) -> Option<std::ops::Range<usize>> {
    let found = match name.parse::<usize>() {
        Ok(number) => captures.get(number),
        Err(_) => captures.name(name),
    };
    found.map(|found| found.range())
}

/// Compares the expressions alone.
impl PartialEq for PathGroups {
    fn eq(&self, other: &Self) -> bool {
        self.expression == other.expression
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: groups are found by name and number, also before a slash that the expression does not mention. Method: one
    /// expression.
    #[test]
    fn a_group_is_found_by_its_name_or_number() {
        let expression =
            PathRegex::new("^/(v[0-9]+)/(?P<what>.+[^/])(/x)?$").expect("an expression");
        let groups = PathGroups::from_expression(&expression).expect("groups");
        assert_eq!(groups.names(), ["1", "what", "3"]);
        assert!(groups.has("what") && groups.has("2") && groups.has("0"));
        assert!(!groups.has("4") && !groups.has("who"));
        for path in ["/v1/otp/sms", "/v1/otp/sms/"] {
            assert_eq!(groups.find(path, "1"), "v1");
            assert_eq!(groups.find(path, "what"), "otp/sms");
            assert_eq!(groups.find(path, "3"), "");
        }
        assert_eq!(groups.find("/other", "1"), "");
    }
}
