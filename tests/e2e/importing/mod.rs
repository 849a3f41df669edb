//! `sluicegate import`: what is imported admits and refuses as the proxy that the configuration is for.
//!
//! Rates are so slow that nothing drains while a test runs, unless requests wait for it.

mod addresses;
mod caddy;
mod client_fields;
mod command;
mod jumps;
mod letter_case;
mod nginx_paths;
mod peer;
mod redirects;
mod rule_order;
mod traefik;

use std::net::SocketAddr;

use crate::harness::*;
use peer::{Peer, gateway};

/// A client, by its loopback address, with a request.
type Step = (&'static str, fn() -> Request);

/// Sends requests one after the other, and returns the statuses.
async fn statuses(address: SocketAddr, steps: &[Step]) -> Vec<u16> {
    let mut found = Vec::new();
    for (from, request) in steps {
        let mut client = Client::connect_from(from, address).await;
        found.push(client.send(request()).await.status);
    }
    found
}

/// Sends requests at the same time, and returns the statuses in their order.
async fn at_once(address: SocketAddr, requests: usize, path: &str) -> Vec<u16> {
    let tasks = (0..requests).map(|_| {
        let request = get(path);
        tokio::spawn(async move { Client::connect(address).await.send(request).await.status })
    });
    let mut found = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        found.push(task.await.unwrap());
    }
    found.sort_unstable();
    found
}

/// The status that the gateway has for one that nginx answers by default.
fn as_imported(statuses: &[u16]) -> Vec<u16> {
    let of = |status: &u16| if *status == 503 { 429 } else { *status };
    statuses.iter().map(of).collect()
}

/// Asks nginx and the gateway the same, and compares.
async fn same_as_nginx(text: &str, steps: &[Step], expected: &[u16]) {
    let origin = Origin::echo();
    let nginx = Peer::nginx(text, &origin).await;
    let gateway = gateway(text, &origin).await;
    let of_nginx = statuses(nginx.address(), steps).await;
    let of_gateway = statuses(gateway.address(), steps).await;
    assert_eq!(of_nginx, expected, "nginx");
    assert_eq!(of_gateway, as_imported(&of_nginx), "the gateway");
}

const A: &str = "127.0.0.1";
const B: &str = "127.0.0.2";

/// An nginx configuration with these lines in `http` and in `server`.
fn nginx(http: &str, server: &str) -> String {
    format!("events {{ }}\nhttp {{\n{http}\nserver {{\nlisten 127.0.0.1:8080;\n{server}\n}}\n}}\n")
}

