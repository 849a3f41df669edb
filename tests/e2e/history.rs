//! The last hour of a gateway: what `/history`, the page and `sluicegate top` show of the time before they were opened.

use serde_json::Value;

use crate::harness::*;

const TOKEN: &str = "0123456789abcdef";

/// A limit of two an hour that bans, and a route of this name before an origin.
fn rules(route: &str) -> String {
    format!(
        "[limit.otp]\nkey = \"client.ip\"\nrates = [\"2 per 1h\"]\ncapacity = 1024\nban = {{ for = \"1h\" }}\n\
         [[route]]\nname = \"{route}\"\npath = \"/{route}\"\nlimits = [\"otp\"]\norigin = \"app\"\n"
    )
}

async fn read(gateway: &Gateway, target: &str) -> Value {
    let answer = gateway.admin(get(target).bearer(TOKEN)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The sum of a figure over all steps.
fn sum(figure: &Value) -> f64 {
    let steps = figure
        .as_array()
        .unwrap_or_else(|| panic!("no figure: {figure}"));
    steps.iter().map(|count| count.as_f64().unwrap()).sum()
}

/// The kinds of all marks, in their order.
fn kinds(history: &Value) -> Vec<&str> {
    let marks = history["marks"].as_array().unwrap().iter();
    marks.map(|mark| mark["kind"].as_str().unwrap()).collect()
}

/// A gateway that nobody looks at while five requests of one client are sent, of which three are rejected, and a key is banned, a server
/// drained, a reload refused, and the route replaced by another.
async fn eventful_gateway(origins: &[Origin; 2]) -> Gateway {
    let servers = [origins[0].address(), origins[1].address()];
    let setup = Setup::new().tokens(TOKEN).servers("app", &servers);
    let mut gateway = setup.rules(&rules("login")).start().await;
    let mut client = gateway.client().await;
    for status in [200, 200, 429, 429, 429] {
        assert_eq!(client.get("/login").await.status, status);
    }
    let ban = post("/limits/otp/keys?value=192.0.2.7").by("PUT");
    let ban = ban.body(r#"{"ban":{"for":"10m","reason":"bots"}}"#);
    let drain = format!("/origins/app/servers/{}/drain", origins[1].address());
    for change in [ban, post(&drain)] {
        let answer = gateway.admin(change.bearer(TOKEN)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    gateway.write_rules(&rules("login").replace("limits", "limts"), Writing::Rename);
    eventually("the reload is refused", async || {
        let reloads = read(&gateway, "/reloads").await;
        (reloads["reloads"][0]["result"] == "failed").then_some(())
    })
    .await;
    gateway.write_rules(&rules("signup"), Writing::Rename);
    eventually("the route is replaced", async || {
        let reloads = read(&gateway, "/reloads").await;
        (reloads["reloads"][0]["result"] == "ok").then_some(())
    })
    .await;
    gateway
}

#[tokio::test]
async fn the_page_opens_with_what_happened_before() {
    // Goal: an operator who is woken sees what happened, in words and on the charts, without having looked. Method: requests, acts and
    // reloads before the page is opened; its views, a reload while it is open, and a phone; then the same in the admin API.
    let origins = [Origin::echo(), Origin::echo()];
    let gateway = eventful_gateway(&origins).await;
    let browser = Browser::start().await;
    let mut page = browser.signed_in(&gateway, TOKEN, "").await;
    let happened = "document.querySelector('section[aria-label=\"What happened\"]')";
    page.until(&format!(
        "{happened}?.querySelectorAll('tbody tr').length === 5"
    ))
    .await;
    let said = page.value(&format!("{happened}.innerText")).await;
    let said = said.as_str().unwrap();
    for part in [
        "Ban",
        "reason \"bots\"",
        "Server drained",
        "Reload refused",
        "limts",
        "Reloaded: route",
    ] {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
    let by_limit = "document.querySelector('section[aria-label=\"Rejections by limit\"] tbody')";
    page.until(&format!("{by_limit}?.textContent.startsWith('otp3')"))
        .await;
    assert_eq!(
        page.value("document.querySelectorAll('.chart .event').length")
            .await,
        10
    );
    assert_eq!(
        page.value("document.querySelectorAll('.chart .event.bad title')[0].textContent.includes('Reload refused: ')").await,
        true
    );
    page.until("document.querySelector('[aria-label^=\"Requests, the last hour: Answered \"]')")
        .await;
    page.press("main", "Last two minutes").await;
    page.until(
        "document.querySelector('[aria-label^=\"Requests, the last two minutes: Answered \"]')",
    )
    .await;
    page.press("main", "Last hour").await;

    let reload = gateway.admin(post("/reload").bearer(TOKEN)).await;
    assert_eq!(reload.status, 200, "{reload:?}");
    page.shows("Reloaded: nothing changed.").await;
    page.becomes_a_phone().await;
    page.until("document.documentElement.scrollWidth <= innerWidth")
        .await;
    page.value("location.hash = '#/configuration'").await;
    let reloads = "document.querySelector('section[aria-label=\"The last reloads\"]')";
    page.until(&format!(
        "{reloads}?.querySelectorAll('tbody tr').length === 3"
    ))
    .await;
    let said = page.value(&format!("{reloads}.innerText")).await;
    let said = said.as_str().unwrap();
    for part in [
        "the admin API, from admin (127.0.0.1:",
        "a changed file",
        "refused",
        "accepted",
        "route signup added",
    ] {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
    page.until("document.documentElement.scrollWidth <= innerWidth")
        .await;
    assert_eq!(page.complaints_but(&[401]).await, Vec::<String>::new());

    let history = read(&gateway, "/history").await;
    let started = [
        "start",
        "ban",
        "server-drain",
        "reload-refused",
        "reload",
        "reload",
    ];
    assert_eq!(kinds(&history), started, "{history}");
    // The route that counted them is gone.
    for (figure, count) in [("all", 5.0), ("rejected", 3.0)] {
        assert_eq!(sum(&history["steps"][figure]), count, "{figure}: {history}");
    }
    let otp = &history["limits"]["otp"];
    assert_eq!(
        (sum(&otp["admitted"]), sum(&otp["rejected"])),
        (2.0, 3.0),
        "{history}"
    );
    assert_eq!(
        sum(&history["origins"]["app"]["attempts"]),
        2.0,
        "{history}"
    );
    let last = history["marks"].as_array().unwrap().last().unwrap();
    let later = read(
        &gateway,
        &format!("/history?since={}", last["at"].as_str().unwrap()),
    )
    .await;
    assert!(kinds(&later).len() <= 1, "{later}");
    assert_eq!(gateway.admin(get("/history")).await.status, 401);
}

#[tokio::test]
async fn a_terminal_opens_with_what_happened_before() {
    // Goal: the same in a terminal, at once. Method: requests, acts and reloads before it is opened; the lines above the panes, the list of
    // events, and one frame for a file.
    let origins = [Origin::echo(), Origin::echo()];
    let gateway = eventful_gateway(&origins).await;
    let config = gateway.config_path().display().to_string();
    let mut terminal = TestTerminal::run(&["top", "--config", &config, "--interval", "0.2"], &[]);
    terminal
        .shows(&[
            "requests of 5 min ",
            "rejected ",
            " /s peak",
            "Reloaded: route",
            "servers of origins (2)",
            "e events",
        ])
        .await;
    terminal.press("e");
    terminal
        .shows(&[
            "what happened",
            "The reload was refused: ",
            "Origin app: drained server ",
            "reason \"bots\"",
        ])
        .await;
    terminal.press("e");
    terminal.lacks("what happened").await;
    terminal.press("q");
    assert_eq!(terminal.exit_code().await, 0);
    let mut once = Process::run(&["top", "--config", &config, "--once", "--interval", "0.1"]);
    assert_eq!(once.exit_code().await, 0, "{}", once.stderr());
    let frame = once.stdout();
    assert!(
        frame.contains(" /s peak") && frame.contains("Reloaded: route"),
        "{frame}"
    );
}
