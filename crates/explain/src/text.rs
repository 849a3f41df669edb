//! Writes explanations for a terminal, and the numbers in them.

use std::fmt;

use sluicegate_limiter::Policy;

use super::ConfigExplanation;
pub(super) use sluicegate_config::bytes_text as bytes;

impl fmt::Display for ConfigExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(request) = &self.request {
            writeln!(f, "client   {}", request.client)?;
            for line in request.place.iter().chain(&request.crawler) {
                writeln!(f, "           {line}")?;
            }
            for field in &request.removed {
                writeln!(f, "           {field}")?;
            }
            writeln!(f, "path     {}", request.path)?;
            writeln!(f, "route    {}", request.route.as_deref().unwrap_or("none"))?;
            for reason in &request.why {
                writeln!(f, "           {reason}")?;
            }
            if let Some(list) = &request.list {
                writeln!(f, "list     {list}")?;
            }
            for limit in &request.limits {
                writeln!(f, "limit    {limit}")?;
            }
            return writeln!(f, "outcome  {}", request.outcome);
        }
        for limit in &self.limits {
            paragraph(f, "limit", &limit.name, &limit.sentences())?;
        }
        for list in &self.lists {
            let line = format!(
                "{}, {} of memory.",
                counted(list.blocks as u64, "address block"),
                bytes(list.memory_bytes as u64)
            );
            paragraph(f, "list", &list.name, &[line])?;
        }
        for route in &self.routes {
            paragraph(f, "route", &route.name, &route.sentences())?;
        }
        for listener in &self.listeners {
            paragraph(f, "listener", &listener.address, &listener.sentences())?;
        }
        writeln!(f, "memory\n  {}.\n", self.memory)?;
        for warning in &self.warnings {
            writeln!(f, "{warning}")?;
        }
        Ok(())
    }
}

fn paragraph(f: &mut fmt::Formatter<'_>, kind: &str, name: &str, lines: &[String]) -> fmt::Result {
    writeln!(f, "{kind} {name}")?;
    for line in lines {
        writeln!(f, "  {line}")?;
    }
    writeln!(f)
}

/// Returns `5 in 10s`, for each rate.
pub(super) fn rates(policy: &Policy) -> Vec<String> {
    let rates = policy.rates().iter().map(|rate| {
        let period = span(rate.period().as_secs().into());
        format!("{} in {period}", count(rate.count().into()))
    });
    rates.collect()
}

/// Returns `a, b and c`.
pub(super) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// Returns a number with thousands separators: `262,144`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number with the noun that it counts: `1 limit`, `1,000 limits`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// Returns a number with its noun and the verb of one and of several: `1 key was`, `2 keys were`.
#[must_use]
pub fn counted_with(number: u64, noun: &str, [one, several]: [&str; 2]) -> String {
    let verb = if number == 1 { one } else { several };
    format!("{} {verb}", counted(number, noun))
}

/// Returns seconds in the largest unit that divides them: `10m`, `90s`.
#[must_use]
pub fn span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "m")];
    let whole = |(size, _): &&(u64, &str)| seconds > 0 && seconds.is_multiple_of(*size);
    match UNITS.iter().find(whole) {
        Some((size, unit)) => format!("{}{unit}", seconds / size),
        None => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: numbers are readable. Method: the edges of each unit.
    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [
                span(0),
                span(3),
                span(60),
                span(90),
                span(7_200),
                span(86_400)
            ],
            ["0s", "3s", "1m", "90s", "2h", "1d"]
        );
        assert_eq!(
            [
                counted(0, "limit"),
                counted(1, "limit"),
                counted(1_000, "limit"),
            ],
            ["0 limits", "1 limit", "1,000 limits"]
        );
        let was = |number| counted_with(number, "key", ["was", "were"]);
        assert_eq!(
            [was(0), was(1), was(2)],
            ["0 keys were", "1 key was", "2 keys were"]
        );
        let items = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(listed(&items(&["a", "b", "c"])), "a, b and c");
        assert_eq!(listed(&items(&["a"])), "a");
    }
}
