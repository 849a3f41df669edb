//! Proofs by the names of addresses: forward-confirmed reverse DNS, before a real DNS server.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use sluicegate_limiter::Timestamp;
use tokio::net::UdpSocket;

use super::*;
use crate::harness::dnsmasq::{has, names};

/// An address of the search engine, whose name has it.
const CRAWLER: &str = "127.0.2.1";
const CRAWLER_NAME: &str = "crawl-127-0-2-1.googlebot.com";

const DOMAINS: &str = "domains = [\"googlebot.com\", \"google.com\"]";

/// Two crawlers with domains. The client is the peer, or what 127.0.0.1 says.
fn rules(server: SocketAddr) -> String {
    format!(
        r#"
[client]
trusted_proxies = ["127.0.0.1"]
dns_servers = ["{server}"]
[crawler.google]
group = "search"
user_agents = ["Googlebot"]
{DOMAINS}
[crawler.gpt]
group = "ai"
user_agents = ["GPTBot"]
domains = ["openai.test"]
{KINDS}"#
    )
}

async fn start(dns: &Dnsmasq) -> Gateway {
    Setup::new().rules(&rules(dns.address())).start().await
}

/// The records of the search engine.
fn records() -> Vec<String> {
    vec![names(CRAWLER, CRAWLER_NAME), has(CRAWLER_NAME, CRAWLER)]
}

/// A request of a client that claims to be the search engine.
fn claims(client: &str) -> Request {
    asks("/", GOOGLEBOT, client)
}

/// Waits until the claim of this client gets this status.
async fn answers(gateway: &Gateway, client: &str, wanted: u16) {
    eventually(&format!("{client} gets {wanted}"), async || {
        (gateway.send(claims(client)).await.status == wanted).then_some(())
    })
    .await;
}

/// Waits until the claim of this client is refused for this reason.
async fn refused_for(gateway: &Gateway, client: &str, reason: &str) {
    eventually(&format!("{client} is unverified: {reason}"), async || {
        let answer = gateway.send(claims(client)).await;
        assert_eq!(answer.status, 203, "{client}");
        let line = gateway.lines_of(&[answer]).await.remove(0);
        (line["crawler_reason"] == *reason).then_some(())
    })
    .await;
}

/// The look-ups with this result.
async fn look_ups(gateway: &Gateway, result: &str) -> f64 {
    let metrics = gateway.metrics().await;
    metrics.sum("sluicegate_crawler_lookups_total", &[("result", result)])
}

#[tokio::test]
async fn an_address_is_verified_once_its_name_was_looked_up() {
    // Goal: who claims to be the crawler is unverified until its address is confirmed, and then verified; nobody else is looked up.
    // Method: a connection from the address itself, with and without the claim; the questions that the server counts.
    let dns = Dnsmasq::start(&records()).await;
    let gateway = start(&dns).await;
    let mut client = gateway.client_from(CRAWLER).await;
    let claim = || get("/").header("user-agent", GOOGLEBOT);
    assert_eq!(client.send(get("/")).await.status, 204);
    let first = eventually("the address is looked up", async || {
        let answer = client.send(claim()).await;
        assert_eq!(answer.status, 203);
        let line = gateway.lines_of(&[answer]).await.remove(0);
        (line["crawler_reason"] == "dns-pending").then_some(line)
    })
    .await;
    assert_eq!(first["crawler_claim"], "google");
    let verified = eventually("the address is verified", async || {
        let answer = client.send(claim()).await;
        (answer.status == 201).then_some(answer)
    })
    .await;
    let line = gateway.lines_of(&[verified]).await.remove(0);
    assert_eq!(
        (&line["crawler"], &line["crawler_proof"]),
        (&"google".into(), &"reverse-dns".into())
    );
    assert_eq!(line["crawler_hostname"], CRAWLER_NAME);
    assert!(first.get("crawler_hostname").is_none(), "{first}");
    for _ in 0..20 {
        assert_eq!(client.send(claim()).await.status, 201);
        assert_eq!(client.send(get("/")).await.status, 204);
    }
    // The address is that of a crawler, and another one is claimed.
    let other = get("/").header("user-agent", "GPTBot/1.2");
    assert_eq!(client.send(other).await.status, 203);
    assert_eq!((dns.count("PTR"), dns.count("A")), (1, 1));
    let metrics = gateway.metrics().await;
    let requests = |result| {
        let labels = [("crawler", "google"), ("result", result)];
        metrics.sum("sluicegate_crawler_requests_total", &labels)
    };
    assert_eq!(requests("reverse-dns"), 21.0);
    assert_eq!(look_ups(&gateway, "confirmed").await, 1.0);
    let duration = "sluicegate_crawler_lookup_duration_seconds";
    assert_eq!(metrics.sum(&format!("{duration}_count"), &[]), 1.0);
    let seconds = metrics.sum(&format!("{duration}_sum"), &[]);
    assert!(seconds > 0.0 && seconds < 4.0, "{seconds}");
    let waiting = "sluicegate_crawler_lookups_waiting";
    let in_flight = "sluicegate_crawler_lookups_in_flight";
    assert_eq!(
        (metrics.sum(waiting, &[]), metrics.sum(in_flight, &[])),
        (0.0, 0.0)
    );
    let cached = [("state", "confirmed")];
    assert_eq!(
        metrics.sum("sluicegate_crawler_lookup_addresses", &cached),
        1.0
    );
}

