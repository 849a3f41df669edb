//! Proofs by published ranges, and everything that reads `client.crawler`.

use std::fs;

use super::*;

const RULES: &str = r#"
[crawler.google]
group = "search"
user_agents = ["Googlebot"]
ranges = ["../google.json"]
[crawler.gpt]
group = "ai"
user_agents = ["GPTBot"]
ranges = ["../gpt.txt"]
[crawler.claude]
group = "ai"
user_agents = ["ClaudeBot"]
ranges = ["../claude.txt"]
[limit.crawlers]
key = "client.crawler"
rates = ["2 per 1h"]
[list.engines]
crawlers = ["search"]
[list.liars]
crawlers = ["unverified"]
[[route]]
path = "/counted"
crawlers = ["!none"]
limits = ["crawlers"]
respond = { status = 200 }
[[route]]
path = "/listed"
allow = ["engines"]
block = ["liars"]
limits = ["crawlers"]
respond = { status = 200 }
[[route]]
path = "/plain"
respond = { status = 200 }
"#;

fn setup() -> Setup {
    setup_with(&format!("{TRUST}{RULES}{KINDS}"))
}

fn setup_with(rules: &str) -> Setup {
    Setup::new()
        .file("google.json", GOOGLE)
        .file("gpt.txt", "198.51.100.0/25\n")
        .file("claude.txt", "# home\n198.51.100.128/25\n")
        .rules(rules)
}

#[tokio::test]
async fn a_route_takes_verified_crawlers_liars_and_others_apart() {
    // Goal: address and claim together decide, in both families. Method: each combination, a second field and odd case among them.
    let gateway = setup().start().await;
    let mut client = gateway.client().await;
    for (user_agent, address, wanted) in [
        (GOOGLEBOT, "192.0.2.9", 201),
        (GOOGLEBOT, "::ffff:192.0.2.9", 201),
        (GOOGLEBOT, "2001:db8:10::1", 201),
        ("GPTBot/1.2", "198.51.100.7", 202),
        ("gptbot", "198.51.100.7", 202),
        ("ClaudeBot", "198.51.100.200", 202),
        // Each crawler has its own addresses.
        ("ClaudeBot", "198.51.100.7", 203),
        (GOOGLEBOT, "198.51.100.7", 203),
        (GOOGLEBOT, "2001:db8:11::1", 203),
        ("curl/8.5", "192.0.2.9", 204),
        ("curl/8.5", "203.0.113.1", 204),
    ] {
        let answer = client.send(asks("/", user_agent, address)).await;
        assert_eq!(answer.status, wanted, "{user_agent} {address}");
    }
    let twice = asks("/", "curl/8.5", "203.0.113.1").header("user-agent", "GOOGLEBOT");
    assert_eq!(client.send(twice).await.status, 203);
    assert_eq!(
        client
            .send(get("/").forwarded_for("192.0.2.9"))
            .await
            .status,
        204
    );
}

#[tokio::test]
async fn a_group_is_one_key_and_a_list_reads_crawlers() {
    // Goal: keys count a group together and liars together; a list exempts and blocks. Method: two crawlers of one group; claims from two
    // addresses; the same on a route with lists.
    let gateway = setup().start().await;
    let mut client = gateway.client().await;
    for (path, user_agent, address, wanted) in [
        ("/counted", "GPTBot", "198.51.100.7", 200),
        ("/counted", "ClaudeBot", "198.51.100.200", 200),
        ("/counted", "GPTBot", "198.51.100.8", 429),
        ("/counted", GOOGLEBOT, "192.0.2.9", 200),
        ("/counted", GOOGLEBOT, "203.0.113.1", 200),
        ("/counted", "GPTBot", "203.0.113.2", 200),
        ("/counted", "GPTBot", "203.0.113.3", 429),
        ("/counted", "curl/8.5", "203.0.113.3", 404),
        ("/listed", GOOGLEBOT, "192.0.2.9", 200),
        ("/listed", GOOGLEBOT, "192.0.2.9", 200),
        ("/listed", GOOGLEBOT, "192.0.2.9", 200),
        ("/listed", GOOGLEBOT, "203.0.113.1", 403),
        ("/listed", "curl/8.5", "203.0.113.1", 200),
    ] {
        let answer = client.send(asks(path, user_agent, address)).await;
        assert_eq!(answer.status, wanted, "{path} {user_agent} {address}");
    }
}

