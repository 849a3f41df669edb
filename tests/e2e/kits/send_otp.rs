//! `send-otp.toml`: what codes cost, and what guessing them is worth.

use std::io::Write as _;
use std::time::Duration;

use super::{assert_refused_by, json, kit, kit_with, passes_before};
use crate::harness::*;

/// A German mobile number of a range of its own for each `range`, from 0 to 39.
fn phone(range: usize, number: usize) -> String {
    format!("+49151{:02}{number:06}", 10 + range)
}

fn send(client: &str, phone: &str) -> Request {
    json(
        "/auth/sendOTP",
        client,
        format!("{{\"phone\": \"{phone}\"}}"),
    )
}

fn verify(client: &str, phone: &str, code: &str) -> Request {
    let body = format!("{{\"phone\": \"{phone}\", \"code\": \"{code}\"}}");
    json("/auth/verifyOTP", client, body)
}

/// Takes the code 123456, and no other.
fn verifier() -> Origin {
    Origin::answering(|received| {
        let right = !received.target.contains("verify") || received.text().contains("123456");
        Answer::new(if right { 200 } else { 401 }).into()
    })
}

#[tokio::test]
async fn a_telephone_number_gets_three_codes() {
    // Goal: the number is what counts, however it is written and whatever the path's case and method: three from a network, five from
    // all. Method: three spellings from three addresses of a network, then a fourth; two from another network, then a sixth; what is no
    // number is answered without an SMS.
    let origin = verifier();
    let gateway = kit("send-otp", &origin).start().await;
    for (client, spelling) in [
        ("192.0.2.1", "0151 12345678"),
        ("192.0.2.77", "+49 (151) 1234-5678"),
        ("192.0.2.200", "004915112345678"),
    ] {
        let answer = gateway.send(send(client, spelling)).await;
        assert_eq!(answer.status, 200, "{spelling}: {answer:?}");
    }
    let fourth = gateway.send(send("192.0.2.3", "+4915112345678")).await;
    assert_refused_by("phone-from-network", &fourth);
    assert!((590..=600).contains(&fourth.retry_after()), "{fourth:?}");
    for client in ["198.51.100.1", "2001:db8::1"] {
        let answer = gateway.send(send(client, "+4915112345678")).await;
        assert_eq!(answer.status, 200, "{client}: {answer:?}");
    }
    let sixth = gateway.send(send("203.0.113.1", "+4915112345678")).await;
    assert_refused_by("phone", &sixth);
    assert!((590..=600).contains(&sixth.retry_after()), "{sixth:?}");
    let body = "{\"phone\": \"+4915112345678\"}";
    let spelt = gateway
        .send(json("/AUTH/sendotp/", "203.0.113.1", body))
        .await;
    assert_refused_by("phone", &spelt);
    let other = gateway.send(send("203.0.113.1", "+4915112345679")).await;
    assert_eq!(other.status, 200);
    for nothing in ["12", "", "911"] {
        let answer = gateway.send(send("203.0.113.1", nothing)).await;
        answer.assert_problem(400);
    }
    let get = gateway
        .send(get("/auth/sendOTP?phone=015112345678").forwarded_for("203.0.113.1"))
        .await;
    get.assert_problem(400);
    assert_eq!(origin.count(), 6);
}

