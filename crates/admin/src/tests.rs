//! The admin endpoints answer as `docs/operations/admin-api.md` says.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CONTENT_LENGTH, HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request};
use serde_json::{Value, json};
use sluicegate_base::clock;
use sluicegate_decide::state::{
    CounterPersistence, CounterStorage, DirectoryHealth, PersistenceMode,
};
use sluicegate_limiter::{
    Ask, BanFactor, BanRules, BanStats, Capacity, Concurrency, Cost, KeyHash, Outcome,
    OverflowPeriod, Seed, Timestamp, decide,
};

use super::health::ReadyState;
use super::limit::limit_named;
use super::limit_view::{BansView, LimitFacts, LimitView, PermitsView};
use super::snapshot::{AdminSnapshot, ProcessTimes};
use super::*;
use sluicegate_budgets::OpenFiles;
use sluicegate_config::rules::{AccessLogTarget, AdminTokens, LogRules};
use sluicegate_config::{no_review, parse};
use sluicegate_decide::admission::{ActiveLimit, KeySeed};
use sluicegate_process::{Phase, ReloadReport, ReloadTrigger};
use sluicegate_record::RequestRecorder;
use sluicegate_record::access_log::AccessLog;
use sluicegate_record::metrics::RequestMetrics;

const STARTED: Timestamp = Timestamp::from_secs(1_795_245_038);

/// A route whose limit `otp` bans for ten minutes at first.
const CONFIGURATION: &str = "
    listener = [{ address = '127.0.0.1:8080' }]
    route = [{ path = '/*', limits = ['otp'], respond = { status = 200 } }]
    [limit.otp]
    key = 'client.ip'
    rates = ['5 per 3s', '20 per 1m']
    capacity = 1024
    ban = { for = '10m', factor = 2, max = '24h' }
";

/// A gateway of [`CONFIGURATION`], with this token of the operator.
pub(super) fn gateway(token: Option<&str>) -> GatewayProcess {
    let mut rules = parse("gateway.toml", CONFIGURATION, no_review)
        .expect("a configuration")
        .rules;
    rules.admin.token_file = token.map(|text| AdminTokens::parse(text).expect("tokens"));
    let log = AccessLog::start(&LogRules::to(AccessLogTarget::Off)).expect("nothing is opened");
    let recorder = RequestRecorder::new(Arc::new(RequestMetrics::new()), log);
    let (storage, seed) = CounterStorage::open(PersistenceMode::Process).expect("a random source");
    let (seed, files) = (KeySeed::from_seed(seed), OpenFiles::default());
    GatewayProcess::new(
        Path::new("/etc/sluicegate/gateway.toml"),
        rules,
        recorder,
        storage,
        seed,
        files,
    )
}

/// A sample with something in every part, after this reload.
fn sampled(process: &GatewayProcess, last_reload: Option<ReloadReport>) -> AdminSnapshot<'_> {
    let mut sampled = AdminSnapshot {
        times: ProcessTimes {
            started: STARTED,
            now: STARTED.saturating_add(Duration::from_secs(90)),
            wall: STARTED.saturating_add(Duration::from_millis(92_500)),
        },
        routes: 2,
        limits: vec![limit_view("otp")],
        origins: origins::tests::seen(),
        state: Some(DirectoryHealth {
            path: "/var/lib/sluicegate/state".into(),
            last_error: None,
            errors: 3,
        }),
        store: Some(store::tests::back(STARTED)),
        remote_writes: Some(pending_writes::tests::four()),
        replication: Some(replication::tests::behind()),
        ..AdminSnapshot::new(process)
    };
    sampled.configuration.generation = 3;
    sampled.configuration.loaded_at = STARTED;
    sampled.configuration.last_reload = last_reload;
    sampled
}