#[tokio::test]
async fn log_and_metrics_tell_the_crawler_and_its_proof() {
    // Goal: the line has what decided, and a route that reads no crawler finds none. Method: one client of each kind, and one on such a
    // route.
    let gateway = setup().start().await;
    let mut answers = Vec::new();
    for (path, user_agent, address) in [
        ("/", GOOGLEBOT, "192.0.2.9"),
        ("/", GOOGLEBOT, "203.0.113.1"),
        ("/", "curl/8.5", "203.0.113.1"),
        ("/plain", GOOGLEBOT, "192.0.2.9"),
    ] {
        answers.push(gateway.send(asks(path, user_agent, address)).await);
    }
    let lines = gateway.lines_of(&answers).await;
    assert_eq!(
        (&lines[0]["crawler"], &lines[0]["crawler_proof"]),
        (&"google".into(), &"ranges".into())
    );
    assert_eq!(
        (&lines[1]["crawler"], &lines[1]["crawler_claim"]),
        (&"unverified".into(), &"google".into())
    );
    assert_eq!(lines[2]["crawler"], "none");
    assert!(lines[3].get("crawler").is_none());
    let metrics = gateway.metrics().await;
    let requests = |result| {
        let labels = [("crawler", "google"), ("result", result)];
        metrics.sum("sluicegate_crawler_requests_total", &labels)
    };
    assert_eq!((requests("ranges"), requests("unverified")), (1.0, 1.0));
}

#[tokio::test]
async fn a_forged_chain_is_no_address_of_a_crawler() {
    // Goal: the address is that of the identified client (C6). Method: no peer is trusted, so loopback is the client, whatever it sends.
    let gateway = setup_with(&format!("{RULES}{KINDS}")).start().await;
    assert_eq!(
        gateway.send(asks("/", GOOGLEBOT, "192.0.2.9")).await.status,
        203
    );
}

#[tokio::test]
async fn ranges_are_swapped_when_they_change_and_broken_ones_keep_the_old() {
    // Goal: a new file is in force at once, and half of one, or one for everybody, changes nothing but metric and log. Method: an address
    // that only the second file has; then half a file and one with every address; then the first one again.
    let gateway = setup().start().await;
    let file = gateway.directory().join("google.json");
    let new = file.with_extension("new");
    let put = |text: &str| {
        fs::write(&new, text).unwrap();
        fs::rename(&new, &file).unwrap();
    };
    let answers = async |wanted: u16| {
        eventually(&format!("the answer is {wanted}"), async || {
            let answer = gateway.send(asks("/", GOOGLEBOT, "203.0.113.7")).await;
            (answer.status == wanted).then_some(())
        })
        .await;
    };
    let is_broken = async |wanted: f64| {
        let labels = [("kind", "crawler"), ("name", "google"), ("content", "kept")];
        eventually(&format!("{wanted} files are broken"), async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_config_file_broken", &labels) == wanted).then_some(())
        })
        .await;
    };
    answers(203).await;
    let second = GOOGLE.replace("192.0.2.0/24", "203.0.113.0/28");
    put(&second);
    answers(201).await;
    put(&second[..second.len() / 2]);
    is_broken(1.0).await;
    answers(201).await;
    put(&second);
    is_broken(0.0).await;
    put(&second.replace("203.0.113.0/28", "0.0.0.0/0"));
    is_broken(1.0).await;
    assert_eq!(
        gateway
            .send(asks("/", GOOGLEBOT, "198.18.0.1"))
            .await
            .status,
        203
    );
    answers(201).await;
    let log = gateway.stderr();
    assert!(
        log.contains("which would prove too many to be this crawler"),
        "{log}"
    );
    put(GOOGLE);
    answers(203).await;
    is_broken(0.0).await;
}

#[tokio::test]
async fn a_start_without_ranges_limits_the_crawler() {
    // Goal: a missing file fails alone and closed: the gateway starts, and nobody is verified by it. Method: a start without the file;
    // then the file comes.
    let rules = format!("{TRUST}{RULES}{KINDS}");
    let gateway = Setup::new()
        .file("gpt.txt", "198.51.100.0/25\n")
        .file("claude.txt", "198.51.100.128/25\n")
        .rules(&rules)
        .start()
        .await;
    assert_eq!(
        gateway.send(asks("/", GOOGLEBOT, "192.0.2.9")).await.status,
        203
    );
    assert_eq!(
        gateway
            .send(asks("/", "GPTBot", "198.51.100.7"))
            .await
            .status,
        202
    );
    let metrics = gateway.metrics().await;
    let labels = [("kind", "crawler"), ("name", "google"), ("content", "lost")];
    assert_eq!(metrics.sum("sluicegate_config_file_broken", &labels), 1.0);
    fs::write(gateway.directory().join("google.json"), GOOGLE).unwrap();
    eventually("the crawler is verified", async || {
        let answer = gateway.send(asks("/", GOOGLEBOT, "192.0.2.9")).await;
        (answer.status == 201).then_some(())
    })
    .await;
}

