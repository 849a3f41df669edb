//! Reports calls and events to the program that embeds the link, which counts them as it counts everything else.

use std::fmt;
use std::time::Duration;

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// The server answered.
    Ok,
    /// Nothing was sent: there is no connection, or the breaker is open.
    Unavailable,
    /// No answer came in time.
    TimedOut,
    /// The connection broke.
    ConnectionLost,
    /// The server answered with an error.
    Refused,
}

/// An event beside calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A connection was made.
    Connected,
    /// A connection could not be made.
    NotConnected,
    /// A breaker opened.
    BreakerOpened,
    /// A script was sent to a server.
    ScriptLoaded,
}

/// Counts calls and events. It is called by every thread that calls the server.
pub trait LinkObserver: fmt::Debug + Send + Sync {
    /// Counts a call, which took so long.
    fn count_call(&self, result: CallResult, took: Duration);

    /// Counts an event.
    fn count_event(&self, event: LinkEvent);
}

impl LinkEvent {
    /// Every event, in the order of their declaration.
    pub const ALL: [Self; 4] = [
        Self::Connected,
        Self::NotConnected,
        Self::BreakerOpened,
        Self::ScriptLoaded,
    ];
}

impl CallResult {
    /// Every result, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::Ok,
        Self::Unavailable,
        Self::TimedOut,
        Self::ConnectionLost,
        Self::Refused,
    ];
}
