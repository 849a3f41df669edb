//! Translates expressions over decoded paths, as nginx and Caddy match them, into expressions over paths in normal form, as routes match
//! them.
//!
//! The normal form escapes each byte that a path does not contain plainly: a space is `%20`, and `|` is `%7C`. A literal of such a byte
//! becomes its escape, and a class becomes the plain bytes or the escapes in it, so that `[\w ]` is `(?:[0-9A-Z_a-z]|%20)`. Any text, `.*`,
//! stays as it is unless the next part could match the digits of an escape. A slash that the client escaped is no slash in the normal form;
//! the gateway reads such a path in both ways.
//!
//! An expression has no translation where the two engines or the two forms of a path disagree: `;`, since the gateway cuts parameters off;
//! edges of words, which an escape moves; and the syntax of PCRE alone.

use std::collections::BTreeSet;
use std::ops::Range;

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{self, Ast};
use sluicegate_base::path::{PathCase, is_plain};

/// Any character of a path in normal form.
const CHARACTER: &str = "(?:[^%]|%..)";

/// Blocks within blocks of an expression.
const DEPTH: u32 = 64;

/// Returns an expression over paths in normal form for one over decoded paths, or the text itself where that is no expression.
///
/// # Errors
///
/// The reason for which there is none.
pub(crate) fn in_normal_form(expression: &str, case: PathCase) -> Result<String, String> {
    let Ok(ast) = ParserBuilder::new()
        .nest_limit(DEPTH)
        .build()
        .parse(expression)
    else {
        // Whoever compiles it has the message.
        return Ok(expression.to_owned());
    };
    let mut translator = ExpressionTranslator {
        ignores_case: case == PathCase::Ignored || expression.contains("(?i"),
        edits: Vec::new(),
    };
    translator.visit(&ast, PartPosition::WHOLE)?;
    let mut text = expression.to_owned();
    translator.edits.sort_by_key(|edit| edit.0.start);
    for (range, replacement) in translator.edits.into_iter().rev() {
        text.replace_range(range, &replacement);
    }
    Ok(text)
}

