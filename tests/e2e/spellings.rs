//! A limited path cannot be walked around by spelling it otherwise.
//!
//! What counts is what the origin takes a path for, so a real nginx is asked, which decodes, merges and resolves; and what a gateway
//! sends on is read as every other origin might: decoded never, once or twice, with and without parameters, backslashes, dots.

use crate::harness::*;

/// The plain path, and every other way to write it that we know of, and some that mean something else.
const SPELLINGS: [&str; 92] = [
    "/auth/sendOTP",
    "/auth/sendOTP/",
    "/auth/sendOTP//",
    "/auth/sendOTP?",
    "/auth/sendOTP?x=1",
    "/auth/sendOTP?/../../x",
    "/auth/sendOTP#x",
    "/x#/../auth/sendOTP",
    "//auth/sendOTP",
    "///auth/sendOTP",
    "/auth//sendOTP",
    "/./auth/sendOTP",
    "/auth/./sendOTP",
    "/auth/sendOTP/.",
    "/../auth/sendOTP",
    "/../../auth/sendOTP",
    "/x/../auth/sendOTP",
    "/auth/x/../sendOTP",
    "/auth/sendOTP/x/..",
    "/auth/sendOTP/../sendOTP",
    "/%2e/auth/sendOTP",
    "/%2E%2e/auth/sendOTP",
    "/x/%2e%2e/auth/sendOTP",
    "/x/.%2e/auth/sendOTP",
    "/auth/%2e/../sendOTP",
    "/auth/.%2E/../sendOTP",
    "//auth/sendOTP/.%2e/..",
    "/auth/sendOTP/%2e%2e/../",
    "/auth/.;/../sendOTP",
    "/auth//%2e/../../sendOTP",
    "/auth\\%2e\\..\\sendOTP",
    "/auth/sendOTP;",
    "/auth/sendOTP;x=1",
    "/auth;x=1/sendOTP",
    "/;x/auth/sendOTP",
    "/;/auth/sendOTP",
    "/auth/;x/sendOTP",
    "/auth/sendOTP/;x",
    "/..;/auth/sendOTP",
    "/x/..;/auth/sendOTP",
    "/auth/sendOTP/..;/",
    "/auth/sendOTP/..;/sendOTP",
    "/auth/sendOTP%3bx=1",
    "/auth%2fsendOTP",
    "/auth%2FsendOTP",
    "/%2fauth/sendOTP",
    "/auth/sendOTP%2f",
    "%2fauth/sendOTP",
    "/%61uth/sendOTP",
    "/%61%75%74%68/%73%65%6e%64%4f%54%50",
    "/auth/send%4fTP",
    "/auth/sendOT%50",
    "/%2561uth/sendOTP",
    "/%252561uth/sendOTP",
    "/%25%36%31uth/sendOTP",
    "/auth%252fsendOTP",
    "/x/%252e%252e/auth/sendOTP",
    "/auth\\sendOTP",
    "\\auth\\sendOTP",
    "/auth%5csendOTP",
    "/x\\..\\auth/sendOTP",
    "/x%5c..%5cauth/sendOTP",
    "/auth/sendOTP%00",
    "/auth/sendOTP%00.png",
    "/auth/sendOTP%2500",
    "/auth/sendOTP%0a",
    "/auth/sendOTP%0d%0aX-A:%20b",
    "/auth/sendOTP%09",
    "/auth%c0%afsendOTP",
    "/x/%c0%ae%c0%ae/auth/sendOTP",
    "/auth%e0%80%afsendOTP",
    "/%c1%a1uth/sendOTP",
    "/auth/send%u004fTP",
    "/auth/sendOTP%",
    "/auth/sendOTP%2",
    "/auth/sendOTP%zz",
    "http://a/auth/sendOTP",
    "HTTP://a/auth/sendOTP",
    "http://a//auth/sendOTP",
    "http://a/x/../auth/sendOTP",
    "http://user@a/auth/sendOTP",
    "http://b/auth/sendOTP",
    "https://a/auth/sendOTP",
    "//a/auth/sendOTP",
    "auth/sendOTP",
    "*",
    "/AUTH/sendOTP",
    "/auth/sendotp",
    "/auth/sendOTP%20",
    "/auth/sendOTP.",
    "/auth/sendOTP.json",
    "/auth/sendOTPs",
];

/// Methods that some origin may take for POST.
const METHODS: [&str; 3] = ["POST", "post", "Post"];

const PATH: &str = "/auth/sendOTP";

/// One request an hour, and it is used up.
const RULES: &str = r#"
    [limit.otp]
    key = "global"
    rates = ["1 per 1h"]
    [[route]]
    path = "/auth/sendOTP"
    methods = ["POST"]
    limits = ["otp"]
    origin = "app"
    [[route]]
    path = "/*"
    origin = "app"
"#;

/// The answer, or why there is none.
async fn ask(gateway: &Gateway, method: &str, spelling: &str) -> Result<Response, String> {
    let mut raw = gateway.raw().await;
    raw.write(format!(
        "{method} {spelling} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
    ))
    .await;
    raw.try_read_response().await
}

