//! Owns the addresses of one mailbox, as large providers document them.
//!
//! `+tag` is no part of a mailbox anywhere here: Gmail, Outlook, iCloud, Fastmail, Proton, Yandex and Zoho document that they deliver to
//! the mailbox without it, and a provider that does not has hardly any mailbox with a `+`.

/// A provider whose mailboxes have more addresses than those with a `+tag`.
pub(super) struct MailProvider {
    domains: &'static [&'static str],
    domain_rule: DomainRule,
    /// Characters that a name of a mailbox may have or not.
    ignored: &'static [char],
    /// A character that is read as another one.
    same: Option<(&'static str, &'static str)>,
    /// A character that begins a tag, beside `+`.
    tag: Option<char>,
}

/// The relation between the domains of a provider.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DomainRule {
    /// A name is one mailbox at all of them.
    One,
    /// A name is another mailbox at each of them.
    Each,
    /// A name is another mailbox at each of them, and `tag@name.domain` is `name@domain`.
    Subdomains,
}

const PROVIDERS: [MailProvider; 6] = [
    // support.google.com/mail/answer/7436150: dots do not matter. answer/10313: googlemail.com is gmail.com.
    MailProvider {
        domains: &["gmail.com", "googlemail.com"],
        domain_rule: DomainRule::One,
        ignored: &['.'],
        same: None,
        tag: None,
    },
    // proton.me/support/addresses-and-aliases: the same name at each domain belongs to one account. proton.me/support/creating-aliases:
    // dots, hyphens and underscores do not matter.
    MailProvider {
        domains: &["proton.me", "protonmail.com", "pm.me", "protonmail.ch"],
        domain_rule: DomainRule::One,
        ignored: &['.', '-', '_'],
        same: None,
        tag: None,
    },
    // support.apple.com/118230: accounts have the same name at all three domains.
    MailProvider {
        domains: &["icloud.com", "me.com", "mac.com"],
        domain_rule: DomainRule::One,
        ignored: &[],
        same: None,
        tag: None,
    },
    // yandex.com/support/id/authorization/email.html: each mailbox has its name at all domains, and `.` is `-` in it.
    MailProvider {
        domains: &[
            "yandex.com",
            "yandex.ru",
            "ya.ru",
            "yandex.by",
            "yandex.kz",
            "yandex.ua",
            "yandex.uz",
            "yandex.com.tr",
            "narod.ru",
        ],
        domain_rule: DomainRule::One,
        ignored: &[],
        same: Some(("-", ".")),
        tag: None,
    },
    // help.yahoo.com/kb/SLN28334.html: a disposable address is a nickname, a hyphen and a keyword; other names have no hyphen. A name
    // here that ends with a dot begins a domain: there is one in each country.
    MailProvider {
        domains: &["yahoo.", "ymail.com", "rocketmail.com", "myyahoo.com"],
        domain_rule: DomainRule::Each,
        ignored: &[],
        same: None,
        tag: Some('-'),
    },
    // fastmail.help/hc/en-us/articles/360060591053: `tag@name.domain` at any of its domains.
    // fastmail.com/blog/two-address-resolving-additions: there `-` may stand for `_`.
    MailProvider {
        domains: &FASTMAIL_DOMAINS,
        domain_rule: DomainRule::Subdomains,
        ignored: &[],
        same: Some(("-", "_")),
        tag: None,
    },
];

/// Domains at which Fastmail has mailboxes.
#[rustfmt::skip]
const FASTMAIL_DOMAINS: [&str; 112] = [
    "123mail.org", "150mail.com", "150ml.com", "16mail.com", "2-mail.com", "4email.net", "50mail.com", "airpost.net", "allmail.net",
    "bestmail.us", "cluemail.com", "elitemail.org", "emailcorner.net", "emailengine.net", "emailengine.org", "emailgroups.net",
    "emailplus.org", "emailuser.net", "eml.cc", "f-m.fm", "fast-email.com", "fast-mail.org", "fastem.com", "fastemail.us",
    "fastemailer.com", "fastest.cc", "fastimap.com", "fastmail.cn", "fastmail.co.uk", "fastmail.com", "fastmail.com.au",
    "fastmail.de", "fastmail.es", "fastmail.fm", "fastmail.fr", "fastmail.im", "fastmail.in", "fastmail.jp", "fastmail.mx",
    "fastmail.net", "fastmail.nl", "fastmail.org", "fastmail.se", "fastmail.to", "fastmail.tw", "fastmail.uk", "fastmail.us",
    "fastmailbox.net", "fastmessaging.com", "fea.st", "fmail.co.uk", "fmailbox.com", "fmgirl.com", "fmguy.com", "ftml.net",
    "h-mail.us", "hailmail.net", "imap-mail.com", "imap.cc", "imapmail.org", "inoutbox.com", "internet-e-mail.com",
    "internet-mail.org", "internetemails.net", "internetmailing.net", "jetemail.net", "justemail.net", "letterboxes.org",
    "mail-central.com", "mail-page.com", "mailandftp.com", "mailas.com", "mailbolt.com", "mailc.net", "mailcan.com",
    "mailforce.net", "mailftp.com", "mailhaven.com", "mailingaddress.org", "mailite.com", "mailmight.com", "mailnew.com",
    "mailsent.net", "mailservice.ms", "mailup.net", "mailworks.org", "ml1.net", "mm.st", "myfastmail.com", "mymacmail.com",
    "nospammail.net", "ownmail.net", "petml.com", "pobox.com", "postinbox.com", "postpro.net", "proinbox.com", "promessage.com",
    "realemail.net", "reallyfast.biz", "rushpost.com", "sent.as", "sent.at", "sent.com", "speedpost.net", "speedymail.org",
    "ssl-mail.com", "swift-mail.com", "the-fastest.net", "the-quickest.com", "theinternetemail.com", "xsmail.com",
];

