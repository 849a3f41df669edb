//! Decides which mailbox an address names, for the normal form `email`.
//!
//! Parsers of addresses differ in quotes, comments, routes, encoded words and lists: `"v\ict\im"@x`, `victim(c)@x` and `x1<victim@x>` are
//! `victim@x` for some of them, and addresses of their own for others. So an address is a dot-atom and a domain, and any other text has
//! no form.
//!
//! # Invariants
//! 1. The form of a form is the form itself.
//!
//! # Limits
//! An address has the bytes that RFC 5321 allows.

use std::borrow::Cow;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

use super::email_providers::MailProvider;

/// Most bytes of a path without its angle brackets, and of a local part (RFC 5321 §4.5.3.1, RFC 6531 §3.2).
const ADDRESS_BYTES: usize = 254;
const LOCAL_BYTES: usize = 64;

/// Characters of domains that libraries read in two ways: the first are mapped to others by IDNA 2003, and kept by IDNA 2008 (UTS #46
/// §2.3); the last depend on the language or the word when a text is put into one case.
const AMBIGUOUS: [char; 8] = ['ß', 'ς', '\u{200c}', '\u{200d}', 'ẞ', 'Σ', 'ı', 'İ'];

/// Returns the mailbox: in lower case, since no provider tells mailboxes apart by it (RFC 5321 §2.4 would allow it), without `+tag`, with
/// the domain as A-labels, and as its provider reads it. `None` where the text is no address, or one that parsers read in two ways.
pub(super) fn email(text: &str) -> Option<String> {
    let text = text.trim();
    if text.len() > ADDRESS_BYTES {
        return None;
    }
    let (local, domain) = text.split_once('@')?;
    if local.len() > LOCAL_BYTES || !is_dot_atom(local) {
        return None;
    }
    let domain = domain_name(domain)?;
    let mut mailbox = local.to_ascii_lowercase();
    let tag = mailbox.find('+').unwrap_or(mailbox.len());
    mailbox.truncate(tag);
    let address = match MailProvider::find(&domain) {
        Some((provider, subdomain)) => provider.address(&mailbox, subdomain, &domain),
        None => format!("{mailbox}@{domain}"),
    };
    let (mailbox, _) = address.split_once('@')?;
    (is_dot_atom(mailbox) && address.len() <= ADDRESS_BYTES).then_some(address)
}

/// Returns whether this is a dot-atom (RFC 5322 §3.2.3) that all parsers and servers take for itself.
fn is_dot_atom(local: &str) -> bool {
    let is_atom = |atom: &str| !atom.is_empty() && atom.bytes().all(is_atom_byte);
    // Python decodes an encoded word in an address (RFC 2047): all of its characters are those of an atom.
    local.split('.').all(is_atom) && !local.contains("=?")
}

/// Returns whether a byte belongs to an atom. Postfix reads `!` and `%` as routes: `user%domain` is `user@domain`, and so is `domain!user`.
fn is_atom_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"#$&'*+-/=?^_`{|}~".contains(&byte)
}

/// Returns a domain in lower case, as A-labels. `None` where libraries read it in two ways.
fn domain_name(text: &str) -> Option<Cow<'_, str>> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if !text
        .split('.')
        .all(|label| label.is_ascii() || is_normalized(label))
    {
        return None;
    }
    let domain = Uts46::new()
        .to_ascii(
            text.as_bytes(),
            AsciiDenyList::STD3,
            Hyphens::CheckFirstLast,
            DnsLength::Verify,
        )
        .ok()?;
    // `1.2.3.4` is an address of a machine for some, and a name for others.
    let (_, last) = domain.rsplit_once('.').unwrap_or(("", &domain));
    let is_name = last.bytes().any(|byte| !byte.is_ascii_digit());
    is_name.then_some(domain)
}

