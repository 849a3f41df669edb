//! Decides which stored responses a purge removes: those of one URL, those of a prefix, or all.

use sluicegate_decide::url_scheme::UrlScheme;

use super::key::{CacheUrl, url_of};

/// The scope of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeScope {
    /// All responses of this URL, of every route and variant.
    Url(Vec<u8>),
    /// All responses of every URL with this prefix.
    Prefix(Vec<u8>),
    /// Everything.
    All,
}

/// The reason why a text names no URL whose responses could be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPurgeUrl;

impl PurgeScope {
    /// Returns the scope of one URL, as a client requests it.
    ///
    /// # Errors
    /// [`InvalidPurgeUrl`]
    pub fn url(text: &str) -> Result<Self, InvalidPurgeUrl> {
        normal(text).map(Self::Url)
    }

    /// Returns the scope of every URL with this prefix.
    ///
    /// # Errors
    /// [`InvalidPurgeUrl`]
    pub fn prefix(text: &str) -> Result<Self, InvalidPurgeUrl> {
        normal(text).map(Self::Prefix)
    }

    /// Returns whether the purge removes responses stored under `key`.
    #[must_use]
    pub fn takes(&self, key: &[u8]) -> bool {
        match self {
            Self::Url(url) => url_of(key) == &**url,
            Self::Prefix(beginning) => url_of(key).starts_with(beginning),
            Self::All => true,
        }
    }
}

/// Returns the text in the form in which keys begin with it. The path may be missing: then the prefix is the root of the site.
fn normal(text: &str) -> Result<Vec<u8>, InvalidPurgeUrl> {
    let (scheme, rest) = text.split_once("://").ok_or(InvalidPurgeUrl)?;
    let scheme = [UrlScheme::Http, UrlScheme::Https]
        .into_iter()
        .find(|known| scheme.eq_ignore_ascii_case(known.as_str()))
        .ok_or(InvalidPurgeUrl)?;
    let at = rest.find('/').unwrap_or(rest.len());
    let (authority, target) = rest.split_at(at);
    if authority.is_empty()
        || rest
            .bytes()
            .any(|byte| byte.is_ascii_control() || byte == b' ')
    {
        return Err(InvalidPurgeUrl);
    }
    let url = CacheUrl {
        scheme,
        authority,
        target: if target.is_empty() { "/" } else { target },
    };
    Ok(url.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a purge removes the named answers and no others. Method: keys of neighboring URLs under a URL, a prefix and all.
    #[test]
    fn a_purge_takes_what_it_names() {
        let key = |url: &str| [url.as_bytes(), b"\0route\0"].concat();
        let one = PurgeScope::url("HTTP://A.test:80/a?b=1").unwrap();
        assert!(one.takes(&key("http://a.test/a?b=1")));
        assert!(!one.takes(&key("http://a.test/a?b=12")));
        assert!(!one.takes(&key("https://a.test/a?b=1")));
        let begun = PurgeScope::prefix("http://a.test/a").unwrap();
        assert!(begun.takes(&key("http://a.test/a?b=12")));
        assert!(!begun.takes(&key("http://a.test/b")));
        let site = PurgeScope::prefix("http://a.test").unwrap();
        assert!(site.takes(&key("http://a.test/b")));
        assert!(!site.takes(&key("http://a.test.evil/b")));
        assert!(PurgeScope::All.takes(b""));
        for wrong in [
            "/a",
            "a.test/a",
            "ftp://a.test/",
            "http:///a",
            "http://a b/",
        ] {
            assert_eq!(PurgeScope::url(wrong), Err(InvalidPurgeUrl), "{wrong}");
        }
    }
}
