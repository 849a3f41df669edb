//! Keeps what happened to the gateway: reloads, acts of operators, problems that began and ended.
//!
//! # Limits
//! [`HISTORY_MARKS`] marks of acts and as many of problems. Acts of one kind at one object within one step are one mark with their number
//! where their text is the same; beyond [`APART`] of them also where it differs. Of too many the oldest of the most frequent kind goes
//! first, so that a script that bans a thousand keys displaces no reload.

use std::collections::VecDeque;

use serde::Serialize;
use sluicegate_base::bounds::{HISTORY_MARK_TEXT, HISTORY_MARKS, HISTORY_STEP};
use sluicegate_limiter::Timestamp;

/// Marks of one kind at one object within one step that have texts of their own.
const APART: usize = 8;

/// The sort of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// The process began to serve.
    Start,
    /// The process took over from another by an upgrade.
    Upgrade,
    /// The process began to drain.
    Drain,
    /// A configuration came into force, or was found to be the same.
    Reload,
    /// A configuration was refused.
    ReloadRefused,
    /// An operator banned a key.
    Ban,
    /// An operator lifted a ban.
    Unban,
    /// An operator changed the counters of a key.
    Key,
    /// An operator took a server out of service.
    ServerDrain,
    /// An operator brought a server back.
    ServerUndrain,
    /// An operator purged stored responses.
    Purge,
    /// An operator set or removed a temporary rule.
    Rule,
    /// A problem began: a store that is away, servers that fail, a limit without room.
    Problem,
    /// A problem ended.
    Recovery,
}

/// An event, or several of one kind at one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryMark {
    /// Its number, counted from the start of the process.
    pub id: u64,
    /// The time of the first.
    pub at: Timestamp,
    /// The time of the last.
    pub last: Timestamp,
    /// Its sort.
    pub kind: MarkKind,
    /// The limit, the origin or the server; empty where there is one only.
    pub name: String,
    /// The sentence that says what happened last.
    pub text: String,
    /// The number of events.
    pub count: u64,
}

/// The latest marks.
#[derive(Debug, Default)]
pub(super) struct MarkLog {
    acts: VecDeque<HistoryMark>,
    problems: VecDeque<HistoryMark>,
    next: u64,
    changes: u64,
}

impl MarkKind {
    /// Returns whether it is about a reload.
    fn is_reload(self) -> bool {
        matches!(self, Self::Reload | Self::ReloadRefused)
    }

    /// Returns whether a problem begins or ends.
    fn is_problem(self) -> bool {
        matches!(self, Self::Problem | Self::Recovery)
    }
}

impl MarkLog {
    /// Adds an event.
    pub(super) fn add(&mut self, at: Timestamp, kind: MarkKind, name: &str, text: &str) {
        self.changes += 1;
        let marks = if kind.is_problem() {
            &mut self.problems
        } else {
            &mut self.acts
        };
        let name = shortened(name);
        let text = shortened(text);
        let is_recent = |mark: &&mut HistoryMark| at.saturating_since(mark.at) < HISTORY_STEP;
        let recent = marks.iter_mut().rev().take_while(is_recent);
        let alike = recent.filter(|mark| mark.kind == kind && mark.name == name);
        let mut alike: Vec<&mut HistoryMark> = alike.collect();
        let same = alike.iter().position(|mark| mark.text == text);
        // Reloads are few, and their texts have the changes.
        let is_crowded = alike.len() >= APART && !kind.is_reload();
        let joined = same.or(is_crowded.then_some(0));
        if let Some(mark) = joined.and_then(|at| alike.get_mut(at)) {
            mark.count += 1;
            mark.last = at;
            mark.text = text;
            return;
        }
        marks.push_back(HistoryMark {
            id: self.next,
            at,
            last: at,
            kind,
            name,
            text,
            count: 1,
        });
        self.next += 1;
        if marks.len() > HISTORY_MARKS {
            drop_oldest_of_most(marks);
        }
    }

    /// Returns a number that grows with each event.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the marks in their order.
    pub(super) fn list(&self) -> Vec<HistoryMark> {
        let mut marks: Vec<_> = self.acts.iter().chain(&self.problems).cloned().collect();
        marks.sort_by_key(|mark| mark.id);
        marks
    }
}

/// Removes the oldest mark of the kind that has the most.
fn drop_oldest_of_most(marks: &mut VecDeque<HistoryMark>) {
    let number = |kind| marks.iter().filter(|mark| mark.kind == kind).count();
    let counts: Vec<usize> = marks.iter().map(|mark| number(mark.kind)).collect();
    let most = counts.iter().max();
    if let Some(at) = counts.iter().position(|count| Some(count) == most) {
        marks.remove(at);
    }
}

