//! The admin endpoints answer as `docs/operations.md` says.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request};
use serde_json::{Value, json};
use sluicegate_limiter::{
    Ask, Capacity, Cost, Limit, Outcome, Period, Rate, Rates, Seed, Timestamp, decide,
};

use super::view::*;
use super::*;
use crate::config::rules::AccessLogTarget;
use crate::record::Recorder;
use crate::record::access_log::AccessLog;
use crate::record::metrics::Metrics;

const STARTED: Timestamp = Timestamp::from_secs(1_795_245_038);

/// A gateway to vary.
struct Gateway {
    token: Option<Arc<str>>,
    readiness: Readiness,
    last_reload: Option<ReloadView>,
    recorder: Recorder,
}

impl Gateway {
    fn new() -> Self {
        let log = AccessLog::start(&AccessLogTarget::Off).expect("nothing is opened");
        let recorder = Recorder {
            metrics: Arc::new(Metrics::new()),
            log,
        };
        Self {
            token: None,
            readiness: Readiness::Ready,
            last_reload: None,
            recorder,
        }
    }
}

impl AdminView for Gateway {
    fn token(&self) -> Option<Arc<str>> {
        self.token.clone()
    }

    fn readiness(&self) -> Readiness {
        self.readiness
    }

    fn times(&self) -> Times {
        Times {
            started: STARTED,
            now: STARTED.saturating_add(Duration::from_secs(90)),
        }
    }

    fn configuration(&self) -> ConfigurationView {
        ConfigurationView {
            file: Some("/etc/sluicegate/gateway.toml".into()),
            generation: 3,
            loaded_at: Some(STARTED),
            last_reload: self.last_reload.clone(),
            pending_restart: vec!["server.threads".to_owned()],
        }
    }

    fn limits(&self) -> Vec<LimitView> {
        vec![limit_view("otp")]
    }

    fn origins(&self) -> Vec<OriginView> {
        let server = |port, health| ServerView {
            address: ([127, 0, 0, 1], port).into(),
            health,
        };
        vec![OriginView {
            name: Arc::from("app"),
            servers: vec![server(3000, Health::Up), server(3001, Health::Down)],
        }]
    }

    fn routes(&self) -> usize {
        2
    }

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }
}

/// A limit of 1,024 keys that once was full.
pub(super) fn limit_view(name: &str) -> LimitView {
    let rate =
        |count, secs| Rate::new(count, Period::from_secs(secs).expect("a period")).expect("a rate");
    LimitView {
        name: Arc::from(name),
        key: "client.ip".to_owned(),
        algorithm: "sliding-window",
        rates: Rates::new([rate(5, 3), rate(20, 60)]).expect("two rates"),
        action: "reject",
        enforce: "10%".to_owned(),
        shadow_rates: None,
        capacity: Capacity::new(1_024).expect("a capacity"),
        keys: 512,
        slots: 1_536,
        bytes: 65_536,
        overflow_active: true,
        overflow_decisions: 9,
        overflow_refused: 4,
        slots_reused: 77,
    }
}

fn send(
    gateway: &Gateway,
    method: &str,
    path: &str,
    authorization: Option<&str>,
) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(value) = authorization {
        request = request.header(AUTHORIZATION, value);
    }
    let (parts, ()) = request.body(()).expect("a request").into_parts();
    let (head, body) = answer(&parts, gateway).into_parts();
    (
        head.status,
        head.headers,
        String::from_utf8(body).expect("bodies are text"),
    )
}

fn get(gateway: &Gateway, path: &str) -> (StatusCode, String) {
    let (status, _, body) = send(gateway, "GET", path, None);
    (status, body)
}

/// Goal: the probes tell life from readiness. Method: each state of readiness.
#[test]
fn a_draining_gateway_is_healthy_but_not_ready() {
    for (readiness, status, begins) in [
        (Readiness::Ready, 200, "ready"),
        (Readiness::Starting, 503, "starting: no configuration"),
        (Readiness::Draining, 503, "draining: "),
    ] {
        let gateway = Gateway {
            readiness,
            ..Gateway::new()
        };
        assert_eq!(get(&gateway, "/healthz"), (StatusCode::OK, "ok".to_owned()));
        let (ready, body) = get(&gateway, "/readyz");
        assert_eq!(ready.as_u16(), status);
        assert!(body.starts_with(begins), "{body}");
    }
}

