//! The cookies of challenges beside those of the site: at the origin, and for the cache.

use super::{Challenge, PAGES, exceed, visit};
use crate::harness::*;

/// The rules of the other tests before an origin, whose answers are stored.
fn stored() -> String {
    let own = "respond = { status = 200, body = \"the site\" }";
    PAGES.replace(
        own,
        "origin = \"app\"\n[route.cache]\ndefault_ttl = \"10m\"",
    )
}

/// A request to one host, by either version.
fn to(target: &str) -> Request {
    get(target).header("Host", "a.test")
}

/// Goal: a session is never hidden from the cache behind the name of a challenge. Method: an origin whose page says whose it is; its
/// owner's session lies in a field that some parsers of cookies find it in; then a visitor without cookies asks for the same page.
#[tokio::test]
async fn no_session_hides_behind_the_name_of_a_challenge() {
    let origin = Origin::answering(|request| {
        let cookie = request.header("cookie").unwrap_or("nobody");
        Answer::new(200).body(format!("page of {cookie}")).into()
    });
    let gateway = Gateway::before(&origin, &stored().replace("3 per 1h", "300 per 1h")).await;
    let text = "aZ9_-bcd".repeat(8);
    let own = format!("sluicegate-work-pages-a={text}.1");
    let fields = [
        "sluicegate-work-a=b sid=EVIL".to_owned(),
        "sluicegate-work-pages-a=b sid=EVIL".to_owned(),
        "sluicegate-wait-pages-a=b, sid=EVIL".to_owned(),
        "sluicegate-work-=\"; sid=EVIL".to_owned(),
        "sluicegate-work-[sid]=EVIL".to_owned(),
        format!("{own} sid=EVIL"),
        format!("{own},sid=EVIL"),
        format!("{own}\tsid=EVIL"),
        format!("{own}]sid=EVIL"),
        format!("{own}; sid=EVIL"),
        format!("sluicegate-work-others-a={text}.1EVIL"),
        format!("sluicegate-work-others-EVIL={text}.1"),
    ];
    for (at, field) in fields.iter().enumerate() {
        let target = format!("/{at}");
        let page = gateway.send(get(&target).header("cookie", field)).await;
        assert!(page.text().contains("EVIL"), "{field}: {page:?}");
        let other = gateway.get(&target).await;
        assert_eq!(other.text(), "page of nobody", "{field}");
    }
}

/// Goal: no origin gets a cookie of a challenge, everything else comes as it was sent, and whoever solved one shares stored answers.
/// Method: a solved challenge alone and beside cookies of the site, in one field and in several, by both versions.
#[tokio::test]
async fn origins_get_no_cookies_of_challenges() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &stored().replace("3 per 1h", "12 per 1h")).await;
    let mut client = gateway.client().await;
    for _ in 0..4 {
        exceed(&mut client, "192.0.2.1").await;
    }
    let challenge = Challenge::of(&client.send(visit("/", "192.0.2.1")).await);
    let solved = challenge.solved();
    let own = solved.as_str();
    let beside = format!("a=1; {own};  b=\"2\";c");
    for version in [Version::Http1, Version::Http2] {
        let mut client = Client::connect_by(version, None, gateway.address()).await;
        let mut ask = async |target: &str, fields: &[&str]| {
            let mut request = to(target).forwarded_for("192.0.2.1");
            for field in fields {
                request = request.header("cookie", field);
            }
            client.send(request).await
        };
        let target = format!("/{version:?}");
        let alone = ask(&target, &[own]).await;
        assert_eq!(alone.echo().header("cookie"), None, "{version:?}");
        let shared = gateway.send(to(&target)).await;
        let status = shared.header("cache-status").unwrap();
        assert!(status.contains("hit"), "{version:?}: {status}");
        let both = ask("/both", &[&beside]).await;
        assert_eq!(
            both.echo().all("cookie"),
            ["a=1;  b=\"2\";c"],
            "{version:?}"
        );
        let several = ask("/several", &["a=1", own, "b=2"]).await;
        let expected: &[&str] = match version {
            Version::Http1 => &["a=1", "b=2"],
            Version::Http2 | Version::Http3 => &["a=1; b=2"],
        };
        assert_eq!(several.echo().all("cookie"), expected, "{version:?}");
    }
}

/// Goal: whoever solved a challenge shares the stored answers of those with the same cookies of the site, also where the answer varies by
/// cookies. Method: an origin that says so, and a route whose key has them; a visitor, then one with a solution beside the same cookies.
#[tokio::test]
async fn cookies_of_challenges_make_no_variant() {
    let origin = Origin::answering(|request| {
        let cookie = request.header("cookie").unwrap_or("nobody");
        let answer = Answer::new(200).header("Vary", "Cookie");
        answer.body(format!("page of {cookie}")).into()
    });
    let rules = stored().replace("3 per 1h", "300 per 1h");
    let ttl = "default_ttl = \"10m\"";
    let by_key = rules.replace(ttl, &format!("{ttl}\nvary_on = [\"cookie\"]"));
    let solved = format!("sluicegate-work-pages-a={}.1", "aZ9_-bcd".repeat(8));
    for rules in [rules, by_key] {
        let gateway = Gateway::before(&origin, &rules).await;
        for version in [Version::Http1, Version::Http2] {
            let mut client = Client::connect_by(version, None, gateway.address()).await;
            let mut ask = async |fields: &[&str]| {
                let mut request = to(&format!("/{version:?}"));
                for field in fields {
                    request = request.header("cookie", field);
                }
                client.send(request).await
            };
            let beside = format!("lang=de; {solved}");
            let cases: [(&[&str], &[&str], &str); 2] = [
                (&[], &[&solved], "page of nobody"),
                (&["lang=de"], &[&beside], "page of lang=de"),
            ];
            for (first, second, page) in cases {
                for (fields, is_hit) in [(first, false), (second, true), (first, true)] {
                    let answer = ask(fields).await;
                    let status = answer.header("cache-status").unwrap();
                    assert_eq!(status.contains("hit"), is_hit, "{fields:?}: {status}");
                    assert_eq!(answer.text(), page, "{fields:?}");
                }
            }
        }
    }
}
