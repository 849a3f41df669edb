//! What fails fails alone: a name that does not resolve and a file that is broken leave everything else to work (contract C5).

use std::fs;

use crate::harness::*;

/// A name that exists nowhere, RFC 6761 §6.4.
const DEAD: &str = "app.sluicegate.invalid:80";

/// Two origins, one of which is `name`, and a version to tell configurations apart by.
fn beside(origin: &Origin, name: &str, version: &str) -> String {
    format!(
        "[origin.good]\nservers = [\"{}\"]\n[origin.dead]\nservers = [\"{name}\"]\nresolve_every = \"200ms\"\n\
         [[route]]\npath = \"/dead\"\norigin = \"dead\"\n[[route]]\npath = \"/*\"\norigin = \"good\"\n\
         [[route]]\npath = \"/version\"\nrespond = {{ status = 200, body = \"{version}\" }}\n",
        origin.address()
    )
}

async fn assert_only_dead_fails(gateway: &Gateway) {
    assert_eq!(gateway.get("/").await.status, 200);
    let answer = gateway.get("/dead").await;
    assert_eq!(answer.status, 503);
    let line = gateway.lines_of(&[answer]).await.remove(0);
    assert_eq!(line["failure"], "resolve", "{line}");
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains(DEAD), "{reason}");
    let metrics = gateway.metrics().await;
    let of = |origin| metrics.sum("sluicegate_origin_names_unresolved", &[("origin", origin)]);
    assert_eq!((of("dead"), of("good")), (1.0, 0.0));
}

#[tokio::test]
async fn a_start_with_a_name_that_does_not_resolve_serves_the_rest() {
    // Goal: one dead name is one origin without servers. Method: start with it beside a good one; then a reload gives it an address, and
    // another takes it away again.
    let origin = Origin::echo();
    let mut gateway = Gateway::start(&beside(&origin, DEAD, "first")).await;
    assert_only_dead_fails(&gateway).await;
    let log = gateway.stderr();
    let warning = format!("\"{DEAD}\" does not resolve: ");
    assert!(log.contains(&warning), "{log}");

    let alive = beside(&origin, &origin.address().to_string(), "second");
    gateway.reload(&alive).await;
    assert_eq!(gateway.get("/dead").await.status, 200);
    gateway.reload(&beside(&origin, DEAD, "third")).await;
    assert_eq!(gateway.get("/version").await.text(), "third");
    assert_only_dead_fails(&gateway).await;
}

#[tokio::test]
async fn an_origin_whose_name_resolves_later_is_served() {
    // Goal: a name that does not resolve at the start, such as that of a container which starts last, needs no reload. Method: a hosts
    // file of
    // the gateway's own, into which the name is written while requests get 503.
    let origin = Origin::echo();
    let name = format!("late.sluicegate.invalid:{}", origin.address().port());
    let local = "127.0.0.1 localhost\n";
    let setup = Setup::new()
        .file("hosts", local)
        .rules(&beside(&origin, &name, "only"))
        .with_hosts("hosts");
    let Some(setup) = setup else {
        eprintln!("not tried: this system gives no mount namespaces (unshare -rm)");
        return;
    };
    let gateway = setup.start().await;
    assert_eq!(gateway.get("/").await.status, 200);
    assert_eq!(gateway.get("/dead").await.status, 503);
    let known = format!("{local}127.0.0.1 late.sluicegate.invalid\n");
    fs::write(gateway.directory().join("hosts"), known).unwrap();
    eventually("the name is found", async || {
        (gateway.get("/dead").await.status == 200).then_some(())
    })
    .await;
    let metrics = gateway.metrics().await;
    let unresolved = [("origin", "dead")];
    assert_eq!(
        metrics.sum("sluicegate_origin_names_unresolved", &unresolved),
        0.0
    );
}

/// Everything about the one client of a test: a list that blocks it, and one that names a partner.
fn listed() -> &'static str {
    "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\nblock = [\"bad\"]\n[list.bad]\nfile = \"../bad.txt\"\n\
     [limit.api]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\noverrides = \"../tiers.csv\"\n\
     [[route]]\npath = \"/\"\nrespond = { status = 200 }\nlimits = [\"api\"]\n"
}

async fn status_of(gateway: &Gateway, client: &str) -> u16 {
    gateway.send(get("/").forwarded_for(client)).await.status
}

#[tokio::test]
async fn a_start_with_broken_files_serves_with_what_can_be_read_of_them() {
    // Goal: a start is not lost for a line of a list. Method: a list with one good line and a bad one, no file of tiers at all; what
    // holds,
    // and who is told. Then both files are mended.
    let gateway = Setup::new()
        .file("bad.txt", "192.0.2.1\nhost.test\n")
        .rules(listed())
        .start()
        .await;
    assert_eq!(status_of(&gateway, "192.0.2.1").await, 403);
    assert_eq!(status_of(&gateway, "192.0.2.2").await, 200);
    // Without tiers the limit holds for everybody.
    assert_eq!(status_of(&gateway, "192.0.2.2").await, 429);
    let metrics = gateway.metrics().await;
    for kind in ["list", "limit"] {
        let lost = [("kind", kind), ("content", "lost")];
        assert_eq!(metrics.sum("sluicegate_config_file_broken", &lost), 1.0);
    }
    let log = gateway.stderr();
    assert!(
        log.contains("only the addresses that could be read are listed"),
        "{log}"
    );
    assert!(
        log.contains("the rates of the limit hold for every key"),
        "{log}"
    );

    let rows = "client.ip,rates\n192.0.2.2,unlimited\n";
    fs::write(gateway.directory().join("tiers.csv"), rows).unwrap();
    fs::write(gateway.directory().join("bad.txt"), "192.0.2.3\n").unwrap();
    eventually("both files are in force", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_config_file_broken", &[]) == 0.0).then_some(())
    })
    .await;
    assert_eq!(status_of(&gateway, "192.0.2.2").await, 200);
    assert_eq!(status_of(&gateway, "192.0.2.3").await, 403);
}

