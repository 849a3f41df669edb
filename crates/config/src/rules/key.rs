//! Owns what a key can be made of: the parts of a template, how their values are normalized, and what holds without them.
//!
//! Equal templates share counters across a reload, so two ways to write one template are equal here. `Display` writes a template
//! as one would in the configuration, which is also how a limit's files remember what their counters mean.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use http::header::AUTHORIZATION;
use sluicegate_base::credentials;
use sluicegate_base::geo::GeoField;
use sluicegate_base::normal_form::{self, Normalizer, trimmed};
use sluicegate_base::parameter_name::OtherNames;

/// The parts of the key that a limit counts by: 1–8 parts, in the order written; equal templates share counters across a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTemplate(pub Vec<KeyPart>);

/// One part of a key. Only a value can be absent from a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// `client.ip`, or with prefix lengths `client.ip/24,/56`; default /32 and /64.
    ClientIp {
        /// Bits of an IPv4 address, 0–32.
        v4: u8,
        /// Bits of an IPv6 address, 0–128.
        v6: u8,
    },
    /// `host`: the authority's host, lower case, without port.
    Host,
    /// `path`: the normalized path without query.
    Path,
    /// `method`.
    Method,
    /// `client.country`, `client.city`, `client.asn`: never absent, since an unknown one is a value too.
    Place(GeoField),
    /// `client.crawler`: never absent, since clients that are no crawlers have a value too.
    Crawler,
    /// `global`: one counter for all.
    Global,
    /// A value that the client sends: `header.x-api-key | lower`.
    Value(ValuePart),
}

/// A value that the client sends, and its normal form.
#[derive(Clone, Debug, Eq)]
pub struct ValuePart {
    /// Where it stands in a request.
    pub source: ValueSource,
    /// The steps of its normal form, in this order.
    pub normalizers: Vec<Normalizer>,
    /// The names beside it that leave it readable. They are no part of what is counted: counters stay when an edit changes this.
    pub other_names: OtherNames,
}

impl PartialEq for ValuePart {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.normalizers == other.normalizers
    }
}

/// Where a value stands in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// `header.NAME`
    Header(HeaderName),
    /// `cookie.NAME`
    Cookie(Arc<str>),
    /// `query.NAME`
    Query(Arc<str>),
    /// `path.NAME`: a parameter of the route's path; every route of the limit has it.
    PathParameter(Arc<str>),
    /// `jwt.NAME`: a claim of a verified token.
    Claim(Pointer),
    /// `body.json.NAME`
    Json(Pointer),
    /// `body.form.NAME`
    Form(Arc<str>),
    /// `tls.client.subject`: that of the certificate which the client has shown.
    CertificateSubject,
    /// `tls.client.fingerprint`
    CertificateFingerprint,
    /// `tls.ja4`: what the client's first message of TLS tells it by.
    Ja4,
}

/// Where a value stands in JSON: the steps of a JSON pointer (RFC 6901), at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(pub Vec<Arc<str>>);

/// The action for a request that lacks a part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// It is answered with 400.
    Refuse,
    /// The limit does not apply to it.
    Skip,
    /// It counts by its client's address, apart from all keys.
    Ip,
    /// All such requests share one counter.
    Shared,
}

impl OnMissing {
    /// Every choice.
    pub const ALL: [Self; 4] = [Self::Refuse, Self::Skip, Self::Ip, Self::Shared];

    /// Returns the word of the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Skip => "skip",
            Self::Ip => "ip",
            Self::Shared => "shared",
        }
    }
}

impl KeyTemplate {
    /// The first part that a request can lack.
    #[must_use]
    pub fn uncertain(&self) -> Option<&ValuePart> {
        self.values().find(|value| value.can_be_absent())
    }

    /// Returns whether a client can make as many keys of it as it likes: by a part that is neither its address nor vouched for by anybody.
    #[must_use]
    pub fn can_be_invented(&self) -> bool {
        self.0.iter().any(|part| match part {
            // A place belongs to an address, and there are as many as databases have. Crawlers are those of the configuration.
            KeyPart::ClientIp { .. } | KeyPart::Place(_) | KeyPart::Crawler | KeyPart::Global => {
                false
            }
            KeyPart::Host | KeyPart::Path | KeyPart::Method => true,
            KeyPart::Value(value) => value.source.can_be_invented(),
        })
    }

    /// The fields of the client's place that it counts by.
    pub fn places(&self) -> impl Iterator<Item = GeoField> {
        self.0.iter().filter_map(|part| match part {
            KeyPart::Place(field) => Some(*field),
            _ => None,
        })
    }

    /// Returns whether it counts by the client's crawler.
    #[must_use]
    pub fn reads_crawler(&self) -> bool {
        self.0.contains(&KeyPart::Crawler)
    }

