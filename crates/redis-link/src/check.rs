//! Tests a store for an operator: each step that calls depend on, with a remedy where one fails.
//!
//! The check connects by itself, apart from any [`Link`](crate::Link), sends no heartbeat, and leaves one key for a second: whether a
//! server accepts writes cannot be found out by reading.

use std::fmt;
use std::time::Duration;

use redis::Cmd;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;

use crate::address::ServerAddress;
use crate::call::{Call, Reply, command};
use crate::connect::{DialError, Handshake, connect};
use crate::error::{ErrorReply, RefusalReason, StoreError, read};
use crate::sentinel::SentinelError;
use crate::settings::{LinkSettings, Topology};
use crate::slots::number_in;
use crate::time::Moment;
use crate::time::deadline;
use crate::{sentinel, topology};

mod remedy;

pub use self::remedy::CheckRemedy;

/// The number of round trips that are timed.
const PINGS: usize = 20;
/// The longest time for one step. It exceeds the timeout of a call, so that the check can show how slow a server is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes a key that expires after a second.
const WRITE: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'PX', 1000)";

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// The severity.
    pub grade: Severity,
    /// The finding.
    pub text: String,
    /// The remedy; `None` where there is nothing to do.
    pub remedy: Option<CheckRemedy>,
}

/// The severity of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is wrong.
    Good,
    /// The store works, and could cause trouble.
    Doubtful,
    /// The store does not work.
    Bad,
}

/// A call that tries the script out.
pub trait ScriptProbe: Sync {
    /// Returns the text of the script.
    fn script(&self) -> &str;

    /// Returns a call that writes nothing, about keys that begin with `prefix`.
    fn call(&self, prefix: &str) -> Call;

    /// Judges the answer to that call.
    fn read(&self, prefix: &str, reply: Reply) -> ProbeResult;
}

/// The meaning of the answer to a [`ScriptProbe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// The script ran.
    Understood,
    /// This key holds a value that the script never writes.
    ForeignKey(String),
    /// No answer of the script.
    Unreadable,
}

/// Tests every server of the store of `settings`, and returns the results server by server.
pub async fn check(settings: &LinkSettings, probe: &dyn ScriptProbe) -> Vec<CheckResult> {
    let mut results = Vec::new();
    let located = match located(settings).await {
        Ok(located) => located,
        Err(result) => return vec![result],
    };
    for server in located {
        results.push(CheckResult::passed(format!("server {}", server.address)));
        if let Err(result) = check_server(&server, settings, probe, &mut results).await {
            results.push(result);
        }
    }
    results
}

/// The address of a server, and the beginning of a key that it has.
struct ServerLocation {
    address: ServerAddress,
    database: u16,
    prefix: String,
}

/// Locates the servers that have keys.
async fn located(settings: &LinkSettings) -> Result<Vec<ServerLocation>, CheckResult> {
    let alone = |address, database| {
        vec![ServerLocation {
            address,
            database,
            prefix: settings.prefix.clone(),
        }]
    };
    match &settings.topology {
        Topology::Single { address, database } => Ok(alone(address.clone(), *database)),
        Topology::Sentinel {
            master,
            nodes,
            login,
        } => match sentinel::find_master(master, nodes, login, 0, settings).await {
            Ok(address) => Ok(alone(ServerAddress::Tcp(address), 0)),
            Err(errors) => {
                let reasons: Vec<String> = errors.iter().map(ToString::to_string).collect();
                let remedy = if errors.iter().any(SentinelError::is_denied) {
                    CheckRemedy::SentinelLogin
                } else {
                    CheckRemedy::SentinelNames {
                        master: master.clone(),
                    }
                };
                Err(CheckResult::failure(reasons.join("; "), remedy))
            }
        },
        Topology::Cluster { nodes } => match topology::fetch_slots(nodes, settings).await {
            Ok((_, shards)) => Ok(shards
                .into_iter()
                .filter_map(|shard| {
                    let number = number_in(&shard.ranges)?;
                    Some(ServerLocation {
                        address: ServerAddress::Tcp(shard.address),
                        database: 0,
                        prefix: format!("{}{{{number}}}", settings.prefix),
                    })
                })
                .collect()),
            Err(error) => Err(CheckResult::failure(
                format!("no node says which has which keys: {error}"),
                CheckRemedy::ClusterNodes,
            )),
        },
    }
}

