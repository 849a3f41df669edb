//! Parts and confirmations: ranges, HEAD, conditions of clients, and the gateway's own.

use super::*;

const FRESH: (&str, &str) = ("Cache-Control", "max-age=60");
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// Ten digits with an entity tag; answers ranges by itself as little as it can.
fn digits() -> Origin {
    Origin::answering(|_| {
        with(&[FRESH, ("ETag", "\"d\""), ("Last-Modified", DATE)])
            .body("0123456789")
            .into()
    })
}

async fn ranges_are_cut_from_what_is_stored(by: Version) {
    // Goal: RFC 9110 §14, whether the whole is fetched for the range or was stored before. Method: ranges of each kind, first and later;
    // one fetch in all, of the whole.
    for stored_before in [false, true] {
        let origin = digits();
        let gateway = before(by, &origin, &storing("")).await;
        if stored_before {
            gateway.get("/").await;
        }
        for (range, status, body) in [
            ("bytes=0-3", 206, "0123"),
            ("bytes=8-", 206, "89"),
            ("bytes=-3", 206, "789"),
            ("bytes=5-100", 206, "56789"),
            ("bytes=10-", 416, ""),
            ("lines=1-2", 200, "0123456789"),
        ] {
            let answer = gateway.send(get("/").header("Range", range)).await;
            assert_eq!((answer.status, answer.text()), (status, body), "{range}");
            if status == 206 {
                let length = answer.header("content-length").unwrap();
                assert_eq!(length, body.len().to_string());
                assert!(answer.header("content-range").unwrap().ends_with("/10"));
            }
        }
        let several = gateway
            .send(get("/").header("Range", "bytes=0-1,4-5"))
            .await;
        assert_eq!(several.status, 206);
        assert!(
            several
                .header("content-type")
                .unwrap()
                .starts_with("multipart/byteranges")
        );
        assert!(several.text().contains("bytes 4-5/10"), "{several:?}");
        assert_eq!(origin.only_request().header("range"), None);
    }
}

async fn if_range_cuts_only_what_is_unchanged(by: Version) {
    // Goal: a download continues only in the same bytes. Method: strong, other and weak validators.
    let origin = digits();
    let gateway = before(by, &origin, &storing("")).await;
    for (validator, status) in [
        ("\"d\"", 206),
        ("\"e\"", 200),
        ("W/\"d\"", 200),
        (DATE, 206),
    ] {
        let request = get("/")
            .header("Range", "bytes=0-1")
            .header("If-Range", validator);
        assert_eq!(gateway.send(request).await.status, status, "{validator}");
    }
}

async fn a_chunked_answer_can_be_cut_once_it_is_stored(by: Version) {
    // Goal: the length of a stored answer is known whether the origin said it or not. Method: a chunked answer, then a range of it.
    let origin = Origin::answering(|_| {
        Reply::Raw(
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n3\r\n456\r\n0\r\n\r\n"
                .to_vec(),
        )
    });
    let gateway = before(by, &origin, &storing("")).await;
    assert_eq!(gateway.get("/").await.text(), "0123456");
    let hit = gateway.get("/").await;
    assert_eq!(
        (hit.header("content-length"), hit.text()),
        (Some("7"), "0123456")
    );
    let part = gateway.send(get("/").header("Range", "bytes=2-3")).await;
    assert_eq!((part.status, part.text()), (206, "23"));
    assert_eq!(origin.count(), 1);
}

async fn head_is_answered_from_get_and_fills_for_it(by: Version) {
    // Goal: HEAD and GET share what is stored, and GET alone has ranges (RFC 9110 §14.2). Method: HEAD first, which fetches the whole and
    // asks for a part, then both.
    let origin = digits();
    let gateway = before(by, &origin, &storing("")).await;
    for hit in [false, true] {
        let head = request("HEAD", "/").header("Range", "bytes=0-3");
        let head = gateway.send(head).await;
        assert_eq!(
            (head.status, head.header("content-length")),
            (200, Some("10"))
        );
        assert_eq!((head.body.len(), is_hit(&head)), (0, hit));
    }
    assert!(is_hit(&gateway.send(request("HEAD", "/")).await));
    assert_eq!(gateway.get("/").await.text(), "0123456789");
    assert_eq!(origin.only_request().method, "GET");
}