#[tokio::test]
async fn a_rented_range_of_numbers_is_found_out() {
    // Goal: pumping that changes number and network with every request. Method: numbers of one range counted through; then one of
    // another, from the last network.
    let origin = verifier();
    let gateway = kit("send-otp", &origin).start().await;
    let client = |n: usize| format!("10.1.{n}.1");
    let passed = passes_before(&gateway, "dial-range", 50, |n| {
        send(&client(n), &phone(3, n))
    })
    .await;
    assert!((50..=51).contains(&passed), "{passed}");
    let other = gateway.send(send(&client(passed), &phone(4, 0))).await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn clients_and_their_networks_have_their_share() {
    // Goal: /32 and /64, then /24 and /48, each with another number of another range at every request. Method: one client after another,
    // in a /24 and in a /48.
    let origin = verifier();
    let gateway = kit("send-otp", &origin).start().await;
    let numbers = |n: usize| phone(n % 40, n);
    let passed = passes_before(&gateway, "client", 10, |n| send("192.0.2.1", &numbers(n))).await;
    assert!((10..=11).contains(&passed), "{passed}");
    let passed = passes_before(&gateway, "client", 10, |n| {
        send(&format!("2001:db8:1:1::{n}"), &numbers(100 + n))
    })
    .await;
    assert!((10..=11).contains(&passed), "{passed}");
    let passed = passes_before(&gateway, "network", 60, |n| {
        send(&format!("198.51.100.{n}"), &numbers(200 + n))
    })
    .await;
    assert!((60..=61).contains(&passed), "{passed}");
    let passed = passes_before(&gateway, "network", 60, |n| {
        send(&format!("2001:db8:2:{n}::1"), &numbers(300 + n))
    })
    .await;
    assert!((60..=61).contains(&passed), "{passed}");
}

#[tokio::test]
async fn spending_stays_below_the_ceiling_and_rejections_are_free() {
    // Goal: the last line holds, and C2 over five limits and four kinds of keys. Method: 1,500 customers without anything in common;
    // then a
    // number that was refused again and again has its whole count left.
    let origin = verifier();
    let gateway = kit("send-otp", &origin).start().await;
    let flood = Flood::of(1_500, |n, buffer| {
        let n = usize::try_from(n).unwrap();
        let body = format!("{{\"phone\":\"{}\"}}", phone(n % 40, n));
        write!(
            buffer,
            "POST /auth/sendOTP HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 10.{}.{}.1\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            n / 250,
            n % 250,
            body.len()
        )
        .unwrap();
    });
    let flood = flood.run(gateway.address()).await;
    let passed = flood.count(200);
    assert!((1_000..=1_001).contains(&passed), "{passed}");
    assert_eq!((flood.count(429), origin.count()), (1_500 - passed, passed));
    let mut last = None;
    for _ in 0..20 {
        last = Some(gateway.send(send("192.0.2.1", &phone(0, 9_999))).await);
    }
    let last = last.unwrap();
    assert_refused_by("spend", &last);
    assert_eq!(last.remaining("phone-600s"), 5);
    assert_eq!(last.remaining("phone-from-network-600s"), 3);
    assert_eq!(last.remaining("client-600s"), 10);
}

#[tokio::test]
async fn five_wrong_codes_are_the_end_of_guessing() {
    // Goal: guesses one by one and at once, for one number from the addresses of a network and from one client for many numbers; right
    // codes are free; a network that continues is banned from that number. Method: what reaches a service that takes its time to refuse.
    let origin = Origin::answering(|received| {
        if !received.target.contains("verify") || received.text().contains("123456") {
            return Answer::new(200).into();
        }
        let wrong = Answer::new(401).into();
        Reply::After(Duration::from_millis(300), Box::new(wrong))
    });
    let gateway = kit("send-otp", &origin).start().await;
    let mut client = gateway.client().await;
    for _ in 0..10 {
        let right = verify("192.0.2.1", &phone(0, 0), "123456");
        assert_eq!(client.send(right).await.status, 200);
    }
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(gateway.client().await);
    }
    let guesses = clients
        .iter_mut()
        .enumerate()
        .map(|(n, client)| async move {
            let guess = verify(&format!("10.1.1.{n}"), &phone(0, 0), &format!("{n:06}"));
            client.send(guess).await.status
        });
    let statuses = futures_util::future::join_all(guesses).await;
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(401), count(429)), (5, 95));
    assert_eq!(origin.count(), 15);
    let late = verify("10.1.1.200", &phone(0, 0), "123456");
    let banned = client.send(late).await;
    assert_refused_by("wrong-codes", &banned);
    let kind = banned.json()["type"].to_string();
    assert!(kind.contains("abnormal-usage-detected"), "{kind}");
    assert!((580..=600).contains(&banned.retry_after()), "{banned:?}");
    let another = send("10.1.1.200", &phone(0, 0));
    assert_eq!(client.send(another).await.status, 200, "sending stays open");
    let owner = verify("198.51.100.9", &phone(0, 0), "123456");
    assert_eq!(
        client.send(owner).await.status,
        200,
        "the owner is elsewhere"
    );

    let mut guesses = Vec::new();
    for n in 0..22 {
        let guess = verify("192.0.2.3", &phone(1, n), "000000");
        guesses.push(client.send(guess).await);
    }
    let last = guesses.last().unwrap();
    assert_refused_by("wrong-codes-client", last);
    let passed = guesses.iter().filter(|answer| answer.status == 401).count();
    assert!((20..=21).contains(&passed), "{passed}");
}

