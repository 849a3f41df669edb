//! `[acme]`: from whom certificates are ordered, and the names that listeners order.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::Uri;

use crate::bounds;
use crate::config::field::{Field, all, quoted, text_of};
use crate::config::problem::Mistake;
use crate::config::report::{Placed, Report};
use crate::config::rules::{AcmeRules, Binding, ListenerRules, Name, NameSet, Proof};
use crate::config::section::Section;
use crate::pki::{Tls, TlsTexts};
use crate::secret::Secret;

pub(in crate::config) const EXAMPLE: &str =
    "{ accept_terms = true, contact = [\"mailto:ops@example.com\"] }";

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

/// Reads the table. What is kept goes below `state_dir` unless the table says otherwise; `None` where that could not be read.
pub(in crate::config) fn read(
    field: &Field<'_>,
    state_dir: Option<Option<&Path>>,
) -> Option<AcmeRules> {
    let section = field.section()?;
    let directory = section.or(
        "directory",
        "\"letsencrypt\"",
        SERVERS[0].1.into(),
        |field| field.parsed(directory),
    );
    let contact = section.or(
        "contact",
        "[\"mailto:ops@example.com\"]",
        Vec::new(),
        contact,
    );
    let agreed = agreed(&section);
    let ca_file = section.field("ca_file", "\"/etc/sluicegate/acme-ca.pem\"");
    let trust = trust(ca_file.as_ref());
    let proof = section.or("challenge", "\"tls-alpn-01\"", Proof::TlsAlpn01, |field| {
        proof(field)
    });
    let renew_before = section.optional("renew_before", "\"30d\"", |field| {
        field.duration(Duration::from_secs(1)..=LONGEST)
    });
    let dir = section.optional("dir", "\"/var/lib/sluicegate/acme\"", |field| dir(field));
    let binding = section.optional(
        "eab",
        "{ kid = \"kid-1\", hmac_file = \"/etc/sluicegate/acme-eab\" }",
        |field| binding(field),
    );
    let dir = match (dir?, state_dir) {
        (Some(dir), _) => Some(dir),
        (None, Some(Some(state_dir))) => Some(state_dir.join("acme")),
        (None, Some(None)) => {
            section.report.absent(
                &section.place,
                "nothing says where certificates are kept, and without a place every restart would order them anew",
                "write state_dir in [server], or dir = \"/var/lib/sluicegate/acme\" here",
            );
            None
        }
        // `state_dir` was reported.
        (None, None) => None,
    };
    section.finish();
    agreed?;
    Some(AcmeRules {
        directory: directory?,
        contact: contact?,
        trust: trust?,
        proof: proof?,
        renew_before: renew_before?,
        dir: dir?,
        binding: binding?,
    })
}

