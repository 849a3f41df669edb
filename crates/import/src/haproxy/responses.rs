//! Reads rules that edit fields, and applies those of responses: `http-response` and `http-after-response`.

use super::evaluation::CellEffect;
use super::rules::{RuleKind, RulePhase, SectionRule};
use crate::cells::{ConditionTerm, RequestCell, RuleCondition, SignedTerm};
use crate::ledger::Ledger;
use crate::model::FieldEdits;
use crate::own_fields::{self, EditKind, EditedMessage, is_own_field};
use crate::slots;

/// An edit of a field.
pub(super) struct FieldEdit {
    pub(super) kind: EditKind,
    pub(super) name: String,
    pub(super) value: String,
}

impl FieldEdit {
    /// Reads `set-header`, `add-header` or `del-header`; `None` is another action.
    pub(super) fn read(words: &[String], message: EditedMessage) -> Result<Option<Self>, String> {
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        let kind = match word(1) {
            "set-header" => EditKind::Set,
            "add-header" => EditKind::Add,
            "del-header" if words.len() > 3 => {
                return Err("a route removes fields by their names, not by a pattern".to_owned());
            }
            "del-header" => EditKind::Remove,
            _ => return Ok(None),
        };
        let name = word(2).to_ascii_lowercase();
        let is_request = message == EditedMessage::Request;
        if is_request && name == "host" && kind != EditKind::Remove {
            return Err("see [origin.NAME] host".to_owned());
        }
        // The value may be that of the gateway.
        let is_own = is_request && is_own_field(&name);
        if !is_own {
            own_fields::check_edit(&name, message, kind)?;
        }
        let value = match word(3) {
            "%[src]" if is_request => "{client_ip}".to_owned(),
            value if is_own => value.to_owned(),
            value => text(value)?,
        };
        Ok(Some(Self { kind, name, value }))
    }

    /// Adds the edit to others.
    pub(super) fn apply(&self, edits: &mut FieldEdits) -> Result<(), &'static str> {
        edits.apply(self.kind, &self.name, &self.value)
    }
}

/// The difference of a rule that HAProxy applies to the responses of servers alone.
const OWN_ANSWERS: &str = "answers of the gateway's own have the field too";

/// The difference of Strict-Transport-Security for connections with TLS alone.
const IN_CLEAR_TEXT: &str = "the field is in answers in clear text too, where browsers ignore it";

const STRICT_TRANSPORT: &str = "strict-transport-security";

/// A rule that is read.
pub(super) struct ResponseRule {
    pub(super) edit: FieldEdit,
    pub(super) phase: RulePhase,
    pub(super) difference: Option<&'static str>,
}

/// Reads a rule from its words. A condition on TLS that makes no difference is removed.
pub(super) fn read(
    words: &[String],
    condition: &mut RuleCondition,
) -> Result<ResponseRule, String> {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let edit = FieldEdit::read(words, EditedMessage::Response)?.ok_or_else(|| {
        let action = words[..words.len().min(2)].join(" ");
        format!("see [response_headers] in place of `{action}`")
    })?;
    let is_removal = edit.kind == EditKind::Remove;
    let (phase, mut difference) = match word(0) {
        "http-response" => (RulePhase::Response, (!is_removal).then_some(OWN_ANSWERS)),
        _ => (RulePhase::AfterResponse, None),
    };
    if edit.name == STRICT_TRANSPORT && is_for_tls(condition) {
        condition.alternatives = vec![Vec::new()];
        difference = Some(IN_CLEAR_TEXT);
    }
    let terms = condition.alternatives.iter().flatten();
    let is_known =
        |it: &SignedTerm| matches!(it.term, ConditionTerm::Tls | ConditionTerm::Constant(_));
    if !terms.into_iter().all(is_known) {
        return Err(
            "an edit of responses has no condition; see [route.response_headers]".to_owned(),
        );
    }
    Ok(ResponseRule {
        edit,
        phase,
        difference,
    })
}

/// Returns a value as a template without slots.
fn text(value: &str) -> Result<String, String> {
    let is_plain = |c: char| c == ' ' || (c.is_ascii_graphic() && c != '%');
    if !value.chars().all(is_plain) {
        return Err(
            "no slot of a field is this; see [route.request_headers] and [route.response_headers]"
                .to_owned(),
        );
    }
    Ok(slots::escaped(value))
}

/// Returns true if a condition holds for all requests over TLS, and for no other.
fn is_for_tls(condition: &RuleCondition) -> bool {
    let alternatives = condition.alternatives.as_slice();
    matches!(alternatives, [terms] if matches!(terms.as_slice(), [only] if only.term == ConditionTerm::Tls && !only.is_negated))
}

/// Applies the rules that a response passes, those of the backend first. HAProxy applies `http-response` to responses of servers.
pub(super) fn apply(
    effect: &mut CellEffect,
    cell: &RequestCell,
    rules: &[&SectionRule],
    ledger: &mut Ledger,
) {
    let is_forwarded = effect.answer.is_none() && effect.backend.is_some();
    let phases = [RulePhase::Response, RulePhase::AfterResponse];
    for phase in phases
        .into_iter()
        .filter(|it| is_forwarded || *it == RulePhase::AfterResponse)
    {
        let of_phase = |it: &&&SectionRule| it.phase == phase && cell.always(&it.condition);
        for rule in rules.iter().filter(of_phase) {
            let RuleKind::Response(edit) = &rule.kind else {
                continue;
            };
            match edit.apply(&mut effect.response_fields) {
                Ok(()) => {
                    for id in [rule.id].iter().chain(&rule.condition.sources) {
                        ledger.translated(*id);
                    }
                    if let Some(difference) = rule.difference {
                        ledger.differs(rule.id, difference);
                    }
                }
                Err(reason) => ledger.lose(rule.id, reason),
            }
        }
    }
}
