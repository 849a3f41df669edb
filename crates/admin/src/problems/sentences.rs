//! Judges each part of the gateway, and writes the sentence of its problem.

use std::collections::BTreeMap;

use sluicegate_decide::rfc3339;
use sluicegate_decide::state::DirectoryHealth;
use sluicegate_limiter::{OverflowPeriod, Timestamp};
use sluicegate_redis_link::{ConnectionState, ServerStatus as StoreServer};

use super::{OperatingProblem, ProblemKind, ProblemSeverity};
use crate::certificates::{CertificateEnd, CertificateView};
use crate::origin_view::{OriginView, ServerView};
use sluicegate_acme::RenewalStatus;
use sluicegate_config::rules::BrokenFile;
use sluicegate_origin::{AttemptOutcome, ServerStatus};
use sluicegate_process::ReloadReport;
use sluicegate_record::RequestFigures;
use sluicegate_store::timestamp;

/// Failed requests below which their share says nothing.
const LEAST_FAILED: u64 = 3;
/// One failed request of so many is a problem, as for the alert SluicegateOriginFails.
const REQUESTS_PER_FAILURE: u64 = 20;
/// The longest cause in a sentence, in characters.
const LONGEST_CAUSE: usize = 160;

fn problem(
    severity: ProblemSeverity,
    kind: ProblemKind,
    name: &str,
    sentence: String,
) -> OperatingProblem {
    OperatingProblem {
        severity,
        kind,
        name: name.to_owned(),
        extent: 0,
        // A cause that is cut has its own end.
        sentence: sentence.replace("….", "…"),
    }
}

/// Judges an origin by its servers.
pub(super) fn origin(origin: &OriginView) -> Option<OperatingProblem> {
    let name = &*origin.name;
    let servers = &origin.servers;
    let is_well = |server: &&ServerView| server.state.is_asked() && !server.state.is_fault();
    let faulty: Vec<&ServerView> = servers
        .iter()
        .filter(|server| server.state.is_fault())
        .collect();
    if servers.is_empty() {
        let sentence = format!("Origin {name} has no server: no address of it is known.");
        return Some(problem(
            ProblemSeverity::Critical,
            ProblemKind::Origin,
            name,
            sentence,
        ));
    }
    let cause = faulty.first().map_or_else(String::new, |server| {
        format!("; {}: {}", server.address, cause(server))
    });
    let all = servers.len();
    let (severity, sentence) = if !servers.iter().any(|server| is_well(&server)) {
        let states = states(servers);
        let sentence = format!("No server of origin {name} works: {states}{cause}.");
        (ProblemSeverity::Critical, sentence)
    } else if !faulty.is_empty() {
        let verb = if faulty.len() == 1 { "fails" } else { "fail" };
        let count = faulty.len();
        let sentence = format!("{count} of {all} servers of origin {name} {verb}{cause}.");
        (ProblemSeverity::Warning, sentence)
    } else if origin.unresolved > 0 {
        let count = origin.unresolved;
        let sentence = format!("{count} of the names of origin {name} cannot be resolved.");
        (ProblemSeverity::Warning, sentence)
    } else {
        return None;
    };
    let problem = problem(severity, ProblemKind::Origin, name, sentence);
    Some(OperatingProblem {
        extent: faulty.len() as u64,
        ..problem
    })
}

