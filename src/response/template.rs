//! Expands the templates of fields, paths and redirects.
//!
//! Values of clients are in normal form: a path has escapes for all bytes with another meaning, a host is letters, digits and
//! dots. So no value can end a field or begin another one. A resulting path is brought into normal form again, because parts of
//! a path can combine to something that the whole does not contain: two slashes, a `..`, half an escape.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;

use http::HeaderValue;
use sluicegate_base::address::address_text;
use sluicegate_base::bounds;
use sluicegate_base::path::{NormalPath, PathGroups};

use crate::config::rules::{RedirectPlace, RedirectQuery, RedirectRules, Slot, Template};
use crate::request_id::RequestId;

/// The values that templates can use.
#[derive(Clone, Copy, Debug)]
pub struct TemplateValues<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// The host in normal form; empty where none was named.
    pub host: &'a str,
    /// The path in normal form.
    pub path: &'a str,
    /// The query after the `?`; empty where there is none.
    pub query: &'a str,
    /// The name of the route; empty where there is none.
    pub route: &'a str,
    /// The request id.
    pub request_id: RequestId,
    /// The groups of the route's path, if it is an expression.
    pub groups: Option<&'a PathGroups>,
}

/// The reason for which a path is unusable. The client is to blame: answer 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsafePath {
    /// It is malformed, or too long.
    Broken,
    /// It has two readings.
    Ambiguous,
}

/// Returns the value of a field; `None` where a value cannot be part of one.
#[must_use]
pub fn field(template: &Template, told: &TemplateValues<'_>) -> Option<HeaderValue> {
    match template {
        Template::Fixed(value) => Some(value.clone()),
        Template::Filled(slots) => HeaderValue::from_str(&fill(slots, told)).ok(),
    }
}

/// Returns the target for the origin: a path in normal form that has one reading, and the query as it was sent.
///
/// # Errors
/// [`UnsafePath`] where the template and this path make no such path.
pub fn target(template: &Template, told: &TemplateValues<'_>) -> Result<String, UnsafePath> {
    let made = text(template, told);
    let mut target = normal(&made)?;
    push_query(&mut target, told.query);
    bounded(target)
}

/// Returns the `Location` of a redirect.
///
/// # Errors
/// [`UnsafePath`] where the template and this path make none.
pub fn location(rules: &RedirectRules, told: &TemplateValues<'_>) -> Result<String, UnsafePath> {
    let made = text(&rules.to, told);
    let (made, fragment) = match made.split_once('#') {
        Some((made, fragment)) => (made, Some(fragment)),
        None => (&*made, None),
    };
    let (path, query) = match made.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (made, None),
    };
    let mut location = match rules.place {
        RedirectPlace::Path => normal(path)?,
        // The configuration allows no slot in place of the host, but for that of the host.
        RedirectPlace::Url => path.to_owned(),
    };
    match (query, rules.query) {
        (Some(query), _) => push_query(&mut location, query),
        (None, RedirectQuery::Kept) => push_query(&mut location, told.query),
        (None, RedirectQuery::Replaced) => {}
    }
    if let Some(fragment) = fragment {
        location.push('#');
        location.push_str(fragment);
    }
    bounded(location)
}

fn text<'t>(template: &'t Template, told: &TemplateValues<'_>) -> Cow<'t, str> {
    match template {
        Template::Fixed(value) => Cow::Borrowed(value.to_str().unwrap_or_default()),
        Template::Filled(slots) => Cow::Owned(fill(slots, told)),
    }
}

fn normal(path: &str) -> Result<String, UnsafePath> {
    if path.contains('?') {
        return Err(UnsafePath::Broken);
    }
    let normal = NormalPath::parse(path).map_err(|_| UnsafePath::Broken)?;
    if normal.is_ambiguous() {
        return Err(UnsafePath::Ambiguous);
    }
    Ok(normal.as_str().to_owned())
}

fn push_query(target: &mut String, query: &str) {
    if !query.is_empty() {
        target.push('?');
        target.push_str(query);
    }
}

fn bounded(target: String) -> Result<String, UnsafePath> {
    if target.len() > bounds::SHAPED_TARGET {
        return Err(UnsafePath::Broken);
    }
    Ok(target)
}

