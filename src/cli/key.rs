//! `sluicegate key [FILE] LIMIT VALUE…`
//!
//! Keys are hashed under a secret of the running process, so the command queries its admin listener, with its token.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::config_file::{is_config_name, named_or_packaged};
use super::exit_code::{FAILED, SUCCESS, USAGE};
use super::gateway_target::{encoded, of_config};
use super::output::{print, tell};

/// The timeout of each step: the gateway may query its store.
const PATIENCE: Duration = Duration::from_secs(5);

/// The lines of usage.
pub(super) const USAGE_LINES: &str = "sluicegate key [FILE] <LIMIT> [VALUE]...\n       \
     sluicegate key --config <FILE> <LIMIT> [VALUE]...";

/// The arguments of `key`.
#[derive(Args)]
pub(super) struct KeyCommand {
    /// The configuration, unless --config names it; the limit; and the value of each part of the limit's key, in their order. The first
    /// word is the configuration where it ends in .toml, contains a slash, or is the name of a file.
    #[arg(required = true, value_name = "FILE LIMIT VALUE")]
    words: Vec<String>,
    /// The configuration that the gateway runs with. Default: /etc/sluicegate/gateway.toml, where it exists.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A file with the token of the gateway. Default: one that [admin] token_file has and that is not a hash.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The key that is looked up.
#[derive(Debug, PartialEq, Eq)]
struct KeyQuestion<'w> {
    /// The configuration; `None` where none is named.
    file: Option<PathBuf>,
    limit: &'w str,
    values: &'w [String],
}

impl KeyCommand {
    /// Queries the admin listener for the key.
    pub(super) fn run(&self) -> u8 {
        let named = self.question().and_then(|question| {
            let file = named_or_packaged(question.file)?;
            Ok((file, question.limit, question.values))
        });
        match named {
            Ok((file, limit, values)) => self.print(&file, limit, values),
            Err(message) => {
                tell(&format_args!("sluicegate: {message}"));
                USAGE
            }
        }
    }

    /// Prints the state of the key.
    fn print(&self, file: &Path, limit: &str, values: &[String]) -> u8 {
        let (rules, client) = match of_config(file, self.token_file.as_ref(), PATIENCE) {
            Ok(found) => found,
            Err((code, message)) => {
                tell(&message);
                return code;
            }
        };
        if !rules.limits.contains_key(limit) {
            let names: Vec<&str> = rules.limits.keys().map(|name| &**name).collect();
            tell(&format_args!(
                "{limit}: no such limit; the file has {}",
                names.join(", ")
            ));
            return USAGE;
        }
        match client.send("GET", &target(limit, values)) {
            Ok((200, body)) => {
                let written = print(&body);
                if written.is_ok() { SUCCESS } else { FAILED }
            }
            Ok((400, body)) => {
                tell(&body);
                USAGE
            }
            Ok((status, body)) => {
                let authority = client.authority();
                tell(&format_args!("{authority}: answers {status}: {body}"));
                FAILED
            }
            Err(error) => {
                tell(&format_args!(
                    "{error}; keys are hashed by the running gateway, start it or correct [admin] address"
                ));
                FAILED
            }
        }
    }

    fn question(&self) -> Result<KeyQuestion<'_>, String> {
        let is_file = |word: &String| {
            let path = Path::new(word);
            is_config_name(path) || word.contains('/') || path.is_file()
        };
        let (file, rest) = match (&self.config, self.words.split_first()) {
            (None, Some((first, rest))) if is_file(first) => (Some(PathBuf::from(first)), rest),
            (named, _) => (named.clone(), &*self.words),
        };
        let (limit, values) = rest
            .split_first()
            .ok_or("no limit is named; write its name behind the file")?;
        Ok(KeyQuestion {
            file,
            limit,
            values,
        })
    }
}

/// Returns the path and query of the request.
fn target(limit: &str, values: &[String]) -> String {
    let values = values
        .iter()
        .map(|value| format!("value={}", encoded(value)));
    let query = values.collect::<Vec<_>>().join("&");
    format!("/limits/{limit}/keys?{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str], config: Option<&str>) -> KeyCommand {
        KeyCommand {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            config: config.map(PathBuf::from),
            token_file: None,
        }
    }

    /// Goal: the file is taken in both ways, and the default is left to its reader. Method: the words with each.
    #[test]
    fn the_first_word_is_the_file_where_no_other_is_named() {
        let values = ["192.0.2.1".to_owned()];
        let cases: [(&[&str], Option<&str>, Option<&str>); 4] = [
            (&["a.toml", "otp", "192.0.2.1"], None, Some("a.toml")),
            (&["./a", "otp", "192.0.2.1"], None, Some("./a")),
            (&["otp", "192.0.2.1"], Some("a.toml"), Some("a.toml")),
            (&["otp", "192.0.2.1"], None, None),
        ];
        for (words, config, file) in cases {
            let command = command(words, config);
            let question = KeyQuestion {
                file: file.map(PathBuf::from),
                limit: "otp",
                values: &values,
            };
            assert_eq!(command.question(), Ok(question), "{words:?}");
        }
        assert!(command(&["a.toml"], None).question().is_err());
    }
}
