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
    // Goal: five guesses at an account, spelt as one likes, one by one or at once; who owns it logs in from elsewhere all the time.
    // Method: guesses of one client, then fifty at once of another, then the owner.
    let origin = site();
    let gateway = kit("login", &origin).start().await;
    let spellings = ["ann%40a.test", "ANN@a.test", "+Ann%40A.test+"];
    let passed = guesses_before(&gateway, "guesses", 5, |n| {
        login("192.0.2.1", spellings[n % 3], "wrong")
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
    let other = login("192.0.2.1", "bob@a.test", "right");
    assert_eq!(gateway.send(other).await.status, 200);
    let nobody = post("/login").forwarded_for("203.0.113.1");
    gateway.send(nobody).await.assert_problem(400);
    assert_eq!(origin.count(), 51);
}

#[tokio::test]
async fn guesses_from_everywhere_and_at_everybody_are_counted_too() {
    // Goal: the three wider limits. Method: one account from many networks, many accounts from one client, many accounts from one
    // network; none of it closes the site itself.
    let origin = site();
    let gateway = kit("login", &origin).start().await;
    let passed = guesses_before(&gateway, "account", 30, |n| {
        login(&format!("10.1.{n}.1"), "ann@a.test", "wrong")
    })
    .await;
    assert!((30..=31).contains(&passed), "{passed}");
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