    /// The parts that are values of the request.
    pub fn values(&self) -> impl Iterator<Item = &ValuePart> {
        self.0.iter().filter_map(|part| match part {
            KeyPart::Value(value) => Some(value),
            _ => None,
        })
    }
}

impl ValueSource {
    /// Returns whether clients choose the value themselves, and nobody vouches for it.
    fn can_be_invented(&self) -> bool {
        match self {
            // Tokens are verified, certificates are accepted.
            Self::Claim(_) | Self::CertificateSubject | Self::CertificateFingerprint => false,
            Self::Header(_)
            | Self::Cookie(_)
            | Self::Query(_)
            | Self::PathParameter(_)
            | Self::Json(_)
            | Self::Form(_)
            | Self::Ja4 => true,
        }
    }
}

impl ValuePart {
    /// Returns whether names of other parameters can make it malformed.
    #[must_use]
    pub fn has_names_beside(&self) -> bool {
        matches!(
            self.source,
            ValueSource::Query(_) | ValueSource::Form(_) | ValueSource::Json(_)
        )
    }

    /// Returns whether there are requests without it.
    #[must_use]
    pub fn can_be_absent(&self) -> bool {
        // A route's parameters are never empty, so only a normalizer can leave nothing of one.
        let certain = matches!(self.source, ValueSource::PathParameter(_));
        !certain || self.normalizers.iter().any(Normalizer::can_fail)
    }

    /// Returns the form in which a value from this place is counted; `None` where it has none. A control character within has no form,
    /// since frameworks keep it, drop it or write a blank; NUL has none anywhere, since some cut a text there.
    #[must_use]
    pub fn counted<'a>(&self, value: Cow<'a, [u8]>) -> Option<Cow<'a, [u8]>> {
        if value.contains(&0) {
            // Some origins read the value up to there, others drop it.
            return None;
        }
        let value = match &self.source {
            ValueSource::Header(name) if *name == AUTHORIZATION => credentials::counted(value)?,
            _ => value,
        };
        let value = trimmed(value);
        if has_control(&value) {
            return None;
        }
        normal_form::apply(value, &self.normalizers)
    }

    /// Returns the bytes by which `text`, a value of this place, is counted; `None` where it has no such form.
    #[must_use]
    pub fn counted_text(&self, text: &str) -> Option<Vec<u8>> {
        self.counted(Cow::Borrowed(text.as_bytes()))
            .map(Cow::into_owned)
    }
}

/// Returns whether a value has a control character: of ASCII, or as UTF-8 one of U+0080 to U+009F.
fn has_control(value: &[u8]) -> bool {
    let is_high = |pair: &[u8]| matches!(pair, [0xc2, 0x80..=0x9f]);
    value.iter().any(u8::is_ascii_control) || value.windows(2).any(is_high)
}

impl fmt::Display for KeyTemplate {
    /// Writes the key like the configuration does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            part.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientIp { v4, v6 } => write!(f, "client.ip/{v4},/{v6}"),
            Self::Host => f.write_str("host"),
            Self::Path => f.write_str("path"),
            Self::Method => f.write_str("method"),
            Self::Place(field) => field.fmt(f),
            Self::Crawler => f.write_str("client.crawler"),
            Self::Global => f.write_str("global"),
            Self::Value(value) => value.fmt(f),
        }
    }
}

impl fmt::Display for ValuePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)?;
        for normalizer in &self.normalizers {
            write!(f, " | {normalizer}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header.{name}"),
            Self::Cookie(name) => write!(f, "cookie.{name}"),
            Self::Query(name) => write!(f, "query.{name}"),
            Self::PathParameter(name) => write!(f, "path.{name}"),
            Self::Claim(pointer) => write!(f, "jwt.{pointer}"),
            Self::Json(pointer) => write!(f, "body.json.{pointer}"),
            Self::Form(name) => write!(f, "body.form.{name}"),
            Self::CertificateSubject => f.write_str("tls.client.subject"),
            Self::CertificateFingerprint => f.write_str("tls.client.fingerprint"),
            Self::Ja4 => f.write_str("tls.ja4"),
        }
    }
}

impl fmt::Display for Pointer {
    /// A name alone where that says the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [name] = &*self.0
            && !name.is_empty()
            && !name.contains(['/', '.', '~'])
        {
            return f.write_str(name);
        }
        for step in &self.0 {
            write!(f, "/{}", step.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

impl ValueSource {
    /// Returns whether origins mostly parse the value, as a number, an id or a name, so that it has several spellings.
    #[must_use]
    pub fn is_parsed_by_origins(&self) -> bool {
        self.is_in_body() || matches!(self, Self::PathParameter(_) | Self::Query(_))
    }

    /// Returns whether it is read out of the body.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        matches!(self, Self::Json(_) | Self::Form(_))
    }
}
