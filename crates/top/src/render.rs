//! Draws a [`TopState`]: limits above, keys of the chosen limit in the middle, servers below.
//!
//! Columns that a narrow terminal has no room for are left out, the least important first.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Row, Table, TableState};
use sluicegate_limiter::Timestamp;
use sluicegate_telemetry::escape::is_hidden;

use super::columns::{self, PaneColumn};
use super::head::{draw_head, head_height};
use super::overlay::{draw_clients, draw_help, draw_key, draw_marks, draw_server};
use super::sample::ConditionStatus;
use super::state::{ColorPalette, ScreenOverlay, ScreenPane, TopState};
use super::view::LimitRow;

/// Draws the state as it is at `now`.
pub(super) fn draw(frame: &mut Frame<'_>, state: &TopState, now: Timestamp) {
    let area = frame.area();
    let above = head_height(state, area);
    let heights = pane_heights(state, area.height.saturating_sub(above + 1));
    let heights = [above, heights[0], heights[1], heights[2], 1].map(Constraint::Length);
    let [head, limits, keys, servers, foot] = Layout::vertical(heights).areas(frame.area());
    draw_head(frame, head, state, now);
    draw_limits(frame, limits, state);
    draw_keys(frame, keys, state);
    draw_servers(frame, servers, state);
    draw_foot(frame, foot, state);
    if state.silence(now).is_some() {
        // What was known of a gateway that is gone is not taken for what is.
        let dim = Style::new().add_modifier(Modifier::DIM);
        for area in [limits, keys, servers] {
            frame.buffer_mut().set_style(area, dim);
        }
    }
    match state.overlay {
        ScreenOverlay::Help => draw_help(frame),
        ScreenOverlay::Marks => draw_marks(frame, state),
        ScreenOverlay::Clients => draw_clients(frame, state),
        ScreenOverlay::Detail if state.pane == ScreenPane::Keys => draw_key(frame, state),
        ScreenOverlay::Detail => draw_server(frame, state),
        ScreenOverlay::None | ScreenOverlay::Filter => {}
    }
    hide_controls(frame);
}

/// Empties the cells with characters that act on a terminal or hide: any text of the gateway may come from a client.
fn hide_controls(frame: &mut Frame<'_>) {
    for cell in &mut frame.buffer_mut().content {
        if cell.symbol().contains(is_hidden) {
            cell.set_symbol(" ");
        }
    }
}

/// Returns the height at which every line is shown on a screen of this width.
pub(super) fn whole_height(state: &TopState, width: u16) -> u16 {
    let above = head_height(state, Rect::new(0, 0, width, u16::MAX));
    needed_heights(state)
        .into_iter()
        .fold(above.saturating_add(1), u16::saturating_add)
}

/// Returns the height that limits, keys and servers need, each with a title and a header.
fn needed_heights(state: &TopState) -> [u16; 3] {
    let keys = state
        .nearest
        .as_ref()
        .map_or(0, |nearest| nearest.top.len());
    let lines = [state.limits().len(), keys, state.view.servers.len()];
    lines.map(|lines| u16::try_from(lines).unwrap_or(u16::MAX).saturating_add(2))
}

/// Shares a height among limits, keys and servers. Where there is no room for all, servers get at most a third, keys two fifths of the rest
/// unless limits need less.
fn pane_heights(state: &TopState, height: u16) -> [u16; 3] {
    let [limits, keys, servers] = needed_heights(state);
    let room_for_limits = height.checked_sub(keys.saturating_add(servers));
    if let Some(room) = room_for_limits.filter(|room| *room >= limits) {
        return [room, keys, servers];
    }
    let servers = servers.min(height / 3);
    let rest = height - servers;
    let keys = keys.min((rest * 2 / 5).max(rest.saturating_sub(limits)));
    [rest - keys, keys, servers]
}

fn draw_limits(frame: &mut Frame<'_>, area: Rect, state: &TopState) {
    let limits = state.limits();
    let mut title = match &*state.filter {
        "" => format!("limits ({})", limits.len()),
        filter => format!(
            "limits with {filter:?} ({} of {})",
            limits.len(),
            state.view.limits.len()
        ),
    };
    let conditions = limits.iter().flat_map(|limit| &limit.conditions);
    match conditions.filter(|condition| condition.active).count() {
        0 => {}
        1 => title.push_str(", 1 condition active"),
        active => title.push_str(&format!(", {active} conditions active")),
    }
    let rejects = |limit: &LimitRow| limit.rejected.per_second.is_some_and(|rate| rate > 0.0);
    let rows = limits.iter().map(|limit| (*limit, rejects(limit)));
    let chosen = state.limit_index();
    draw_table(
        frame,
        area,
        state,
        (ScreenPane::Limits, title, chosen),
        &columns::LIMITS,
        rows,
    );
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, state: &TopState) {
    let title = match state.chosen_limit() {
        Some(limit) => {
            let conditions: String = limit.conditions.iter().map(written).collect();
            format!("keys nearest to {} ({}){conditions}", limit.name, limit.key)
        }
        None => "keys".to_owned(),
    };
    let keys = state
        .nearest
        .as_ref()
        .map_or(&[][..], |nearest| &nearest.top);
    let rows = keys.iter().map(|key| (key, key.refused));
    let nearest = state.nearest.as_ref();
    let columns = match nearest.is_some_and(|nearest| nearest.key_values_hidden.is_none()) {
        true => &columns::KEYS_WITH_VALUES[..],
        false => &columns::KEYS[..],
    };
    draw_table(
        frame,
        area,
        state,
        (ScreenPane::Keys, title, state.key),
        columns,
        rows,
    );
}

