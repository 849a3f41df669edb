//! Owns the keys of the model, and executes the commands that read or write them.

use std::collections::{BTreeMap, VecDeque};

use super::Reply;

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(Vec<u8>),
    /// In the order in which fields were added, as small hashes are listed by Redis.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    List(VecDeque<Vec<u8>>),
    Sorted(BTreeMap<Vec<u8>, f64>),
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    value: Value,
    /// In milliseconds of the server's clock.
    expires: Option<u64>,
}

/// The keys of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Keyspace {
    entries: BTreeMap<Vec<u8>, Entry>,
}

type Words<'a> = &'a [Vec<u8>];

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

fn word(words: Words<'_>, index: usize) -> &[u8] {
    words.get(index).map_or(b"", |word| &word[..])
}

fn number(words: Words<'_>, index: usize) -> i64 {
    std::str::from_utf8(word(words, index))
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn score_of(text: &[u8]) -> f64 {
    match text {
        b"-inf" => f64::NEG_INFINITY,
        b"+inf" => f64::INFINITY,
        _ => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or_default(),
    }
}

fn range(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let len = len as i64;
    let index = |at: i64| if at < 0 { at + len } else { at };
    let start = index(start).max(0);
    let stop = index(stop).min(len - 1);
    if start > stop {
        return 0..0;
    }
    start as usize..stop as usize + 1
}

impl Keyspace {
    /// Returns the commands that change keys.
    pub(crate) fn is_write(name: &str) -> bool {
        matches!(
            name,
            "SET"
                | "DEL"
                | "HSET"
                | "HDEL"
                | "LPUSH"
                | "RPUSH"
                | "LTRIM"
                | "LREM"
                | "PEXPIRE"
                | "ZADD"
                | "ZREMRANGEBYSCORE"
        )
    }

    /// Returns the commands that a server without memory refuses.
    pub(crate) fn takes_memory(name: &str) -> bool {
        matches!(name, "SET" | "HSET" | "LPUSH" | "RPUSH" | "ZADD")
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Drops all keys.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the sum of the second number of a field over all keys whose name ends so.
    pub(crate) fn counted(&self, suffix: &str, field: &str) -> u64 {
        let keys = self.entries.iter();
        let keys = keys.filter(|(name, _)| name.ends_with(suffix.as_bytes()));
        keys.filter_map(|(_, entry)| match &entry.value {
            Value::Hash(fields) => {
                let found = fields.iter().find(|(name, _)| name == field.as_bytes())?;
                let text = std::str::from_utf8(&found.1).ok()?;
                text.split(' ').nth(1)?.parse::<u64>().ok()
            }
            _ => None,
        })
        .sum()
    }

    /// Executes a command at `now`, in milliseconds.
    pub(crate) fn execute(&mut self, name: &str, words: Words<'_>, now: u64) -> Reply {
        self.entries
            .retain(|_, entry| entry.expires.is_none_or(|expires| expires > now));
        let key = word(words, 0).to_vec();
        match name {
            "DEL" => {
                let removed = words
                    .iter()
                    .filter(|key| self.entries.remove(*key).is_some());
                Reply::Integer(removed.count() as i64)
            }
            "PTTL" => Reply::Integer(match self.entries.get(&key) {
                None => -2,
                Some(Entry { expires: None, .. }) => -1,
                Some(Entry {
                    expires: Some(expires),
                    ..
                }) => expires.saturating_sub(now) as i64,
            }),
            "PEXPIRE" => match self.entries.get_mut(&key) {
                None => Reply::Integer(0),
                Some(entry) => {
                    entry.expires = Some(now.saturating_add_signed(number(words, 1)));
                    Reply::Integer(1)
                }
            },
            "GET" | "SET" => self.text(name, key, words),
            _ if name.starts_with('H') => self.hash(name, key, words),
            _ if name.starts_with('Z') => self.sorted(name, key, words),
            _ => self.list(name, key, words),
        }
    }

    fn value(&mut self, key: Vec<u8>, empty: Value) -> &mut Value {
        let entry = self.entries.entry(key).or_insert(Entry {
            value: empty,
            expires: None,
        });
        &mut entry.value
    }

    fn text(&mut self, name: &str, key: Vec<u8>, words: Words<'_>) -> Reply {
        match (name, self.entries.get(&key).map(|entry| &entry.value)) {
            ("GET", None) => Reply::Nil,
            ("GET", Some(Value::Text(text))) => Reply::text(text.clone()),
            ("GET", Some(_)) => Reply::Error(WRONG_TYPE.to_owned()),
            (_, Some(_)) if word(words, 2) == b"NX" => Reply::Nil,
            _ => {
                let value = Value::Text(word(words, 1).to_vec());
                let expires = None;
                self.entries.insert(key, Entry { value, expires });
                Reply::ok()
            }
        }
    }

    fn hash(&mut self, name: &str, key: Vec<u8>, words: Words<'_>) -> Reply {
        let is_absent = !self.entries.contains_key(&key);
        let Value::Hash(fields) = self.value(key.clone(), Value::Hash(Vec::new())) else {
            return Reply::Error(WRONG_TYPE.to_owned());
        };
        let find = |fields: &[(Vec<u8>, Vec<u8>)], field: &[u8]| {
            fields.iter().position(|(name, _)| name == field)
        };
        let get = |field: &[u8]| match find(fields, field) {
            None => Reply::Nil,
            Some(at) => Reply::text(fields[at].1.clone()),
        };
        let reply = match name {
            "HGET" => get(word(words, 1)),
            "HMGET" => Reply::Array(words[1..].iter().map(|field| get(field)).collect()),
            "HLEN" => Reply::Integer(fields.len() as i64),
            "HVALS" => Reply::Array(fields.iter().map(|f| Reply::text(f.1.clone())).collect()),
            "HGETALL" => Reply::Array(
                fields
                    .iter()
                    .flat_map(|(name, value)| [name, value].map(|text| Reply::text(text.clone())))
                    .collect(),
            ),
            "HSET" => {
                let before = fields.len();
                for pair in words[1..].chunks(2) {
                    match find(fields, &pair[0]) {
                        Some(at) => fields[at].1 = pair[1].clone(),
                        None => fields.push((pair[0].clone(), pair[1].clone())),
                    }
                }
                Reply::Integer((fields.len() - before) as i64)
            }
            "HDEL" => {
                let before = fields.len();
                fields.retain(|(name, _)| !words[1..].contains(name));
                Reply::Integer((before - fields.len()) as i64)
            }
            _ => Reply::Error(format!("ERR unknown command '{name}'")),
        };
        if fields.is_empty() || is_absent && name != "HSET" {
            self.entries.remove(&key);
        }
        reply
    }

    fn list(&mut self, name: &str, key: Vec<u8>, words: Words<'_>) -> Reply {
        let Value::List(items) = self.value(key.clone(), Value::List(VecDeque::new())) else {
            return Reply::Error(WRONG_TYPE.to_owned());
        };
        let reply = match name {
            "LLEN" => Reply::Integer(items.len() as i64),
            "LINDEX" => {
                let at = range(number(words, 1), number(words, 1), items.len());
                let found = items.get(at.start).filter(|_| !at.is_empty());
                found.map_or(Reply::Nil, |item| Reply::text(item.clone()))
            }
            "LRANGE" => {
                let range = range(number(words, 1), number(words, 2), items.len());
                Reply::Array(items.range(range).cloned().map(Reply::Bulk).collect())
            }
            "LPUSH" | "RPUSH" => {
                for item in &words[1..] {
                    match name {
                        "LPUSH" => items.push_front(item.clone()),
                        _ => items.push_back(item.clone()),
                    }
                }
                Reply::Integer(items.len() as i64)
            }
            "LTRIM" => {
                let range = range(number(words, 1), number(words, 2), items.len());
                *items = items.range(range).cloned().collect();
                Reply::ok()
            }
            "LREM" => {
                let mut left = number(words, 1);
                let before = items.len();
                items.retain(|item| {
                    let goes = left > 0 && item == word(words, 2);
                    left -= i64::from(goes);
                    !goes
                });
                Reply::Integer((before - items.len()) as i64)
            }
            _ => Reply::Error(format!("ERR unknown command '{name}'")),
        };
        if items.is_empty() {
            self.entries.remove(&key);
        }
        reply
    }

    fn sorted(&mut self, name: &str, key: Vec<u8>, words: Words<'_>) -> Reply {
        let Value::Sorted(members) = self.value(key.clone(), Value::Sorted(BTreeMap::new())) else {
            return Reply::Error(WRONG_TYPE.to_owned());
        };
        let reply = match name {
            "ZADD" => {
                let added = members.insert(word(words, 2).to_vec(), score_of(word(words, 1)));
                Reply::Integer(i64::from(added.is_none()))
            }
            "ZCARD" => Reply::Integer(members.len() as i64),
            "ZREMRANGEBYSCORE" => {
                let before = members.len();
                let end = word(words, 2);
                match end.strip_prefix(b"(") {
                    Some(end) => members.retain(|_, score| *score >= score_of(end)),
                    None => members.retain(|_, score| *score > score_of(end)),
                }
                Reply::Integer((before - members.len()) as i64)
            }
            "ZREVRANGE" => {
                let mut all: Vec<_> = members.iter().collect();
                all.sort_by(|one, other| other.1.total_cmp(one.1).then(other.0.cmp(one.0)));
                let range = range(number(words, 1), number(words, 2), all.len());
                let pairs = all[range].iter().flat_map(|(member, score)| {
                    [
                        Reply::text((*member).clone()),
                        Reply::text(format!("{score}")),
                    ]
                });
                Reply::Array(pairs.collect())
            }
            _ => Reply::Error(format!("ERR unknown command '{name}'")),
        };
        if members.is_empty() {
            self.entries.remove(&key);
        }
        reply
    }
}
