//! Makes paths of routes out of prefixes and expressions.

use sluicegate_base::path::{PathRegex, RegexError};

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

/// Returns an expression that matches every path with this beginning; the rest is its first group.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn beginning_with(prefix: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._~!$&'()+,=:@-".contains(c);
    if let Some(c) = prefix.chars().find(|c| !is_plain(*c)) {
        return Err(format!("{c:?} in a path without a slash at its end"));
    }
    let expression = format!("^{}(.*)$", regex::escape(prefix).replace("\\-", "-"));
    checked(expression)
}

/// Returns an expression over a whole path for one that is searched in it.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn searched(expression: &str) -> Result<String, String> {
    if has_alternatives(expression) {
        return checked(format!("^.*?(?:{expression}).*$"));
    }
    let begin = if expression.starts_with('^') {
        ""
    } else {
        "^.*"
    };
    let ends = expression.ends_with('$') && !expression.ends_with("\\$");
    let end = if ends { "" } else { ".*$" };
    checked(format!("{begin}{expression}{end}"))
}

fn checked(expression: String) -> Result<String, String> {
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
fn has_alternatives(expression: &str) -> bool {
    let mut depth = 0_usize;
    let mut in_class = false;
    let mut characters = expression.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => {
                characters.next();
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth = depth.saturating_sub(1),
            '|' if !in_class && depth == 0 => return true,
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

    /// Goal: prefixes are taken as text. Method: characters that mean something in expressions and in patterns.
    #[test]
    fn prefixes_are_text() {
        assert_eq!(beginning_with("/a.b").unwrap(), r"~ ^/a\.b(.*)$");
        assert!(beginning_with("/a b").is_err());
        assert_eq!(encoded("/a//b*").unwrap(), "/a/b%2A");
        assert_eq!(encoded("/a;b"), Err(';'));
    }
}