/// Tests one server.
async fn check_server(
    located: &ServerLocation,
    settings: &LinkSettings,
    probe: &dyn ScriptProbe,
    results: &mut Vec<CheckResult>,
) -> Result<(), CheckResult> {
    let handshake = Handshake::Keys {
        database: located.database,
    };
    let connected = connect(&located.address, handshake, settings)
        .await
        .map_err(unreachable)?;
    let mut server = CheckedServer {
        multiplexed: connected.multiplexed,
        driver: tokio::spawn(connected.driver),
    };
    results.push(server.identity(settings).await?);
    results.push(server.latency(settings).await?);
    results.push(server.clock(settings).await?);
    server.script(probe, &located.prefix).await?;
    results.push(CheckResult::passed("script loads and runs"));
    server.write(&format!("{}:check", located.prefix)).await?;
    results.push(CheckResult::passed("takes writes"));
    results.push(server.memory(settings).await?);
    results.push(server.persistence().await?);
    Ok(())
}

/// A connected server.
struct CheckedServer {
    multiplexed: MultiplexedConnection,
    driver: JoinHandle<()>,
}

impl Drop for CheckedServer {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl CheckedServer {
    async fn send(&mut self, command: &Cmd) -> Result<Reply, CheckResult> {
        let deadline = deadline(PATIENCE);
        let answer =
            tokio::time::timeout_at(deadline, self.multiplexed.send_packed_command(command)).await;
        answer
            .map_or(Err(ErrorReply::Failed(StoreError::TimedOut)), read)
            .map_err(|error| failed(&error))
    }

    /// Fetches a section of `INFO`.
    async fn info(&mut self, section: &str) -> Result<String, CheckResult> {
        match self.send(&words(&["INFO", section])).await? {
            Reply::Bytes(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            _ => Ok(String::new()),
        }
    }

    async fn identity(&mut self, settings: &LinkSettings) -> Result<CheckResult, CheckResult> {
        let about = self.info("server").await?;
        if field(&about, "redis_mode") == Some("cluster")
            && !matches!(settings.topology, Topology::Cluster { .. })
        {
            return Err(CheckResult::failure(
                "it has a part of the keys only",
                CheckRemedy::ClusterTopology,
            ));
        }
        let name = match field(&about, "valkey_version") {
            Some(version) => format!("Valkey {version}"),
            None => format!(
                "Redis {}",
                field(&about, "redis_version").unwrap_or("of no version")
            ),
        };
        let replication = self.info("replication").await?;
        match field(&replication, "role") {
            Some("master") => {
                let replicas = field(&replication, "connected_slaves").unwrap_or("0");
                Ok(CheckResult::passed(format!(
                    "{name}, master, {replicas} replicas"
                )))
            }
            role => Err(CheckResult::failure(
                format!("{name}, {}", role.unwrap_or("of no role")),
                CheckRemedy::MasterAddress,
            )),
        }
    }

    async fn latency(&mut self, settings: &LinkSettings) -> Result<CheckResult, CheckResult> {
        let mut took = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let sent = settings.environment.now();
            self.send(&words(&["PING"])).await?;
            took.push(settings.environment.now().saturating_since(sent));
        }
        took.sort_unstable();
        let median = took.get(PINGS / 2).copied().unwrap_or_default();
        let longest = took.last().copied().unwrap_or_default();
        let text = format!("round trip {median:.1?}, at most {longest:.1?} of {PINGS}");
        let timeout = settings.timeout;
        Ok(if median >= timeout {
            CheckResult::failure(
                format!("{text}, and a call may take {timeout:?}"),
                CheckRemedy::LongerTimeout,
            )
        } else if longest * 2 > timeout {
            CheckResult {
                grade: Severity::Doubtful,
                text: format!("{text}, and a call may take {timeout:?}"),
                remedy: Some(CheckRemedy::TimeoutMargin),
            }
        } else {
            CheckResult::passed(text)
        })
    }

