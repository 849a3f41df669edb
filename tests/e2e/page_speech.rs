//! The operator's page and the playground for those who do not see them, or use no mouse: what a screen reader is told, where the tabulator
//! key goes, and whether color alone says anything.

use serde_json::{Value, json};

use crate::harness::*;

/// A limit that bans, one in shadow, and an origin of which one server does not answer.
fn rules(origin: &Origin) -> String {
    format!(
        "[limit.otp]\nkey = \"client.ip\"\nrates = [\"2 per 1h\"]\ncapacity = 1024\nban = {{ for = \"1h\" }}\n\
         [limit.tried]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\naction = \"shadow\"\n\
         [origin.app]\nservers = [\"{}\", \"{}\"]\nhealth = {{ path = \"/healthz\", interval = \"1s\" }}\n\
         [[route]]\nname = \"login\"\npath = \"/login\"\nlimits = [\"otp\", \"tried\"]\norigin = \"app\"\n",
        origin.address(),
        free_address(),
    )
}

/// Each view, and what it shows when it is complete.
const VIEWS: [(&str, &str); 8] = [
    ("", "1 of 2"),
    ("limits", "2 of 2 limits"),
    ("limit/otp", "All free in"),
    ("keys?value=127.0.0.1", "rejects: banned"),
    ("rules", "No temporary rule is in force"),
    ("explain?url=/login", "Why this route"),
    ("configuration", "Takes"),
    ("rejections", "127.0.0.1"),
];

async fn busy_gateway(origin: &Origin) -> Gateway {
    let gateway = Setup::new()
        .tokens("0123456789abcdef")
        .rules(&rules(origin))
        .start()
        .await;
    let mut client = gateway.client().await;
    for _ in 0..5 {
        client.get("/login").await;
    }
    gateway
}

/// Opens the page with its token, and rejects a request so that the tail has a row.
async fn open(browser: &Browser, gateway: &Gateway) -> Page {
    let mut page = browser.open(&gateway.ui("")).await;
    page.shows("asks for a token").await;
    let spoken = page.spoken().await;
    assert_eq!(spoken.names("heading"), ["This gateway asks for a token"]);
    assert_eq!(spoken.names("textbox"), ["Token"]);
    page.fill("input[type=password]", "0123456789abcdef").await;
    page.press("main", "Open").await;
    page.is_live().await;
    gateway.get("/login").await;
    page.until("document.querySelector('section[aria-label=\"Latest rejections\"] tbody tr')")
        .await;
    page
}

/// Waits until a view shows a text, and the clients that are rejected most where it has them, which come later.
async fn is_complete(page: &mut Page, url: &str, shows: &str) {
    page.shows(shows).await;
    if url.ends_with("#/") || url.ends_with("#/rejections") {
        page.until("document.querySelector('section[aria-label=\"Rejected clients\"] tbody tr')")
            .await;
    }
}

/// Asserts that everything on a page has a role and a name, and that its headings and tables have an order.
fn assert_spoken(spoken: &SpokenPage, of: &str) {
    for control in spoken.controls() {
        assert!(
            !control.name.is_empty() && control.role != "generic",
            "{of}: a control without a name or a role: {control:?}"
        );
    }
    for role in [
        "image",
        "img",
        "region",
        "group",
        "form",
        "navigation",
        "dialog",
    ] {
        for node in spoken.role(role) {
            assert!(!node.name.is_empty(), "{of}: without a name: {node:?}");
        }
    }
    let levels: Vec<u64> = (spoken.role("heading"))
        .map(|heading| heading.number("level").unwrap())
        .collect();
    assert_eq!(levels.first(), Some(&1), "{of}: {levels:?}");
    assert_eq!(
        levels.iter().filter(|level| **level == 1).count(),
        1,
        "{of}"
    );
    assert!(
        levels.windows(2).all(|pair| pair[1] <= pair[0] + 1),
        "{of}: a level of headings is left out: {levels:?}"
    );
    for table in spoken.role("table") {
        assert!(!table.name.is_empty(), "{of}: {table:?}");
        let columns = spoken.below(table, "columnheader");
        assert!(!columns.is_empty(), "{of}: {}", table.name);
        assert!(
            columns.iter().all(|column| !column.name.is_empty()),
            "{of}: {columns:?}"
        );
        for row in spoken.below(table, "row") {
            let is_head = !spoken.below(row, "columnheader").is_empty();
            let heads = spoken.below(row, "rowheader");
            assert!(is_head || heads.len() == 1, "{of}: {}: {row:?}", table.name);
        }
    }
    for (node, live) in spoken.live() {
        assert_eq!(live, "polite", "{of}: {node:?}");
        // A whole table would be read out.
        assert_eq!(spoken.below(node, "row").len(), 0, "{of}: {node:?}");
    }
}

