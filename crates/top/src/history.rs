//! Owns the last hour of the gateway as `/history` says it, and writes it as lines of bars.

use std::collections::BTreeMap;

use serde::Deserialize;
use sluicegate_base::bounds::{HISTORY_MARKS, HISTORY_STEP, HISTORY_STEPS};

use super::numbers::short;

/// Milliseconds that the bars cover at most, and those of a gateway that has just started.
const SPAN: u64 = HISTORY_STEPS as u64 * HISTORY_STEP.as_secs() * 1_000;
const LEAST_SPAN: u64 = 300_000;
/// Seconds over which the rate of the unfinished step is taken.
const STEP_SECONDS: f64 = HISTORY_STEP.as_secs() as f64;
/// Columns of a figure beside its bars: two blanks and the peak.
const PEAK: usize = 15;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The `/history`, in part. What an older gateway does not say is empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct HistoryAnswer {
    started: String,
    first: u64,
    steps: StepFigures,
    marks: Vec<EventMark>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct StepFigures {
    ended: Vec<u64>,
    seconds: Vec<f64>,
    all: Vec<f64>,
    rejected: Vec<f64>,
    failed_by_gateway: Vec<f64>,
    failed_by_origins: Vec<f64>,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct EventMark {
    id: u64,
    at: String,
    kind: String,
    text: String,
    count: u64,
}

/// The last hour, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PastHour {
    started: String,
    steps: BTreeMap<u64, PastStep>,
    marks: BTreeMap<u64, EventMark>,
}

/// The requests of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PastStep {
    ended: u64,
    seconds: f64,
    all: f64,
    rejected: f64,
    failed: f64,
}

impl HistoryAnswer {
    /// Returns the end of the last finished step, in milliseconds since 1970; 0 without one.
    pub(super) fn last_end(&self) -> u64 {
        let ends = &self.steps.ended;
        let last = ends.len().checked_sub(2).and_then(|at| ends.get(at));
        last.copied().unwrap_or(0)
    }
}

impl EventMark {
    /// Returns whether it needs attention.
    pub(super) fn is_bad(&self) -> bool {
        matches!(&*self.kind, "problem" | "reload-refused" | "drain")
    }

    /// Writes its time of day in UTC and its sentence.
    pub(super) fn line(&self) -> String {
        let time = self.at.get(11..19).unwrap_or(&self.at);
        let count = if self.count > 1 {
            format!(" ({} times)", self.count)
        } else {
            String::new()
        };
        format!("{time}Z {}{count}", self.text)
    }
}

impl PastHour {
    /// Takes over what is new. The history of another process takes the place of all before.
    pub(super) fn take(&mut self, answer: HistoryAnswer) {
        if answer.started != self.started {
            *self = Self {
                started: answer.started.clone(),
                ..Self::default()
            };
        }
        for (at, ended) in answer.steps.ended.iter().enumerate() {
            let figure = |figures: &[f64]| figures.get(at).copied().unwrap_or(0.0);
            let steps = &answer.steps;
            let step = PastStep {
                ended: *ended,
                seconds: figure(&steps.seconds),
                all: figure(&steps.all),
                rejected: figure(&steps.rejected),
                failed: figure(&steps.failed_by_gateway) + figure(&steps.failed_by_origins),
            };
            self.steps
                .insert(answer.first.saturating_add(at as u64), step);
        }
        self.marks
            .extend(answer.marks.into_iter().map(|mark| (mark.id, mark)));
        // As many as the gateway keeps: the unfinished step too, and as many marks of problems as of commands.
        keep_last(&mut self.steps, HISTORY_STEPS + 1);
        keep_last(&mut self.marks, 2 * HISTORY_MARKS);
    }

    /// Returns the marks, the latest first.
    pub(super) fn marks(&self) -> impl Iterator<Item = &EventMark> {
        self.marks.values().rev()
    }

    /// Returns the rates of requests as lines of at most `width` characters; none before anything is known.
    pub(super) fn lines(&self, width: usize) -> Vec<String> {
        if self.steps.is_empty() {
            return Vec::new();
        }
        let title = format!("requests of {} min", self.span() / 60_000);
        let requests = self.figure(&title, width, |step| step.all);
        let half = width.saturating_sub(2) / 2;
        let rejected = self.figure("rejected", half, |step| step.rejected);
        let failed = self.figure("failed", half, |step| step.failed);
        vec![requests, format!("{rejected:<half$}  {failed}")]
    }

    /// Writes a figure: its name, bars over the hour, and its peak.
    fn figure(&self, name: &str, width: usize, count: fn(&PastStep) -> f64) -> String {
        let columns = width.saturating_sub(name.len() + 1 + PEAK);
        let rates = self.rates(columns, count);
        let peak = rates.iter().flatten().copied().fold(0.0, f64::max);
        let bars: String = rates.iter().map(|rate| bar(*rate, peak)).collect();
        format!("{name} {bars} {} /s peak", short(peak))
    }

    /// Returns the milliseconds since the first step, an hour at most.
    fn span(&self) -> u64 {
        let ends = self.steps.values().map(|step| step.ended);
        let since = ends.clone().next_back().zip(ends.clone().next());
        let since = since.map_or(0, |(last, first)| last.saturating_sub(first));
        (since + (STEP_SECONDS * 1_000.0) as u64).clamp(LEAST_SPAN, SPAN)
    }

