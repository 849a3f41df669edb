//! Owns what a call can come to: a reply, or a trouble that says whether anything may have happened in the store.
//!
//! That distinction is the point: what was certainly not carried out may be sent again, anything else never is, and so nothing is
//! charged twice.

use std::fmt;

use redis::{RedisError, ServerError, Value};

use crate::config::rules::HostPort;
use crate::store::breaker::Weight;
use crate::store::script::Reply;

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing was sent: there is no connection, or the breaker is open.
    Away,
    /// No reply came in time. It may have been carried out.
    TimedOut,
    /// The connection broke. It may have been carried out.
    Lost,
    /// The server did not carry it out, and said why; of [`Refusal::Script`] a part may have been.
    Refused(Refusal),
    /// It was answered, and nobody knows what that means.
    Unreadable,
}

/// Why a server carries out no call, or not this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is a replica: the master is another one now.
    ReadOnly,
    /// It loads its data.
    Loading,
    /// Its memory is full.
    Full,
    /// It does not know the gateway, or does not let it.
    Denied,
    /// It is a replica without a master.
    MasterDown,
    /// The Cluster lacks slots.
    ClusterDown,
    /// It cannot write to disk, and takes nothing until it can.
    NotSaving,
    /// It is busy with a script that does not end.
    Busy,
    /// The key's slot is elsewhere.
    Moved,
    /// The key's slot is being moved.
    TryAgain,
    /// The keys are not in one slot.
    CrossSlot,
    /// The script failed.
    Script(String),
}

/// What a server said in place of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing can be done about it.
    Trouble(Trouble),
    /// It does not know the script; nothing ran.
    NoScript,
    /// The slot is there; nothing ran.
    Moved(Option<HostPort>),
    /// This once the slot is there; nothing ran.
    Ask(Option<HostPort>),
    /// The slot is on its way; nothing ran.
    TryAgain,
}

impl Fault {
    /// What it is for who follows nothing.
    pub(super) fn into_trouble(self) -> Trouble {
        match self {
            Self::Trouble(trouble) => trouble,
            Self::NoScript => Trouble::Unreadable,
            Self::Moved(_) | Self::Ask(_) => Trouble::Refused(Refusal::Moved),
            Self::TryAgain => Trouble::Refused(Refusal::TryAgain),
        }
    }
}

impl Trouble {
    /// Nothing was sent.
    #[must_use]
    pub fn away() -> Self {
        Self::Away
    }

    /// The answer makes no sense.
    #[must_use]
    pub fn unreadable() -> Self {
        Self::Unreadable
    }

    /// Whether it is certain that nothing happened in the store: then, and only then, the call may be made again.
    #[must_use]
    pub fn surely_did_not_arrive(&self) -> bool {
        match self {
            Self::Away => true,
            Self::TimedOut | Self::Lost | Self::Unreadable => false,
            Self::Refused(refusal) => !matches!(refusal, Refusal::Script(_)),
        }
    }

    /// What it says of the server; `None`: nothing.
    pub(super) fn weight(&self) -> Option<Weight> {
        match self {
            // A server that answers what nobody reads is no better than one that fails.
            Self::Unreadable => Some(Weight::Counts),
            Self::Away => None,
            Self::TimedOut => Some(Weight::Counts),
            Self::Lost => Some(Weight::Decides),
            Self::Refused(refusal) => match refusal {
                // What a server says of its own state holds for the next call too.
                Refusal::ReadOnly
                | Refusal::Loading
                | Refusal::Full
                | Refusal::Denied
                | Refusal::MasterDown
                | Refusal::ClusterDown
                | Refusal::NotSaving
                | Refusal::Busy => Some(Weight::Decides),
                // These are about the call.
                Refusal::Moved | Refusal::TryAgain | Refusal::CrossSlot | Refusal::Script(_) => {
                    None
                }
            },
        }
    }
}

/// What a value is to those who do not know the client library.
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

/// What a raw answer comes to.
pub(super) fn read(answer: Result<Value, RedisError>) -> Result<Reply, Fault> {
    match answer {
        Ok(Value::ServerError(error)) => Err(fault(&error)),
        Ok(value) => Ok(reply(value)),
        // Errors of servers are values: what is left is about the connection.
        Err(_) => Err(Fault::Trouble(Trouble::Lost)),
    }
}

