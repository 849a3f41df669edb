//! Requests that would go on for ever: loops, and how far OPTIONS and TRACE get.

use crate::harness::frames::{Fate, Frames, get as block};
use crate::harness::*;

const ROUTE: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";

/// Whose origin is the gateway itself.
fn looping() -> Setup {
    Setup::new().whole(
        "[[listener]]\naddress = \"{listener}\"\n[admin]\naddress = \"{admin}\"\n[log]\naccess = \"{directory}/access.log\"\n\
         [origin.self]\nservers = [\"{listener}\"]\nretries = 3\n[[route]]\npath = \"/*\"\norigin = \"self\"\n",
    )
}

#[tokio::test]
async fn a_loop_ends_with_508() {
    // Goal: RFC 8586: a request that comes back is answered, and was forwarded a few times at most. Method: an origin that is the
    // gateway's
    // own listener; clients by both versions, one of which names the field in `Connection`.
    let gateway = looping().start().await;
    assert!(gateway.stderr().contains("508"), "{}", gateway.stderr());
    for (at, request) in [
        get("/"),
        get("/").header("Connection", "cdn-loop"),
        get("/").header("CDN-Loop", "fastly, a.test; id=\"b\""),
    ]
    .into_iter()
    .enumerate()
    {
        gateway.send(request).await.assert_problem(508);
        assert_eq!(gateway.access_lines(3 * (at + 1)).await.len(), 3 * (at + 1));
    }
    let mut frames = Frames::connect(gateway.address()).await;
    frames.request(1, &block(b"/", &[])).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(508));
}

#[tokio::test]
async fn a_loop_through_a_fleet_ends_too() {
    // Goal: gateways that do not know each other end a loop by their number. Method: what nine of them would have said; seven pass.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let hops = |count: usize| {
        let hop = |number: usize| format!("sluicegate; id={number:016x}");
        get("/").header(
            "CDN-Loop",
            &(0..count).map(hop).collect::<Vec<_>>().join(", "),
        )
    };
    assert_eq!(gateway.send(hops(7)).await.status, 200);
    gateway.send(hops(8)).await.assert_problem(508);
}

#[tokio::test]
async fn an_origin_gets_every_hop() {
    // Goal: no hop can be removed, neither the client by `Connection` nor an edit of fields, and each gateway adds its own. Method: two
    // gateways before one origin.
    let origin = Origin::echo();
    let inner = Gateway::passing(&origin).await;
    let outer = Setup::new()
        .servers("app", &[inner.address()])
        .rules(&format!(
            "{ROUTE}request_headers = {{ remove = [\"cdn-loop\"] }}\n"
        ))
        .start()
        .await;
    let request = get("/")
        .header("CDN-Loop", "fastly")
        .header("Connection", "cdn-loop");
    let echo = outer.send(request).await.echo();
    let told = echo.header("cdn-loop").unwrap().to_owned();
    let hops: Vec<&str> = told.split(", ").collect();
    assert_eq!(hops.len(), 3, "{told}");
    assert_eq!(hops[0], "fastly");
    assert!(
        hops[1..]
            .iter()
            .all(|hop| hop.starts_with("sluicegate; id=")),
        "{told}"
    );
    assert_ne!(hops[1], hops[2]);
}

#[tokio::test]
async fn max_forwards_is_honored() {
    // Goal: RFC 9110 §7.6.2: OPTIONS and TRACE with 0 end here, within the limits; a greater one is one less behind. Method: each by both
    // versions, and what the origin is sent.
    let origin = Origin::echo();
    let gateway = Gateway::before(
        &origin,
        "[limit.few]\nkey = \"client.ip\"\nrates = [\"2 per 1h\"]\n[[route]]\npath = \"/limited\"\nlimits = [\"few\"]\n\
         origin = \"app\"\n[[route]]\npath = \"/*\"\norigin = \"app\"\n",
    )
    .await;
    let ask =
        |method: &str, path: &str, left: &str| request(method, path).header("Max-Forwards", left);
    let by_http2 = gateway.h2c().await;
    for answer in [
        gateway.send(ask("OPTIONS", "/", "0")).await,
        by_http2.send(ask("OPTIONS", "/", "0")).await,
    ] {
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("allow"), Some("OPTIONS"));
        assert_eq!(answer.text(), "");
    }
    assert_eq!(gateway.send(ask("TRACE", "/", "0")).await.status, 405);
    assert_eq!(origin.count(), 0);
    for (method, left, told) in [
        ("OPTIONS", "1", "0"),
        ("TRACE", "12", "11"),
        ("GET", "0", "0"),
        ("OPTIONS", "x", "x"),
    ] {
        let echo = gateway.send(ask(method, "/", left)).await.echo();
        assert_eq!(echo.header("max-forwards"), Some(told), "{method} {left}");
    }
    for status in [200, 200, 429] {
        let answer = gateway.send(ask("OPTIONS", "/limited", "0")).await;
        assert_eq!(answer.status, status);
    }
}
