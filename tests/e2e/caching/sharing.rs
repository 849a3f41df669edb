//! Who gets what is stored: never another host's, user's, encoding's or route's.

use super::*;

const FRESH: (&str, &str) = ("Cache-Control", "max-age=60");

/// Tells what it was asked, with these fields.
fn mirror(fields: &'static [(&'static str, &'static str)], of: &'static str) -> Origin {
    Origin::answering(move |received| {
        let seen = received.header(of).unwrap_or("nobody");
        with(fields)
            .body(format!("{} {seen}", received.target))
            .into()
    })
}

async fn hosts_paths_and_queries_are_told_apart(by: Version) {
    // Goal: what is stored for one URL is served for no other. Method: URLs that differ in host, port, path, spelling or query, asked
    // twice; the host's case makes no other.
    let origin = mirror(&[FRESH], "host");
    let gateway = before(by, &origin, &storing("")).await;
    let urls = [
        ("a.test", "/"),
        ("b.test", "/"),
        ("a.test:81", "/"),
        ("a.test", "/a"),
        ("a.test", "/%61"),
        ("a.test", "/a/"),
        ("a.test", "/a;v=1"),
        ("a.test", "/a?"),
        ("a.test", "/a?b=1"),
        ("a.test", "/a?B=1"),
    ];
    for round in 0..2 {
        for (host, target) in urls {
            let answer = gateway.send(get(target).header("Host", host)).await;
            assert_eq!(answer.text(), format!("{target} {host}"));
            assert_eq!(is_hit(&answer), round == 1, "{host}{target}");
        }
    }
    let written_otherwise = match by {
        Version::Http1 | Version::Http2 => "A.TEST:80",
        Version::Http3 => "A.TEST:443",
    };
    let again = get("/").header("Host", written_otherwise);
    assert!(is_hit(&gateway.send(again).await));
    assert_eq!(origin.count(), urls.len());
}

async fn answers_differ_by_what_vary_names(by: Version) {
    // Goal: each request gets its variant. Method: two languages in turn; fields that are not named make no difference.
    let origin = mirror(&[FRESH, ("Vary", "Accept-Language")], "accept-language");
    let gateway = before(by, &origin, &storing("")).await;
    let ask = |language: &'static str, agent: &'static str| {
        get("/")
            .header("Accept-Language", language)
            .header("User-Agent", agent)
    };
    for agent in ["one", "two", "three"] {
        for language in ["de", "en"] {
            let answer = gateway.send(ask(language, agent)).await;
            assert_eq!(answer.text(), format!("/ {language}"));
            assert_eq!(is_hit(&answer), agent != "one");
        }
        let answer = gateway.get("/").await;
        assert_eq!(answer.text(), "/ nobody");
    }
    assert_eq!(origin.count(), 3);
}

async fn no_client_gets_a_coding_that_it_did_not_ask_for(by: Version) {
    // Goal: encodings are never mixed, even where the origin forgets Vary. Method: an origin that compresses when asked, and says that it
    // looks or does not; whoever can decode may get the plain body, and never the reverse.
    for says in [true, false] {
        let origin = Origin::answering(move |received| {
            let vary = if says { "Accept-Encoding" } else { "X" };
            let answer = with(&[FRESH, ("Vary", vary)]);
            match received.header("accept-encoding") {
                Some("gzip") => answer
                    .header("Content-Encoding", "gzip")
                    .body("zipped")
                    .into(),
                _ => answer.body("plain").into(),
            }
        });
        let gateway = before(by, &origin, &storing("")).await;
        for round in 0..3 {
            let zipped = gateway
                .send(get("/").header("Accept-Encoding", "gzip"))
                .await;
            let coded = zipped.header("content-encoding") == Some("gzip");
            assert_eq!(coded, zipped.text() == "zipped");
            assert!(coded || !says);
            let plain = gateway.get("/").await;
            let coding = plain.header("content-encoding");
            assert_eq!((plain.text(), coding), ("plain", None));
            assert_eq!(is_hit(&plain), round > 0);
        }
    }
}

async fn no_client_gets_the_page_of_another_user(by: Version) {
    // Goal: answers to credentials and cookies are not shared, unless they are marked as public. Method: two users and
    // nobody ask in turn for pages that are fresh, for all, and told apart by the cookie.
    for name in ["authorization", "cookie"] {
        let origin = mirror(&[FRESH], name);
        let gateway = before(by, &origin, &storing("")).await;
        for _ in 0..2 {
            for user in ["a", "b"] {
                let answer = gateway.send(get("/").header(name, user)).await;
                assert_eq!(answer.text(), format!("/ {user}"), "{name}");
            }
            assert_eq!(gateway.get("/").await.text(), "/ nobody", "{name}");
        }
        assert_eq!(
            origin.count(),
            5,
            "nobody's page is stored for nobody: {name}"
        );

        let origin = mirror(&[("Cache-Control", "public, max-age=60")], name);
        let gateway = before(by, &origin, &storing("")).await;
        gateway.send(get("/").header(name, "a")).await;
        let shared = gateway.send(get("/").header(name, "b")).await;
        assert_eq!((shared.text(), is_hit(&shared)), ("/ a", true), "{name}");
    }
    let origin = mirror(&[FRESH, ("Vary", "Cookie")], "cookie");
    let gateway = before(by, &origin, &storing("")).await;
    for hit in [false, true] {
        for user in ["a", "b"] {
            let answer = gateway.send(get("/").header("Cookie", user)).await;
            assert_eq!(
                (answer.text(), is_hit(&answer)),
                (&*format!("/ {user}"), hit)
            );
        }
    }
}