fn fault(error: &ServerError) -> Fault {
    let details = error.details().unwrap_or_default();
    let refusal = match error.code() {
        "NOSCRIPT" => return Fault::NoScript,
        "MOVED" => return Fault::Moved(place(details)),
        "ASK" => return Fault::Ask(place(details)),
        "TRYAGAIN" => return Fault::TryAgain,
        code => refusal(code, details),
    };
    Fault::Trouble(Trouble::Refused(refusal))
}

/// What an error of a server means.
pub(super) fn refusal(code: &str, details: &str) -> Refusal {
    match code {
        "READONLY" => Refusal::ReadOnly,
        "LOADING" => Refusal::Loading,
        "OOM" => Refusal::Full,
        "NOAUTH" | "NOPERM" | "WRONGPASS" => Refusal::Denied,
        "MASTERDOWN" => Refusal::MasterDown,
        "CLUSTERDOWN" => Refusal::ClusterDown,
        "MISCONF" | "NOREPLICAS" => Refusal::NotSaving,
        "BUSY" => Refusal::Busy,
        "MOVED" => Refusal::Moved,
        "TRYAGAIN" => Refusal::TryAgain,
        "CROSSSLOT" => Refusal::CrossSlot,
        // A script that calls what fails answers with that error's text behind ERR, before Redis 7.
        _ if details.contains("-READONLY") => Refusal::ReadOnly,
        _ if details.contains("-OOM") => Refusal::Full,
        _ if details.contains("-MISCONF") => Refusal::NotSaving,
        _ if details.contains("-NOPERM") || details.contains("can't run this command") => {
            Refusal::Denied
        }
        _ => Refusal::Script(format!("{code} {details}")),
    }
}

/// `3999 127.0.0.1:6381`, as MOVED and ASK say it; the host may be left out, and means the one that was asked.
fn place(details: &str) -> Option<HostPort> {
    let (_, address) = details.split_once(' ')?;
    let (host, port) = address.rsplit_once(':')?;
    Some(HostPort {
        host: host.trim_matches(['[', ']']).into(),
        port: port.parse().ok()?,
    })
}

impl fmt::Display for Trouble {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away => into.write_str("there is no connection"),
            Self::TimedOut => into.write_str("it did not answer in time"),
            Self::Lost => into.write_str("the connection broke"),
            Self::Unreadable => into.write_str("its answer cannot be read"),
            Self::Refused(refusal) => refusal.fmt(into),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trouble(trouble) => trouble.fmt(into),
            Self::NoScript => into.write_str("it does not know the script (NOSCRIPT)"),
            Self::Moved(_) | Self::Ask(_) => Refusal::Moved.fmt(into),
            Self::TryAgain => Refusal::TryAgain.fmt(into),
        }
    }
}

impl fmt::Display for Refusal {
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
                Refusal::ReadOnly,
                true,
            ),
            (
                "LOADING",
                "Redis is loading the dataset in memory",
                Refusal::Loading,
                true,
            ),
            (
                "OOM",
                "command not allowed when used memory > 'maxmemory'.",
                Refusal::Full,
                true,
            ),
            ("NOAUTH", "Authentication required.", Refusal::Denied, true),
            (
                "WRONGPASS",
                "invalid username-password pair",
                Refusal::Denied,
                true,
            ),
            (
                "NOPERM",
                "this user has no permissions",
                Refusal::Denied,
                true,
            ),
            (
                "MASTERDOWN",
                "Link with MASTER is down",
                Refusal::MasterDown,
                true,
            ),
            (
                "CLUSTERDOWN",
                "Hash slot not served",
                Refusal::ClusterDown,
                true,
            ),
            (
                "MISCONF",
                "Errors writing to the AOF file",
                Refusal::NotSaving,
                true,
            ),
            (
                "BUSY",
                "Redis is busy running a script",
                Refusal::Busy,
                true,
            ),
            (
                "CROSSSLOT",
                "Keys in request don't hash to the same slot",
                Refusal::CrossSlot,
                false,
            ),
            (
                "ERR",
                "Error running script: -OOM command not allowed",
                Refusal::Full,
                true,
            ),
            (
                "ERR",
                "user_script:1: x",
                Refusal::Script("ERR user_script:1: x".to_owned()),
                false,
            ),
        ] {
            let refusal = refusal(code, details);
            assert_eq!(refusal, expected);
            assert_eq!(
                Trouble::Refused(refusal).weight().is_some(),
                weighs,
                "{code}"
            );
        }
    }

    /// Goal: the way that a Cluster shows is read. Method: names, IPv4, IPv6, nothing.
    #[test]
    fn redirections_name_a_place() {
        let said = |details| place(details).map(|place| place.to_string());
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
