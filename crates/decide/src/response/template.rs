//! Expands the templates of fields, paths and redirects.
//!
//! Values of clients are in normal form: a path has escapes for all bytes with another meaning, a host is letters, digits and
//! dots. So no value can end a field or begin another one.
//!
//! A path for an origin keeps the bytes that the client sent, such as `@scope%2fname`, `;v=1` and `%7E`, where that is safe: where all that
//! origins may read in it is what the template makes of a reading of the whole path, by which routes were compared. Else it is made of
//! the normal form, and brought into normal form again, because parts of a path can combine to something that the whole does not
//! contain: two slashes, a `..`, half an escape.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::iter;
use std::net::IpAddr;

use http::HeaderValue;
use sluicegate_base::address::address_text;
use sluicegate_base::bounds;
use sluicegate_base::path::{NormalPath, PathGroups};
use sluicegate_config::rules::{RedirectPlace, RedirectQuery, RedirectRules, Slot, Template};

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

/// The path of a request.
#[derive(Clone, Copy, Debug)]
pub struct SentPath<'a> {
    /// Its bytes as sent, without the query.
    pub text: &'a str,
    /// Its normal form, with its other readings.
    pub normal: &'a NormalPath<'a>,
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

/// Returns the target for the origin: a path of the bytes that were sent, or else one in normal form that has one reading; and the query
/// as it was sent.
///
/// # Errors
/// [`UnsafePath`] where the template and this path make no such path.
pub fn target(
    template: &Template,
    told: &TemplateValues<'_>,
    path: &SentPath<'_>,
) -> Result<String, UnsafePath> {
    let mut target = match kept_bytes(template, told, path) {
        Some(made) => made,
        None if path.normal.is_ambiguous() => return Err(UnsafePath::Ambiguous),
        None => normal(&path_text(template, told))?,
    };
    push_query(&mut target, told.query);
    bounded(target)
}

/// Returns what the template makes of the path as sent, if an origin can read nothing else in it than was matched: its readings are those
/// that the template makes of the readings of the whole path. `None` where a part that is left out has several readings, where dots lead
/// out of the part that stays, and where parts combine to more.
fn kept_bytes(
    template: &Template,
    told: &TemplateValues<'_>,
    path: &SentPath<'_>,
) -> Option<String> {
    let made_of = |path| path_text(template, &TemplateValues { path, ..*told });
    let made = made_of(path.text).into_owned();
    if made.contains(['?', '#']) {
        return None;
    }
    let parsed = NormalPath::parse(&made).ok()?;
    if is_only_reading(&parsed, &made) && is_only_reading(path.normal, path.text) {
        return Some(made);
    }
    let of_made: Vec<&str> = readings(&parsed).collect();
    let expected: Vec<Cow<'_, str>> = readings(path.normal).map(made_of).collect();
    let of_scripts = path.normal.readings_of_scripts().map(made_of);
    let of_scripts: Vec<Cow<'_, str>> = of_scripts.collect();
    let is_safe = of_made
        .iter()
        .all(|one| expected.iter().any(|other| other == one))
        && expected.iter().all(|one| of_made.contains(&&**one))
        && (parsed.readings_of_scripts())
            .all(|one| (expected.iter().chain(&of_scripts)).any(|other| other == one));
    is_safe.then_some(made)
}

/// Returns all readings of a path, the normal form first.
fn readings<'p>(path: &'p NormalPath<'_>) -> impl Iterator<Item = &'p str> {
    iter::once(path.as_str()).chain(path.other_readings())
}

/// Returns whether `text`, of which `path` was parsed, is read by all origins as it stands.
fn is_only_reading(path: &NormalPath<'_>, text: &str) -> bool {
    path.as_str() == text && path.other_readings().next().is_none()
}

