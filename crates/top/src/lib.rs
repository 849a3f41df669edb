//! Shows a running gateway in a terminal: its limits, the keys nearest to one of them, and its origins.
//!
//! [`GatewaySample`] is what the admin listener says at one moment, [`GatewayView`] the difference of two. [`TopState`] has what is shown
//! and how keystrokes change it, and `render` draws it: both are pure. Only [`GatewayFeed`] sends requests, and only [`run_screen`] touches
//! the terminal.
//! [`admin_client`] asks a gateway, for the other commands too.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod admin_client;
mod client_view;
mod columns;
mod feed;
mod head;
mod history;
mod key_view;
mod numbers;
mod once;
mod overlay;
mod render;
mod sample;
mod scrape;
mod screen;
mod state;
mod view;

pub use feed::GatewayFeed;
pub use once::{TopReport, text};
pub use sample::GatewaySample;
pub use screen::{run_screen, terminal_width};
pub use state::{ColorPalette, TopState};
pub use view::GatewayView;