/// A limit of 1,024 keys that once was full.
pub(super) fn limit_view(name: &str) -> LimitView {
    LimitView {
        name: Arc::from(name),
        facts: LimitFacts {
            name: name.to_owned(),
            key: "client.ip".to_owned(),
            algorithm: "sliding-window",
            rates: vec!["5 per 3s".to_owned(), "20 per 1m".to_owned()],
            scaled: None,
            action: "reject",
            enforce: "10%".to_owned(),
            shadow_rates: Vec::new(),
            capacity: 1_024,
        },
        capacity: Capacity::new(1_024).expect("a capacity"),
        keys: 512,
        slots: 1_536,
        bytes: 65_536,
        overflow_active: true,
        overflow: Some(OverflowPeriod {
            since: Timestamp::from_secs(1_795_245_000),
            until: Timestamp::from_secs(1_795_245_120),
        }),
        overflow_affected: 30,
        overflow_decisions: 9,
        overflow_decisions_before: 0,
        overflow_refused: 4,
        share: None,
        slots_reused: 77,
        persistence: CounterPersistence::not_configured(),
        bans: Some(bans_view()),
        permits: Some(PermitsView {
            max: Concurrency::new(10).expect("ten"),
            keys: 3,
            slots: 1_536,
            overflow_refused: 1,
            bytes: 32_768,
        }),
        banned_by_rules: 0,
        activations: Vec::new(),
        reserved: Some(2_100),
    }
}

fn bans_view() -> BansView {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    BansView {
        rules: BanRules::new(minutes(10), BanFactor::TWO, minutes(24 * 60)).expect("rules"),
        keys: 2,
        slots: 1_536,
        tallies: BanStats {
            begun: 5,
            not_kept: 1,
            slots_reused: 0,
        },
        bytes: 65_536,
        persistence: CounterPersistence::not_configured(),
    }
}

/// The limit `otp` of the process, which one client has used twice at `now`, another once.
pub(super) fn used_limit(process: &GatewayProcess, now: Timestamp) -> Arc<ActiveLimit> {
    let active = limit_named(process, "otp").expect("the limit");
    for client in ["greedy", "modest", "greedy"] {
        let key = Seed::from_bytes([1; 16])
            .hasher()
            .part(client.as_bytes())
            .finish();
        let ask = Ask {
            limit: &active.limit,
            key,
            cost: Cost::ONE,
            payer: None,
        };
        assert_eq!(decide(&[ask], now).outcome(), Outcome::Admitted);
    }
    active
}

fn send(
    gateway: &GatewayProcess,
    method: &str,
    path: &str,
    authorization: Option<&str>,
) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "127.0.0.1:9180");
    if let Some(value) = authorization {
        request = request.header(AUTHORIZATION, value);
    }
    let (parts, ()) = request.body(()).expect("a request").into_parts();
    let response = match answer(&parts, RequestSource::default(), gateway) {
        AdminResponse::Ready(response) => response,
        AdminResponse::Walk(walk) | AdminResponse::Change(walk) | AdminResponse::Sample(walk) => {
            walk.run(gateway)
        }
        AdminResponse::Stream(_) => return (StatusCode::OK, HeaderMap::new(), String::new()),
    };
    let (head, body) = response.into_parts();
    (
        head.status,
        head.headers,
        String::from_utf8(body).expect("bodies are text"),
    )
}

fn get(gateway: &GatewayProcess, path: &str) -> (StatusCode, String) {
    let (status, _, body) = send(gateway, "GET", path, None);
    (status, body)
}

/// Bans a key of the limit `otp` for ten minutes.
fn ban(gateway: &GatewayProcess, key: u64) {
    let active = limit_named(gateway, "otp").expect("the limit");
    let bans = &active.bans.as_ref().expect("it bans").bans;
    let length = Duration::from_secs(600);
    let begun = bans.ban(KeyHash::from_bits(key), length, clock::now());
    assert!(begun.banned().is_some());
}

/// Asserts that a ban of ten minutes has just begun.
fn assert_ten_minutes(left: &Value) {
    let left = left.as_f64().expect("seconds");
    assert!((500.0..=600.0).contains(&left), "{left}");
}

