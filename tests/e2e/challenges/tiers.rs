//! Tiers and rows of overrides together with a challenge.

use super::{Challenge, PAGES, visit};
use crate::harness::*;

/// The limit with tiers that a field of the trusted hop names, and a row for one address.
fn setup() -> Setup {
    let tiers = "unsolved = \"unsolved\"\ntier = \"header.x-plan\"\noverrides = \"../rows.csv\"\n\
                 [limit.pages.tiers]\npro = \"5 per 1h\"\nclosed = \"blocked\"";
    let rules = PAGES.replace("unsolved = \"unsolved\"", tiers);
    Setup::new()
        .file("rows.csv", "client.ip,rates\n192.0.2.9,1 per 1h\n")
        .rules(&rules)
}

/// The statuses of requests with this plan and cookie, up to the first that is not admitted, and that response.
async fn until_refused(
    client: &mut Client,
    address: &str,
    plan: &str,
    cookie: &str,
) -> (usize, Response) {
    let mut admitted = 0;
    loop {
        let mut asked = visit("/", address).header("x-plan", plan);
        if !cookie.is_empty() {
            asked = asked.header("cookie", cookie);
        }
        let response = client.send(asked).await;
        if response.status != 200 {
            return (admitted, response);
        }
        admitted += 1;
        assert!(admitted < 20);
    }
}

#[tokio::test]
async fn a_solution_has_the_rates_of_the_request_that_carries_it() {
    // Goal: tiers and rows go by the request's own key, with a solution and without, and a solution opens nothing that is blocked. Method:
    // a plan with larger rates, one that is blocked, and an address with a row; solutions of each, also in the hands of another plan.
    let gateway = setup().start().await;
    let mut client = gateway.client().await;
    let (admitted, page) = until_refused(&mut client, "192.0.2.1", "pro", "").await;
    assert_eq!(admitted, 5);
    let cookie = Challenge::of(&page).solved();
    let (admitted, page) = until_refused(&mut client, "192.0.2.1", "pro", &cookie).await;
    assert_eq!((admitted, page.status), (5, 429));
    // Without the plan the solution is used up too: it is one key.
    let (admitted, _) = until_refused(&mut client, "192.0.2.1", "none", &cookie).await;
    assert_eq!(admitted, 0);
    let second = Challenge::of(&page).solved();
    let (admitted, _) = until_refused(&mut client, "192.0.2.1", "none", &second).await;
    assert_eq!(admitted, 3);
    let (admitted, blocked) = until_refused(&mut client, "192.0.2.1", "closed", &second).await;
    assert_eq!((admitted, blocked.status), (0, 403));

    let (admitted, page) = until_refused(&mut client, "192.0.2.9", "none", "").await;
    assert_eq!(admitted, 1);
    let cookie = Challenge::of(&page).solved();
    let (admitted, _) = until_refused(&mut client, "192.0.2.9", "none", &cookie).await;
    assert_eq!(admitted, 1);
}
