//! Reads the directives that answer requests: `redir`, `respond`, `error` and `abort`.

use super::placeholders::{PlaceholderPiece, pieces};
use super::proxies::ForwardAnswer;
use super::tree::CaddyDirective;
use crate::ledger::Ledger;

/// The end of the way of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StepAnswer {
    Forward(ForwardAnswer),
    Respond {
        status: u16,
        body: String,
    },
    /// The URL with Caddy's placeholders.
    Redirect {
        to: String,
        status: u16,
    },
}

/// Statuses that a redirect of the gateway has.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// Reads a directive that answers.
///
/// # Errors
///
/// The reason for which it has no counterpart.
pub(super) fn read(
    directive: &CaddyDirective,
    words: &[String],
    ledger: &mut Ledger,
) -> Result<StepAnswer, String> {
    match directive.name.as_str() {
        "redir" => redirect(words),
        "respond" => respond(directive, words, ledger),
        "error" => {
            let status = words.iter().rev().find_map(|word| status(word));
            ledger.differs(
                directive.id,
                "the body is empty, whatever handle_errors says",
            );
            Ok(StepAnswer::Respond {
                status: status.unwrap_or(500),
                body: String::new(),
            })
        }
        "abort" => {
            let difference = "the answer is 403; Caddy closes the connection without one";
            ledger.differs(directive.id, difference);
            Ok(StepAnswer::Respond {
                status: 403,
                body: String::new(),
            })
        }
        "basic_auth" | "basicauth" | "forward_auth" | "authenticate" | "authorize" => Err(
            "the gateway authenticates nobody; keep this check where it is, or in the origin"
                .to_owned(),
        ),
        "handle_errors" | "intercept" => {
            Err("the gateway's own errors have [error_pages]".to_owned())
        }
        "map" | "vars" | "method" | "try_files" | "templates" | "timeouts" => {
            Err(format!("a route has no counterpart of {}", directive.name))
        }
        name => Err(format!(
            "`sluicegate import` does not know the directive {name}"
        )),
    }
}

fn status(word: &str) -> Option<u16> {
    let status: Option<u16> = word.parse().ok().filter(|_| word.len() == 3);
    status.filter(|it| (200..=599).contains(it))
}

fn redirect(words: &[String]) -> Result<StepAnswer, String> {
    let to = words.first().ok_or("it names no URL")?.clone();
    let code = words.get(1).map(String::as_str).unwrap_or_default();
    let status = match code {
        "" | "temporary" => 302,
        "permanent" => 301,
        code => code.parse().unwrap_or(0),
    };
    if !REDIRECTS.contains(&status) {
        return Err(format!("no redirect has the status {code}"));
    }
    Ok(StepAnswer::Redirect { to, status })
}

/// Beginnings of the placeholders that Caddy replaces in a body.
const REPLACED: [&str; 5] = ["env.", "file.", "http.", "system.", "time."];

fn respond(
    directive: &CaddyDirective,
    words: &[String],
    ledger: &mut Ledger,
) -> Result<StepAnswer, String> {
    let mut body = String::new();
    let mut code = 200;
    match words {
        [] => {}
        [only] => match status(only) {
            Some(found) => code = found,
            None => body.clone_from(only),
        },
        [text, word, ..] => {
            body.clone_from(text);
            code = status(word).ok_or_else(|| format!("no answer has the status {word}"))?;
        }
    }
    for line in directive.children() {
        match line.name.as_str() {
            "body" => line.word(0).clone_into(&mut body),
            "close" => ledger.differs(line.id, "the connection stays open"),
            name => return Err(format!("an answer has no {name}")),
        }
    }
    for piece in pieces(&body) {
        if let PlaceholderPiece::Placeholder(name) = piece
            && REPLACED.iter().any(|it| name.starts_with(it))
        {
            return Err(format!("a body has no slot for {{{name}}}"));
        }
    }
    Ok(StepAnswer::Respond { status: code, body })
}