async fn conditions_of_clients_are_answered_from_what_is_stored(by: Version) {
    // Goal: the gateway answers 304 to a client that has the answer. Method: conditions that hold and that do not, before and after
    // the answer is stored; the origin never sees one.
    for stored_before in [false, true] {
        let origin = digits();
        let gateway = before(by, &origin, &storing("")).await;
        if stored_before {
            gateway.get("/").await;
        }
        for (name, value, status) in [
            ("If-None-Match", "\"d\"", 304),
            ("If-None-Match", "W/\"d\"", 304),
            ("If-None-Match", "\"e\"", 200),
            ("If-Modified-Since", DATE, 304),
            ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:36 GMT", 200),
        ] {
            let answer = gateway.send(get("/").header(name, value)).await;
            assert_eq!(answer.status, status, "{name}: {value}");
            assert_eq!(answer.header("etag"), Some("\"d\""));
            assert_eq!(answer.body.is_empty(), status == 304);
        }
        let seen = origin.only_request();
        assert_eq!(
            (
                seen.header("if-none-match"),
                seen.header("if-modified-since")
            ),
            (None, None)
        );
    }
}

async fn a_stale_answer_is_confirmed_and_updated(by: Version) {
    // Goal: RFC 9111 §4.3: the origin is asked by condition, 304 makes the stored answer fresh with new fields, and the client gets it
    // whole. Method: an answer that is stale from the start; the confirmation has another age and another field.
    let origin = Origin::answering(|received| {
        let tag = ("ETag", "\"d\"");
        match received.header("if-none-match") {
            Some("\"d\"") => Answer::new(304)
                .header("ETag", "\"d\"")
                .header("Cache-Control", "max-age=60")
                .header("X-Version", "2")
                .into(),
            _ => with(&[FRESH, ("Age", "100"), tag, ("X-Version", "1")])
                .body("body")
                .into(),
        }
    });
    let gateway = before(by, &origin, &storing("")).await;
    assert_eq!(gateway.get("/").await.header("x-version"), Some("1"));
    let confirmed = gateway.get("/").await;
    assert_eq!((confirmed.status, confirmed.text()), (200, "body"));
    assert_eq!(confirmed.header("x-version"), Some("2"));
    assert_eq!(told(&confirmed), "fwd=stale; fwd-status=304");
    let hit = gateway.get("/").await;
    assert_eq!(
        (hit.text(), hit.header("x-version"), is_hit(&hit)),
        ("body", Some("2"), true)
    );
    assert!(
        hit.header("age").unwrap().parse::<u64>().unwrap() < 60,
        "{hit:?}"
    );
    assert_eq!(origin.count(), 2);
}

async fn a_real_nginx_is_revalidated(by: Version) {
    // Goal: validators as a real server makes and compares them. Method: nginx serves a file that must be confirmed each time.
    let nginx = Nginx::start(
        "root .; location / { return 404; } \
         location = /nginx.conf { add_header Cache-Control 'max-age=0, public'; }",
    )
    .await;
    let gateway = Setup::new()
        .servers("app", &[nginx.address()])
        .rules(&storing(""))
        .spoken_to_by(by)
        .start()
        .await;
    let first = gateway.get("/nginx.conf").await;
    assert_eq!(first.status, 200, "{first:?}");
    let second = gateway.get("/nginx.conf").await;
    assert_eq!(told(&second), "fwd=stale; fwd-status=304");
    assert_eq!(first.body, second.body);
}

by_each_version! {
    ranges_are_cut_from_what_is_stored,
    if_range_cuts_only_what_is_unchanged,
    a_chunked_answer_can_be_cut_once_it_is_stored,
    head_is_answered_from_get_and_fills_for_it,
    conditions_of_clients_are_answered_from_what_is_stored,
    a_stale_answer_is_confirmed_and_updated,
    a_real_nginx_is_revalidated,
}
