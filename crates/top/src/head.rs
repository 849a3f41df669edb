//! Writes the lines above the panes: the gateway, what its requests come to, and what is wrong with it.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use sluicegate_limiter::Timestamp;

use super::numbers::{millis, per_second, span};
use super::render::alarm;
use super::state::{GatewayLink, TopState};
use super::view::{CountRate, GatewayView};

/// Problems that are shown; the others are counted.
const PROBLEMS: usize = 4;
/// Lines of a problem.
const PROBLEM_LINES: usize = 2;

/// The height of a screen from which on it has room for the last hour: that of one frame with nothing to show.
const LEAST_HEIGHT: u16 = 13;

/// Returns the height of the head on this screen.
pub(super) fn head_height(state: &TopState, screen: Rect) -> u16 {
    let clients = usize::from(client_line(state).is_some());
    let past = past_lines(state, screen).len();
    let lines = 2 + clients + past + problem_lines(&state.view, screen.width).len();
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// Draws the head.
pub(super) fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &TopState, now: Timestamp) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let alarm = alarm(state.palette);
    let is_silent = state.silence(now).is_some();
    let view = &state.view;
    let has_failures = [
        view.rejected,
        view.failed_by_gateway,
        view.failed_by_origins,
    ]
    .iter()
    .any(|count| count.per_second.is_some_and(|rate| rate > 0.0));
    let mut lines = vec![
        Line::styled(
            gateway_line(state, now),
            if is_silent { alarm } else { bold },
        ),
        Line::styled(
            request_line(view),
            if has_failures { alarm } else { Style::new() },
        ),
    ];
    lines.extend(client_line(state).map(Line::raw));
    let problems = problem_lines(view, area.width).into_iter();
    lines.extend(problems.map(|line| Line::styled(line, alarm)));
    lines.extend(past_lines(state, frame.area()));
    for (line, row) in lines.into_iter().zip(area.rows()) {
        frame.render_widget(line, row);
    }
}

fn gateway_line(state: &TopState, now: Timestamp) -> String {
    let view = &state.view;
    match (state.silence(now), &state.link) {
        (Some((silence, reason)), _) => {
            format!(
                "no answer for {}, asking again: {reason}",
                span(silence.as_secs())
            )
        }
        (None, GatewayLink::Connecting) => format!("{}: asking", state.gateway),
        (None, _) => format!(
            "sluicegate {} at {}  up {}  {} requests/s  {} in flight",
            view.version,
            state.gateway,
            span(view.uptime),
            per_second(view.requests),
            view.requests_in_flight
        ),
    }
}

/// Writes the results of requests, each with its rate, and the latency of the last seconds.
fn request_line(view: &GatewayView) -> String {
    let failed = CountRate {
        total: view.failed_by_gateway.total + view.failed_by_origins.total,
        per_second: (view.failed_by_gateway.per_second)
            .zip(view.failed_by_origins.per_second)
            .map(|(gateway, origins)| gateway + origins),
    };
    let latency = view.latency_ms.map_or_else(String::new, |latency| {
        format!("  p50 {}  p99 {}", millis(latency.p50), millis(latency.p99))
    });
    format!(
        "{} rejected/s  {} failed/s (origins {})  {} gone/s{latency}",
        per_second(view.rejected),
        per_second(failed),
        per_second(view.failed_by_origins),
        per_second(view.clients_gone),
    )
}

/// Returns the last hour as lines: rates of requests, and the latest mark.
fn past_lines(state: &TopState, screen: Rect) -> Vec<Line<'static>> {
    if screen.height < LEAST_HEIGHT {
        return Vec::new();
    }
    let bars = state.past.lines(screen.width.into()).into_iter();
    let mark = state.past.marks().next().map(|mark| {
        let style = if mark.is_bad() {
            alarm(state.palette)
        } else {
            Style::new()
        };
        Line::styled(mark.line(), style)
    });
    bars.map(Line::raw).chain(mark).collect()
}

/// Returns the clients that are rejected most, on one line; `None` where none are.
fn client_line(state: &TopState) -> Option<String> {
    state.rejected.as_ref()?.line()
}

