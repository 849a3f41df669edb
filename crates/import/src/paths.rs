//! Makes paths of routes out of prefixes and expressions.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use sluicegate_base::path::{PathCase, PathRegex, RegexError};

use crate::decoded_paths;

/// Returns a text in which requests have a path, or the character that no path has.
pub(crate) fn encoded(text: &str) -> Result<String, char> {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            ';' | '\\' => return Err(c),
            c if c.is_control() => return Err(c),
            '*' => out.push_str("%2A"),
            '{' => out.push_str("%7B"),
            '}' => out.push_str("%7D"),
            '?' => out.push_str("%3F"),
            '#' => out.push_str("%23"),
            '%' => out.push_str("%25"),
            c => {
                if c != '/' || !out.ends_with('/') {
                    out.push(c);
                }
            }
        }
    }
    Ok(out)
}

/// Returns a path that can be sent: nginx sends any byte as it is written.
pub(crate) fn sendable(path: &str) -> String {
    let mut out = String::new();
    for c in path.chars() {
        match c {
            '!'..='~' | ' ' => out.push(c),
            c => {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                out.extend(bytes.map(|byte| format!("%{byte:02X}")));
            }
        }
    }
    out
}

/// Returns the texts that a text begins with, the longest first.
pub(crate) fn beginnings<'k, T: Borrow<str> + Ord>(
    known: &'k BTreeSet<T>,
    text: &'k str,
) -> impl Iterator<Item = &'k str> {
    let greatest = move |below: Bound<&str>| {
        let mut texts = known.range::<str, _>((Bound::Unbounded, below));
        texts.next_back().map(T::borrow)
    };
    beginnings_among(greatest, text)
}

/// Returns the value of the longest of several texts with which a text begins.
pub(crate) fn longest_beginning<'k, V>(
    known: &'k BTreeMap<String, V>,
    text: &'k str,
) -> Option<&'k V> {
    let greatest = |below: Bound<&str>| {
        let mut texts = known.range::<str, _>((Bound::Unbounded, below));
        texts.next_back().map(|(key, _)| key.as_str())
    };
    let longest = beginnings_among(greatest, text).next();
    known.get(longest?)
}

/// Returns the texts that a text begins with, the longest first, where `greatest` finds the greatest text up to a bound.
fn beginnings_among<'k>(
    greatest: impl Fn(Bound<&str>) -> Option<&'k str>,
    text: &'k str,
) -> impl Iterator<Item = &'k str> {
    let mut rest = text;
    let mut below = Bound::Included(text);
    std::iter::from_fn(move || {
        loop {
            let greatest = greatest(below)?;
            if rest.starts_with(greatest) {
                rest = greatest;
                below = Bound::Excluded(rest);
                return Some(greatest);
            }
            // Each beginning of the text is one of all texts between both.
            let pairs = rest.chars().zip(greatest.chars());
            let shared = pairs.take_while(|(one, other)| one == other);
            let length: usize = shared.map(|(c, _)| c.len_utf8()).sum();
            rest = &rest[..length];
            below = Bound::Included(rest);
        }
    })
}

/// Returns an expression for a text.
pub(crate) fn escaped(text: &str) -> String {
    regex::escape(text).replace("\\-", "-")
}

/// Returns an expression without the anchor at its end; `None` where it has none.
fn without_end(expression: &str) -> Option<&str> {
    let inner = expression.strip_suffix('$')?;
    (!inner.ends_with('\\')).then_some(inner)
}

/// Returns an expression that matches every path with this beginning, which is decoded; the rest is its first group.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn beginning_with(prefix: &str) -> Result<String, String> {
    if let Some(c) = prefix.chars().find(|c| *c == ';' || c.is_control()) {
        return Err(format!("{c:?} in a path without a slash at its end"));
    }
    let text = decoded_paths::text_in_normal_form(prefix);
    checked(format!("^{}(.*)$", escaped(&text)))
}

/// Returns an expression over a whole path for one that is searched in it.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn searched(expression: &str) -> Result<String, String> {
    checked(whole(expression))
}

/// Returns an expression over a whole path for one that is searched in the decoded path.
///
/// # Errors
///
/// What is wrong with it, or the reason for which none matches the same paths.
pub(crate) fn searched_decoded(expression: &str, case: PathCase) -> Result<String, String> {
    let whole = whole(expression);
    let translated = decoded_paths::in_normal_form(&whole, case)
        .map_err(|reason| format!("the expression {expression:?}: {reason}"))?;
    checked(translated)
}

/// Returns an expression that is searched in a path in normal form, for one that is searched in the decoded path.
///
/// # Errors
///
/// What is wrong with it, or the reason for which none matches the same paths.
pub(crate) fn decoded(expression: &str, case: PathCase) -> Result<String, String> {
    searched_decoded(expression, case)?;
    let whole = whole(expression);
    let translated = decoded_paths::in_normal_form(&whole, case)?;
    Ok(match translated == whole {
        true => expression.to_owned(),
        false => translated,
    })
}

