//! Brings the writings of a UUID to one form: RFC 9562 §4, in lower case.
//!
//! Python's `uuid.UUID`, PostgreSQL and .NET take a UUID in braces, without hyphens and in any case, Python and Go's `google/uuid` behind
//! `urn:uuid:` too. These name one UUID wherever they are taken at all, so they are one value. What single parsers take beside, such as
//! hyphens in other places or Java's short groups, has no form.

/// Digits of each group.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
/// Digits in all.
const DIGITS: usize = 32;
/// RFC 9562 §4: the name of a UUID as a URN, whose letters have no case (RFC 8141 §3.1).
const URN: &str = "urn:uuid:";

/// Returns the UUID that `text` is; `None` where it is none.
pub(super) fn uuid(text: &str) -> Option<String> {
    let digits = digits(within(text))?;
    let mut groups = Vec::with_capacity(GROUPS.len());
    let mut rest = &*digits;
    for length in GROUPS {
        let (group, behind) = rest.split_at_checked(length)?;
        groups.push(group);
        rest = behind;
    }
    Some(groups.join("-"))
}

/// Returns the text in braces or behind the name of a URN; all of it where it has neither.
fn within(text: &str) -> &str {
    let in_braces = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let in_urn = || {
        let (name, rest) = text.split_at_checked(URN.len())?;
        name.eq_ignore_ascii_case(URN).then_some(rest)
    };
    in_braces.or_else(in_urn).unwrap_or(text)
}

/// Returns the digits in lower case, of a UUID with its four hyphens or with none.
fn digits(text: &str) -> Option<String> {
    let lengths = text.split('-').map(str::len);
    let digits = match text.len() {
        DIGITS => text.to_ascii_lowercase(),
        _ if lengths.eq(GROUPS) => text.replace('-', "").to_ascii_lowercase(),
        _ => return None,
    };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_plain.then_some(digits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: &str = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

    /// Goal: the writings of one UUID are one, and nothing that only some parsers take is. Method: those of Python, PostgreSQL, .NET and
    /// Go; then slips, and what Java and Python take beside.
    #[test]
    fn writings_of_a_uuid_are_one() {
        for text in [
            PLAIN,
            "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6",
            "f81d4fae7dec11d0a76500a0c91e6bf6",
            "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}",
            "{F81D4FAE7DEC11D0A76500A0C91E6BF6}",
            "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "URN:UUID:F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6",
        ] {
            assert_eq!(uuid(text).as_deref(), Some(PLAIN), "{text}");
        }
        for text in [
            "",
            "{}",
            "1-1-1-1-1",
            "f81d4fae",
            "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6}",
            "{{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}}",
            "{urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6}",
            "uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "f81d-4fae-7dec-11d0-a765-00a0-c91e-6bf6",
            "f81d4fae7-dec-11d0-a765-00a0c91e6bf6",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6-",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bfg",
            "(f81d4fae-7dec-11d0-a765-00a0c91e6bf6)",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf６",
            "f81d4fae_7dec_11d0_a765_00a0c91e6bf6",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6\0",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6 x",
            "0xf81d4fae7dec11d0a76500a0c91e6b",
        ] {
            assert_eq!(uuid(text), None, "{text:?}");
        }
    }

    proptest! {
        /// Goal: a form is its own form, and has the digits of the text. Method: texts of what UUIDs are made of.
        #[test]
        fn a_form_keeps_the_digits(text in "(urn:uuid:|\\{)?[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}\\}?") {
            if let Some(form) = uuid(&text) {
                prop_assert_eq!(uuid(&form), Some(form.clone()));
                let lower = text.to_ascii_lowercase();
                let digits: String = lower.trim_start_matches(URN).chars().filter(char::is_ascii_hexdigit).collect();
                prop_assert_eq!(form.replace('-', ""), digits);
            }
        }
    }
}