    async fn clock(&mut self, settings: &LinkSettings) -> Result<CheckResult, CheckResult> {
        let sent = settings.environment.now();
        let wall = settings.environment.wall();
        let reply = self.send(&words(&["TIME"])).await?;
        let then = wall.saturating_add(settings.environment.now().saturating_since(sent) / 2);
        let Some(there) = time_of(&reply) else {
            return Err(failed(&ErrorReply::Failed(StoreError::Unreadable)));
        };
        let (apart, which) = if there > then {
            (there.saturating_since(then), "ahead")
        } else {
            (then.saturating_since(there), "behind")
        };
        let text = format!("clock {apart:.1?} {which}");
        Ok(if apart > Duration::from_secs(1) {
            CheckResult {
                grade: Severity::Doubtful,
                text,
                remedy: Some(CheckRemedy::SynchronizedClocks),
            }
        } else {
            CheckResult::passed(text)
        })
    }

    /// Loads the script, and runs the call of `probe`, which writes nothing.
    async fn script(&mut self, probe: &dyn ScriptProbe, prefix: &str) -> Result<(), CheckResult> {
        let loading = words(&["SCRIPT", "LOAD", probe.script()]);
        let hash = match self.send(&loading).await? {
            Reply::Bytes(hash) => String::from_utf8_lossy(&hash).into_owned(),
            _ => return Err(failed(&ErrorReply::Failed(StoreError::Unreadable))),
        };
        let call = probe.call(prefix);
        let reply = self.send(&command(&call, "EVALSHA", &hash)).await?;
        match probe.read(prefix, reply) {
            ProbeResult::Understood => Ok(()),
            ProbeResult::ForeignKey(name) => Err(CheckResult::failure(
                format!("a key of another kind stands at {name}"),
                CheckRemedy::OwnPrefix,
            )),
            ProbeResult::Unreadable => Err(failed(&ErrorReply::Failed(StoreError::Unreadable))),
        }
    }

    async fn write(&mut self, key: &str) -> Result<(), CheckResult> {
        let call = Call {
            keys: vec![key.as_bytes().to_vec()],
            args: vec![b"1".to_vec()],
        };
        self.send(&command(&call, "EVAL", WRITE)).await.map(drop)
    }

    async fn persistence(&mut self) -> Result<CheckResult, CheckResult> {
        let about = self.info("persistence").await?;
        Ok(match field(&about, "aof_enabled") {
            Some("1") => CheckResult::passed("keeps a log of what is written"),
            _ => CheckResult {
                grade: Severity::Doubtful,
                text: "keeps no log of what is written (appendonly no)".to_owned(),
                remedy: Some(CheckRemedy::AppendOnlyFile),
            },
        })
    }

    async fn memory(&mut self, settings: &LinkSettings) -> Result<CheckResult, CheckResult> {
        let about = self.info("memory").await?;
        let used = field(&about, "used_memory_human").unwrap_or("?");
        let most = field(&about, "maxmemory").unwrap_or("0");
        let policy = field(&about, "maxmemory_policy").unwrap_or("noeviction");
        let shown = field(&about, "maxmemory_human").unwrap_or(most);
        let text = format!(
            "memory {used} of {}, maxmemory-policy {policy}",
            if most == "0" { "no limit" } else { shown }
        );
        Ok(match policy {
            _ if most == "0" => CheckResult {
                grade: Severity::Doubtful,
                text,
                remedy: Some(CheckRemedy::MemoryBound),
            },
            "noeviction" => CheckResult {
                grade: Severity::Good,
                text: format!(
                    "{text}: when it is full, every call fails, and {}",
                    settings.outage_effect
                ),
                remedy: None,
            },
            "volatile-ttl" => CheckResult {
                grade: Severity::Good,
                text: format!(
                    "{text}: when it is full, the counters that end soonest are forgotten first"
                ),
                remedy: None,
            },
            _ => CheckResult {
                grade: Severity::Doubtful,
                text,
                remedy: Some(CheckRemedy::EvictionPolicy),
            },
        })
    }
}

impl CheckResult {
    fn passed(text: impl Into<String>) -> Self {
        Self {
            grade: Severity::Good,
            text: text.into(),
            remedy: None,
        }
    }

