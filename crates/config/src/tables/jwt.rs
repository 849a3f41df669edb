//! `[jwt]`: which tokens are believed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use sluicegate_base::bounds::TOKEN_KEYS;
use sluicegate_base::jwt::{KeyError, KeyText, TokenSettings, TokenVerifier};

use crate::field::{KeyField, all, quoted, text_or_warning};
use crate::rules::FileState;
use crate::section::TableSection;

/// The algorithms that exist here.
const ALGORITHMS: [(&str, Algorithm); 12] = [
    ("HS256", Algorithm::HS256),
    ("HS384", Algorithm::HS384),
    ("HS512", Algorithm::HS512),
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// The default difference that clocks may have.
const LEEWAY: Duration = Duration::from_secs(60);
/// More would let tokens live on that were meant to end.
const LONGEST_LEEWAY: Duration = Duration::from_secs(600);

pub(crate) const EXAMPLE: &str =
    "{ algorithms = [\"RS256\"], jwks_file = \"/etc/sluicegate/jwks.json\" }";

/// `[jwt]`: which tokens are believed.
#[derive(Clone, Debug, PartialEq)]
pub struct JwtRules {
    /// Knows the keys; equal where the settings and the content of the key file are.
    pub verifier: Arc<TokenVerifier>,
    /// The key file, which is watched like the configuration.
    pub file: PathBuf,
    /// Which of its contents is in force.
    pub state: FileState,
}

/// Reads the table.
pub(crate) fn read(field: &KeyField<'_>) -> Option<JwtRules> {
    let section = field.section()?;
    let algorithms = section
        .required("algorithms", "[\"RS256\"]")
        .and_then(|field| algorithms(&field));
    let file = key_file(&section);
    let text = |field: &KeyField<'_>| field.text().map(str::to_owned);
    let issuer = section.optional("issuer", "\"https://login.example.com/\"", text);
    let audience = section.optional("audience", "\"api\"", text);
    let leeway = section.or("leeway", "\"60s\"", LEEWAY, |field| {
        field.duration(Duration::ZERO..=LONGEST_LEEWAY)
    });
    section.finish();
    let (file, keys) = file?;
    if file.report.environment.is_offline() {
        return None;
    }
    let (path, text) = text_or_warning(&file)?;
    let is_readable = text.is_some();
    let settings = TokenSettings {
        algorithms: algorithms?,
        keys: keys(text.unwrap_or_default()),
        issuer: issuer?,
        audience: audience?,
        leeway: leeway?,
    };
    if is_readable {
        rules(&file, path, settings)
    } else {
        Some(without_keys(path, settings))
    }
}

/// Makes keys of the text of their file.
type KeyConstructor = fn(String) -> KeyText;

/// Returns the field that names the file with the keys, and the constructor for its kind.
fn key_file<'d>(section: &TableSection<'d>) -> Option<(KeyField<'d>, KeyConstructor)> {
    let single = section.field("key_file", "\"/etc/sluicegate/jwt.pem\"");
    let set = section.field("jwks_file", "\"/etc/sluicegate/jwks.json\"");
    match (single, set) {
        (Some(_), Some(set)) => set.refuse(
            "there is a key_file too, and keys come from one of the two",
            "leave one out",
        ),
        (Some(single), None) => Some((single, KeyText::Single)),
        (None, Some(set)) => Some((set, KeyText::Set)),
        (None, None) => {
            section.report.absent(
                &section.place,
                "nothing is said about the keys of tokens",
                "write key_file = \"/etc/sluicegate/jwt.pem\", or jwks_file = \"/etc/sluicegate/jwks.json\"",
            );
            None
        }
    }
}

/// Makes the verifier. Keys that are not there yet are a warning, keys that the algorithms do not fit an error.
fn rules(file: &KeyField<'_>, path: PathBuf, settings: TokenSettings) -> Option<JwtRules> {
    let error = match TokenVerifier::new(settings.clone()) {
        Ok(verifier) => {
            return Some(JwtRules {
                verifier: Arc::new(verifier),
                file: path,
                state: FileState::Read,
            });
        }
        Err(error) => error,
    };
    let (wrong, advice) = told(error);
    let message = format!("{} {wrong}", quoted(&path.display().to_string()));
    // A file that is half written looks like this. What else can be wrong is a mistake of who chose the algorithms.
    if matches!(error, KeyError::NoKey | KeyError::NoSet) {
        file.warn(message, advice);
        return Some(without_keys(path, settings));
    }
    file.refuse(message, advice)
}

fn without_keys(path: PathBuf, settings: TokenSettings) -> JwtRules {
    JwtRules {
        verifier: Arc::new(TokenVerifier::without_keys(settings)),
        file: path,
        state: FileState::Lost,
    }
}

fn algorithms(field: &KeyField<'_>) -> Option<Vec<Algorithm>> {
    all(field
        .list()?
        .iter()
        .map(|element| element.word(&ALGORITHMS, |got| format!("there is no algorithm {got}"))))
}

/// Returns the message about an error of the keys, and the advice.
fn told(error: KeyError) -> (String, String) {
    let (wrong, advice) = match error {
        KeyError::PublicSecret => (
            "holds a PEM block, and with HS256 its bytes would be the secret: who knows a public key could sign tokens",
            "write the algorithm of the key, such as \"RS256\", or put a secret there",
        ),
        KeyError::ShortSecret { least } => {
            return (
                format!("holds a secret of less than {least} bytes, which can be guessed"),
                format!(
                    "put {least} random bytes or more there, for example with: openssl rand -hex {least}"
                ),
            );
        }
        KeyError::MixedAlgorithms => (
            "holds one key, and these algorithms need keys of different kinds",
            "keep the algorithms of one kind, or write jwks_file",
        ),
        KeyError::SecretInSet => (
            "is a set of public keys, and HS256, HS384 and HS512 have a secret",
            "write key_file with the secret, or leave these algorithms out",
        ),
        KeyError::NoKey => (
            "holds no public key for these algorithms",
            "put a PEM block there that begins with -----BEGIN PUBLIC KEY-----, or a sound JWKS",
        ),
        KeyError::NoSet => (
            "is no JWKS",
            "put a JSON object with \"keys\" there, or write key_file",
        ),
        KeyError::NoFittingKey => (
            "holds no key for these algorithms",
            "add the algorithms of its keys, or another key",
        ),
        KeyError::TooManyKeys => {
            return (
                "holds too many keys".to_owned(),
                format!("keep at most {TOKEN_KEYS}: those in use and the next"),
            );
        }
    };
    (wrong.to_owned(), advice.to_owned())
}
