//! Defines the result of a failed call: an error that says whether the server may have executed it.
//!
//! A call that was certainly not executed may be sent again; any other never is, so that nothing is charged twice.

use std::fmt;

use redis::{RedisError, ServerError, Value};

use crate::address::HostPort;
use crate::breaker::FailureWeight;
use crate::call::Reply;

/// The cause for which there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// Nothing was sent: there is no connection, or the breaker is open.
    Unavailable,
    /// No reply came in time. The call may have been executed.
    TimedOut,
    /// The connection broke. The call may have been executed.
    ConnectionLost,
    /// The server did not execute the call; with [`RefusalReason::Script`] it may have executed a part.
    Refused(RefusalReason),
    /// The answer is none of the script's.
    Unreadable,
}

/// The reason for which a server refuses all calls, or this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The server is a replica: the master is another one now.
    ReadOnly,
    /// The server loads its data.
    Loading,
    /// The memory of the server is full.
    Full,
    /// The login is wrong or lacks a right.
    Denied,
    /// The server is a replica without a master.
    MasterDown,
    /// The Cluster lacks slots.
    ClusterDown,
    /// The server cannot write to its disk, and refuses writes until it can.
    NotSaving,
    /// The server runs a script that does not end.
    Busy,
    /// Another server has the slot of the keys.
    Moved,
    /// The slot of the keys is being moved.
    TryAgain,
    /// The keys are not in one slot.
    CrossSlot,
    /// The script failed.
    Script(String),
}

/// An error that a server returned in place of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ErrorReply {
    /// No other way is left for the call.
    Failed(StoreError),
    /// The server has not loaded the script; nothing ran.
    NoScript,
    /// The slot has moved there; nothing ran.
    Moved(Option<HostPort>),
    /// The slot is being moved there, and has these keys already; nothing ran.
    Ask(Option<HostPort>),
    /// The slot is being moved; nothing ran.
    TryAgain,
}

impl ErrorReply {
    /// Returns the error for a caller that follows no redirection.
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Failed(error) => error,
            Self::NoScript => StoreError::Unreadable,
            Self::Moved(_) | Self::Ask(_) => StoreError::Refused(RefusalReason::Moved),
            Self::TryAgain => StoreError::Refused(RefusalReason::TryAgain),
        }
    }
}

impl StoreError {
    /// Returns whether the call certainly was not executed: then, and only then, it may be sent again.
    #[must_use]
    pub fn surely_did_not_arrive(&self) -> bool {
        match self {
            Self::Unavailable => true,
            Self::TimedOut | Self::ConnectionLost | Self::Unreadable => false,
            Self::Refused(refusal) => !matches!(refusal, RefusalReason::Script(_)),
        }
    }

    /// Returns the weight of the error for the breaker; `None`: it says nothing about the server.
    pub(crate) fn weight(&self) -> Option<FailureWeight> {
        match self {
            // A server that answers what nobody reads is no better than one that fails.
            Self::Unreadable => Some(FailureWeight::Counts),
            Self::Unavailable => None,
            Self::TimedOut => Some(FailureWeight::Counts),
            Self::ConnectionLost => Some(FailureWeight::Decides),
            Self::Refused(refusal) => match refusal {
                // What a server says of its own state holds for the next call too.
                RefusalReason::ReadOnly
                | RefusalReason::Loading
                | RefusalReason::Full
                | RefusalReason::Denied
                | RefusalReason::MasterDown
                | RefusalReason::ClusterDown
                | RefusalReason::NotSaving
                | RefusalReason::Busy => Some(FailureWeight::Decides),
                // These are about the call.
                RefusalReason::Moved
                | RefusalReason::TryAgain
                | RefusalReason::CrossSlot
                | RefusalReason::Script(_) => None,
            },
        }
    }
}

/// Converts a value of the client library.
fn reply(value: Value) -> Reply {
    match value {
        Value::Int(number) => Reply::Integer(number),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::SimpleString(text) => Reply::Bytes(text.into_bytes()),
        Value::Okay => Reply::Bytes(b"OK".to_vec()),
        Value::Array(values) => Reply::Rows(values.into_iter().map(reply).collect()),
        // RESP 2 has no other kinds.
        _ => Reply::Nil,
    }
}

/// Converts an answer of the client library.
pub(crate) fn read(answer: Result<Value, RedisError>) -> Result<Reply, ErrorReply> {
    match answer {
        Ok(Value::ServerError(error)) => Err(error_reply(&error)),
        Ok(value) => Ok(reply(value)),
        // Errors of servers are values: what is left is about the connection.
        Err(_) => Err(ErrorReply::Failed(StoreError::ConnectionLost)),
    }
}

fn error_reply(error: &ServerError) -> ErrorReply {
    let details = error.details().unwrap_or_default();
    let refusal = match error.code() {
        "NOSCRIPT" => return ErrorReply::NoScript,
        "MOVED" => return ErrorReply::Moved(parse_address(details)),
        "ASK" => return ErrorReply::Ask(parse_address(details)),
        "TRYAGAIN" => return ErrorReply::TryAgain,
        code => refusal(code, details),
    };
    ErrorReply::Failed(StoreError::Refused(refusal))
}

