//! Fills the slots of a route that stand for a part of its path, for a route of one path.

use crate::model::{Route, RouteAction};

/// Replaces `{rest}` and the like in a route by texts. `part` returns the part of the path that a slot stands for.
///
/// # Errors
///
/// The slot without a text.
pub(crate) fn fill(route: &mut Route, part: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    let mut texts: Vec<&mut String> = Vec::new();
    match &mut route.action {
        RouteAction::Forward { rewrite, .. } => texts.extend(rewrite),
        RouteAction::Redirect { to, .. } => texts.push(to),
        RouteAction::Respond { .. } => {}
    }
    for edits in [&mut route.request_fields, &mut route.response_fields] {
        let values = edits.set.iter_mut().chain(&mut edits.add);
        texts.extend(values.map(|(_, value)| value));
    }
    for text in texts {
        *text = filled(text, &part)?;
    }
    if let RouteAction::Forward { rewrite, .. } = &mut route.action {
        // The gateway sends no two slashes in a row.
        while let Some(path) = rewrite.as_mut().filter(|it| it.contains("//")) {
            *path = path.replace("//", "/");
        }
    }
    Ok(())
}

/// Returns a text as values with slots have it.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

fn filled(template: &str, part: &impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        let slot = &rest[at..];
        let end = slot.find('}').map_or(slot.len(), |end| end + 1);
        let is_escaped = slot.starts_with("{{");
        let length = if is_escaped { "{{".len() } else { end };
        let name = slot[..length].trim_matches(['{', '}']);
        match name == "rest" || name.starts_with("path.") {
            true if !is_escaped => {
                let text = part(name).ok_or_else(|| format!("{{{name}}} has no text"))?;
                out.push_str(&escaped(&text));
            }
            _ => out.push_str(&slot[..length]),
        }
        rest = &slot[length..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: parts of the path are texts, and all else stays. Method: slots of the path and others, braces that are text, an open one.
    #[test]
    fn slots_of_the_path_are_filled() {
        let part = |name: &str| (name != "path.2").then(|| format!("<{name}>"));
        let fill = |text: &str| filled(text, &part);
        assert_eq!(fill("/a/{rest}").unwrap(), "/a/<rest>");
        assert_eq!(
            fill("https://{host}/{path.1}x").unwrap(),
            "https://{host}/<path.1>x"
        );
        assert_eq!(fill("/{{rest}}/{").unwrap(), "/{{rest}}/{");
        assert!(fill("/{path.2}").is_err());
    }
}