#[tokio::test]
async fn a_screen_reader_is_told_what_the_page_shows() {
    // Goal: an operator who does not see the page uses it: each control has a role and a name, tables have heads, the order of headings has
    // no gap, and only short texts are said by themselves. Method: Chromium's accessibility tree of every view, on a wide screen and on a
    // phone, where rows of tables are laid out as blocks.
    let origin = Origin::echo();
    let gateway = busy_gateway(&origin).await;
    let browser = Browser::start().await;
    let mut page = open(&browser, &gateway).await;
    for screen in ["wide", "phone"] {
        if screen == "phone" {
            page.becomes_a_phone().await;
        }
        for (view, shows) in VIEWS {
            let url = gateway.ui(view);
            page.go(&url).await;
            is_complete(&mut page, &url, shows).await;
            let spoken = page.spoken().await;
            let of = format!("{view:?} on a {screen} screen");
            assert_spoken(&spoken, &of);
            assert_eq!(spoken.names("navigation"), ["Views"], "{of}");
            for landmark in ["banner", "main"] {
                assert_eq!(spoken.role(landmark).count(), 1, "{of}");
            }
            let landmarks = ["banner", "main", "complementary", "dialog"];
            let texts = spoken.role("StaticText");
            for text in texts.filter(|text| text.name != "Skip to the content") {
                let is_live = spoken.live().any(|(node, _)| {
                    spoken
                        .below(node, "StaticText")
                        .iter()
                        .any(|other| std::ptr::eq(*other, text))
                });
                assert!(
                    is_live || spoken.is_within(text, &landmarks),
                    "{of}: outside of all landmarks: {text:?}"
                );
            }
        }
        let tables = |spoken: &SpokenPage| spoken.role("table").count();
        page.go(&gateway.ui("limit/otp")).await;
        // Each part of the view has an answer of its own to wait for.
        for part in [
            "input[type=range]",
            "[aria-label^='Lift the ban of ']",
            "[aria-label^='Limit otp, the last hour: Admitted ']",
        ] {
            page.until(&format!("document.querySelector(`main {part}`)"))
                .await;
        }
        page.until("document.querySelectorAll('main table').length >= 3")
            .await;
        let spoken = page.spoken().await;
        assert!(
            tables(&spoken) >= 3,
            "{screen}: {:?}",
            spoken.names("table")
        );
        let lift = spoken.names("button");
        assert!(
            lift.iter().any(|name| name.starts_with("Lift the ban of ")),
            "{lift:?}"
        );
        assert_eq!(spoken.names("slider"), ["Number, as a slider"]);
        let charts = spoken.names("image");
        assert!(
            charts[0].starts_with("Limit otp, the last hour: Admitted "),
            "{charts:?}"
        );
        page.go(&gateway.ui("keys?value=127.0.0.1")).await;
        page.shows("rejects: banned").await;
        let spoken = page.spoken().await;
        assert!(spoken.names("group").contains(&"Actions on limit otp"));
    }
    assert_eq!(page.complaints_but(&[401]).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_dialog_says_its_question_and_gives_the_focus_back() {
    // Goal: an action is asked for, in words, before it happens, also without a picture. Method: a ban by the keyboard: the dialog's name
    // and description, and the focus before, in and after it.
    let origin = Origin::echo();
    let gateway = busy_gateway(&origin).await;
    let browser = Browser::start().await;
    let mut page = open(&browser, &gateway).await;
    page.go(&gateway.ui("keys?value=127.0.0.1")).await;
    page.shows("rejects: banned").await;
    let ban =
        "[...document.querySelectorAll('[aria-label=\"Actions on limit otp\"] button')].at(-1)";
    page.value(&format!("{ban}.focus()")).await;
    page.key("Enter").await;
    page.until("document.querySelector('dialog[open]')").await;
    let spoken = page.spoken().await;
    assert_eq!(spoken.names("dialog"), ["Ban"]);
    assert_eq!(
        spoken.names("textbox"),
        ["For how long, such as 30m or 1h30m", "Why"]
    );
    // What is behind a dialog is out of reach.
    assert_eq!(spoken.names("button"), ["Ban", "Cancel"]);
    let described = page
        .value("document.getElementById(document.querySelector('dialog').getAttribute('aria-describedby')).textContent")
        .await;
    assert_eq!(described, "Ban this key at limit otp?");
    page.until("document.querySelector('dialog').contains(document.activeElement)")
        .await;
    page.press("dialog[open]", "Cancel").await;
    page.until(&format!("document.activeElement === {ban}"))
        .await;
}

#[tokio::test]
async fn only_short_texts_are_said_by_themselves_and_tables_stay_in_place() {
    // Goal: a gateway that rejects all the time neither floods a screen reader nor takes a table away while it is read. Method: the verdict
    // over a key; and the overview during rejections, with the nodes of its tables before and after, and every change of a live text.
    let origin = Origin::echo();
    let gateway = busy_gateway(&origin).await;
    let browser = Browser::start().await;
    let mut page = open(&browser, &gateway).await;
    page.go(&gateway.ui("keys?value=127.0.0.1")).await;
    page.until("document.getElementById('said').textContent === '1 of 2 limits would reject the next request.'")
        .await;
    page.go(&gateway.ui("explain?url=/login")).await;
    page.until("document.getElementById('said').textContent.startsWith('Forwarded')")
        .await;
    page.go(&gateway.ui("")).await;
    let table = "document.querySelector('section[aria-label^=\"Rejections by limit\"] table')";
    page.until(table).await;
    // The server that does not answer is said once, when its health check has failed.
    page.until("document.querySelector('#problems li')").await;
    let watch = format!(
        "{{ window.told = 0; window.kept = {table}; window.row = {table}.querySelector('tbody tr');
            const watcher = new MutationObserver((changes) => {{ window.told += changes.length; }});
            for (const node of document.querySelectorAll('[aria-live=polite], [role=status], [role=alert]'))
              watcher.observe(node, {{ childList: true, characterData: true, subtree: true }}); }}"
    );
    page.value(&watch).await;
    let rejected = format!("Number({table}.querySelector('tbody td').textContent)");
    for round in 1..=3 {
        let before = page.value(&rejected).await.as_f64().unwrap();
        gateway.get("/login").await;
        page.until(&format!("{rejected} > {before}")).await;
        let kept = format!("[window.kept === {table}, window.row.isConnected, window.told]");
        assert_eq!(page.value(&kept).await, json!([true, true, 0]), "{round}");
    }
}