/// Goal: the probes tell life from readiness. Method: each state of readiness, and those that a process without a store passes.
#[test]
fn a_draining_gateway_is_healthy_but_not_ready() {
    for (readiness, status, begins) in [
        (ReadyState::Ready, 200, "ready"),
        (ReadyState::Starting, 503, "starting: no configuration"),
        (ReadyState::StoreNotReached, 503, "starting: the store"),
        (ReadyState::Draining, 503, "draining: "),
    ] {
        let page = health::ready(readiness);
        assert_eq!(page.status.as_u16(), status);
        let body = String::from_utf8_lossy(&page.body);
        assert!(body.starts_with(begins), "{body}");
    }
    let gateway = gateway(None);
    for (phase, status) in [
        (Phase::Starting, 503),
        (Phase::Serving, 200),
        (Phase::Draining, 503),
    ] {
        gateway.lifecycle.enter(phase);
        assert_eq!(get(&gateway, "/healthz"), (StatusCode::OK, "ok".to_owned()));
        assert_eq!(get(&gateway, "/readyz").0.as_u16(), status, "{phase:?}");
    }
}

/// Goal: the status has the documented shape. Method: the whole of the object.
#[test]
fn the_status_has_the_documented_shape() {
    let last_reload = Some(ReloadReport {
        trigger: ReloadTrigger::Hangup,
        changes_omitted: 0,
        at: Timestamp::from_secs(0),
        error: Some("line 3: unknown key".to_owned()),
        pending_restart: vec!["server.threads".to_owned()],
        changes: Vec::new(),
    });
    let page = status::page(sampled(&gateway(None), last_reload), Vec::new());
    assert_eq!(
        (page.status, page.content_type),
        (StatusCode::OK, "application/json")
    );
    let mut object: Value = serde_json::from_slice(&page.body).expect("the status is JSON");
    assert!(object["memory"].take()["total"].is_u64());
    let rates = object["limits"][0]["rates"].take();
    assert_eq!(rates.as_array().map(Vec::len), Some(2), "{rates}");
    let limit = object["limits"][0].as_object_mut().expect("an object");
    assert_eq!(limit.remove("scaled"), Some(json!(null)));
    let nothing = json!({
        "all": 0, "rejected": 0, "failed_by_gateway": 0, "failed_by_origins": 0, "clients_gone": 0,
    });
    let fields = object.as_object_mut().expect("an object");
    for (name, value) in [
        ("requests", nothing.clone()),
        (
            "recent",
            json!({ "seconds": 0.0, "requests": nothing, "latency_ms": null }),
        ),
        ("problems", json!([])),
        ("problems_omitted", json!(0)),
    ] {
        assert_eq!(fields.remove(name), Some(value), "{name}");
    }
    assert_eq!(
        object,
        json!({
            "version": env!("CARGO_PKG_VERSION"), "started": "2026-11-21T07:10:38.000Z", "uptime": 90,
            "configuration": {
                "file": "/etc/sluicegate/gateway.toml", "generation": 3, "loaded_at": "2026-11-21T07:10:38.000Z",
                "last_reload": { "at": "1970-01-01T00:00:00.000Z", "by": "SIGHUP", "result": "failed", "error": "line 3: unknown key",
                    "changes": [], "changes_omitted": 0 },
                "pending_restart": ["server.threads"], "broken_files": [],
            },
            "routes": 2, "requests_in_flight": 0, "clients": [], "memory": null,
            "limits": [{
                "name": "otp", "key": "client.ip", "algorithm": "sliding-window",
                "rates": null, "action": "reject", "enforce": "10%", "shadow_rates": [], "capacity": 1024, "keys": 512, "slots": 1536,
                "bytes": 65536, "load": 0.5, "slots_reused": 77,
                "persistent": false, "counters": "in memory only: [server] state_dir is not set",
                "overflow": {
                "active": true, "since": "2026-11-21T07:10:00.000Z", "until": "2026-11-21T07:12:00.000Z", "affected": 0.03,
                "decisions": 9, "refused": 4, "advice": 2048
            },
                "share": null,
                "ban": {
                    "for": 600.0, "factor": 2.0, "max": 86400.0, "keys": 2, "slots": 1536, "bytes": 65536, "begun": 5, "not_kept": 1,
                    "persistent": false, "found": "in memory only: [server] state_dir is not set",
                },
                "banned_by_rules": 0,
                "concurrency": { "max": 10, "keys": 3, "slots": 1536, "bytes": 32768, "overflow_refused": 1 },
                "reserved_units": 2100,
            }],
            "temporary_rules": { "count": 0, "block": 0, "exempt": 0, "ban": 0, "scale": 0, "next_end": null, "revision": 0 },
            "state": { "directory": "/var/lib/sluicegate/state", "errors": 3, "error": null },
            "store": {
                "topology": "single", "nodes": 3, "seed_known": true,
                "servers": [{
                    "address": "10.0.0.9:6379", "state": "connected", "since": "2026-11-21T07:10:38.000Z",
                    "last_error": { "at": "2026-11-21T07:10:38.000Z", "error": "it did not answer in time" },
                    "clock_ahead_seconds": -0.0015, "round_trip_seconds": 0.003, "unreached_seconds": null,
                }],
            },
            "replication": super::replication::tests::section(),
            "origins": origins::tests::told(), "certificates": [], "cache": null, "acme": null,
            "access_log": { "lines": 0, "dropped": 0, "write_errors": 0 },
        })
    );
}

