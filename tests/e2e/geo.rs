//! Countries, cities and networks of clients: keys, routes and lists by them, and databases that change while the gateway runs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::*;

/// Loopback tells who the client is.
const RULES: &str = r#"
[client]
trusted_proxies = ["127.0.0.0/8"]
[geo]
databases = ["../place.mmdb", "../network.mmdb"]
[limit.country]
key = "client.country"
rates = ["1 per 1h"]
[limit.asn]
key = "client.asn"
rates = ["1 per 1h"]
[[route]]
path = "/country"
limits = ["country"]
respond = { status = 200 }
[[route]]
path = "/asn"
limits = ["asn"]
respond = { status = 200 }
[[route]]
path = "/plain"
respond = { status = 200 }
"#;

pub fn database(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/geo");
    PathBuf::from(format!("{folder}/GeoLite2-{name}-Test.mmdb"))
}

/// A gateway whose databases are copies in its directory, which a test may replace.
async fn start(rules: &str) -> Gateway {
    let directory = tempfile::tempdir().unwrap().keep();
    fs::copy(database("Country"), directory.join("place.mmdb")).unwrap();
    fs::copy(database("ASN"), directory.join("network.mmdb")).unwrap();
    let rules = rules.replace("../", &format!("{}/", directory.display()));
    Gateway::start(&rules).await
}

/// The directory of the databases that the rules of a gateway name.
fn databases_of(gateway: &Gateway) -> PathBuf {
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    let (before, _) = text.split_once("/place.mmdb").unwrap();
    PathBuf::from(before.rsplit_once('"').unwrap().1)
}

async fn status(client: &mut Client, path: &str, address: &str) -> u16 {
    client.send(get(path).forwarded_for(address)).await.status
}

#[tokio::test]
async fn clients_of_one_country_or_network_share_a_counter() {
    // Goal: a key by country or ASN counts all its clients together, in both families, and unknown ones as one value. Method: two clients
    // of each kind on limits of one an hour; private and mapped addresses among them.
    let gateway = start(RULES).await;
    let mut client = gateway.client().await;
    for (path, address, wanted) in [
        ("/country", "89.160.20.112", 200),
        ("/country", "89.160.20.120", 429),
        ("/country", "81.2.69.142", 200),
        ("/country", "::ffff:2.125.160.216", 429),
        ("/country", "2001:218::1", 200),
        ("/country", "10.0.0.1", 200),
        ("/country", "192.168.7.7", 429),
        ("/country", "2001:db8::1", 429),
        ("/asn", "1.128.0.0", 200),
        ("/asn", "1.128.200.1", 429),
        ("/asn", "216.160.83.56", 200),
        ("/asn", "10.0.0.1", 200),
        ("/asn", "10.0.0.2", 429),
    ] {
        assert_eq!(
            status(&mut client, path, address).await,
            wanted,
            "{path} {address}"
        );
    }
}

/// Three limits that read cities: as a key, and as the name of a tier; and a route and a list that do.
const CITIES: &str = r#"
[client]
trusted_proxies = ["127.0.0.0/8"]
[geo]
databases = ["../place.mmdb"]
[limit.city]
key = "client.city"
rates = ["2 per 1h"]
overrides = "../rows.csv"
[limit.each]
key = "client.ip"
rates = ["2 per 1h"]
tier = "client.city"
[limit.each.tiers]
"GB-ENG/London" = "5 per 1h"
unknown = "1 per 1h"
"SE-E/Link\u00f6ping" = "blocked"
[list.far]
cities = ["US-WA/Milton"]
[[route]]
path = "/city"
limits = ["city"]
respond = { status = 200 }
[[route]]
path = "/tier"
limits = ["each"]
respond = { status = 200 }
[[route]]
path = "/shop"
cities = ["GB-ENG/London", "unknown"]
block = ["far"]
respond = { status = 201 }
[[route]]
path = "/shop"
block = ["far"]
respond = { status = 202 }
"#;

/// A gateway with [`CITIES`], whose database has cities.
async fn start_with_cities() -> Gateway {
    let directory = tempfile::tempdir().unwrap().keep();
    fs::copy(database("City"), directory.join("place.mmdb")).unwrap();
    fs::write(
        directory.join("rows.csv"),
        "client.city,rates\nUS-WA/Milton,1 per 1h\n",
    )
    .unwrap();
    Gateway::start(&CITIES.replace("../", &format!("{}/", directory.display()))).await
}

