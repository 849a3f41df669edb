//! `sluicegate check [FILE] [--offline] [--json] [--against URL]`

use std::io::Read;
use std::path::Path;

use clap::Args;
use serde::Serialize;
use sluicegate_base::bounds::CONFIGURATION_BYTES;
use sluicegate_decide::route;
use sluicegate_limiter::StateDir;

use super::against::AgainstGateway;
use super::config_file::ConfigFile;
use super::exit_code::{CHANGES, FAILED, SUCCESS, USAGE};
use super::gateway_target::TargetError;
use super::output::{print, tell};
use crate::config::rules::{AccessLogTarget, AuditLogTarget, Rules};
use crate::config::{self, Loaded, MADE_BY_UNIT, MemoryPlan, Problem, Problems, Severity};
use crate::server;
use sluicegate_budgets::OpenFiles;
use sluicegate_explain::counted;

/// The name of the standard input in reports.
const STDIN: &str = "<stdin>";

/// The arguments of `check`.
#[derive(Args)]
pub(super) struct CheckCommand {
    #[command(flatten)]
    config: ConfigFile,
    /// Skip name lookups, addresses, folders, certificates, keys and secrets: for a machine that has none of them.
    #[arg(long)]
    offline: bool,
    /// Write the result as JSON to the standard output, for programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: AgainstGateway,
}

/// The result of a check. `rules` are `Some` where the whole file was checked and is valid.
struct CheckOutcome {
    file: String,
    rules: Option<Rules>,
    problems: Problems,
    /// The differences from the gateway; `None` where the configuration is compared with none.
    changes: Option<Vec<String>>,
}

#[derive(Serialize)]
struct CheckReport<'a> {
    file: &'a str,
    result: &'static str,
    problems: Vec<ReportedProblem<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<CheckCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryPlan>,
    machine: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a [String]>,
}

#[derive(Serialize)]
struct ReportedProblem<'a> {
    severity: &'static str,
    file: &'a str,
    line: usize,
    column: usize,
    key: &'a str,
    message: &'a str,
    advice: &'a str,
}

#[derive(Serialize)]
struct CheckCounts {
    routes: usize,
    limits: usize,
    origins: usize,
}

impl CheckCommand {
    /// Prints every error in the file; `-` is the standard input, and relative paths in it start at the working directory.
    pub(super) fn run(&self) -> u8 {
        self.config.with_path(|file| self.report(file))
    }

    fn report(&self, file: &Path) -> u8 {
        let mut result = match self.judge(file) {
            Ok(result) => result,
            Err(error) => {
                tell(&format_args!("sluicegate: {STDIN}: {error}"));
                return FAILED;
            }
        };
        let unreached = self.compare(&mut result);
        let said = if self.json {
            result.write_json()
        } else {
            result.tell(self.gateway.url());
            Ok(())
        };
        if let Some((code, message)) = unreached {
            tell(&message);
            return code;
        }
        match said {
            Err(_) => FAILED,
            Ok(()) => result.exit_code(),
        }
    }

    /// Adds the differences from the gateway to a result without errors. Returns the reason where the gateway gives none.
    fn compare(&self, result: &mut CheckOutcome) -> Option<TargetError> {
        let rules = result.rules.as_ref()?;
        match self.gateway.differences(&rules.written) {
            Ok(changes) => {
                result.changes = changes;
                None
            }
            Err(error) => Some(error),
        }
    }

    fn judge(&self, path: &Path) -> std::io::Result<CheckOutcome> {
        let is_stdin = path == Path::new("-");
        let text = if is_stdin {
            read_stdin()?
        } else {
            String::new()
        };
        let file = if is_stdin {
            STDIN.to_owned()
        } else {
            path.display().to_string()
        };
        let loaded = match (is_stdin, self.offline) {
            (true, false) => {
                config::parse_to_check(STDIN, &text, route::review, server::try_binding)
            }
            (false, false) => config::load_to_check(path, route::review, server::try_binding),
            (is_stdin, true) => {
                let problems = if is_stdin {
                    config::parse_offline(STDIN, &text, route::review)
                } else {
                    config::load_offline(path, route::review)
                };
                return Ok(CheckOutcome {
                    file,
                    rules: None,
                    problems,
                    changes: None,
                });
            }
        };
        let (rules, problems) = match loaded {
            Ok(Loaded { rules, warnings }) => (Some(rules), warnings),
            Err(problems) => (None, problems),
        };
        Ok(CheckOutcome {
            file,
            rules,
            problems,
            changes: None,
        })
    }
}

fn read_stdin() -> std::io::Result<String> {
    let mut text = String::new();
    let most = CONFIGURATION_BYTES + 1;
    std::io::stdin().take(most).read_to_string(&mut text)?;
    if text.len() as u64 == most {
        return Err(std::io::Error::other(format!(
            "more than {CONFIGURATION_BYTES} bytes"
        )));
    }
    Ok(text)
}

