//! Bodies that an origin may read in another way than the gateway, before the examples that count by what is in a body.

use super::{json, kit};
use crate::harness::*;

/// Parameters by which some origin decodes the body as UTF-7.
const CHARSETS: [&str; 10] = [
    "charset=utf-7",
    "charset*=''utf-7",
    "charset*0=utf-7",
    "CHARSET*=''utf-7",
    "xcharset=utf-7",
    "a=\"charset=utf-7\"",
    "profile=\"; charset=utf-7\"",
    "charset=utf-8; charset=utf-7",
    "charset =utf-7",
    "charset=\"utf-\\7\"",
];

#[tokio::test]
async fn no_charset_sends_a_second_code_to_a_number() {
    // Goal: codes go to the number that is counted. Method: bodies with a fresh number each, in which a decoder of UTF-7 finds a second
    // member with the number of a victim, under every parameter.
    let origin = Origin::echo();
    let gateway = kit("send-otp", &origin).start().await;
    for (fresh, charset) in CHARSETS.into_iter().enumerate() {
        let body = format!(
            "{{\"phone\":\"0151 1000{fresh:04}\",\"x\":\"+ACI-,+ACI-phone+ACI-:+ACI-015112345678\"}}"
        );
        let request = post("/auth/sendOTP")
            .forwarded_for("192.0.2.1")
            .header("content-type", &format!("application/json; {charset}"))
            .body(body);
        gateway.send(request).await.assert_problem(400);
    }
    assert_eq!(origin.count(), 0);
    let plain = json("/auth/sendOTP", "192.0.2.1", "{\"phone\":\"015112345678\"}");
    assert_eq!(gateway.send(plain).await.status, 200);
}

#[tokio::test]
async fn no_form_hides_the_account_that_is_guessed_at() {
    // Goal: a guess is counted at the account that the site reads. Method: urlencoded forms with the account in UTF-7, under every
    // parameter, and multipart forms with the account in a part that some parser takes for the key's.
    let origin = Origin::echo();
    let gateway = kit("login", &origin).start().await;
    let guess = |kind: &str, body: String| {
        post("/login")
            .forwarded_for("192.0.2.1")
            .header("content-type", kind)
            .body(body)
    };
    for charset in CHARSETS {
        let kind = format!("application/x-www-form-urlencoded; {charset}");
        let body = "email=%2BAGEAbgBu-%40a.test&password=x".to_owned();
        gateway.send(guess(&kind, body)).await.assert_problem(400);
    }
    for (fresh, head) in [
        "Content-Disposition: form-data; filename=\",name=email\"; name=\"x\"",
        "Content-Disposition: form-data; name=\"x\"; filename*=\"; name=email\"",
        "Content-Disposition: form-data; name=\"x\"; filename=\"x; name=email\"",
        "Content-Disposition: form-data; name=\"\"; filename=\"email\"",
        "Content-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n----bound1xxContent-Disposition: form-data; name=\"email\"",
    ]
    .into_iter()
    .enumerate()
    {
        let body = format!(
            "------bound1\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\nf{fresh}@a.test\r\n\
             ------bound1\r\n{head}\r\n\r\nann@a.test\r\n------bound1--\r\n"
        );
        let kind = "multipart/form-data; boundary=----bound1";
        gateway.send(guess(kind, body)).await.assert_problem(400);
    }
    assert_eq!(origin.count(), 0);
}
