//! Compares versions and cipher suites of TLS that nginx names with those of the gateway: TLS 1.2 and 1.3, and suites with ephemeral
//! keys and authenticated encryption alone.

use super::tree::Directive;
use crate::tls_suites::SUITES;

/// Words that permit all of them.
const WIDE: [&str; 4] = ["ALL", "COMPLEMENTOFDEFAULT", "DEFAULT", "HIGH"];

/// Parts of suites that those of the gateway lack, so that excluding them excludes none of it.
const ABSENT: [&str; 47] = [
    "3DES",
    "ADH",
    "AECDH",
    "ANULL",
    "ARIA",
    "ARIA128",
    "ARIA256",
    "ARIAGCM",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "CBC",
    "DES",
    "DH",
    "DHE",
    "DSS",
    "EDH",
    "ENULL",
    "EXP",
    "EXPORT",
    "EXPORT40",
    "EXPORT56",
    "GOST",
    "IDEA",
    "KDHE",
    "KECDH",
    "KEDH",
    "KRB5",
    "KRSA",
    "LOW",
    "MD5",
    "MEDIUM",
    "NULL",
    "PSK",
    "RC2",
    "RC4",
    "SEED",
    "SHA",
    "SHA1",
    "SHA256",
    "SHA384",
    "SRP",
    "SSLV2",
    "SSLV3",
    "TLSV1",
    "ADSS",
    "AES128-SHA",
];

/// Returns the least version of TLS that a directive permits, where the gateway has it and all later ones.
pub(super) fn least_version(directive: &Directive) -> Option<&'static str> {
    let has = |version: &str| directive.arguments().any(|word| word == version);
    match (has("TLSv1.2"), has("TLSv1.3")) {
        (true, _) => Some("1.2"),
        (false, true) => Some("1.3"),
        (false, false) => None,
    }
}

/// Returns true if a list of OpenSSL permits each suite of the gateway. Others that it permits are refused by the gateway.
pub(super) fn permits_all_suites(list: &str) -> bool {
    let words = || {
        let words = list
            .split([':', ',', ' '])
            .map(|word| word.trim_matches('\''));
        words
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_uppercase)
    };
    let mut excluded = words().filter_map(|word| word.strip_prefix(['!', '-']).map(str::to_owned));
    let is_absent = |word: &String| {
        ABSENT.contains(&word.as_str()) || (word.contains('-') && !SUITES.contains(&word.as_str()))
    };
    let is_wide = words().any(|word| WIDE.contains(&word.as_str()));
    let names_all = SUITES
        .iter()
        .all(|suite| words().any(|word| word == *suite));
    (is_wide || names_all) && excluded.all(|word| is_absent(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: lists that permit less than the gateway are found. Method: the usual lists, and some that leave out a suite.
    #[test]
    fn lists_are_compared_with_the_suites_of_the_gateway() {
        let intermediate = SUITES.join(":") + ":DHE-RSA-AES128-GCM-SHA256";
        for list in [
            "HIGH:!aNULL:!MD5",
            "DEFAULT:!DES-CBC3-SHA:!RC4",
            &intermediate,
        ] {
            assert!(permits_all_suites(list), "{list}");
        }
        let without_chacha = SUITES[..2].join(":");
        for list in [
            "HIGH:!CHACHA20",
            "EECDH+AESGCM",
            "AES256+EECDH",
            &without_chacha,
            "HIGH:!RSA",
        ] {
            assert!(!permits_all_suites(list), "{list}");
        }
    }
}
