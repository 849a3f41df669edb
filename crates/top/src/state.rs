//! Owns what is shown, and how answers and keystrokes change it.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;

use super::client_view::RejectedClientList;
use super::feed::{FeedAnswer, FeedFocus};
use super::history::PastHour;
use super::key_view::{KeyDetail, NearestKeys};
use super::sample::GatewaySample;
use super::view::{GatewayView, LimitRow};
use crate::admin_client::AdminError;

/// The content of the screen.
#[derive(Clone, Debug)]
pub struct TopState {
    /// Host and port.
    pub(super) gateway: String,
    pub(super) palette: ColorPalette,
    pub(super) view: GatewayView,
    pub(super) past: PastHour,
    pub(super) link: GatewayLink,
    pub(super) pane: ScreenPane,
    pub(super) overlay: ScreenOverlay,
    /// Limits whose name contains it are shown.
    pub(super) filter: String,
    /// The name of the chosen limit; without one the first is.
    limit: Option<String>,
    pub(super) nearest: Option<NearestKeys>,
    /// The clients that are rejected most; `None` where the gateway shows none.
    pub(super) rejected: Option<RejectedClientList>,
    /// Index of the chosen key among the nearest.
    pub(super) key: usize,
    /// The hash of the key that is shown in detail. The key keeps it while the nearest keys change places.
    entered_key: Option<String>,
    pub(super) detail: Option<KeyDetail>,
    /// Index of the chosen server.
    pub(super) server: usize,
    latest: Option<GatewaySample>,
}

/// The use of colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorPalette {
    /// They are.
    Colored,
    /// They are not; what matters is bold or reversed.
    Plain,
}

/// The connection to the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GatewayLink {
    /// Nothing is known yet.
    Connecting,
    /// The latest answer came.
    Up,
    /// There is none since this moment, for this reason.
    Down(Timestamp, String),
}

/// The part of the screen that keystrokes move through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScreenPane {
    Limits,
    Keys,
    Servers,
}

/// The window over the panes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScreenOverlay {
    None,
    Help,
    /// The clients that are rejected most.
    Clients,
    /// The filter is being written.
    Filter,
    /// One key in detail, or one server.
    Detail,
    /// The events of the last hour.
    Marks,
}

/// The effect of a keystroke on the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyReaction {
    /// The program goes on.
    Continue,
    /// The program ends.
    Quit,
}

impl TopState {
    /// Nothing is known of the gateway at this host and port.
    #[must_use]
    pub fn new(gateway: &str, palette: ColorPalette) -> Self {
        Self {
            gateway: gateway.to_owned(),
            palette,
            view: GatewayView::default(),
            past: PastHour::default(),
            link: GatewayLink::Connecting,
            pane: ScreenPane::Limits,
            overlay: ScreenOverlay::None,
            filter: String::new(),
            limit: None,
            nearest: None,
            rejected: None,
            key: 0,
            entered_key: None,
            detail: None,
            server: 0,
            latest: None,
        }
    }

    /// Takes a sample over.
    pub(super) fn show(&mut self, sample: GatewaySample) {
        self.view = GatewayView::between(self.latest.as_ref(), &sample);
        self.latest = Some(sample);
        self.link = GatewayLink::Up;
    }

