//! Declares `[acme]`: the server that certificates are ordered from. Reads the names that listeners order.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::Uri;
use sluicegate_base::bounds;
use sluicegate_base::pki::{Tls, TlsTexts};
use sluicegate_base::secret::Secret;
use sluicegate_config_derive::Table;

use crate::declaration::{ChoiceOf, DurationIn, ListBy, PEM_FILE, ParsedText, ReadBy, TableOf};
use crate::field::{KeyField, all, quoted, text_of};
use crate::form::ValueKind;
use crate::opened_paths;
use crate::problem::ParseError;
use crate::rules::{AcmeChallenge, Name, NameSet};
use crate::section::TableSection;

pub(crate) const EXAMPLE: &str = "{ accept_terms = true, contact = [\"mailto:ops@example.com\"] }";

/// Servers that have a name of their own, the first is the default.
const SERVERS: [(&str, &str); 2] = [
    (
        "letsencrypt",
        "https://acme-v02.api.letsencrypt.org/directory",
    ),
    (
        "letsencrypt-staging",
        "https://acme-staging-v02.api.letsencrypt.org/directory",
    ),
];

/// No certificate that a public authority issues lives longer.
const LONGEST: Duration = Duration::from_secs(398 * 86_400);

const CHALLENGES: [(&str, AcmeChallenge); 2] = [
    (AcmeChallenge::Http01.name(), AcmeChallenge::Http01),
    (AcmeChallenge::TlsAlpn01.name(), AcmeChallenge::TlsAlpn01),
];

/// The server that certificates are ordered from.
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the reference has tables in brackets"
)]
#[derive(Clone, Debug, PartialEq, Table)]
#[table(path = "acme", check = check_terms)]
pub struct AcmeRules {
    /// Required: your agreement to the server's terms of service. Those of Let's Encrypt are at https://letsencrypt.org/repository/.
    #[key(example = "true", default = false, reader = ReadBy(accepted, &[ValueKind::Boolean]))]
    pub accept_terms: bool,
    /// The server: "letsencrypt", "letsencrypt-staging" for trials, or the URL of a directory.
    #[key(
        example = "\"letsencrypt\"",
        shown = "\"https://acme-v02.api.letsencrypt.org/directory\"",
        default = SERVERS[0].1.into(),
        reader = ParsedText(directory)
    )]
    pub directory: Arc<str>,
    /// Contact addresses for the authority. Default: none.
    #[key(
        example = "[\"mailto:ops@example.com\"]",
        default = Vec::new(),
        reader = ListBy(contact, &[ValueKind::String])
    )]
    pub contact: Vec<String>,
    /// The trust in the server's certificate.
    #[part(read = trust, keys = TrustTable::keys)]
    pub trust: Tls,
    /// The challenge that proves names: "tls-alpn-01", at port 443, or "http-01", at port 80.
    #[key(
        example = "\"tls-alpn-01\"",
        default = AcmeChallenge::TlsAlpn01,
        reader = ChoiceOf(
            &CHALLENGES,
            "there is no challenge {} here",
            "write \"tls-alpn-01\", where the names lead to port 443 of this gateway, or \"http-01\", where they lead to port 80"
        )
    )]
    pub challenge: AcmeChallenge,
    /// The time before its end at which a certificate is renewed, 1s to 398d, but never before half of its lifetime is over. Default: a
    /// third of its lifetime.
    #[key(example = "\"30d\"", reader = DurationIn(Duration::from_secs(1)..=LONGEST))]
    pub renew_before: Option<Duration>,
    /// The directory for the account and the certificates. Default: acme in [server] state_dir.
    #[key(
        example = "\"/var/lib/sluicegate/acme\"",
        default = PathBuf::new(),
        reader = ReadBy(dir, &[ValueKind::String])
    )]
    pub dir: PathBuf,
    /// External account binding: the account identifier at the authority, and the file with its key in base64url. Default: none.
    #[key(
        example = "{ kid = \"kid-1\", hmac_file = \"/etc/sluicegate/acme-eab\" }",
        shown = "{ kid = \"kid-1\", hmac_file = \"acme-eab\" }",
        reader = TableOf(AccountBinding::read)
    )]
    pub eab: Option<AccountBinding>,
}