impl CheckOutcome {
    fn is_good(&self) -> bool {
        self.problems.count(Severity::Error) == 0
    }

    fn exit_code(&self) -> u8 {
        match &self.changes {
            _ if !self.is_good() => USAGE,
            Some(changes) if !changes.is_empty() => CHANGES,
            Some(_) | None => SUCCESS,
        }
    }

    /// Prints the result; `url` is that of the gateway that the configuration is compared with.
    fn tell(&self, url: Option<&str>) {
        let file = &self.file;
        if !self.problems.is_empty() {
            tell(&self.problems);
        }
        let Some(rules) = &self.rules else {
            if self.is_good() {
                tell(&format_args!(
                    "{file}: good, as far as that can be told offline: names, addresses, folders, certificates, keys and secrets were \
                     not looked at"
                ));
            }
            return;
        };
        for warning in too_much_for_this_machine(rules) {
            tell(&format_args!("{file}: warning: {warning}"));
        }
        for note in absent_folders(rules) {
            tell(&format_args!("{file}: note: {note}"));
        }
        tell(&format_args!("{file}: memory: {}", MemoryPlan::new(rules)));
        tell(&format_args!(
            "{file}: good: {}, {}, {}",
            counted(rules.routes.len() as u64, "route"),
            counted(rules.limits.len() as u64, "limit"),
            counted(rules.origins.len() as u64, "origin"),
        ));
        if let (Some(url), Some(changes)) = (url, &self.changes) {
            tell(&match changes.is_empty() {
                true => format!("{file}: the same as the configuration in force at {url}"),
                false => format!("{file}: other than at {url}:\n  {}", changes.join("\n  ")),
            });
        }
    }

    fn write_json(&self) -> std::io::Result<()> {
        let rules = self.rules.as_ref();
        let report = CheckReport {
            file: &self.file,
            result: if self.is_good() { "good" } else { "bad" },
            problems: self.problems.iter().map(reported).collect(),
            counts: rules.map(|rules| CheckCounts {
                routes: rules.routes.len(),
                limits: rules.limits.len(),
                origins: rules.origins.len(),
            }),
            memory: rules.map(MemoryPlan::new),
            machine: rules.map(missing_on_this_machine).unwrap_or_default(),
            changes: self.changes.as_deref(),
        };
        let text = serde_json::to_string_pretty(&report)?;
        print(&(text + "\n"))
    }
}

/// Returns what a configuration needs and this machine lacks.
fn missing_on_this_machine(rules: &Rules) -> Vec<String> {
    let mut missing = too_much_for_this_machine(rules);
    missing.extend(absent_folders(rules));
    missing
}

/// Returns the resources and rights that a configuration needs and this shell does not have; the service may have more.
fn too_much_for_this_machine(rules: &Rules) -> Vec<String> {
    let memory = MemoryPlan::new(rules).warning();
    let files = server::shortage(OpenFiles::raise(), rules);
    let state_dir = rules
        .server
        .state_dir
        .as_deref()
        .and_then(foreign_state_dir);
    memory.into_iter().chain(files).chain(state_dir).collect()
}

/// Says that a state directory belongs to another user, which hinders a start by this one.
fn foreign_state_dir(path: &Path) -> Option<String> {
    let uid = StateDir::foreign_owner(path)?;
    let path = path.display();
    Some(format!(
        "{path} belongs to user {uid} of this machine, and a start by another user fails: run `check` and the gateway as that user"
    ))
}

/// Returns the absent directories that a configuration needs and the unit of the package makes.
fn absent_folders(rules: &Rules) -> Vec<String> {
    let access = match &rules.log.access {
        AccessLogTarget::File(path) => Some(path),
        AccessLogTarget::Stdout | AccessLogTarget::Syslog | AccessLogTarget::Off => None,
    };
    let audit = match &rules.log.audit {
        Some(AuditLogTarget::File(path)) => Some(path),
        Some(AuditLogTarget::Stdout | AuditLogTarget::Stderr) | None => None,
    };
    let paths = || {
        access
            .into_iter()
            .chain(audit)
            .chain(&rules.server.state_dir)
    };
    let is_needed = |folder: &&Path| paths().any(|path| path.parent() == Some(*folder));
    let folders = MADE_BY_UNIT.iter().map(Path::new).filter(is_needed);
    let absent = folders.filter(|folder| !folder.exists());
    let note = |folder: &Path| {
        format!(
            "{} does not exist: the service of the package makes it; to start the gateway without that service, create it first",
            folder.display()
        )
    };
    absent.map(note).collect()
}

fn reported(problem: &Problem) -> ReportedProblem<'_> {
    ReportedProblem {
        severity: match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        file: &problem.file,
        line: problem.line,
        column: problem.column,
        key: &problem.key_path,
        message: &problem.message,
        advice: &problem.advice,
    }
}