#[tokio::test]
async fn a_name_that_only_looks_right_proves_nothing() {
    // Goal: the owner of an address writes any name, and gains nothing by it. Method: names in the domain without the address, names that
    // begin, end or contain it, no name, an address of the proxy's network; each by another network.
    let liars = [
        (
            "203.0.113.1",
            Some("crawl-66-249-66-1.googlebot.com"),
            "dns-mismatch",
        ),
        (
            "198.51.100.1",
            Some("crawl.evilgooglebot.com"),
            "dns-other-domain",
        ),
        (
            "192.0.2.1",
            Some("googlebot.com.evil.test"),
            "dns-other-domain",
        ),
        (
            "192.0.3.1",
            Some("googlebot.com-evil.test"),
            "dns-other-domain",
        ),
        ("192.0.4.1", Some("com"), "dns-other-domain"),
        ("192.0.5.1", None, "dns-no-name"),
        // The name of the real crawler.
        ("192.0.6.1", Some(CRAWLER_NAME), "dns-mismatch"),
    ];
    let mut written = records();
    for (address, name, _) in liars {
        written.extend(name.map(|name| names(address, name)));
    }
    // They own these names, which have their addresses.
    written.push(has("crawl.evilgooglebot.com", "198.51.100.1"));
    written.push(has("googlebot.com.evil.test", "192.0.2.1"));
    written.push(has("crawl-66-249-66-1.googlebot.com", "66.249.66.1"));
    let dns = Dnsmasq::start(&written).await;
    let gateway = start(&dns).await;
    for (address, _, reason) in liars {
        refused_for(&gateway, address, reason).await;
    }
    assert_eq!(look_ups(&gateway, "mismatch").await, 2.0);
    assert_eq!(look_ups(&gateway, "other-domain").await, 4.0);
    assert_eq!(look_ups(&gateway, "no-name").await, 1.0);
    // A forged chain from a peer that is not trusted is no address of the crawler.
    let mut client = gateway.client_from("127.0.9.1").await;
    assert_eq!(client.send(claims(CRAWLER)).await.status, 203);
    answers(&gateway, CRAWLER, 201).await;
    assert_eq!(client.send(claims(CRAWLER)).await.status, 203);
}

#[tokio::test]
async fn names_are_compared_as_dns_does() {
    // Goal: case, IPv6, several names and answers that fit into no datagram make no difference. Method: a crawler behind each.
    let mut written = vec![
        names("2001:db8:77::1", "Crawl-6.GoogleBot.COM"),
        has("crawl-6.googlebot.com", "2001:db8:77::1"),
        names("203.0.113.5", "other.test"),
        names("203.0.113.5", "proxy.google.com"),
        has("proxy.google.com", "203.0.113.5"),
    ];
    for at in 0..20 {
        let long = "x".repeat(50);
        written.push(names("192.0.2.5", &format!("{long}{at}.evil.test")));
    }
    written.push(names("192.0.2.5", "crawl-7.googlebot.com"));
    written.push(has("crawl-7.googlebot.com", "192.0.2.5"));
    let dns = Dnsmasq::start(&written).await;
    let gateway = start(&dns).await;
    for address in ["2001:db8:77::1", "203.0.113.5", "192.0.2.5"] {
        answers(&gateway, address, 201).await;
    }
    assert_eq!(dns.count("AAAA"), 1);
}