#[tokio::test]
async fn clients_of_one_city_share_a_counter() {
    // Goal: `client.city` as key, in an override, a route and a list, from the database to the answer. Method: clients of cities that the
    // publisher's test database names, in IPv4, IPv6 and IPv4 within IPv6, of a country without a city, and of no place.
    let gateway = start_with_cities().await;
    let mut client = gateway.client().await;
    for (path, address, wanted) in [
        ("/city", "81.2.69.142", 200),
        ("/city", "::ffff:81.2.69.160", 200),
        ("/city", "81.2.69.192", 429),
        // Another city of the same country.
        ("/city", "2.125.160.216", 200),
        ("/city", "89.160.20.112", 200),
        ("/city", "89.160.20.128", 200),
        ("/city", "89.160.20.113", 429),
        // A row has one for this city.
        ("/city", "216.160.83.56", 200),
        ("/city", "216.160.83.57", 429),
        // Japan without a city, and no place at all: one value.
        ("/city", "2001:218::1", 200),
        ("/city", "10.0.0.1", 200),
        ("/city", "192.168.0.1", 429),
        ("/shop", "81.2.69.142", 201),
        ("/shop", "10.0.0.1", 201),
        ("/shop", "2.125.160.216", 202),
        ("/shop", "216.160.83.56", 403),
    ] {
        let status = status(&mut client, path, address).await;
        assert_eq!(status, wanted, "{path} {address}");
    }
    let answer = client.send(get("/city").forwarded_for("81.2.69.142")).await;
    let line = gateway.lines_of(&[answer]).await.remove(0);
    assert_eq!(line["city"], "GB-ENG/London");
    let metrics = gateway.metrics().await;
    let looked_up = |result| {
        let labels = [("field", "city"), ("result", result)];
        metrics.sum("sluicegate_geo_lookups_total", &labels)
    };
    assert_eq!((looked_up("known"), looked_up("unknown")), (13.0, 4.0));
}

#[tokio::test]
async fn the_place_of_a_client_names_its_tier() {
    // Goal: each client has a counter, at the rates of its place, and no field can name another. Method: two clients of a city with a tier,
    // one of another city, an unknown one and a blocked one, with fields that claim a place.
    let gateway = start_with_cities().await;
    for (address, admitted, tier) in [
        ("81.2.69.142", 5, Some("GB-ENG/London")),
        ("81.2.69.160", 5, Some("GB-ENG/London")),
        ("2.125.160.216", 2, None),
        ("10.0.0.1", 1, Some("unknown")),
        ("89.160.20.112", 0, Some("SE-E/Link\u{f6}ping")),
    ] {
        let mut client = gateway.client().await;
        let mut answers = Vec::new();
        for _ in 0..7 {
            let asked = get("/tier").forwarded_for(address);
            let asked = asked.header("x-geo-city", "GB-ENG/London");
            answers.push(client.send(asked).await);
        }
        let passed = answers.iter().filter(|answer| answer.status == 200);
        assert_eq!(passed.count(), admitted, "{address}");
        let refused = if admitted == 0 { 403 } else { 429 };
        assert_eq!(answers[6].status, refused, "{address}");
        let line = gateway.lines_of(&answers[..1]).await.remove(0);
        assert_eq!(line["tier"]["each"].as_str(), tier, "{line}");
    }
}

#[tokio::test]
async fn log_and_metrics_tell_the_place_of_a_client_where_a_route_reads_it() {
    // Goal: the line has the values that decided, and a route that reads none looks nothing up. Method: a known client, an unknown one and
    // one on a route without such limits.
    let gateway = start(RULES).await;
    let mut answers = Vec::new();
    for (path, address) in [
        ("/country", "216.160.83.56"),
        ("/asn", "10.0.0.1"),
        ("/plain", "216.160.83.56"),
    ] {
        answers.push(gateway.send(get(path).forwarded_for(address)).await);
    }
    let lines = gateway.lines_of(&answers).await;
    assert_eq!(
        (&lines[0]["country"], &lines[0]["asn"]),
        (&"US".into(), &"209".into())
    );
    assert_eq!(
        (&lines[1]["country"], &lines[1]["asn"]),
        (&"unknown".into(), &"unknown".into())
    );
    assert!(lines[2].get("country").is_none() && lines[2].get("asn").is_none());
    // No key, route or list reads cities.
    assert!(lines[0].get("city").is_none());
    let metrics = gateway.metrics().await;
    let lookups = |result| {
        let labels = [("field", "country"), ("result", result)];
        metrics.sum("sluicegate_geo_lookups_total", &labels)
    };
    assert_eq!((lookups("known"), lookups("unknown")), (1.0, 1.0));
    let built = metrics.sum(
        "sluicegate_geo_database_build_timestamp_seconds",
        &[("type", "GeoLite2-Country")],
    );
    assert_eq!(built, 1_770_245_369.0);
}

