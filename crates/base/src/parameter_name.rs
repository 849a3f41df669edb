//! Decides which names an origin may take for the one that a key names.
//!
//! Parsers of parameters and cookies change names: PHP drops blanks in front, cuts at a NUL and writes `_` for `.`, ` ` and `[`; Rack, qs
//! and Rails read brackets and dots as nesting; ASP.NET ignores case. A client could send the gateway one value under the name of the key
//! and the origin another under a name that becomes it. All these changes are applied at once, so that one comparison covers
//! every framework: a name that is not the key's and becomes it under any of them is an alias.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::normal_form::fold;

/// The name in a key, with which names of a request are compared.
pub struct WantedName<'n> {
    name: &'n str,
    forms: OnceCell<ParsedForms>,
}

/// The forms that parsers make of a name.
struct ParsedForms {
    /// The name with `_` for what PHP replaces, once with the blanks at the end and once without.
    flat: [String; 2],
    /// The same of the text before the first bracket: the array that PHP makes of `user.id[]`.
    array: String,
    /// The steps of a nested name.
    steps: Vec<String>,
}

/// The relation of a name to the one in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameMatch {
    /// The same name.
    Same,
    /// A name that some origins take for the one in the key.
    Alias,
    /// Another name.
    Other,
}

impl<'n> WantedName<'n> {
    /// Returns what compares other names with `name`.
    #[must_use]
    pub fn new(name: &'n str) -> Self {
        Self {
            name,
            forms: OnceCell::new(),
        }
    }

    /// Compares a decoded name.
    #[must_use]
    pub fn compare(&self, found: &[u8]) -> NameMatch {
        let name = self.name.as_bytes();
        if found == name {
            return NameMatch::Same;
        }
        let is_alias = if is_plain(found) && is_plain(name) {
            found.eq_ignore_ascii_case(name)
        } else {
            self.is_alias(found)
        };
        if is_alias {
            NameMatch::Alias
        } else {
            NameMatch::Other
        }
    }

    fn is_alias(&self, found: &[u8]) -> bool {
        let text = text(found);
        let before_nul = text.split('\0').next().unwrap_or_default();
        let forms = self.forms.get_or_init(|| forms(self.name));
        [&text, before_nul]
            .into_iter()
            .any(|text| is_taken_for(&self::forms(text), forms))
    }
}

/// Letters, digits, `_` and `-` only, which no parser replaces.
fn is_plain(name: &[u8]) -> bool {
    name.iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn is_taken_for(found: &ParsedForms, wanted: &ParsedForms) -> bool {
    let flat = |found: &String| !found.is_empty() && wanted.flat.contains(found);
    found.flat.iter().chain([&found.array]).any(flat)
        || (!wanted.steps.is_empty() && found.steps.starts_with(&wanted.steps))
}

fn forms(name: &str) -> ParsedForms {
    // URLSearchParams drops a `?` in front, and old parsers of cookies a `=`.
    let is_dropped = |letter: char| {
        letter.is_whitespace() || letter.is_control() || matches!(letter, '?' | '=' | '"' | '\'')
    };
    let folded = |text: &str| {
        let flat = text.trim_start_matches(is_dropped).chars();
        flat.map(|letter| match letter {
            '.' | '[' => '_',
            letter if letter.is_whitespace() => '_',
            letter => letter,
        })
        .collect::<String>()
    };
    // Folding trims, so blanks at the end are kept beside it.
    let visible = fold(name).unwrap_or_else(|| name.to_owned());
    let trailing = name.len() - name.trim_end().len();
    let with_blanks = format!("{visible}{}", "_".repeat(trailing.min(name.len())));
    let steps = visible
        .split(['[', ']', '.', ':'])
        .map(|step| step.trim_matches(is_dropped))
        .filter(|step| !step.is_empty())
        .map(str::to_owned)
        .collect();
    let before_bracket = visible.split('[').next().unwrap_or_default();
    ParsedForms {
        array: folded(before_bracket),
        flat: [
            folded(visible.trim_end_matches(is_dropped)),
            folded(&with_blanks),
        ],
        steps,
    }
}

/// The characters of a name. What is no UTF-8 is read as Latin-1, as Python's servers read fields, after bytes that are longer than
/// they need to be: `%C1%B0` was a `p` to old decoders.
fn text(name: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(name) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(2 * name.len());
    let mut rest = name;
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, behind) {
            (0xc0 | 0xc1, [second @ 0x80..=0xbf, behind @ ..]) => {
                text.push(char::from((first & 1) << 6 | (second & 0x3f)));
                rest = behind;
            }
            _ => text.push(char::from(*first)),
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each change that a parser makes to a name is known. Method: names that PHP 8.2, Rack 2.2, qs, ASP.NET and URLSearchParams
    /// turn into the name, and the name itself.
    #[test]
    fn what_a_parser_takes_for_the_name_is_an_alias() {
        for (name, aliases) in [
            (
                "phone",
                &[
                    " phone",
                    "  phone",
                    "phone ",
                    "\tphone",
                    "phone\0",
                    "phone\0x",
                    "phone[]",
                    "phone[0]",
                    "phone[x][y]",
                    "phone[",
                    "[phone]",
                    "[phone",
                    "phone]",
                    "]phone",
                    "[[phone]]",
                    "[]phone",
                    "[phone]x",
                    "phone]x",
                    "phone.x",
                    "Phone",
                    "PHONE",
                    "ｐhone",
                    "ph\u{f6}ne",
                    "phone\u{200b}",
                    "\u{feff}phone",
                    "?phone",
                    "=phone",
                    "phone:int",
                    " [phone]",
                    "phone\0[x]",
                    "phone\n",
                ][..],
            ),
            (
                "user_id",
                &[
                    "user.id",
                    "user id",
                    "user[id",
                    "user.id[]",
                    " user.id",
                    "USER.ID",
                    "user[id\0",
                ],
            ),
            (
                "user[id]",
                &["user.id", "[user][id]", "user[id", "user[id][]", "user[ID]"],
            ),
            ("a.b", &["a_b", "a b", "a[b]", "A.B"]),
            ("x_", &["x ", "x["]),
        ] {
            let wanted = WantedName::new(name);
            assert_eq!(wanted.compare(name.as_bytes()), NameMatch::Same);
            for alias in aliases {
                assert_eq!(
                    wanted.compare(alias.as_bytes()),
                    NameMatch::Alias,
                    "{name} {alias:?}"
                );
            }
        }
        let wanted = WantedName::new("sid");
        for alias in [&b"\xa0sid"[..], b"sid\x85", b"\xc1\xb3id"] {
            assert_eq!(wanted.compare(alias), NameMatch::Alias, "{alias:?}");
        }
    }

    /// Goal: names that no parser confuses stay apart. Method: neighbours of a name.
    #[test]
    fn other_names_are_others() {
        let wanted = WantedName::new("phone");
        for name in [
            "phones",
            "xphone",
            "phone_type",
            "phone-type",
            "x.phone",
            "user[phone]",
            "",
            "[]",
            "my phone",
            "\u{200b}",
        ] {
            assert_eq!(
                wanted.compare(name.as_bytes()),
                NameMatch::Other,
                "{name:?}"
            );
        }
        assert_eq!(
            WantedName::new("user[id]").compare(b"user"),
            NameMatch::Other
        );
        assert_eq!(
            WantedName::new("user_id").compare(b"user"),
            NameMatch::Other
        );
    }
}