/// Writes how many servers have which state.
fn states(servers: &[ServerView]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for server in servers {
        *counts.entry(server.state.as_str()).or_default() += 1;
    }
    let counts = counts
        .iter()
        .map(|(state, count)| format!("{count} {state}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// Writes why a server is at fault.
fn cause(server: &ServerView) -> String {
    if let (ServerStatus::Failing, Some(silence)) = (server.state, server.silence) {
        let since = rfc3339::format(silence.since);
        let requests = silence.unanswered;
        return format!("it has answered none of {requests} requests since {since}");
    }
    match (server.state, server.last_failure) {
        (ServerStatus::Down, _) => "its health check fails".to_owned(),
        (_, Some((AttemptOutcome::ServerError, _))) | (_, None) => "it answers 5xx".to_owned(),
        (_, Some((outcome, _))) => match &server.last_error {
            Some(error) => shortened(&format!("{}: {}", error.kind.as_str(), error.reason)),
            None => outcome.as_str().to_owned(),
        },
    }
}

/// Judges the requests of the last seconds.
pub(super) fn requests(recent: &RequestFigures) -> Option<OperatingProblem> {
    let counts = recent.requests;
    let failed = counts.failed();
    let is_share = failed >= LEAST_FAILED && failed * REQUESTS_PER_FAILURE >= counts.all;
    if failed == 0 || !(is_share || failed == counts.all) {
        return None;
    }
    let percent = failed * 100 / counts.all.max(1);
    let sentence = format!(
        "{percent} % of requests fail: of {} in {:.0} s the gateway answered {} with 5xx, origins {}.",
        counts.all, recent.seconds, counts.failed_by_gateway, counts.failed_by_origins
    );
    let problem = problem(
        ProblemSeverity::Critical,
        ProblemKind::Requests,
        "",
        sentence,
    );
    Some(OperatingProblem {
        extent: percent,
        ..problem
    })
}

/// Judges a server of the store.
pub(super) fn store(server: &StoreServer) -> Option<OperatingProblem> {
    let since = rfc3339::format(timestamp(server.since));
    let (severity, what) = match server.state {
        ConnectionState::Unavailable => {
            (ProblemSeverity::Critical, format!("is away since {since}"))
        }
        ConnectionState::Connecting if server.error.is_some() => (
            ProblemSeverity::Critical,
            "has not been reached yet".to_owned(),
        ),
        ConnectionState::Slow => (
            ProblemSeverity::Warning,
            "answers too late to decide".to_owned(),
        ),
        ConnectionState::Connected if server.is_in_recovery => {
            let what = "is back, and does not decide until counts are restored";
            (ProblemSeverity::Warning, what.to_owned())
        }
        ConnectionState::Connecting | ConnectionState::Connected => return None,
    };
    let cause = match (&server.error, severity) {
        (Some((_, error)), ProblemSeverity::Critical) => format!(": {}", shortened(error)),
        _ => String::new(),
    };
    let address = &server.address;
    let sentence = format!(
        "The store {address} {what}{cause}; shared limits go on as their on_store_failure says."
    );
    Some(problem(severity, ProblemKind::Store, address, sentence))
}

/// Judges a certificate by its end.
pub(super) fn certificate(
    certificate: &CertificateView,
    wall: Timestamp,
) -> Option<OperatingProblem> {
    let validity = certificate.validity;
    let severity = match CertificateEnd::from_validity(validity, wall) {
        CertificateEnd::Far => return None,
        CertificateEnd::Near => ProblemSeverity::Warning,
        CertificateEnd::Now => ProblemSeverity::Critical,
    };
    let names = names(certificate.names.iter().map(|name| &**name));
    let verb = if wall > validity.ends {
        "has expired at"
    } else {
        "ends at"
    };
    let ends = rfc3339::format(validity.ends);
    let sentence = format!("The certificate of {names} {verb} {ends}.");
    let kind = ProblemKind::Certificate;
    Some(problem(severity, kind, &names, sentence))
}

/// Judges the latest order of a certificate.
pub(super) fn order(order: &RenewalStatus) -> Option<OperatingProblem> {
    let error = shortened(order.error.as_ref()?);
    let names = names(order.names.names().iter().map(|name| &**name));
    let sentence = format!("The certificate of {names} was not ordered: {error}.");
    let kind = ProblemKind::Certificate;
    Some(problem(ProblemSeverity::Warning, kind, &names, sentence))
}

/// Writes the first names.
fn names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let shown: Vec<&str> = names.take(3).collect();
    match count - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Writes that new keys of a limit share counters.
pub(super) fn overflow(limit: &str, capacity: u64, period: OverflowPeriod) -> OperatingProblem {
    let since = rfc3339::format(period.since);
    let sentence = format!(
        "The limit {limit} has no room: beyond its capacity of {capacity} keys new ones share counters, since {since}."
    );
    problem(
        ProblemSeverity::Warning,
        ProblemKind::Overflow,
        limit,
        sentence,
    )
}

/// Judges the last reload.
pub(super) fn reload(report: &ReloadReport) -> Option<OperatingProblem> {
    let error = shortened(report.cause()?);
    let at = rfc3339::format(report.at);
    let sentence = format!(
        "The last reload was refused at {at}, and the former configuration stays: {error}."
    );
    let kind = ProblemKind::Reload;
    Some(problem(ProblemSeverity::Warning, kind, "", sentence))
}

/// Writes that a file of the configuration is broken.
pub(super) fn file(file: &BrokenFile) -> OperatingProblem {
    let sentence = format!("{file}.");
    problem(
        ProblemSeverity::Warning,
        ProblemKind::File,
        &file.name,
        sentence,
    )
}

/// Judges the state directory.
pub(super) fn state_directory(health: &DirectoryHealth) -> Option<OperatingProblem> {
    let error = shortened(health.last_error.as_ref()?);
    let path = health.path.display();
    let sentence = format!("The state directory {path} does not keep the time: {error}.");
    let kind = ProblemKind::StateDirectory;
    Some(problem(ProblemSeverity::Warning, kind, "", sentence))
}

/// Writes what is wrong with the file of the temporary rules.
pub(super) fn rules(fault: &str) -> OperatingProblem {
    let fault = shortened(fault);
    let sentence = format!("Temporary rules are lost, or end with the process: {fault}.");
    problem(ProblemSeverity::Warning, ProblemKind::Rules, "", sentence)
}

/// Returns the first line of a cause, without its last period, cut where it is long.
fn shortened(cause: &str) -> String {
    let line = cause.lines().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or_default().trim().trim_end_matches('.');
    match line.char_indices().nth(LONGEST_CAUSE) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::origins::tests::seen;
    use sluicegate_record::RequestTotals;

    fn seen_with(states: &[ServerStatus]) -> OriginView {
        let mut origin = seen().remove(0);
        let server = origin.servers.remove(1);
        origin.servers = states
            .iter()
            .map(|state| ServerView {
                state: *state,
                ..server.clone()
            })
            .collect();
        origin.unresolved = 0;
        origin
    }

    /// Goal: an origin is a problem by what its servers do for clients. Method: servers in each state, none, and a name without an address.
    #[test]
    fn an_origin_is_judged_by_its_servers() {
        use ServerStatus::{Down, Draining, Ejected, Failing, SlowStart, Unchecked, Up};
        let told = |states: &[ServerStatus]| {
            origin(&seen_with(states)).map(|problem| (problem.severity, problem.sentence))
        };
        for well in [&[Up, Unchecked][..], &[SlowStart], &[Up, Draining]] {
            assert_eq!(told(well), None, "{well:?}");
        }
        let failure = "127.0.0.1:3001: ttfb-timeout: no response head within 30s";
        for (states, severity, sentence) in [
            (
                &[Failing, Failing][..],
                ProblemSeverity::Critical,
                format!("No server of origin app works: 2 failing; {failure}."),
            ),
            (
                &[Down, Ejected],
                ProblemSeverity::Critical,
                "No server of origin app works: 1 down, 1 ejected; 127.0.0.1:3001: its health check fails.".to_owned(),
            ),
            (
                &[Draining],
                ProblemSeverity::Critical,
                "No server of origin app works: 1 draining.".to_owned(),
            ),
            (
                &[Up, Failing, Up],
                ProblemSeverity::Warning,
                format!("1 of 3 servers of origin app fails; {failure}."),
            ),
            (
                &[],
                ProblemSeverity::Critical,
                "Origin app has no server: no address of it is known.".to_owned(),
            ),
        ] {
            assert_eq!(told(states), Some((severity, sentence)));
        }
        let unknown = OriginView {
            unresolved: 2,
            ..seen_with(&[Up])
        };
        let told = origin(&unknown).expect("a problem");
        assert_eq!(
            told.sentence,
            "2 of the names of origin app cannot be resolved."
        );
    }

    /// Goal: failed requests are a problem by their share. Method: shares around a twentieth, and a gateway whose only request failed.
    #[test]
    fn failed_requests_are_a_problem_by_their_share() {
        let told = |all, failed_by_gateway, failed_by_origins| {
            let figures = RequestFigures {
                seconds: 10.0,
                requests: RequestTotals {
                    all,
                    failed_by_gateway,
                    failed_by_origins,
                    ..RequestTotals::default()
                },
                latency_ms: None,
            };
            requests(&figures).map(|problem| problem.sentence)
        };
        for well in [(0, 0, 0), (100, 2, 2), (10, 2, 0)] {
            assert_eq!(told(well.0, well.1, well.2), None, "{well:?}");
        }
        assert!(told(1, 1, 0).is_some() && told(100, 2, 3).is_some());
        assert_eq!(
            told(50, 40, 3).expect("a problem"),
            "86 % of requests fail: of 50 in 10 s the gateway answered 40 with 5xx, origins 3."
        );
    }

    /// Goal: a refused reload is said with its first error, and one that succeeded is none. Method: both reports, with a warning before the
    /// error; a cause without end.
    #[test]
    fn a_refused_reload_is_said_with_its_cause() {
        let report = |error: Option<&str>| ReloadReport {
            trigger: sluicegate_process::ReloadTrigger::Files,
            changes_omitted: 0,
            at: Timestamp::from_secs(1_795_245_038),
            error: error.map(str::to_owned),
            pending_restart: Vec::new(),
            changes: Vec::new(),
        };
        assert_eq!(reload(&report(None)), None);
        let refused = reload(&report(Some(
            "\ngateway.toml:9:1: warning: why?\n   |\n 9 | a\n\ngateway.toml:1:1: error: no.\nmore\n",
        )));
        assert_eq!(
            refused.expect("a problem").sentence,
            "The last reload was refused at 2026-11-21T07:10:38.000Z, and the former configuration stays: \
             gateway.toml:1:1: error: no."
        );
        let long = reload(&report(Some(&"ä".repeat(5_000)))).expect("a problem");
        assert!(long.sentence.chars().count() < 300, "{}", long.sentence);
    }

    /// Goal: a limit and the directory say what and since when. Method: one of each.
    #[test]
    fn other_parts_say_what_is_wrong_with_them() {
        let since = Timestamp::from_secs(1_795_245_038);
        let period = OverflowPeriod {
            since,
            until: since.saturating_add(Duration::from_secs(60)),
        };
        assert_eq!(
            overflow("otp", 1024, period).sentence,
            "The limit otp has no room: beyond its capacity of 1024 keys new ones share counters, since 2026-11-21T07:10:38.000Z."
        );
        let health = |error: Option<&str>| DirectoryHealth {
            path: "/var/lib/sluicegate".into(),
            last_error: error.map(str::to_owned),
            errors: 1,
        };
        assert_eq!(state_directory(&health(None)), None);
        let broken = state_directory(&health(Some("read-only"))).expect("a problem");
        assert!(
            broken.sentence.ends_with("read-only."),
            "{}",
            broken.sentence
        );
    }
}
