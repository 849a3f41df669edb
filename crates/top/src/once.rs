//! Writes one frame: as text, or as JSON for programs.

use std::fmt::Write;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;
use serde::Serialize;
use sluicegate_limiter::Timestamp;

use super::client_view::{RejectedClientList, SHOWN_CLIENTS};
use super::feed::GatewayFeed;
use super::key_view::NearestKeys;
use super::render::{draw, whole_height};
use super::sample::GatewaySample;
use super::state::{ColorPalette, TopState};
use super::view::{GatewayView, ServerRow};
use crate::admin_client::AdminError;

/// Most lines of a frame.
const MOST_LINES: u16 = 2_000;

/// One frame.
#[derive(Clone, Debug, Serialize)]
pub struct TopReport {
    /// Host and port.
    pub gateway: String,
    /// The gateway between two samples.
    #[serde(flatten)]
    pub view: GatewayView,
    /// The keys nearest to the first limit; `None` without limits.
    pub nearest: Option<NearestKeys>,
    /// The clients that are rejected most; `None` where the gateway shows none.
    pub rejected_clients: Option<RejectedClientList>,
    #[serde(skip)]
    state: TopState,
}

impl TopReport {
    /// Compares the gateway as it is now with a sample of before.
    ///
    /// # Errors
    /// The gateway does not answer.
    pub fn since(before: GatewaySample, feed: &GatewayFeed) -> Result<Self, AdminError> {
        let mut state = TopState::new(feed.authority(), ColorPalette::Plain);
        state.show(before);
        state.show(feed.sample()?);
        put_faulty_first(&mut state.view.servers);
        if let Some(history) = feed.history(0) {
            state.past.take(history);
        }
        // The limit that is first now.
        if let Some(nearest) = feed.nearest(&state.focus()) {
            state.nearest = Some(nearest);
        }
        state.rejected = feed.rejected_clients();
        Ok(Self {
            gateway: feed.authority().to_owned(),
            view: state.view.clone(),
            nearest: state.nearest.clone(),
            rejected_clients: state.rejected.clone(),
            state,
        })
    }
}

/// Puts the servers that need a look before the others, and keeps their order otherwise.
fn put_faulty_first(servers: &mut [ServerRow]) {
    servers.sort_by_key(ServerRow::is_well);
}

/// Returns the frame as lines of at most `width` characters, as many as it takes.
#[must_use]
pub fn text(report: &TopReport, width: u16, now: Timestamp) -> String {
    let height = whole_height(&report.state, width).min(MOST_LINES);
    let frame = screen_text(&report.state, Size::new(width, height), now);
    // The last line is about keystrokes.
    let lines = usize::from(height).saturating_sub(1);
    let mut text: String = frame.split_inclusive('\n').take(lines).collect();
    let rejected = report.rejected_clients.as_ref();
    let rejected = rejected.filter(|clients| clients.rejected > 0);
    for line in rejected.map_or_else(Vec::new, |clients| clients.lines(SHOWN_CLIENTS)) {
        text.extend(line.chars().take(width.into()));
        text.push('\n');
    }
    text
}

/// Returns the text of a screen of this size.
pub(super) fn screen_text(state: &TopState, size: Size, now: Timestamp) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(size.width, size.height));
    let Ok(_) = terminal.draw(|frame| draw(frame, state, now));
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in buffer.content().chunks(usize::from(size.width.max(1))) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a reader of a long list sees failing servers first. Method: servers in four states.
    #[test]
    fn faulty_servers_come_first() {
        let server = |state: &str| ServerRow {
            state: state.to_owned(),
            ..ServerRow::default()
        };
        let mut servers = ["up", "down", "unchecked", "failing"].map(server);
        put_faulty_first(&mut servers);
        let states: Vec<&str> = servers.iter().map(|server| &*server.state).collect();
        assert_eq!(states, ["down", "failing", "up", "unchecked"]);
    }
}
