//! Makes `rewrite` of a route of `rewrite-target`.

use regex::Regex;

use crate::ledger::{EntryId, Ledger};

/// Returns a target with `$1` as a template with `{path.1}`; `None` where no template says it, which is to be filled in. `path` is the
/// expression whose groups it names.
pub(super) fn template(
    (id, target): (EntryId, &str),
    path: &str,
    ledger: &mut Ledger,
) -> Option<String> {
    let groups = Regex::new(path).map_or(0, |it| it.captures_len() - 1);
    let mut out = String::new();
    let mut characters = target.chars().peekable();
    while let Some(c) = characters.next() {
        let digit = characters.peek().and_then(|it| it.to_digit(10));
        match (c, digit) {
            ('$', Some(0)) => return lose(id, target, ledger),
            ('$', Some(digit)) => {
                characters.next();
                match usize::try_from(digit).is_ok_and(|it| it <= groups) {
                    true => out.push_str(&format!("{{path.{digit}}}")),
                    false => ledger.differs(
                        id,
                        format!(
                            "the path {path} has no group {digit}; nginx puts nothing in place of ${digit}, and so does the route"
                        ),
                    ),
                }
            }
            ('$', None) => return lose(id, target, ledger),
            ('{', _) => out.push_str("{{"),
            ('}', _) => out.push_str("}}"),
            (c, _) => out.push(c),
        }
    }
    match out.starts_with('/') && !out.contains(['?', '#']) {
        true => Some(out),
        false => lose(id, target, ledger),
    }
}

fn lose(id: EntryId, target: &str, ledger: &mut Ledger) -> Option<String> {
    ledger.fill_in_for(
        id,
        &format!(
            "[[route]] rewrite: a path with `{{path.1}}` of its expression, which {target:?} is not"
        ),
    );
    None
}