#[tokio::test]
async fn the_tabulator_key_reaches_every_control_and_shows_where_it_is() {
    // Goal: nothing needs a mouse, and the focus is seen. Method: the tabulator key through each view and the playground: the controls that
    // it reaches, in the order of the document, each with an outline and on the screen.
    let origin = Origin::echo();
    let gateway = busy_gateway(&origin).await;
    let browser = Browser::start().await;
    let mut page = open(&browser, &gateway).await;
    let playground = format!(
        "http://{}/ui/playground/playground.html",
        gateway.admin_address()
    );
    let views = VIEWS.map(|(view, shows)| (gateway.ui(view), shows));
    // The names of algorithms come from the script, which makes all controls at once.
    for (url, shows) in (views.into_iter()).chain([(playground, "refilled at intervals")]) {
        page.go(&url).await;
        is_complete(&mut page, &url, shows).await;
        // The stream would bring new rows in between, and the playground plays.
        page.value("document.querySelector('#play')?.textContent === 'Pause' && document.querySelector('#play').click()")
            .await;
        page.value(
            "scrollTo(0, 0), document.body.setAttribute('tabindex', '-1'), document.body.focus(),
             document.body.removeAttribute('tabindex')",
        )
        .await;
        let reachable = page
            .value(
                "window.reachable = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex=\"0\"]')]
                   .filter((node) => !node.disabled && node.checkVisibility()), window.reachable.length",
            )
            .await;
        let reachable = reachable.as_u64().unwrap();
        assert!(reachable >= 9, "{url}: {reachable}");
        for at in 0..reachable {
            page.key("Tab").await;
            let seen = page.value(FOCUS).await;
            let expected = json!({ "at": at, "is_outlined": true, "is_on_screen": true });
            assert_eq!(without_name(&seen), expected, "{url}: {seen}");
        }
    }
}