/// A resolver that counts questions and answers none.
async fn silent() -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let received = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&received);
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while socket.recv(&mut buffer).await.is_ok() {
            // Relaxed: a count, on its own.
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    (address, received)
}

#[tokio::test]
async fn a_silent_resolver_delays_nobody() {
    // Goal: no request waits for DNS, and a resolver that does not answer gets a bounded number of questions. Method: claims from 300
    // networks, which would wait four seconds each; people between them; the datagrams that the resolver receives.
    let (server, received) = silent().await;
    let gateway = Setup::new().rules(&rules(server)).start().await;
    let mut client = gateway.client().await;
    let begun = Instant::now();
    for network in 0..300 {
        let address = format!("198.18.{}.1", network % 256);
        let address = if network < 256 {
            address
        } else {
            format!("198.19.{}.1", network - 256)
        };
        assert_eq!(client.send(claims(&address)).await.status, 203);
        let person = asks("/", "Mozilla/5.0", &address);
        assert_eq!(client.send(person).await.status, 204);
    }
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    // Both bounds are reached, and shown: 32 look-ups hold for four seconds, and further claims fill the queue.
    let mut networks = 0..;
    eventually("32 are in flight, 64 wait", async || {
        let metrics = gateway.metrics().await;
        let in_flight = metrics.sum("sluicegate_crawler_lookups_in_flight", &[]);
        let waiting = |network| {
            let labels = [("network", network)];
            metrics.sum("sluicegate_crawler_lookups_waiting", &labels)
        };
        assert!(in_flight <= 32.0 && waiting("unknown") <= 64.0);
        assert_eq!(waiting("known"), 0.0);
        for network in networks.by_ref().take(20) {
            let address = format!("10.{}.{}.1", network / 256, network % 256);
            assert_eq!(client.send(claims(&address)).await.status, 203);
        }
        (in_flight == 32.0 && waiting("unknown") == 64.0).then_some(())
    })
    .await;
    eventually("look-ups fail", async || {
        (look_ups(&gateway, "failed").await >= 32.0).then_some(())
    })
    .await;
    // 32 look-ups are in flight, each with two questions in four seconds.
    let rounds = begun.elapsed().as_secs() as usize / 4 + 1;
    let asked = received.load(Ordering::Relaxed);
    assert!(
        (64..=64 * rounds).contains(&asked),
        "{asked} in {rounds} rounds"
    );
    let metrics = gateway.metrics().await;
    // Each had two questions without an answer in two seconds.
    let duration = "sluicegate_crawler_lookup_duration_seconds";
    let [count, seconds] = ["count", "sum"].map(|of| metrics.sum(&format!("{duration}_{of}"), &[]));
    assert!(count > 0.0 && seconds > 3.9 * count, "{count}, {seconds} s");
    let full = [("bound", "queue")];
    assert!(metrics.sum("sluicegate_crawler_lookups_skipped_total", &full) > 0.0);
    assert!(
        gateway
            .stderr()
            .contains("crawlers: a look-up of an address failed")
    );
}

#[tokio::test]
async fn a_flood_of_claims_is_a_bounded_number_of_questions() {
    // Goal: clients choose addresses, and cost no more than 50 look-ups a second, or 16 a minute of one network. Method: claims from
    // all addresses of a network, then from 2,000 networks as fast as they go; then a crawler, which still gets verified.
    let dns = Dnsmasq::start(&records()).await;
    let gateway = start(&dns).await;
    let mut client = gateway.client().await;
    answers(&gateway, CRAWLER, 201).await;
    let one = dns.count("PTR");
    let minute = gateway
        .lines_of(&[client.send(claims("203.0.113.0")).await])
        .await[0]["time"]
        .clone();
    for _ in 0..4 {
        for host in 0..256 {
            assert_eq!(
                client
                    .send(claims(&format!("203.0.113.{host}")))
                    .await
                    .status,
                203
            );
        }
    }
    let last = client.send(claims("203.0.113.255")).await;
    let last = gateway.lines_of(&[last]).await[0]["time"].clone();
    let of_network = dns.count("PTR") - one;
    let minutes = if minute.as_str().unwrap()[..16] == last.as_str().unwrap()[..16] {
        1
    } else {
        2
    };
    assert!(of_network <= 16 * minutes, "{of_network}");
    let (begun, before) = (Instant::now(), dns.count("PTR"));
    for network in 0..2_000 {
        let address = format!("10.{}.{}.1", network / 256, network % 256);
        assert_eq!(client.send(claims(&address)).await.status, 203);
    }
    let most = 50 * (begun.elapsed().as_secs() as usize + 1) + 1;
    let asked = dns.count("PTR") - before;
    assert!((1..=most).contains(&asked), "{asked} of {most}");
    assert_eq!(dns.count("A"), 1);
    answers(&gateway, CRAWLER, 201).await;
}