fn whole(expression: &str) -> String {
    if has_alternatives(expression) {
        return format!("^.*?(?:{expression}).*$");
    }
    let begin = if expression.starts_with('^') {
        ""
    } else {
        "^.*"
    };
    let end = match without_end(expression) {
        Some(_) => "",
        None => ".*$",
    };
    format!("{begin}{expression}{end}")
}

/// Returns an expression that is searched in a path, for one that is searched in paths with a beginning; `None` where none is known to be.
pub(crate) fn below_prefix(prefix: &str, expression: &str) -> Option<String> {
    if prefix == "/" {
        return Some(expression.to_owned());
    }
    let is_whole = !has_alternatives(expression);
    let text = escaped(prefix);
    match expression.strip_prefix('^') {
        Some(inner) if is_whole => {
            let rest = inner
                .strip_prefix("/.*")
                .or_else(|| inner.strip_prefix(".*"));
            if literal_beginning(inner).starts_with(prefix) {
                Some(expression.to_owned())
            } else {
                rest.map(|rest| format!("^{text}.*{rest}"))
            }
        }
        None if is_whole => Some(match text.strip_suffix('/') {
            // The slash of the prefix may be that of the expression.
            Some(text) if expression.starts_with('/') => format!("^{text}(?:/.*)?{expression}"),
            _ => format!("^{text}.*{expression}"),
        }),
        None if !expression.contains('^') => Some(format!("^{text}.*(?:{expression})")),
        _ => None,
    }
}

/// Returns an expression that is searched in a path, for one that is searched in paths in which another one is found; `None` where none is
/// known to be.
pub(crate) fn below_expression(outer: &str, inner: &str) -> Option<String> {
    if has_alternatives(outer) || has_alternatives(inner) {
        return None;
    }
    let begins = |expression: &str| expression.starts_with('^');
    let ends = |expression: &str| without_end(expression).is_some();
    if begins(outer) && !ends(outer) {
        let beginning = &outer[1..];
        let literal = literal_beginning(beginning);
        if escaped(&literal) == beginning || literal == beginning {
            return below_prefix(&literal, inner);
        }
        return (!begins(inner)).then(|| format!("^{}.*{inner}", without_groups(beginning)));
    }
    let is_order_known = !begins(outer) && begins(inner) && !ends(inner);
    is_order_known.then(|| format!("{inner}.*{}", without_groups(outer)))
}

/// Returns true if every path that fits an expression has this beginning.
pub(crate) fn always_begins(expression: &str, beginning: &str) -> bool {
    let inner = expression.strip_prefix('^');
    let inner = inner.filter(|it| !has_alternatives(it));
    inner.is_some_and(|it| literal_beginning(it).starts_with(beginning))
}

/// Returns the expression of the path of a route; `None` where it is a pattern.
pub(crate) fn expression(path: &str) -> Option<&str> {
    path.strip_prefix("~ ")
}

/// Returns the text at the beginning of an expression.
fn literal_beginning(expression: &str) -> String {
    split_literal(expression).0
}

/// Returns the text that an expression without operators matches.
pub(crate) fn literal(expression: &str) -> Option<String> {
    let (text, rest) = split_literal(expression);
    rest.is_empty().then_some(text)
}

/// Returns the text at the beginning of an expression, and the rest of the expression.
fn split_literal(expression: &str) -> (String, &str) {
    let mut text = String::new();
    let mut rest = expression;
    loop {
        let mut characters = rest.chars();
        let literal = match characters.next() {
            Some('\\') => characters.next().filter(|c| !c.is_ascii_alphanumeric()),
            Some(c) => (!"^$.|?*+()[]{}".contains(c)).then_some(c),
            None => None,
        };
        match literal {
            Some(c) if !characters.as_str().starts_with(['?', '*', '+', '{']) => text.push(c),
            _ => return (text, rest),
        }
        rest = characters.as_str();
    }
}

