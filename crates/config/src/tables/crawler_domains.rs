//! Reads `domains` of a crawler: where its operator names the addresses of the crawler in DNS.
//!
//! A domain in which others have names too would prove them all. Top-level domains and domains of registries are refused; domains in which
//! machines have names that anybody rents are a warning, since part of such a domain may belong to a crawler.

use std::net::IpAddr;

use sluicegate_base::bounds::CRAWLER_DOMAINS;
use sluicegate_base::crawler::HostDomain;

use crate::field::{KeyField, all, quoted};
use crate::host;
use crate::problem::ParseError;

/// Labels below which registries of countries sell names, as in `co.uk`.
const REGISTRY_LABELS: [&str; 14] = [
    "ac", "co", "com", "edu", "go", "gob", "gov", "gv", "mil", "ne", "net", "nom", "or", "org",
];

/// Domains in which clouds name the machines that they rent out.
const RENTED: [&str; 11] = [
    "amazonaws.com",
    "bc.googleusercontent.com",
    "cloudapp.azure.com",
    "cloudapp.net",
    "compute.amazonaws.com",
    "contaboserver.net",
    "gae.googleusercontent.com",
    "googleusercontent.com",
    "linodeusercontent.com",
    "vultrusercontent.com",
    "your-server.de",
];

const ADVICE: &str = "write the domain of the crawler alone, such as \"googlebot.com\"";

/// Reads every domain; no two may be equal.
pub(super) fn read(field: &KeyField<'_>) -> Option<Vec<HostDomain>> {
    let elements = field.elements()?;
    if elements.len() > CRAWLER_DOMAINS {
        let message = format!("{} domains are too many for one crawler", elements.len());
        return field.refuse(message, format!("keep at most {CRAWLER_DOMAINS}"));
    }
    let mut seen = Vec::new();
    let domains = elements.iter().map(|element| {
        let domain = element.parsed(domain)?;
        if seen.contains(&domain) {
            return element.refuse("the domain stands here already", "write it once");
        }
        let text = domain.to_string();
        if RENTED.contains(&&*text) {
            let message = format!(
                "machines that anybody rents have names in {}, and would be this crawler",
                quoted(&text)
            );
            element.warn(message, ADVICE);
        }
        seen.push(domain.clone());
        Some(domain)
    });
    all(domains)
}

/// Parses a domain in which nobody else has names, as far as that can be seen.
fn domain(text: &str) -> Result<HostDomain, ParseError> {
    let without = text.trim_start_matches(['*', '.']);
    if without.len() < text.len() {
        return Err(ParseError::with_advice(
            format!("{} is a pattern, not a domain", quoted(text)),
            format!(
                "write {}: all names below a domain are in it",
                quoted(if without.is_empty() {
                    "googlebot.com"
                } else {
                    without
                })
            ),
        ));
    }
    if text.contains('*') {
        return Err(ParseError::with_advice(
            format!("{} is a pattern, not a domain", quoted(text)),
            ADVICE,
        ));
    }
    let address = text.trim_start_matches('[').trim_end_matches(']');
    if address.parse::<IpAddr>().is_ok() {
        return Err(ParseError::with_advice(
            format!("{} is an address, not a domain", quoted(text)),
            "write blocks of addresses into a file that `ranges` names, or the domain in which the addresses have names",
        ));
    }
    let name = host::exact(text)?;
    let labels: Vec<&str> = name.split('.').collect();
    let sells_names = match *labels {
        [_] => true,
        [second, top] => top.len() == 2 && REGISTRY_LABELS.contains(&second),
        _ => false,
    };
    if sells_names {
        return Err(ParseError::with_advice(
            format!("everybody can have a name in {}", quoted(text)),
            ADVICE,
        ));
    }
    Ok(HostDomain::new(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: one domain has one form, and one in which others have names is refused. Method: spellings of one, then what is none.
    #[test]
    fn a_domain_belongs_to_its_crawler() {
        for text in ["googlebot.com", "GoogleBot.COM."] {
            assert_eq!(domain(text), Ok(HostDomain::new("googlebot.com")));
        }
        assert!(domain("search.msn.com").is_ok());
        assert!(domain("crawl.baidu.jp").is_ok());
        for wrong in [
            "",
            ".",
            "com",
            "com.",
            "co.uk",
            "CO.UK",
            "com.au",
            "*.googlebot.com",
            ".googlebot.com",
            "*",
            "crawl-*.googlebot.com",
            "66.249.66.1",
            "[2001:db8::1]",
            "2001:db8::1",
            "googlebot.com:53",
            "https://googlebot.com/",
            "a..b",
            "bücher.example",
        ] {
            assert!(domain(wrong).is_err(), "{wrong}");
        }
    }
}