/// Goal: the status has the documented shape. Method: the whole of the object.
#[test]
fn the_status_has_the_documented_shape() {
    let error = "line 3: unknown key".to_owned();
    let last_reload = Some(ReloadView {
        at: Timestamp::from_secs(0),
        result: Err(error),
    });
    let gateway = Gateway {
        last_reload,
        ..Gateway::new()
    };
    let (status, headers, body) = send(&gateway, "GET", "/status", None);
    assert_eq!(
        (status, &headers[CONTENT_TYPE]),
        (
            StatusCode::OK,
            &HeaderValue::from_static("application/json")
        )
    );
    let mut object: Value = serde_json::from_str(&body).expect("the status is JSON");
    let rates = object["limits"][0]["rates"].take();
    assert_eq!(rates.as_array().map(Vec::len), Some(2), "{rates}");
    assert_eq!(
        object,
        json!({
            "version": env!("CARGO_PKG_VERSION"), "started": "2026-11-21T07:10:38.000Z", "uptime": 90,
            "configuration": {
                "file": "/etc/sluicegate/gateway.toml", "generation": 3, "loaded_at": "2026-11-21T07:10:38.000Z",
                "last_reload": { "at": "1970-01-01T00:00:00.000Z", "result": "failed", "error": "line 3: unknown key" },
                "pending_restart": ["server.threads"],
            },
            "routes": 2, "requests_in_flight": 0,
            "limits": [{
                "name": "otp", "key": "client.ip", "algorithm": "sliding-window",
                "rates": null, "action": "reject", "enforce": "10%", "shadow_rates": [], "capacity": 1024, "keys": 512, "slots": 1536,
                "bytes": 65536, "load": 0.5, "slots_reused": 77,
                "overflow": { "active": true, "decisions": 9, "refused": 4, "advice": 2048 },
            }],
            "origins": [{ "name": "app", "servers": [
                { "address": "127.0.0.1:3000", "healthy": true }, { "address": "127.0.0.1:3001", "healthy": false },
            ] }],
            "access_log": { "lines": 0, "dropped": 0, "write_errors": 0 },
        })
    );
}

/// Goal: the scrape holds the sampled metrics, and every metric is documented. Method: samples, and the operator's guide.
#[test]
fn the_scrape_holds_every_documented_metric() {
    let gateway = Gateway::new();
    let (_, headers, text) = send(&gateway, "GET", "/metrics", None);
    assert!(
        headers[CONTENT_TYPE]
            .as_bytes()
            .starts_with(b"text/plain; version=0.0.4")
    );
    for sample in [
        "sluicegate_limit_keys{limit=\"otp\"} 512",
        "sluicegate_limit_overflow_refused_total{limit=\"otp\"} 4",
        "sluicegate_origin_server_up{origin=\"app\",server=\"127.0.0.1:3001\"} 0",
        "sluicegate_config_generation 3",
        "sluicegate_config_last_reload_success 1",
    ] {
        assert!(
            text.lines().any(|line| line == sample),
            "{sample} is not in\n{text}"
        );
    }
    let guide = include_str!("../../docs/operations.md");
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
    let gateway = Gateway {
        token: Some(Arc::from("s3cret")),
        ..Gateway::new()
    };
    for path in ["/metrics", "/status", "/absent"] {
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
    let gateway = Gateway::new();
    let (status, body) = get(&gateway, "/");
    let object: Value = serde_json::from_str(&body).expect("an error is JSON");
    assert_eq!(
        (status, &object["paths"]),
        (
            StatusCode::NOT_FOUND,
            &json!(["/metrics", "/healthz", "/readyz", "/status"])
        )
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

/// Goal: a sample reads the limit itself. Method: a table of 1,024 keys that one client has used.
#[test]
fn a_sample_shows_what_the_limit_holds() {
    let limit = Limit::new(limit_view("otp").rates, limit_view("otp").capacity);
    let key = Seed::from_bytes([1; 16]).hasher().part(b"client").finish();
    assert_eq!(
        decide(
            &[Ask {
                limit: &limit,
                key,
                cost: Cost::ONE
            }],
            STARTED
        )
        .outcome(),
        Outcome::Admitted
    );
    let view = LimitView::sample(&Arc::from("otp"), "client.ip".to_owned(), &limit, STARTED);
    assert_eq!(
        (view.keys, view.capacity.keys(), view.overflow_active),
        (1, 1_024, false)
    );
    assert!(
        view.slots >= 1_024 && view.bytes >= view.slots * 16,
        "{view:?}"
    );
}
