//! Explains rejections beside the rates of a limit: its bans, and its bound on requests in flight.

use sluicegate_limiter::{BanFactor, BanRules};

use super::text::{count, listed, span};
use sluicegate_config::Action;
use sluicegate_config::rules::LimitRules;

/// Number of ban lengths that are listed one by one.
const TOLD: u8 = 4;

/// Describes the ban of a key that exceeds the limit.
pub(super) fn ban(limit: &LimitRules) -> Option<String> {
    let rules = limit.ban?;
    let lengths = lengths(&rules);
    let when = match limit.action {
        Action::Shadow => "No key is banned while it is in shadow; once it is enforced",
        Action::Reject | Action::Delay | Action::Mark { .. } | Action::Challenge { .. } => {
            "After a rejection"
        }
    };
    let fades = if rules.factor() > BanFactor::ONE {
        let max = span(rules.max().as_secs());
        format!(" After every {max} without a ban one previous ban is forgotten.")
    } else {
        String::new()
    };
    Some(format!(
        "{when} a key is banned {lengths}, from the rejection on and whatever the rates admit.{fades}"
    ))
}

fn lengths(rules: &BanRules) -> String {
    let told = rules.top().min(TOLD);
    let each: Vec<String> = (1..=told)
        .map(|level| span(rules.length(level).as_secs()))
        .collect();
    match each.as_slice() {
        [first] => format!("for {first}"),
        _ if rules.top() > TOLD => {
            let max = span(rules.max().as_secs());
            format!("for {}, and so on up to {max}", each.join(", then "))
        }
        _ => format!("for {}, in succession", listed(&each)),
    }
}

/// Describes the bound on requests of a key in flight.
pub(super) fn concurrency(limit: &LimitRules) -> Option<String> {
    let most = limit.concurrency?;
    Some(format!(
        "Concurrency: at most {} of a key in flight, WebSockets and downloads until their end.",
        match most.get() {
            1 => "one request".to_owned(),
            most => format!("{} requests", count(most.into())),
        }
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn told(first: u64, hundredths: u32, max: u64) -> String {
        let factor = BanFactor::from_hundredths(hundredths).expect("a factor");
        let [first, max] = [first, max].map(|minutes| Duration::from_secs(60 * minutes));
        lengths(&BanRules::new(first, factor, max).expect("rules"))
    }

    /// Goal: an operator sees the effect of the factor. Method: one length, some, and more than are listed.
    #[test]
    fn the_lengths_of_bans_are_listed_one_by_one() {
        assert_eq!(told(10, 100, 10), "for 10m");
        assert_eq!(told(10, 200, 15), "for 10m and 15m, in succession");
        assert_eq!(
            told(10, 200, 1440),
            "for 10m, then 20m, then 40m, then 80m, and so on up to 1d"
        );
    }
}
