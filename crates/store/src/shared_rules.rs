//! Keeps the temporary rules of operators in the store, for all gateways that share it.
//!
//! They lie in one hash: a field for each rule, by its id, with the rule as JSON, and a field `version` that differs after each change, so
//! that a gateway that polls reads one number as long as nothing changes. The key expires with the last rule.
//!
//! What an entry means, and which of two is right, is decided by who calls: this module moves texts.

use std::time::Duration;

use sluicegate_redis_link::StoreError;

use super::Store;
use super::script::{Call, Reply};

/// Entries that one call publishes.
const PIECE: usize = 256;

/// Reads the rules. KEYS: the hash; ARGV: the version that is known. Returns the version, and the fields with their values; nothing where
/// the version is the known one.
const READ: &str = "\
local version = redis.call('HGET', KEYS[1], 'version') or 'none'
if version == ARGV[1] then return {} end
return { version, redis.call('HGETALL', KEYS[1]) }
";

/// Publishes rules. KEYS: the hash; ARGV: the milliseconds for which the key is needed at least, then an id and a text for each rule; an
/// empty text removes the field.
const PUBLISH: &str = "\
for index = 2, #ARGV, 2 do
  if ARGV[index + 1] == '' then redis.call('HDEL', KEYS[1], ARGV[index])
  else redis.call('HSET', KEYS[1], ARGV[index], ARGV[index + 1]) end
end
local time = redis.call('TIME')
local before = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
local version = math.max(time[1] * 1000000 + time[2], before + 1)
redis.call('HSET', KEYS[1], 'version', string.format('%.0f', version))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 0
";

/// The field with the version.
const VERSION: &str = "version";

/// The rules in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedRules {
    /// Differs after each change.
    pub version: String,
    /// The id and the text of each rule.
    pub entries: Vec<(String, String)>,
}

impl Store {
    /// Reads the rules in the store; `None` where their version is still the `known` one.
    ///
    /// # Errors
    /// The store cannot be reached, or refuses.
    pub async fn read_rules(&self, known: Option<&str>) -> Result<Option<SharedRules>, StoreError> {
        let call = self.about_rules([known.unwrap_or_default().to_owned()]);
        let reply = self.run_other(&call, READ).await?;
        Ok(rules_of_reply(reply))
    }

    /// Writes rules, or removes those with an empty text. The store keeps all of them for this long at least.
    ///
    /// # Errors
    /// The store cannot be reached, or refuses; some of the rules may have been written.
    pub async fn publish_rules(
        &self,
        entries: &[(String, String)],
        lasts: Duration,
    ) -> Result<(), StoreError> {
        for piece in entries.chunks(PIECE) {
            let texts = piece
                .iter()
                .flat_map(|(id, text)| [id.clone(), text.clone()]);
            let lasts = lasts.as_millis().max(1).to_string();
            let call = self.about_rules([lasts].into_iter().chain(texts));
            self.run_other(&call, PUBLISH).await?;
        }
        Ok(())
    }

    fn about_rules(&self, args: impl IntoIterator<Item = String>) -> Call {
        Call {
            keys: vec![format!("{}:rules", self.prefix()).into_bytes()],
            args: args.into_iter().map(String::into_bytes).collect(),
        }
    }
}

/// Returns the rules of an answer; `None` where it has none. Fields that are no text are ignored.
fn rules_of_reply(reply: Reply) -> Option<SharedRules> {
    let Reply::Rows(parts) = reply else {
        return None;
    };
    let mut parts = parts.into_iter();
    let version = text(parts.next()?)?;
    let Some(Reply::Rows(fields)) = parts.next() else {
        return None;
    };
    let mut fields = fields.into_iter();
    let mut entries = Vec::new();
    while let Some(name) = fields.next()
        && let Some(value) = fields.next()
    {
        if let (Some(name), Some(value)) = (text(name), text(value))
            && name != VERSION
        {
            entries.push((name, value));
        }
    }
    Some(SharedRules { version, entries })
}

fn text(reply: Reply) -> Option<String> {
    match reply {
        Reply::Bytes(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().to_vec())
    }

    /// Goal: an answer is taken whole, and what no gateway writes is ignored. Method: answers with and without rules, and broken ones.
    #[test]
    fn an_answer_has_the_rules_without_their_version() {
        let fields = ["version", "7", "id", "{}"].map(bytes).to_vec();
        let reply = Reply::Rows(vec![bytes("7"), Reply::Rows(fields)]);
        let rules = SharedRules {
            version: "7".to_owned(),
            entries: vec![("id".to_owned(), "{}".to_owned())],
        };
        assert_eq!(rules_of_reply(reply), Some(rules));
        let broken = vec![
            Reply::Nil,
            bytes("a"),
            bytes("b"),
            Reply::Integer(1),
            bytes("c"),
        ];
        let reply = Reply::Rows(vec![bytes("7"), Reply::Rows(broken)]);
        assert_eq!(
            rules_of_reply(reply).map(|rules| rules.entries.len()),
            Some(0)
        );
        for none in [
            Reply::Nil,
            Reply::Rows(Vec::new()),
            Reply::Rows(vec![bytes("7")]),
        ] {
            assert_eq!(rules_of_reply(none), None);
        }
    }
}
