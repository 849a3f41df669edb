//! Reads what a configuration says about TLS: the defaults of `global`, and the words of `bind` and `server`.
//!
//! The gateway has TLS 1.2 and 1.3 with few suites, all of them with forward secrecy. A line that allows all of these, and more, says
//! nothing that the gateway does not do; a line that allows less is to be filled in.

use super::sections::ConfigSection;
use crate::ledger::Ledger;
use crate::tls_suites::{SUITES, permits_all_curves};

/// The suites of TLS 1.3.
const SUITES_13: [&str; 3] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
];

/// The reason for which a line that forbids more is left out.
const OWN_TLS: &str = "the gateway allows TLS 1.2 and 1.3, with suites and curves of its own";

/// The effect of a word about TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsWord {
    /// The gateway does that in any case, or offers no less.
    Implied,
    /// Only TLS 1.3 is left.
    OnlyTls13,
    /// The gateway would allow what the word forbids.
    Unsayable,
}

/// Returns the effect of a word with its value; `None` where it is no word about versions, suites and tickets.
pub(super) fn word(name: &str, value: &str) -> Option<TlsWord> {
    let allows = |own: &[&str]| {
        let has_all = own
            .iter()
            .all(|suite| value.split(':').any(|it| it == *suite));
        if has_all {
            TlsWord::Implied
        } else {
            TlsWord::Unsayable
        }
    };
    let effect = match (name, value) {
        ("no-sslv3" | "no-tlsv10" | "no-tlsv11", _) => TlsWord::Implied,
        ("no-tls-tickets" | "tls-tickets" | "prefer-client-ciphers", _) => TlsWord::Implied,
        ("no-tlsv12" | "force-tlsv13", _) | ("ssl-min-ver", "TLSv1.3") => TlsWord::OnlyTls13,
        ("ssl-min-ver", _) | ("ssl-max-ver", "TLSv1.3") => TlsWord::Implied,
        ("ssl-max-ver" | "no-tlsv13" | "force-sslv3" | "force-tlsv10", _) => TlsWord::Unsayable,
        ("force-tlsv11" | "force-tlsv12", _) => TlsWord::Unsayable,
        ("ciphers", _) => allows(&SUITES),
        ("ciphersuites", _) => allows(&SUITES_13),
        ("curves" | "ecdhe", _) if permits_all_curves(value) => TlsWord::Implied,
        ("curves" | "ecdhe" | "sigalgs" | "client-sigalgs", _) => TlsWord::Unsayable,
        _ => return None,
    };
    Some(effect)
}

/// Returns true if a word about TLS has a value behind it.
pub(super) fn has_value(name: &str) -> bool {
    matches!(
        name,
        "ssl-min-ver"
            | "ssl-max-ver"
            | "ciphers"
            | "ciphersuites"
            | "curves"
            | "ecdhe"
            | "sigalgs"
            | "client-sigalgs"
    )
}

/// The defaults of `global` for TLS.
#[derive(Debug, Default)]
pub(super) struct TlsDefaults {
    /// True if listeners have only TLS 1.3.
    pub(super) only_tls13: bool,
    /// True if certificates of servers are not verified unless a line says so.
    pub(super) trusts_servers: bool,
    certificates: Option<String>,
    authorities: Option<String>,
}

impl TlsDefaults {
    /// Reads the `global` sections. Lines that forbid what the gateway allows stay left out, with the reason.
    pub(super) fn read(sections: &[ConfigSection], ledger: &mut Ledger) -> Self {
        let mut defaults = Self::default();
        let global = sections.iter().filter(|it| it.kind == "global");
        for line in global.flat_map(|section| &section.lines) {
            let value = line.word(1);
            let effect = match line.word(0) {
                "crt-base" => {
                    defaults.certificates = Some(value.to_owned());
                    TlsWord::Implied
                }
                "ca-base" => {
                    defaults.authorities = Some(value.to_owned());
                    TlsWord::Implied
                }
                "ssl-server-verify" => {
                    defaults.trusts_servers = value == "none";
                    TlsWord::Implied
                }
                "ssl-default-bind-options" | "ssl-default-server-options" => {
                    options(&line.words[1..])
                }
                name => {
                    let rest = name.strip_prefix("ssl-default-");
                    let rest = rest.and_then(|it| {
                        it.strip_prefix("bind-")
                            .or_else(|| it.strip_prefix("server-"))
                    });
                    let Some(effect) = rest.and_then(|name| word(name, value)) else {
                        continue;
                    };
                    effect
                }
            };
            let is_for_listeners = line.word(0).starts_with("ssl-default-bind");
            match effect {
                TlsWord::Implied => ledger.translated(line.id),
                _ if is_for_listeners && !has_encrypted_binds(sections) => {
                    ledger.translated(line.id);
                }
                TlsWord::OnlyTls13 if is_for_listeners => {
                    defaults.only_tls13 = true;
                    ledger.translated(line.id);
                }
                TlsWord::OnlyTls13 | TlsWord::Unsayable => {
                    ledger.left_out(line.id, OWN_TLS);
                }
            }
        }
        defaults
    }

    /// Returns the path of a certificate.
    pub(super) fn certificate(&self, file: &str) -> String {
        based(self.certificates.as_deref(), file)
    }

    /// Returns the path of a file of authorities.
    pub(super) fn authority(&self, file: &str) -> String {
        based(self.authorities.as_deref(), file)
    }
}

/// Returns true if some clients connect by TLS.
fn has_encrypted_binds(sections: &[ConfigSection]) -> bool {
    let lines = sections.iter().flat_map(|it| &it.lines);
    let mut binds = lines.filter(|it| it.word(0) == "bind");
    binds.any(|it| it.words.iter().any(|word| word == "ssl"))
}

fn options(words: &[String]) -> TlsWord {
    let mut effect = TlsWord::Implied;
    for (at, name) in words.iter().enumerate() {
        let value = words.get(at + 1).map_or("", String::as_str);
        match word(name, value) {
            Some(TlsWord::OnlyTls13) if effect == TlsWord::Implied => effect = TlsWord::OnlyTls13,
            Some(TlsWord::Unsayable) => return TlsWord::Unsayable,
            _ => {}
        }
    }
    effect
}

fn based(base: Option<&str>, file: &str) -> String {
    match base {
        Some(base) if !file.starts_with('/') && !file.starts_with('@') => {
            format!("{}/{file}", base.trim_end_matches('/'))
        }
        _ => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the usual lines of TLS say nothing that the gateway does not do, and those that forbid more are not taken for them.
    /// Method: the lines that Debian ships, and narrower ones.
    #[test]
    fn narrower_lines_are_not_implied() {
        let debian = SUITES.join(":") + ":DHE-RSA-AES128-GCM-SHA256";
        assert_eq!(word("ciphers", &debian), Some(TlsWord::Implied));
        assert_eq!(word("ciphers", SUITES[1]), Some(TlsWord::Unsayable));
        assert_eq!(
            word("ciphersuites", &SUITES_13.join(":")),
            Some(TlsWord::Implied)
        );
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            options(&words("ssl-min-ver TLSv1.2 no-tls-tickets")),
            TlsWord::Implied
        );
        assert_eq!(options(&words("no-sslv3 no-tlsv12")), TlsWord::OnlyTls13);
        assert_eq!(options(&words("ssl-max-ver TLSv1.2")), TlsWord::Unsayable);
        assert_eq!(based(Some("/etc/ssl/"), "a.pem"), "/etc/ssl/a.pem");
        assert_eq!(based(Some("/etc/ssl"), "/b.pem"), "/b.pem");
    }
}
