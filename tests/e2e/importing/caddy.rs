//! Caddyfiles: the gateway with the import answers as the real Caddy, and limits as the ring of caddy-ratelimit, which the package of Caddy
//! lacks, counts by its source.

use super::peer::{Peer, gateway, imported_with_code};
use super::*;
use crate::beside::has_caddy;

/// A request with what tells one answer from another.
async fn answer(address: SocketAddr, from: &str, request: Request) -> String {
    let mut client = Client::connect_from(from, address).await;
    let response = client.send(request).await;
    let location = response.header("location").unwrap_or_default().to_owned();
    let marked = response.header("x-marked").unwrap_or_default().to_owned();
    // A response to HEAD has no body.
    let is_echo = response.header("content-type") == Some("application/json")
        && response.status == 200
        && !response.body.is_empty();
    let body = match is_echo {
        true => {
            let echo = response.echo();
            let way = echo.header("x-way").unwrap_or_default().to_owned();
            format!("{} {} {way}", echo.method, echo.target)
        }
        false if response.status < 300 => response.text().to_owned(),
        false => String::new(),
    };
    format!("{} {location} {marked} {body}", response.status)
}

/// Asks Caddy and the gateway the same, and compares.
async fn same_as_caddy(text: &str, requests: &[(&'static str, Request)]) {
    if !has_caddy() {
        return;
    }
    let origin = Origin::echo();
    let caddy = Peer::caddy(text, &origin).await;
    let gateway = gateway(text, &origin).await;
    for (from, request) in requests {
        let of_caddy = answer(caddy.address(), from, request.clone()).await;
        let of_gateway = answer(gateway.address(), from, request.clone()).await;
        assert_eq!(of_gateway, of_caddy, "{request:?}");
    }
}

/// A site for every host with these lines.
fn site(lines: &str) -> String {
    format!(":8080 {{\nbind 127.0.0.1\n{lines}\n}}\n")
}

/// An upstream that tells which directive led to it.
fn proxy(matcher: &str, way: &str) -> String {
    format!("reverse_proxy {matcher} 127.0.0.1:8081 {{\nheader_up X-Way {way}\n}}\n")
}

#[tokio::test]
async fn directives_are_taken_in_the_order_of_caddy() {
    // Goal: the table of directives and the length of paths decide, not the file; blocks exclude each other. Method: directives against
    // their order, paths of all kinds, prefixes that are stripped, rewrites, redirects, in the real Caddy and in the gateway.
    let text = site(&format!(
        "{}{}
         respond /answered \"text\" 201
         redir /moved /elsewhere 301
         redir /docs/* https://docs.test{{uri}}
         redir /docs/here https://{{host}}/there temporary
         handle /api/* {{
             {}
         }}
         handle_path /api/v2/* {{
             uri strip_prefix /inner
             {}{}
         }}
         handle /api/v2/exact {{
             rewrite * /rewritten{{uri}}
             {}
         }}
         handle /unanswered/* {{
             header X-Marked yes
         }}
         route /ordered/* {{
             respond /ordered/first \"first\"
             redir /ordered/first /never
             error 410
         }}
         @php path *.php
         respond @php 404
         @glob path /glob/*/end
         respond @glob \"glob\"",
        proxy("", "rest"),
        proxy("/api/*", "never"),
        proxy("", "api"),
        proxy("/users/*", "users"),
        proxy("", "v2"),
        proxy("", "exact"),
    ));
    let paths = [
        "/",
        "/answered",
        "/answered/x",
        "/moved",
        "/moved?a=1",
        "/docs/a?b=1",
        "/docs/here",
        "/api/a",
        "/api",
        "/apiary",
        "/api/v2/a",
        "/api/v2/users/a",
        "/api/v2/inner/users/a",
        "/api/v2/inner",
        "/api/v2/exact",
        "/api/v2/exact?a=1",
        "/unanswered/a",
        "/ordered/first",
        "/ordered/a",
        "/a.php",
        "/glob/a/end",
        "/glob/a/b/end",
        "/API/x",
        "/api/a.php",
        "/docs/a.php",
        "/api/v2/a.php",
        "/answered.php",
    ];
    // A redirect keeps the query in the gateway.
    let same = paths.into_iter().filter(|path| *path != "/moved?a=1");
    let requests: Vec<_> = same.map(|path| (A, get(path))).collect();
    same_as_caddy(&text, &requests).await;
}

#[tokio::test]
async fn matchers_take_what_they_take_in_caddy() {
    // Goal: methods, hosts, addresses, fields, parameters and their opposites. Method: each alone and together, inside of blocks and as
    // alternatives, in the real Caddy and in the gateway.
    let text = site(&format!(
        "@write method POST PUT
         @inner {{
             host inner.test
             path /a/* /b
         }}
         @outside not remote_ip 127.0.0.1 127.0.0.9
         @plan header X-Plan free
         @debug query debug=1
         @neither not {{
             method POST GET
             path /c/*
         }}
         @users path_regexp users ^/users/([0-9]+)$
         redir @users /u/{{http.regexp.users.1}} 308
         handle @inner {{
             handle @write {{
                 {}
             }}
             respond \"inner\"
         }}
         handle /c/* {{
             respond @neither \"neither\" 202
             {}
         }}
         handle /secret/* {{
             respond @outside 403
             {}
         }}
         {}{}{}{}",
        proxy("", "write"),
        proxy("@plan", "c-plan"),
        proxy("", "secret"),
        proxy("@plan", "plan"),
        proxy("@debug", "debug"),
        proxy("@write", "written"),
        proxy("", "rest"),
    ));
    let mut requests = Vec::new();
    for host in ["inner.test", "other.test"] {
        for path in [
            "/a/x",
            "/b",
            "/b/x",
            "/c/x",
            "/users/12",
            "/users/x",
            "/q?debug=1&mode=x",
            "/q?debug=1",
            "/q?debug=2&mode=1",
        ] {
            for method in ["GET", "POST", "HEAD", "PUT"] {
                requests.push((A, get(path).by(method).header("host", host)));
            }
            requests.push((B, get(path).header("host", host).header("x-plan", "free")));
            requests.push((B, get(path).header("host", host).header("x-plan", "paid")));
        }
    }
    requests.push((A, get("/secret/x")));
    requests.push((B, get("/secret/x")));
    same_as_caddy(&text, &requests).await;
}

#[tokio::test]
async fn expressions_match_decoded_paths_as_in_caddy() {
    // Goal: a space, a letter of several bytes and the digits of an escape are what Caddy takes them for. Method: expressions and patterns
    // on a host each, and paths with escapes, in the real Caddy and in the gateway.
    let matchers = [
        r"path_regexp ^/x\s[^/]y$",
        "path_regexp ^/users/[^/]+/.file$",
        "path_regexp 20",
        "path \"*.tar gz\"",
        "path *é*",
    ];
    let sites = matchers.iter().enumerate().map(|(at, matcher)| {
        let lines = format!("bind 127.0.0.1\n@m {matcher}\nrespond @m \"found\"\nrespond \"none\"");
        format!("http://h{at}.test:8080 {{\n{lines}\n}}\n")
    });
    let text: String = sites.collect();
    let paths = [
        "/x%20ay",
        "/x%20%61y",
        "/x%20%20y",
        "/x%20abcy",
        "/users/a/%7Cfile",
        "/users/a/ffile",
        "/users/a/file",
        "/a%20b",
        "/a20b",
        "/a.tar%20gz",
        "/A.TAR%20GZ",
        "/a.tar20gz",
        "/caf%C3%A9",
        "/caf%c3%a9s",
        "/cafe",
    ];
    let mut requests = Vec::new();
    for at in 0..matchers.len() {
        let host = format!("h{at}.test");
        requests.extend(paths.map(|path| (A, get(path).header("host", &host))));
    }
    same_as_caddy(&text, &requests).await;
}

#[tokio::test]
async fn hosts_and_snippets_are_those_of_caddy() {
    // Goal: the most specific site takes a request, snippets have their arguments. Method: an exact host, a wildcard with a host in it,
    // several addresses, a site for all others.
    let text = format!(
        "(marked) {{
             header X-Marked {{args.0}}
         }}
         http://*.wild.test:8080 {{
             bind 127.0.0.1
             import marked wild
             @one host one.wild.test
             handle @one {{
                 respond \"one\"
             }}
             {}
         }}
         http://a.test:8080, http://b.test:8080 {{
             bind 127.0.0.1
             import marked ab
             {}
         }}
         {}",
        proxy("", "wild"),
        proxy("", "ab"),
        site("import marked all\nrespond \"all\""),
    );
    let hosts = [
        "a.test",
        "b.test",
        "c.test",
        "one.wild.test",
        "two.wild.test",
        "wild.test",
    ];
    let requests: Vec<_> = hosts
        .into_iter()
        .map(|host| (A, get("/x").header("host", host)))
        .collect();
    same_as_caddy(&text, &requests).await;
}

#[tokio::test]
async fn zones_count_as_the_ring_of_their_module() {
    // Goal: N requests of a key pass within the window, those that another directive answers before are not counted, and a zone is one
    // counter wherever it is imported. Method: zones with conditions and keys; the counts are those of the module's source.
    let text = format!(
        "(zone) {{
             rate_limit {{
                 zone each {{
                     key {{remote_host}}
                     events 3
                     window 1h
                 }}
             }}
         }}
         http://a.test:8080 {{
             bind 127.0.0.1
             import zone
             redir /moved /x
             rate_limit {{
                 zone posts {{
                     match {{
                         method POST
                     }}
                     key static
                     events 1
                     window 1h
                 }}
             }}
             {}
         }}
         {}",
        proxy("", "a"),
        site(&format!(
            "route {{\nrespond /ping pong\nimport zone\n{}}}",
            proxy("", "all")
        )),
    );
    let origin = Origin::echo();
    let toml = imported_with_code(&text, &origin, 0).await;
    assert!(toml.contains("algorithm = \"exact\""), "{toml}");
    let gateway = super::peer::started(&toml).await;
    let steps: [Step; 12] = [
        (A, || get("/moved").header("host", "a.test")),
        (A, || get("/1").header("host", "a.test")),
        (A, || get("/ping")),
        (A, || get("/2")),
        (A, || post("/3").header("host", "a.test")),
        (A, || get("/4").header("host", "a.test")),
        (A, || get("/4")),
        (A, || get("/ping")),
        (A, || get("/moved").header("host", "a.test")),
        (B, || post("/1").header("host", "a.test")),
        (B, || get("/1").header("host", "a.test")),
        (B, || get("/2")),
    ];
    let found = statuses(gateway.address(), &steps).await;
    let expected = [302, 200, 200, 200, 200, 429, 429, 200, 302, 429, 200, 200];
    assert_eq!(found, expected);
}
