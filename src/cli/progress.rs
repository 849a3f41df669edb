//! Shows the progress of a command that reads logs.

use std::io::{IsTerminal, Write};

/// Shows progress on the standard error, if that is a terminal.
pub(super) struct ProgressBar {
    is_shown: bool,
    width: usize,
}

impl ProgressBar {
    const WIDTH: u64 = 40;

    /// Returns a bar that is shown only on a terminal.
    pub(super) fn new() -> Self {
        Self {
            is_shown: std::io::stderr().is_terminal(),
            width: 0,
        }
    }

    /// Shows the number of requests, and the share of bytes that were read.
    pub(super) fn show(&mut self, requests: u64, bytes: Option<(u64, u64)>) {
        if !self.is_shown {
            return;
        }
        let text = match bytes {
            Some((read, all)) if all > 0 => {
                let full = (read.min(all) * Self::WIDTH / all) as usize;
                let empty = Self::WIDTH as usize - full;
                let percent = read.min(all) * 100 / all;
                format!(
                    "[{}{}] {percent} %, {requests} requests",
                    "#".repeat(full),
                    " ".repeat(empty)
                )
            }
            _ => format!("{requests} requests"),
        };
        self.write(&text);
    }

    /// Removes the bar.
    pub(super) fn clear(&mut self) {
        if self.width > 0 {
            let blank = " ".repeat(self.width);
            self.write(&blank);
            self.write("");
        }
    }

    fn write(&mut self, text: &str) {
        self.width = text.chars().count();
        // Progress that cannot be shown is no failure.
        let _ = write!(std::io::stderr(), "\r{text}");
    }
}
