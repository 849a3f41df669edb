//! Locations of nginx that pass requests on: the limits, the access and the path are those of the way that nginx goes.

use super::peer::{Peer, gateway};
use super::*;

#[tokio::test]
async fn limits_behind_a_jump_hold() {
    // Goal: a request counts where it counts in nginx. Method: each way to another location, with a zone for each; the second request of a
    // pair is refused where the zone counts both.
    let text = nginx(
        "limit_req_zone $binary_remote_addr zone=named:1m rate=1r/m; limit_req_zone $binary_remote_addr zone=own:1m rate=1r/m;
         limit_req_zone $binary_remote_addr zone=index:1m rate=1r/m; limit_req_zone $binary_remote_addr zone=error:1m rate=1r/m;
         limit_req_zone $binary_remote_addr zone=inner:1m rate=1r/m; limit_req_zone $binary_remote_addr zone=skipped:1m rate=1r/m;
         limit_req_zone $binary_remote_addr zone=tested:1m rate=1r/m; limit_req_zone $binary_remote_addr zone=part:1m rate=1r/m;",
        "root /nonexistent;
         rewrite ^/v1/(.*)$ /inner/$1 last;
         location / { try_files $uri @app; }
         location /own/ { limit_req zone=own; try_files $uri @app; }
         location @app { limit_req zone=named burst=1 nodelay; proxy_pass http://127.0.0.1:8081; }
         location /php/ { try_files $uri /entry; rewrite ^/php/part/(.*)$ /part/$1 last; }
         location = /entry { limit_req zone=index; proxy_pass http://127.0.0.1:8081; }
         location /error/ { error_page 404 = @error; }
         location /teapot/ { error_page 418 = @error; return 418; }
         location @error { limit_req zone=error burst=1 nodelay; proxy_pass http://127.0.0.1:8081; }
         location /skip/ { limit_req zone=skipped; rewrite ^/skip/(.*)$ /inner/$1 last; }
         location /inner/ { internal; limit_req zone=inner burst=1 nodelay; proxy_pass http://127.0.0.1:8081; }
         location /part/ { limit_req zone=part; deny 127.0.0.2; proxy_pass http://127.0.0.1:8081; }
         location /tested/ { if (!-f $request_filename) { rewrite ^ /tests last; } }
         location = /tests { limit_req zone=tested; proxy_pass http://127.0.0.1:8081; }",
    );
    let steps: [Step; 22] = [
        (A, || get("/a")),
        (A, || get("/own/a")),
        (A, || get("/own/b")),
        (A, || get("/b")),
        (A, || get("/c")),
        (B, || get("/a")),
        (A, || get("/php/a")),
        (A, || get("/php/b")),
        (A, || get("/entry")),
        (B, || get("/php/part/a")),
        (A, || get("/php/part/a")),
        (A, || get("/part/a")),
        (A, || get("/error/a")),
        (A, || get("/teapot/a")),
        (A, || get("/error/b")),
        (A, || get("/skip/a")),
        (A, || get("/v1/a")),
        (A, || get("/skip/b")),
        (A, || get("/inner/a")),
        (A, || get("/tested/a")),
        (A, || get("/tests")),
        (B, || get("/tested/b")),
    ];
    let expected = [
        200, 200, 503, 200, 503, 200, 200, 503, 503, 403, 200, 503, 200, 200, 503, 200, 200, 503,
        404, 200, 503, 200,
    ];
    same_as_nginx(&text, &steps, &expected).await;
}

#[tokio::test]
async fn paths_of_a_rewrite_have_the_limits_of_their_own_locations() {
    // Goal: a rewritten path meets what holds at the location that it reaches. Method: rewrites of the server block and of a location into
    // prefixes, an exact path and an expression; the limit counts the paths before and behind the rewrite together.
    let text = nginx(
        "limit_req_zone $binary_remote_addr zone=login:1m rate=1r/m;",
        "rewrite ^/v1/(.*)$ /$1 last;
         rewrite ^/(en|de)/(.*)$ /$2;
         location /admin { deny all; }
         location = /login { limit_req zone=login; proxy_pass http://127.0.0.1:8081; }
         location ~ \\.(env|git) { deny all; }
         location /v2/ { rewrite ^/v2/(.*)$ /$1 last; }
         location /v2/own/ { proxy_pass http://127.0.0.1:8081; }
         location / { proxy_pass http://127.0.0.1:8081; }",
    );
    let steps: [Step; 13] = [
        (A, || get("/v1/admin")),
        (A, || get("/en/administration/x")),
        (A, || get("/v2/admin/x")),
        (A, || get("/v2/own/admin")),
        (A, || get("/v1/a")),
        (A, || get("/v1/.env")),
        (A, || get("/de/x.git")),
        (A, || get("/v2/x.git")),
        (A, || get("/v1/login")),
        (A, || get("/login")),
        (A, || get("/v2/login")),
        (B, || get("/de/login")),
        (B, || get("/v1/login")),
    ];
    let expected = [
        403, 403, 403, 200, 200, 403, 403, 403, 200, 503, 503, 200, 503,
    ];
    same_as_nginx(&text, &steps, &expected).await;
}

#[tokio::test]
async fn origins_behind_a_jump_get_the_same_path() {
    // Goal: the path behind `try_files`, `rewrite` and targets with variables. Method: one of each, and the path that the origin received.
    let text = nginx(
        "",
        "root /nonexistent;
         set $up http://127.0.0.1:8081;
         rewrite ^/v([0-9]+)/(.*)$ /inner/$1/$2 last;
         location / { try_files $uri @app; }
         location @app { proxy_pass http://127.0.0.1:8081; }
         location /php/ { try_files $uri /index.php; }
         location = /index.php { proxy_pass http://127.0.0.1:8081; }
         location /skip/ { rewrite ^/skip/(.*)$ /inner/$1 last; }
         location /inner/ { internal; proxy_pass http://127.0.0.1:8081/x/; }
         location /strip/ { rewrite ^/strip/(.*)$ /$1 break; proxy_pass http://127.0.0.1:8081; }
         location /as-asked/ { proxy_pass http://127.0.0.1:8081$request_uri; }
         location /uri/ { proxy_pass http://127.0.0.1:8081$uri$is_args$args; }
         location /below/ { proxy_pass $up/base$request_uri; }
         location /set/ { proxy_pass $up; }
         location ~ ^/group/(.*)$ { proxy_pass $up/$1$is_args$args; }",
    );
    let origin = Origin::echo();
    let nginx = Peer::nginx(&text, &origin).await;
    let gateway = gateway(&text, &origin).await;
    for path in [
        "/a",
        "/php/a",
        "/v7/a/b",
        "/skip/a/b",
        "/strip/a/b",
        "/as-asked/a?q=1",
        "/uri/a?q=1",
        "/below/a?q=1",
        "/set/a?q=1",
        "/group/a/b?q=1",
    ] {
        let mut client = Client::connect(nginx.address()).await;
        let of_nginx = client.get(path).await.echo();
        let of_gateway = gateway.get(path).await.echo();
        assert_eq!(of_gateway.target, of_nginx.target, "{path}");
    }
}
