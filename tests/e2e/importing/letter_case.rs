//! Paths that differ by the case of their letters: no route takes the requests of another location, matcher or rule.

use super::*;
use crate::beside::has_caddy;
use peer::Peer;

/// The statuses of GET requests for some paths.
async fn answers(address: SocketAddr, paths: &[&str]) -> Vec<u16> {
    let mut found = Vec::new();
    for path in paths {
        let response = Client::connect(address).await.send(get(path)).await;
        found.push(response.status);
    }
    found
}

/// Sends both the same, and compares with what is expected of both.
async fn same_answers(peer: Peer, text: &str, origin: &Origin, expected: &[(&str, u16)]) {
    let gateway = gateway(text, origin).await;
    let paths: Vec<&str> = expected.iter().map(|(path, _)| *path).collect();
    let expected: Vec<u16> = expected.iter().map(|(_, status)| *status).collect();
    let of_peer = answers(peer.address(), &paths).await;
    let of_gateway = answers(gateway.address(), &paths).await;
    assert_eq!(of_peer, expected, "the peer: {paths:?}");
    assert_eq!(of_gateway, expected, "the gateway: {paths:?}");
}

#[tokio::test]
async fn locations_of_nginx_that_differ_by_case_stay_apart() {
    // Goal: no route takes the requests of a location in other letters, nor those of a wider location with guards that it lacks, and `~*`
    // ignores case. Method: a prefix, a final prefix, exact paths, expressions, each with a closed location that differs by case; an open
    // location within a closed one.
    let text = nginx(
        "",
        "location / { proxy_pass http://127.0.0.1:8081; }
         location ^~ /SOGo { proxy_pass http://127.0.0.1:8081; }
         location /sogo-auth/ { deny all; }
         location = /Login { proxy_pass http://127.0.0.1:8081; }
         location = /login { return 403; }
         location /Files/ { proxy_pass http://127.0.0.1:8081; }
         location /files/closed/ { deny all; }
         location ~ ^/Reports/ { proxy_pass http://127.0.0.1:8081; }
         location ~* ^/REPORTS/ { return 403; }
         location ~* \\.BAK$ { return 403; }
         location /closed/ { deny all; }
         location /closed/Open/ { proxy_pass http://127.0.0.1:8081; }
         location ~ ^/caps/[A-Z]+$ { return 410; }",
    );
    let origin = Origin::echo();
    let peer = Peer::nginx(&text, &origin).await;
    let expected = [
        ("/SOGo/x", 200),
        ("/sogo-auth/x", 403),
        ("/Login", 200),
        ("/login", 403),
        ("/Files/closed/x", 200),
        ("/files/closed/x", 403),
        ("/Reports/x", 200),
        ("/reports/x", 403),
        ("/rePorts/x", 403),
        ("/x.bak", 403),
        ("/x.Bak", 403),
        ("/closed/Open/x", 200),
        ("/closed/open/x", 403),
        ("/caps/AB", 410),
        ("/caps/ab", 200),
    ];
    same_answers(peer, &text, &origin, &expected).await;
}

#[tokio::test]
async fn paths_of_haproxy_that_differ_by_case_stay_apart() {
    // Goal: conditions regard case unless `-i` says otherwise, and one with `-i` holds below paths in other letters. Method: rules that
    // refuse and rules that pass, with and without `-i`.
    let text = "defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n\
         frontend www\n bind 127.0.0.1:8080\n \
         http-request deny deny_status 410 if { path_beg -i /ADMIN/ }\n \
         http-request deny if { path_beg /closed/ } !{ path_beg /closed/Open/ }\n \
         http-request deny if { path_beg /files/closed/ }\n \
         use_backend two if { path_beg /Files/ }\n \
         use_backend two if { path_beg /admin/api/ }\n \
         default_backend app\n\
         backend app\n server a 127.0.0.1:8081\nbackend two\n server a 127.0.0.1:8081\n";
    let origin = Origin::echo();
    let peer = Peer::haproxy(text, &origin).await;
    let expected = [
        ("/admin/api/x", 410),
        ("/Admin/x", 410),
        ("/closed/x", 403),
        ("/closed/Open/x", 200),
        ("/closed/open/x", 403),
        ("/Files/closed/x", 200),
        ("/files/closed/x", 403),
    ];
    same_answers(peer, text, &origin, &expected).await;
}

#[tokio::test]
async fn matchers_of_caddy_ignore_case() {
    // Goal: a refusal holds below its path in any letters, and `path_regexp` regards case. Method: matchers that differ by case, an
    // expression, a star within a path.
    if !has_caddy() {
        return;
    }
    let text = ":8080 {
bind 127.0.0.1
@closed path /Admin/*
@star path /a*/Closed
@capitals path_regexp ^/Caps
respond @closed 403
respond @star 403
redir @capitals /elsewhere
reverse_proxy /admin/open/* 127.0.0.1:8081
reverse_proxy 127.0.0.1:8081
}
";
    let origin = Origin::echo();
    let peer = Peer::caddy(text, &origin).await;
    let expected = [
        ("/admin/open/x", 403),
        ("/ADMIN/x", 403),
        ("/ab/closed", 403),
        ("/Caps", 302),
        ("/caps", 200),
    ];
    same_answers(peer, text, &origin, &expected).await;
}