/// Returns the `Location` of a redirect, with the bytes of the path that was sent. No origin reads them here: the next request is judged
/// anew.
///
/// # Errors
/// [`UnsafePath`] where the template and this path make none.
pub fn location(
    rules: &RedirectRules,
    told: &TemplateValues<'_>,
    sent: &str,
) -> Result<String, UnsafePath> {
    let made = text(&rules.to, told);
    let (made, fragment) = match made.split_once('#') {
        Some((made, fragment)) => (made, Some(fragment)),
        None => (&*made, None),
    };
    let (url, query) = match made.split_once('?') {
        Some((url, query)) => (url, Some(query)),
        None => (made, None),
    };
    let of_sent = text(
        &rules.to,
        &TemplateValues {
            path: sent,
            ..*told
        },
    );
    let of_sent = of_sent.split(['?', '#']).next().unwrap_or_default();
    let mut location = match rules.place {
        RedirectPlace::Path => local_path(of_sent, url)?,
        // The configuration allows no slot in place of the host, but for that of the host.
        RedirectPlace::Url => {
            let (host, path) = url.split_at(path_start(url));
            let of_sent = of_sent.strip_prefix(host).unwrap_or_default();
            format!("{host}{}", spelled_as_sent(of_sent, path))
        }
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

/// Returns the position of the path in a URL, which may have none.
fn path_start(url: &str) -> usize {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    url[host..].find('/').map_or(url.len(), |path| host + path)
}

/// Returns the path of a redirect to the same host. Two slashes, and what browsers take for them, would begin a host.
fn local_path(sent: &str, path: &str) -> Result<String, UnsafePath> {
    let spelled = spelled_as_sent(sent, path);
    match spelled.as_bytes() {
        [b'/', b'/' | b'\\', ..] => {
            let normal = NormalPath::parse(path).map_err(|_| UnsafePath::Broken)?;
            Ok(normal.as_str().to_owned())
        }
        [b'/', ..] => Ok(spelled.to_owned()),
        _ => Err(UnsafePath::Broken),
    }
}

/// Returns what was made of the path as sent, if it differs from `path`, which was made of the normal form, in its spelling alone; else
/// `path`.
fn spelled_as_sent<'p>(sent: &'p str, path: &'p str) -> &'p str {
    let is_same = sent != path
        && match (NormalPath::parse(sent), NormalPath::parse(path)) {
            (Ok(sent), Ok(path)) => sent.as_str() == path.as_str(),
            _ => false,
        };
    if is_same { sent } else { path }
}

fn text<'t>(template: &'t Template, told: &TemplateValues<'_>) -> Cow<'t, str> {
    match template {
        Template::Fixed(value) => Cow::Borrowed(value.to_str().unwrap_or_default()),
        Template::Filled(slots) => Cow::Owned(fill(slots, told)),
    }
}

/// Returns the path that a template makes: a group that begins with a slash behind one, as `/{path.1}` of `~ ^/npm(.*)$` has it, is joined
/// by one slash.
fn path_text<'t>(template: &'t Template, told: &TemplateValues<'_>) -> Cow<'t, str> {
    let Template::Filled(slots) = template else {
        return text(template, told);
    };
    let mut made = String::new();
    for slot in slots {
        let begin = made.len();
        push(slot, told, &mut made);
        let meets = made[..begin].ends_with('/') && made[begin..].starts_with('/');
        if meets && matches!(slot, Slot::Group(_)) {
            made.remove(begin);
        }
    }
    Cow::Owned(made)
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
    slots.iter().for_each(|slot| push(slot, told, &mut made));
    made
}

/// Appends the value of a slot.
fn push(slot: &Slot, told: &TemplateValues<'_>, made: &mut String) {
    match slot {
        Slot::Text(text) => made.push_str(text),
        Slot::ClientIp => made.push_str(&address_text(told.client)),
        Slot::Host => made.push_str(told.host),
        // A write into a text does not fail.
        Slot::RequestId => drop(write!(made, "{}", told.request_id)),
        Slot::Route => made.push_str(told.route),
        Slot::Segment(at) => made.push_str(told.path.split('/').nth(at + 1).unwrap_or_default()),
        Slot::Rest(behind) => {
            let mut rest = told.path.splitn(behind + 2, '/');
            made.push_str(rest.nth(behind + 1).unwrap_or_default());
        }
        Slot::Group(name) => {
            let group = told.groups.map(|groups| groups.find(told.path, name));
            made.push_str(group.unwrap_or_default());
        }
    }
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

    /// Returns the target for the origin of a path as sent.
    fn made(template: &Template, sent: &str) -> Result<String, UnsafePath> {
        made_with(template, sent, &told(""))
    }

    fn made_with(
        template: &Template,
        sent: &str,
        values: &TemplateValues<'_>,
    ) -> Result<String, UnsafePath> {
        let normal = NormalPath::parse(sent).map_err(|_| UnsafePath::Broken)?;
        let values = TemplateValues {
            path: normal.as_str(),
            ..*values
        };
        let path = SentPath {
            text: sent,
            normal: &normal,
        };
        target(template, &values, &path)
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
            assert_eq!(made(&stripped, path).expect("a target"), left);
        }
    }

    /// Goal: parts of a path cannot combine to a path that no request could send. Method: groups that cut at a slash, at dots
    /// and in an escape.
    #[test]
    fn parts_of_a_path_cannot_combine_to_a_bypass() {
        let expression = PathRegex::new("^/x(.*?)-(.*)$").expect("an expression");
        let groups = PathGroups::from_expression(&expression);
        let made = |path: &str, slots: &[Slot]| {
            let values = TemplateValues {
                query: "",
                groups: groups.as_ref(),
                ..told("")
            };
            made_with(&filled(slots), path, &values)
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
            made("/x%252-F", &[slash.clone(), one.clone(), two.clone()]),
            Err(UnsafePath::Ambiguous)
        );
        assert_eq!(
            made("/x%2-G", &[slash, one.clone(), two]),
            Err(UnsafePath::Broken)
        );
        assert_eq!(made("/xa-", &[one]), Err(UnsafePath::Broken));
    }

    /// Goal: the part that stays has the bytes that were sent, and only what is left out or put elsewhere must have one reading. Method:
    /// names of npm, GitLab and servlets behind a prefix, escapes of every kind, and paths whose readings differ about the prefix; the rest
    /// and a group that begins with its slash.
    #[test]
    fn the_part_that_stays_has_the_bytes_that_were_sent() {
        let stripped = filled(&[words("/"), Slot::Rest(1)]);
        let expression = PathRegex::new("^/npm(.*)$").expect("an expression");
        let groups = PathGroups::from_expression(&expression);
        let of_group = |sent| {
            let values = TemplateValues {
                groups: groups.as_ref(),
                ..told("")
            };
            made_with(
                &filled(&[words("/"), Slot::Group("1".into())]),
                sent,
                &values,
            )
        };
        for (sent, left) in [
            ("/npm/@babel%2fcore", "/@babel%2fcore"),
            ("/npm/@babel%2Fcore/x", "/@babel%2Fcore/x"),
            ("/npm/a;v=1/b;w", "/a;v=1/b;w"),
            ("/npm/a%5Cb", "/a%5Cb"),
            ("/npm/%7euser/%c3%a9", "/%7euser/%c3%a9"),
            ("/npm/%252f", "/%252f"),
            ("/n%70m/a%2fb", "/a%2fb"),
            ("/npm/a/../b", "/a/../b"),
        ] {
            let expected = format!("{left}?a=%2F&b");
            if sent.starts_with("/npm") {
                assert_eq!(of_group(sent), Ok(expected.clone()), "{sent}");
            }
            assert_eq!(made(&stripped, sent), Ok(expected), "{sent}");
        }
        for (sent, left) in [
            ("/npm//a//b", "/a/b"),
            ("//npm/a", "/a"),
            ("/npm;v=1/a", "/a"),
            ("/npm//evil.test/a", "/evil.test/a"),
        ] {
            let expected = format!("{left}?a=%2F&b");
            assert_eq!(made(&stripped, sent), Ok(expected), "{sent}");
        }
        for sent in [
            "/x%2fy/a",
            "/npm/../npm/a",
            "/npm/a/../../npm/b",
            "/npm/%2e%2e/npm/b",
            "/npm/%252e%252e/npm/b",
            "/npm/..%2fnpm/b",
            "/npm/..;x/npm/b",
            "/npm/%2f%2fevil.test/a",
            "/npm%5Ca/b",
        ] {
            assert_eq!(made(&stripped, sent), Err(UnsafePath::Ambiguous), "{sent}");
        }
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
            location(&kept, &told("/old/a/b"), "/old/a/b").expect("a location"),
            "https://shop.test/new/a/b?a=%2F&b"
        );
        let own = [words("/new?from="), Slot::Segment(0), words("#top")];
        let own = redirect(&own, RedirectPlace::Path, RedirectQuery::Replaced);
        assert_eq!(
            location(&own, &told("/old"), "/old").expect("a location"),
            "/new?from=old#top"
        );
        let foreign = [words("//"), Slot::Rest(1)];
        let foreign = redirect(&foreign, RedirectPlace::Path, RedirectQuery::Replaced);
        assert_eq!(
            location(&foreign, &told("/old/evil.test"), "/old/evil.test").expect("a location"),
            "/evil.test"
        );
    }

    /// Goal: a redirect has the bytes that were sent, unless they lead elsewhere than the path that was matched, or to another host.
    /// Method: spellings of each kind, for a URL and for a path.
    #[test]
    fn a_redirect_has_the_bytes_that_were_sent() {
        let url = [words("https://b.test/new/"), Slot::Rest(1)];
        let url = redirect(&url, RedirectPlace::Url, RedirectQuery::Replaced);
        let path = redirect(
            &[words("/"), Slot::Rest(1)],
            RedirectPlace::Path,
            RedirectQuery::Replaced,
        );
        let to = |rules: &RedirectRules, sent: &str| {
            let normal = NormalPath::parse(sent).expect("a path");
            location(rules, &told(normal.as_str()), sent).expect("a location")
        };
        for (sent, rest) in [
            ("/old/a%2fb", "a%2fb"),
            ("/old/a%5Cb", "a%5Cb"),
            ("/old/a;v=1/b", "a;v=1/b"),
            ("/old/p//q", "p//q"),
            ("/old/p/../z", "p/../z"),
            ("/old/%7euser", "%7euser"),
            ("/old/p/../../old/z", "z"),
            ("/x/../old/z", "z"),
        ] {
            assert_eq!(
                to(&url, sent),
                format!("https://b.test/new/{rest}"),
                "{sent}"
            );
            assert_eq!(to(&path, sent), format!("/{rest}"), "{sent}");
        }
        for sent in ["/old//evil.test", "/old/\\evil.test/..//evil.test"] {
            let local = to(&path, sent);
            assert!(!local[1..].starts_with(['/', '\\']), "{sent}: {local}");
        }
    }

    proptest! {
        /// Goal: an origin reads in the path that it gets nothing but what the template makes of a reading of the path that was sent, and
        /// nothing in one that is not made of the bytes sent but itself. Method: any path of odd pieces, any cut.
        #[test]
        fn a_made_path_has_the_readings_of_the_path_that_was_sent(
            sent in "(/|//|/a|/npm|%2f|%2F|%5C|%25|2f|2e|%2e|\\.|\\.\\.|;|;x|b|\\.php){1,9}",
            behind in 0_usize..3,
            text in "/([a-z]{1,2}/?)?",
        ) {
            let sent = format!("/{sent}");
            let Ok(normal) = NormalPath::parse(&sent) else { return Ok(()); };
            let slots = filled(&[words(&text), Slot::Rest(behind)]);
            let values = TemplateValues { query: "", ..told(normal.as_str()) };
            let path = SentPath { text: &sent, normal: &normal };
            let Ok(made) = target(&slots, &values, &path) else { return Ok(()); };
            let of_readings = |path| super::text(&slots, &TemplateValues { path, ..values });
            let allowed: Vec<_> = readings(&normal).map(of_readings).collect();
            let again = NormalPath::parse(&made).expect("a path");
            let is_normal = made == again.as_str() && !again.is_ambiguous();
            let mut read = readings(&again);
            prop_assert!(is_normal || read.all(|one| allowed.iter().any(|other| other == one)), "{} {}", sent, made);
        }
    }
}
