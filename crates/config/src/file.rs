//! Reads a whole configuration: text in, rules or problems out.
//!
//! The order is: syntax, then each table by itself, then what the tables say about each other. No step stops the next.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use sluicegate_base::bounds::CONFIGURATION_BYTES;
use toml::de::DeTable;

use super::env_variables;
use super::environment::{
    BindProbe, BoundedEnvironment, Environment, NoEnvironment, OfflineEnvironment,
};
use super::form::KeyConstraints;
use super::include::IncludedTexts;
use super::parsed_tables::ParsedTables;
use super::part;
use super::problem::{Problem, Problems, Severity};
use super::redaction::SecretRedaction;
use super::report::ProblemReport;
use super::route_review::{RouteReview, no_review};
use super::rules::Rules;
use super::section::TableSection;
use super::source::SourceText;
use super::unknown_keys::report_unknown_keys;
use super::written::WrittenConfig;

/// A configuration that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The rules that the operator wrote.
    pub rules: Rules,
    /// The places that were hardly intended so.
    pub warnings: Problems,
}

/// The extent of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConfigExtent {
    /// All that a gateway needs.
    Whole,
    /// It may lack what only a gateway needs.
    Part,
}

/// Reads a configuration file; `review` checks its routes together.
///
/// Relative paths in it begin at its directory. Names of servers are resolved now, which blocks for some seconds at most; one that does not
/// resolve is a warning.
///
/// # Errors
///
/// Everything that is wrong with it, or why it cannot be read.
pub fn load(path: &Path, review: RouteReview) -> Result<Loaded, Problems> {
    let (name, text) = text_of(path)?;
    parse_in(&name, &text, &BoundedEnvironment::default(), review)
}

/// Reads a configuration file as [`load`] does, and tries the addresses of its listeners by `bind`, which a start binds later.
///
/// # Errors
///
/// Everything that is wrong with it, or why it cannot be read.
pub fn load_to_check(
    path: &Path,
    review: RouteReview,
    bind: BindProbe,
) -> Result<Loaded, Problems> {
    let (name, text) = text_of(path)?;
    parse_to_check(&name, &text, review, bind)
}

/// Reads a configuration file as [`load`] does, for a command that starts no gateway: the directories of logs and state may be absent.
///
/// # Errors
///
/// Everything that is wrong with it, or why it cannot be read.
pub fn load_unopened(path: &Path, review: RouteReview) -> Result<Loaded, Problems> {
    let (name, text) = text_of(path)?;
    parse_in(&name, &text, &BoundedEnvironment::without_start(), review)
}

/// Reads a configuration file as [`load_unopened`] does, where it may lack listeners, and its routes then need not say where requests go.
///
/// # Errors
///
/// Everything that is wrong with it, or why it cannot be read.
pub fn load_part(path: &Path, review: RouteReview) -> Result<Loaded, Problems> {
    let (name, text) = text_of(path)?;
    parse_part_in(&name, &text, &BoundedEnvironment::without_start(), review)
}

/// Reads a configuration file as [`load`] does, while `in_force` is the configuration in force: its databases need not be verified again
/// where their files are unchanged, and stay where a file is broken.
///
/// # Errors
///
/// Everything that is wrong with it, or why it cannot be read.
pub fn load_again(path: &Path, review: RouteReview, in_force: &Rules) -> Result<Loaded, Problems> {
    let (name, text) = text_of(path)?;
    let databases = in_force.geo.databases.iter();
    let databases = databases.map(|file| (file.path.clone(), Arc::clone(&file.database)));
    let environment = BoundedEnvironment::with_databases(databases.collect());
    parse_in(&name, &text, &environment, review)
}

/// Judges a configuration file by its text and its lists alone: no name is looked up, and no certificate, key or secret is read. What
/// cannot be judged so is in no rules.
#[must_use]
pub fn load_offline(path: &Path, review: RouteReview) -> Problems {
    match text_of(path) {
        Ok((name, text)) => parse_offline(&name, &text, review),
        Err(problems) => problems,
    }
}

/// Checks a text like [`load_offline`] checks a file.
#[must_use]
pub fn parse_offline(file_name: &str, text: &str, review: RouteReview) -> Problems {
    let (_, problems) = read_in(
        file_name,
        text,
        &OfflineEnvironment,
        review,
        ConfigExtent::Whole,
    );
    problems
}

/// The name of a file in problems, and its text.
fn text_of(path: &Path) -> Result<(String, String), Problems> {
    let name = path.display().to_string();
    let unreadable = |message: String, advice: &str, line, column| {
        Problems::new(vec![Problem {
            severity: Severity::Error,
            file: Arc::from(&*name),
            line,
            column,
            key_path: String::new(),
            shown: format!("{message}; {advice}"),
            message,
            advice: advice.to_owned(),
            excerpt: None,
        }])
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| file.take(CONFIGURATION_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        let advice = "name a TOML file that the user who runs the gateway may read";
        unreadable(format!("the file cannot be read: {error}"), advice, 1, 1)
    })?;
    if bytes.len() as u64 > CONFIGURATION_BYTES {
        let message = format!("the file has more than {CONFIGURATION_BYTES} bytes");
        let advice = "name a configuration; blocks of addresses and keys of tiers go into files of their own";
        return Err(unreadable(message, advice, 1, 1));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..valid]);
        let source = SourceText::new(&name, &text);
        let advice = "save the file as UTF-8, which TOML is";
        let line = source.line(valid);
        let column = source.column(valid);
        unreadable(
            "the file is not UTF-8 from here on".to_owned(),
            advice,
            line,
            column,
        )
    })?;
    Ok((name, text))
}

