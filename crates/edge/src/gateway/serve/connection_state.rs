//! Names the states of a client's connection after a request.

/// The state of a client's connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// It may carry another request.
    Reusable,
    /// It ends.
    Ended,
    /// It ends after unread bytes of the client are dropped, so that no reset overtakes the answer.
    Lingering,
}