    fn failure(text: impl Into<String>, remedy: CheckRemedy) -> Self {
        Self {
            grade: Severity::Bad,
            text: text.into(),
            remedy: Some(remedy),
        }
    }
}

impl fmt::Display for CheckResult {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.grade {
            Severity::Good => "ok    ",
            Severity::Doubtful => "doubt ",
            Severity::Bad => "FAIL  ",
        };
        write!(into, "{mark}{}", self.text)
    }
}

/// Returns the result for a server that cannot be reached.
fn unreachable(error: DialError) -> CheckResult {
    let remedy = match &error {
        _ if error.is_denied() => CheckRemedy::Login,
        DialError::Slow(_) => CheckRemedy::NetworkPath,
        DialError::Socket(_) => CheckRemedy::ListeningServer,
        DialError::Tls(_) => CheckRemedy::TlsSettings,
        DialError::Handshake(_) => CheckRemedy::ServerKind,
    };
    CheckResult::failure(error.to_string(), remedy)
}

/// Returns the result for a server that answers with an error.
fn failed(error: &ErrorReply) -> CheckResult {
    let remedy = match error {
        ErrorReply::Failed(StoreError::Refused(refusal)) => match refusal {
            RefusalReason::Denied => CheckRemedy::Login,
            RefusalReason::ReadOnly => CheckRemedy::MasterAddress,
            RefusalReason::Full => CheckRemedy::MoreMemory,
            RefusalReason::Loading => CheckRemedy::LoadedServer,
            RefusalReason::NotSaving => CheckRemedy::DiskSpace,
            RefusalReason::MasterDown => CheckRemedy::RunningMaster,
            RefusalReason::ClusterDown => CheckRemedy::CoveredSlots,
            RefusalReason::Busy => CheckRemedy::KilledScript,
            RefusalReason::Moved | RefusalReason::TryAgain | RefusalReason::CrossSlot => {
                CheckRemedy::ClusterTopology
            }
            RefusalReason::Script(_) => CheckRemedy::ServerVersion,
        },
        ErrorReply::Moved(_) | ErrorReply::Ask(_) | ErrorReply::TryAgain => {
            CheckRemedy::ClusterTopology
        }
        ErrorReply::Failed(StoreError::TimedOut) => CheckRemedy::FasterServer,
        ErrorReply::Failed(_) | ErrorReply::NoScript => CheckRemedy::DirectConnection,
    };
    CheckResult::failure(error.to_string(), remedy)
}

fn words(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(word);
    }
    command
}

/// Returns a field of `INFO`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines()
        .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

fn time_of(reply: &Reply) -> Option<Moment> {
    let Reply::Rows(fields) = reply else {
        return None;
    };
    let [Reply::Bytes(seconds), Reply::Bytes(micros)] = &fields[..] else {
        return None;
    };
    let number = |digits: &[u8]| str::from_utf8(digits).ok()?.parse::<u64>().ok();
    let micros = Duration::from_micros(number(micros)?);
    Some(Moment::from_secs(number(seconds)?).saturating_add(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: fields are found whole. Method: lines as servers write them, one a prefix of another.
    #[test]
    fn fields_of_info_are_found_by_their_whole_name() {
        let text = "# Memory\r\nmaxmemory_human:1.00G\r\nmaxmemory:1073741824\r\nrole:master\r\n";
        assert_eq!(field(text, "maxmemory"), Some("1073741824"));
        assert_eq!(field(text, "role"), Some("master"));
        assert_eq!(field(text, "max"), None);
    }
}