#[tokio::test]
async fn a_stranger_is_slowed_down_and_not_locked_out() {
    // Goal: what the file says that an attacker can and cannot do to a stranger. Method: wrong codes for one number from fifteen networks,
    // each until it is banned, while the owner verifies and is sent codes; then from further networks until the tries of the number are
    // used up, which ends within minutes.
    let origin = verifier();
    let gateway = kit("send-otp", &origin).start().await;
    let number = phone(7, 7);
    let mut client = gateway.client().await;
    let mut tries = 0;
    for network in 0..15 {
        for n in 0..8 {
            let guess = verify(&format!("10.2.{network}.{n}"), &number, "000000");
            let answer = client.send(guess).await;
            tries += usize::from(answer.status == 401);
            assert!(matches!(answer.status, 401 | 429), "{answer:?}");
        }
        // A network has ten tries an hour, right ones too.
        let owner = verify("192.0.2.1", &number, "123456");
        let answer = client.send(owner).await;
        assert!(
            network >= 10 || answer.status == 200,
            "{network}: {answer:?}"
        );
    }
    assert_eq!(tries, 75, "five from each network");
    for _ in 0..3 {
        let attacker = client.send(send("10.3.0.1", &number)).await;
        assert_eq!(attacker.status, 200, "{attacker:?}");
    }
    let owner = client.send(send("192.0.2.1", &number)).await;
    assert_eq!(
        owner.status, 200,
        "one network does not use the codes up: {owner:?}"
    );
    let mut refused = None;
    for network in 20..40 {
        for n in 0..5 {
            let guess = verify(&format!("10.2.{network}.{n}"), &number, "000000");
            let answer = client.send(guess).await;
            refused = (answer.status == 429).then_some(answer).or(refused);
        }
    }
    let refused = refused.expect("the tries are bounded");
    assert_refused_by("number", &refused);
    assert!(refused.retry_after() <= 720, "{refused:?}");
}

#[tokio::test]
async fn a_page_of_another_site_may_ask_first() {
    // Goal: neither a preflight nor any other page meets the limits. Method: many of each from one client, with what the comments offer
    // for pages of another site.
    let origin = Origin::named("auth");
    let offered = [
        ("# [route.cors]\n", "[route.cors]\n"),
        ("# origins = ", "origins = "),
        ("# methods = ", "methods = "),
        ("# headers = ", "headers = "),
    ];
    let gateway = kit_with("send-otp", origin.address(), &offered)
        .start()
        .await;
    let mut client = gateway.client().await;
    for _ in 0..70 {
        for target in ["/auth/sendOTP", "/auth/verifyOTP"] {
            let preflight = options(target)
                .forwarded_for("192.0.2.1")
                .header("origin", "https://www.example.com")
                .header("access-control-request-method", "POST")
                .header("access-control-request-headers", "content-type");
            let answer = client.send(preflight).await;
            assert_eq!(answer.status, 204, "{answer:?}");
            let allowed = answer.header("access-control-allow-origin");
            assert_eq!(allowed, Some("https://www.example.com"));
        }
        let page = get("/").forwarded_for("192.0.2.1");
        assert_eq!(client.send(page).await.status, 200);
    }
}