    /// Returns the highest rate within each of `columns` parts of the hour; `None` where nothing is known.
    fn rates(&self, columns: usize, count: fn(&PastStep) -> f64) -> Vec<Option<f64>> {
        let mut rates = vec![None; columns];
        let span = self.span();
        let now = self
            .steps
            .last_key_value()
            .map_or(0, |(_, step)| step.ended);
        let mut before = PastStep::default();
        for (number, step) in &self.steps {
            let is_open = self
                .steps
                .last_key_value()
                .is_some_and(|(last, _)| last == number);
            // The step that has just begun is filled up with the one before.
            let rest = STEP_SECONDS - step.seconds;
            let rate = if is_open && rest > 0.0 && before.seconds > 0.0 {
                (count(step) + count(&before) * rest / before.seconds.max(1.0)) / STEP_SECONDS
            } else {
                count(step) / step.seconds.max(1.0)
            };
            before = *step;
            let ago = now.saturating_sub(step.ended);
            let began = ago.saturating_add((step.seconds * 1_000.0) as u64);
            let column = |ago: u64| span.saturating_sub(ago) as usize * columns / span as usize;
            if ago >= span {
                continue;
            }
            let covered = column(began)..=column(ago + 1);
            for slot in rates.get_mut(covered).into_iter().flatten() {
                *slot = Some(slot.map_or(rate, |known: f64| known.max(rate)));
            }
        }
        rates
    }
}

/// Writes a rate as a bar; nothing at all is a blank, and a rate of 0 the lowest bar.
fn bar(rate: Option<f64>, peak: f64) -> char {
    let Some(rate) = rate else {
        return ' ';
    };
    if rate <= 0.0 || peak <= 0.0 {
        return BARS[0];
    }
    let height = (rate / peak * (BARS.len() - 1) as f64).ceil() as usize;
    BARS[height.min(BARS.len() - 1)]
}

fn keep_last<T>(map: &mut BTreeMap<u64, T>, most: usize) {
    while map.len() > most {
        map.pop_first();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// An hour with ten requests a second, a minute of rejections half an hour ago, and a refused reload.
    pub(crate) fn hour() -> PastHour {
        let mut hour = PastHour::default();
        hour.take(answer(0..=360));
        hour
    }

    fn answer(steps: std::ops::RangeInclusive<u64>) -> HistoryAnswer {
        let steps: Vec<u64> = steps.collect();
        let rejected = |step: &u64| if (180..186).contains(step) { 50 } else { 0 };
        let answer = json!({
            "started": "2026-11-21T06:00:00.000Z",
            "first": 0,
            "steps": {
                "ended": steps.iter().map(|step| 1_795_241_438_000 + step * 10_000).collect::<Vec<_>>(),
                "seconds": vec![10.0; steps.len()],
                "all": vec![100; steps.len()],
                "rejected": steps.iter().map(rejected).collect::<Vec<_>>(),
                "failed_by_gateway": vec![0; steps.len()],
                "failed_by_origins": vec![0; steps.len()],
            },
            "marks": [
                { "id": 0, "at": "2026-11-21T06:40:00.000Z", "kind": "ban", "text": "Limit otp: banned.", "count": 3 },
                { "id": 1, "at": "2026-11-21T07:00:00.000Z", "kind": "reload-refused",
                    "text": "The reload was refused: a key.", "count": 1 },
            ],
        });
        serde_json::from_value(answer).expect("an answer")
    }

    /// Goal: a person sees when something happened within the hour. Method: the lines of an hour with a burst in its middle.
    #[test]
    fn bars_show_the_hour() {
        let hour = hour();
        let lines = hour.lines(80);
        assert_eq!(lines.len(), 2);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{lines:?}"
        );
        assert!(
            lines[0].starts_with("requests of 60 min ███") && lines[0].ends_with(" 10 /s peak"),
            "{lines:?}"
        );
        let rejected: Vec<char> = lines[1].chars().skip("rejected ".len()).take(15).collect();
        let highest: Vec<usize> = (0..15).filter(|at| rejected[*at] == '█').collect();
        assert_eq!(highest, [7], "{lines:?}");
        assert!(
            lines[1].contains("5.0 /s peak") && lines[1].ends_with("0 /s peak"),
            "{lines:?}"
        );
        let marks: Vec<_> = hour.marks().map(EventMark::line).collect();
        assert_eq!(
            marks,
            [
                "07:00:00Z The reload was refused: a key.",
                "06:40:00Z Limit otp: banned. (3 times)"
            ]
        );
        for width in 0..40 {
            let lines = hour.lines(width);
            assert_eq!(lines.len(), 2);
        }
        assert_eq!(PastHour::default().lines(80), Vec::<String>::new());
        // A gateway that has just started has few steps, and no gaps between them.
        let mut young = PastHour::default();
        young.take(answer(0..=30));
        let line = young.lines(200).remove(0);
        assert!(
            line.starts_with("requests of 5 min █") && !line.contains("█ █"),
            "{line}"
        );
    }

    /// Goal: an update takes the place of the unfinished step, another process that of everything, and memory is bounded. Method: updates.
    #[test]
    fn updates_continue_the_hour() {
        let mut hour = hour();
        let update = |started: &str, first: u64| -> HistoryAnswer {
            let answer = json!({ "started": started, "first": first, "steps": {
                "ended": [1_795_245_048_000_u64, 1_795_245_049_000_u64], "seconds": [10.0, 1.0], "all": [700, 0] } });
            serde_json::from_value(answer).expect("an answer")
        };
        let answer = update("2026-11-21T06:00:00.000Z", 360);
        assert_eq!(answer.last_end(), 1_795_245_048_000);
        hour.take(answer);
        assert_eq!((hour.steps.len(), hour.marks.len()), (361, 2));
        assert!(hour.lines(80)[0].ends_with(" 70 /s peak"));
        hour.take(update("2026-11-21T08:00:00.000Z", 0));
        assert_eq!((hour.steps.len(), hour.marks.len()), (2, 0));
    }
}
