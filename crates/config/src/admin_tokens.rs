//! Parses the file that `[admin] token_file` names: one token alone, or a line `NAME ROLE TOKEN` for each operator.
//!
//! A token is written as it is, or as `sha256:` and the hexadecimal SHA-256 of it, so that a copy of the file gives no access. A fast hash
//! is enough, since tokens are random: a minimum length is enforced. Errors name lines and never quote them, since a word in the wrong
//! place may be the token.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::hex::hex_bytes;

/// The name of a token that stands alone in its file.
const ONLY_TOKEN: &str = "admin";
/// The maximum number of tokens: each request is compared with all of them.
const MAX_TOKENS: usize = 64;
/// The minimum length of a token that is written as it is beside a name.
pub(crate) const MIN_BYTES: usize = 16;
/// The maximum length of a token, far below that of a request head.
const MAX_BYTES: usize = 512;
/// The maximum length of a name.
const MAX_NAME: usize = 64;

/// The tokens of the operator's listener, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminTokens(Arc<[AdminToken]>);

/// One token.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken {
    /// The name that audit lines have.
    pub name: Arc<str>,
    /// The requests that it allows.
    pub role: AdminRole,
    /// The token itself.
    pub secret: TokenSecret,
}

/// A token as its file has it.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenSecret {
    /// The token.
    Plain(Arc<str>),
    /// The SHA-256 of the token.
    Sha256([u8; 32]),
}

/// The requests that a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminRole {
    /// GET and HEAD.
    Read,
    /// Every request.
    Act,
}

/// The mistake in a file of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFileError {
    /// The mistake, with its line.
    pub message: String,
    /// The advice.
    pub advice: &'static str,
}

/// The beginning of a word that is the hash of a token.
const HASH_PREFIX: &str = "sha256:";

const NEW_TOKEN: &str = "put a token there, for example with: openssl rand -hex 32";
const LINE: &str = "write one token alone, or lines \"NAME ROLE TOKEN\" with the role read or act, such as: alice act TOKEN";
const HASH: &str = "write sha256: and the 64 digits that this prints: printf %s TOKEN | sha256sum";

impl AdminTokens {
    /// Parses the text of a file. Empty lines and lines that begin with `#` have no meaning.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let lines = text.lines().zip(1_usize..);
        let lines = lines.map(|(line, number)| (line.trim(), number));
        let lines: Vec<_> = lines
            .filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
            .collect();
        let tokens = match &lines[..] {
            [] => return Err(error("there is no token", NEW_TOKEN)),
            [(line, number)] if !line.contains(char::is_whitespace) => {
                vec![AdminToken {
                    name: ONLY_TOKEN.into(),
                    role: AdminRole::Act,
                    secret: secret(line, 1).map_err(|mistake| mistake.at(*number))?,
                }]
            }
            _ if lines.len() > MAX_TOKENS => {
                let message = format!("there are more than {MAX_TOKENS} tokens");
                return Err(error(message, "remove those that nobody uses"));
            }
            lines => (lines.iter())
                .map(|(line, number)| named(line).map_err(|mistake| mistake.at(*number)))
                .collect::<Result<_, _>>()?,
        };
        check_apart(&tokens)?;
        Ok(Self(tokens.into()))
    }

    /// Returns the tokens in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &AdminToken> {
        self.0.iter()
    }

    /// Returns a token that a command can send: the first with the role act that is written as it is, else the first with the role read;
    /// `None` where the file has hashes alone.
    #[must_use]
    pub fn usable(&self) -> Option<&str> {
        let plain = |role| {
            let mut of_role = self.iter().filter(move |token| token.role == role);
            of_role.find_map(|token| match &token.secret {
                TokenSecret::Plain(text) => Some(&**text),
                TokenSecret::Sha256(_) => None,
            })
        };
        plain(AdminRole::Act).or_else(|| plain(AdminRole::Read))
    }

    /// Returns whether a token is shorter than those beside a name may be.
    pub(crate) fn has_short_token(&self) -> bool {
        self.iter().any(
            |token| matches!(&token.secret, TokenSecret::Plain(text) if text.len() < MIN_BYTES),
        )
    }

    /// Returns the differences to `before`, a sentence each.
    pub(crate) fn changes_since(&self, before: &Self) -> Vec<String> {
        let named = |tokens: &Self, name: &str| {
            let mut tokens = tokens.iter();
            tokens.find(|token| &*token.name == name).cloned()
        };
        let removed = before.iter().filter_map(|known| {
            let name = &known.name;
            let gone = named(self, name).is_none();
            gone.then(|| format!("admin: the token {name} is removed"))
        });
        let others = self.iter().filter_map(|token| {
            let AdminToken { name, role, .. } = token;
            match named(before, name) {
                None => Some(format!(
                    "admin: the token {name} is added, with the role {role}"
                )),
                Some(known) if known.role != *role => Some(format!(
                    "admin: the token {name} has the role {role}, before {}",
                    known.role
                )),
                Some(known) => {
                    (known != *token).then(|| format!("admin: the token {name} is another one"))
                }
            }
        });
        removed.chain(others).collect()
    }
}