/// Sets the clock of a gateway to so many seconds behind its start.
fn at(second: u64) -> Timestamp {
    Timestamp::from_secs(1_900_000_000 + second)
}

#[tokio::test]
async fn answers_are_kept_for_a_bounded_time() {
    // Goal: an address is not looked up again while its answer holds; an outage takes no confirmation away for an hour, and an answer
    // takes it away at once. Method: the driven clock before and after each bound, without the server, and with other records.
    let dns = Dnsmasq::start(&records()).await;
    let server = dns.address();
    let setup = Setup::new().rules(&rules(server)).with_driven_clock();
    let gateway = setup.start().await;
    let mut clock = gateway.clock();
    clock.set(at(0));
    let liar = "203.0.113.1";
    refused_for(&gateway, liar, "dns-no-name").await;
    answers(&gateway, CRAWLER, 201).await;
    clock.set(at(299));
    refused_for(&gateway, liar, "dns-no-name").await;
    assert_eq!(dns.count("PTR"), 2);
    clock.set(at(300));
    eventually("the liar is looked up again", async || {
        assert_eq!(gateway.send(claims(liar)).await.status, 203);
        (dns.count("PTR") == 3).then_some(())
    })
    .await;
    // The crawler is due too; it stays verified while the server is away, each failure holds for 30 seconds.
    drop(dns);
    for second in [301, 332, 363] {
        clock.set(at(second));
        let failed = look_ups(&gateway, "failed").await;
        eventually("the refresh fails", async || {
            assert_eq!(gateway.send(claims(CRAWLER)).await.status, 201);
            (look_ups(&gateway, "failed").await > failed).then_some(())
        })
        .await;
    }
    clock.set(at(300 + 3_600));
    refused_for(&gateway, CRAWLER, "dns-failed").await;
    // It is back, then the crawler loses its name.
    let dns = Dnsmasq::start_at(server, &records()).await;
    clock.set(at(300 + 3_631));
    answers(&gateway, CRAWLER, 201).await;
    drop(dns);
    let _dns = Dnsmasq::start_at(server, &[]).await;
    clock.set(at(2 * 300 + 3_631));
    answers(&gateway, CRAWLER, 203).await;
    refused_for(&gateway, CRAWLER, "dns-no-name").await;
}

#[tokio::test]
async fn a_reload_keeps_what_was_looked_up() {
    // Goal: a reload costs no look-up while the domains are the same; with others a name counts as far as it is in them; a crawler that
    // is removed is nobody's claim. Method: reloads with each, and the questions that the server counts.
    let dns = Dnsmasq::start(&records()).await;
    let mut gateway = start(&dns).await;
    answers(&gateway, CRAWLER, 201).await;
    let first = rules(dns.address());
    let unrelated =
        format!("{first}\n[[route]]\npath = \"/other\"\nrespond = {{ status = 200 }}\n");
    gateway.reload(&unrelated).await;
    assert_eq!(gateway.send(claims(CRAWLER)).await.status, 201);
    let more = first.replace(DOMAINS, "domains = [\"search.msn.com\", \"googlebot.com\"]");
    gateway.reload(&more).await;
    assert_eq!(gateway.send(claims(CRAWLER)).await.status, 201);
    assert_eq!(dns.count("PTR"), 1);
    let others = first.replace(DOMAINS, "domains = [\"search.msn.com\"]");
    gateway.reload(&others).await;
    refused_for(&gateway, CRAWLER, "dns-other-domain").await;
    assert_eq!(dns.count("PTR"), 2);
    let removed = first.replace("\"Googlebot\"", "\"Otherbot\"");
    gateway.reload(&removed).await;
    assert_eq!(gateway.send(claims(CRAWLER)).await.status, 204);
    let none = first
        .replace(DOMAINS, "")
        .replace("domains = [\"openai.test\"]", "");
    gateway.reload(&none).await;
    assert_eq!(gateway.send(claims(CRAWLER)).await.status, 203);
    gateway.reload(&first).await;
    answers(&gateway, CRAWLER, 201).await;
}