/// Returns the expressions over whole paths with this beginning in which another one is found, without anchors; `None` where they are not
/// known.
pub(crate) fn found_behind(beginning: &str, expression: &str) -> Option<Vec<String>> {
    if has_alternatives(expression) {
        return None;
    }
    let (expression, end, anchor) = match without_end(expression) {
        Some(expression) => (expression, "", "$"),
        None => (expression, ".*", ""),
    };
    if let Some(inner) = expression.strip_prefix('^') {
        let (literal, rest) = split_literal(inner);
        if literal.starts_with(beginning) {
            return Some(vec![format!("{inner}{end}")]);
        }
        // Anything behind a text is a search behind it.
        let tail = beginning.strip_prefix(literal.as_str())?;
        let searched = rest.strip_prefix(".*")?;
        let found = found_behind(tail, &format!("{searched}{anchor}"))?;
        let literal = escaped(&literal);
        return Some(found.iter().map(|it| format!("{literal}{it}")).collect());
    }
    let (literal, _) = split_literal(expression);
    let within = beginning.find(&literal);
    if literal.is_empty()
        || !literal.is_ascii()
        || within.is_some_and(|at| at + literal.len() < beginning.len())
    {
        return None;
    }
    let mut found = vec![format!("{}.*{expression}{end}", escaped(beginning))];
    let shared = (1..=literal.len()).filter(|it| beginning.ends_with(&literal[..*it]));
    found.extend(shared.map(|length| {
        let before = escaped(&beginning[..beginning.len() - length]);
        format!("{before}{expression}{end}")
    }));
    Some(found)
}

/// Returns false if no path with this beginning fits an expression.
pub(crate) fn may_begin(expression: &str, beginning: &str) -> bool {
    let without_flag = |text: &str| text.strip_prefix("(?i)").unwrap_or(text).to_owned();
    let expression = without_flag(expression);
    let Some(text) = expression.strip_prefix('^') else {
        return true;
    };
    let text = without_flag(text).to_ascii_lowercase();
    let beginning = beginning.to_ascii_lowercase();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_".contains(c);
    let end = text.find(|c| !is_plain(c)).unwrap_or(text.len());
    // The last character may be repeated, or absent.
    let literal = match text[end..].starts_with(['?', '*', '{', '|']) {
        true => &text[..end.saturating_sub(1)],
        false => &text[..end],
    };
    has_alternatives(&text) || literal.starts_with(&beginning) || beginning.starts_with(literal)
}

/// Returns false if no path with this ending fits an expression.
pub(crate) fn may_end(expression: &str, ending: &str) -> bool {
    let Some(text) = expression.strip_suffix('$') else {
        return true;
    };
    let text = text.to_ascii_lowercase();
    let ending = ending.to_ascii_lowercase();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_".contains(c);
    let before = text.trim_end_matches(is_plain);
    let literal = &text[before.len()..];
    // `\d` is no letter.
    let literal = match before.ends_with('\\') {
        true => literal.get(1..).unwrap_or_default(),
        false => literal,
    };
    has_alternatives(&text) || literal.ends_with(&ending) || ending.ends_with(literal)
}

/// Returns the number of groups of an expression that capture.
pub(crate) fn group_count(expression: &str) -> usize {
    let opens = |(at, c): &(usize, char)| *c == '(' && !expression[at + 1..].starts_with('?');
    operators(expression).filter(opens).count()
}

/// Returns the characters of an expression outside of classes, each with its place, without those that are escaped.
fn operators(expression: &str) -> impl Iterator<Item = (usize, char)> {
    let mut in_class = false;
    let mut characters = expression.char_indices();
    std::iter::from_fn(move || {
        loop {
            let (at, c) = characters.next()?;
            match c {
                '\\' => {
                    characters.next();
                }
                '[' => in_class = true,
                ']' => in_class = false,
                _ if !in_class => return Some((at, c)),
                _ => {}
            }
        }
    })
}

/// Returns an expression whose groups capture nothing.
fn without_groups(expression: &str) -> String {
    let mut out = String::new();
    let mut in_class = false;
    let mut characters = expression.chars().peekable();
    while let Some(c) = characters.next() {
        out.push(c);
        match c {
            '\\' => out.extend(characters.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                if characters.peek() != Some(&'?') {
                    out.push_str("?:");
                } else if let Some(rest) = named_group(&characters.clone().collect::<String>()) {
                    characters.by_ref().take(rest).for_each(drop);
                    out.push_str("?:");
                }
            }
            _ => {}
        }
    }
    out
}

/// Returns the number of characters of a group's name behind its parenthesis.
fn named_group(text: &str) -> Option<usize> {
    let name = text
        .strip_prefix("?P<")
        .or_else(|| text.strip_prefix("?<"))?;
    let length = name.find('>')?;
    let is_name = name[..length]
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && length > 0).then(|| text.len() - name.len() + length + 1)
}

/// Returns an expression over a whole path as a route writes it.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn checked(expression: String) -> Result<String, String> {
    match PathRegex::new(&expression) {
        Ok(_) => Ok(format!("~ {expression}")),
        Err(error) => {
            let reason = match error {
                RegexError::Syntax(reason) => reason,
                RegexError::NotAscii => "it is not ASCII".to_owned(),
                RegexError::TooLarge => "it is too large".to_owned(),
                RegexError::NoBeginning | RegexError::NoEnd | RegexError::NoSlash => {
                    "it takes no whole path".to_owned()
                }
            };
            Err(format!("the expression {expression:?}: {reason}"))
        }
    }
}