/// Parses `NAME ROLE TOKEN`.
fn named(line: &str) -> Result<AdminToken, TokenFileError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, role, token] = words[..] else {
        let message = format!("there are {} words, not 3", words.len());
        return Err(error(message, LINE));
    };
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    if name.len() > MAX_NAME || !name.bytes().all(is_name_byte) {
        let advice = "write a name of 1 to 64 letters, digits and . _ @ -";
        return Err(error("the first word is not a name", advice));
    }
    let role = match role {
        "read" => AdminRole::Read,
        "act" => AdminRole::Act,
        _ => return Err(error("the second word is not a role", LINE)),
    };
    Ok(AdminToken {
        name: name.into(),
        role,
        secret: secret(token, MIN_BYTES)?,
    })
}

/// Parses a token, which has at least `min` characters where it is written as it is.
fn secret(word: &str, min: usize) -> Result<TokenSecret, TokenFileError> {
    // In any case of letters: as a token, the hash would open what it is to protect.
    let prefix = word.split_at_checked(HASH_PREFIX.len());
    if let Some((prefix, digits)) = prefix
        && prefix.eq_ignore_ascii_case(HASH_PREFIX)
    {
        let hash = hex_bytes(digits)
            .ok_or_else(|| error("the hash has not 64 hexadecimal digits", HASH))?;
        return Ok(TokenSecret::Sha256(hash));
    }
    if !word.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(error("the token is not visible ASCII", NEW_TOKEN));
    }
    if word.len() < min {
        let message = format!("the token has fewer than {min} characters");
        return Err(error(message, NEW_TOKEN));
    }
    if word.len() > MAX_BYTES {
        let message = format!("the token has more than {MAX_BYTES} characters");
        return Err(error(message, NEW_TOKEN));
    }
    Ok(TokenSecret::Plain(word.into()))
}

/// Checks that no name and no token stands there twice: a request has one name and one role.
fn check_apart(tokens: &[AdminToken]) -> Result<(), TokenFileError> {
    let mut names = BTreeSet::new();
    for (index, token) in tokens.iter().enumerate() {
        let name = &token.name;
        if !names.insert(name) {
            let message = format!("the name {name} stands there twice");
            return Err(error(message, "give each token a name of its own"));
        }
        let mut earlier = tokens[..index].iter();
        if let Some(same) = earlier.find(|earlier| earlier.secret == token.secret) {
            let message = format!("{} and {name} have the same token", same.name);
            return Err(error(message, "give each name a token of its own"));
        }
    }
    Ok(())
}

fn error(message: impl Into<String>, advice: &'static str) -> TokenFileError {
    TokenFileError {
        message: message.into(),
        advice,
    }
}

impl TokenFileError {
    fn at(self, line: usize) -> Self {
        Self {
            message: format!("line {line}: {}", self.message),
            ..self
        }
    }
}

impl AdminRole {
    /// Returns the word of the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Act => "act",
        }
    }
}