/// Returns whether IDNA maps a label to itself but for case. Origins that compare addresses as they come would tell other labels apart.
fn is_normalized(label: &str) -> bool {
    let lower: String = label.chars().flat_map(char::to_lowercase).collect();
    let (unicode, result) = Uts46::new().to_unicode(
        label.as_bytes(),
        AsciiDenyList::STD3,
        Hyphens::CheckFirstLast,
    );
    result.is_ok() && unicode == lower && !label.contains(AMBIGUOUS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Spellings and the mailboxes that real libraries read in them, written by `tests/mail/addresses.py`.
    const ADDRESSES: &str = include_str!("../../../../tests/mail/addresses.tsv");

    /// Goal: one mailbox is one key. Method: spellings that providers deliver alike.
    #[test]
    fn spellings_of_a_mailbox_are_one() {
        for (text, mailbox) in [
            (" Ann@Example.COM ", "ann@example.com"),
            ("ann+shop@example.com.", "ann@example.com"),
            ("a.n.n@example.com", "a.n.n@example.com"),
            ("O'Brien@example.com", "o'brien@example.com"),
            ("ann@localhost", "ann@localhost"),
            ("ann@Bücher.example", "ann@xn--bcher-kva.example"),
            ("ann@XN--BCHER-KVA.example", "ann@xn--bcher-kva.example"),
            ("ann@почта.рф", "ann@xn--80a1acny.xn--p1ai"),
        ] {
            assert_eq!(email(text).as_deref(), Some(mailbox), "{text}");
        }
    }

    /// Goal: a text that parsers read in two ways has no form. Method: quotes, comments, lists, routes, encoded words, invisible
    /// characters, other widths, unusual domains, lengths.
    #[test]
    fn what_is_read_in_two_ways_is_no_address() {
        for text in [
            "",
            "ann",
            "@example.com",
            "ann@",
            "ann@.",
            "+tag@example.com",
            ".+tag@example.com",
            "ann.+tag@example.com",
            "a b@example.com",
            "a@b@example.com",
            "a..b@example.com",
            ".a@example.com",
            "a.@example.com",
            "\"v\\ict\\im\"@x.test",
            "\"victim\"@x.test",
            "x1<victim@x.test>",
            "<victim@x.test>",
            "Ann <victim@x.test>",
            "victim(c)@x.test",
            "victim@(c)x.test",
            "victim@x.test(c)",
            "victim@x.test,y@z.test",
            "victim@x.test;y@z.test",
            "victim@x.test, ",
            "victim:y@x.test",
            "g:victim@x.test;",
            "@a.test:victim@x.test",
            "victim%x.test@x.test",
            "x.test!victim@x.test",
            "mailto:victim@x.test",
            "=?utf-8?q?victim?=@x.test",
            "=?utf-8?q?=76ictim?=@x.test",
            "victim=?us-ascii?b?IA==?=@x.test",
            "vic\u{ad}tim@x.test",
            "victim\u{200b}@x.test",
            "victim@x\u{ad}.test",
            "victim@\u{feff}x.test",
            "victim@x\u{3002}test",
            "victim@x\u{ff0e}test",
            "victim@x\u{ff61}test",
            "victim\u{ff20}x.test",
            "ｖictim@x.test",
            "victim@ｘ.test",
            "victim@x.tes\u{1e9b}",
            "victim@x\u{200d}.test",
            "victim@xß.test",
            "victim@ΣΑΣ.test",
            "victim@gıthub.test",
            "victim@te\u{17f}t.test",
            "victim@bu\u{308}cher.test",
            "víctim@x.test",
            "victim\0@x.test",
            "vic\ttim@x.test",
            "victim@x.test\r\nBcc: y@z.test",
            "victim@[127.0.0.1]",
            "victim@127.0.0.1",
            "victim@[IPv6:::1]",
            "victim@x..test",
            "victim@.x.test",
            "victim@x.test..",
            "victim@-x.test",
            "victim@x-.test",
            "victim@x_y.test",
            "victim@xn--a.test",
            "victim@xn--victim-.test",
        ] {
            assert_eq!(email(text), None, "{text:?}");
        }
        let label = "a".repeat(63);
        let domain = format!("{label}.{label}.{}.com", "a".repeat(57));
        assert!(email(&format!("a@{label}.com")).is_some());
        assert_eq!(email(&format!("a@{label}a.com")), None);
        assert!(email(&format!("{}@example.com", "a".repeat(64))).is_some());
        assert_eq!(email(&format!("{}@example.com", "a".repeat(65))), None);
        assert!(email(&format!("{}@{domain}", "a".repeat(64))).is_some());
        assert_eq!(email(&format!("{}@{domain}", "a".repeat(65))), None);
        assert_eq!(email(&format!("{}@a{domain}", "a".repeat(64))), None);
    }

    /// Goal: no two texts that a library takes for one mailbox have different forms. Method: spellings of addresses with the mailboxes that
    /// Python's `email` package and `email-validator` read in each.
    #[test]
    fn what_a_library_reads_as_one_mailbox_is_one() {
        let mut form_of = std::collections::HashMap::new();
        let mut with_form = 0;
        for line in ADDRESSES.lines().skip(1) {
            let (text, read) = line.split_once('\t').expect(line);
            let text: String = serde_json::from_str(text).expect(line);
            let Some(form) = email(&text) else { continue };
            with_form += 1;
            for mailbox in read.split('\t') {
                let mailbox: String = serde_json::from_str(mailbox).expect(line);
                let known = form_of.entry(mailbox.clone()).or_insert(form.clone());
                assert_eq!(*known, form, "{text:?} is {mailbox} too");
            }
        }
        assert!(with_form > 100, "{with_form}");
    }

    proptest! {
        /// Goal: invariant 1, and a form is of the characters of addresses. Method: texts of the characters that parsers treat specially.
        #[test]
        fn a_form_is_its_own_form(
            local in "[aB1.+\"'(),:;<>@\\\\=?!%_\u{ad}ü。ａ -]{0,12}",
            domain in "(gmail\\.com|me\\.com|ya\\.ru|a\\.fastmail\\.com|yahoo\\.fr|[aB.ü@,)-]{0,6})",
        ) {
            if let Some(form) = email(&format!("{local}@{domain}")) {
                prop_assert!(form.bytes().all(|byte| is_atom_byte(byte) || byte == b'.' || byte == b'@'));
                prop_assert_eq!(email(&form), Some(form.clone()));
            }
        }
    }
}