/// Declares the key of the trust in the server.
#[derive(Table)]
struct TrustTable {
    /// The CA certificates of a private ACME server. Default: the trust store of this machine.
    #[key(example = "\"/etc/sluicegate/acme-ca.pem\"", shown = "\"acme-ca.pem\"", reader = PEM_FILE)]
    ca_file: Option<Arc<str>>,
}

/// An account that the certificate authority knows its customer by, RFC 8555 §7.3.4.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "acme.eab")]
pub struct AccountBinding {
    /// Required. The name of the account there.
    #[key(example = "\"kid-1\"", reader = ReadBy(|field| field.text().map(Arc::from), &[ValueKind::String]))]
    pub kid: Arc<str>,
    /// Required. A file with its key, in base64url.
    #[key(
        example = "\"/etc/sluicegate/acme-eab\"",
        shown = "\"acme-eab\"",
        reader = ReadBy(hmac_key, &[ValueKind::String])
    )]
    pub hmac_file: Secret,
}

/// Reads the table. Certificates are kept below `state_dir` unless the table says otherwise; `None` where that could not be read.
pub(crate) fn read(field: &KeyField<'_>, state_dir: Option<Option<&Path>>) -> Option<AcmeRules> {
    let section = field.section()?;
    let has_place = section.has("dir") || state_dir != Some(None);
    let rules = AcmeRules::read(section);
    if !has_place {
        field.report.absent(
            &field.place,
            "nothing says where certificates are kept, and without a place every restart would order them anew",
            "write state_dir in [server], or dir = \"/var/lib/sluicegate/acme\" here",
        );
    }
    let mut rules = rules?;
    if rules.dir.as_os_str().is_empty() {
        rules.dir = state_dir??.join("acme");
    }
    Some(rules)
}

/// Requires the operator's agreement, without which nothing may be ordered.
fn check_terms(_: &AcmeRulesKeys, section: &TableSection<'_>) -> Option<()> {
    if section.has("accept_terms") {
        return Some(());
    }
    section.report.absent(&section.place, TERMS.0, TERMS.1);
    None
}

/// The message and the advice where the terms are not accepted.
const TERMS: (&str, &str) = (
    "an account can only be made by who agrees to the server's terms of service, RFC 8555 §7.3",
    "read them (https://letsencrypt.org/repository/ has those of Let's Encrypt) and write accept_terms = true",
);

fn accepted(field: &KeyField<'_>) -> Option<bool> {
    match field.boolean()? {
        true => Some(true),
        false => field.refuse(TERMS.0, TERMS.1),
    }
}

fn trust(section: &TableSection<'_>) -> Option<Tls> {
    let texts = TlsTexts {
        ca: TrustTable::read_keys(section)?.ca_file,
        ..TlsTexts::default()
    };
    match Tls::new(texts) {
        Ok(tls) => Some(tls),
        Err(_) if section.has("ca_file") => section.refuse(
            "ca_file",
            "this file holds no certificate",
            "write the PEM file of who signed the ACME server's certificate",
        ),
        // What the machine trusts is taken as far as it can be read.
        Err(_) => None,
    }
}

fn hmac_key(field: &KeyField<'_>) -> Option<Secret> {
    let advice = "put the key there as the certificate authority shows it, readable for the user that runs the gateway";
    let (_, text) = text_of(field, advice)?;
    let text = text.trim().trim_end_matches('=');
    match BASE64_URL_SAFE_NO_PAD.decode(text) {
        Ok(key) if !key.is_empty() => Some(Secret::new(text)),
        _ => field.refuse("this file holds no key in base64url", advice),
    }
}