    /// Takes an answer over, or that there is none.
    pub(super) fn take(&mut self, answer: Result<FeedAnswer, AdminError>, now: Timestamp) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let since = match self.link {
                    GatewayLink::Down(since, _) => since,
                    GatewayLink::Connecting | GatewayLink::Up => now,
                };
                self.link = GatewayLink::Down(since, error.to_string());
                return;
            }
        };
        self.show(answer.sample);
        if let Some(history) = answer.history {
            self.past.take(history);
        }
        self.rejected = answer.rejected;
        let name = self.chosen_limit().map(|limit| limit.name.clone());
        // The answer may be about the limit that was chosen before.
        if let Some(nearest) = answer.nearest
            && Some(&nearest.limit) == name.as_ref()
        {
            self.nearest = Some(nearest);
        }
        if let Some(detail) = answer.key
            && Some(&detail.key) == self.entered_key.as_ref()
        {
            self.detail = Some(detail);
        }
        self.key = self.key.min(self.keys().saturating_sub(1));
        self.server = self.server.min(self.view.servers.len().saturating_sub(1));
    }

    /// Returns the limits that the filter leaves.
    pub(super) fn limits(&self) -> Vec<&LimitRow> {
        let filter = self.filter.to_lowercase();
        let limits = self.view.limits.iter();
        limits
            .filter(|limit| limit.name.to_lowercase().contains(&filter))
            .collect()
    }

    /// Returns the index of the chosen limit among those that are shown.
    pub(super) fn limit_index(&self) -> usize {
        let limits = self.limits();
        let chosen = limits
            .iter()
            .position(|limit| Some(&limit.name) == self.limit.as_ref());
        chosen.unwrap_or(0)
    }

    /// Returns the limit whose keys are shown.
    pub(super) fn chosen_limit(&self) -> Option<&LimitRow> {
        self.limits().get(self.limit_index()).copied()
    }

    /// Returns what the gateway is to be asked for.
    pub(super) fn focus(&self) -> FeedFocus {
        FeedFocus {
            limit: self.chosen_limit().map(|limit| limit.name.clone()),
            key: self.entered_key.clone(),
        }
    }

    /// Returns the time for which the gateway has not answered, and the reason.
    pub(super) fn silence(&self, now: Timestamp) -> Option<(Duration, &str)> {
        match &self.link {
            GatewayLink::Down(since, reason) => Some((clock::between(*since, now), reason)),
            GatewayLink::Connecting | GatewayLink::Up => None,
        }
    }

    /// Takes a keystroke.
    pub(super) fn press(&mut self, key: KeyEvent) -> KeyReaction {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c')) {
            return KeyReaction::Quit;
        }
        match self.overlay {
            ScreenOverlay::Filter => self.write_filter(key.code),
            ScreenOverlay::Help
            | ScreenOverlay::Clients
            | ScreenOverlay::Detail
            | ScreenOverlay::Marks => self.leave_overlay(key.code),
            ScreenOverlay::None => self.browse(key.code),
        }
    }

    fn browse(&mut self, code: KeyCode) -> KeyReaction {
        match code {
            KeyCode::Char('q') => return KeyReaction::Quit,
            KeyCode::Char('?') => self.overlay = ScreenOverlay::Help,
            KeyCode::Char('e') => self.overlay = ScreenOverlay::Marks,
            KeyCode::Char('c') => self.overlay = ScreenOverlay::Clients,
            KeyCode::Char('/') => self.overlay = ScreenOverlay::Filter,
            KeyCode::Tab | KeyCode::Right => self.pane = self.pane.next(),
            KeyCode::BackTab | KeyCode::Left => self.pane = self.pane.previous(),
            KeyCode::Up | KeyCode::Char('k') => self.choose(|index| index.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(|index| index + 1),
            KeyCode::Home => self.choose(|_| 0),
            KeyCode::End => self.choose(|_| usize::MAX),
            KeyCode::Enter => self.enter(),
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.forget_other_keys();
            }
            KeyCode::Esc => self.pane = ScreenPane::Limits,
            _ => {}
        }
        KeyReaction::Continue
    }

    fn leave_overlay(&mut self, code: KeyCode) -> KeyReaction {
        match code {
            KeyCode::Char('q') => return KeyReaction::Quit,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Left | KeyCode::Char('?' | 'e' | 'c') => {
                self.overlay = ScreenOverlay::None;
                (self.entered_key, self.detail) = (None, None);
            }
            _ => {}
        }
        KeyReaction::Continue
    }

    fn write_filter(&mut self, code: KeyCode) -> KeyReaction {
        match code {
            KeyCode::Char(character) => self.filter.push(character),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.overlay = ScreenOverlay::None,
            KeyCode::Esc => {
                self.filter.clear();
                self.overlay = ScreenOverlay::None;
            }
            _ => {}
        }
        self.forget_other_keys();
        KeyReaction::Continue
    }

    /// Goes on from a limit to its keys, from a key or a server to its detail.
    fn enter(&mut self) {
        match self.pane {
            ScreenPane::Limits => {
                // Another limit may become the first.
                self.limit = self.chosen_limit().map(|limit| limit.name.clone());
                self.pane = ScreenPane::Keys;
            }
            ScreenPane::Keys => {
                let nearest = self.nearest.as_ref();
                let key = nearest.and_then(|nearest| nearest.top.get(self.key));
                self.entered_key = key.map(|key| key.key.clone());
                if self.entered_key.is_some() {
                    self.overlay = ScreenOverlay::Detail;
                }
            }
            ScreenPane::Servers if !self.view.servers.is_empty() => {
                self.overlay = ScreenOverlay::Detail
            }
            ScreenPane::Servers => {}
        }
    }

    /// Moves the choice of the pane; an index beyond the last is the last.
    fn choose(&mut self, next: impl Fn(usize) -> usize) {
        let moved = |index: usize, length: usize| next(index).min(length.saturating_sub(1));
        match self.pane {
            ScreenPane::Limits => {
                let index = moved(self.limit_index(), self.limits().len());
                self.limit = self.limits().get(index).map(|limit| limit.name.clone());
                self.forget_other_keys();
            }
            ScreenPane::Keys => self.key = moved(self.key, self.keys()),
            ScreenPane::Servers => self.server = moved(self.server, self.view.servers.len()),
        }
    }

    /// Drops the keys of another limit than the chosen one.
    fn forget_other_keys(&mut self) {
        let name = self.chosen_limit().map(|limit| limit.name.clone());
        if self.nearest.as_ref().map(|nearest| &nearest.limit) != name.as_ref() {
            (self.nearest, self.key) = (None, 0);
        }
    }

    fn keys(&self) -> usize {
        self.nearest.as_ref().map_or(0, |nearest| nearest.top.len())
    }
}