/// Goal: the scrape holds the sampled metrics, and every metric is documented. Method: samples, and the operator's guide.
#[test]
fn the_scrape_holds_every_documented_metric() {
    let page = metrics::page(sampled(&gateway(None), None));
    assert!(page.content_type.starts_with("text/plain; version=0.0.4"));
    let text = String::from_utf8(page.body.into_owned()).expect("the scrape is text");
    for sample in [
        "sluicegate_limit_keys{limit=\"otp\"} 512",
        "sluicegate_limit_overflow_refused_total{limit=\"otp\"} 4",
        "sluicegate_limit_share_refused_total{limit=\"otp\"} 0",
        "sluicegate_origin_server_up{origin=\"app\",server=\"127.0.0.1:3001\"} 0",
        "sluicegate_origin_server_state{origin=\"app\",server=\"127.0.0.1:3001\",state=\"down\"} 1",
        "sluicegate_origin_server_state{origin=\"app\",server=\"127.0.0.1:3001\",state=\"failing\"} 0",
        "sluicegate_store_up{server=\"10.0.0.9:6379\"} 1",
        "sluicegate_store_decides{server=\"10.0.0.9:6379\"} 1",
        "sluicegate_store_unreached_seconds{server=\"10.0.0.9:6379\"} 0",
        "sluicegate_store_nodes 3",
        "sluicegate_store_clock_ahead_seconds{server=\"10.0.0.9:6379\"} -0.0015",
        "sluicegate_config_generation 3",
        "sluicegate_limit_persistent{limit=\"otp\"} 0",
        "sluicegate_limit_bans_total{limit=\"otp\"} 5",
        "sluicegate_limit_bans_not_kept_total{limit=\"otp\"} 1",
        "sluicegate_limit_ban_keys{limit=\"otp\"} 2",
        "sluicegate_limit_in_flight_keys{limit=\"otp\"} 3",
        "sluicegate_limit_reserved_units{limit=\"otp\"} 2100",
        "sluicegate_clock_ahead_seconds -2.5",
        "sluicegate_state_errors_total 3",
        "sluicegate_config_last_reload_success 1",
    ] {
        assert!(
            text.lines().any(|line| line == sample),
            "{sample} is not in\n{text}"
        );
    }
    let guide = include_str!("../../../docs/operations/metrics.md");
    for name in text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
    {
        assert!(
            guide.contains(&format!("| `{name}` |")),
            "{name} is not documented"
        );
    }
}

