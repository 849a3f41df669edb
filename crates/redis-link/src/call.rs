//! Defines what is sent to a server and what comes back, apart from any client library.

/// One run of a script. All keys of a call lie in one slot of a Cluster: the caller sees to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The keys, all of one slot.
    pub keys: Vec<Vec<u8>>,
    /// The arguments.
    pub args: Vec<Vec<u8>>,
}

/// The urgency of a call, which decides its timeout and the breaker that counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallUrgency {
    /// A request waits for the reply: the call ends within [`timeout`](crate::LinkSettings::timeout).
    Decision,
    /// No request waits for the reply: the call ends within [`exchange_timeout`](crate::LinkSettings::exchange_timeout).
    Exchange,
}

/// The value that a script returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nil.
    Nil,
    /// A number.
    Integer(i64),
    /// A string.
    Bytes(Vec<u8>),
    /// A list.
    Rows(Vec<Reply>),
}

/// Returns the hash by which a server names a script that it has run before.
pub(crate) fn script_hash(script: &str) -> String {
    redis::Script::new(script).get_hash().to_owned()
}