#[tokio::test]
async fn a_forged_chain_has_no_place() {
    // Goal: the place is that of the identified client (C6). Method: no peer is trusted, so that loopback is the client, whatever it sends.
    let rules = RULES.replace("trusted_proxies = [\"127.0.0.0/8\"]", "");
    let gateway = start(&rules).await;
    let mut client = gateway.client().await;
    assert_eq!(status(&mut client, "/country", "89.160.20.112").await, 200);
    assert_eq!(status(&mut client, "/country", "81.2.69.142").await, 429);
    let answer = gateway.send(get("/asn").forwarded_for("1.128.0.0")).await;
    let lines = gateway.lines_of(&[answer]).await;
    assert_eq!(lines[0]["asn"], "unknown");
}

#[tokio::test]
async fn routes_and_lists_name_places() {
    // Goal: a route takes the places that it names, an excepted and an unknown one included, and a list blocks or allows them; a single
    // address is an exception from a country, and a network from a country. Method: clients of each.
    let rules = RULES.replace(
        "[limit.country]",
        r#"[list.far]
countries = ["SE", "US"]
[list.friends]
cidrs = ["89.160.20.113"]
asns = [209]
[limit.country]"#,
    ) + r#"
[[route]]
path = "/shop"
countries = ["GB", "JP"]
respond = { status = 201 }
[[route]]
path = "/shop"
countries = ["unknown"]
respond = { status = 202 }
[[route]]
path = "/shop"
respond = { status = 203 }
[[route]]
path = "/not-asn"
asns = ["!1221"]
respond = { status = 204 }
[[route]]
path = "/guarded"
block = ["far"]
allow = ["friends"]
respond = { status = 200 }
"#;
    let gateway = start(&rules).await;
    let mut client = gateway.client().await;
    for (path, address, wanted) in [
        ("/shop", "81.2.69.142", 201),
        ("/shop", "2001:218::1", 201),
        ("/shop", "10.0.0.1", 202),
        ("/shop", "89.160.20.112", 203),
        ("/not-asn", "216.160.83.56", 204),
        ("/not-asn", "10.0.0.1", 204),
        ("/not-asn", "1.128.0.0", 404),
        ("/guarded", "89.160.20.112", 403),
        ("/guarded", "89.160.20.113", 200),
        ("/guarded", "216.160.83.56", 200),
        ("/guarded", "81.2.69.142", 200),
    ] {
        assert_eq!(
            status(&mut client, path, address).await,
            wanted,
            "{path} {address}"
        );
    }
}

#[tokio::test]
async fn a_database_is_swapped_when_it_changes_and_a_broken_one_keeps_the_old() {
    // Goal: a new file is in force at once and whole, and a file that is cut keeps the one before it, which metric, status and log tell.
    // Method: an address that only the second database has; then half a file, then the first one again.
    let rules = RULES.to_owned()
        + "[[route]]\npath = \"/china\"\ncountries = [\"CN\"]\nrespond = { status = 201 }\n";
    let gateway = start(&rules).await;
    let place = databases_of(&gateway).join("place.mmdb");
    let answers = async |wanted: u16| {
        eventually(&format!("the answer is {wanted}"), async || {
            let asked = get("/china").forwarded_for("175.16.199.1");
            (gateway.send(asked).await.status == wanted).then_some(())
        })
        .await;
    };
    answers(404).await;
    let new = place.with_extension("new");
    fs::copy(database("City"), &new).unwrap();
    fs::rename(&new, &place).unwrap();
    answers(201).await;
    let whole = fs::read(database("City")).unwrap();
    fs::write(&place, &whole[..whole.len() / 2]).unwrap();
    let kept = [("kind", "geo"), ("content", "kept")];
    eventually("the failure is told", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_config_file_broken", &kept) == 1.0).then_some(())
    })
    .await;
    answers(201).await;
    let log = gateway.stderr();
    assert!(
        log.contains("is no MaxMind database, or one that is written only in part"),
        "{log}"
    );
    fs::copy(database("Country"), &new).unwrap();
    fs::rename(&new, &place).unwrap();
    answers(404).await;
    fs::remove_file(&place).unwrap();
    eventually("the failure is told again", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_config_file_broken", &kept) == 1.0).then_some(())
    })
    .await;
    answers(404).await;
}

