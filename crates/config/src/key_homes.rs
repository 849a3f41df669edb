//! Finds the tables that have a key, for an operator who wrote it into another one. The reference, conf/reference.toml, which is tested to
//! have every key, says which tables there are.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::file::keys_in;
use super::specimen::specimen;

/// The most tables that are named.
const MOST_NAMED: usize = 3;

/// Returns in which tables a key belongs, where the table of the form `generic` at `path` does not have it: those inside that table, or
/// else all others. `None` where no table has it.
pub(super) fn advice(key: &str, generic: &str, path: &str) -> Option<String> {
    let known = all_keys();
    let heads: BTreeSet<String> = homes(key, generic, known)
        .iter()
        .map(|home| match inside(home, generic) {
            Some(step) => head(&format!("{path}{step}")),
            None => head(home),
        })
        .collect();
    let named: Vec<String> = heads.iter().take(MOST_NAMED).cloned().collect();
    let others = match heads.len().saturating_sub(MOST_NAMED) {
        0 => "",
        _ => ", among others",
    };
    match named.as_slice() {
        [] => {
            own_table(key, known).map(|table| format!("it is a table of its own: {}", head(&table)))
        }
        named => Some(format!("`{key}` belongs to {}{others}", named.join(" or "))),
    }
}

/// Returns the keys of all tables: `limit.NAME.rates`, `route[].path`.
fn all_keys() -> &'static BTreeSet<String> {
    static KEYS: OnceLock<BTreeSet<String>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let (specimen, _) = specimen();
        keys_in(&specimen)
    })
}

/// Returns the forms of the tables that have a key: `client`, `limit.NAME`, `route[].require`.
fn homes<'k>(key: &str, generic: &str, known: &'k BTreeSet<String>) -> Vec<&'k str> {
    let last = format!(".{key}");
    let tables = known.iter().filter_map(|path| path.strip_suffix(&last));
    let tables: Vec<&str> = tables.collect();
    let is_inside = |table: &&&str| inside(table, generic).is_some();
    let inner: Vec<&str> = tables.iter().filter(is_inside).copied().collect();
    match inner.is_empty() {
        true => tables,
        false => inner,
    }
}

/// Returns the way from the table of the form `generic` to one inside of it: `.timeouts`.
fn inside<'t>(table: &'t str, generic: &str) -> Option<&'t str> {
    let step = table.strip_prefix(generic)?;
    (!generic.is_empty() && step.starts_with('.')).then_some(step)
}

/// Returns the form of the table of a file that has this name: `admin`, `limit.NAME`, `route[]`.
fn own_table(name: &str, known: &BTreeSet<String>) -> Option<String> {
    known.get(name)?;
    let forms = [format!("{name}.NAME"), format!("{name}[]")];
    let is_known = |form: &&String| {
        let below = format!("{form}.");
        known.iter().any(|path| path.starts_with(&below))
    };
    let form = forms.iter().find(is_known).cloned();
    Some(form.unwrap_or_else(|| name.to_owned()))
}

/// Returns a table as its head is written: `[client]`, `[[route]]`, `[route.require]`.
fn head(table: &str) -> String {
    let is_list = table.ends_with("[]") && !table.contains('.');
    let mut name = table.to_owned();
    while let (Some(open), Some(close)) = (name.find('['), name.find(']')) {
        name.replace_range(open..=close, "");
    }
    match is_list {
        true => format!("[[{name}]]"),
        false => format!("[{name}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a key of another table is told where it belongs. Method: keys of one table, of several, of a table inside, and of none.
    #[test]
    fn a_key_of_another_table_names_its_table() {
        for (key, generic, path, expected) in [
            (
                "trusted_proxies",
                "route[]",
                "route[0]",
                "`trusted_proxies` belongs to [client]",
            ),
            (
                "max_connections",
                "listener[]",
                "listener[0]",
                "`max_connections` belongs to [origin.NAME.circuit_breaker] or [server]",
            ),
            (
                "origin",
                "origin.NAME",
                "origin.app",
                "`origin` belongs to [[route]]",
            ),
            (
                "max_pending",
                "origin.NAME",
                "origin.app",
                "`max_pending` belongs to [origin.app.circuit_breaker]",
            ),
            (
                "admin",
                "server",
                "server",
                "it is a table of its own: [admin]",
            ),
            (
                "listener",
                "server",
                "server",
                "it is a table of its own: [[listener]]",
            ),
            (
                "limit",
                "server",
                "server",
                "it is a table of its own: [limit.NAME]",
            ),
            (
                "rates",
                "route[]",
                "route[0]",
                "`rates` belongs to [limit.NAME]",
            ),
        ] {
            assert_eq!(advice(key, generic, path).as_deref(), Some(expected));
        }
        assert_eq!(advice("colour", "route[]", "route[0]"), None);
    }

    /// Goal: no key of the reference is unknown everywhere. Method: each of them in a table that there is not.
    #[test]
    fn each_key_has_a_home() {
        for path in all_keys() {
            let (_, key) = path.rsplit_once('.').unwrap_or(("", path));
            assert!(advice(key, "nowhere", "nowhere").is_some(), "{path}");
        }
    }
}
