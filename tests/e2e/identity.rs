//! Who the client is: the connection's address, or what trusted hops say, and nothing else.

use crate::harness::*;

/// One an hour per client; loopback and 10/8 are trusted.
const TRUSTING: &str = r#"
[client]
trusted_proxies = ["127.0.0.0/8", "10.0.0.0/8", "2001:db8:ff::/48"]
[limit.one]
key = "client.ip"
rates = ["1 per 1h"]
[[route]]
path = "/"
limits = ["one"]
respond = { status = 200 }
"#;

/// The client of each request as the access log has it.
async fn clients_of(gateway: &Gateway, requests: Vec<Request>) -> Vec<String> {
    let mut client = gateway.client().await;
    let mut answers = Vec::new();
    for request in requests {
        answers.push(client.send(request).await);
    }
    let lines = gateway.lines_of(&answers).await;
    lines
        .iter()
        .map(|line| line["client"].as_str().unwrap_or("none").to_owned())
        .collect()
}

#[tokio::test]
async fn a_forged_chain_changes_nothing() {
    // Goal: C6 by default: no peer is trusted. Method: a new forged address in every known field with each request; the
    // second request must be refused all the same.
    let rules = TRUSTING.split_once("[limit.one]").unwrap().1;
    let gateway = Gateway::start(&format!("[limit.one]{rules}")).await;
    let mut client = gateway.client().await;
    let forged = |n: usize| {
        let address = format!("203.0.113.{n}");
        let request = get("/")
            .forwarded_for(&address)
            .header("Forwarded", &format!("for={address}"));
        request
            .header("X-Real-IP", &address)
            .header("CF-Connecting-IP", &address)
            .header("True-Client-IP", &address)
    };
    assert_eq!(client.send(forged(1)).await.status, 200);
    for n in 2..10 {
        assert_eq!(client.send(forged(n)).await.status, 429);
    }
    assert!(
        gateway
            .access_lines(9)
            .await
            .iter()
            .all(|line| line["client"] == "127.0.0.1")
    );
}

#[tokio::test]
async fn a_trusted_chain_is_read_from_the_right() {
    // Goal: the first address from the right that no trusted hop vouches for as a hop. Method: the log's client for chains
    // whose left part is forged.
    let gateway = Gateway::start(TRUSTING).await;
    let chains = [
        ("203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9, 10.1.2.3", "203.0.113.9"),
        ("10.9.9.9, 203.0.113.9, 10.1.2.3, 127.0.0.3", "203.0.113.9"),
        ("203.0.113.9,10.1.2.3", "203.0.113.9"),
        (" 203.0.113.9 ,\t10.1.2.3 ", "203.0.113.9"),
        // Only hops: the farthest is the client.
        ("10.1.2.3, 10.1.2.4", "10.1.2.3"),
    ];
    let requests = chains
        .iter()
        .map(|(chain, _)| get("/").forwarded_for(chain))
        .collect();
    let expected: Vec<&str> = chains.iter().map(|(_, client)| *client).collect();
    assert_eq!(clients_of(&gateway, requests).await, expected);
}

#[tokio::test]
async fn several_fields_read_as_one_list() {
    // Goal: RFC 9110 §5.3: many fields of one name are one list. Method: the same chain cut in different places.
    let gateway = Gateway::start(TRUSTING).await;
    let requests = vec![
        get("/").forwarded_for("6.6.6.6, 203.0.113.9, 10.1.2.3"),
        get("/")
            .forwarded_for("6.6.6.6")
            .forwarded_for("203.0.113.9, 10.1.2.3"),
        get("/")
            .forwarded_for("6.6.6.6, 203.0.113.9")
            .forwarded_for("10.1.2.3"),
        get("/")
            .forwarded_for("6.6.6.6")
            .forwarded_for("203.0.113.9")
            .forwarded_for("10.1.2.3"),
    ];
    assert_eq!(clients_of(&gateway, requests).await, ["203.0.113.9"; 4]);
}

#[tokio::test]
async fn addresses_come_in_many_shapes() {
    // Goal: ports, brackets and IPv4-mapped IPv6 name the same client. Method: the log's client.
    let gateway = Gateway::start(TRUSTING).await;
    let shapes = [
        "203.0.113.9:4711",
        "::ffff:203.0.113.9",
        "[::ffff:203.0.113.9]:80",
    ];
    let requests = shapes
        .iter()
        .map(|shape| get("/").forwarded_for(shape))
        .collect();
    assert_eq!(clients_of(&gateway, requests).await, ["203.0.113.9"; 3]);
}

