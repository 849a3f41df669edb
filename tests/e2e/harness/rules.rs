//! The tables that most tests have, as text: a limit, and a route with limits.

/// The line of a route that the gateway answers itself.
pub const ANSWERED: &str = "respond = { status = 200 }";

/// `[limit.NAME]` by this key, with these lines.
pub fn limit(name: &str, key: &[&str], lines: &str) -> String {
    format!("[limit.{name}]\nkey = {key:?}\n{lines}\n")
}

/// A `[[route]]` with these limits, and lines that say what answers.
pub fn route(path: &str, limits: &[&str], lines: &str) -> String {
    format!("[[route]]\npath = \"{path}\"\nlimits = {limits:?}\n{lines}\n")
}