#[tokio::test]
async fn a_burst_without_delay_is_a_tolerance() {
    // Goal: burst + 1 requests pass, of each client, and locations share a zone whatever status they have. Method: a zone in three
    // locations, of which one is a prefix of a name, clients at two addresses.
    let text = nginx(
        "limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;",
        "location / { limit_req zone=one burst=2 nodelay; proxy_pass http://127.0.0.1:8081; }
         location /status { limit_req zone=one burst=2 nodelay; limit_req_status 501; proxy_pass http://127.0.0.1:8081; }
         location /free/ { proxy_pass http://127.0.0.1:8081; }",
    );
    let steps: [Step; 7] = [
        (A, || get("/a")),
        (A, || get("/status.html")),
        (A, || get("/b")),
        (A, || get("/c")),
        (A, || get("/status")),
        (A, || get("/free/x")),
        (B, || get("/a")),
    ];
    same_as_nginx(&text, &steps, &[200, 200, 200, 503, 501, 200, 200]).await;
}

#[tokio::test]
async fn a_rate_without_burst_passes_one() {
    // Goal: without burst the second request of a period is refused. Method: two clients.
    let text = nginx(
        "limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;",
        "location / { limit_req zone=one; limit_req_status 429; proxy_pass http://127.0.0.1:8081; }",
    );
    let steps: [Step; 3] = [(A, || get("/")), (A, || get("/")), (B, || get("/"))];
    same_as_nginx(&text, &steps, &[200, 429, 200]).await;
}

#[tokio::test]
async fn several_limits_are_charged_together_or_not_at_all() {
    // Goal: a refusal by one limit charges no other, and a request without the key is not counted. Method: two keys of the query.
    let text = nginx(
        "limit_req_zone $arg_a zone=slow:1m rate=1r/m; limit_req_zone $arg_b zone=wide:1m rate=1r/m;",
        "location / { limit_req zone=wide burst=1 nodelay; limit_req zone=slow nodelay; proxy_pass http://127.0.0.1:8081; }",
    );
    let steps: [Step; 7] = [
        (A, || get("/?a=1&b=1")),
        (A, || get("/?a=1&b=1")),
        (A, || get("/?a=1&b=1")),
        (A, || get("/?b=1")),
        (A, || get("/?b=1")),
        (A, || get("/")),
        (A, || get("/")),
    ];
    same_as_nginx(&text, &steps, &[200, 503, 503, 200, 503, 200, 200]).await;
}

#[tokio::test]
async fn keys_of_several_variables_have_a_counter_for_each_pair() {
    // Goal: a client has a counter for each value, and one without a value. Method: an address with a parameter.
    let text = nginx(
        "limit_req_zone $binary_remote_addr$arg_r zone=one:1m rate=1r/m;",
        "location / { limit_req zone=one; proxy_pass http://127.0.0.1:8081; }",
    );
    let steps: [Step; 6] = [
        (A, || get("/")),
        (A, || get("/")),
        (A, || get("/?r=1")),
        (A, || get("/?r=1")),
        (A, || get("/?r=2")),
        (B, || get("/?r=1")),
    ];
    same_as_nginx(&text, &steps, &[200, 503, 200, 503, 200, 200]).await;
}

#[tokio::test]
async fn exempt_networks_are_not_limited() {
    // Goal: the usual whitelist of geo and map. Method: an exempt network with an exception, in a location with another limit.
    let text = nginx(
        "geo $limited { default 1; 127.0.0.0/28 0; 127.0.0.2 1; }
         map $limited $key { 0 \"\"; 1 $binary_remote_addr; }
         limit_req_zone $key zone=one:1m rate=1r/m;
         limit_req_zone $binary_remote_addr zone=all:1m rate=1r/m;",
        "location / { limit_req zone=one; proxy_pass http://127.0.0.1:8081; }
         location /both/ { limit_req zone=one; limit_req zone=all burst=1 nodelay; proxy_pass http://127.0.0.1:8081; }",
    );
    let steps: [Step; 10] = [
        (A, || get("/")),
        (A, || get("/")),
        (B, || get("/")),
        (B, || get("/")),
        ("127.0.0.77", || get("/")),
        ("127.0.0.77", || get("/")),
        ("127.0.0.3", || get("/both/")),
        ("127.0.0.3", || get("/both/")),
        ("127.0.0.3", || get("/both/")),
        ("127.0.0.78", || get("/both/")),
    ];
    let expected = [200, 200, 200, 503, 200, 503, 200, 200, 503, 200];
    same_as_nginx(&text, &steps, &expected).await;
}

#[tokio::test]
async fn methods_and_fields_choose_the_key() {
    // Goal: a map of methods limits these alone; a map of a field takes the address without it. Method: both idioms.
    let text = nginx(
        "map $request_method $writer { default \"\"; POST $binary_remote_addr; PUT $binary_remote_addr; }
         map $http_x_api_key $api { \"\" $binary_remote_addr; default $http_x_api_key; }
         limit_req_zone $writer zone=writes:1m rate=1r/m;
         limit_req_zone $api zone=api:1m rate=1r/m;",
        "location /w/ { limit_req zone=writes; proxy_pass http://127.0.0.1:8081; }
         location /api/ { limit_req zone=api; proxy_pass http://127.0.0.1:8081; }",
    );
    let steps: [Step; 11] = [
        (A, || get("/w/")),
        (A, || get("/w/")),
        (A, || post("/w/")),
        (A, || request("PUT", "/w/")),
        (A, || delete("/w/")),
        (A, || get("/api/").header("x-api-key", "one")),
        (B, || get("/api/").header("x-api-key", "one")),
        (A, || get("/api/").header("x-api-key", "two")),
        (A, || get("/api/")),
        (A, || get("/api/")),
        (B, || get("/api/")),
    ];
    let expected = [200, 200, 200, 503, 200, 200, 503, 200, 200, 503, 200];
    same_as_nginx(&text, &steps, &expected).await;
}

#[tokio::test]
async fn a_dry_run_refuses_nothing() {
    // Goal: a limit in dry run reports only, and one without it refuses. Method: one level with it, a location without.
    let text = nginx(
        "limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m; limit_req_zone $binary_remote_addr zone=two:1m rate=1r/m;",
        "limit_req_dry_run on;
         location / { limit_req zone=one; proxy_pass http://127.0.0.1:8081; }
         location /off/ { limit_req zone=two; limit_req_dry_run off; proxy_pass http://127.0.0.1:8081; }",
    );
    let steps: [Step; 4] = [
        (A, || get("/")),
        (A, || get("/")),
        (A, || get("/off/")),
        (A, || get("/off/")),
    ];
    same_as_nginx(&text, &steps, &[200, 200, 200, 503]).await;
}

#[tokio::test]
async fn who_may_come_and_where_to_is_the_same() {
    // Goal: access, answers, redirects and nested locations. Method: one of each, from two addresses.
    let text = nginx(
        "client_max_body_size 10k;",
        "location / { deny 127.0.0.2; proxy_pass http://127.0.0.1:8081; }
         location /in/ { allow 127.0.0.2; deny all; proxy_pass http://127.0.0.1:8081; }
         location = /robots.txt { return 200 \"none\"; }
         location /old/ { return 301 https://example.com$request_uri; }
         location /gone { return 410; }
         location ~ \\.php$ { return 403; }
         location ^~ /static/ { proxy_pass http://127.0.0.1:8081; }",
    );
    let steps: [Step; 12] = [
        (A, || get("/")),
        (B, || get("/")),
        (A, || get("/in/x")),
        (B, || get("/in/x")),
        (A, || get("/robots.txt")),
        (A, || get("/old/x")),
        (A, || get("/gone")),
        (A, || get("/goner")),
        (A, || get("/x/y.php")),
        (A, || get("/static/y.php")),
        (A, || post("/").body("x".repeat(10_000))),
        (A, || post("/").body("x".repeat(11_000))),
    ];
    let expected = [200, 403, 403, 200, 200, 301, 410, 410, 403, 200, 200, 413];
    same_as_nginx(&text, &steps, &expected).await;
}

#[tokio::test]
async fn the_origin_gets_the_same_path_and_redirects_lead_to_the_same_place() {
    // Goal: what nginx makes of a path. Method: targets with a path behind prefixes of both kinds and an exact location.
    let text = nginx(
        "",
        "location /a/ { proxy_pass http://127.0.0.1:8081/; }
         location /b/ { proxy_pass http://127.0.0.1:8081/x/y/; }
         location /c { proxy_pass http://127.0.0.1:8081/d; }
         location = /e { proxy_pass http://127.0.0.1:8081/f; }
         location /g/ { proxy_pass http://127.0.0.1:8081; }
         location /old/ { return 301 https://example.com$request_uri; }",
    );
    let origin = Origin::echo();
    let nginx = Peer::nginx(&text, &origin).await;
    let gateway = gateway(&text, &origin).await;
    for path in ["/a/1?q=2", "/b/1/2", "/c/1", "/c", "/e", "/g/h"] {
        let of_nginx = Client::connect(nginx.address())
            .await
            .get(path)
            .await
            .echo();
        let of_gateway = gateway.get(path).await.echo();
        assert_eq!(of_gateway.target, of_nginx.target, "{path}");
        assert_eq!(of_gateway.header("host"), of_nginx.header("host"), "{path}");
    }
    let of_nginx = Client::connect(nginx.address())
        .await
        .get("/old/x?y=1")
        .await;
    let of_gateway = gateway.get("/old/x?y=1").await;
    assert_eq!(of_gateway.header("location"), of_nginx.header("location"));
}

#[tokio::test]
async fn requests_beyond_the_rate_wait_as_in_nginx() {
    // Goal: as many requests wait, and as many are refused. Method: a queue of one, and a burst of which one is not delayed; four requests
    // at once after one that passed. One of them waits for a drain of five seconds.
    for (parameters, expected) in [
        ("burst=1", [200, 503, 503, 503]),
        ("burst=2 delay=1", [200, 200, 503, 503]),
    ] {
        let text = nginx(
            "limit_req_zone $binary_remote_addr zone=one:1m rate=12r/m;",
            &format!(
                "location / {{ limit_req zone=one {parameters}; proxy_pass http://127.0.0.1:8081; }}"
            ),
        );
        let origin = Origin::echo();
        let nginx = Peer::nginx(&text, &origin).await;
        let gateway = gateway(&text, &origin).await;
        let both = async |address: SocketAddr| {
            let first = Client::connect(address).await.get("/").await.status;
            assert_eq!(first, 200);
            at_once(address, 4, "/").await
        };
        let (of_nginx, of_gateway) = tokio::join!(both(nginx.address()), both(gateway.address()));
        assert_eq!(of_nginx, expected, "{parameters}: nginx");
        assert_eq!(
            of_gateway,
            as_imported(&of_nginx),
            "{parameters}: the gateway"
        );
    }
}

#[tokio::test]
async fn requests_in_flight_are_bounded_as_in_nginx() {
    // Goal: limit_conn is concurrency, with the status that it names. Method: a request that the origin does not answer, then others of the
    // same client and of another one.
    let text = nginx(
        "limit_conn_zone $binary_remote_addr zone=one:1m; limit_conn_status 509;",
        "location / { limit_conn one 1; proxy_pass http://127.0.0.1:8081; }
         location /free/ { proxy_pass http://127.0.0.1:8081; }",
    );
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/hold" => Reply::Hang,
        _ => Answer::new(200).into(),
    });
    let nginx = Peer::nginx(&text, &origin).await;
    let gateway = gateway(&text, &origin).await;
    for (before, address) in [nginx.address(), gateway.address()].into_iter().enumerate() {
        let holder =
            tokio::spawn(
                async move { Client::connect(address).await.try_send(get("/hold")).await },
            );
        eventually("the origin has the request", async || {
            let requests = origin.requests();
            let holds = requests.iter().filter(|it| it.target == "/hold");
            (holds.count() == before + 1).then_some(())
        })
        .await;
        let steps: [Step; 3] = [(A, || get("/")), (A, || get("/free/")), (B, || get("/"))];
        assert_eq!(statuses(address, &steps).await, [509, 200, 200]);
        holder.abort();
    }
}

#[tokio::test]
async fn clients_behind_trusted_proxies_are_told_apart() {
    // Goal: set_real_ip_from is trusted_proxies. Method: two addresses in X-Forwarded-For of a trusted peer, and of one that is not.
    let text = nginx(
        "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;
         limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;",
        "location / { limit_req zone=one; proxy_pass http://127.0.0.1:8081; }",
    );
    let steps: [Step; 5] = [
        (A, || get("/").forwarded_for("192.0.2.1")),
        (A, || get("/").forwarded_for("192.0.2.1")),
        (A, || get("/").forwarded_for("192.0.2.2")),
        (B, || get("/").forwarded_for("192.0.2.3")),
        (B, || get("/").forwarded_for("192.0.2.4")),
    ];
    same_as_nginx(&text, &steps, &[200, 503, 200, 200, 503]).await;
}

const HAPROXY: &str = r"
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s

frontend www
    bind 127.0.0.1:8080
    stick-table type ip size 10k expire 1h store http_req_rate(1h),conn_cur
    acl exempt src 127.0.0.9
    acl is_api path_beg /api/
    http-request deny deny_status 403 if { src 127.0.0.8 }
    http-request track-sc0 src
    http-request track-sc1 req.hdr(x-key) table keys if is_api
    http-request deny deny_status 429 if is_api { sc_http_req_rate(1) gt 2 }
    http-request deny deny_status 503 if !exempt !is_api { sc_http_req_rate(0) ge 4 }
    http-request return status 204 if { path /none }
    use_backend api if is_api
    default_backend app

backend keys
    stick-table type string len 64 size 10k expire 1h store http_req_rate(1h)
backend app
    server a 127.0.0.1:8081
backend api
    server a 127.0.0.1:8081
";

#[tokio::test]
async fn stick_tables_of_haproxy_are_limits() {
    // Goal: rates of stick tables, by address and by field, with conditions on paths and clients. Method: the same requests to HAProxy and
    // to the gateway. Each client stops at its first refusal, since HAProxy counts refused requests too.
    let steps: [Step; 15] = [
        (A, || get("/")),
        (A, || get("/a")),
        (A, || get("/b")),
        (A, || get("/c")),
        (B, || get("/")),
        (B, || get("/api/").header("x-key", "one")),
        (A, || get("/api/").header("x-key", "one")),
        (B, || get("/api/").header("x-key", "one")),
        (B, || get("/api/").header("x-key", "two")),
        ("127.0.0.7", || get("/none")),
        ("127.0.0.8", || get("/")),
        ("127.0.0.9", || get("/")),
        ("127.0.0.9", || get("/")),
        ("127.0.0.9", || get("/")),
        ("127.0.0.9", || get("/")),
    ];
    let origin = Origin::echo();
    let haproxy = Peer::haproxy(HAPROXY, &origin).await;
    let gateway = gateway(HAPROXY, &origin).await;
    let of_haproxy = statuses(haproxy.address(), &steps).await;
    let of_gateway = statuses(gateway.address(), &steps).await;
    let expected = [
        200, 200, 200, 503, 200, 200, 200, 429, 200, 204, 403, 200, 200, 200, 200,
    ];
    assert_eq!(of_haproxy, expected, "HAProxy");
    assert_eq!(of_gateway, of_haproxy, "the gateway");
}

/// Tables that the frontend fills before anything is answered, and answers of the frontend and of its backends.
const ANSWERS: &str = r"
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    monitor-uri /alive

frontend www
    bind 127.0.0.1:8080
    stick-table type ip size 10k expire 1h store http_req_rate(1h)
    http-request track-sc0 src
    http-request deny if { path_end .php }
    acl is_wiki hdr(host) -i wiki.test
    acl is_shop hdr(host) -i shop.test
    http-request deny deny_status 429 if is_wiki { sc_http_req_rate(0) gt 4 }
    http-request return status 202 if is_shop { path /ping }
    http-request deny deny_status 429 if is_shop { sc_http_req_rate(0) gt 5 }
    use_backend wiki if is_wiki
    default_backend app

backend wiki
    http-request deny unless { path_beg -i /static/ } or { path_beg -i /w/ }
    server a 127.0.0.1:8081
backend app
    server a 127.0.0.1:8081
";

#[tokio::test]
async fn requests_that_haproxy_answers_itself_count() {
    // Goal: a tracked request counts whoever answers it, and a probe of `monitor-uri` does not. Method: refusals of a backend and of the
    // frontend, an answer of the frontend and probes, each from a client of its own that is served up to the limit.
    let steps: [Step; 21] = [
        (A, || get("/other").header("host", "wiki.test")),
        (A, || get("/x.php").header("host", "wiki.test")),
        (A, || get("/other").header("host", "wiki.test")),
        (A, || get("/w/a").header("host", "wiki.test")),
        (A, || get("/w/a").header("host", "wiki.test")),
        (A, || get("/other").header("host", "wiki.test")),
        (B, || get("/alive").header("host", "wiki.test")),
        (B, || get("/alive").header("host", "wiki.test")),
        (B, || get("/w/a").header("host", "wiki.test")),
        (B, || get("/w/b").header("host", "wiki.test")),
        (B, || get("/static/c").header("host", "wiki.test")),
        (B, || get("/w/d").header("host", "wiki.test")),
        (B, || get("/w/e").header("host", "wiki.test")),
        ("127.0.0.3", || get("/ping").header("host", "shop.test")),
        ("127.0.0.3", || get("/ping").header("host", "shop.test")),
        ("127.0.0.3", || get("/a").header("host", "shop.test")),
        ("127.0.0.3", || get("/a").header("host", "shop.test")),
        ("127.0.0.3", || get("/a").header("host", "shop.test")),
        ("127.0.0.3", || get("/a").header("host", "shop.test")),
        ("127.0.0.4", || get("/a").header("host", "other.test")),
        ("127.0.0.4", || get("/alive").header("host", "other.test")),
    ];
    let origin = Origin::echo();
    let haproxy = Peer::haproxy(ANSWERS, &origin).await;
    let gateway = gateway(ANSWERS, &origin).await;
    let of_haproxy = statuses(haproxy.address(), &steps).await;
    let of_gateway = statuses(gateway.address(), &steps).await;
    let expected = [
        403, 403, 403, 200, 429, 429, 200, 200, 200, 200, 200, 200, 429, 202, 202, 200, 200, 200,
        429, 200, 200,
    ];
    assert_eq!(of_haproxy, expected, "HAProxy");
    assert_eq!(of_gateway, of_haproxy, "the gateway");
}

#[tokio::test]
async fn a_field_that_names_the_client_is_the_client_once_its_proxies_are_named() {
    // Goal: a key by such a field counts each client once the operator has named the proxies, and the import says that they are missing.
    // Method: the usual fields in HAProxy, which believes everybody, and in the gateway with the peer as trusted proxy.
    for (sample, field) in [
        ("req.hdr_ip(X-Forwarded-For,-1)", "x-forwarded-for"),
        ("req.hdr(CF-Connecting-IP)", "cf-connecting-ip"),
        ("hdr(X-Real-IP)", "x-real-ip"),
    ] {
        let text = format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\nfrontend www\n \
             bind 127.0.0.1:8080\n stick-table type ip size 10k expire 1h store http_req_rate(1h)\n \
             http-request track-sc0 {sample}\n http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 2 }}\n \
             default_backend app\nbackend app\n server a 127.0.0.1:8081\n"
        );
        let origin = Origin::echo();
        let haproxy = Peer::haproxy(&text, &origin).await;
        let toml = peer::imported_with_code(&text, &origin, 2).await;
        let header = format!("client_ip_header = \"{field}\"");
        assert!(toml.contains(&header), "{toml}");
        assert!(toml.contains("# To fill in: [client] trusted_proxies: "));
        let complete = format!("{header}\ntrusted_proxies = [\"127.0.0.1\"]");
        let gateway = peer::started(&toml.replace(&header, &complete)).await;
        for address in [haproxy.address(), gateway.address()] {
            let mut found = Vec::new();
            for client in ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1"] {
                let mut connection = Client::connect(address).await;
                let request = get("/").header(field, client);
                found.push(connection.send(request).await.status);
            }
            assert_eq!(found, [200, 200, 200, 429], "{field}");
        }
    }
}

const INGRESS: &str = r#"
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop
  annotations:
    nginx.ingress.kubernetes.io/limit-rpm: "1"
    nginx.ingress.kubernetes.io/limit-burst-multiplier: "2"
    nginx.ingress.kubernetes.io/limit-whitelist: 127.0.0.9
    nginx.ingress.kubernetes.io/denylist-source-range: 127.0.0.8/32
spec:
  rules:
    - host: shop.test
      http:
        paths:
          - path: /api
            pathType: Prefix
            backend: { service: { name: app, port: { number: 80 } } }
          - path: /exact
            pathType: Exact
            backend: { service: { name: app, port: { number: 80 } } }
"#;

#[tokio::test]
async fn annotations_of_an_ingress_are_limits() {
    // Goal: a count with a multiplied burst, shared by the paths of an Ingress; exempt and refused clients; paths by their type.
    // Method: the gateway with the imported file, whose service is the origin.
    let origin = Origin::echo();
    let toml = peer::imported(INGRESS, &origin).await;
    let service = "app.default.svc.cluster.local:80";
    assert!(toml.contains(service), "{toml}");
    let toml = toml
        .replace(service, &origin.address().to_string())
        .replace("0.0.0.0:80", "{listener}");
    let gateway = Setup::new()
        .whole(&format!("{toml}\n[admin]\naddress = \"{{admin}}\"\n"))
        .start()
        .await;
    let steps: [Step; 10] = [
        (A, || get("/api").header("host", "shop.test")),
        (A, || get("/api/x").header("host", "shop.test")),
        (A, || get("/exact").header("host", "shop.test")),
        (A, || get("/api/y").header("host", "shop.test")),
        (B, || get("/api/y").header("host", "shop.test")),
        (B, || get("/apiary").header("host", "shop.test")),
        (B, || get("/api").header("host", "other.test")),
        ("127.0.0.8", || get("/api").header("host", "shop.test")),
        ("127.0.0.9", || get("/api").header("host", "shop.test")),
        ("127.0.0.9", || get("/api").header("host", "shop.test")),
    ];
    let found = statuses(gateway.address(), &steps).await;
    assert_eq!(found, [200, 200, 200, 429, 200, 404, 404, 403, 200, 200]);
}