#[tokio::test]
async fn no_spelling_reaches_the_limited_path_of_nginx() {
    // Goal: a limit on one path holds for all that nginx takes for it. Method: nginx says which of its locations it took; after the one
    // request that the limit allows, no spelling may be answered by the limited one.
    let nginx = Nginx::start(
        "location = /auth/sendOTP { return 200 \"otp\"; } location / { return 200 \"other\"; }",
    )
    .await;
    let gateway = Setup::new()
        .servers("app", &[nginx.address()])
        .rules(RULES)
        .start()
        .await;
    assert_eq!(gateway.post(PATH).await.text(), "otp");
    let mut answers = 0;
    for spelling in SPELLINGS {
        for method in METHODS {
            let answer = ask(&gateway, method, spelling).await.unwrap();
            assert_ne!(answer.text(), "otp", "{method} {spelling}");
            answers += usize::from(answer.text() == "other");
        }
    }
    assert!(answers > 0, "nothing reached nginx");
}

#[tokio::test]
async fn no_spelling_is_sent_on_that_any_origin_may_take_for_the_limited_path() {
    // Goal: the same for origins that we do not run. Method: what an origin is sent is read in every way that is known of one; none may
    // give the limited path.
    let origin = Origin::answering(|_| Answer::new(200).into());
    let gateway = Gateway::before(&origin, RULES).await;
    assert_eq!(gateway.post(PATH).await.status, 200);
    let mut passed = Vec::new();
    for spelling in SPELLINGS {
        for method in METHODS {
            let before = origin.count();
            let status = ask(&gateway, method, spelling).await.unwrap().status;
            assert!(
                matches!(status, 200 | 400 | 429),
                "{method} {spelling}: {status}"
            );
            if let Some(sent) = origin.requests().get(before) {
                passed.push((spelling, sent.target.clone()));
                let taken = readings(&sent.target);
                assert!(
                    !taken.iter().any(|path| path == PATH),
                    "{method} {spelling} was sent on as {:?}",
                    sent.target
                );
            }
        }
    }
    // Only what no reading takes for the path is left.
    let mut left: Vec<_> = passed.iter().map(|(spelling, _)| *spelling).collect();
    left.dedup();
    assert_eq!(left, ["/auth/sendOTPs"], "{passed:?}");
}

#[tokio::test]
async fn spellings_are_judged_alike_over_http2() {
    // Goal: no way around by another protocol. Method: every spelling that an HTTP/2 client can send.
    let origin = Origin::answering(|_| Answer::new(200).into());
    let gateway = Gateway::before(&origin, RULES).await;
    assert_eq!(gateway.post(PATH).await.status, 200);
    let mut asked = 0;
    for spelling in SPELLINGS {
        let sendable = format!("http://a{spelling}").parse::<http::Uri>().is_ok();
        if !spelling.starts_with('/') || !sendable || spelling.contains('#') {
            continue;
        }
        asked += 1;
        let before = origin.count();
        let status = gateway.h2c().await.send(post(spelling)).await.status;
        assert!(matches!(status, 200 | 400 | 429), "{spelling}: {status}");
        if let Some(sent) = origin.requests().get(before) {
            let taken = readings(&sent.target);
            assert!(
                !taken.iter().any(|path| path == PATH),
                "{spelling}: {:?}",
                sent.target
            );
        }
    }
    assert!(asked >= 60, "{asked}");
}

/// Whether an origin does something to a path.
type Habit = fn(String) -> String;

/// Every path that an origin may take `target` for: each subset of the habits of origins, in the order in which origins have them.
fn readings(target: &str) -> Vec<String> {
    const HABITS: [Habit; 11] = [
        |path| path.split('#').next().unwrap().to_owned(),
        resolved,
        |path| resolved(path.replace('\\', "/")),
        without_parameters,
        |path| decoded(&path),
        |path| decoded(&path),
        |path| decoded(&path),
        |path| path.split('\0').next().unwrap().to_owned(),
        |path| path.replace('\\', "/"),
        merged,
        resolved,
    ];
    let path = target.split('?').next().unwrap();
    let mut readings = vec![path.to_owned()];
    for habit in HABITS {
        let after: Vec<String> = readings.iter().cloned().map(habit).collect();
        readings.extend(after);
        readings.sort();
        readings.dedup();
    }
    let ends = readings
        .iter()
        .map(|path| path.trim_end_matches('/').to_owned());
    ends.collect()
}

fn decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut plain = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let escaped = path.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn without_parameters(path: String) -> String {
    let segments = path.split('/');
    let cut: Vec<&str> = segments
        .map(|segment| segment.split(';').next().unwrap())
        .collect();
    cut.join("/")
}

fn merged(path: String) -> String {
    let mut merged = String::new();
    for character in path.chars() {
        if character != '/' || !merged.ends_with('/') {
            merged.push(character);
        }
    }
    merged
}

fn resolved(path: String) -> String {
    let mut stack: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(stack.pop()),
            _ => stack.push(segment),
        }
    }
    format!("/{}", stack.join("/"))
}