#[tokio::test]
async fn an_ipv6_network_of_64_bits_is_one_client() {
    // Goal: a home or a server with 2^64 addresses has one counter. Method: two addresses of one /64, one of the next.
    let gateway = Gateway::start(TRUSTING).await;
    let mut client = gateway.client().await;
    let cases = [
        ("2001:db8:1:2::1", 200),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", 429),
        ("[2001:db8:1:2::7]:443", 429),
        ("2001:db8:1:3::1", 200),
        ("2001:DB8:1:3:0::2", 429),
    ];
    for (address, status) in cases {
        assert_eq!(
            client.send(get("/").forwarded_for(address)).await.status,
            status,
            "{address}"
        );
    }
}

#[tokio::test]
async fn mapped_and_plain_ipv4_share_a_counter() {
    // Goal: a second spelling is no second client. Method: plain, mapped, mapped in hexadecimal.
    let gateway = Gateway::start(TRUSTING).await;
    let mut client = gateway.client().await;
    for (address, status) in [
        ("203.0.113.9", 200),
        ("::ffff:203.0.113.9", 429),
        ("::ffff:cb00:7109", 429),
    ] {
        assert_eq!(
            client.send(get("/").forwarded_for(address)).await.status,
            status,
            "{address}"
        );
    }
}

#[tokio::test]
async fn a_malformed_chain_is_used_up_to_the_malformed_element() {
    // Goal: elements to the left of a malformed one are ignored. Method: broken elements in several places; the client
    // is never the forged 6.6.6.6, and never anybody's fresh identity: what is right of the break still counts.
    let gateway = Gateway::start(TRUSTING).await;
    let chains = [
        ("6.6.6.6, garbage", "127.0.0.1"),
        ("6.6.6.6, 1.2.3.4.5", "127.0.0.1"),
        ("6.6.6.6, unknown, 10.1.2.3", "10.1.2.3"),
        ("garbage, 203.0.113.9", "203.0.113.9"),
        (
            "6.6.6.6, 203.0.113.999, 203.0.113.9, 10.1.2.3",
            "203.0.113.9",
        ),
    ];
    let requests = chains
        .iter()
        .map(|(chain, _)| get("/").forwarded_for(chain))
        .collect();
    let expected: Vec<&str> = chains.iter().map(|(_, client)| *client).collect();
    assert_eq!(clients_of(&gateway, requests).await, expected);
}

#[tokio::test]
async fn broken_chains_open_no_endless_supply_of_clients() {
    // Goal: garbage is not an identity. Method: a different broken chain with each request; one is admitted.
    let gateway = Gateway::start(TRUSTING).await;
    let mut client = gateway.client().await;
    let mut admitted = 0;
    for n in 0..20 {
        let answer = client
            .send(get("/").forwarded_for(&format!("6.6.6.{n}, garbage{n}")))
            .await;
        admitted += usize::from(answer.status == 200);
    }
    assert_eq!(admitted, 1);
}

#[tokio::test]
async fn the_forwarded_field_is_read_where_it_is_configured() {
    // Goal: `client_ip_header = "forwarded"`, RFC 7239, and X-Forwarded-For is then ignored. Method: the log's client.
    let gateway =
        Gateway::start(&TRUSTING.replace("[client]", "[client]\nclient_ip_header = \"forwarded\""))
            .await;
    let requests = vec![
        get("/")
            .header("Forwarded", "for=203.0.113.9;proto=https")
            .forwarded_for("6.6.6.6"),
        get("/").header(
            "Forwarded",
            "for=6.6.6.6, For=\"203.0.113.9:4711\", for=10.1.2.3",
        ),
        get("/")
            .header("Forwarded", "for=6.6.6.6")
            .header("Forwarded", "by=x;for=203.0.113.9"),
        // RFC 9110 §5.6.1.2: empty elements are no elements.
        get("/").header(
            "Forwarded",
            "for=6.6.6.6,,for=203.0.113.9, ,for=10.1.2.3,\t,",
        ),
        get("/")
            .header("Forwarded", "for=6.6.6.6, for=203.0.113.9")
            .header("Forwarded", "")
            .header("Forwarded", ", "),
        get("/").header("Forwarded", "for=\"[2001:db8:1:2::1]:80\""),
    ];
    let clients = clients_of(&gateway, requests).await;
    assert_eq!(clients[..5], ["203.0.113.9"; 5]);
    assert!(clients[5].starts_with("2001:db8:1:2:"), "{clients:?}");
}

