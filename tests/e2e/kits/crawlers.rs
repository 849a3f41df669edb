//! `crawlers.toml`: search engines pass, who only claims to be one is limited, crawlers for AI share one budget.

use super::{assert_refused_by, kit_with, passes_before};
use crate::harness::*;

const GOOGLEBOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
const GPTBOT: &str = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot";

async fn start(origin: &Origin) -> Gateway {
    let ranges = concat!(env!("CARGO_MANIFEST_DIR"), "/conf/examples/crawlers/");
    let more = [("\"crawlers/", format!("\"{ranges}"))];
    let more: Vec<(&str, &str)> = more.iter().map(|(from, to)| (*from, &**to)).collect();
    kit_with("crawlers", origin.address(), &more).start().await
}

fn page(user_agent: &str, client: &str) -> Request {
    get("/")
        .forwarded_for(client)
        .header("user-agent", user_agent)
}

#[tokio::test]
async fn a_search_engine_passes_and_who_claims_to_be_one_is_limited() {
    // Goal: the user agent alone buys nothing, and costs a real search engine nothing. Method: more pages than anybody may ask for from an
    // address of Google's, and from another one; a browser between them keeps its own limit.
    let origin = Origin::named("site");
    let gateway = start(&origin).await;
    for at in 0..150 {
        let address = ["66.249.66.1", "2001:4860:4801:10::7"][at % 2];
        assert_eq!(
            gateway.send(page(GOOGLEBOT, address)).await.status,
            200,
            "{at}"
        );
    }
    let claims = |_| page(GOOGLEBOT, "192.0.2.1");
    assert_eq!(passes_before(&gateway, "unverified", 10, claims).await, 10);
    assert_refused_by(
        "unverified",
        &gateway.send(page("gOOgLEbOT", "192.0.2.1")).await,
    );
    // A crawler that publishes nothing can prove nothing.
    let unpublished = |_| page("Mozilla/5.0 (compatible; Bytespider)", "192.0.2.2");
    assert_eq!(
        passes_before(&gateway, "unverified", 10, unpublished).await,
        10
    );
    let browser = page("Mozilla/5.0 (X11; Linux x86_64)", "192.0.2.1");
    assert_eq!(gateway.send(browser).await.status, 200);
}

#[tokio::test]
async fn crawlers_for_ai_share_one_budget() {
    // Goal: the group is one key, whatever the address. Method: pages from two networks of the crawler until one is refused; then another
    // address of it, and a search engine.
    let origin = Origin::named("site");
    let gateway = start(&origin).await;
    let from = |at: usize| ["20.171.206.9", "52.230.152.7"][at % 2];
    let passed = passes_before(&gateway, "ai", 300, |at| page(GPTBOT, from(at))).await;
    assert_eq!(passed, 300);
    assert_refused_by("ai", &gateway.send(page(GPTBOT, "52.230.152.200")).await);
    assert_eq!(
        gateway.send(page(GOOGLEBOT, "66.249.64.1")).await.status,
        200
    );
}
