//! Clients that are crawlers and prove it, and clients that only claim to be one: keys, routes, lists, log, metrics, replay.

mod names;
mod ranges;
mod signatures;

use crate::harness::*;

/// The user agent of a search engine.
const GOOGLEBOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// Blocks as their operators publish them.
const GOOGLE: &str = r#"{"creationTime":"2026-11-20T23:00","prefixes":[{"ipv6Prefix":"2001:db8:10::/64"},{"ipv4Prefix":"192.0.2.0/24"}]}"#;

/// A request of a client with this user agent.
fn asks(path: &str, user_agent: &str, client: &str) -> Request {
    get(path)
        .forwarded_for(client)
        .header("user-agent", user_agent)
}

/// Loopback tells who the client is.
const TRUST: &str = "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n";

/// A route that answers each kind of client by a status of its own: 201 a verified search engine, 202 one of AI, 203 who only claims to be
/// one, 204 all others.
const KINDS: &str = r#"
[[route]]
path = "/"
crawlers = ["search"]
respond = { status = 201 }
[[route]]
path = "/"
crawlers = ["ai"]
respond = { status = 202 }
[[route]]
path = "/"
crawlers = ["unverified"]
respond = { status = 203 }
[[route]]
path = "/"
respond = { status = 204 }
"#;
