//! `sluicegate top [URL]`

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sluicegate_base::clock;

use super::exit_code::{FAILED, SUCCESS};
use super::gateway_target::{TargetError, of_config, of_url};
use super::output::{print, tell};
use sluicegate_top::admin_client::AdminClient;
use sluicegate_top::{
    ColorPalette, GatewayFeed, TopReport, TopState, run_screen, terminal_width, text,
};

/// The timeout of each answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The width of a frame that is not written to a terminal.
const FRAME_WIDTH: u16 = 120;

/// The arguments of `top`.
#[derive(Args)]
pub(super) struct TopCommand {
    /// The admin listener, http://127.0.0.1:9180 by default. It has no TLS, so https is not understood.
    #[arg(value_name = "URL", conflicts_with = "config")]
    url: Option<String>,
    /// The configuration that the gateway runs with, which has the address of its admin listener and the token.
    #[arg(long, value_name = "FILE", conflicts_with = "token_file")]
    config: Option<PathBuf>,
    /// The file with the token of the admin listener.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Seconds between two looks at the gateway.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    interval: Duration,
    /// Print one frame after one interval, and end.
    #[arg(long)]
    once: bool,
    /// Print it as JSON.
    #[arg(long, requires = "once")]
    json: bool,
}

/// Parses seconds.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds| (0.1..=3_600.0).contains(seconds));
    let seconds: f64 = seconds
        .ok_or_else(|| format!("{text:?} is no interval; write seconds from 0.1 to 3600"))?;
    Ok(Duration::from_secs_f64(seconds))
}

impl TopCommand {
    /// Shows the gateway.
    pub(super) fn run(&self) -> u8 {
        let shown = self.client().and_then(|client| {
            let feed = GatewayFeed::new(client);
            if self.once {
                self.print(&feed)
            } else {
                self.show(feed)
            }
        });
        match shown {
            Ok(()) => SUCCESS,
            Err((code, message)) => {
                tell(&message);
                code
            }
        }
    }

    fn client(&self) -> Result<AdminClient, TargetError> {
        match &self.config {
            Some(file) => of_config(file, None, PATIENCE).map(|(_, client)| client),
            None => of_url(self.url.as_deref(), self.token_file.as_ref(), PATIENCE),
        }
    }

    /// Prints one frame.
    fn print(&self, feed: &GatewayFeed) -> Result<(), TargetError> {
        let failed = |error: &dyn std::fmt::Display| (FAILED, format!("sluicegate: {error}"));
        let before = feed.sample().map_err(|error| failed(&error))?;
        std::thread::sleep(self.interval);
        let report = TopReport::since(before, feed).map_err(|error| failed(&error))?;
        let frame = if self.json {
            serde_json::to_string_pretty(&report).map_err(|error| failed(&error))? + "\n"
        } else {
            text(&report, frame_width(), clock::now())
        };
        let written = print(&frame);
        written.map_err(|error| failed(&error))
    }

    /// Shows the gateway in the terminal.
    fn show(&self, feed: GatewayFeed) -> Result<(), TargetError> {
        let failed = |error: &dyn std::fmt::Display| (FAILED, format!("sluicegate: {error}"));
        if !std::io::stdout().is_terminal() {
            return Err(failed(
                &"the output is no terminal; write --once for one frame",
            ));
        }
        // A mistake in the address or the token is said before the screen is taken.
        feed.sample().map_err(|error| failed(&error))?;
        // https://no-color.org: set, and not empty.
        let palette = match std::env::var_os("NO_COLOR") {
            Some(value) if !value.is_empty() => ColorPalette::Plain,
            _ => ColorPalette::Colored,
        };
        let state = TopState::new(feed.authority(), palette);
        run_screen(feed, state, self.interval).map_err(|error| failed(&error))
    }
}

/// Returns the columns of the terminal, or a width that shows all columns.
fn frame_width() -> u16 {
    let is_terminal = std::io::stdout().is_terminal();
    let width = is_terminal.then(terminal_width).flatten();
    width.unwrap_or(FRAME_WIDTH)
}
