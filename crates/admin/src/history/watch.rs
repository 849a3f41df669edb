//! Finishes the steps of the history, and marks problems that begin and end.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use sluicegate_base::bounds::HISTORY_STEP;
use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;
use tokio::time::MissedTickBehavior;

use crate::problems::{self, OperatingProblem, ProblemKind, ProblemSeverity};
use sluicegate_history::MarkKind;
use sluicegate_process::GatewayProcess;

/// Time between two looks at the problems of the gateway.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS_OF_A_STEP: u64 = HISTORY_STEP.as_secs() / LOOK.as_secs();

/// The background service.
pub struct HistoryWatch {
    /// The process whose history it keeps.
    pub process: Arc<GatewayProcess>,
}

/// The problems of the latest look.
#[derive(Debug, Default)]
struct KnownProblems(BTreeMap<(ProblemKind, String), KnownProblem>);

#[derive(Debug)]
struct KnownProblem {
    began: Timestamp,
    severity: ProblemSeverity,
    /// The problem at its worst.
    worst: OperatingProblem,
}

/// A problem that began, or one that ended.
#[derive(Debug, PartialEq, Eq)]
struct ProblemMark {
    kind: MarkKind,
    name: String,
    text: String,
}

#[async_trait]
impl BackgroundService for HistoryWatch {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = self.look_in_rounds() => {}
            _ = shutdown.changed() => {}
        }
    }
}

impl HistoryWatch {
    async fn look_in_rounds(&self) {
        let mut known = KnownProblems::default();
        let mut looks = 0;
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.look(&mut known);
            looks += 1;
            if looks == LOOKS_OF_A_STEP {
                self.process.shared.close_history_step();
                looks = 0;
            }
        }
    }

    fn look(&self, known: &mut KnownProblems) {
        let shared = &self.process.shared;
        let now = clock::now();
        let problems = problems::find(&self.process, &shared.snapshot());
        for mark in known.compare(problems, now) {
            shared.history.mark(now, mark.kind, &mark.name, &mark.text);
        }
    }
}

impl KnownProblems {
    /// Takes the problems of a look over, and returns those that began, became heavier or lighter, or ended since the one before.
    fn compare(&mut self, problems: Vec<OperatingProblem>, now: Timestamp) -> Vec<ProblemMark> {
        let mut former = std::mem::take(&mut self.0);
        let mut marks = Vec::new();
        for problem in problems {
            // The reload itself is a mark.
            if problem.kind == ProblemKind::Reload {
                continue;
            }
            let place = (problem.kind, problem.name.clone());
            let before = former.remove(&place);
            if before
                .as_ref()
                .is_none_or(|before| before.severity != problem.severity)
            {
                marks.push(ProblemMark {
                    kind: MarkKind::Problem,
                    name: problem.name.clone(),
                    text: problem.sentence.clone(),
                });
            }
            let severity = problem.severity;
            let (began, worst) = match before {
                Some(before) => (before.began, worse(before.worst, problem)),
                None => (now, problem),
            };
            let known = KnownProblem {
                began,
                severity,
                worst,
            };
            self.0.insert(place, known);
        }
        marks.extend(former.into_iter().map(|(place, problem)| {
            let (_, name) = place;
            let seconds = now.saturating_since(problem.began).as_secs();
            ProblemMark {
                kind: MarkKind::Recovery,
                name,
                text: format!(
                    "Over after {seconds} s. At its worst: {}",
                    problem.worst.sentence
                ),
            }
        }));
        marks
    }
}

/// Returns the worse of two states of a problem; of equal ones the later.
fn worse(earlier: OperatingProblem, later: OperatingProblem) -> OperatingProblem {
    // The heaviest severity is the first.
    let weight = |problem: &OperatingProblem| (Reverse(problem.severity), problem.extent);
    if weight(&later) >= weight(&earlier) {
        later
    } else {
        earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: ProblemKind, severity: ProblemSeverity, sentence: &str) -> OperatingProblem {
        OperatingProblem {
            severity,
            kind,
            name: "app".to_owned(),
            extent: 0,
            sentence: sentence.to_owned(),
        }
    }

    /// Goal: a problem is marked when it begins, changes its weight and ends, then with its worst, and not while it lasts. Method: looks at
    /// one that begins, lasts with another sentence, becomes critical, worse and lighter, and ends, beside a refused reload.
    #[test]
    fn problems_are_marked_when_they_begin_and_end() {
        let mut known = KnownProblems::default();
        let mut second = 0;
        let mut look = |problems: Vec<OperatingProblem>| -> Vec<(MarkKind, String)> {
            second += 1;
            let marks = known.compare(problems, Timestamp::from_secs(second));
            marks
                .into_iter()
                .map(|mark| (mark.kind, mark.text))
                .collect()
        };
        let origin = |severity, text: &str| problem(ProblemKind::Origin, severity, text);
        let reload = || problem(ProblemKind::Reload, ProblemSeverity::Warning, "refused");
        let warning = ProblemSeverity::Warning;
        let began = look(vec![origin(warning, "1 of 2 fails."), reload()]);
        assert_eq!(began, [(MarkKind::Problem, "1 of 2 fails.".to_owned())]);
        assert_eq!(look(vec![origin(warning, "1 of 2 fails: refused.")]), []);
        let worse = look(vec![origin(ProblemSeverity::Critical, "No server works.")]);
        assert_eq!(worse, [(MarkKind::Problem, "No server works.".to_owned())]);
        let grown = |extent, text: &str| OperatingProblem {
            extent,
            ..origin(ProblemSeverity::Critical, text)
        };
        assert_eq!(look(vec![grown(8, "8 fail.")]), []);
        assert_eq!(look(vec![grown(2, "2 fail.")]), []);
        let lighter = look(vec![origin(warning, "1 fails again.")]);
        assert_eq!(lighter, [(MarkKind::Problem, "1 fails again.".to_owned())]);
        let over = (
            MarkKind::Recovery,
            "Over after 6 s. At its worst: 8 fail.".to_owned(),
        );
        assert_eq!(look(Vec::new()), [over]);
        assert_eq!(look(Vec::new()), []);
    }
}