/// The control that has the focus: its place in the order of the document, and whether it is seen.
const FOCUS: &str = "(() => { const node = document.activeElement;
  const [style, box] = [getComputedStyle(node), node.getBoundingClientRect()];
  const top = document.elementsFromPoint(box.left + Math.min(8, box.width / 2), box.top + Math.min(8, box.height / 2));
  return { name: node.outerHTML.slice(0, 120), at: window.reachable.indexOf(node),
    is_outlined: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
    is_on_screen: box.bottom > 0 && box.top < innerHeight && top.some((one) => node.contains(one) || one.contains(node)) }; })()";

fn without_name(seen: &Value) -> Value {
    let mut seen = seen.clone();
    seen.as_object_mut().map(|fields| fields.remove("name"));
    seen
}

#[tokio::test]
async fn color_alone_says_nothing() {
    // Goal: an operator who does not tell red from green sees what is bad. Method: lines of a chart and their legend differ in their
    // strokes; a server that is down, a key that is banned, and a window that exceeds its limit are said in words.
    let origin = Origin::echo();
    let gateway = busy_gateway(&origin).await;
    let browser = Browser::start().await;
    let mut page = open(&browser, &gateway).await;
    let distinct = |selector: &str, property: &str| {
        format!(
            "(() => {{ const all = [...document.querySelectorAll({})].map((node) => getComputedStyle(node).{property});
               return [all.length, new Set(all).size]; }})()",
            json!(selector)
        )
    };
    for (chart, lines) in [("Requests", 4), ("Latency", 3)] {
        let chart = format!("section[aria-label^={chart}]");
        for (part, property) in [
            (".chart path:not(.area)", "strokeDasharray"),
            (".swatch", "backgroundImage"),
        ] {
            let seen = page
                .value(&distinct(&format!("{chart} {part}"), property))
                .await;
            assert_eq!(seen, json!([lines, lines]), "{chart} {part}");
        }
    }
    // Each text in a color of its own has words, or a number beside the count that it is part of.
    page.go(&gateway.ui("")).await;
    page.shows("1 of 2").await;
    let state = "[...document.querySelectorAll('section[aria-label=Origins] tbody tr')].map((row) => row.cells[2].textContent)";
    page.until(&format!("new Set({state}).size === 2")).await;
    let live = page.value("document.querySelector('#live').textContent");
    assert_eq!(live.await, "live");
    let address = gateway.admin_address();
    page.go(&format!(
        "http://{address}/ui/playground/playground.html#scene=edge&at=end"
    ))
    .await;
    page.shows("at most 20 in 10 s, above the limit").await;
    page.shows("at most 11 in 10 s").await;
    let bad =
        "[...document.querySelectorAll('article strong.bad')].map((node) => node.textContent)";
    page.until(&format!(
        "{bad}.length > 0 && {bad}.every((text) => /above the limit|429/.test(text))"
    ))
    .await;
    let good =
        "[...document.querySelectorAll('article strong.good')].map((node) => node.textContent)";
    page.until(&format!(
        "{good}.every((text) => !/above the limit|429/.test(text))"
    ))
    .await;
    let spoken = page.spoken().await;
    assert_spoken(&spoken, "the playground");
    assert!(!spoken.names("image").is_empty());
}
