//! Redirects of nginx by `rewrite`.

use super::*;
use peer::Peer;

#[tokio::test]
async fn redirects_by_rewrite_lead_to_the_same_place() {
    // Goal: `rewrite` with `redirect`, `permanent` or a URL answers as in nginx, and before limits. Method: in locations of all kinds, for
    // all paths and for a part of them, and in the server block; each twice, since one of them is limited.
    let text = nginx(
        "limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m;",
        "rewrite ^/u([0-9]+)/(.*)$ /users/$1/$2 permanent;
         location / { rewrite ^/old/(.*)$ /new/$1 permanent; proxy_pass http://127.0.0.1:8081; }
         location /blog/ { limit_req zone=z; rewrite ^ https://blog.test$request_uri? permanent; proxy_pass http://127.0.0.1:8081; }
         location = /one { rewrite ^ $scheme://$host/two redirect; }
         location /path/ { rewrite ^(.*)$ http://other.test$1; }
         location ~ ^/r/([a-z]+)/(.*)$ { rewrite ^/r/([a-z]+)/(.*)$ /$2/$1 permanent; }",
    );
    let origin = Origin::echo();
    let nginx = Peer::nginx(&text, &origin).await;
    let gateway = gateway(&text, &origin).await;
    for (target, status) in [
        ("/u12/a/b?x=1", 301),
        ("/u/a", 200),
        ("/old/a/b?x=1", 301),
        ("/other", 200),
        ("/blog/a?x=1", 301),
        ("/blog/a?x=1", 301),
        ("/one", 302),
        ("/path/a%20b?x=1", 302),
        ("/r/ab/c?x=1", 301),
    ] {
        let of_nginx = Client::connect(nginx.address()).await.get(target).await;
        let of_gateway = gateway.get(target).await;
        assert_eq!(of_nginx.status, status, "nginx: {target}");
        assert_eq!(of_gateway.status, status, "the gateway: {target}");
        let place = |response: &Response| {
            let location = response.header("location").unwrap_or_default();
            // A path leads to the same host.
            let own = location.strip_prefix("http://gateway.test").map(|rest| {
                let path = rest.find('/').unwrap_or_default();
                rest[path..].to_owned()
            });
            own.unwrap_or_else(|| location.to_owned())
        };
        assert_eq!(place(&of_gateway), place(&of_nginx), "{target}");
    }
}
