//! Decides whether the name of an address lies in a domain of a crawler.

use std::fmt;
use std::sync::Arc;

/// A domain in which a crawler's operator names its addresses, in lower case and without the root dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostDomain(Arc<str>);

impl HostDomain {
    /// Returns the domain that `text` names.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let text = text.strip_suffix('.').unwrap_or(text);
        Self(text.to_ascii_lowercase().into())
    }

    /// Returns whether `name`, in the same form, is the domain or lies below it.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        let rest = name.strip_suffix(&*self.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

impl fmt::Display for HostDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: only names of the domain lie in it. Method: names in it, and names that only look like them.
    #[test]
    fn a_domain_ends_at_a_label() {
        let domain = HostDomain::new("GoogleBot.com.");
        assert_eq!(domain.to_string(), "googlebot.com");
        for (name, is_in) in [
            ("crawl-66-249-66-1.googlebot.com", true),
            ("a.geo.googlebot.com", true),
            ("googlebot.com", true),
            ("evilgooglebot.com", false),
            ("crawl.evil-googlebot.com", false),
            ("googlebot.com.evil.test", false),
            ("googlebot.com.", false),
            ("com", false),
            ("", false),
        ] {
            assert_eq!(domain.contains(name), is_in, "{name}");
        }
    }
}
