//! Defines what is sent to a server and what comes back, apart from any client library.

use redis::Cmd;

/// One run of a script, or its part in a run for several calls. All keys of a call lie in one slot of a Cluster: the caller sees to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The keys, all of one slot.
    pub keys: Vec<Vec<u8>>,
    /// The arguments.
    pub args: Vec<Vec<u8>>,
}

/// The script of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkScript {
    pub(crate) text: &'static str,
    pub(crate) form: CallForm,
}

/// The form in which a script takes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallForm {
    /// One call a run.
    Single,
    /// One call a run, or several behind the word `batch`.
    Batched,
}

impl LinkScript {
    /// Returns the script with this text, which also runs several calls at once: the arguments are then `batch`, the number of calls, and
    /// for each call the number of its keys, that of its arguments, and its arguments; it returns a list with the answer of each call, or
    /// the error of that call.
    #[must_use]
    pub const fn batched(text: &'static str) -> Self {
        let form = CallForm::Batched;
        Self { text, form }
    }
}

impl From<&'static str> for LinkScript {
    /// Converts the text of a script that runs one call at a time.
    fn from(text: &'static str) -> Self {
        let form = CallForm::Single;
        Self { text, form }
    }
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

/// Encodes a call of a script with `EVAL` or `EVALSHA`.
pub(crate) fn command(call: &Call, command: &str, script: &str) -> Cmd {
    let mut command = redis::cmd(command);
    command.arg(script).arg(call.keys.len());
    for word in call.keys.iter().chain(&call.args) {
        command.arg(&word[..]);
    }
    command
}
