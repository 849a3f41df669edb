//! Says what is wrong with the gateway now: one sentence for each problem, with the runbook entry that has the cure.
//!
//! The page, `/status`, `/metrics` and `sluicegate top` show these problems and judge nothing themselves. A problem is what an operator
//! would act on: a drain by hand, a rejection or a server in slow start is none.
//!
//! # Limits
//! Pages show at most [`MOST_SHOWN`] problems, the critical ones first, and the number of the others.

mod sentences;

use serde::Serialize;
use sluicegate_base::clock;

use super::acme::AcmeView;
use super::certificates::CertificateView;
use super::configuration::ConfigurationView;
use super::origin_view::OriginView;
use sluicegate_process::GatewayProcess;
use sluicegate_process::snapshot::Snapshot;

/// The runbook, to whose entries the alerts for Prometheus link too.
const RUNBOOK: &str =
    "https://github.com/sluicegate/sluicegate/blob/main/docs/operations/runbook.md";

/// Problems that pages show.
const MOST_SHOWN: usize = 20;

/// The part of the gateway that a problem is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProblemKind {
    Origin,
    Requests,
    Store,
    Certificate,
    Overflow,
    Reload,
    File,
    StateDirectory,
    Rules,
}

/// The weight of a problem, as that of the alerts for Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ProblemSeverity {
    /// Clients are failed now.
    Critical,
    /// They will be, or something does not do what the configuration says.
    Warning,
}

/// A problem. The order of problems is that of their weight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OperatingProblem {
    /// Its weight.
    pub severity: ProblemSeverity,
    /// The part of the gateway that it is about.
    pub kind: ProblemKind,
    /// The name of the origin, the server, the limit or the file; empty where there is one only.
    pub name: String,
    /// Its extent among problems of this kind and weight: the number of failing servers, or the percentage of failed requests.
    pub extent: u64,
    /// The sentence that says what is wrong.
    pub sentence: String,
}

/// The problems that pages show.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ProblemList {
    problems: Vec<ProblemSection>,
    problems_omitted: usize,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct ProblemSection {
    severity: ProblemSeverity,
    kind: &'static str,
    name: String,
    sentence: String,
    entry: &'static str,
    runbook: String,
}

impl ProblemKind {
    /// Every kind.
    pub(super) const ALL: [Self; 9] = [
        Self::Origin,
        Self::Requests,
        Self::Store,
        Self::Certificate,
        Self::Overflow,
        Self::Reload,
        Self::File,
        Self::StateDirectory,
        Self::Rules,
    ];

    /// Returns its name in pages and metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Origin => "origin",
            Self::Requests => "requests",
            Self::Store => "store",
            Self::Certificate => "certificate",
            Self::Overflow => "overflow",
            Self::Reload => "reload",
            Self::File => "file",
            Self::StateDirectory => "state-directory",
            Self::Rules => "rules",
        }
    }

    /// Returns the heading of its entry in the runbook.
    const fn entry(self) -> &'static str {
        match self {
            Self::Origin | Self::Requests => "Everything answers 502",
            Self::Store => "The store is gone",
            Self::Certificate => "The certificate did not renew",
            Self::Overflow => "A limit has no room",
            Self::Reload | Self::File => "A reload failed",
            Self::StateDirectory => "Counters would not survive",
            Self::Rules => "Temporary rules are lost",
        }
    }

    /// Returns the address of this entry.
    fn runbook(self) -> String {
        let anchor = self.entry().to_lowercase().replace(' ', "-");
        format!("{RUNBOOK}#{anchor}")
    }
}

/// Returns the problems of the gateway now, the heaviest first. Reads no table of a limit.
pub(super) fn find(process: &GatewayProcess, snapshot: &Snapshot) -> Vec<OperatingProblem> {
    let now = clock::now();
    let wall = clock::wall();
    let shared = &process.shared;
    let mut problems = Vec::new();
    for pool in snapshot.pools.values() {
        problems.extend(sentences::origin(&OriginView::new(pool, now)));
    }
    problems.extend(sentences::requests(
        &shared.recorder.metrics.recent_requests(),
    ));
    let servers = (snapshot.store.iter()).flat_map(|store| store.status().servers);
    problems.extend(servers.filter_map(|server| sentences::store(&server)));
    let certificates = CertificateView::all(snapshot);
    problems.extend((certificates.iter()).filter_map(|each| sentences::certificate(each, wall)));
    let orders = AcmeView::new(&shared.acme, &snapshot.compiled.rules);
    let orders = orders.iter().flat_map(|orders| &orders.statuses);
    problems.extend(orders.filter_map(sentences::order));
    for active in snapshot.compiled.limits.values() {
        let period = active.limit.overflow(active.moment(now));
        let capacity = active.limit.capacity().keys();
        problems.extend(period.map(|period| sentences::overflow(&active.name, capacity, period)));
    }
    let configuration = ConfigurationView::new(&process.reloader, snapshot);
    problems.extend((configuration.last_reload.iter()).filter_map(sentences::reload));
    problems.extend(configuration.broken_files.iter().map(sentences::file));
    let directory = process.reloader.storage.health();
    problems.extend(directory.as_ref().and_then(sentences::state_directory));
    problems.extend((shared.temporary.file_fault()).map(|fault| sentences::rules(&fault)));
    problems.sort();
    problems
}

impl ProblemList {
    /// Keeps the first of `problems`, which begin with the heaviest.
    pub(super) fn new(mut problems: Vec<OperatingProblem>) -> Self {
        let problems_omitted = problems.len().saturating_sub(MOST_SHOWN);
        problems.truncate(MOST_SHOWN);
        let section = |problem: OperatingProblem| ProblemSection {
            severity: problem.severity,
            kind: problem.kind.as_str(),
            name: problem.name,
            sentence: problem.sentence,
            entry: problem.kind.entry(),
            runbook: problem.kind.runbook(),
        };
        Self {
            problems: problems.into_iter().map(section).collect(),
            problems_omitted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each link leads to an entry. Method: the address of each kind beside the headings and the list of contents of the runbook.
    #[test]
    fn each_problem_has_its_entry_in_the_runbook() {
        let runbook = include_str!("../../../../docs/operations/runbook.md");
        for kind in ProblemKind::ALL {
            let heading = format!("\n## {}\n", kind.entry());
            assert!(runbook.contains(&heading), "{heading}");
            let address = kind.runbook();
            let (_, anchor) = address.split_once('#').expect("an anchor");
            assert!(runbook.contains(&format!("](#{anchor})")), "{anchor}");
        }
    }

    /// Goal: a list is bounded and begins with what fails clients. Method: thirty problems, of which the last is critical.
    #[test]
    fn the_heaviest_problems_are_shown() {
        let problem = |severity, name: &str| OperatingProblem {
            severity,
            kind: ProblemKind::Overflow,
            name: name.to_owned(),
            extent: 0,
            sentence: String::new(),
        };
        let mut problems: Vec<_> = (0..29)
            .map(|at| problem(ProblemSeverity::Warning, &format!("{at:02}")))
            .collect();
        problems.push(problem(ProblemSeverity::Critical, "z"));
        problems.sort();
        let list = ProblemList::new(problems);
        assert_eq!((list.problems.len(), list.problems_omitted), (20, 10));
        assert_eq!(list.problems[0].name, "z");
        assert_eq!(list.problems[1].name, "00");
    }
}