/// Returns the first line of a text, cut at [`HISTORY_MARK_TEXT`] bytes.
fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.len() <= HISTORY_MARK_TEXT {
        return line.to_owned();
    }
    let end = line.floor_char_boundary(HISTORY_MARK_TEXT - '…'.len_utf8());
    format!("{}…", &line[..end])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_secs(secs))
    }

    /// Goal: neither a flapping server nor a script of bans displaces a reload, and memory is bounded. Method: a reload, then a thousand
    /// problems and recoveries, and a thousand bans within ten seconds and beyond.
    #[test]
    fn a_reload_stays_beside_many_problems_and_bans() {
        let mut log = MarkLog::default();
        log.add(at(0), MarkKind::Reload, "", "Configuration 2 is in force.");
        for turn in 0..1000 {
            log.add(
                at(turn),
                MarkKind::Problem,
                "app",
                "No server of origin app works.",
            );
            log.add(at(turn), MarkKind::Recovery, "app", "Over.");
        }
        for turn in 0..1000 {
            let text = format!("key {turn}");
            log.add(at(turn / 100), MarkKind::Ban, "otp", &text);
        }
        let marks = log.list();
        assert!(marks.len() <= 2 * HISTORY_MARKS);
        assert!(marks.is_sorted_by_key(|mark| mark.id));
        let acts: Vec<_> = marks
            .iter()
            .filter(|mark| !mark.kind.is_problem())
            .collect();
        assert_eq!(acts.len(), 1 + APART);
        assert_eq!((acts[0].kind, acts[0].at), (MarkKind::Reload, at(0)));
        let texts: Vec<_> = acts.iter().skip(1).map(|mark| &*mark.text).collect();
        assert_eq!(
            texts[..7],
            [
                "key 0", "key 1", "key 2", "key 3", "key 4", "key 5", "key 6"
            ]
        );
        assert_eq!(
            (acts[8].count, &*acts[8].text, acts[8].last),
            (993, "key 999", at(9))
        );
        assert_eq!(log.changes(), 3001);
        log.add(at(10), MarkKind::Ban, "otp", "key");
        assert_eq!(log.list().last().map(|mark| mark.count), Some(1));
        for text in ["Reloaded: one.", "Reloaded: two.", "Reloaded: two."] {
            log.add(at(11), MarkKind::Reload, "", text);
        }
        let marks = log.list();
        let latest = marks.iter().rev().map(|mark| (&*mark.text, mark.count));
        assert_eq!(
            latest.take(2).collect::<Vec<_>>(),
            [("Reloaded: two.", 2), ("Reloaded: one.", 1)]
        );
    }

    /// Goal: two acts of an operator within a step are two marks, a repeated one is one, and no number of others displaces a reload.
    /// Method: rules at one object, then a flood of bans at many objects.
    #[test]
    fn acts_with_their_own_texts_have_their_own_marks() {
        let mut log = MarkLog::default();
        log.add(at(0), MarkKind::Reload, "", "Reloaded: one.");
        for text in ["Blocked a.", "Removed a.", "Blocked a."] {
            log.add(at(1), MarkKind::Rule, "", text);
        }
        let marks = log.list();
        let shown: Vec<_> = marks.iter().map(|mark| (&*mark.text, mark.count)).collect();
        let expected = [("Reloaded: one.", 1), ("Blocked a.", 2), ("Removed a.", 1)];
        assert_eq!(shown, expected);
        for turn in 0..10 * HISTORY_MARKS {
            log.add(at(2), MarkKind::Ban, &turn.to_string(), "Banned.");
        }
        let marks = log.list();
        assert_eq!(marks.len(), HISTORY_MARKS);
        assert_eq!(
            (marks[0].kind, marks[1].kind),
            (MarkKind::Reload, MarkKind::Rule)
        );
    }

    /// Goal: a text is one line of a bounded length. Method: a text of several lines and a long one of wide characters.
    #[test]
    fn a_text_is_one_bounded_line() {
        let mut log = MarkLog::default();
        log.add(
            at(0),
            MarkKind::ReloadRefused,
            &"ä".repeat(500),
            "first\nsecond",
        );
        let mark = &log.list()[0];
        assert_eq!(mark.text, "first");
        assert!(
            mark.name.len() <= HISTORY_MARK_TEXT && mark.name.ends_with("ä…"),
            "{}",
            mark.name
        );
    }
}