/// Returns a text of a decoded path in normal form; slashes stay.
pub(crate) fn text_in_normal_form(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte == b'/' || is_plain(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The surroundings of a part of an expression.
#[derive(Clone, Copy)]
struct PartPosition {
    /// True if the part behind it matches no digit of an escape.
    is_followed_safely: bool,
    /// True if an operator repeats it.
    is_repeated: bool,
}

impl PartPosition {
    const WHOLE: Self = Self {
        is_followed_safely: true,
        is_repeated: false,
    };
}

struct ExpressionTranslator {
    ignores_case: bool,
    edits: Vec<(Range<usize>, String)>,
}

impl ExpressionTranslator {
    fn visit(&mut self, ast: &Ast, position: PartPosition) -> Result<(), String> {
        match ast {
            Ast::Empty(_) | Ast::Flags(_) => Ok(()),
            Ast::Literal(literal) => self.literal(literal, position),
            Ast::Dot(span) => {
                self.replace(span, CHARACTER.to_owned());
                Ok(())
            }
            Ast::Assertion(assertion) => check_assertion(assertion),
            Ast::ClassUnicode(_) => Err("it names characters by their Unicode property".to_owned()),
            Ast::ClassPerl(_) | Ast::ClassBracketed(_) => {
                let class = self.class(ast)?;
                if !class.is_text_exact() {
                    self.replace(ast.span(), class.text());
                }
                Ok(())
            }
            Ast::Repetition(repetition) => self.repetition(repetition, position),
            Ast::Group(group) => self.visit(
                &group.ast,
                PartPosition {
                    is_repeated: false,
                    ..position
                },
            ),
            Ast::Alternation(alternation) => {
                let mut parts = alternation.asts.iter();
                parts.try_for_each(|part| self.visit(part, position))
            }
            Ast::Concat(concat) => {
                for (at, part) in concat.asts.iter().enumerate() {
                    let rest = &concat.asts[at + 1..];
                    let is_followed_safely = self.is_safe_row(rest, position)?;
                    let position = PartPosition {
                        is_followed_safely,
                        is_repeated: false,
                    };
                    self.visit(part, position)?;
                }
                Ok(())
            }
        }
    }

    fn literal(&mut self, literal: &ast::Literal, position: PartPosition) -> Result<(), String> {
        let bytes = bytes(literal)?;
        if bytes == b";" {
            return Err("the gateway cuts parameters off, so no path has a `;`".to_owned());
        }
        if bytes.iter().all(|byte| *byte == b'/' || is_plain(*byte)) {
            return Ok(());
        }
        if position.is_repeated && bytes.len() > 1 {
            return Err(format!(
                "it repeats {:?}, a character of several bytes",
                literal.c
            ));
        }
        let escapes: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
        let text = match position.is_repeated {
            true => format!("(?:{escapes})"),
            false => escapes,
        };
        self.replace(&literal.span, text);
        Ok(())
    }

    fn repetition(
        &mut self,
        repetition: &ast::Repetition,
        position: PartPosition,
    ) -> Result<(), String> {
        if matches!(*repetition.ast, Ast::Repetition(_)) {
            return Err("it has a possessive quantifier".to_owned());
        }
        if position.is_followed_safely && self.is_any_text(repetition)? {
            return Ok(());
        }
        let is_inner_safe = self.is_safe(&repetition.ast, position)?;
        let inner = PartPosition {
            is_followed_safely: position.is_followed_safely && is_inner_safe,
            is_repeated: true,
        };
        self.visit(&repetition.ast, inner)
    }

    /// Returns true for `.*`, `.+` and the like with a class that has each escape: as text they match the same paths.
    fn is_any_text(&self, repetition: &ast::Repetition) -> Result<bool, String> {
        use ast::RepetitionKind::{OneOrMore, ZeroOrMore};
        if !matches!(repetition.op.kind, OneOrMore | ZeroOrMore) {
            return Ok(false);
        }
        match &*repetition.ast {
            Ast::Dot(_) => Ok(true),
            class @ (Ast::ClassPerl(_) | Ast::ClassBracketed(_)) => {
                Ok(self.class(class)?.has_each_escape())
            }
            _ => Ok(false),
        }
    }

    /// Returns true if a row of parts begins with no digit of an escape, up to a part that is not empty.
    fn is_safe_row(&self, row: &[Ast], mut position: PartPosition) -> Result<bool, String> {
        for part in row.iter().rev() {
            position.is_followed_safely = self.is_safe(part, position)?;
        }
        Ok(position.is_followed_safely)
    }

    /// Returns true if a part begins with no digit of an escape; where it can be empty, the part behind it decides too.
    fn is_safe(&self, ast: &Ast, position: PartPosition) -> Result<bool, String> {
        let is_safe_behind = position.is_followed_safely;
        Ok(match ast {
            Ast::Empty(_) | Ast::Flags(_) => is_safe_behind,
            Ast::Assertion(_) => true,
            Ast::Literal(literal) => !bytes(literal)?.iter().any(|byte| self.is_digit(*byte)),
            Ast::Dot(_) | Ast::ClassUnicode(_) => false,
            Ast::ClassPerl(_) | Ast::ClassBracketed(_) => {
                let class = self.class(ast)?;
                !class.bytes.iter().any(|byte| self.is_digit(*byte))
            }
            // At least one character could be two digits of the escape that another any text begins.
            Ast::Repetition(repetition) if self.is_any_text(repetition)? => {
                is_safe_behind && repetition.op.kind == ast::RepetitionKind::ZeroOrMore
            }
            Ast::Repetition(repetition) => {
                is_safe_behind && self.is_safe(&repetition.ast, position)?
            }
            Ast::Group(group) => self.is_safe(&group.ast, position)?,
            Ast::Alternation(alternation) => {
                let mut all = true;
                for part in &alternation.asts {
                    all &= self.is_safe(part, position)?;
                }
                all
            }
            Ast::Concat(concat) => self.is_safe_row(&concat.asts, position)?,
        })
    }

    /// Returns true for a digit of an escape in normal form, which has capital letters.
    fn is_digit(&self, byte: u8) -> bool {
        byte.is_ascii_digit()
            || matches!(byte, b'A'..=b'F')
            || (self.ignores_case && matches!(byte, b'a'..=b'f'))
    }

    fn class(&self, ast: &Ast) -> Result<PathClass, String> {
        let mut class = PathClass {
            bytes: BTreeSet::new(),
        };
        match ast {
            Ast::ClassPerl(perl) => class.add_perl(perl),
            Ast::ClassBracketed(bracketed) => match &bracketed.kind {
                ast::ClassSet::Item(item) => {
                    class.add_item(item)?;
                    if self.ignores_case {
                        class.add_other_case();
                    }
                    if bracketed.negated {
                        class.negate();
                    }
                }
                ast::ClassSet::BinaryOp(_) => return Err(PCRE_CLASS.to_owned()),
            },
            _ => {}
        }
        Ok(class)
    }

    fn replace(&mut self, span: &ast::Span, text: String) {
        self.edits.push((span.start.offset..span.end.offset, text));
    }
}

/// The reason for a class that means something else in PCRE.
const PCRE_CLASS: &str = "it has a class within a class";

fn check_assertion(assertion: &ast::Assertion) -> Result<(), String> {
    use ast::AssertionKind::{EndLine, EndText, StartLine, StartText};
    match assertion.kind {
        StartLine | EndLine | StartText | EndText => Ok(()),
        _ => Err("it names edges of words, which the escapes of a path move".to_owned()),
    }
}

/// Returns the bytes of a literal. An escaped number is one byte; other characters are UTF-8.
fn bytes(literal: &ast::Literal) -> Result<Vec<u8>, String> {
    let is_number = matches!(
        literal.kind,
        ast::LiteralKind::HexFixed(_) | ast::LiteralKind::HexBrace(_) | ast::LiteralKind::Octal
    );
    match u8::try_from(literal.c) {
        Ok(byte) if is_number || byte.is_ascii() => Ok(vec![byte]),
        _ if is_number => Err("it has a character of more than one byte".to_owned()),
        _ => Ok(literal.c.to_string().into_bytes()),
    }
}

/// The decoded bytes of a class.
struct PathClass {
    bytes: BTreeSet<u8>,
}

impl PathClass {
    fn add_item(&mut self, item: &ast::ClassSetItem) -> Result<(), String> {
        match item {
            ast::ClassSetItem::Empty(_) => {}
            ast::ClassSetItem::Literal(literal) => {
                let found = bytes(literal)?;
                if found == b";" {
                    return Err("the gateway cuts parameters off, so no path has a `;`".to_owned());
                }
                self.bytes.extend(found);
            }
            ast::ClassSetItem::Range(range) => {
                match (
                    bytes(&range.start)?.as_slice(),
                    bytes(&range.end)?.as_slice(),
                ) {
                    ([first], [last]) => self.bytes.extend(*first..=*last),
                    _ => return Err("it has a range of characters of several bytes".to_owned()),
                }
            }
            ast::ClassSetItem::Ascii(ascii) => self.add_named(ascii),
            ast::ClassSetItem::Perl(perl) => self.add_perl(perl),
            ast::ClassSetItem::Unicode(_) => {
                return Err("it names characters by their Unicode property".to_owned());
            }
            ast::ClassSetItem::Bracketed(_) => return Err(PCRE_CLASS.to_owned()),
            ast::ClassSetItem::Union(union) => {
                for item in &union.items {
                    self.add_item(item)?;
                }
            }
        }
        Ok(())
    }

    fn add_perl(&mut self, perl: &ast::ClassPerl) {
        let has = |byte: u8| match perl.kind {
            ast::ClassPerlKind::Digit => byte.is_ascii_digit(),
            ast::ClassPerlKind::Space => is_space(byte),
            ast::ClassPerlKind::Word => is_word(byte),
        };
        self.add_where(|byte| has(byte) != perl.negated);
    }

    fn add_named(&mut self, class: &ast::ClassAscii) {
        use ast::ClassAsciiKind as Kind;
        let has = |byte: u8| match class.kind {
            Kind::Alnum => byte.is_ascii_alphanumeric(),
            Kind::Alpha => byte.is_ascii_alphabetic(),
            Kind::Ascii => byte.is_ascii(),
            Kind::Blank => matches!(byte, b' ' | b'\t'),
            Kind::Cntrl => byte.is_ascii_control(),
            Kind::Digit => byte.is_ascii_digit(),
            Kind::Graph => byte.is_ascii_graphic(),
            Kind::Lower => byte.is_ascii_lowercase(),
            Kind::Print => byte.is_ascii_graphic() || byte == b' ',
            Kind::Punct => byte.is_ascii_punctuation(),
            Kind::Space => is_space(byte),
            Kind::Upper => byte.is_ascii_uppercase(),
            Kind::Word => is_word(byte),
            Kind::Xdigit => byte.is_ascii_hexdigit(),
        };
        self.add_where(|byte| has(byte) != class.negated);
    }

    fn add_where(&mut self, has: impl Fn(u8) -> bool) {
        self.bytes.extend((0..=u8::MAX).filter(|byte| has(*byte)));
    }

    fn add_other_case(&mut self) {
        let lower = self.bytes.iter().map(u8::to_ascii_lowercase);
        let upper = self.bytes.iter().map(u8::to_ascii_uppercase);
        self.bytes = lower.chain(upper).collect();
    }

    fn negate(&mut self) {
        self.bytes = (0..=u8::MAX)
            .filter(|byte| !self.bytes.contains(byte))
            .collect();
    }

    /// Returns the bytes that paths have as escapes. Paths have no control characters, and a slash is none of this class.
    fn escaped(&self) -> Vec<u8> {
        let bytes = self.bytes.iter().copied();
        bytes.filter(|byte| is_escaped(*byte)).collect()
    }

    /// Returns true if each escape and each digit of one belongs to it.
    fn has_each_escape(&self) -> bool {
        let all = (0..=u8::MAX).filter(|byte| is_escaped(*byte)).count();
        let mut digits = b"0123456789ABCDEF".iter();
        self.escaped().len() == all && digits.all(|byte| self.bytes.contains(byte))
    }

    /// Returns true if its text matches the same bytes of a path in normal form.
    fn is_text_exact(&self) -> bool {
        self.escaped().is_empty() && self.bytes.iter().any(|byte| !byte.is_ascii_control())
    }

    /// Returns the expression for one character of it.
    fn text(&self) -> String {
        let is_plain = |byte: &u8| *byte == b'/' || is_plain(*byte);
        let all = (0..=u8::MAX).filter(is_plain);
        let (present, absent): (Vec<u8>, Vec<u8>) = all.partition(|it| self.bytes.contains(it));
        let absent = format!("^{}%", ranges(&absent));
        let present = ranges(&present);
        let plain = match absent.len() < present.len() {
            true => absent,
            false => present,
        };
        let escapes = match self.escapes().as_slice() {
            // No path has a byte of the class.
            [] => return "[^\\x00-\\x7f]".to_owned(),
            [escape] => format!("%{escape}"),
            escapes => format!("%(?:{})", escapes.join("|")),
        };
        match plain.is_empty() {
            true => format!("(?:{escapes})"),
            false => format!("(?:[{plain}]|{escapes})"),
        }
    }

    /// Returns the digits of its escapes, with a dot for any second digit.
    fn escapes(&self) -> Vec<String> {
        let escaped = self.escaped();
        let all: Vec<u8> = (0..=u8::MAX).filter(|byte| is_escaped(*byte)).collect();
        if escaped == all {
            return vec!["..".to_owned()];
        }
        let mut found = Vec::new();
        for high in 0..16_u8 {
            let with_digit = |bytes: &[u8]| -> Vec<u8> {
                let bytes = bytes.iter().copied();
                bytes.filter(|byte| byte >> 4 == high).collect()
            };
            let own = with_digit(&escaped);
            match own == with_digit(&all) && high >= 8 {
                true => found.push(format!("{high:X}.")),
                false => found.extend(own.iter().map(|byte| format!("{byte:02X}"))),
            }
        }
        found
    }
}

fn is_escaped(byte: u8) -> bool {
    !is_plain(byte) && !byte.is_ascii_control() && byte != b'/'
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns bytes in order as a class has them.
fn ranges(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut bytes = bytes.iter().copied().peekable();
    while let Some(first) = bytes.next() {
        let mut last = first;
        while let Some(next) = bytes.next_if(|next| *next == last + 1) {
            last = next;
        }
        push_byte(&mut text, first);
        if last > first + 1 {
            text.push('-');
        }
        if last > first {
            push_byte(&mut text, last);
        }
    }
    text
}

fn push_byte(text: &mut String, byte: u8) {
    if matches!(byte, b'-' | b'&' | b'~') {
        text.push('\\');
    }
    text.push(char::from(byte));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::bytes::RegexBuilder;
    use sluicegate_base::path::NormalPath;

    use super::*;

    fn kept(expression: &str) -> Result<String, String> {
        in_normal_form(expression, PathCase::Kept)
    }

    /// Goal: an expression that means the same in both forms stays as it is written, and others change where they must. Method: literals,
    /// dots and classes of bytes that paths escape, alone and repeated.
    #[test]
    fn bytes_that_paths_escape_become_escapes() {
        for same in [
            r"^/api/.*$",
            r"^.*\.php$",
            r"^/(a|b)/[\w\-.]+\.(js|css)$",
            r"^/[^/]+/x$",
            r"^/u/(?<n>\d{3})$",
            "",
            "(",
        ] {
            assert_eq!(kept(same).as_deref(), Ok(same));
        }
        for (expression, expected) in [
            ("^/x y$", "^/x%20y$"),
            (r"^/[\w ]+$", "^/(?:[0-9A-Z_a-z]|%20)+$"),
            ("^/c.d$", "^/c(?:[^%]|%..)d$"),
            (r"\|", "%7C"),
            ("^/a%2f", "^/a%252f"),
            (r"\?", "%3F"),
            ("^/ü$", "^/%C3%BC$"),
            (r"^/\x20*$", "^/(?:%20)*$"),
            (r"^/\s$", "^/(?:%20)$"),
            ("^/[|<]*$", "^/(?:%(?:3C|7C))*$"),
            (r"^/.*2$", "^/(?:[^%]|%..)*2$"),
            ("^/.+.+$", "^/(?:[^%]|%..)+.+$"),
            (r"^/[^/]{2}$", "^/(?:[^/%]|%..){2}$"),
            (r"^/[^A-Z]+$", "^/(?:[^A-Z%]|%..)+$"),
        ] {
            assert_eq!(kept(expression).as_deref(), Ok(expected), "{expression}");
        }
        assert_eq!(text_in_normal_form("/a b/ü%"), "/a%20b/%C3%BC%25");
    }

    /// Goal: what no expression says is refused with its reason. Method: parameters, edges of words, and the syntax of PCRE.
    #[test]
    fn expressions_without_a_translation_are_refused() {
        for (expression, reason) in [
            ("^/x;y$", "parameters"),
            ("^/[;=]$", "parameters"),
            (r"\bad\b", "edges of words"),
            ("^/a++$", "possessive"),
            ("^/[a[b]]$", "class within a class"),
            ("^/[a-z&&[b]]$", "class within a class"),
            ("^/ü+$", "several bytes"),
            ("^/[à-ü]$", "several bytes"),
        ] {
            let found = kept(expression);
            assert!(
                found.as_ref().is_err_and(|it| it.contains(reason)),
                "{expression}: {found:?}"
            );
        }
    }

    proptest! {
        /// Goal: both expressions match the same paths. Method: expressions of random parts, searched in random paths as nginx does, beside
        /// the translation in the normal form of the path with each byte escaped.
        #[test]
        fn both_forms_match_alike(
            parts in prop::collection::vec(prop::sample::select(vec![
                "a", "B", "2", " ", ".", ".*", ".+", "[^a]", "[^/]*", r"\w", r"[\w ]+", r"\W", r"\d?", r"\|", "%", "(A|2)", "(.|b)*", "/",
                r"\S+",
                "[ -~]", "[^ ]+", r"\x42", "( a)*",
            ]), 0..6),
            path in "[aAbB2C %|./_é]{0,8}",
            ignores_case: bool,
        ) {
            let path = format!("/{}", path.replace(['/', '.'], "_"));
            let expression = format!("^/{}$", parts.concat());
            let case = if ignores_case { PathCase::Ignored } else { PathCase::Kept };
            let escaped: String = path.bytes().map(|byte| match byte {
                b'/' => "/".to_owned(),
                byte => format!("%{byte:02X}"),
            }).collect();
            let Ok(normal) = NormalPath::parse(&escaped) else { return Ok(()) };
            let compiled = |text: &str| RegexBuilder::new(text).unicode(false).case_insensitive(ignores_case).build().unwrap();
            let translated = in_normal_form(&expression, case).unwrap();
            prop_assert_eq!(
                compiled(&expression).is_match(path.as_bytes()),
                compiled(&translated).is_match(normal.as_str().as_bytes()),
                "{} {} {} {}", expression, translated, path, normal.as_str()
            );
        }
    }
}