async fn a_route_may_say_that_cookies_mean_nothing(by: Version) {
    // Goal: pictures are for everybody, whatever browsers send along. Method: two cookies, one fetch.
    let origin = mirror(&[FRESH], "cookie");
    let gateway = before(by, &origin, &storing("cookies = \"ignored\"")).await;
    gateway.send(get("/").header("Cookie", "a")).await;
    let second = gateway.send(get("/").header("Cookie", "b")).await;
    assert_eq!((second.text(), is_hit(&second)), ("/ a", true));
}

async fn fields_of_vary_on_and_routes_make_other_answers(by: Version) {
    // Goal: what the gateway itself decides by is told apart without a word of the origin. Method: a field in vary_on; then two routes of
    // one URL that a field chooses between.
    let origin = mirror(&[FRESH], "x-lang");
    let gateway = before(by, &origin, &storing("vary_on = [\"x-lang\"]")).await;
    for language in ["de", "en", "de"] {
        let answer = gateway.send(get("/").header("X-Lang", language)).await;
        assert_eq!(answer.text(), format!("/ {language}"));
    }
    assert_eq!(origin.count(), 2);

    let origin = mirror(&[FRESH], "x-plan");
    let rules = format!(
        "{}{}",
        storing(""),
        storing("").replace("path =", "headers = { x-plan = \"gold\" }\npath =")
    );
    let gateway = before(by, &origin, &rules).await;
    assert_eq!(gateway.get("/").await.text(), "/ nobody");
    let gold = gateway.send(get("/").header("X-Plan", "gold")).await;
    assert_eq!(gold.text(), "/ gold");
}

async fn what_hides_another_request_is_not_stored(by: Version) {
    // Goal: fields outside the key cannot poison the cache. Method: an origin that obeys such fields, asked
    // with one and then without.
    for name in ["x-original-url", "x-rewrite-url", "x-http-method-override"] {
        let origin = mirror(&[FRESH], name);
        let rules = format!(
            "[server]\npath_override_headers = \"pass\"\n{}",
            storing("")
        );
        let gateway = before(by, &origin, &rules).await;
        let answer = gateway.send(get("/").header(name, "evil")).await;
        assert_eq!(answer.text(), "/ evil");
        assert_eq!(gateway.get("/").await.text(), "/ nobody", "{name}");
    }
    let origin = mirror(&[FRESH], "x-forwarded-host");
    let gateway = before(by, &origin, &storing("")).await;
    let answer = gateway
        .send(get("/").header("X-Forwarded-Host", "evil"))
        .await;
    assert_eq!(answer.text(), "/ nobody", "an untrusted peer says nothing");
}

async fn a_trusted_hop_may_tell_sites_apart(by: Version) {
    // Goal: scheme and host that a trusted proxy reports are part of the key, since the origin sees them. Method: both schemes and two
    // hosts through such a proxy.
    let origin = Origin::answering(|received| {
        let proto = received.header("x-forwarded-proto").unwrap_or("none");
        let host = received.header("x-forwarded-host").unwrap_or("none");
        with(&[FRESH]).body(format!("{proto} {host}")).into()
    });
    let rules = format!(
        "[client]\ntrusted_proxies = [\"127.0.0.1\"]\ntrusted_headers = [\"x-forwarded-*\"]\n{}",
        storing("")
    );
    let gateway = before(by, &origin, &rules).await;
    for _ in 0..2 {
        for (proto, host) in [("http", "a"), ("https", "a"), ("https", "b")] {
            let request = get("/")
                .forwarded_for("192.0.2.1")
                .header("X-Forwarded-Proto", proto)
                .header("X-Forwarded-Host", host);
            assert_eq!(
                gateway.send(request).await.text(),
                format!("{proto} {host}")
            );
        }
    }
    assert_eq!(origin.count(), 3);
}

by_each_version! {
    hosts_paths_and_queries_are_told_apart,
    answers_differ_by_what_vary_names,
    no_client_gets_a_coding_that_it_did_not_ask_for,
    no_client_gets_the_page_of_another_user,
    a_route_may_say_that_cookies_mean_nothing,
    fields_of_vary_on_and_routes_make_other_answers,
    what_hides_another_request_is_not_stored,
    a_trusted_hop_may_tell_sites_apart,
}