impl ScreenPane {
    fn next(self) -> Self {
        match self {
            Self::Limits => Self::Keys,
            Self::Keys => Self::Servers,
            Self::Servers => Self::Limits,
        }
    }

    fn previous(self) -> Self {
        self.next().next()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::key_view::{KeyBanDetail, NearKey};
    use super::super::sample::tests::sampled;
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_795_245_038);

    /// A state after two samples, with two keys of the limit `otp`.
    pub(crate) fn state() -> TopState {
        let mut state = TopState::new("127.0.0.1:9180", ColorPalette::Plain);
        state.show(sampled(10, 100.0));
        let key = |key: &str, used, next: &str| NearKey {
            key: key.to_owned(),
            used,
            next: next.to_owned(),
            refused: next != "admitted",
            ban: (next == "banned").then_some(KeyBanDetail { left: 300.2 }),
            ..NearKey::default()
        };
        let nearest = NearestKeys {
            limit: "otp".to_owned(),
            key_values_hidden: Some("set [admin] token_file".to_owned()),
            top: vec![
                key("8a3b0c55f1d2e97c", 1.0, "rejected"),
                key("0123456789abcdef", 0.4, "banned"),
            ],
        };
        let answer = FeedAnswer {
            sample: sampled(15, 150.0),
            history: None,
            nearest: Some(nearest),
            rejected: None,
            key: None,
        };
        state.take(Ok(answer), NOW);
        state
    }

    fn press(state: &mut TopState, code: KeyCode) -> KeyReaction {
        state.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    /// Goal: a person moves from a limit to its keys, to one of them, and back. Method: the keystrokes, and what is asked for after each.
    #[test]
    fn keystrokes_lead_to_a_key_and_back() {
        let mut state = state();
        assert_eq!(state.focus().limit.as_deref(), Some("otp"));
        for code in [KeyCode::Enter, KeyCode::Down, KeyCode::Down, KeyCode::Enter] {
            assert_eq!(press(&mut state, code), KeyReaction::Continue);
        }
        assert_eq!(state.focus().key.as_deref(), Some("0123456789abcdef"));
        press(&mut state, KeyCode::Esc);
        assert_eq!(
            (state.overlay, state.focus().key),
            (ScreenOverlay::None, None)
        );
        press(&mut state, KeyCode::Esc);
        assert_eq!(state.pane, ScreenPane::Limits);
        for code in ['?', 'e', 'c'].map(KeyCode::Char) {
            press(&mut state, code);
            assert_ne!(state.overlay, ScreenOverlay::None);
            press(&mut state, code);
            assert_eq!(state.overlay, ScreenOverlay::None);
        }
        // The keys of one limit are not shown as those of another.
        press(&mut state, KeyCode::Down);
        assert_eq!(state.focus().limit.as_deref(), Some("search"));
        assert!(state.nearest.is_none());
        assert_eq!(press(&mut state, KeyCode::Char('q')), KeyReaction::Quit);
    }

    /// Goal: a filter is text, not commands. Method: a filter with the letter that quits, corrected, kept, and taken away.
    #[test]
    fn a_filter_leaves_the_limits_that_match() {
        let mut state = state();
        for code in [KeyCode::Char('/'), KeyCode::Char('S'), KeyCode::Char('q')] {
            assert_ne!(press(&mut state, code), KeyReaction::Quit);
        }
        assert!(state.limits().is_empty());
        press(&mut state, KeyCode::Backspace);
        press(&mut state, KeyCode::Enter);
        let names = |state: &TopState| -> Vec<String> {
            state
                .limits()
                .iter()
                .map(|limit| limit.name.clone())
                .collect()
        };
        assert_eq!(names(&state), ["search"]);
        press(&mut state, KeyCode::Esc);
        assert_eq!(names(&state), ["otp", "search"]);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut state, KeyCode::Char('/'));
        assert_eq!(state.press(interrupt), KeyReaction::Quit);
    }

    /// Goal: a gateway that is gone is said to be, since when, and what was known stays. Method: two errors, then an answer.
    #[test]
    fn a_gateway_that_is_gone_is_shown_as_gone() {
        let mut state = state();
        let gone = || AdminError::NotAdmin("a:1".to_owned(), "the answer is not HTTP");
        state.take(Err(gone()), NOW);
        let later = NOW.saturating_add(Duration::from_secs(7));
        state.take(Err(gone()), later);
        let (silence, reason) = state.silence(later).expect("it is gone");
        assert_eq!(silence, Duration::from_secs(7));
        assert!(reason.contains("not HTTP"));
        assert_eq!(state.limits().len(), 2);
        let answer = FeedAnswer {
            sample: sampled(30, 200.0),
            history: None,
            nearest: None,
            rejected: None,
            key: None,
        };
        state.take(Ok(answer), later);
        assert_eq!(state.silence(later), None);
    }
}