impl MailProvider {
    /// Returns the provider of a domain in lower case, and the name in front of the provider's own domain, if there is one.
    pub(super) fn find(domain: &str) -> Option<(&'static Self, Option<&str>)> {
        PROVIDERS.iter().find_map(|provider| {
            let found = |own: &&str| provider.subdomain(own, domain);
            provider
                .domains
                .iter()
                .find_map(found)
                .map(|subdomain| (provider, subdomain))
        })
    }

    /// Returns the name in front of the provider's domain `own`, or `None` inside if `domain` is that one.
    fn subdomain<'d>(&self, own: &str, domain: &'d str) -> Option<Option<&'d str>> {
        let is_own = domain == own || own.ends_with('.') && domain.starts_with(own);
        if is_own {
            return Some(None);
        }
        let name = domain.strip_suffix(own)?.strip_suffix('.')?;
        (self.domain_rule == DomainRule::Subdomains).then_some(Some(name))
    }

    /// Returns the address of the mailbox that `mailbox` names at `domain`.
    pub(super) fn address(&self, mailbox: &str, subdomain: Option<&str>, domain: &str) -> String {
        let (mailbox, domain) = match (self.domain_rule, subdomain) {
            (DomainRule::One, _) => (mailbox, self.domains.first().copied().unwrap_or(domain)),
            (DomainRule::Subdomains, Some(name)) => {
                let own = domain.strip_prefix(name).unwrap_or(domain);
                let (_, nearest) = name.rsplit_once('.').unwrap_or(("", name));
                (nearest, own.strip_prefix('.').unwrap_or(own))
            }
            (DomainRule::Subdomains | DomainRule::Each, _) => (mailbox, domain),
        };
        let untagged = self.tag.and_then(|tag| mailbox.split_once(tag));
        let mailbox = untagged.map_or(mailbox, |(mailbox, _)| mailbox);
        let mut mailbox = mailbox.replace(self.ignored, "");
        if let Some((other, same)) = self.same {
            mailbox = mailbox.replace(other, same);
        }
        format!("{mailbox}@{domain}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::email::email;

    /// Goal: the addresses of one mailbox are one key, and those of two are two. Method: what each provider documents.
    #[test]
    fn addresses_of_one_mailbox_are_one() {
        for (mailbox, others) in [
            (
                "ann@gmail.com",
                &[
                    "A.n.n+1@GoogleMail.com",
                    "a.nn@gmail.com",
                    "ann+a+b@gmail.com",
                ][..],
            ),
            (
                "annsmith@proton.me",
                &[
                    "Ann.Smith@pm.me",
                    "ann_smith+x@protonmail.com",
                    "a-nnsmith@protonmail.ch",
                ],
            ),
            ("ann@icloud.com", &["ann@me.com", "ann+x@mac.com"]),
            (
                "ann.smith@yandex.com",
                &[
                    "ann-smith@ya.ru",
                    "ann.smith+x@yandex.kz",
                    "Ann-Smith@yandex.ru",
                ],
            ),
            ("ann@yahoo.com", &["ann-shop@yahoo.com", "ann+x@yahoo.com"]),
            ("ann@yahoo.co.uk", &["ann-a-b@yahoo.co.uk"]),
            (
                "ann_smith@fastmail.com",
                &[
                    "shop@ann-smith.fastmail.com",
                    "a@b.ann-smith.fastmail.com",
                    "ann_smith+x@fastmail.com",
                ],
            ),
            ("ann@sent.com", &["x@ann.sent.com"]),
            ("ann@outlook.com", &["Ann+x@Outlook.com"]),
        ] {
            assert_eq!(email(mailbox).as_deref(), Some(mailbox));
            for other in others {
                assert_eq!(email(other).as_deref(), Some(mailbox), "{other}");
            }
        }
        for address in [
            "a.nn@outlook.com",
            "ann@hotmail.com",
            "ann-x@example.com",
            "ann@a.gmail.com",
            "ann@notgmail.com",
            "ann@notfastmail.com",
            "ann@yahoo.fr",
        ] {
            assert_eq!(email(address).as_deref(), Some(address));
        }
        for address in ["-@yahoo.com", "-a@ymail.com", "_@pm.me", ".@gmail.com"] {
            assert_eq!(email(address), None, "{address}");
        }
    }
}