#[tokio::test]
async fn a_reload_with_broken_files_applies_the_rest() {
    // Goal: rules change while a file is broken, and what the file said stays; unless it cannot stay, which refuses the reload. Method:
    // both files vanish, then the rules change in two ways.
    let origin_less = listed();
    let mut gateway = Setup::new()
        .file("bad.txt", "192.0.2.1\n")
        .file("tiers.csv", "client.ip,rates\n192.0.2.2,unlimited\n")
        .rules(origin_less)
        .start()
        .await;
    for name in ["bad.txt", "tiers.csv"] {
        fs::remove_file(gateway.directory().join(name)).unwrap();
    }
    let both_kept = async || {
        let metrics = gateway.metrics().await;
        let kept = metrics.sum("sluicegate_config_file_broken", &[("content", "kept")]);
        (kept == 2.0).then_some(())
    };
    eventually("both files are missed", both_kept).await;
    let more = format!(
        "{origin_less}[[route]]\npath = \"/new\"\nrespond = {{ status = 200, body = \"new\" }}\n"
    );
    gateway.reload(&more).await;
    assert_eq!(
        gateway
            .send(get("/new").forwarded_for("192.0.2.9"))
            .await
            .text(),
        "new"
    );
    assert_eq!(status_of(&gateway, "192.0.2.1").await, 403);
    for _ in 0..3 {
        assert_eq!(status_of(&gateway, "192.0.2.2").await, 200);
    }
    assert!(
        gateway
            .stderr()
            .contains("its content before that stays in force")
    );

    let other_periods = more.replace("1 per 1h", "1 per 2h");
    gateway.write_rules(&other_periods, Writing::Rename);
    eventually("the reload is refused", async || {
        let status = gateway.status().await;
        let error = status["configuration"]["last_reload"]["error"]
            .as_str()?
            .to_owned();
        error
            .contains("its content in force is made for other rates")
            .then_some(())
    })
    .await;
    assert_eq!(status_of(&gateway, "192.0.2.2").await, 200);
}

#[tokio::test]
async fn a_key_file_that_vanishes_keeps_its_keys() {
    // Goal: tokens stay valid while their key file is missing; without any key none is valid. Method: remove the file and reload;
    // restart without.
    let rules = "[jwt]\nalgorithms = [\"HS256\"]\nkey_file = \"../secret\"\n\
        [limit.user]\nkey = \"jwt.sub\"\nrates = [\"9 per 1h\"]\non_missing = \"refuse\"\n\
        [[route]]\npath = \"/\"\nrespond = { status = 200 }\nlimits = [\"user\"]\n";
    let secret = "0123456789abcdef0123456789abcdef";
    // {"alg":"HS256"}.{"sub":"ann","exp":4102444800}
    let claims = serde_json::json!({ "sub": "ann", "exp": 4_102_444_800_u64 });
    let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
    let token = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap();
    let ask = || get("/").bearer(&token);
    let mut gateway = Setup::new()
        .file("secret", secret)
        .rules(rules)
        .start()
        .await;
    assert_eq!(gateway.send(ask()).await.status, 200);
    fs::remove_file(gateway.directory().join("secret")).unwrap();
    let other = rules.replace("9 per 1h", "8 per 1h");
    gateway.reload(&other).await;
    assert_eq!(gateway.send(ask()).await.status, 200);
    let without = Setup::new().rules(rules).start().await;
    assert_eq!(without.send(ask()).await.status, 400);
}

#[tokio::test]
async fn check_offline_looks_at_the_text_alone() {
    // Goal: a build machine has neither names nor certificates. Method: a file that needs both and orders one more, with and without a
    // mistake in its text.
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:1\"\n[listener.tls]\n\
         certificates = [{{ cert_file = \"none.pem\", key_file = \"none.key\" }}]\nacme = [\"a.test\"]\n\
         [acme]\naccept_terms = true\ndir = \"none\"\n\
         [admin]\naddress = \"127.0.0.1:2\"\ntoken_file = \"none\"\n\
         [origin.app]\nservers = [\"{DEAD}\"]\ntls = {{ ca_file = \"none.pem\" }}\n\
         [limit.otp]\nkey = \"tls.ja4\"\nrates = [\"5 per 10s\"]\non_missing = \"ip\"\n\
         [[route]]\npath = \"/\"\norigin = \"app\"\nlimits = [\"otp\"]\n"
    );
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("gateway.toml");
    let check = async |text: &str, arguments: &[&str]| {
        fs::write(&path, text).unwrap();
        let all = [&["check", path.to_str().unwrap()], arguments].concat();
        let mut process = Process::run(&all);
        (process.exit_code().await, process.stderr())
    };
    let (code, said) = check(&text, &[]).await;
    assert!(code == 64 && said.contains("none.pem"), "{said}");
    let (code, said) = check(&text, &["--offline"]).await;
    assert!(code == 0 && said.contains("good, as far as"), "{said}");
    assert!(!said.contains("warning"), "{said}");
    let (code, said) = check(&text.replace("5 per 10s", "5 for 10s"), &["--offline"]).await;
    assert!(code == 64 && said.contains("5 for 10s"), "{said}");
}
