//! Runs the terminal: draws, reads keystrokes, and leaves the terminal as it was, also at a panic or a signal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sluicegate_base::clock;

use super::feed::{FeedThread, GatewayFeed};
use super::render::draw;
use super::state::{KeyReaction, TopState};

/// Time for which a keystroke is waited for before the next look at answers and signals.
const POLL: Duration = Duration::from_millis(50);

/// Shows the gateway until the person quits, or a signal ends the process.
///
/// # Errors
/// The standard output is no terminal, or the terminal fails.
pub fn run_screen(feed: GatewayFeed, mut state: TopState, interval: Duration) -> io::Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let feed = feed.spawn(interval)?;
    // It restores the terminal at a panic too.
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, &feed, &mut state, &ended);
    let restored = ratatui::try_restore();
    shown.and(restored)
}

fn show(
    terminal: &mut DefaultTerminal,
    feed: &FeedThread,
    state: &mut TopState,
    ended: &AtomicBool,
) -> io::Result<()> {
    let mut focus = state.focus();
    // Relaxed: the flag is all that the signal says.
    while !ended.load(Ordering::Relaxed) {
        for answer in feed.answers() {
            state.take(answer, clock::now());
        }
        terminal.draw(|frame| draw(frame, state, clock::now()))?;
        if event::poll(POLL)? {
            let reaction = match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => state.press(key),
                _ => KeyReaction::Continue,
            };
            if reaction == KeyReaction::Quit {
                break;
            }
        }
        if state.focus() != focus {
            focus = state.focus();
            feed.look_at(focus.clone());
        }
    }
    Ok(())
}