/// Returns true if alternatives stand outside of all groups and classes.
pub(crate) fn has_alternatives(expression: &str) -> bool {
    let mut depth = 0_usize;
    for (_, c) in operators(expression) {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: expressions match what they match in nginx, which searches. Method: anchors at either end, at none, alternatives.
    #[test]
    fn searched_expressions_take_the_whole_path() {
        assert_eq!(searched(r"\.php$").unwrap(), r"~ ^.*\.php$");
        assert_eq!(searched("^/api/").unwrap(), "~ ^/api/.*$");
        assert_eq!(searched("^/a$").unwrap(), "~ ^/a$");
        assert_eq!(searched("^/a$|/b").unwrap(), "~ ^.*?(?:^/a$|/b).*$");
        assert_eq!(searched("/(a|b)").unwrap(), "~ ^.*/(a|b).*$");
        assert!(searched("(?!x)").is_err());
        assert!(searched("(").is_err());
    }

    /// Goal: the longest text at the beginning of another one is found. Method: texts within each other, and such that stand between a
    /// text and its beginning.
    #[test]
    fn the_longest_beginning_is_found() {
        let texts = ["/a", "/a/b", "/a/ba", "/a/é", "/b"].map(|it| (it.to_owned(), it));
        let texts = BTreeMap::from(texts);
        for (text, expected) in [
            ("/a/b/c", Some("/a/b")),
            ("/a/c", Some("/a")),
            ("/a/ê", Some("/a")),
            ("/a/é", Some("/a/é")),
            ("/c", None),
            ("", None),
        ] {
            assert_eq!(longest_beginning(&texts, text).copied(), expected, "{text}");
        }
    }

    /// Goal: an expression within a location takes paths of that location alone. Method: prefixes with and without a slash at the end,
    /// anchors at either side, groups of the outer expression, pairs that no expression is known for.
    #[test]
    fn an_expression_within_a_location_has_its_paths() {
        let below = |prefix: &str, inner: &str| below_prefix(prefix, inner);
        let all = r"\.php$".to_owned();
        assert_eq!(below("/", r"\.php$"), Some(all));
        assert_eq!(below("/up/", r"\.php$").unwrap(), r"^/up/.*\.php$");
        assert_eq!(below("/up/", "/x/").unwrap(), "^/up(?:/.*)?/x/");
        assert_eq!(below("/a", "/x/").unwrap(), "^/a.*/x/");
        assert_eq!(
            below("/iso/", r"^/iso/.*\.sig$").unwrap(),
            r"^/iso/.*\.sig$"
        );
        assert_eq!(below("/blog/", r"^/.*\.php$").unwrap(), r"^/blog/.*\.php$");
        assert_eq!(below("/a/", "x|y").unwrap(), "^/a/.*(?:x|y)");
        assert_eq!(below("/a/", "^/(a|b)/"), None);
        let both = |outer: &str, inner: &str| below_expression(outer, inner);
        assert_eq!(both("^/up/", "/x/").unwrap(), "^/up(?:/.*)?/x/");
        assert_eq!(both("^/(a|b)/", r"\.php$").unwrap(), r"^/(?:a|b)/.*\.php$");
        assert_eq!(both("^/(?<n>[(]+)/", "(x)").unwrap(), "^/(?:[(]+)/.*(x)");
        assert_eq!(both(r"\.php$", "^/admin/").unwrap(), r"^/admin/.*\.php$");
        assert_eq!(both(r"\.php$", "/admin/"), None);
        assert_eq!(both("^/a$|^/b$", "x"), None);
    }

    /// Goal: an expression is compared with the beginning of a path wherever its flag stands. Method: a flag at either side.
    #[test]
    fn flags_stand_before_and_behind_anchors() {
        for expression in ["^/download/", "(?i)^/Download/", "^(?i)/download/"] {
            assert!(may_begin(expression, "/download/a"), "{expression}");
            assert!(!may_begin(expression, "/new/"), "{expression}");
        }
        assert!(may_begin("(?i)/download/", "/new/"));
    }

    /// Goal: prefixes are taken as text. Method: characters that mean something in expressions and in patterns.
    #[test]
    fn prefixes_are_text() {
        assert_eq!(beginning_with("/a.b").unwrap(), r"~ ^/a\.b(.*)$");
        assert_eq!(beginning_with("/a b").unwrap(), "~ ^/a%20b(.*)$");
        assert!(beginning_with("/a;b").is_err());
        assert_eq!(encoded("/a//b*").unwrap(), "/a/b%2A");
        assert_eq!(encoded("/a;b"), Err(';'));
    }
}
