//! Challenges: what a browser gets that exceeds a limit, what a solution is worth, and what everybody else gets.

mod browsers;
mod cookies;
mod fleets;
mod forgeries;
mod tiers;
mod unsolved;

use ring::digest::{SHA256, digest};

use crate::harness::*;

/// What Chromium asks documents with.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8";

/// Three requests an hour, then a challenge that a test solves at once; five pages an hour.
const PAGES: &str = r#"
[client]
trusted_proxies = ["127.0.0.0/8"]
[limit.pages]
key = "client.ip"
rates = ["3 per 1h"]
action = "challenge"
unsolved = "unsolved"
[limit.pages.challenge]
difficulty = 8
max_difficulty = 12
wait = "1s"
max_wait = "4s"
[limit.unsolved]
key = "client.ip"
rates = ["5 per 1h"]
[[route]]
name = "site"
path = "/*"
limits = ["pages"]
respond = { status = 200, body = "the site" }
"#;

/// The challenge in a page.
struct Challenge {
    token: String,
    bits: u32,
    cookie: String,
    /// The cookie of a browser without script, name and value.
    wait: Option<String>,
}

impl Challenge {
    fn of(page: &Response) -> Self {
        assert_eq!(page.status, 429, "{}", page.text());
        assert_eq!(
            page.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        let setting = |name: &str| {
            let (_, rest) = page.text().split_once(&format!(" data-{name}=\"")).unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        };
        let wait = page.header("set-cookie");
        Self {
            token: setting("token"),
            bits: setting("bits").parse().unwrap(),
            cookie: setting("cookie"),
            wait: wait.map(|cookie| cookie.split_once(';').unwrap().0.to_owned()),
        }
    }

    /// The cookie with a solution: name and value.
    fn solved(&self) -> String {
        self.with_proof(|zeros| zeros >= self.bits)
    }

    /// The cookie with the first proof that a test takes by its zero bits.
    fn with_proof(&self, takes: impl Fn(u32) -> bool) -> String {
        let proof = (0_u64..).find(|counter| {
            let hash = digest(&SHA256, format!("{}.{counter}", self.token).as_bytes());
            let first = u32::from_be_bytes(*hash.as_ref().first_chunk().unwrap());
            takes(first.leading_zeros())
        });
        format!("{}={}.{}", self.cookie, self.token, proof.unwrap())
    }
}

/// A browser at an address opens a document.
fn visit(target: &str, address: &str) -> Request {
    get(target).header("accept", BROWSER).forwarded_for(address)
}

/// Uses up the rates of an address, so that its next request exceeds them.
async fn exceed(client: &mut Client, address: &str) {
    for _ in 0..3 {
        assert_eq!(client.send(visit("/", address)).await.status, 200);
    }
}
