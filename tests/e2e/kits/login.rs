//! `login.toml`: three ways to guess a password.

use super::{answers_before, kit};
use crate::harness::*;

fn login(client: &str, mail: &str, password: &str) -> Request {
    post("/login")
        .forwarded_for(client)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("email={mail}&password={password}"))
}

/// Takes the password `right`, and no other.
fn site() -> Origin {
    Origin::answering(|received| {
        let wrong = received.target == "/login" && !received.text().contains("=right");
        Answer::new(if wrong { 401 } else { 200 }).into()
    })
}

/// How many wrong passwords reach the site before the first that `limit` refuses.
async fn guesses_before(
    gateway: &Gateway,
    limit: &str,
    most: usize,
    guess: impl Fn(usize) -> Request,
) -> usize {
    answers_before(gateway, limit, most, 401, guess).await
}

#[tokio::test]
async fn a_guesser_is_locked_out_and_the_owner_is_not() {
    // Goal: five guesses at an account, in any spelling, one by one or at once; the owner can log in from elsewhere all the time.
    // Method: guesses of the addresses of one network, then fifty at once of another, then the owner.
    let origin = site();
    let gateway = kit("login", &origin).start().await;
    // What MySQL's default collation takes for one account too: accents, soft hyphens, full-width letters.
    let spellings = [
        "ann%40a.test",
        "ANN@a.test",
        "+Ann%40A.test+",
        "%C3%A1nn@a.test",
        "an%C2%ADn@a.test",
        "%EF%BD%81nn@a.test",
    ];
    let passed = guesses_before(&gateway, "guesses", 5, |n| {
        login(&format!("192.0.2.{n}"), spellings[n % 6], "wrong")
    })
    .await;
    assert_eq!(passed, 5);
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(gateway.client().await);
    }
    let guesses = clients.iter_mut().map(|client| async {
        client
            .send(login("198.51.100.1", "ann@a.test", "wrong"))
            .await
            .status
    });
    let statuses = futures_util::future::join_all(guesses).await;
    assert_eq!(
        statuses.iter().filter(|status| **status == 401).count(),
        5,
        "{statuses:?}"
    );
    let mut owner = gateway.client().await;
    for _ in 0..40 {
        let answer = owner
            .send(login("203.0.113.1", "ann@a.test", "right"))
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let other = login("192.0.2.0", "bob@a.test", "right");
    assert_eq!(gateway.send(other).await.status, 200);
    let nobody = post("/login").forwarded_for("203.0.113.1");
    gateway.send(nobody).await.assert_problem(400);
    assert_eq!(origin.count(), 51);
}

#[tokio::test]
async fn guesses_from_everywhere_and_at_everybody_are_counted_too() {
    // Goal: the three wider limits, of which that of an account opens again within a quarter of an hour. Method: one account from many
    // networks, many accounts from one client, many accounts from one network; none of it closes the site itself.
    let origin = site();
    let gateway = kit("login", &origin).start().await;
    let passed = guesses_before(&gateway, "account", 100, |n| {
        login(&format!("10.1.{n}.1"), "ann@a.test", "wrong")
    })
    .await;
    assert!((100..=101).contains(&passed), "{passed}");
    let owner = gateway
        .send(login("203.0.113.1", "ann@a.test", "right"))
        .await;
    assert!(
        owner.retry_after() <= 900,
        "slowed down, not closed: {owner:?}"
    );
    let passed = guesses_before(&gateway, "client", 20, |n| {
        login("192.0.2.1", &format!("user{n}@a.test"), "wrong")
    })
    .await;
    assert!((20..=21).contains(&passed), "{passed}");
    let passed = guesses_before(&gateway, "network", 100, |n| {
        login(
            &format!("198.51.100.{n}"),
            &format!("other{n}@a.test"),
            "wrong",
        )
    })
    .await;
    assert!((100..=101).contains(&passed), "{passed}");
    let form = get("/login").forwarded_for("192.0.2.1");
    assert_eq!(
        gateway.send(form).await.status,
        401,
        "the site's own answer"
    );
}

#[tokio::test]
async fn no_second_name_in_a_form_brings_guesses_past_the_limit() {
    // Goal: PHP reads the last of several names that become `email`, and the query where the form has none. Method: three hundred guesses
    // at one account, each beside a fresh name; then the account by FormData, which browsers send.
    let origin = site();
    let gateway = kit("login", &origin).start().await;
    let names = [
        "+email", "email%00", "email[]", "[email]", "Email", "%20email",
    ];
    for n in 0..300 {
        let fields = format!("{n}@a.test&{}=ann%40a.test", names[n % names.len()]);
        let answer = gateway.send(login("192.0.2.1", &fields, "wrong")).await;
        assert!(matches!(answer.status, 400 | 429), "{fields}: {answer:?}");
    }
    let beside = post("/login?email=ann%40a.test")
        .forwarded_for("192.0.2.1")
        .header("content-type", "application/x-www-form-urlencoded")
        .body("email=bob%40a.test&password=wrong");
    assert_eq!(gateway.send(beside).await.status, 400);
    assert_eq!(origin.count(), 0);
    let passed = guesses_before(&gateway, "guesses", 5, |_| {
        let part = |name, value| {
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let form = part("email", "Ann@a.test") + &part("password", "wrong") + "--b--\r\n";
        post("/login")
            .forwarded_for("198.51.100.7")
            .header("content-type", "multipart/form-data; boundary=b")
            .body(form)
    })
    .await;
    assert_eq!(passed, 5);
}