/// Maps the code of a server's error to its reason.
pub(crate) fn refusal(code: &str, details: &str) -> RefusalReason {
    match code {
        "READONLY" => RefusalReason::ReadOnly,
        "LOADING" => RefusalReason::Loading,
        "OOM" => RefusalReason::Full,
        "NOAUTH" | "NOPERM" | "WRONGPASS" => RefusalReason::Denied,
        "MASTERDOWN" => RefusalReason::MasterDown,
        "CLUSTERDOWN" => RefusalReason::ClusterDown,
        "MISCONF" | "NOREPLICAS" => RefusalReason::NotSaving,
        "BUSY" => RefusalReason::Busy,
        "MOVED" => RefusalReason::Moved,
        "TRYAGAIN" => RefusalReason::TryAgain,
        "CROSSSLOT" => RefusalReason::CrossSlot,
        // A script that calls what fails answers with that error's text behind ERR, before Redis 7.
        _ if details.contains("-READONLY") => RefusalReason::ReadOnly,
        _ if details.contains("-OOM") => RefusalReason::Full,
        _ if details.contains("-MISCONF") => RefusalReason::NotSaving,
        _ if details.contains("-NOPERM") || details.contains("can't run this command") => {
            RefusalReason::Denied
        }
        _ => RefusalReason::Script(format!("{code} {details}")),
    }
}

/// Parses `3999 127.0.0.1:6381`, the details of `MOVED` and `ASK`. An empty host stands for the server that answered.
fn parse_address(details: &str) -> Option<HostPort> {
    let (_, address) = details.split_once(' ')?;
    let (host, port) = address.rsplit_once(':')?;
    Some(HostPort {
        host: host.trim_matches(['[', ']']).into(),
        port: port.parse().ok()?,
    })
}

impl fmt::Display for StoreError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable => into.write_str("there is no connection"),
            Self::TimedOut => into.write_str("it did not answer in time"),
            Self::ConnectionLost => into.write_str("the connection broke"),
            Self::Unreadable => into.write_str("its answer cannot be read"),
            Self::Refused(refusal) => refusal.fmt(into),
        }
    }
}

impl fmt::Display for ErrorReply {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(into),
            Self::NoScript => into.write_str("it does not know the script (NOSCRIPT)"),
            Self::Moved(_) | Self::Ask(_) => RefusalReason::Moved.fmt(into),
            Self::TryAgain => RefusalReason::TryAgain.fmt(into),
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str(match self {
            Self::ReadOnly => "it is a replica (READONLY)",
            Self::Loading => "it loads its data (LOADING)",
            Self::Full => "its memory is full (OOM)",
            Self::Denied => "it does not let the gateway (NOAUTH, WRONGPASS or NOPERM)",
            Self::MasterDown => "it is a replica without a master (MASTERDOWN)",
            Self::ClusterDown => "the cluster lacks slots (CLUSTERDOWN)",
            Self::NotSaving => "it cannot save, and takes no writes (MISCONF)",
            Self::Busy => "a script runs there that does not end (BUSY)",
            Self::Moved => "it is part of a cluster, and the key is elsewhere (MOVED)",
            Self::TryAgain => "the slot of the keys is being moved (TRYAGAIN)",
            Self::CrossSlot => {
                "it is part of a cluster, and the keys are not in one slot (CROSSSLOT)"
            }
            Self::Script(error) => return write!(into, "the script failed: {error}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each error does what the documents say. Method: the words of servers.
    #[test]
    fn errors_of_servers_are_told_apart() {
        for (code, details, expected, weighs) in [
            (
                "READONLY",
                "You can't write against a read only replica.",
                RefusalReason::ReadOnly,
                true,
            ),
            (
                "LOADING",
                "Redis is loading the dataset in memory",
                RefusalReason::Loading,
                true,
            ),
            (
                "OOM",
                "command not allowed when used memory > 'maxmemory'.",
                RefusalReason::Full,
                true,
            ),
            (
                "NOAUTH",
                "Authentication required.",
                RefusalReason::Denied,
                true,
            ),
            (
                "WRONGPASS",
                "invalid username-password pair",
                RefusalReason::Denied,
                true,
            ),
            (
                "NOPERM",
                "this user has no permissions",
                RefusalReason::Denied,
                true,
            ),
            (
                "MASTERDOWN",
                "Link with MASTER is down",
                RefusalReason::MasterDown,
                true,
            ),
            (
                "CLUSTERDOWN",
                "Hash slot not served",
                RefusalReason::ClusterDown,
                true,
            ),
            (
                "MISCONF",
                "Errors writing to the AOF file",
                RefusalReason::NotSaving,
                true,
            ),
            (
                "BUSY",
                "Redis is busy running a script",
                RefusalReason::Busy,
                true,
            ),
            (
                "CROSSSLOT",
                "Keys in request don't hash to the same slot",
                RefusalReason::CrossSlot,
                false,
            ),
            (
                "ERR",
                "Error running script: -OOM command not allowed",
                RefusalReason::Full,
                true,
            ),
            (
                "ERR",
                "user_script:1: x",
                RefusalReason::Script("ERR user_script:1: x".to_owned()),
                false,
            ),
        ] {
            let refusal = refusal(code, details);
            assert_eq!(refusal, expected);
            assert_eq!(
                StoreError::Refused(refusal).weight().is_some(),
                weighs,
                "{code}"
            );
        }
    }

    /// Goal: the way that a Cluster shows is read. Method: names, IPv4, IPv6, nothing.
    #[test]
    fn redirections_name_a_place() {
        let said = |details| parse_address(details).map(|place| place.to_string());
        assert_eq!(
            said("3999 127.0.0.1:6381").as_deref(),
            Some("127.0.0.1:6381")
        );
        assert_eq!(said("3999 ::1:6381").as_deref(), Some("[::1]:6381"));
        assert_eq!(said("3999 :6381").as_deref(), Some(":6381"));
        assert_eq!(said("3999 host").as_deref(), None);
        assert_eq!(said("").as_deref(), None);
    }
}
