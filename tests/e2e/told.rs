//! What the gateway says of its configuration: at the start, at a reload, and when asked.

use serde_json::Value;

use crate::harness::*;

const RULES: &str = "[limit.otp]\nkey = \"client.ip\"\nrates = [\"5 per 10s\"]\nalgorithm = \"exact\"\n\
    [request_headers]\nset = { X-Api-Key = \"hunter2\", X-Plain = \"hunter2\" }\n\
    [[route]]\npath = \"/verified\"\nheaders = { X-Origin-Verify = \"swordfish\" }\norigin = \"app\"\n\
    [[route]]\nname = \"send\"\npath = \"/send\"\nlimits = [\"otp\"]\norigin = \"app\"\n\
    [[route]]\npath = \"/*\"\norigin = \"app\"\n";

/// Runs `sluicegate reload` for the gateway: exit code and standard error.
async fn reload(gateway: &Gateway) -> (i32, String) {
    let file = gateway.config_path();
    let mut process = Process::run(&["reload", "--config", file.to_str().unwrap()]);
    (process.exit_code().await, process.stderr())
}

fn write(gateway: &Gateway, edit: impl FnOnce(String) -> String) {
    let file = gateway.config_path();
    let text = std::fs::read_to_string(&file).unwrap();
    let beside = file.with_extension("new");
    std::fs::write(&beside, edit(text)).unwrap();
    std::fs::rename(&beside, &file).unwrap();
}

#[tokio::test]
async fn the_start_logs_the_configuration() {
    // Goal: the log describes the configuration in force. Method: each part of a configuration in the first lines.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, RULES).await;
    let log = gateway.stderr();
    for said in [
        format!("sluicegate {} runs with ", env!("CARGO_PKG_VERSION")),
        format!(
            "listening on {}: HTTP/1.1 and HTTP/2 in clear text",
            gateway.address()
        ),
        format!("admin on {}", gateway.admin_address()),
        "limit otp: Allows each value of client.ip/32,/64 5 in 10s".to_owned(),
        format!("origin app at {}", origin.address()),
        "3 routes, 1 limit, 1 origin".to_owned(),
        "memory: at most".to_owned(),
    ] {
        assert!(log.contains(&said), "{said} is not in\n{log}");
    }
}

#[tokio::test]
async fn a_reload_lists_its_changes() {
    // Goal: an operator sees the effect of an edit, in the shell and in the log. Method: `sluicegate reload` after edits of each kind,
    // after
    // none, and after a mistake.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, RULES).await;
    write(&gateway, |text| {
        let text = text.replace("5 per 10s", "8 per 10s");
        let text = text.replace("path = \"/send\"", "path = \"/send\"\nmethods = [\"POST\"]");
        format!(
            "{text}[[route]]\npath = \"/new\"\norigin = \"second\"\n[origin.second]\nservers = [\"127.0.0.1:9\"]\n\
             [server]\nmax_headers = 50\n"
        )
    });
    let (code, said) = reload(&gateway).await;
    assert_eq!(code, 0, "{said}");
    let changes = [
        "limit otp: 5 per 10s → 8 per 10s",
        "route /new added",
        "origin second added",
        "route send.methods = POST added",
        "server.max_headers = 50 added",
    ];
    // The watcher may have been first; then the shell says that nothing changed since.
    let log = gateway.stderr();
    for change in changes {
        assert!(
            log.contains(&format!("changed: {change}")),
            "{change} is not in\n{log}"
        );
        assert!(
            said.contains(change) || said.contains("nothing changed"),
            "{said}"
        );
    }
    let (code, said) = reload(&gateway).await;
    assert_eq!(code, 0);
    assert!(said.contains("nothing changed"), "{said}");
    assert!(gateway.stderr().contains("reloaded: nothing changed"));

    write(&gateway, |text| text.replace("8 per 10s", "8 for 10s"));
    let (code, said) = reload(&gateway).await;
    assert!(code == 64 && said.contains("8 for 10s"), "{said}");
}

#[tokio::test]
async fn a_reload_that_fails_in_the_gateway_fails_in_the_shell() {
    // Goal: errors that only the running gateway can find are reported too. Method: a log that can be opened nowhere.
    let gateway = Gateway::start("[[route]]\npath = \"/\"\nrespond = { status = 200 }\n").await;
    let missing = gateway.directory().join("none/access.log");
    write(&gateway, |text| {
        text.replace(
            &gateway.access_log_path().display().to_string(),
            &missing.display().to_string(),
        )
    });
    let (code, said) = reload(&gateway).await;
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("was not reloaded") && said.contains("log.access"),
        "{said}"
    );
}