/// Returns the problems as lines of at most `width` characters.
fn problem_lines(view: &GatewayView, width: u16) -> Vec<String> {
    let problems = view.problems.iter().take(PROBLEMS);
    let mut lines: Vec<String> = problems
        .flat_map(|problem| wrapped(&format!("! {}", problem.sentence), width.into()))
        .collect();
    let more = view.problems.len().saturating_sub(PROBLEMS) + view.problems_omitted;
    if more > 0 {
        lines.push(format!("! and {more} more {}, in /status", noun(more)));
    }
    lines
}

fn noun(problems: usize) -> &'static str {
    match problems {
        1 => "problem",
        _ => "problems",
    }
}

/// Breaks a text between words into at most [`PROBLEM_LINES`] lines; a last one that is too long ends with a sign.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let count = lines.len();
        let Some(line) = lines.last_mut() else {
            break;
        };
        let length = line.chars().count();
        if length > 0 && length + 1 + word.chars().count() > width && count < PROBLEM_LINES {
            lines.push(format!("  {word}"));
        } else {
            if length > 0 {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.iter().map(|line| cut(line, width)).collect()
}

/// Returns a line of at most `width` characters, which ends with a sign where the rest is left out.
fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Size;

    use super::super::history::tests::hour;
    use super::super::once::screen_text;
    use super::super::sample::ProblemStatus;
    use super::super::state::ScreenOverlay;
    use super::super::state::tests::state;
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_795_245_038);

    /// Goal: an operator sees failures and their cause without a key. Method: a gateway that fails requests, with six problems, of which
    /// one is longer than a line; the whole screen.
    #[test]
    fn failures_and_problems_are_on_top() {
        let mut state = state();
        let cause = "connect: Connection refused (os error 111)";
        let problem = |sentence: String| ProblemStatus {
            sentence,
            ..ProblemStatus::default()
        };
        let long = format!("No server of origin app works: 2 failing; 127.0.0.1:3001: {cause}.");
        state.view.problems = vec![problem(long)];
        for at in 1..6 {
            let sentence = format!("The limit l{at} has no room.");
            state.view.problems.push(problem(sentence));
        }
        state.view.problems_omitted = 3;
        let text = screen_text(&state, Size::new(80, 24), NOW);
        for part in [
            "5.0 rejected/s  3.0 failed/s (origins 1.0)  0 gone/s  p50 1.2 ms  p99 2.5 s\n",
            "! No server of origin app works: 2 failing; 127.0.0.1:3001: connect: Connection\n  refused (os error 111).\n",
            "! The limit l3 has no room.\n",
            "! and 5 more problems, in /status\n",
            "servers of origins (2)",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        assert!(!text.contains("l4"), "{text}");
        assert_eq!(text.lines().count(), 24);
    }

    /// Goal: a reader sees that something is left out, and how much. Method: a sentence for four lines, and one problem beyond those that
    /// are shown.
    #[test]
    fn a_cut_problem_ends_with_a_sign() {
        let mut state = state();
        let sentence = format!("The {}end.", "origin app fails ".repeat(20));
        let problem = || ProblemStatus {
            sentence: sentence.clone(),
            ..ProblemStatus::default()
        };
        state.view.problems = (0..=PROBLEMS).map(|_| problem()).collect();
        let lines = problem_lines(&state.view, 40);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 40),
            "{lines:?}"
        );
        assert!(lines[PROBLEM_LINES - 1].ends_with('…'), "{lines:?}");
        assert_eq!(lines.last().unwrap(), "! and 1 more problem, in /status");
    }

    /// Goal: a screen opens with what happened before. Method: an hour with a refused reload, on a usual screen and on one that is too low;
    /// the list of all events.
    #[test]
    fn the_last_hour_is_shown_where_there_is_room() {
        let mut state = state();
        state.past = hour();
        let text = screen_text(&state, Size::new(80, 24), NOW);
        for part in [
            "requests of 60 min ███",
            " 10 /s peak\n",
            "07:00:00Z The reload was refused: a key.\n",
            "servers of origins (2)",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        assert!(!screen_text(&state, Size::new(80, 12), NOW).contains("peak"));
        state.overlay = ScreenOverlay::Marks;
        let text = screen_text(&state, Size::new(80, 24), NOW);
        assert!(
            text.contains("06:40:00Z Limit otp: banned. (3 times)"),
            "{text}"
        );
    }
}
