//! Translates configurations of HAProxy.
//!
//! Each frontend becomes routes of its listeners; one that only redirects to HTTPS becomes a listener, with a route for certificate
//! authorities. Rules are applied to cells of requests, as [`crate::cells`] explains.

mod backends;
mod binds;
mod elsewhere;
mod evaluation;
mod frontend;
mod host_rules;
mod letter_case;
mod lexer;
mod limits;
mod queues;
mod redirects;
mod responses;
mod rules;
mod samples;
mod sections;
mod separation;
mod sources;
mod tables;
mod terms;
mod tls;
mod uncounted;

use self::elsewhere::FrontendOmission;
use self::frontend::FrontendImporter;
use self::rules::{RuleKind, SectionRule};
use self::sections::{ConfigSection, SectionLine};
pub(crate) use self::sections::{PREPROCESSOR, SECTIONS};
use self::tables::StickTables;
use self::tls::TlsDefaults;
use crate::ledger::Ledger;
use crate::model::GatewayModel;
use crate::position::SyntaxError;

/// Translates a text.
pub(crate) fn read(
    name: &str,
    text: &str,
    ledger: &mut Ledger,
) -> Result<GatewayModel, SyntaxError> {
    let sections = sections::parse(name, text, ledger)?;
    elsewhere::say(&sections, ledger);
    let tables = StickTables::new(&sections, ledger);
    let tls = TlsDefaults::read(&sections, ledger);
    let mut importer = FrontendImporter::new(&sections, &tables, &tls);
    let frontends = sections
        .iter()
        .filter(|it| matches!(it.kind.as_str(), "frontend" | "listen"));
    let (redirects, frontends): (Vec<_>, Vec<_>) =
        frontends.partition(|frontend| redirects_only(frontend));
    for frontend in redirects {
        importer.redirect(frontend, ledger);
    }
    importer.bound_heads(ledger);
    for frontend in frontends {
        let inherited = sections::inherited(&sections, frontend);
        let lines: Vec<&SectionLine> = frontend.lines.iter().chain(inherited).collect();
        if let Some(omission) = elsewhere::omission(frontend, &lines) {
            leave_out(frontend, omission.reason(), ledger);
            if omission == FrontendOmission::NotHttp {
                let comment = ledger.comment(frontend.id);
                ledger.fill_in(format!("{comment}: {}", omission.reason()));
            }
            continue;
        }
        importer.import(frontend, &lines, ledger);
    }
    let gateway = importer.finish(ledger);
    elsewhere::fill_in(&sections, ledger);
    Ok(gateway)
}

/// Records that a frontend is left out with all of its lines.
fn leave_out(frontend: &ConfigSection, reason: &str, ledger: &mut Ledger) {
    for id in [frontend.id]
        .into_iter()
        .chain(frontend.lines.iter().map(|it| it.id))
    {
        ledger.left_out(id, reason);
    }
}

/// Returns true if a frontend does nothing but send clients to HTTPS, and certificate authorities to a backend.
fn redirects_only(frontend: &ConfigSection) -> bool {
    let rules = rules::parse(frontend);
    let is_redirect =
        |rule: &SectionRule| matches!(rule.kind, RuleKind::ToHttps) && rules::is_for_all(rule);
    let edits_responses = |rule: &SectionRule| matches!(rule.kind, RuleKind::Response(_));
    let is_expected = |rule: &Result<SectionRule, String>| {
        rule.as_ref().is_ok_and(|rule| {
            is_redirect(rule) || rules::is_for_authorities(rule) || edits_responses(rule)
        })
    };
    frontend.kind == "frontend"
        && rules.iter().all(|(_, rule)| is_expected(rule))
        && rules.iter().flat_map(|(_, rule)| rule).any(is_redirect)
        && frontend.named("default_backend").next().is_none()
}
