//! Fills variables of the environment into strings: `"${env.NAME}"`, alone or amid other text, in every value.
//!
//! They are filled in once a file is read, before its values are, so any string may have them. `$${env.NAME}` is the text itself.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::field::quoted;
use super::problem::Severity;
use super::report::{KeyPlace, ProblemReport};

/// The beginning of a variable.
const OPENING: &str = "${env.";

/// Fills in every variable of the tree; one that does not exist is an error at its place.
pub(super) fn fill(table: &mut DeTable<'_>, report: &ProblemReport<'_>) {
    fill_table(table, "", report);
}

fn fill_table(table: &mut DeTable<'_>, path: &str, report: &ProblemReport<'_>) {
    for (key, value) in table.iter_mut() {
        let name = key.get_ref();
        let path = match path {
            "" => name.to_string(),
            _ => format!("{path}.{name}"),
        };
        fill_value(value, &path, report);
    }
}

fn fill_value(value: &mut Spanned<DeValue<'_>>, path: &str, report: &ProblemReport<'_>) {
    let place = || KeyPlace {
        path: path.to_owned(),
        span: Some(value.span()),
    };
    match value.get_ref() {
        DeValue::String(text) if is_shell_variable(text) => {
            let name = text.trim_start_matches('$');
            report.variable(
                Severity::Warning,
                &place(),
                format!("{} is left as it is", quoted(text)),
                format!("write \"${{env.{name}}}\" for the variable of the environment"),
            );
        }
        DeValue::String(text) if text.contains("${") => {
            let filled = filled(text, &place(), report);
            *value.get_mut() = DeValue::String(Cow::Owned(filled));
        }
        DeValue::String(text) if let Some(name) = shell_variable_inside(text) => {
            report.variable(
                Severity::Warning,
                &place(),
                format!(
                    "{} in {} is left as it is",
                    quoted(&format!("${name}")),
                    quoted(text)
                ),
                format!(
                    "write {} for the variable of the environment",
                    quoted(&text.replacen(&format!("${name}"), &format!("${{env.{name}}}"), 1))
                ),
            );
        }
        DeValue::Table(_) | DeValue::Array(_) => match value.get_mut() {
            DeValue::Table(table) => fill_table(table, path, report),
            DeValue::Array(elements) => {
                for (at, element) in elements.iter_mut().enumerate() {
                    fill_value(element, &format!("{path}[{at}]"), report);
                }
            }
            _ => {}
        },
        _ => {}
    }
}

/// The text with its variables filled in.
fn filled(text: &str, place: &KeyPlace, report: &ProblemReport<'_>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, behind) = rest.split_at(at);
        if before.ends_with('$') && behind.starts_with(OPENING) {
            filled.push_str(before);
            filled.push_str(&OPENING[1..]);
            rest = &behind[OPENING.len()..];
            continue;
        }
        filled.push_str(before);
        let (variable, behind) = match behind.find('}') {
            Some(end) => behind.split_at(end + 1),
            None => (behind, ""),
        };
        match variable.strip_prefix(OPENING) {
            Some(name) => filled.push_str(&named(name, place, report)),
            None => {
                warn_of_shell(variable, place, report);
                filled.push_str(variable);
            }
        }
        rest = behind;
    }
    filled + rest
}

/// Returns the value of the variable that `name` names, a brace behind it included.
fn named(name: &str, place: &KeyPlace, report: &ProblemReport<'_>) -> String {
    let Some(name) = name.strip_suffix('}').filter(|name| is_name(name)) else {
        let message = "this names no variable of the environment";
        let advice = "write it so: \"${env.NAME}\"";
        report.variable(Severity::Error, place, message, advice);
        return String::new();
    };
    let variable = report.environment.variable(name);
    variable.unwrap_or_else(|| {
        report.variable(
            Severity::Error,
            place,
            format!("the environment has no variable {}", quoted(name)),
            format!("set it for the gateway and for `sluicegate check`: {name}=…"),
        );
        String::new()
    })
}

/// Says what to write where a variable is written as shells have it.
fn warn_of_shell(variable: &str, place: &KeyPlace, report: &ProblemReport<'_>) {
    let name = variable.strip_prefix("${");
    let name = name.and_then(|name| name.strip_suffix('}'));
    // `${RATE:-5 per 1s}`
    let name = name.map(|name| name.split([':', '-', '=', '?', '+']).next().unwrap_or(name));
    if let Some(shell_name) = name.filter(|name| is_shell_name(name)) {
        let no_default = if variable.len() > shell_name.len() + "${}".len() {
            ", which has no default here"
        } else {
            ""
        };
        report.variable(
            Severity::Warning,
            place,
            format!("{} is left as it is", quoted(variable)),
            format!(
                "write \"${{env.{shell_name}}}\" for the variable of the environment{no_default}"
            ),
        );
    }
}

/// Returns whether a value is nothing but a variable in the notation of shells without braces: `$ORIGIN`.
fn is_shell_variable(text: &str) -> bool {
    text.strip_prefix('$').is_some_and(is_shell_name)
}

/// Returns the name of a variable in that notation that is a whole part of an address or a path: `$HOST:3000`, `redis://$HOST:6379/0`.
/// Amid other text a dollar sign is more likely one.
fn shell_variable_inside(text: &str) -> Option<&str> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.match_indices('$').find_map(|(at, _)| {
        let before = &text[..at];
        let rest = &text[at + 1..];
        let length = rest.bytes().take_while(|byte| is_part(*byte)).count();
        let (name, behind) = rest.split_at(length);
        let begins = before.is_empty() || before.ends_with(['/', '@', ':', '.']);
        let ends = behind.is_empty() || behind.starts_with([':', '/', '.', '@']);
        (begins && ends && is_shell_name(name)).then_some(name)
    })
}

fn is_shell_name(name: &str) -> bool {
    is_name(name) && !name.contains(|c: char| c.is_ascii_lowercase())
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_part) && !name.as_bytes()[0].is_ascii_digit()
}