impl fmt::Display for AdminRole {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str(self.as_str())
    }
}

impl fmt::Debug for AdminToken {
    /// Writes no secret.
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(into, "AdminToken({}, {})", self.name, self.role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "0123456789abcdef";
    const DIGITS: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    /// Goal: a file of one token stays what it was, and named lines have their roles. Method: both forms, with comments and hashes.
    #[test]
    fn a_file_has_one_token_or_named_ones() {
        let only = AdminTokens::parse("\n# ours\n s3cret \n").unwrap();
        assert_eq!(format!("{only:?}"), "AdminTokens([AdminToken(admin, act)])");
        assert_eq!(only.usable(), Some("s3cret"));
        assert!(only.has_short_token());

        let text = format!(
            "# who\nmonitor read {LONG}r\n\nalice\tact  sha256:{DIGITS}\r\nbob act {LONG}\n"
        );
        let tokens = AdminTokens::parse(&text).unwrap();
        assert_eq!(
            format!("{tokens:?}"),
            "AdminTokens([AdminToken(monitor, read), AdminToken(alice, act), AdminToken(bob, act)])"
        );
        assert_eq!(tokens.usable(), Some(LONG), "one that may act");
        assert!(!tokens.has_short_token());
        let hashed = AdminTokens::parse(&format!("sha256:{DIGITS}")).unwrap();
        assert_eq!(hashed.usable(), None);
        let in_capitals = AdminTokens::parse(&format!("SHA256:{DIGITS}"));
        assert_eq!(in_capitals, Ok(hashed));
        let read = AdminTokens::parse(&format!("a read {LONG}\nb act sha256:{DIGITS}")).unwrap();
        assert_eq!(read.usable(), Some(LONG));
    }

    /// Goal: a slip gives no access, and its error shows no token. Method: slips of each kind.
    #[test]
    fn a_slip_is_an_error_that_shows_no_token() {
        let many = (0..65).map(|index| format!("a{index} act {LONG}{index}\n"));
        let many: String = many.collect();
        for (text, part) in [
            ("", "there is no token"),
            ("# only a comment\n", "there is no token"),
            (
                "hunter2hunter2 hunter2\n",
                "line 1: there are 2 words, not 3",
            ),
            (
                "\na act 0123456789abcdef\nhunter2",
                "line 3: there are 1 words",
            ),
            (
                "alice hunter2hunter2hunter2 act",
                "line 1: the second word is not a role",
            ),
            ("ali/ce act 0123456789abcdef", "not a name"),
            ("alice act hunter2", "fewer than 16 characters"),
            ("alice act sha256:hunter2", "not 64 hexadecimal digits"),
            ("alice act SHA256:hunter2", "not 64 hexadecimal digits"),
            ("sha256:hunter2", "not 64 hexadecimal digits"),
            ("hunter2é", "not visible ASCII"),
            (
                "a act 0123456789abcdef\na read 0123456789abcdeg",
                "the name a stands there twice",
            ),
            (
                "a act 0123456789abcdef\nb read 0123456789abcdef",
                "a and b have the same token",
            ),
            (&many, "more than 64 tokens"),
        ] {
            let error = AdminTokens::parse(text).unwrap_err();
            assert!(error.message.contains(part), "{text}: {error:?}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    /// Goal: a reload says who may do what now. Method: a token of each kind of change.
    #[test]
    fn a_change_names_the_tokens() {
        let before = format!("a act {LONG}a\nb act {LONG}b\nc read {LONG}c\nd act {LONG}d");
        let now = format!("a act {LONG}a\nb act {LONG}x\nc act {LONG}c\ne read {LONG}e");
        let [before, now] = [before, now].map(|text| AdminTokens::parse(&text).unwrap());
        assert_eq!(
            now.changes_since(&before),
            [
                "admin: the token d is removed",
                "admin: the token b is another one",
                "admin: the token c has the role act, before read",
                "admin: the token e is added, with the role read",
            ]
        );
        assert_eq!(now.changes_since(&now), Vec::<String>::new());
    }
}