#[tokio::test]
async fn every_value_is_that_of_the_publishers_reader() {
    // Goal: the gateway and MaxMind's own reader agree about every address. Method: mmdblookup of libmaxminddb on the same files, for
    // addresses with and without records; the gateway's answer is its access log.
    let addresses = [
        "89.160.20.112",
        "81.2.69.142",
        "2.125.160.216",
        "216.160.83.56",
        "67.43.156.1",
        "1.128.0.0",
        "175.16.199.1",
        "10.0.0.1",
        "127.0.0.2",
        "2001:218::1",
        "2a02:d000::1",
        "2001:db8::1",
        "::1",
        "2c0f:ff80::1",
        "2600:6000::1",
    ];
    let looked_up = |name: &str, address: &str, path: &[&str]| -> Option<String> {
        let file = database(name);
        let arguments = ["--file", file.to_str().unwrap(), "--ip", address];
        let output = Command::new("mmdblookup")
            .args(arguments)
            .args(path)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).unwrap();
        let value = text
            .trim()
            .split(" <")
            .next()
            .unwrap()
            .trim_matches('"')
            .to_owned();
        Some(if value.is_empty() {
            "unknown".to_owned()
        } else {
            value
        })
    };
    if looked_up("ASN", "1.128.0.0", &["autonomous_system_number"]).is_none() {
        assert!(std::env::var_os("CI").is_none(), "mmdblookup is missing");
        eprintln!("warning: mmdblookup (Debian: mmdb-bin) is missing, so no peer was asked");
        return;
    }
    let gateway = start(RULES).await;
    let mut answers = Vec::new();
    for address in addresses {
        answers.push(gateway.send(get("/country").forwarded_for(address)).await);
    }
    let lines = gateway.lines_of(&answers).await;
    for (address, line) in addresses.into_iter().zip(lines) {
        let country = looked_up("Country", address, &["country", "iso_code"]);
        let asn = looked_up("ASN", address, &["autonomous_system_number"]);
        assert_eq!(
            line["country"].as_str().map(str::to_owned),
            country,
            "{address}"
        );
        assert_eq!(line["asn"].as_str().map(str::to_owned), asn, "{address}");
    }
}

#[tokio::test]
async fn a_start_without_its_database_says_what_to_write() {
    // Goal: no gateway starts with limits that cannot mean what they say. Method: `check` and `run` of a file whose database is missing.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.toml");
    let text = format!("[[listener]]\naddress = \"127.0.0.1:1\"\n{RULES}");
    fs::write(&file, text.replace("../", "none/")).unwrap();
    for arguments in [
        vec!["check", file.to_str().unwrap()],
        vec!["run", "--config", file.to_str().unwrap()],
    ] {
        let mut process = Process::run(&arguments);
        assert_eq!(process.exit_code().await, 64);
        let told = process.stderr() + &process.stdout();
        assert!(
            told.contains("place.mmdb\" cannot be read") && told.contains("geoipupdate"),
            "{told}"
        );
    }
}

/// A configuration with [`RULES`] on the databases of the repository, in a directory of its own.
fn written(directory: &tempfile::TempDir) -> String {
    let rules = RULES
        .replace("../place.mmdb", database("Country").to_str().unwrap())
        .replace("../network.mmdb", database("ASN").to_str().unwrap());
    let file = directory.path().join("gateway.toml");
    fs::write(
        &file,
        format!("[[listener]]\naddress = \"127.0.0.1:1\"\n{rules}"),
    )
    .unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn explain_tells_the_place_with_its_database() {
    // Goal: an operator sees what a client counts by, which database says so, and how old that is. Method: a known and an unknown client.
    let directory = tempfile::tempdir().unwrap();
    let file = written(&directory);
    for (client, key, source) in [
        (
            "89.160.20.112",
            "country: client.country = SE",
            "(GeoLite2-Country, built 2026-02-04)",
        ),
        (
            "10.0.0.1",
            "country: client.country = unknown",
            "client.asn = unknown, in no database",
        ),
    ] {
        let request = ["--request", "GET /country", "--client", client];
        let mut process = Process::run(&[&["explain", &file][..], &request].concat());
        assert_eq!(process.exit_code().await, 0);
        let told = process.stdout();
        assert!(told.contains(key) && told.contains(source), "{told}");
    }
}

#[tokio::test]
async fn replay_looks_logged_addresses_up() {
    // Goal: a replay decides by country as a gateway does. Method: two clients of one country, one of another and two unknown ones, in one
    // minute of a common log, under one request an hour.
    let directory = tempfile::tempdir().unwrap();
    let file = written(&directory);
    let log = directory.path().join("access.log");
    let clients = [
        "89.160.20.112",
        "89.160.20.120",
        "81.2.69.142",
        "10.0.0.1",
        "10.0.0.2",
    ];
    let line = |client| {
        format!("{client} - - [21/Nov/2026:07:10:00 +0000] \"GET /country HTTP/1.1\" 200 17\n")
    };
    fs::write(&log, clients.map(line).concat()).unwrap();
    let arguments = ["replay", "--config", &file, log.to_str().unwrap(), "--json"];
    let mut process = Process::run(&arguments);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    let report: serde_json::Value = serde_json::from_str(&process.stdout()).unwrap();
    assert_eq!(report["rejected"], 2, "{report}");
}