/// Reads a configuration from its text; `file_name` is what problems call it, relative paths begin at its directory, and
/// `review` checks its routes together.
///
/// # Errors
///
/// Everything that is wrong with it.
///
/// # Example
///
/// ```
/// let text = r#"
/// [[listener]]
/// address = "0.0.0.0:8080"
///
/// [[route]]
/// path = "/*"
/// origin = "app"
///
/// [origin.app]
/// servers = ["127.0.0.1"]
/// "#;
/// let problems = sluicegate_config::parse("gateway.toml", text, sluicegate_config::no_review);
/// let problems = problems.expect_err("a port is missing");
/// assert!(problems.to_string().starts_with(
///     "gateway.toml:10:12: origin.app.servers[0]: \"127.0.0.1\" has no port; write \"127.0.0.1:80\""
/// ));
/// ```
pub fn parse(file_name: &str, text: &str, review: RouteReview) -> Result<Loaded, Problems> {
    parse_in(file_name, text, &BoundedEnvironment::default(), review)
}

/// Reads a configuration as [`load_to_check`] does, from its text.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn parse_to_check(
    file_name: &str,
    text: &str,
    review: RouteReview,
    bind: BindProbe,
) -> Result<Loaded, Problems> {
    let environment = BoundedEnvironment::with_bind_probe(bind);
    parse_in(file_name, text, &environment, review)
}

/// Reads a configuration as [`parse`] does, on a machine that answers as `environment` does.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn parse_in(
    file_name: &str,
    text: &str,
    environment: &dyn Environment,
    review: RouteReview,
) -> Result<Loaded, Problems> {
    loaded(read_in(
        file_name,
        text,
        environment,
        review,
        ConfigExtent::Whole,
    ))
}

/// Reads a configuration as [`load_part`] does, on a machine that answers as `environment` does.
///
/// # Errors
///
/// Everything that is wrong with it.
pub(super) fn parse_part_in(
    file_name: &str,
    text: &str,
    environment: &dyn Environment,
    review: RouteReview,
) -> Result<Loaded, Problems> {
    loaded(read_in(
        file_name,
        text,
        environment,
        review,
        ConfigExtent::Part,
    ))
}

fn loaded((rules, problems): (Option<Rules>, Problems)) -> Result<Loaded, Problems> {
    match rules {
        Some(rules) if problems.count(Severity::Error) == 0 => Ok(Loaded {
            rules,
            warnings: problems,
        }),
        _ => Err(problems),
    }
}

/// The rules, as far as they can be made, and all problems.
fn read_in(
    file_name: &str,
    text: &str,
    environment: &dyn Environment,
    review: RouteReview,
    extent: ConfigExtent,
) -> (Option<Rules>, Problems) {
    let texts = IncludedTexts::gather(file_name, text, environment);
    let report = ProblemReport::new(texts.source(), environment, file_name);
    let (mut table, faults) = texts.tree(&report);
    if extent == ConfigExtent::Part {
        part::complete(&mut table);
    }
    let written = Arc::new(WrittenConfig::new(&report.source, &table));
    env_variables::fill(&mut table, &report);
    let redaction = SecretRedaction::new(&report.source, &table);
    let rules = walk(&table, &report, review).map(|rules| Rules {
        written,
        patterns: texts.patterns.clone(),
        included: texts.included(),
        read_files: report.files(),
        ..rules
    });
    (rules, report.finish(faults, &redaction))
}

/// Every key that the tables written in `text` can have, whether it is written or not: `limit.NAME.rates`, `route[].path`.
#[must_use]
pub fn known_keys(text: &str, environment: &dyn Environment) -> BTreeSet<String> {
    let (table, _) = DeTable::parse_recoverable(text);
    let report = ProblemReport::new(SourceText::new("", text), environment, "");
    walk(table.get_ref(), &report, no_review);
    report.known()
}

/// Returns the keys of [`known_keys`] for a text without unknown ones, on a machine without names, files and variables.
pub(super) fn keys_in(text: &str) -> BTreeSet<String> {
    let (table, _) = DeTable::parse_recoverable(text);
    let report = ProblemReport::new(SourceText::new("", text), &NoEnvironment, "");
    ParsedTables::read(TableSection::root(&report, table.get_ref()));
    report.known()
}

/// Returns those of [`known_keys`] that must be written where their table is.
pub(super) fn required_keys(text: &str, environment: &dyn Environment) -> BTreeSet<String> {
    let (table, _) = DeTable::parse_recoverable(text);
    let report = ProblemReport::new(SourceText::new("", text), environment, "");
    walk(table.get_ref(), &report, no_review);
    report.required()
}

/// Returns the forms that the values written in `text` may have.
pub(super) fn forms(text: &str, environment: &dyn Environment) -> KeyConstraints {
    let (table, _) = DeTable::parse_recoverable(text);
    let report = ProblemReport::new(SourceText::new("", text), environment, "").noting_forms();
    walk(table.get_ref(), &report, no_review);
    report.forms()
}

/// Reads every table; `None` when the rules cannot be made, which was reported then.
fn walk(table: &DeTable<'_>, report: &ProblemReport<'_>, review: RouteReview) -> Option<Rules> {
    let tables = ParsedTables::read(TableSection::root(report, table));
    report_unknown_keys(report);
    tables.check(report, review);
    // With no error every table was read, so nothing below is left out.
    if report.has_errors() {
        return None;
    }
    tables.check_used(report);
    tables.into_rules()
}