#[tokio::test]
async fn the_admin_listener_shows_the_configuration_without_secrets() {
    // Goal: the configuration in force can be read. Method: /config and /routes, without and with the token; a secret in a header field,
    // and one that a route asks for, which neither page and no metric has.
    let origin = Origin::echo();
    let gateway = Setup::new()
        .tokens("0123456789abcdef")
        .origin("app", &origin)
        .rules(RULES)
        .start()
        .await;
    for path in ["/config", "/routes"] {
        assert_eq!(gateway.admin(get(path)).await.status, 401);
    }
    let ask = async |path: &str| gateway.admin(get(path).bearer("0123456789abcdef")).await;
    let text = ask("/config").await.text().to_owned();
    let page: Value = serde_json::from_str(&text).unwrap();
    let written = &page["configuration"];
    assert_eq!(written["limit"]["otp"]["rates"][0], "5 per 10s");
    let file = &page["files"][0];
    assert_eq!(file["file"], gateway.config_path().to_str().unwrap());
    let as_written = file["text"].as_str().unwrap();
    assert!(as_written.contains("[limit.otp]\n"), "{as_written}");
    assert_eq!(written["request_headers"]["set"]["X-Plain"], "(secret)");
    assert!(
        !text.contains("hunter2") && !text.contains("0123456789abcdef"),
        "{text}"
    );
    let page: Value = serde_json::from_str(ask("/routes").await.text()).unwrap();
    assert_eq!(page["routes"][1]["name"], "send");
    assert_eq!(page["routes"][1]["limits"][0], "otp");
    let takes = page["routes"][0]["takes"].to_string();
    assert!(
        takes.contains("the header x-origin-verify: (secret)"),
        "{takes}"
    );
    let verified = get("/verified").header("x-origin-verify", "swordfish");
    assert_eq!(gateway.send(verified).await.status, 200);
    for path in ["/config", "/routes", "/status", "/metrics"] {
        let text = ask(path).await.text().to_owned();
        assert!(!text.contains("swordfish"), "{path}: {text}");
    }
}

/// A limit that rejects nothing, alone on one route and beside another on the next; one that is enforced for no key of these.
const SHADOWS: &str = r#"
# Each client has its own counter.
[limit.watch]
key = "client.ip"
rates = ["1 per 1h"]
action = "shadow"
[limit.otp]
key = "client.ip"
rates   = ["2 per 1h"] # as agreed
[limit.trial]
key = "client.ip"
rates = ["2 per 1h"]
enforce = "0.01%"
[[route]]
path = "/watched"
limits = ["watch"]
respond = { status = 200 }
[[route]]
path = "/both"
limits = ["watch", "otp", "trial"]
respond = { status = 200 }
"#;

#[tokio::test]
async fn shadow_is_said_and_the_files_are_shown_as_written() {
    // Goal: nobody takes a limit in shadow for one that protects. Method: the lines of the start, the form, `/explain`, the routes and
    // the files of Configuration.
    let gateway = Gateway::start(SHADOWS).await;
    for line in [
        "limit watch, in shadow: Allows",
        "limit otp: Allows",
        "limit trial, enforced for 0.01% of its keys: Allows",
    ] {
        assert!(gateway.stderr().contains(line), "{line}");
    }
    let ask = async |path: &str| {
        let query = format!("/explain?url={path}&client=203.0.113.7");
        gateway.admin(get(&query)).await.json()
    };
    let watched = ask("/watched").await;
    assert_eq!(
        watched["limits"][0],
        "watch: client.ip = 203.0.113.7/32; in shadow: it counts and reports, and rejects nothing"
    );
    assert_eq!(
        watched["outcome"],
        "answered by the gateway with 200, whatever these limits count, since all are in shadow"
    );
    let both = ask("/both").await;
    assert_eq!(both["limits"][1], "otp: client.ip = 203.0.113.7/32");
    assert_eq!(
        both["limits"][2],
        "trial: client.ip = 203.0.113.7/32; in shadow for this key, as for all that `enforce` leaves out"
    );
    assert_eq!(
        both["outcome"],
        "answered by the gateway with 200, if all of these limits admit it that are not in shadow"
    );
    let browser = Browser::start().await;
    let mut page = browser
        .open(&gateway.ui("explain?url=/watched&client=203.0.113.7"))
        .await;
    page.shows("whatever these limits count, since all are in shadow")
        .await;
    page.shows("in shadow: it counts and reports, and rejects nothing")
        .await;
    page.go(&gateway.ui("configuration")).await;
    page.shows("watch (in shadow), otp, trial (enforced for 0.01% of keys)")
        .await;
    page.shows("# Each client has its own counter.\n[limit.watch]")
        .await;
    page.shows("rates   = [\"2 per 1h\"] # as agreed").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
    // A refused reload has a line for each problem.
    write(&gateway, |text| {
        text + "[limit.bad]\nkey = \"client.ip\"\nrates = [\"x\", \"y\"]\n"
    });
    page.press("main", "Reload").await;
    page.shows("limit.bad.rates[1]: ").await;
    let lines = "['innerText', 'textContent'].map((text) => document.querySelector('p.error')[text].split('\\n').length)";
    let lines = page.value(lines).await;
    assert!(
        lines[0] == lines[1] && lines[0].as_u64() > Some(2),
        "{lines}"
    );
}