/// Writes a condition behind the name of its limit.
fn written(condition: &ConditionStatus) -> String {
    let tier = condition.tier.as_ref();
    let tier = tier.map_or_else(String::new, |tier| format!("tier {tier} "));
    let state = if condition.active { "active" } else { "idle" };
    format!(", {tier}{state}: {}", condition.when)
}

fn draw_servers(frame: &mut Frame<'_>, area: Rect, state: &TopState) {
    let servers = &state.view.servers;
    let title = format!("servers of origins ({})", servers.len());
    let rows = servers.iter().map(|server| (server, !server.is_well()));
    draw_table(
        frame,
        area,
        state,
        (ScreenPane::Servers, title, state.server),
        &columns::SERVERS,
        rows,
    );
}

/// Draws a table with the columns that there is room for; rows that are marked stand out.
fn draw_table<'a, T: 'a>(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &TopState,
    (pane, title, chosen): (ScreenPane, String, usize),
    columns: &[PaneColumn<T>],
    rows: impl Iterator<Item = (&'a T, bool)>,
) {
    let columns: Vec<&PaneColumn<T>> = columns
        .iter()
        .filter(|column| column.least <= area.width)
        .collect();
    let rows = rows.map(|(row, is_marked)| {
        let style = if is_marked {
            alarm(state.palette)
        } else {
            Style::new()
        };
        Row::new(columns.iter().map(|column| (column.text)(row))).style(style)
    });
    let is_focused = state.pane == pane;
    let title = Line::styled(
        title,
        Style::new().add_modifier(if is_focused {
            Modifier::BOLD
        } else {
            Modifier::empty()
        }),
    );
    let header = Row::new(columns.iter().map(|column| column.title))
        .style(Style::new().add_modifier(Modifier::DIM));
    let table = Table::new(rows, columns.iter().map(|column| column.width))
        .header(header)
        .block(Block::new().borders(Borders::TOP).title(title))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut place = TableState::new().with_selected(is_focused.then_some(chosen));
    frame.render_stateful_widget(table, area, &mut place);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &TopState) {
    let text = match state.overlay {
        ScreenOverlay::Filter => format!(
            "/{}_  Enter keeps the filter, Esc takes it away",
            state.filter
        ),
        _ => "q quit  arrows choose  Tab pane  Enter detail  / filter  c clients  e events  ? help"
            .to_owned(),
    };
    let style = Style::new().add_modifier(Modifier::DIM);
    frame.render_widget(Line::styled(text, style), area);
}

/// The style of what needs attention.
pub(super) fn alarm(palette: ColorPalette) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD);
    match palette {
        ColorPalette::Colored => style.fg(Color::Red),
        ColorPalette::Plain => style,
    }
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use ratatui::layout::Size;

    use super::super::history::tests::hour;
    use super::super::once::screen_text;
    use super::super::state::tests::state;
    use super::super::view::ServerRow;
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_795_245_038);

    fn press(state: &mut TopState, codes: &[KeyCode]) {
        for code in codes {
            state.press(KeyEvent::new(*code, KeyModifiers::NONE));
        }
    }

    /// Goal: a terminal of 80 by 24 shows all three parts. Method: the whole screen.
    #[test]
    fn a_usual_terminal_shows_limits_keys_and_servers() {
        let text = screen_text(&state(), Size::new(80, 24), NOW);
        for part in [
            "sluicegate 0.1.0 at 127.0.0.1:9180  up 1 d 1 h  10 requests/s  3 in flight",
            "limits (2), 1 condition active",
            "otp         reject 10      5.0     0       0       512    5 per 3s, 20 per 1m",
            "keys nearest to otp (client.ip/32,/64)",
            "8a3b0c55f1d2e97c 100 %  reject",
            "0123456789abcdef 40 %   banned banned for 300 s",
            "servers of origins (2)",
            "connect: connec",
            "q quit",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        assert_eq!(text.lines().count(), 24);
    }

    /// Goal: an operator sees which conditions are active and how full a server with an adaptive limit is. Method: a limit with conditions,
    /// chosen; the servers of a wide screen, and one in detail.
    #[test]
    fn conditions_and_adaptive_limits_are_shown() {
        let mut state = state();
        press(&mut state, &[KeyCode::Down]);
        let text = screen_text(&state, Size::new(120, 24), NOW);
        let title = "keys nearest to search (header.x-api-key), active: origin.app.p99 > 500ms, tier free idle: connections > 1000";
        for part in [title, "in fl. limit", "31/34"] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        press(&mut state, &[KeyCode::Tab, KeyCode::Tab, KeyCode::Enter]);
        let text = screen_text(&state, Size::new(120, 24), NOW);
        for part in [
            "34 requests at once, at least 4; 31 wait",
            "latency without a queue 48.2 ms",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }

    /// Goal: a frame of `--once` hides no server and has no line for nothing. Method: more servers than limits and keys, at full height.
    #[test]
    fn a_frame_of_full_height_shows_every_server() {
        let mut state = state();
        let server = state.view.servers[0].clone();
        for port in 1..=30 {
            let address = format!("10.0.0.9:{port}");
            let server = ServerRow {
                address,
                ..server.clone()
            };
            state.view.servers.push(server);
        }
        let height = whole_height(&state, 120);
        let text = screen_text(&state, Size::new(120, height), NOW);
        for port in 1..=30 {
            assert!(
                text.contains(&format!("10.0.0.9:{port} ")),
                "{port}:\n{text}"
            );
        }
        let (lines, keystrokes) = text.trim_end().rsplit_once('\n').unwrap();
        assert!(keystrokes.contains("q quit"), "{text}");
        assert!(lines.lines().all(|line| !line.trim().is_empty()), "{text}");
    }

    /// Goal: an operator reads who is at a limit, and who is rejected. Method: keys of known, shared and unknown values on a usual and on a
    /// narrow screen; the most rejected clients above, and in their window.
    #[test]
    fn keys_and_clients_are_named() {
        let mut state = state();
        let nearest = state.nearest.as_mut().unwrap();
        nearest.key_values_hidden = None;
        nearest.top[0].key_values = Some(vec!["203.0.113.7".to_owned(), "4711".to_owned()]);
        let mut global = nearest.top[0].clone();
        global.key_values = Some(Vec::new());
        nearest.top.push(global);
        state.rejected = serde_json::from_str(
            r#"{"seconds":312,"rejected":40,"addresses":[{"name":"203.0.113.7","requests":10,"error":0,"share":0.25}]}"#,
        )
        .unwrap();
        let text = screen_text(&state, Size::new(120, 24), NOW);
        for part in [
            "most rejected: address 203.0.113.7 (25.0 %)",
            "203.0.113.7, 4711",
            "8a3b0c55f1d2e97c 100 %  reject",
            "unknown until its next request",
            "all requests",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        let narrow = screen_text(&state, Size::new(50, 24), NOW);
        assert!(narrow.contains("203.0.113.7, 4711"), "{narrow}");
        press(&mut state, &[KeyCode::Char('c')]);
        let text = screen_text(&state, Size::new(80, 24), NOW);
        assert!(text.contains("40 rejected requests in 312 s"), "{text}");
    }

    /// Goal: no terminal is too small. Method: every size up to a usual one, with each overlay.
    #[test]
    fn any_size_can_be_drawn() {
        let mut state = state();
        state.past = hour();
        for overlay in [
            ScreenOverlay::None,
            ScreenOverlay::Help,
            ScreenOverlay::Filter,
            ScreenOverlay::Detail,
            ScreenOverlay::Marks,
            ScreenOverlay::Clients,
        ] {
            state.overlay = overlay;
            for pane in [ScreenPane::Limits, ScreenPane::Keys, ScreenPane::Servers] {
                state.pane = pane;
                for (width, height) in [(1, 1), (7, 3), (20, 5), (39, 12), (80, 24), (300, 100)] {
                    let text = screen_text(&state, Size::new(width, height), NOW);
                    assert!(
                        text.lines()
                            .all(|line| line.chars().count() <= usize::from(width))
                    );
                }
            }
        }
        let narrow = screen_text(&super::super::state::tests::state(), Size::new(40, 20), NOW);
        assert!(
            narrow.contains("admit/s rejct/s") && !narrow.contains("rates"),
            "{narrow}"
        );
    }

    /// Goal: a key and the help can be read. Method: keystrokes to each, and the text over the panes.
    #[test]
    fn overlays_say_what_is_known() {
        let mut state = state();
        press(&mut state, &[KeyCode::Char('?')]);
        assert!(screen_text(&state, Size::new(80, 24), NOW).contains("quit"));
        press(&mut state, &[KeyCode::Esc, KeyCode::Enter, KeyCode::Enter]);
        assert!(screen_text(&state, Size::new(80, 24), NOW).contains("asking the gateway"));
        state.detail = serde_json::from_str(
            r#"{"limit":"otp","key":"8a3b0c55f1d2e97c","next":"banned","rates":[{"rate":"5 per 3s","limit":5,"used":5,"next":1.5,
                "reset":2.96}],"ban":{"left":300.2},"ban_level":2,"in_flight":1}"#,
        )
        .unwrap();
        let text = screen_text(&state, Size::new(80, 24), NOW);
        for part in [
            "next      banned",
            "5 of 5 used, more in 1.5 s",
            "banned    for 300 s more, ban 2",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        press(
            &mut state,
            &[KeyCode::Esc, KeyCode::Tab, KeyCode::Down, KeyCode::Enter],
        );
        let text = screen_text(&state, Size::new(80, 24), NOW);
        assert!(text.contains("connect: connection refused"), "{text}");
    }
}
