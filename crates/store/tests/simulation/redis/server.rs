//! Executes the commands of clients: scripts, the handshake, and the refusals of a server that cannot serve.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::lua::{self, Commands};
use super::{Keyspace, Reply};

/// The condition of a server, by which it refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ServerCondition {
    #[default]
    Serving,
    /// It has no memory left: writes that take some are refused.
    OutOfMemory,
    /// It is a replica: writes are refused.
    ReadOnly,
    /// It runs another script.
    Busy,
    /// It loads its data.
    Loading,
}

/// A text that is replaced in every script before it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextEdit {
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// A server.
#[derive(Debug, Default)]
pub(crate) struct RedisModel {
    pub(crate) keys: Arc<Mutex<Keyspace>>,
    pub(crate) condition: ServerCondition,
    /// The data that a replica has, from the moment at which it no longer follows.
    pub(crate) replica: Option<Keyspace>,
    pub(crate) edits: Vec<TextEdit>,
    /// The number of texts that were replaced.
    pub(crate) replaced: usize,

    pub(crate) scripts: BTreeMap<String, Arc<str>>,
    /// The time at which the latest run of a script has ended.
    pub(crate) free_at: u64,
}

/// Microseconds that a run of a script takes at least: a batch of calls has a microsecond for each.
const LEAST_RUN: u64 = 50;
/// Microseconds that runs of one moment may last.
const LONGEST_WAIT: u64 = 100_000;

/// The commands of one script.
struct ScriptCommands {
    keys: Arc<Mutex<Keyspace>>,
    condition: ServerCondition,
    now_micros: u64,
    has_written: bool,
}

fn time(now_micros: u64) -> Reply {
    let parts = [now_micros / 1_000_000, now_micros % 1_000_000];
    Reply::Array(parts.map(|part| Reply::text(part.to_string())).to_vec())
}

impl Commands for ScriptCommands {
    fn command(&mut self, words: &[Vec<u8>]) -> Reply {
        let Some((name, words)) = words.split_first() else {
            return Reply::Error("ERR no command".to_owned());
        };
        let name = String::from_utf8_lossy(name).to_uppercase();
        if name == "TIME" {
            return time(self.now_micros);
        }
        if Keyspace::is_write(&name) {
            match self.condition {
                ServerCondition::OutOfMemory
                    if !self.has_written && Keyspace::takes_memory(&name) =>
                {
                    let refused = "OOM command not allowed when used memory > 'maxmemory'.";
                    return Reply::Error(refused.to_owned());
                }
                ServerCondition::ReadOnly => {
                    let refused = "READONLY You can't write against a read only replica.";
                    return Reply::Error(refused.to_owned());
                }
                _ => self.has_written = true,
            }
        }
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.execute(&name, words, self.now_micros / 1_000)
    }
}

impl RedisModel {
    /// Executes a command at this time of the server.
    pub(crate) fn execute(&mut self, words: &[Vec<u8>], now_micros: u64) -> Reply {
        let Some((name, words)) = words.split_first() else {
            return Reply::Error("ERR no command".to_owned());
        };

        let name = String::from_utf8_lossy(name).to_uppercase();
        match (&*name, self.condition) {
            ("CLIENT" | "SELECT" | "PING" | "AUTH", _) => Reply::ok(),
            (_, ServerCondition::Busy) => {
                Reply::Error("BUSY Redis is busy running a script.".to_owned())
            }
            (_, ServerCondition::Loading) => {
                Reply::Error("LOADING Redis is loading the dataset in memory".to_owned())
            }
            ("SCRIPT", _) => Reply::text(self.load(&words[1])),
            ("EVAL", _) => {
                let sha = self.load(&words[0]);
                self.script(&sha, &words[1..], now_micros)
            }
            ("EVALSHA", _) => {
                let sha = String::from_utf8_lossy(&words[0]).into_owned();
                self.script(&sha, &words[1..], now_micros)
            }
            _ => {
                let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
                keys.execute(&name, words, now_micros / 1_000)
            }
        }
    }

    /// Forgets the scripts, as a server does that starts.
    pub(crate) fn forget_scripts(&mut self) {
        self.scripts.clear();
    }

    fn load(&mut self, text: &[u8]) -> String {
        let sha = lua::sha1(text);
        if !self.scripts.contains_key(&sha) {
            let mut text = String::from_utf8_lossy(text).into_owned();
            for edit in &self.edits {
                if text.contains(edit.from) {
                    self.replaced += 1;
                    text = text.replace(edit.from, edit.to);
                }
            }
            self.scripts.insert(sha.clone(), text.into());
        }
        sha
    }

    fn script(&mut self, sha: &str, words: &[Vec<u8>], now_micros: u64) -> Reply {
        let Some(text) = self.scripts.get(sha).cloned() else {
            return Reply::Error("NOSCRIPT No matching script. Please use EVAL.".to_owned());
        };
        let count = std::str::from_utf8(&words[0]).map_or(0, |text| text.parse().unwrap_or(0));
        // Runs at one moment follow each other. A longer wait is a clock that has stepped back.
        let waits = self.free_at.saturating_sub(now_micros);
        let now_micros = now_micros + if waits < LONGEST_WAIT { waits } else { 0 };
        self.free_at = now_micros + LEAST_RUN;
        let commands = ScriptCommands {
            keys: Arc::clone(&self.keys),
            condition: self.condition,
            now_micros,
            has_written: false,
        };
        lua::run(&text, &words[1..=count], &words[count + 1..], commands)
    }
}
