//! Incidents, as the page, `sluicegate top`, the metrics and the admin API show them: one judgment, the same words everywhere.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::harness::*;

/// The time between two requests of [`Traffic`].
const PACE: Duration = Duration::from_millis(10);

/// One client that asks again and again.
struct Traffic(JoinHandle<()>);

impl Traffic {
    fn to(gateway: SocketAddr) -> Self {
        Self(tokio::spawn(async move {
            let mut client = Client::connect(gateway).await;
            loop {
                client.get("/").await;
                tokio::time::sleep(PACE).await;
            }
        }))
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An origin of these servers that nothing checks, with a route for every path.
fn app(servers: &[SocketAddr]) -> String {
    let servers: Vec<String> = servers
        .iter()
        .map(|server| format!("\"{server}\""))
        .collect();
    format!(
        "[origin.app]\nservers = [{}]\n[[route]]\npath = \"/*\"\norigin = \"app\"\n",
        servers.join(", ")
    )
}

async fn overview(browser: &Browser, gateway: &Gateway) -> Page {
    let mut page = browser.open(&gateway.ui("")).await;
    page.shows("Requests a second").await;
    page
}

/// What the tile with this label says: its value, the line below, and the color of the value.
async fn tile(page: &mut Page, label: &str) -> [String; 3] {
    let found = format!(
        "[...document.querySelectorAll('.tiles > div')].map((tile) => [...tile.children])
         .filter(([label]) => label.textContent === '{label}')
         .map(([, value, below]) => [value.textContent, below.textContent, value.className])[0]"
    );
    let tile = page.value(&found).await;
    [0, 1, 2].map(|at| tile[at].as_str().unwrap_or_default().to_owned())
}

/// One frame of `sluicegate top`.
async fn top(gateway: &Gateway) -> String {
    let url = format!("http://{}", gateway.admin_address());
    let mut process = Process::run(&["top", &url, "--once", "--interval", "0.5"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    process.stdout()
}

async fn servers(gateway: &Gateway) -> Vec<Value> {
    let origins = gateway.admin(get("/origins")).await.json();
    origins["origins"][0]["servers"].as_array().unwrap().clone()
}

async fn problems(gateway: &Gateway, kind: &str) -> f64 {
    let metrics = gateway.metrics().await;
    metrics.sum("sluicegate_problems", &[("kind", kind)])
}

async fn servers_in(gateway: &Gateway, state: &str) -> f64 {
    let metrics = gateway.metrics().await;
    metrics.sum("sluicegate_origin_server_state", &[("state", state)])
}

/// The address of the runbook behind the first problem of this kind of words.
async fn runbook(page: &mut Page, part: &str) -> String {
    let found = format!(
        "[...document.querySelectorAll('#problems li')].find((line) => line.textContent.includes('{part}'))?.querySelector('a').href ?? ''"
    );
    page.value(&found).await.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn all_origins_dead_is_said_everywhere() {
    // Goal: nobody who looks takes a gateway whose every answer is 502 for a sound one. Method: two servers without health checks under
    // traffic, which end; the page before and after, then /origins, the metrics and one frame of top.
    let one = Origin::named("one");
    let other = Origin::named("other");
    let gateway = Gateway::start(&app(&[one.address(), other.address()])).await;
    let _traffic = Traffic::to(gateway.address());
    let browser = Browser::start().await;
    let mut page = overview(&browser, &gateway).await;
    page.shows("2 unchecked").await;
    page.until("document.querySelector('#problems').hidden")
        .await;
    assert_eq!(
        tile(&mut page, "Servers").await,
        ["2 of 2", "2 unchecked", ""]
    );
    assert_eq!(servers_in(&gateway, "unchecked").await, 2.0);
    one.stop();
    other.stop();
    page.shows("No server of origin app works: 2 failing").await;
    page.shows("connect: Connection refused").await;
    page.shows("% of requests fail: of").await;
    page.shows("by the gateway").await;
    page.shows("2 failing").await;
    assert_eq!(
        tile(&mut page, "Servers").await,
        ["0 of 2", "2 failing", "bad"]
    );
    let [failed, below, color] = tile(&mut page, "Failed a second").await;
    assert!(failed.parse::<f64>().unwrap() > 0.0, "{failed}");
    assert!(below.ends_with("by the gateway"), "{below}");
    assert_eq!(color, "bad");
    assert_eq!(tile(&mut page, "Rejected a second").await[0], "0");
    let [latency, ..] = tile(&mut page, "Latency, median").await;
    assert!(latency.ends_with(" ms"), "{latency}");
    let link = runbook(&mut page, "No server of origin app").await;
    assert!(
        link.ends_with("/runbook.md#everything-answers-502"),
        "{link}"
    );
    assert_eq!(page.complaints().await, Vec::<String>::new());

    for server in servers(&gateway).await {
        assert_eq!(server["state"], "failing", "{server}");
        assert_eq!(
            (&server["healthy"], &server["fault"]),
            (&true.into(), &true.into())
        );
        assert!(server["recent"]["failed"].as_u64() > Some(2), "{server}");
    }
    assert_eq!(servers_in(&gateway, "failing").await, 2.0);
    assert_eq!(servers_in(&gateway, "up").await, 0.0);
    assert_eq!(problems(&gateway, "origin").await, 1.0);
    assert_eq!(problems(&gateway, "requests").await, 1.0);
    let frame = top(&gateway).await;
    for part in [
        "! No server of origin app works: 2 failing; ",
        "connect: Connection refused",
        "% of requests fail",
        " failed/s (origins 0)",
        " failing ",
    ] {
        assert!(frame.contains(part), "{part:?} is not in:\n{frame}");
    }
}

#[tokio::test]
async fn an_origin_that_answers_nobody_is_said_before_a_timeout() {
    // Goal: an origin that accepts requests and answers none is seen though no attempt fails, also once its clients have left. Method: six
    // requests that wait; the page, /origins and top; then all clients leave; then an answer.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/answered" => Answer::new(200).into(),
        _ => Reply::Hang,
    });
    let gateway = Gateway::start(&app(&[origin.address()])).await;
    let address = gateway.address();
    let waiting: Vec<JoinHandle<()>> = (0..6)
        .map(|_| {
            tokio::spawn(async move {
                Client::connect(address).await.get("/").await;
            })
        })
        .collect();
    let browser = Browser::start().await;
    let mut page = overview(&browser, &gateway).await;
    page.shows("No server of origin app works: 1 failing").await;
    page.shows("it has answered none of 6 requests since").await;
    page.shows("6 not answered").await;
    assert_eq!(
        tile(&mut page, "Servers").await,
        ["0 of 1", "1 failing", "bad"]
    );
    let frame = top(&gateway).await;
    assert!(frame.contains("it has answered none of 6"), "{frame}");
    waiting.iter().for_each(JoinHandle::abort);
    eventually("they have left", async || {
        let status = gateway.status().await;
        (status["requests"]["clients_gone"] == 6).then_some(())
    })
    .await;
    let server = servers(&gateway).await.remove(0);
    assert_eq!(server["state"], "failing", "{server}");
    assert_eq!(server["silence"]["unanswered"], 6, "{server}");
    assert_eq!(gateway.get("/answered").await.status, 200);
    page.until("document.querySelector('#problems').hidden")
        .await;
    assert_eq!(servers(&gateway).await[0]["state"], "unchecked");
}

#[tokio::test]
async fn one_of_two_servers_flaps() {
    // Goal: a server that fails and recovers is shown as it is, and the sound one beside it too. Method: two servers under traffic, of
    // which one answers 500 for a while, with health checks that it passes.
    let is_ill = Arc::new(AtomicBool::new(false));
    let shown = Arc::clone(&is_ill);
    let shaky = Origin::answering(move |request| {
        let fails = shown.load(Ordering::Relaxed) && request.target == "/";
        Answer::new(if fails { 500 } else { 200 }).into()
    });
    let well = Origin::named("well");
    let health = "[origin.app.health]\npath = \"/healthz\"\ninterval = \"100ms\"\n";
    let rules = app(&[shaky.address(), well.address()]) + health;
    let gateway = Gateway::start(&rules).await;
    let _traffic = Traffic::to(gateway.address());
    let browser = Browser::start().await;
    let mut page = overview(&browser, &gateway).await;
    page.shows("2 of 2").await;
    for _ in 0..2 {
        is_ill.store(true, Ordering::Relaxed);
        let sentence = format!(
            "1 of 2 servers of origin app fails; {}: it answers 5xx.",
            shaky.address()
        );
        page.until(&format!(
            "document.querySelector('#problems').innerText.includes('{sentence}')"
        ))
        .await;
        page.shows("by origins").await;
        page.shows("1 of 2").await;
        let states: Vec<Value> = servers(&gateway)
            .await
            .iter()
            .map(|server| server["state"].clone())
            .collect();
        assert_eq!(states, ["failing", "up"]);
        assert_eq!(servers_in(&gateway, "failing").await, 1.0);
        let frame = top(&gateway).await;
        assert!(
            frame.contains("! 1 of 2 servers of origin app fails"),
            "{frame}"
        );
        is_ill.store(false, Ordering::Relaxed);
        page.until("document.querySelector('#problems').hidden")
            .await;
        assert_eq!(servers_in(&gateway, "up").await, 2.0);
        assert_eq!(problems(&gateway, "origin").await, 0.0);
    }
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_store_that_is_gone_is_said_everywhere() {
    // Goal: an operator learns that shared limits go on alone, and that they are shared again. Method: a real redis-server, which is
    // killed and started again.
    let mut redis = Redis::start().await;
    let rules = format!(
        "[store]\nurl = \"{}\"\nrequired_for_ready = true\n\
         [limit.otp]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]\nstore = \"shared\"\n\
         [[route]]\npath = \"/*\"\nlimits = [\"otp\"]\nrespond = {{ status = 200 }}\n",
        redis.url()
    );
    let gateway = Gateway::start(&rules).await;
    let browser = Browser::start().await;
    let mut page = overview(&browser, &gateway).await;
    page.until("document.querySelector('#problems').hidden")
        .await;
    redis.kill();
    let sentence = format!("The store {} is away since", redis.address());
    page.shows(&sentence).await;
    let link = runbook(&mut page, "The store").await;
    assert!(link.ends_with("/runbook.md#the-store-is-gone"), "{link}");
    assert_eq!(problems(&gateway, "store").await, 1.0);
    assert_eq!(
        gateway.status().await["problems"][0]["severity"],
        "critical"
    );
    let frame = top(&gateway).await;
    assert!(frame.contains(&format!("! {sentence}")), "{frame}");
    redis.restart().await;
    page.until("document.querySelector('#problems').hidden")
        .await;
    let happened = "document.querySelector('section[aria-label=\"What happened\"]')";
    let marked = format!(
        "/Recovered Over after \\d+ s. At its worst: The store[^]*Problem The store/.test({happened}.innerText)"
    );
    page.until(&marked).await;
    page.until("document.querySelector('.chart .event.bad') && document.querySelector('.chart .event.good')")
        .await;
    assert_eq!(problems(&gateway, "store").await, 0.0);
}

#[tokio::test]
async fn a_refused_reload_is_said_until_the_file_is_corrected() {
    // Goal: an operator who broke the file learns it wherever he looks. Method: a reload with a mistake, then one without.
    let good = "[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n";
    let mut gateway = Gateway::start(good).await;
    let browser = Browser::start().await;
    let mut page = overview(&browser, &gateway).await;
    gateway.write_rules(&good.replace("respond", "respnd"), Writing::Rename);
    page.shows("Warning: The last reload was refused at").await;
    page.shows("respnd").await;
    let link = runbook(&mut page, "reload").await;
    assert!(link.ends_with("/runbook.md#a-reload-failed"), "{link}");
    assert_eq!(problems(&gateway, "reload").await, 1.0);
    let frame = top(&gateway).await;
    assert!(
        frame.contains("! The last reload was refused at"),
        "{frame}"
    );
    gateway.write_rules(good, Writing::Rename);
    page.until("document.querySelector('#problems').hidden")
        .await;
    assert_eq!(problems(&gateway, "reload").await, 0.0);
}

#[tokio::test]
async fn a_lost_connection_dims_the_page() {
    // Goal: nobody takes the last figures of a gateway that is gone for those of now. Method: a gateway that stops answering and goes on;
    // then one that is killed, in every view.
    let rules = app(&[Origin::named("app").address()]);
    let mut gateway = Gateway::start(&rules).await;
    let browser = Browser::start().await;
    let mut page = overview(&browser, &gateway).await;
    let dimmed = "Number(getComputedStyle(document.querySelector('main')).opacity) < 0.5";
    page.is_live().await;
    assert_eq!(page.value(dimmed).await, false);
    gateway.signal(Signal::SIGSTOP);
    page.shows("No connection to the gateway. What is shown is from")
        .await;
    assert_eq!(page.value(dimmed).await, true);
    gateway.signal(Signal::SIGCONT);
    page.until("document.querySelector('#gone').hidden").await;
    assert_eq!(page.value(dimmed).await, false);
    gateway.kill();
    page.shows("No connection to the gateway. What is shown is from")
        .await;
    for view in ["limits", "configuration", ""] {
        page.value(&format!("location.hash = '#/{view}'")).await;
        page.until(dimmed).await;
    }
}