/// Reports names that nobody orders a certificate for, or that two certificates would be ordered for, and orders that nobody asks for.
pub(in crate::config) fn check(
    acme: Option<(&Field<'_>, Option<&AcmeRules>)>,
    listeners: &[Placed<ListenerRules>],
    report: &Report<'_>,
) {
    let asking = listeners.iter().filter_map(|listener| {
        let names = listener.value.tls.as_ref()?.acme.as_ref()?;
        Some((listener, names))
    });
    let asking: Vec<_> = asking.collect();
    match (acme, asking.first()) {
        (None, Some((listener, names))) => report.absent(
            &listener.place,
            format!("it asks for a certificate of {}, and nothing says from whom", quoted(names.first())),
            "write [acme] with accept_terms = true, once you have read the terms of who issues it: Let's Encrypt by default",
        ),
        // A listener that could not be read may ask.
        (Some((field, _)), None) if !report.has_errors() => report.unused(
            &field.place,
            "no listener asks for a certificate",
            "write acme = [\"www.example.com\"] in the [listener.tls] of one, or leave [acme] out",
        ),
        _ => {}
    }
    for (at, (listener, names)) in asking.iter().enumerate() {
        let clash = asking[..at].iter().find_map(|(earlier, others)| {
            let both = names
                .names()
                .iter()
                .find(|name| others.names().contains(name));
            Some((earlier, both.filter(|_| others != names)?))
        });
        if let Some((earlier, name)) = clash {
            let line = report.line_of(&earlier.place);
            report.error(
                &listener.place,
                format!(
                    "{} is in another list of `acme` too, that of the listener on line {line}",
                    quoted(name)
                ),
                "write the same list in both, which is one certificate, or the name in one of them",
            );
        }
    }
    let in_clear = |listener: &Placed<ListenerRules>| listener.value.tls.is_none();
    if let Some((field, Some(rules))) = acme
        && rules.proof == Proof::Http01
        && !asking.is_empty()
        && !listeners.iter().any(in_clear)
    {
        report.warning(
            &field.place,
            "names are to be proved at port 80, in clear text, and every listener speaks TLS",
            "write a [[listener]] with address = \"0.0.0.0:80\" and redirect_to_https = true, or challenge = \"tls-alpn-01\"",
        );
    }
}

/// The names of one certificate, as a listener lists them.
pub(super) fn names(field: &Field<'_>) -> Option<NameSet> {
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

fn name(text: &str) -> Result<Name, Mistake> {
    let wrong =
        |why: &str, advice: String| Mistake::with_advice(format!("{} {why}", quoted(text)), advice);
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

fn directory(text: &str) -> Result<Arc<str>, Mistake> {
    if let Some((_, url)) = SERVERS.iter().find(|(name, _)| *name == text) {
        return Ok((*url).into());
    }
    let uri: Option<Uri> = text.parse().ok();
    let uri = uri.filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
    match uri.as_ref().and_then(Uri::scheme_str) {
        Some("https") => Ok(text.into()),
        // RFC 8555 §6.1.
        Some("http") => Err(Mistake::with_advice(
            format!(
                "{} is not encrypted, and ACME is spoken over TLS only",
                quoted(text)
            ),
            format!("write {}", quoted(&text.replacen("http", "https", 1))),
        )),
        _ => Err(Mistake::with_advice(
            format!("{} is not the URL of a directory", quoted(text)),
            "write \"letsencrypt\", \"letsencrypt-staging\", or a URL such as \"https://acme.example.com/directory\"",
        )),
    }
}

fn contact(field: &Field<'_>) -> Option<Vec<String>> {
    all(field.elements()?.iter().map(|field| {
        field.parsed(|text| match text.strip_prefix("mailto:") {
            Some(address) if address.contains('@') && !address.contains([' ', ',', '?']) => {
                Ok(text.to_owned())
            }
            None if text.contains('@') && !text.contains(':') => Err(Mistake::with_advice(
                format!("{} is not a URL", quoted(text)),
                format!("write {}", quoted(&format!("mailto:{text}"))),
            )),
            _ => Err(Mistake::with_advice(
                format!("{} is not the URL of a mailbox", quoted(text)),
                "write one address each: \"mailto:ops@example.com\"",
            )),
        })
    }))
}

/// The operator's word, without which nothing may be ordered.
fn agreed(section: &Section<'_>) -> Option<()> {
    let message =
        "an account can only be made by who agrees to the server's terms of service, RFC 8555 §7.3";
    let advice = "read them (https://letsencrypt.org/repository/ has those of Let's Encrypt) and write accept_terms = true";
    match section.field("accept_terms", "true") {
        Some(field) => match field.boolean()? {
            true => Some(()),
            false => field.refuse(message, advice),
        },
        None => {
            section.report.absent(&section.place, message, advice);
            None
        }
    }
}

fn trust(field: Option<&Field<'_>>) -> Option<Tls> {
    let mut texts = TlsTexts::default();
    if let Some(field) = field {
        let (_, text) = text_of(
            field,
            "put it there as PEM, readable for the user that runs the gateway",
        )?;
        texts.ca = Some(text.into());
    }
    match (Tls::new(texts), field) {
        (Ok(tls), _) => Some(tls),
        (Err(_), Some(field)) => field.refuse(
            "this file holds no certificate",
            "write the PEM file of who signed the ACME server's certificate",
        ),
        // What the machine trusts is taken as far as it can be read.
        (Err(_), None) => None,
    }
}

fn proof(field: &Field<'_>) -> Option<Proof> {
    let proofs = [Proof::Http01, Proof::TlsAlpn01];
    let words = proofs.map(|proof| (proof.name(), proof));
    field.choice(&words, |text| {
        let message = format!("there is no challenge {} here", quoted(text));
        Mistake::with_advice(
            message,
            "write \"tls-alpn-01\", where the names lead to port 443 of this gateway, or \"http-01\", where they lead to port 80",
        )
    })
}

fn dir(field: &Field<'_>) -> Option<PathBuf> {
    match field.text()? {
        path if path.is_empty() || path.contains('\0') => field.refuse(
            "this is not the path of a directory",
            "write one of its own, such as \"/var/lib/sluicegate/acme\"",
        ),
        path => Some(field.report.path(path)),
    }
}

fn binding(field: &Field<'_>) -> Option<Binding> {
    let section = field.section()?;
    let key_id = section
        .required("kid", "\"kid-1\"")
        .and_then(|field| field.text().map(Arc::from));
    let hmac = section
        .required("hmac_file", "\"/etc/sluicegate/acme-eab\"")
        .and_then(|field| {
            let advice = "put the key there as the certificate authority shows it, readable for the user that runs the gateway";
            let (_, text) = text_of(&field, advice)?;
            let text = text.trim().trim_end_matches('=');
            match BASE64_URL_SAFE_NO_PAD.decode(text) {
                Ok(key) if !key.is_empty() => Some(Secret::new(text)),
                _ => field.refuse("this file holds no key in base64url", advice),
            }
        });
    section.finish();
    Some(Binding {
        key_id: key_id?,
        hmac: hmac?,
    })
}