#[tokio::test]
async fn a_single_value_field_is_read_where_it_is_configured() {
    // Goal: a CDN's own field works. Method: one value is accepted; two, or a list, are not; none from an untrusted peer.
    let rules = TRUSTING.replace(
        "[client]",
        "[client]\nclient_ip_header = \"cf-connecting-ip\"",
    );
    let gateway = Gateway::start(&rules).await;
    let requests = vec![
        get("/")
            .header("CF-Connecting-IP", "203.0.113.9")
            .forwarded_for("6.6.6.6"),
        get("/").header("CF-Connecting-IP", "6.6.6.6, 7.7.7.7"),
        get("/").forwarded_for("6.6.6.6"),
    ];
    let clients = clients_of(&gateway, requests).await;
    assert_eq!(clients, ["203.0.113.9", "127.0.0.1", "127.0.0.1"]);
}

#[tokio::test]
async fn a_request_keeps_the_id_that_a_trusted_hop_gave_it() {
    // Goal: one id from the edge to the origin, in answers, refusals and log; strangers choose none. Method: an id of a trusted hop with
    // an answer, a first and a repeated refusal on one connection; the same of a stranger, and malformed ones.
    let origin = Origin::echo();
    let rules = r#"
[client]
trusted_proxies = ["127.0.0.1"]
request_id = "x-correlation-id"
[limit.one]
key = "global"
rates = ["1 per 1h"]
[[route]]
path = "/limited"
limits = ["one"]
origin = "app"
[[route]]
path = "/*"
origin = "app"
"#;
    let gateway = Gateway::before(&origin, rules).await;
    let mut hop = gateway.client().await;
    let named = |target: &str, id: &str| get(target).header("x-correlation-id", id);
    let mut answers = Vec::new();
    for (target, id, status) in [
        ("/x", "edge-1.A_b", 200),
        ("/limited", "edge-2", 200),
        ("/limited", "edge-3", 429),
        ("/limited", "edge-4", 429),
    ] {
        let answer = hop.send(named(target, id)).await;
        assert_eq!(
            (answer.status, answer.header("x-request-id")),
            (status, Some(id))
        );
        if status == 200 {
            assert_eq!(answer.echo().header("x-request-id"), Some(id));
        }
        answers.push(answer);
    }
    let lines = gateway.lines_of(&answers).await;
    assert_eq!(lines[3]["id"], "edge-4");

    let mut stranger = gateway.client_from("127.0.0.9").await;
    let ours = stranger.send(named("/x", "edge-5")).await;
    let long = "x".repeat(65);
    let mut made = vec![ours];
    for wrong in ["a b", "<a>", &long] {
        made.push(hop.send(named("/x", wrong)).await);
    }
    for answer in made {
        let id = answer.header("x-request-id").unwrap();
        let hex = id.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(id.len() == 32 && hex, "{id}");
    }
}

#[tokio::test]
async fn an_untrusted_proxy_is_logged_once() {
    // Goal: a balancer that is missing in `trusted_proxies` is reported by log, metric and `explain`, and the log cannot be flooded.
    // Method: two
    // peers that nobody trusts send chains, one refused again and again on one connection.
    let rules = TRUSTING.replace("\"127.0.0.0/8\", ", "");
    let gateway = Gateway::start(&rules).await;
    for address in ["127.0.0.1", "127.0.0.2"] {
        let mut peer = gateway.client_from(address).await;
        for n in 0..5 {
            let answer = peer
                .send(get("/").forwarded_for(&format!("203.0.113.{n}")))
                .await;
            assert_eq!(answer.status, if n == 0 { 200 } else { 429 });
        }
    }
    let labels = [("peer", "private")];
    let count = gateway.metrics().await;
    let count = count.sum("sluicegate_untrusted_forwarded_total", &labels);
    assert!((count - 10.0).abs() < 0.5, "{count}");
    let log = gateway.stderr();
    for address in ["127.0.0.1", "127.0.0.2"] {
        let cure = format!("trusted_proxies = [\"{address}\"]");
        assert_eq!(log.matches(&cure).count(), 1, "{log}");
    }
    let file = gateway.config_path();
    let mut explain = Process::run(&[
        "explain",
        file.to_str().unwrap(),
        "--request",
        "GET /",
        "--client",
        "192.0.2.9",
        "--header",
        "X-Forwarded-For: 203.0.113.9",
        "--header",
        "X-Real-IP: 203.0.113.9",
    ]);
    assert_eq!(explain.exit_code().await, 0);
    let told = explain.stdout();
    assert!(told.contains("trusted_proxies = [\"192.0.2.9\"]"), "{told}");
    assert!(told.contains("x-real-ip: removed"), "{told}");
}
