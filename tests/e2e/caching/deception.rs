//! Web cache deception: a private page that is asked for under a name that is cached, and other treatments of a route that a spelling of
//! a path could give to another.

use super::*;

/// Ways up from below a folder, as some origin reads them; `{page}` follows.
const WAYS: [&str; 22] = [
    "/{folder}/..%2f{page}",
    "/{folder}/..%2F{page}",
    "/{folder}/%2e%2e%2f{page}",
    "/{folder}/%2E%2e/{page}",
    "/{folder}/.%2e%2F{page}",
    "/{folder}/x%2f..%2f..%2f{page}",
    "/{folder}/x/..%2f../{page}",
    "/{folder}/..%2f%2f{page}",
    "/{folder}/..%5c{page}",
    "/{folder}\\..\\{page}",
    "/{folder}/x%5C..%5c..%5C{page}",
    "/{folder}/..;/{page}",
    "/{folder}/..;x=y%2f..%2f{page}",
    "/{folder};/..%2f{page}",
    "/{folder}/..%3b/..%2f{page}",
    "/{folder}/..%252f{page}",
    "/{folder}%2f..%2f{page}",
    "/{page}%2f..%2f{folder}%2fx",
    "/{page};%2f..%2f{folder}/x",
    "//{folder}/{page}",
    "/{folder}/index.php/{page}",
    "/{folder}/../{page}",
];

fn spellings(folder: &str, page: &str) -> Vec<String> {
    let ways = WAYS.iter();
    ways.map(|way| way.replace("{folder}", folder).replace("{page}", page))
        .collect()
}

/// Asks with these lines in the head.
async fn ask(gateway: &Gateway, target: &str, lines: &str) -> Response {
    let mut raw = gateway.raw().await;
    let head = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n");
    raw.write(head).await;
    raw.try_read_response().await.unwrap()
}

/// Goal: no spelling of a private page is stored because the folder of public files is. Method: a real nginx as origin, with a page that
/// says whose it is; whoever has no session asks after the owner, and never sees the owner's page. Files of the folder are stored.
#[tokio::test]
async fn no_spelling_of_a_private_page_is_stored_as_a_public_file() {
    let nginx = Nginx::start(
        "location /static/ { return 200 \"public\"; } location / { return 200 \"page of $cookie_sid\"; }",
    )
    .await;
    let rules = "[[route]]\npath = \"/static/*\"\norigin = \"app\"\n\
         [route.cache]\ndefault_ttl = \"10m\"\ncookies = \"ignored\"\n[[route]]\npath = \"/*\"\norigin = \"app\"\n";
    let setup = Setup::new().servers("app", &[nginx.address()]).rules(rules);
    let gateway = setup.start().await;
    let mut served = 0;
    for target in spellings("static", "account") {
        let own = ask(&gateway, &target, "Cookie: sid=VICTIM\r\n").await;
        let other = ask(&gateway, &target, "").await;
        assert!(!other.text().contains("VICTIM"), "{target}: {other:?}");
        if own.text().contains("VICTIM") {
            // Spellings that no origin reads as a file pass.
            assert_eq!(own.header("cache-status"), None, "{target}");
            served += 1;
        } else {
            // nginx reads some as a file.
            let is_file = own.text() == "public";
            assert!(is_file || own.status == 400, "{target}: {own:?}");
        }
    }
    assert!(served < WAYS.len());
    let own = ask(&gateway, "/account", "Cookie: sid=VICTIM\r\n").await;
    assert_eq!(own.text(), "page of VICTIM");
    for file in [
        "/static/app.js",
        "/static//x.png",
        "/static/a%20b.png",
        "/static/a%2Fb.png",
        "/static/x.css;v=1",
    ] {
        for hit in [false, true] {
            let answer = ask(&gateway, file, "Cookie: sid=VICTIM\r\n").await;
            assert_eq!((answer.text(), is_hit(&answer)), ("public", hit), "{file}");
        }
    }
    for page in [
        "/",
        "/account//orders",
        "/api/group%2Fproject",
        "/@scope%2fname",
    ] {
        assert_eq!(ask(&gateway, page, "").await.status, 200, "{page}");
    }
}

/// Goal: a field by which an origin knows a service goes to the paths of that route alone. Method: a real nginx says which field came with
/// which page.
#[tokio::test]
async fn no_spelling_takes_the_fields_of_another_route() {
    let nginx = Nginx::start(
        "location /svc/ { return 200 \"svc of $http_x_role\"; } location / { return 200 \"page of $http_x_role\"; }",
    )
    .await;
    let rules = "[[route]]\npath = \"/svc/*\"\norigin = \"app\"\n\
         request_headers = { set = { x-role = \"service\" } }\n[[route]]\npath = \"/*\"\norigin = \"app\"\n";
    let setup = Setup::new().servers("app", &[nginx.address()]).rules(rules);
    let gateway = setup.start().await;
    for target in spellings("svc", "admin") {
        let answer = ask(&gateway, &target, "").await;
        assert_ne!(answer.text(), "page of service", "{target}");
    }
    assert_eq!(ask(&gateway, "/svc/x", "").await.text(), "svc of service");
    assert_eq!(ask(&gateway, "/admin", "").await.text(), "page of ");
}

/// Goal: a field with a part of the path says of it what the origin reads. Method: spellings in which origins see two tenants, and one in
/// which they see one.
#[tokio::test]
async fn a_field_of_a_part_of_the_path_has_one_value_in_all_readings() {
    let origin = Origin::echo();
    let rules = "[[route]]\npath = \"/{tenant}/*\"\norigin = \"app\"\n\
         request_headers = { set = { x-tenant = \"{path.tenant}\" } }\n";
    let gateway = Gateway::before(&origin, rules).await;
    for target in [
        "//evil/victim/x",
        "/evil%2f..%2fvictim/x",
        "/evil/../victim/x",
    ] {
        assert_eq!(ask(&gateway, target, "").await.status, 400, "{target}");
    }
    for target in ["/victim/x", "/victim//x;v=1"] {
        let answer = ask(&gateway, target, "").await;
        assert_eq!(answer.echo().header("x-tenant"), Some("victim"), "{target}");
    }
}
