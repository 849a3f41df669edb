//! Stored answers: what is stored, who gets it, and what becomes of it when it is old, contested or taken away.
//!
//! No test waits for an answer to grow old: an origin that says `Age: 100` and `max-age=60` gives one that is.

mod crowds;
mod deception;
mod freshness;
mod heads;
mod limits;
mod operating;
mod parts;
mod sharing;
mod stale;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::*;

/// Makes a test of each case for each version of HTTP that its clients speak.
/// Those behind `over TCP:` have a client of HTTP/1.1 beside the others.
macro_rules! by_each_version {
    ($($case:ident),+ $(,)? $(; over TCP: $($tcp:ident),+ $(,)?)?) => {
        mod by_http1 {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::harness::Version::Http1).await;
            })+
            $($(#[tokio::test]
            async fn $tcp() {
                super::$tcp(crate::harness::Version::Http1).await;
            })+)?
        }
        mod by_http2 {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::harness::Version::Http2).await;
            })+
            $($(#[tokio::test]
            async fn $tcp() {
                super::$tcp(crate::harness::Version::Http2).await;
            })+)?
        }
        mod by_http3 {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::harness::Version::Http3).await;
            })+
        }
    };
}
pub(crate) use by_each_version;

/// A gateway before one origin, named `app` in the rules, whose clients speak this version.
async fn before(by: Version, origin: &Origin, rules: &str) -> Gateway {
    Gateway::before_by(by, origin, rules).await
}

/// A route to `app` whose answers are stored, with these lines in its `[route.cache]`.
fn storing(lines: &str) -> String {
    format!("[[route]]\npath = \"/*\"\norigin = \"app\"\n[route.cache]\n{lines}\n")
}

/// An origin whose every answer has these fields and tells its number, from 1: `answer 1`.
fn numbered(fields: &'static [(&'static str, &'static str)]) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::answering(move |_| {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        with(fields).body(format!("answer {number}")).into()
    })
}

/// 200 with these fields.
fn with(fields: &[(&str, &str)]) -> Answer {
    let add = |answer: Answer, (name, value): &(&str, &str)| answer.header(name, value);
    fields.iter().fold(Answer::new(200), add)
}

/// The gateway's part in `Cache-Status`.
fn told(answer: &Response) -> &str {
    answer
        .header("cache-status")
        .unwrap_or_else(|| panic!("{answer:?}"))
        .strip_prefix("sluicegate; ")
        .unwrap_or_else(|| panic!("{answer:?}"))
}

/// Whether it was served out of the cache without a word to the origin.
fn is_hit(answer: &Response) -> bool {
    told(answer).starts_with("hit;")
}
