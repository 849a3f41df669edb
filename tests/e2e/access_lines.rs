//! Which lines the access log has, and what they look like: `[log] format`, `fields`, `only` and `refused`.

use std::collections::HashSet;
use std::fs;

use regex::Regex;
use serde_json::Value;

use crate::harness::*;

const RESPOND: &str =
    "[[route]]\nname = \"fixed\"\npath = \"/fixed\"\nrespond = { status = 200 }\n";
const LIMITED: &str = r#"
[limit.otp]
key = "client.ip"
rates = ["1 per 1h"]
capacity = 1000
[[route]]
path = "/*"
limits = ["otp"]
respond = { status = 200 }
"#;
const LEFT_OUT: &str = "sluicegate_access_log_left_out_total";

/// The lines of the combined format so far.
fn text_lines(gateway: &Gateway) -> Vec<String> {
    let text = fs::read_to_string(gateway.access_log_path()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Waits until there are so many.
async fn count_of_lines(count: usize, lines: impl Fn() -> Vec<String>) -> Vec<String> {
    eventually("the lines are written", async || {
        let lines = lines();
        (lines.len() >= count).then_some(lines)
    })
    .await
}

/// How many refused requests a log accounts for: its lines, and those that they say are missing.
fn accounted(lines: &[Value]) -> u64 {
    let refused = lines
        .iter()
        .filter(|line| line["outcome"] == "rate-limited");
    refused
        .map(|line| 1 + line["left_out"].as_u64().unwrap_or(0))
        .sum()
}

async fn left_out(gateway: &Gateway, by: &str) -> u64 {
    gateway.metrics().await.sum(LEFT_OUT, &[("by", by)]) as u64
}

#[tokio::test]
async fn a_combined_line_is_nginxs_for_the_same_request() {
    // Goal: programs that read the logs of nginx read ours. Method: requests with everything that is escaped go through the gateway to
    // nginx, whose own lines must be the same but for the moment.
    let locations = "location / { access_log combined.log combined; return 200 hello; }
        location /gone { access_log combined.log combined; return 410; }";
    let nginx = Nginx::start(locations).await;
    let setup = Setup::new()
        .servers("app", &[nginx.address()])
        .log_line("format = \"combined\"")
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n");
    let gateway = setup.start().await;
    let requests: [&[u8]; 5] = [
        b"GET /a?x=%22 HTTP/1.1\r\nHost: a.test\r\n\r\n",
        b"GET /b HTTP/1.1\r\nHost: a.test\r\nUser-Agent: x \"y\" \\ \xc3\xbc\t\xff z\r\nReferer: http://a.test/?q='<>\r\n\r\n",
        b"POST /c HTTP/1.1\r\nHost: a.test\r\nUser-Agent: twice\r\nContent-Length: 2\r\nReferer: \r\n\r\nhi",
        b"HEAD /d HTTP/1.1\r\nHost: a.test\r\nReferer: -\r\n\r\n",
        b"GET /gone HTTP/1.1\r\nHost: a.test\r\nReferer: one\r\nReferer: two\r\n\r\n",
    ];
    for request in requests {
        let mut connection = gateway.raw().await;
        connection.write(request).await;
        connection.read_response_to_head().await;
    }
    let mut ours = count_of_lines(requests.len(), || text_lines(&gateway)).await;
    let mut theirs = count_of_lines(requests.len(), || nginx.combined()).await;
    let moment = Regex::new(r"\[\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]").unwrap();
    for lines in [&mut ours, &mut theirs] {
        for line in lines.iter_mut() {
            assert!(moment.is_match(line), "{line}");
            *line = moment.replace(line, "[]").into_owned();
        }
        lines.sort();
    }
    assert_eq!(ours, theirs);
}

#[tokio::test]
async fn every_line_of_the_combined_format_has_its_nine_parts() {
    // Goal: refused, malformed and HTTP/2 requests are lines that a parser of the format takes. Method: the expression by which such
    // parsers read it, over one of each; the format comes with a reload.
    let pattern = Regex::new(
        r#"^(\S+) \S+ \S+ \[([^\]]+)\] "([A-Z]+ \S+ HTTP/\d\.\d|-|[^"]*)" (\d{3}) (\d+) "([^"]*)" "([^"]*)"$"#,
    )
    .unwrap();
    let mut gateway = Gateway::start(LIMITED).await;
    assert_eq!(gateway.get("/json").await.status, 200);
    gateway.access_line().await;
    let before = gateway.generation().await;
    let combined = Setup::new()
        .rules(LIMITED)
        .log_line("format = \"combined\"");
    gateway.write_setup(combined, Writing::Rename);
    gateway.serves_after(before).await;
    let mut client = gateway.client().await;
    for _ in 0..2 {
        let request = get("/x")
            .header("User-Agent", "curl/8")
            .header("Referer", "r");
        assert_eq!(client.send(request).await.status, 429);
    }
    let mut raw = gateway.raw().await;
    raw.write("GET /y HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        .await;
    assert_eq!(raw.read_response().await.status, 400);
    let gateway = gateway.spoken_to_by(Version::Http2);
    assert_eq!(gateway.get("/two").await.status, 429);
    let lines = count_of_lines(5, || text_lines(&gateway)).await;
    let lines: Vec<&String> = lines.iter().filter(|line| !line.starts_with('{')).collect();
    for line in &lines {
        assert!(pattern.is_match(line), "{line}");
    }
    let has = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    assert_eq!(has("\"GET /x HTTP/1.1\" 429 "), 2, "{lines:?}");
    assert_eq!(
        has(" \"r\" \"curl/8\""),
        2,
        "the second is answered without the proxy: {lines:?}"
    );
    assert_eq!(has("\"GET /two HTTP/2.0\" 429 "), 1, "{lines:?}");
    assert_eq!(has("\" 400 "), 1, "{lines:?}");
}

#[tokio::test]
async fn a_line_has_the_fields_that_are_named() {
    // Goal: named fields are in the lines of answers and of refusals, whichever way they are answered, and are bounded and escaped.
    // Method: an answer, two refusals on one connection, one over HTTP/2; then a reload without fields.
    let setup = Setup::new()
        .log_line("fields = [\"User-Agent\", \"x-plan\"]")
        .rules(LIMITED);
    let mut gateway = setup.start().await;
    let ask = || {
        get("/")
            .header("User-Agent", "a \"b\"")
            .header("x-plan", &"p".repeat(600))
    };
    let mut client = gateway.client().await;
    for status in [200, 429, 429] {
        assert_eq!(client.send(ask()).await.status, status);
    }
    gateway = gateway.spoken_to_by(Version::Http2);
    assert_eq!(gateway.send(ask()).await.status, 429);
    let lines = gateway.access_lines(4).await;
    for line in &lines {
        assert_eq!(line["fields"]["user-agent"], "a \"b\"", "{line}");
        let plan = line["fields"]["x-plan"].as_str().unwrap();
        assert_eq!(plan, format!("{}…", "p".repeat(512)));
    }
    let before = gateway.generation().await;
    gateway.write_setup(Setup::new().rules(LIMITED), Writing::Rename);
    gateway.serves_after(before).await;
    gateway.send(ask()).await;
    let lines = gateway.access_lines(5).await;
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.get("fields").is_none())
            .count(),
        1
    );
}

#[tokio::test]
async fn a_filter_chooses_lines_and_follows_a_reload() {
    // Goal: only what the operator wants is written, and the rest is counted. Method: two filters, one after the other, over the same
    // requests.
    let rules = |only: &str| {
        let line = format!("only = \"{only}\"");
        Setup::new().rules(RESPOND).log_line(&line)
    };
    let mut gateway = rules("status >= 400 and method != POST").start().await;
    let ask = async |gateway: &Gateway| {
        assert_eq!(gateway.get("/fixed").await.status, 200);
        assert_eq!(gateway.post("/nowhere").await.status, 404);
        assert_eq!(gateway.get("/nowhere").await.status, 404);
    };
    ask(&gateway).await;
    let line = gateway.access_line().await;
    assert_eq!(
        (&line["method"], &line["status"]),
        (&"GET".into(), &404.into())
    );
    let before = gateway.generation().await;
    gateway.write_setup(rules("route == fixed or duration >= 1h"), Writing::Rename);
    gateway.serves_after(before).await;
    ask(&gateway).await;
    let lines = gateway.access_lines(2).await;
    assert!(
        lines.iter().any(|line| line["route"] == "fixed"),
        "{lines:?}"
    );
    assert_eq!(left_out(&gateway, "only").await, 4);
}

#[tokio::test]
async fn a_share_of_the_refused_lines_accounts_for_all() {
    // Goal: a flood writes few lines, the number of omitted ones is logged, and admitted requests have their lines. Method: two thousand
    // refused on one connection at a hundredth; a reload to all.
    let setup = |line: &str| Setup::new().rules(LIMITED).log_line(line);
    let mut gateway = setup("refused = \"1%\"").start().await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/").await.status, 200);
    for _ in 0..2000 {
        assert_eq!(client.get("/").await.status, 429);
    }
    let before = gateway.generation().await;
    gateway.write_setup(setup("refused = \"all\""), Writing::Rename);
    gateway.serves_after(before).await;
    assert_eq!(gateway.post("/last").await.status, 429);
    let lines = eventually("the last line is written", async || {
        let lines = gateway.access_log();
        let is_last = |line: &Value| line["target"] == "/last";
        lines.iter().any(is_last).then_some(lines)
    })
    .await;
    assert_eq!(lines.iter().filter(|line| line["status"] == 200).count(), 1);
    let refused = lines.len() as u64 - 2;
    assert!((1..100).contains(&refused), "{refused}");
    assert_eq!(refused + left_out(&gateway, "refused").await, 2000);
    // All but those after the last line that was drawn.
    assert!(
        accounted(&lines) <= 2001 && accounted(&lines) > refused,
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_key_has_one_line_a_second() {
    // Goal: every refused key is seen, however loud another one is. Method: one address floods until a line says what is missing; another
    // asks once meanwhile.
    let setup = Setup::new()
        .rules(LIMITED)
        .log_line("refused = \"one per key and second\"");
    let gateway = setup.start().await;
    let mut loud = gateway.client_from("127.0.0.2").await;
    let mut quiet = gateway.client_from("127.0.0.3").await;
    loud.get("/").await;
    quiet.get("/").await;
    let mut refused = 1;
    assert_eq!(quiet.get("/quiet").await.status, 429);
    let lines = eventually("a line says what is missing", async || {
        for _ in 0..50 {
            assert_eq!(loud.get("/").await.status, 429);
            refused += 1;
        }
        let lines = gateway.access_log();
        lines
            .iter()
            .any(|line| line["left_out"].is_number())
            .then_some(lines)
    })
    .await;
    assert!(
        lines.iter().any(|line| line["target"] == "/quiet"),
        "{lines:?}"
    );
    let of_loud = |line: &&Value| line["client"] == "127.0.0.2" && line["status"] == 429;
    let seconds: Vec<&str> = lines
        .iter()
        .filter(of_loud)
        .map(|line| &line["time"].as_str().unwrap()[..19])
        .collect();
    assert_eq!(
        seconds.iter().collect::<HashSet<_>>().len(),
        seconds.len(),
        "{seconds:?}"
    );
    assert!(accounted(&lines) <= refused, "{lines:?}");
    let metrics = gateway.metrics().await;
    let left_out = metrics.sum(LEFT_OUT, &[("by", "refused")]) as u64;
    let written = metrics.sum("sluicegate_access_log_lines_total", &[]) as u64;
    assert_eq!(left_out + written, refused + 2);
}

#[tokio::test]
async fn lines_of_one_client_are_in_the_order_of_its_requests() {
    // Goal: who reads a client's lines reads what it did. Method: one request after the other, each over the next of eight connections,
    // which four threads serve. A thread that is stopped behind its answer may write its line a round later: one in fifty is allowed.
    const REQUESTS: usize = 400;
    let gateway = Gateway::start(&format!("[server]\nthreads = 4\n{RESPOND}")).await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(gateway.client().await);
    }
    for index in 0..REQUESTS {
        let client = &mut clients[index % 8];
        assert_eq!(client.get(&format!("/fixed?{index}")).await.status, 200);
    }
    let lines = gateway.access_lines(REQUESTS).await;
    let order: Vec<usize> = lines
        .iter()
        .map(|line| {
            line["target"].as_str().unwrap()["/fixed?".len()..]
                .parse()
                .unwrap()
        })
        .collect();
    let behind = order.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(
        behind <= REQUESTS / 50,
        "{behind} lines stand behind later ones: {order:?}"
    );
}
