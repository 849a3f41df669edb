//! Completes a part of a configuration, for commands that open no port: `suggest` prints a limit and its route, and a person who has only
//! an access log has neither a listener nor an origin.
//!
//! A file without a listener gets one, and its routes answer by themselves where nothing is said about where requests go. A file with a
//! listener is a whole one, in which that is a mistake.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The tables of a part's listeners: nothing is opened at their addresses.
const LISTENERS: &str = "[{ address = \"127.0.0.1:1\" }]";
/// The response of a route whose requests go nowhere.
const RESPOND: &str = "{ status = 200 }";
/// The keys that say where the requests of a route go.
const ACTIONS: [&str; 3] = ["origin", "respond", "redirect"];

/// Adds what a part lacks.
pub(super) fn complete(table: &mut DeTable<'_>) {
    if has(table, "listener") {
        return;
    }
    let routes = (table.iter_mut()).find(|(key, _)| **key.get_ref() == *"route");
    if let Some(DeValue::Array(routes)) = routes.map(|(_, routes)| routes.get_mut()) {
        for route in routes.iter_mut() {
            if let DeValue::Table(route) = route.get_mut()
                && !ACTIONS.iter().any(|action| has(route, action))
            {
                add(route, "respond", RESPOND);
            }
        }
    }
    add(table, "listener", LISTENERS);
}

fn has(table: &DeTable<'_>, name: &str) -> bool {
    table.keys().any(|key| **key.get_ref() == *name)
}

/// Adds a key that stands nowhere in the file.
fn add(table: &mut DeTable<'_>, name: &'static str, value: &'static str) {
    let (value, _) = DeValue::parse_recoverable(value);
    table.insert(Spanned::new(0..0, name.into()), value);
}

#[cfg(test)]
mod tests {
    use super::super::environment::NoEnvironment;
    use super::super::file::parse_part_in;
    use super::super::route_review::no_review;

    const PART: &str = "[limit.a]\nkey = \"client.ip\"\nrates = [\"5 per 1m\"]\n[[route]]\npath = \"/*\"\nlimits = [\"a\"]\n";

    /// Goal: a part is read, and mistakes in it are found where they are. Method: a limit with its route; a slip in it; a whole file
    /// without an action.
    #[test]
    fn a_part_has_rules() {
        let read = |text: &str| {
            let loaded = parse_part_in("part.toml", text, &NoEnvironment, no_review);
            loaded.map(|loaded| loaded.rules.limits.len())
        };
        assert_eq!(read(PART).map_err(|problems| problems.to_string()), Ok(1));
        let slip = read(&PART.replace("5 per 1m", "5 per")).unwrap_err();
        assert!(slip.to_string().contains("part.toml:3:10"), "{slip}");
        let whole = format!("[[listener]]\naddress = \"127.0.0.1:8080\"\n{PART}");
        let problems = read(&whole).unwrap_err().to_string();
        assert!(problems.contains("where requests go"), "{problems}");
    }
}