/// Goal: the token guards all but the probes, before anything is told. Method: every path with, without and with a wrong one.
#[test]
fn only_the_probes_are_open_without_the_token() {
    let gateway = gateway(Some("s3cret"));
    gateway.lifecycle.enter(Phase::Serving);
    for path in "/metrics /status /config /routes /reload /events /rules /explain /keys /limits/otp/top /limits/otp/bans /absent"
        .split(' ')
    {
        for wrong in [None, Some("Bearer wrong")] {
            let (status, headers, _) = send(&gateway, "GET", path, wrong);
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
            assert_eq!(headers[WWW_AUTHENTICATE], "Bearer realm=\"sluicegate\"");
        }
        assert_ne!(
            send(&gateway, "GET", path, Some("Bearer s3cret")).0,
            StatusCode::UNAUTHORIZED,
            "{path}"
        );
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(&gateway, path).0, StatusCode::OK, "{path}");
    }
}

/// Goal: mistakes are told apart and corrected. Method: another path, another method, and HEAD.
#[test]
fn other_paths_and_methods_are_told_what_there_is() {
    let gateway = gateway(None);
    let (status, body) = get(&gateway, "/");
    let object: Value = serde_json::from_str(&body).expect("an error is JSON");
    let paths = "/metrics /healthz /readyz /status /origins /config /routes /reload /reload?dry_run=true /reloads /history /ui/ /events \
        /rules /explain?url=URL /keys?value=VALUE /clients/rejected /limits/NAME/top /limits/NAME/usage /limits/NAME/bans \
        /limits/NAME/bans/KEY /limits/NAME/keys?value=VALUE /bans?limit=NAME&since=20m&cidr=CIDR /limits/NAME/clear /cache/purge \
        /origins/NAME/servers/ADDRESS/drain /origins/NAME/servers/ADDRESS/undrain";
    let paths: Vec<&str> = paths.split(' ').collect();
    assert_eq!(
        (status, &object["paths"]),
        (StatusCode::NOT_FOUND, &json!(paths))
    );
    let (status, headers, _) = send(&gateway, "POST", "/status", None);
    assert_eq!(
        (status, &headers[ALLOW]),
        (
            StatusCode::METHOD_NOT_ALLOWED,
            &HeaderValue::from_static("GET, HEAD")
        )
    );
    let (status, headers, body) = send(&gateway, "HEAD", "/healthz", None);
    assert_eq!(
        (status, &headers[CONTENT_LENGTH], &*body),
        (StatusCode::OK, &HeaderValue::from(2), "")
    );
}

/// Goal: a sample reads the limit itself. Method: a table of 1,024 keys that two clients have used.
#[test]
fn a_sample_shows_what_the_limit_holds() {
    let view = LimitView::new(&used_limit(&gateway(None), STARTED), STARTED);
    assert_eq!(
        (view.keys, view.capacity.keys(), view.overflow_active),
        (2, 1_024, false)
    );
    assert!(
        view.slots >= 1_024 && view.bytes >= view.slots * 16,
        "{view:?}"
    );
}

/// Goal: a question that cannot be answered says why. Method: another limit, another number, another method, and a right one.
#[test]
fn a_wrong_question_about_a_limit_is_told_what_is_right() {
    let gateway = gateway(None);
    for (method, path, status, says) in [
        (
            "GET",
            "/limits/api/top",
            404,
            "no such limit; /status names them",
        ),
        (
            "GET",
            "/limits/otp/top?n=5000",
            400,
            "a number from 1 to 1000",
        ),
        ("DELETE", "/limits/otp/top", 405, "GET or HEAD"),
        ("GET", "/limits/otp/top?n=1", 200, "\"top\": ["),
    ] {
        let (got, _, body) = send(&gateway, method, path, None);
        assert_eq!(got.as_u16(), status, "{path}");
        assert!(body.contains(says), "{body}");
    }
}

/// Goal: a question that has to wait says so, and for how long. Method: the answer when another walk is under way.
#[test]
fn a_second_walk_is_put_off() {
    let (parts, ()) = Request::get("/limits/otp/top")
        .header(HOST, "127.0.0.1:9180")
        .body(())
        .expect("a request")
        .into_parts();
    let AdminResponse::Walk(walk) = answer(&parts, RequestSource::default(), &gateway(None)) else {
        panic!("the top is read by a walk");
    };
    let response = walk.put_off();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[RETRY_AFTER], "1");
}

