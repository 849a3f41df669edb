//! Forms of values against those who respell them: spellings of one account or mailbox share a counter, and what is neither is refused.

use crate::harness::*;

/// Two an hour by the parameter `v` in this form, answered here.
fn two_by(form: &str) -> String {
    format!(
        "[limit.k]\nkey = \"query.v | {form}\"\non_missing = \"refuse\"\nrates = [\"2 per hour\"]\n\
         [[route]]\npath = \"/*\"\nlimits = [\"k\"]\nrespond = {{ status = 200 }}\n"
    )
}

/// A request with this value, every byte of which is escaped.
fn with(value: &str) -> Request {
    let escaped: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
    get(&format!("/?v={escaped}"))
}

#[tokio::test]
async fn spellings_of_an_account_share_a_counter() {
    // Goal: what a database compares equal is one key. Method: after two requests for an account, spellings with characters that
    // collations ignore or take for its letters and digits; then another account, and a text that folds to more than counts.
    let gateway = Gateway::start(&two_by("fold")).await;
    for spelling in ["victim1", "V\u{ed}ctim1"] {
        assert_eq!(gateway.send(with(spelling)).await.status, 200);
    }
    for spelling in [
        "vic\u{1cd3}tim1",
        "vic\u{6de}tim1",
        "vic\u{ad}tim1",
        "victim\u{10107}",
        "victim\u{9f4}",
        "v\u{365}ctim1",
        "𝓿ictim①",
        "ｖｉｃｔｉｍ１",
    ] {
        assert_eq!(gateway.send(with(spelling)).await.status, 429, "{spelling}");
    }
    assert_eq!(gateway.send(with("victim2")).await.status, 200);
    let growing = gateway.send(with(&"\u{fdfa}".repeat(300))).await;
    growing.assert_problem(400);
}

#[tokio::test]
async fn an_address_is_one_mailbox_or_refused() {
    // Goal: no spelling of a mailbox has a counter of its own. Method: after two requests for one, its other addresses, and spellings
    // that only some parsers read as it; then another mailbox.
    let gateway = Gateway::start(&two_by("email")).await;
    for address in ["victim@gmail.com", "v.ictim+1@GoogleMail.com"] {
        assert_eq!(gateway.send(with(address)).await.status, 200);
    }
    for address in [
        "Victim@gmail.com",
        "vic.tim+a+b@gmail.com",
        "victim@gmail.com.",
    ] {
        assert_eq!(gateway.send(with(address)).await.status, 429, "{address}");
    }
    for address in [
        "\"v\\ict\\im\"@gmail.com",
        "x1<victim@gmail.com>",
        "victim(c)@gmail.com",
        "victim@gmail.com,y@z.test",
        "=?utf-8?q?victim?=@gmail.com",
        "victim@a@gmail.com",
        "vic\u{200b}tim@gmail.com",
        "victim@gmail\u{3002}com",
        "victim@ｇｍａｉｌ.com",
        "victim%gmail.com@gmail.com",
    ] {
        assert_eq!(gateway.send(with(address)).await.status, 400, "{address}");
    }
    assert_eq!(gateway.send(with("other@gmail.com")).await.status, 200);
}
