//! Writes the page with a challenge: a document of its own, without a request to anything but itself.
//!
//! The script and the style are parts of the program, and the policy of the page allows these two texts by their hashes. Whatever differs
//! between pages is an attribute that the script reads, so nothing of a request is ever in a script. A browser without script reloads the
//! page once its wait is over.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use ring::digest::{SHA256, digest};

use super::active::ActiveChallenge;
use super::solution::{OpenChallenge, PageReload};
use super::token::ChallengeToken;
use crate::url_scheme::UrlScheme;

const DOCUMENT: &str = include_str!("page/page.html");
const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");

/// The policy of every page.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    HeaderValue::from_maybe_shared(Bytes::from(policy)).expect("base64 is visible ASCII")
});

/// A page with a challenge.
#[derive(Clone, Debug)]
pub struct ChallengePage {
    /// The document.
    pub body: Bytes,
    /// The cookie by which a browser without script waits; `None` where no wait solves the challenge.
    pub cookie: Option<HeaderValue>,
    /// Seconds after which a client that does not solve it may come back, at least 1.
    pub retry_after: u64,
}

impl ChallengePage {
    /// Returns the policy of every page, `Content-Security-Policy`.
    #[must_use]
    pub fn policy() -> HeaderValue {
        POLICY.clone()
    }
}

impl ActiveChallenge {
    /// Returns the page with an open challenge, for a browser that is connected by this scheme; `None` where no key signs.
    #[must_use]
    pub fn page(&self, open: &OpenChallenge, scheme: UrlScheme) -> Option<ChallengePage> {
        let terms = open.terms;
        let key = self.keys.signing()?;
        let mac = key.sign(&self.name, open.binding, &terms.bytes());
        let text = ChallengeToken { terms, mac }.text();
        let age = self.valid_for().as_secs();
        let secure = match scheme {
            UrlScheme::Https => "; secure",
            UrlScheme::Http => "",
        };
        let methods = self.rules.methods;
        let cookie = methods.has_wait().then(|| {
            let name = self.wait_cookie(open.binding);
            let cookie =
                format!("{name}={text}; path=/; samesite=lax; httponly; max-age={age}{secure}");
            HeaderValue::from_maybe_shared(Bytes::from(cookie)).ok()
        });
        let reload = match open.reload {
            PageReload::Automatic => "automatic",
            PageReload::ByHand => "by-hand",
        };
        let (settings, script) = match methods.has_work() {
            false => (String::new(), String::new()),
            true => {
                let name = self.work_cookie(open.binding);
                let bits = terms.bits;
                let settings = format!(
                    " data-token=\"{text}\" data-bits=\"{bits}\" data-cookie=\"{name}\" data-age=\"{age}\" data-secure=\"{secure}\" \
                     data-reload=\"{reload}\""
                );
                (settings, format!("<script>{SCRIPT}</script>\n"))
            }
        };
        let without_script = |html: String| match methods.has_work() {
            true => format!("<noscript>{html}</noscript>\n"),
            false => format!("{html}\n"),
        };
        let refresh = match (methods.has_wait(), open.reload) {
            (true, PageReload::Automatic) => without_script(format!(
                "<meta http-equiv=\"refresh\" content=\"{}\">",
                open.wait_left
            )),
            _ => String::new(),
        };
        let document = DOCUMENT
            .replace("{style}", STYLE)
            .replace("{refresh}", &refresh)
            .replace("{settings}", &settings)
            .replace("{without_script}", &without_script(self.text(open)))
            .replace("{script}", &script);
        Some(ChallengePage {
            body: Bytes::from(document),
            cookie: cookie.flatten(),
            retry_after: u64::from(open.wait_left).max(1),
        })
    }

    /// Returns the text for a browser that runs no script.
    fn text(&self, open: &OpenChallenge) -> String {
        let seconds = open.wait_left;
        match (self.rules.methods.has_wait(), open.reload) {
            (false, _) => "<p>More requests came than this site takes at once. This page needs JavaScript and a cookie to let you \
                           in; allow both, then <a href=\"\">try again</a>.</p>"
                .to_owned(),
            (true, PageReload::Automatic) => format!(
                "<p>More requests came than this site takes at once. The page opens by itself in {seconds} s. It needs a cookie to know \
                 your browser again.</p>"
            ),
            (true, PageReload::ByHand) => format!(
                "<p>This page needs a cookie to know your browser again, and the last one did not come back, or was not accepted. Allow \
                 cookies here, wait {seconds} s, then <a href=\"\">try again</a>.</p>"
            ),
        }
    }
}
