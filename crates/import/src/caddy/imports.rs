//! Puts arguments, blocks and variables of the environment into the words of a Caddyfile.

use super::lexer::CaddyToken;
use crate::ledger::Ledger;

/// Returns the words of a snippet or a file with the arguments and the block of its `import`.
pub(super) fn with_arguments(
    tokens: &[CaddyToken],
    arguments: &[String],
    block: &[CaddyToken],
) -> Vec<CaddyToken> {
    let mut found: Vec<CaddyToken> = Vec::new();
    for token in tokens {
        if token.text == "{block}" {
            found.extend(block.iter().cloned());
            continue;
        }
        match range(&token.text, arguments.len()) {
            Some(range) => found.extend(arguments[range].iter().map(|argument| CaddyToken {
                text: argument.clone(),
                ..token.clone()
            })),
            None => found.push(CaddyToken {
                text: replaced(&token.text, arguments),
                ..token.clone()
            }),
        }
    }
    if let Some(first) = found.first_mut() {
        first.starts_line = true;
    }
    found
}

/// Returns the arguments that a word such as `{args[1:]}` stands for.
fn range(text: &str, count: usize) -> Option<std::ops::Range<usize>> {
    let inside = text.strip_prefix("{args[")?.strip_suffix("]}")?;
    let (start, end) = inside.split_once(':')?;
    let start = if start.is_empty() {
        Some(0)
    } else {
        start.parse().ok()
    };
    let end = if end.is_empty() {
        Some(count)
    } else {
        end.parse().ok()
    };
    let range = start?..end?;
    (range.start <= range.end && range.end <= count).then_some(range)
}

/// Returns a text with `{args[0]}` and `{args.0}` replaced.
fn replaced(text: &str, arguments: &[String]) -> String {
    if !text.contains("{args") {
        return text.to_owned();
    }
    let mut text = text.to_owned();
    for (at, argument) in arguments.iter().enumerate() {
        text = text.replace(&format!("{{args[{at}]}}"), argument);
        text = text.replace(&format!("{{args.{at}}}"), argument);
    }
    text
}

/// Writes the defaults of variables of the environment, and records that the variables are not read.
pub(super) fn fill_in_variables(token: &mut CaddyToken, ledger: &mut Ledger) {
    let mut text = String::new();
    let mut rest = token.text.as_str();
    while let Some((before, behind)) = rest.split_once("{$") {
        let Some((inside, behind)) = behind.split_once('}') else {
            break;
        };
        text.push_str(before);
        rest = behind;
        let position = &token.position;
        match inside.split_once(':') {
            Some((name, default)) => {
                ledger.fill_in(format!(
                    "{position}: {{${name}:{default}}}: its default is written; the command does not read the variable {name}"
                ));
                text.push_str(default);
            }
            None => {
                ledger.fill_in(format!(
                    "{position}: {{${inside}}}: write the value of the variable {inside}, which the command does not read"
                ));
                text.push_str(&format!("{{${inside}}}"));
            }
        }
    }
    text.push_str(rest);
    token.text = text;
}

#[cfg(test)]
mod tests {
    use super::super::lexer;
    use super::*;

    fn words(text: &str) -> Vec<CaddyToken> {
        lexer::tokens(&"c".into(), text).unwrap()
    }

    /// Goal: arguments stand where Caddy puts them. Method: single ones within words, ranges, one that is absent, a block.
    #[test]
    fn arguments_replace_placeholders() {
        let arguments = ["one".to_owned(), "two".to_owned()];
        let tokens = words("a x{args[0]}y {args.1} {args[:]} {args[1:]} {args[7]}\n{block}");
        let found = with_arguments(&tokens, &arguments, &words("b c"));
        let texts: Vec<&str> = found.iter().map(|token| token.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "a",
                "xoney",
                "two",
                "one",
                "two",
                "two",
                "{args[7]}",
                "b",
                "c"
            ]
        );
    }

    /// Goal: a value that the command does not know is named. Method: a variable with a default and one without.
    #[test]
    fn variables_of_the_environment_are_to_be_filled_in() {
        let mut ledger = Ledger::default();
        let mut tokens = words("{$A:b}.test {$C}");
        tokens
            .iter_mut()
            .for_each(|token| fill_in_variables(token, &mut ledger));
        assert_eq!(tokens[0].text, "b.test");
        assert_eq!(tokens[1].text, "{$C}");
        assert_eq!(ledger.to_fill_in().len(), 2);
    }
}
