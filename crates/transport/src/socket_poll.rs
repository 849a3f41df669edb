//! Names the result with which the task of a connection of HTTP/2 reads or writes its socket.

/// The result of a poll of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketPoll {
    /// It may take or give more at once.
    Progressed,
    /// It will wake the task.
    Waits,
    /// The connection is over.
    Broken,
}