/// A configuration with the rules in a directory.
fn written(directory: &tempfile::TempDir, server: SocketAddr) -> String {
    let rules = rules(server);
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:1\"\n[limit.crawlers]\nkey = \"client.crawler\"\nrates = [\"2 per 1h\"]\n{rules}\
         [[route]]\npath = \"/counted\"\ncrawlers = [\"!none\"]\nlimits = [\"crawlers\"]\nrespond = {{ status = 200 }}\n"
    );
    let file = directory.path().join("gateway.toml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn explain_and_replay_ask_no_server() {
    // Goal: both say what they do not judge, and a replay keeps what was proved. Method: explain of a claim, by the command and by the
    // gateway; a log of three verified requests and two claims.
    let dns = Dnsmasq::start(&records()).await;
    let directory = tempfile::tempdir().unwrap();
    let file = written(&directory, dns.address());
    let header = format!("User-Agent: {GOOGLEBOT}");
    let arguments = [
        "explain",
        &file,
        "--request",
        "GET /counted",
        "--client",
        CRAWLER,
        "--header",
        &header,
    ];
    let mut process = Process::run(&arguments);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    let told = process.stdout();
    let wanted = "client.crawler = unverified, its user agent is that of google, and a gateway would look the name of its address up, \
                  which this command does not";
    assert!(told.contains(wanted), "{told}");
    let line = |client: &str, crawler: &str| {
        format!(
            "{{\"time\":\"2026-11-21T07:10:00.000Z\",\"client\":\"{client}\",{crawler},\"method\":\"GET\",\
             \"target\":\"/counted\",\"outcome\":\"forwarded\",\"status\":200}}\n"
        )
    };
    let proved = "\"crawler\":\"google\",\"crawler_proof\":\"reverse-dns\",\"crawler_hostname\":\"a.googlebot.com\"";
    let claim = "\"crawler\":\"unverified\",\"crawler_claim\":\"google\"";
    let mut lines = [CRAWLER, "127.0.2.2", "127.0.2.3"]
        .map(|client| line(client, proved))
        .concat();
    lines += &line("203.0.113.1", claim);
    lines += &line("203.0.113.2", claim);
    let log = directory.path().join("access.log");
    fs::write(&log, lines).unwrap();
    let arguments = ["replay", "--config", &file, log.to_str().unwrap(), "--json"];
    let mut process = Process::run(&arguments);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    let report: serde_json::Value = serde_json::from_str(&process.stdout()).unwrap();
    assert_eq!(report["rejected"], 1, "{report}");
    assert!(
        report
            .to_string()
            .contains("names of addresses are not looked up"),
        "{report}"
    );
    assert_eq!(dns.count("PTR"), 0);
    let gateway = start(&dns).await;
    answers(&gateway, CRAWLER, 201).await;
    let question =
        format!("/explain?method=GET&url=/&client={CRAWLER}&header=User-Agent:%20Googlebot");
    let told = gateway.admin(get(&question)).await;
    assert!(
        told.text().contains(&format!(
            "its address has the name {CRAWLER_NAME} in a domain of google"
        )),
        "{}",
        told.text()
    );
}

#[tokio::test]
async fn a_domain_is_only_the_last_proof() {
    // Goal: an address in the published ranges is verified at once, and not looked up. Method: a crawler with both.
    let dns = Dnsmasq::start(&[]).await;
    let both = rules(dns.address()).replace(
        DOMAINS,
        &format!("{DOMAINS}\nranges = [\"../google.json\"]"),
    );
    let gateway = Setup::new()
        .file("google.json", GOOGLE)
        .rules(&both)
        .start()
        .await;
    assert_eq!(gateway.send(claims("192.0.2.9")).await.status, 201);
    refused_for(&gateway, "203.0.113.9", "dns-no-name").await;
    assert_eq!(dns.count("PTR"), 1);
}
