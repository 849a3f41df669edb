//! Reads the target of `proxy_pass` and `grpc_pass`, with the variables that `set` assigns.

use super::keys::{TextPiece, pieces};
use super::origins::{RELATIVE_SOCKET, SOCKET, is_relative_socket};
use super::scope::SettingScope;
use super::tree::Directive;
use crate::bounds;
use crate::ledger::EntryId;
use crate::paths;

/// Variables with the path of a request.
const PATHS: [&str; 3] = ["${request_uri}", "${uri}", "${document_uri}"];

/// Why no origin is the target.
const VARIABLE_TARGET: &str = "the target depends on variables";

/// The target of a pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PassUrl {
    pub(super) scheme: String,
    pub(super) authority: String,
    pub(super) path: PassPath,
    /// The directives that assign variables in it.
    pub(super) assignments: Vec<EntryId>,
}

/// The path that a pass sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PassPath {
    /// That of the request.
    Unchanged,
    /// This takes the place of the location's prefix.
    Prefix(String),
    /// A text with variables: nginx sends it as it is.
    Whole(String),
    /// One with a query of its own.
    WithQuery,
}

/// Reads the target.
///
/// # Errors
///
/// The reason for which no origin is this.
pub(super) fn read(pass: &Directive, scope: &SettingScope<'_>) -> Result<PassUrl, String> {
    let written = pass.word(0).unwrap_or_default();
    let mut assignments = Vec::new();
    let url = assigned(written, scope, bounds::VARIABLE_DEPTH, &mut assignments)?;
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (&*scheme.to_ascii_lowercase(), rest),
        None if pass.name == "grpc_pass" => ("grpc", url.as_str()),
        None if url.contains('$') => return Err(VARIABLE_TARGET.to_owned()),
        None => return Err("a target begins with its protocol".to_owned()),
    };
    if !matches!(scheme, "http" | "https" | "grpc" | "grpcs") {
        return Err(format!("{scheme:?} is none of the protocols of origins"));
    }
    if is_relative_socket(rest) {
        return Err(RELATIVE_SOCKET.to_owned());
    }
    let (authority, path) = authority_and_path(rest);
    if authority.is_empty() || authority.contains('$') {
        return Err(VARIABLE_TARGET.to_owned());
    }
    if path.contains(char::is_control) {
        return Err("no path that is sent has a control character".to_owned());
    }
    let path = match path {
        "" => PassPath::Unchanged,
        path if written.contains('$') => PassPath::Whole(path.to_owned()),
        path if path.contains(['?', '#']) => PassPath::WithQuery,
        path => PassPath::Prefix(paths::sendable(path)),
    };
    Ok(PassUrl {
        scheme: scheme.to_owned(),
        authority: authority.to_owned(),
        path,
        assignments,
    })
}

/// Splits a target into the server and the path behind it. A colon ends the path of a socket.
fn authority_and_path(target: &str) -> (&str, &str) {
    if let Some(socket) = target.strip_prefix(SOCKET) {
        let end = socket.find(':').map(|at| SOCKET.len() + at);
        return end.map_or((target, ""), |end| (&target[..end], &target[end + 1..]));
    }
    let end = target.find(['/', '?']).unwrap_or(target.len());
    let paths = PATHS.iter().filter_map(|variable| target.find(variable));
    target.split_at(paths.fold(end, usize::min))
}

/// Puts the texts that `set` assigns in place of variables; others stay.
fn assigned(
    text: &str,
    scope: &SettingScope<'_>,
    depth: usize,
    used: &mut Vec<EntryId>,
) -> Result<String, String> {
    let mut out = String::new();
    for piece in pieces(text) {
        let name = match piece {
            TextPiece::Text(text) => {
                out.push_str(&text);
                continue;
            }
            TextPiece::Variable(name) => name,
        };
        let assigns = |it: &&&Directive| {
            it.name == "set" && it.word(0).and_then(|it| it.strip_prefix('$')) == Some(&name)
        };
        let is_conditional = scope.assignments.iter().any(|it| {
            let mut inner = it.children().iter();
            it.name == "if" && inner.any(|it| assigns(&&it))
        });
        if is_conditional {
            return Err(format!("${name} depends on a condition"));
        }
        match scope.assignments.iter().rev().find(assigns) {
            Some(_) if depth == 0 => {
                return Err(format!("${name} is behind too many other variables"));
            }
            Some(set) => {
                used.push(set.id);
                let value = set.word(1).unwrap_or_default();
                out.push_str(&assigned(value, scope, depth - 1, used)?);
            }
            None => {
                out.push_str("${");
                out.push_str(&name);
                out.push('}');
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;
    use crate::ledger::Ledger;
    use crate::source::NoFiles;

    fn url(text: &str) -> Result<(String, PassPath), String> {
        let mut ledger = Ledger::default();
        let directives = tree::parse("n", text, &NoFiles, &mut ledger).unwrap();
        let scope = SettingScope::default().within(&directives);
        let pass = directives
            .iter()
            .find(|it| it.name == "proxy_pass")
            .unwrap();
        read(pass, &scope).map(|url| (format!("{}://{}", url.scheme, url.authority), url.path))
    }

    /// Goal: variables that are constants are no obstacle, and others are one. Method: texts that `set` assigns whole, in parts, one behind
    /// the other and by conditions, and paths with variables.
    #[test]
    fn assigned_variables_are_their_texts() {
        let app = || "http://app:80".to_owned();
        assert_eq!(
            url("set $up http://app:80; proxy_pass $up;"),
            Ok((app(), PassPath::Unchanged))
        );
        assert_eq!(
            url("set $a app; set $up $a:80; proxy_pass http://${up}$request_uri;"),
            Ok((app(), PassPath::Whole("${request_uri}".to_owned())))
        );
        assert_eq!(
            url("proxy_pass http://app:80/a/;"),
            Ok((app(), PassPath::Prefix("/a/".to_owned())))
        );
        assert_eq!(
            url("proxy_pass HTTP://app:80/\u{e4}/;"),
            Ok((app(), PassPath::Prefix("/%C3%A4/".to_owned())))
        );
        for query in ["/a?x=1", "?x=1", "/a/?", "/a#x"] {
            let pass = format!("proxy_pass http://app:80{query};");
            assert_eq!(url(&pass), Ok((app(), PassPath::WithQuery)), "{query}");
        }
        for text in [
            "proxy_pass http://$host;",
            "proxy_pass http:/$uri;",
            "proxy_pass app:80;",
            r"proxy_pass http://app:80/a\t;",
            "set $up a; if ($x) { set $up b; } proxy_pass http://$up;",
            "set $a $a; proxy_pass http://$a;",
        ] {
            assert!(url(text).is_err(), "{text}");
        }
    }
}