/// A configuration with the rules and their files in a directory.
fn written(directory: &tempfile::TempDir) -> String {
    let at = |name: &str| directory.path().join(name);
    fs::write(at("google.json"), GOOGLE).unwrap();
    fs::write(at("gpt.txt"), "198.51.100.0/25\n").unwrap();
    fs::write(at("claude.txt"), "198.51.100.128/25\n").unwrap();
    let rules = RULES.replace("../", "");
    let text = format!("[[listener]]\naddress = \"127.0.0.1:1\"\n{TRUST}{rules}{KINDS}");
    fs::write(at("gateway.toml"), text).unwrap();
    at("gateway.toml").to_str().unwrap().to_owned()
}

#[tokio::test]
async fn explain_tells_the_crawler_and_why() {
    // Goal: an operator sees what a client counts as. Method: a verified one, one who only claims it, and a browser.
    let directory = tempfile::tempdir().unwrap();
    let file = written(&directory);
    for (client, user_agent, wanted) in [
        (
            "192.0.2.9",
            GOOGLEBOT,
            "client.crawler = search, its address is in the ranges of google",
        ),
        (
            "203.0.113.1",
            GOOGLEBOT,
            "client.crawler = unverified, its user agent is that of google, and nothing proves it",
        ),
        (
            "203.0.113.1",
            "curl/8",
            "client.crawler = none, it claims to be none",
        ),
    ] {
        let header = format!("User-Agent: {user_agent}");
        let request = [
            "--request",
            "GET /counted",
            "--client",
            client,
            "--header",
            &header,
        ];
        let mut process = Process::run(&[&["explain", &file][..], &request].concat());
        assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
        let told = process.stdout();
        assert!(told.contains(wanted), "{told}");
    }
}

/// The report of a replay of these lines.
async fn replayed(lines: &str) -> serde_json::Value {
    let directory = tempfile::tempdir().unwrap();
    let file = written(&directory);
    let log = directory.path().join("access.log");
    fs::write(&log, lines).unwrap();
    let arguments = ["replay", "--config", &file, log.to_str().unwrap(), "--json"];
    let mut process = Process::run(&arguments);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    serde_json::from_str(&process.stdout()).unwrap()
}

#[tokio::test]
async fn replay_verifies_logged_clients_by_their_addresses() {
    // Goal: a log with user agents is judged by the ranges, and one without says what it does not judge. Method: three requests of one
    // group under two an hour, and two claims; then the same without user agents.
    let of = |client: &str, user_agent: &str| {
        format!(
            "{client} - - [21/Nov/2026:07:10:00 +0000] \"GET /counted HTTP/1.1\" 200 17 \"-\" \"{user_agent}\"\n"
        )
    };
    let clients = [
        ("198.51.100.7", "GPTBot"),
        ("198.51.100.200", "ClaudeBot"),
        ("198.51.100.8", "GPTBot"),
        ("203.0.113.1", "GPTBot"),
        ("203.0.113.2", GOOGLEBOT),
    ];
    let lines: String = clients
        .iter()
        .map(|(client, user_agent)| of(client, user_agent))
        .collect();
    let report = replayed(&lines).await;
    assert_eq!(report["rejected"], 1, "{report}");
    let bare = lines
        .replace(" \"-\" ", "")
        .lines()
        .map(|line| line.split(" 200 17").next().unwrap().to_owned() + " 200 17\n")
        .collect::<String>();
    let report = replayed(&bare).await;
    assert!(
        report
            .to_string()
            .contains("neither crawlers nor user agents"),
        "{report}"
    );
}

#[tokio::test]
async fn replay_keeps_what_was_proved_when_it_was_logged() {
    // Goal: a verified crawler stays verified where the log has no user agent, and a claim stays a claim. Method: lines of the
    // gateway's own log, three of one group from addresses that are in no range, and two claims.
    let of = |client: &str, crawler: &str| {
        format!(
            "{{\"time\":\"2026-11-21T07:10:00.000Z\",\"client\":\"{client}\",{crawler},\"method\":\"GET\",\
             \"target\":\"/counted\",\"outcome\":\"forwarded\",\"status\":200}}\n"
        )
    };
    let verified = |name| format!("\"crawler\":\"{name}\",\"crawler_proof\":\"ranges\"");
    let claim = "\"crawler\":\"unverified\",\"crawler_claim\":\"gpt\"";
    let lines = [
        of("203.0.113.1", &verified("gpt")),
        of("203.0.113.2", &verified("claude")),
        of("203.0.113.3", &verified("gpt")),
        of("203.0.113.4", claim),
        of("203.0.113.5", claim),
        of("203.0.113.6", claim),
    ];
    let report = replayed(&lines.concat()).await;
    assert_eq!(report["rejected"], 2, "{report}");
}