/// Goal: no reader who walks through tables holds up an operator. Method: a reload, which is a change, and the reads of its paths.
#[test]
fn a_change_waits_for_no_reader() {
    for (method, is_change) in [("POST", true), ("GET", false)] {
        let request = Request::builder()
            .method(method)
            .uri("/reload?dry_run=true")
            .header(HOST, "127.0.0.1:9180");
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        let response = answer(&parts, RequestSource::default(), &gateway(None));
        assert_eq!(
            matches!(response, AdminResponse::Change(_)),
            is_change,
            "{method}: {response:?}"
        );
    }
}

/// Goal: a probe does not wait for a look into the tables of all limits, which takes some milliseconds a limit. Method: which responses
/// are ready at once, and which are made on another thread.
#[test]
fn probes_do_not_wait_for_scrapes() {
    let gateway = gateway(None);
    let is_sampled = |path: &str| {
        let request = Request::get(path).header(HOST, "127.0.0.1:9180");
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        match answer(&parts, RequestSource::default(), &gateway) {
            AdminResponse::Sample(_) => true,
            AdminResponse::Ready(_) => false,
            other => panic!("{path}: {other:?}"),
        }
    };
    assert_eq!(["/metrics", "/status"].map(is_sampled), [true; 2]);
    let at_once = ["/healthz", "/readyz", "/config", "/routes"];
    assert_eq!(at_once.map(is_sampled), [false; 4]);
}

/// Goal: who is banned can be seen, and pardoned by who can show that he may. Method: the page of bans; a pardon without a token
/// configured, by another method, of nobody, and right.
#[test]
fn bans_are_shown_and_lifted() {
    let open = gateway(None);
    ban(&open, 0xabcc);
    let (status, body) = get(&open, "/limits/otp/bans?n=2");
    let mut page: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&page["limit"], &page["ban"]["begun"]),
        (&json!("otp"), &json!(1))
    );
    assert!(page["keys"][0]["until"].take().is_string());
    assert_ten_minutes(&page["keys"][0]["left"].take());
    assert_eq!(
        page["keys"],
        json!([{ "key": "000000000000abcc", "key_values": null, "level": 1, "left": null, "until": null, "rule": null }])
    );
    assert_eq!(get(&open, "/limits/absent/bans").0, StatusCode::NOT_FOUND);
    let path = "/limits/otp/bans/000000000000abcc";
    assert_eq!(send(&open, "DELETE", path, None).0, StatusCode::FORBIDDEN);

    let guarded = gateway(Some("s3cret"));
    ban(&guarded, 0xabcc);
    let ask = |method, path| send(&guarded, method, path, Some("Bearer s3cret"));
    let (status, headers, _) = ask("GET", path);
    assert_eq!(
        (status, &headers[ALLOW]),
        (
            StatusCode::METHOD_NOT_ALLOWED,
            &HeaderValue::from_static("DELETE")
        )
    );
    let denied = send(&guarded, "DELETE", path, None).0;
    assert_eq!(denied, StatusCode::UNAUTHORIZED);
    let (status, _, body) = ask("DELETE", path);
    let mut pardoned: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(status, StatusCode::OK);
    assert_ten_minutes(&pardoned["left"].take());
    assert_eq!(
        pardoned,
        json!({ "limit": "otp", "key": "000000000000abcc", "lifted": true, "level": 1, "left": null, "rules": [] })
    );
    let (_, _, body) = ask("DELETE", "/limits/otp/bans/0000000000000002");
    assert!(body.contains("\"lifted\": false"), "{body}");
    assert_eq!(
        ask("DELETE", "/limits/otp/bans/abcc").0,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        ask("DELETE", "/limits/absent/bans/000000000000abcc").0,
        StatusCode::NOT_FOUND
    );
}