fn fill(slots: &[Slot], told: &TemplateValues<'_>) -> String {
    let mut made = String::new();
    for slot in slots {
        match slot {
            Slot::Text(text) => made.push_str(text),
            Slot::ClientIp => made.push_str(&address_text(told.client)),
            Slot::Host => made.push_str(told.host),
            // A write into a text does not fail.
            Slot::RequestId => drop(write!(made, "{}", told.request_id)),
            Slot::Route => made.push_str(told.route),
            Slot::Segment(at) => {
                made.push_str(told.path.split('/').nth(at + 1).unwrap_or_default())
            }
            Slot::Rest(behind) => {
                let mut rest = told.path.splitn(behind + 2, '/');
                made.push_str(rest.nth(behind + 1).unwrap_or_default());
            }
            Slot::Group(name) => {
                made.push_str(
                    told.groups
                        .map_or("", |groups| groups.find(told.path, name)),
                );
            }
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;
    use proptest::prelude::*;
    use sluicegate_base::path::PathRegex;

    fn told(path: &str) -> TemplateValues<'_> {
        TemplateValues {
            client: IpAddr::from([192, 0, 2, 7]),
            host: "shop.test",
            path,
            query: "a=%2F&b",
            route: "shop",
            request_id: RequestId::from_bits(10),
            groups: None,
        }
    }

    fn filled(slots: &[Slot]) -> Template {
        Template::Filled(slots.to_vec())
    }

    fn words(text: &str) -> Slot {
        Slot::Text(text.into())
    }

    /// Goal: each slot has its value. Method: all of them in one field.
    #[test]
    fn every_slot_has_its_value() {
        let all = filled(&[
            Slot::ClientIp,
            words(" "),
            Slot::Host,
            words(" "),
            Slot::Route,
            words(" "),
            Slot::Segment(1),
            words(" "),
            Slot::Rest(1),
            words(" "),
            Slot::RequestId,
        ]);
        let value = field(&all, &told("/users/7%20b/x/")).expect("a value");
        let expected = "192.0.2.7 shop.test shop 7%20b 7%20b/x/ 0000000000000000000000000000000a";
        assert_eq!(value, expected);
        assert_eq!(
            field(&filled(&[Slot::Segment(9)]), &told("/")).expect("a value"),
            ""
        );
    }

    /// Goal: a prefix is removed, and the rest is a path with the query unchanged. Method: paths with more and with nothing
    /// after it.
    #[test]
    fn what_is_left_of_a_path_is_a_path() {
        let stripped = filled(&[words("/"), Slot::Rest(1)]);
        for (path, left) in [
            ("/api/v1/x", "/v1/x?a=%2F&b"),
            ("/api/v1/", "/v1/?a=%2F&b"),
            ("/api/", "/?a=%2F&b"),
            ("/api", "/?a=%2F&b"),
        ] {
            assert_eq!(target(&stripped, &told(path)).expect("a target"), left);
        }
    }

    /// Goal: parts of a path cannot combine to a path that no request could send. Method: groups that cut at a slash, at dots
    /// and in an escape.
    #[test]
    fn parts_of_a_path_cannot_combine_to_a_bypass() {
        let expression = PathRegex::new("^/x(.*?)-(.*)$").expect("an expression");
        let groups = PathGroups::of(&expression);
        let made = |path: &str, slots: &[Slot]| {
            let told = TemplateValues {
                query: "",
                groups: groups.as_ref(),
                ..told(path)
            };
            target(&filled(slots), &told)
        };
        let (one, two) = (Slot::Group("1".into()), Slot::Group("2".into()));
        let slash = words("/");
        assert_eq!(
            made("/x/a-b", &[slash.clone(), one.clone()]),
            Ok("/a".to_owned())
        );
        assert_eq!(
            made("/x.-.", &[words("/a/"), one.clone(), two.clone()]),
            Err(UnsafePath::Ambiguous)
        );
        assert_eq!(
            made("/x%2-F", &[slash.clone(), one.clone(), two.clone()]),
            Err(UnsafePath::Ambiguous)
        );
        assert_eq!(
            made("/x%2-G", &[slash, one.clone(), two]),
            Err(UnsafePath::Broken)
        );
        assert_eq!(made("/xa-", &[one]), Err(UnsafePath::Broken));
    }

    fn redirect(to: &[Slot], place: RedirectPlace, query: RedirectQuery) -> RedirectRules {
        RedirectRules {
            status: StatusCode::FOUND,
            to: filled(to),
            place,
            query,
            groups: None,
        }
    }

    /// Goal: the query is kept unless the target has its own, and a path stays on its host. Method: one redirect of each kind.
    #[test]
    fn a_redirect_keeps_the_query_and_the_host() {
        let url = [words("https://"), Slot::Host, words("/new/"), Slot::Rest(1)];
        let kept = redirect(&url, RedirectPlace::Url, RedirectQuery::Kept);
        assert_eq!(
            location(&kept, &told("/old/a/b")).expect("a location"),
            "https://shop.test/new/a/b?a=%2F&b"
        );
        let own = [words("/new?from="), Slot::Segment(0), words("#top")];
        let own = redirect(&own, RedirectPlace::Path, RedirectQuery::Replaced);
        assert_eq!(
            location(&own, &told("/old")).expect("a location"),
            "/new?from=old#top"
        );
        let foreign = [words("//"), Slot::Rest(1)];
        let foreign = redirect(&foreign, RedirectPlace::Path, RedirectQuery::Replaced);
        assert_eq!(
            location(&foreign, &told("/old/evil.test")).expect("a location"),
            "/evil.test"
        );
    }

    proptest! {
        /// Goal: every target for an origin has one reading, and is stable when read again. Method: any normal path, any cut.
        #[test]
        fn a_made_path_is_its_own_normal_form(path in "/[a-z.%/;+]{0,24}", behind in 0_usize..4, text in "/[a-z./%2]{0,6}") {
            let Ok(path) = NormalPath::parse(&path) else { return Ok(()); };
            let slots = filled(&[words(&text), Slot::Rest(behind), Slot::Segment(behind)]);
            if let Ok(made) = target(&slots, &TemplateValues { query: "", ..told(path.as_str()) }) {
                let again = NormalPath::parse(&made).expect("a path");
                prop_assert_eq!(again.as_str(), &made);
                prop_assert!(!again.is_ambiguous());
            }
        }
    }
}
