//! Finds the values that a signature covers: RFC 9421 §2.

use http::{HeaderMap, HeaderName};
use sfv::{BareItem, Dictionary, FieldType, Item, ListEntry, Parser};

use crate::fault::SignatureFault;

/// A request as its signer saw it.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and port as sent, without which nothing is covered.
    pub authority: &'a str,
    /// Path and query as sent.
    pub target: &'a str,
    /// The fields.
    pub headers: &'a HeaderMap,
}

impl SignedRequest<'_> {
    /// Returns the authority in normal form: RFC 9421 §2.2.3, RFC 9110 §4.2.3.
    fn normal_authority(&self) -> String {
        let default = match self.scheme {
            "http" => ":80",
            _ => ":443",
        };
        let authority = self.authority.to_ascii_lowercase();
        match authority.strip_suffix(default) {
            Some(host) => host.to_owned(),
            None => authority,
        }
    }

    /// Returns path and query, the latter `None` without a mark.
    fn path_and_query(&self) -> (&str, Option<&str>) {
        match self.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (self.target, None),
        }
    }

    /// Returns the value of a component.
    ///
    /// # Errors
    /// The request has no such value, or the component is not understood.
    pub(crate) fn value(&self, component: &Item) -> Result<String, SignatureFault> {
        let BareItem::String(name) = &component.bare_item else {
            return Err(SignatureFault::Malformed);
        };
        let mut parameters = component.params.iter();
        let key = match (parameters.next(), parameters.next()) {
            (None, _) => None,
            (Some((name, BareItem::String(key))), None) if name.as_str() == "key" => Some(key),
            // `sf`, `bs`, `tr`, `req` and `name` are in no signature of a crawler yet.
            _ => return Err(SignatureFault::Component),
        };
        let (path, query) = self.path_and_query();
        match (name.as_str(), key) {
            ("@method", None) => Ok(self.method.to_owned()),
            ("@authority", None) => Ok(self.normal_authority()),
            ("@scheme", None) => Ok(self.scheme.to_owned()),
            ("@path", None) => Ok(path.to_owned()),
            // RFC 9421 §2.2.7: without a query it is a mark alone.
            ("@query", None) => Ok(format!("?{}", query.unwrap_or_default())),
            ("@request-target", None) => Ok(self.target.to_owned()),
            ("@target-uri", None) => {
                let scheme = self.scheme;
                let authority = self.normal_authority();
                Ok(format!("{scheme}://{authority}{}", self.target))
            }
            (name, _) if name.starts_with('@') => Err(SignatureFault::Component),
            (name, key) => self.field(name, key.map(|key| key.as_str())),
        }
    }

    /// Returns the value of a field, or of the member `key` of a dictionary: RFC 9421 §2.1, §2.1.2.
    fn field(&self, name: &str, key: Option<&str>) -> Result<String, SignatureFault> {
        let is_lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
        let name = HeaderName::try_from(name).ok().filter(|_| is_lower);
        let name = name.ok_or(SignatureFault::Component)?;
        let whole = joined(self.headers, &name).ok_or(SignatureFault::Component)?;
        let Some(key) = key else {
            return Ok(whole);
        };
        let dictionary = Parser::new(&whole).parse::<Dictionary>();
        let mut dictionary = dictionary.map_err(|_| SignatureFault::Component)?;
        let member = dictionary
            .swap_remove(key)
            .ok_or(SignatureFault::Component)?;
        serialized(member)
    }
}

/// Returns the lines of a field as one value; `None` where it is absent, or no ASCII.
pub(crate) fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut whole = String::new();
    for (at, line) in headers.get_all(name).iter().enumerate() {
        if at > 0 {
            whole.push_str(", ");
        }
        whole.push_str(line.to_str().ok()?.trim());
    }
    headers.contains_key(name).then_some(whole)
}

/// Returns a member of a dictionary as RFC 9651 §4.1 writes it.
pub(crate) fn serialized(member: ListEntry) -> Result<String, SignatureFault> {
    let list = vec![member];
    list.serialize().ok_or(SignatureFault::Malformed)
}