/// Reads the names of one certificate, as a listener lists them.
pub(super) fn names(field: &KeyField<'_>) -> Option<NameSet> {
    let names = field.list()?;
    if names.len() > bounds::ACME_NAMES {
        return field.refuse(
            format!(
                "these are {} names, and a certificate holds {}",
                names.len(),
                bounds::ACME_NAMES
            ),
            "give some of them a listener of their own",
        );
    }
    NameSet::new(all(names.iter().map(|field| field.parsed(name)))?)
}

fn name(text: &str) -> Result<Name, ParseError> {
    let wrong = |why: &str, advice: String| {
        ParseError::with_advice(format!("{} {why}", quoted(text)), advice)
    };
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("*.") {
        return Err(wrong(
            "is a wildcard, which can only be proved by DNS",
            "list the names themselves, or write a certificate of your own in `certificates`"
                .to_owned(),
        ));
    }
    if lower.parse::<IpAddr>().is_ok() {
        return Err(wrong(
            "is an address",
            "write a name that leads to it".to_owned(),
        ));
    }
    if !lower.is_ascii() {
        return Err(wrong(
            "is not ASCII",
            "write it as in DNS: \"xn--bcher-kva.example\"".to_owned(),
        ));
    }
    if let Some(bare) = lower.strip_suffix('.') {
        return Err(wrong("ends in a dot", format!("write {}", quoted(bare))));
    }
    // RFC 1035 §2.3.1, and digits first as RFC 1123 §2.1 allows.
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if lower.len() > 253 || !lower.split('.').all(label) {
        return Err(wrong(
            "is not the name of a host",
            "write a name without scheme, port or path: \"www.example.com\"".to_owned(),
        ));
    }
    Ok(lower.into())
}

fn directory(text: &str) -> Result<Arc<str>, ParseError> {
    if let Some((_, url)) = SERVERS.iter().find(|(name, _)| *name == text) {
        return Ok((*url).into());
    }
    let uri: Option<Uri> = text.parse().ok();
    let uri = uri.filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
    let authority = uri.as_ref().and_then(Uri::authority);
    let has_login = authority.is_some_and(|authority| authority.as_str().contains('@'));
    match uri.as_ref().and_then(Uri::scheme_str) {
        Some("https") if has_login => Err(ParseError::with_advice(
            "a login stands before the host, and ACME knows none",
            "leave it out; `eab` binds the account to one at the authority",
        )),
        Some("https") => Ok(text.into()),
        // RFC 8555 §6.1.
        Some("http") => Err(ParseError::with_advice(
            format!(
                "{} is not encrypted, and ACME is spoken over TLS only",
                quoted(text)
            ),
            format!("write {}", quoted(&text.replacen("http", "https", 1))),
        )),
        _ => Err(ParseError::with_advice(
            format!("{} is not the URL of a directory", quoted(text)),
            "write \"letsencrypt\", \"letsencrypt-staging\", or a URL such as \"https://acme.example.com/directory\"",
        )),
    }
}

fn contact(field: &KeyField<'_>) -> Option<Vec<String>> {
    all(field.elements()?.iter().map(|field| {
        field.parsed(|text| match text.strip_prefix("mailto:") {
            Some(address) if address.contains('@') && !address.contains([' ', ',', '?']) => {
                Ok(text.to_owned())
            }
            None if text.contains('@') && !text.contains(':') => Err(ParseError::with_advice(
                format!("{} is not a URL", quoted(text)),
                format!("write {}", quoted(&format!("mailto:{text}"))),
            )),
            _ => Err(ParseError::with_advice(
                format!("{} is not the URL of a mailbox", quoted(text)),
                "write one address each: \"mailto:ops@example.com\"",
            )),
        })
    }))
}

/// Reads the path of a directory.
fn dir(field: &KeyField<'_>) -> Option<PathBuf> {
    match field.text()? {
        path if path.is_empty() || path.contains('\0') => field.refuse(
            "this is not the path of a directory",
            "write one of its own, such as \"/var/lib/sluicegate/acme\"",
        ),
        path => opened_paths::certificate_folder(field, field.report.path(path)),
    }
}
