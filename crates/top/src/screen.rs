//! Runs the terminal: draws, reads keystrokes, and leaves the terminal as it was, also at a panic or a signal.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sluicegate_base::clock;

use super::feed::{FeedThread, GatewayFeed};
use super::render::draw;
use super::state::{KeyReaction, TopState};

/// Milliseconds for which a keystroke is waited for before the next look at answers and signals.
const POLL: u8 = 50;

/// Returns the columns of the terminal; `None` where there is none.
#[must_use]
pub fn terminal_width() -> Option<u16> {
    let (width, _) = ratatui::crossterm::terminal::size().ok()?;
    Some(width)
}

/// Shows the gateway until the person quits, the terminal is closed, or a signal ends the process; a second signal ends it at once.
///
/// # Errors
/// The standard output is no terminal, or the terminal fails.
pub fn run_screen(feed: GatewayFeed, mut state: TopState, interval: Duration) -> io::Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&ended))?;
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let feed = feed.spawn(interval)?;
    // It restores the terminal at a panic too.
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, &feed, &mut state, &ended);
    let restored = ratatui::try_restore();
    shown.and(restored)
}

/// Waits for a keystroke, and returns whether the terminal was closed meanwhile: crossterm would read its end without an end.
fn is_closed() -> io::Result<bool> {
    let input = io::stdin();
    if !input.is_terminal() {
        // The keystrokes come from the terminal of the process.
        event::poll(Duration::from_millis(POLL.into()))?;
        return Ok(false);
    }
    let mut waiting = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    match poll(&mut waiting, POLL) {
        // A signal: the flag or the new size is looked at next.
        Ok(_) | Err(nix::Error::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let closed = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    let found = waiting[0].revents();
    Ok(found.is_some_and(|found| found.intersects(closed)))
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
        if is_closed()? {
            break;
        }
        if event::poll(Duration::ZERO)? {
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
