//! No method and no spelling of the path goes around the limits of what ships, before an origin that takes all of them.

use super::{json, kit};
use crate::harness::*;

const METHODS: [&str; 7] = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "GET"];

/// What some framework takes for a path: in another case, behind a front controller, with an ending, as a reference of a URL.
fn spellings(path: &str) -> Vec<String> {
    let (last, parent) = (
        path.rsplit('/').next().unwrap(),
        path.rsplit_once('/').unwrap().0,
    );
    vec![
        path.to_owned(),
        path.to_ascii_lowercase(),
        path.to_ascii_uppercase(),
        format!("{path}/"),
        format!("/index.php{path}"),
        format!("/INDEX.PHP{path}"),
        format!("//x{path}"),
        format!("/\\x{path}"),
        format!("/x/..{path}"),
        format!("/?{path}"),
        format!("{path};/x"),
        format!("{parent}//../{last}"),
        format!("{parent}/%2e/{last}"),
    ]
}

/// Asserts that nothing reaches the origin, whatever the method and the spelling.
async fn assert_closed(
    gateway: &Gateway,
    origin: &Origin,
    paths: Vec<String>,
    request: impl Fn(&str) -> Request,
) {
    let before = origin.count();
    for path in paths {
        for method in METHODS {
            let answer = gateway.send(request(&path).by(method)).await;
            assert!(
                matches!(answer.status, 400 | 413 | 429),
                "{method} {path}: {answer:?}"
            );
        }
    }
    assert_eq!(origin.count(), before);
}

#[tokio::test]
async fn a_number_gets_three_codes_by_any_method_and_path() {
    // Goal: `send-otp.toml` holds before `app.all`, Rails and Windows too. Method: a number whose three codes are used up, in every way.
    let origin = Origin::named("auth");
    let gateway = kit("send-otp", &origin).start().await;
    let send = |path: &str| json(path, "192.0.2.1", "{\"phone\": \"+4915112345678\"}");
    for _ in 0..3 {
        assert_eq!(gateway.send(send("/auth/sendOTP")).await.status, 200);
    }
    let mut paths = spellings("/auth/sendOTP");
    paths.extend(["json", "", "%20", "x"].map(|end| format!("/auth/sendOTP.{end}")));
    assert_closed(&gateway, &origin, paths, send).await;
}

#[tokio::test]
async fn an_account_gets_five_guesses_by_any_method_and_path() {
    // Goal: `login.toml` holds for a login in the URL too. Method: guesses of one client at one account, after five by POST and one by
    // GET.
    let origin = Origin::answering(|_| Answer::new(401).into());
    let gateway = kit("login", &origin).start().await;
    let guess = |path: &str| {
        post(path)
            .forwarded_for("192.0.2.1")
            .header("content-type", "application/x-www-form-urlencoded")
            .body("email=ann%40a.test&password=wrong")
    };
    for _ in 0..5 {
        assert_eq!(gateway.send(guess("/login")).await.status, 401);
    }
    let in_url = || get("/login?email=ann@a.test&password=wrong").forwarded_for("198.51.100.1");
    assert_eq!(gateway.send(in_url()).await.status, 401);
    assert_eq!(gateway.send(in_url()).await.status, 429);
    let mut paths = spellings("/login");
    paths.extend(["/login.json", "/Login.", "/login?email=ann@a.test"].map(str::to_owned));
    assert_closed(&gateway, &origin, paths, guess).await;
    let form = get("/login").forwarded_for("198.51.100.1");
    assert_eq!(
        gateway.send(form).await.status,
        401,
        "the site's own answer"
    );
}

#[tokio::test]
async fn the_smallest_file_holds_for_any_method_and_path() {
    // Goal: the example of the README is as strict as the shipped one. Method: the file of the README and the one that ships, with an
    // hour in place of seconds.
    let readme = project_file("README.md");
    for file in [
        blocks(&readme, "toml")[0],
        &project_file("conf/gateway.toml"),
    ] {
        let origin = Origin::named("app");
        let file = file
            .replace("0.0.0.0:8080", "{listener}")
            .replace("127.0.0.1:3000", &origin.address().to_string())
            .replace("per 10s", "per 1h");
        let gateway = Setup::new()
            .whole(&format!("{file}\n[admin]\naddress = \"{{admin}}\"\n"))
            .start()
            .await;
        let mut passed = 0;
        while gateway.post("/auth/sendOTP").await.status == 200 {
            passed += 1;
        }
        assert_eq!(passed, 5);
        let paths = spellings("/auth/sendOTP");
        assert_closed(&gateway, &origin, paths, |path| post(path).body("x")).await;
        assert_eq!(gateway.get("/").await.status, 200);
    }
}
