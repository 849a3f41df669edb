//! Draws what lies over the panes: the help, a key, a server.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Wrap};

use super::client_view::SHOWN_CLIENTS;
use super::history::EventMark;
use super::key_view::{KeyDetail, written_values};
use super::numbers::per_second;
use super::state::TopState;

/// The keys of the help.
const HELP: [(&str, &str); 10] = [
    ("arrows, j k", "choose a line"),
    ("Tab, left, right", "limits, keys, servers"),
    (
        "Enter",
        "from a limit to its keys, from a key or a server to its detail",
    ),
    ("Esc", "back; in limits it takes the filter away"),
    ("/", "show limits whose name contains a text"),
    ("e", "what happened within the last hour"),
    ("c", "the clients that are rejected most"),
    ("Home, End", "first line, last line"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
];

/// Draws the help.
pub(super) fn draw_help(frame: &mut Frame<'_>) {
    let lines = HELP.map(|(keys, does)| format!("{keys:<18}{does}"));
    draw_overlay(frame, "help", lines.to_vec());
}

/// Draws what happened, the latest first.
pub(super) fn draw_marks(frame: &mut Frame<'_>, state: &TopState) {
    let height = usize::from(frame.area().height.saturating_sub(2));
    let mut lines: Vec<String> = state
        .past
        .marks()
        .take(height)
        .map(EventMark::line)
        .collect();
    if lines.is_empty() {
        lines.push("nothing within the last hour".to_owned());
    }
    draw_overlay(frame, "what happened", lines);
}

/// Draws the key that was entered.
pub(super) fn draw_key(frame: &mut Frame<'_>, state: &TopState) {
    let lines = match &state.detail {
        Some(detail) => {
            let nearest = state.nearest.as_ref();
            let hidden = nearest.and_then(|nearest| nearest.key_values_hidden.as_deref());
            key_lines(detail, hidden)
        }
        None => vec!["asking the gateway".to_owned()],
    };
    draw_overlay(frame, "key", lines);
}

/// Draws the clients that are rejected most.
pub(super) fn draw_clients(frame: &mut Frame<'_>, state: &TopState) {
    let lines = match &state.rejected {
        Some(clients) => clients.lines(SHOWN_CLIENTS),
        None => vec!["only who has a token is shown clients; set [admin] token_file".to_owned()],
    };
    draw_overlay(frame, "rejected clients", lines);
}

/// Returns what is known of a key, a fact a line. `hidden` is the reason for which no values are shown.
fn key_lines(detail: &KeyDetail, hidden: Option<&str>) -> Vec<String> {
    let values = written_values(detail.key_values.as_deref());
    let unknown = hidden.unwrap_or("unknown until its next request");
    let mut lines = vec![
        format!("key       {} of limit {}", detail.key, detail.limit),
        format!("who       {}", values.as_deref().unwrap_or(unknown)),
        format!("next      {}", detail.next),
    ];
    for rate in &detail.rates {
        let seconds = |seconds: Option<f64>| {
            seconds.map_or("never".to_owned(), |seconds| format!("{seconds:.1} s"))
        };
        lines.push(format!(
            "rate      {}: {} of {} used, more in {}, all free in {}",
            rate.rate,
            rate.used,
            rate.limit,
            seconds(rate.next),
            seconds(rate.reset)
        ));
    }
    if let Some(ban) = &detail.ban {
        lines.push(format!(
            "banned    for {:.0} s more, ban {} in a row",
            ban.left, detail.ban_level
        ));
    }
    if let Some(in_flight) = detail.in_flight {
        lines.push(format!("in flight {in_flight}"));
    }
    if detail.in_overflow {
        lines.push(
            "overflow  the table is full, so the counts may be those of other keys".to_owned(),
        );
    }
    lines
}

/// Draws the chosen server.
pub(super) fn draw_server(frame: &mut Frame<'_>, state: &TopState) {
    let Some(server) = state.view.servers.get(state.server) else {
        return;
    };
    let mut lines = vec![
        format!("server    {} of origin {}", server.address, server.origin),
        format!(
            "state     {}, {} in flight, {} requests of the origin wait",
            server.state, server.in_flight, server.pending
        ),
        format!(
            "attempts  {:.0} in all, {} a second",
            server.attempts.total,
            per_second(server.attempts)
        ),
        format!(
            "errors    {:.0} in all, {} a second",
            server.errors.total,
            per_second(server.errors)
        ),
    ];
    if let Some(limit) = &server.limit {
        let baseline = limit.baseline_ms;
        let baseline = baseline.map_or("not measured yet".to_owned(), |ms| format!("{ms:.1} ms"));
        lines.push(format!(
            "limit     {} requests at once, at least {}; {} wait; latency without a queue {baseline}",
            limit.requests, limit.min, limit.waiting
        ));
    }
    if let Some(error) = &server.last_error {
        lines.push(format!(
            "latest    {} {}: {}",
            error.at, error.failure, error.reason
        ));
    }
    draw_overlay(frame, "server", lines);
}

/// Draws lines over the middle of the screen.
fn draw_overlay(frame: &mut Frame<'_>, title: &str, lines: Vec<String>) {
    let area = frame.area();
    let width = area.width.saturating_sub(4).min(90);
    let wrapped =
        |line: &String| u16::try_from(line.chars().count()).unwrap_or(u16::MAX) / width.max(1) + 1;
    let height = lines
        .iter()
        .map(wrapped)
        .fold(2, u16::saturating_add)
        .min(area.height);
    let [_, rows, _] = Layout::vertical([
        Constraint::Fill(1),
        Constraint::Length(height),
        Constraint::Fill(1),
    ])
    .areas(area);
    let [_, place, _] = Layout::horizontal([
        Constraint::Fill(1),
        Constraint::Length(width),
        Constraint::Fill(1),
    ])
    .areas(rows);
    frame.render_widget(Clear, place);
    let block = Block::new()
        .borders(Borders::ALL)
        .title(format!(" {title} (Esc closes) "));
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    frame.render_widget(
        Paragraph::new(lines)
            .wrap(Wrap { trim: false })
            .block(block),
        place,
    );
}
