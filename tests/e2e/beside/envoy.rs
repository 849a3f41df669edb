//! The rate limit service for a real Envoy, by the files that ship.

use super::*;

/// Starts Envoy with the file that ships, with these edits.
async fn start(
    program: &str,
    gateway: &Gateway,
    site: &Origin,
    edits: &[(&str, &str)],
) -> AskingProxy {
    let address = free_address();
    let mut config = example(
        "envoy.yaml",
        &[
            (
                "address: 0.0.0.0, port_value: 80 }",
                &format!("address: 127.0.0.1, port_value: {} }}", address.port()),
            ),
            ("port_value: 3000", &port(site.address())),
            ("port_value: 9002", &port(gateway.address())),
        ],
    );
    for (shipped, tested) in edits {
        assert!(config.contains(shipped), "{shipped}");
        config = config.replacen(shipped, tested, 1);
    }
    let arguments = [
        "--config-path",
        "envoy.yaml",
        "--disable-hot-restart",
        "--concurrency",
        "1",
        "--log-level",
        "error",
        "--file-flush-interval-msec",
        "10",
    ];
    AskingProxy::start(program, &arguments, &[("envoy.yaml", config)], address).await
}

fn port(of: SocketAddr) -> String {
    format!("port_value: {}", of.port())
}

/// Starts the gateway with the file that ships, with these lines for the limit `site`.
async fn gateway_for_envoy(lines: &str) -> Gateway {
    let rates = "rates = [\"600 per 1m\"]\n";
    let limited = format!("{rates}{lines}");
    let edits = [("127.0.0.1:9002", "{listener}"), (rates, &*limited)];
    let mut whole = example("envoy.toml", &edits);
    whole
        .push_str("\n[admin]\naddress = \"{admin}\"\n[log]\naccess = \"{directory}/access.log\"\n");
    Setup::new().whole(&whole).start().await
}

#[tokio::test]
async fn envoy_asks_before_it_forwards() {
    // Goal: the recipe limits clients of Envoy, who get the gateway's own rejection with its fields, and nobody passes while it is away.
    // Method: as with nginx, through the real Envoy.
    let Some(program) = program("SLUICEGATE_TEST_ENVOY", "envoy", "--version") else {
        return;
    };
    let site = Origin::echo();
    let gateway = gateway_for_envoy("").await;
    let proxy = start(&program, &gateway, &site, &[]).await;
    let refused = assert_limits(&proxy, &site).await;
    refused.assert_problem(429);
    assert_eq!(refused.violated(), ["otp"]);

    let line = eventually("the refusal is logged", async || {
        let lines = gateway.access_log();
        lines
            .into_iter()
            .find(|line| line["outcome"] == "rate-limited")
    })
    .await;
    assert_eq!(line["client"], "127.0.0.31", "{line}");
    assert_eq!(
        line["target"], "/site?generic_key=otp&remote_address=127.0.0.31",
        "{line}"
    );
    assert_eq!(line["limit"], "otp", "{line}");
    assert_eq!(line["protocol"], "HTTP/2", "{line}");
    assert_eq!(answer_without(gateway, &proxy, &site).await, 500);
}

/// The lines by which Envoy logs what the metadata of the answer say.
const LOGGED: &str = r#"stat_prefix: site
                access_log:
                  - name: envoy.access_loggers.file
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
                      path: "{home}/access.log"
                      log_format:
                        text_format_source:
                          inline_string: >
                            %RESPONSE_CODE%
                            %DYNAMIC_METADATA(envoy.filters.http.ratelimit:limit)%
                            %DYNAMIC_METADATA(envoy.filters.http.ratelimit:id)%
"#;

/// The lines by which Envoy takes a limit out of the metadata of a request.
const LIMITED: &str = r#"- match: { prefix: / }
                          route:
                            cluster: site
                            rate_limits:
                              - limit: { dynamic_metadata: { metadata_key: { key: plan, path: [{ key: limit }] } } }
                                actions:
"#;

/// The filter that writes this limit there.
const PLANNED: &str = r#"http_filters:
                  - name: envoy.filters.http.set_metadata
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
                      metadata:
                        - metadata_namespace: plan
                          value: { limit: { requests_per_unit: 2, unit: MINUTE } }
"#;

#[tokio::test]
async fn envoy_brings_a_limit_along_and_logs_what_rejected() {
    // Goal: the limit override of a real Envoy names a tier, and its access log has the limit and the id of the gateway's line. Method: the
    // files that ship with both in Envoy's, for a plan of two requests a minute, and three requests.
    let Some(program) = program("SLUICEGATE_TEST_ENVOY", "envoy", "--version") else {
        return;
    };
    let site = Origin::echo();
    let tiers = "tier = \"header.x-descriptor-limit\"\ntiers = { \"2/minute\" = [\"2 per 1m\"] }\n";
    let gateway = gateway_for_envoy(tiers).await;
    let unlimited = "- match: { prefix: / }
                          route:
                            cluster: site
                            rate_limits:
                              - actions:
";
    let edits = [
        ("stat_prefix: site\n", LOGGED),
        (unlimited, LIMITED),
        ("http_filters:\n", PLANNED),
    ];
    let proxy = start(&program, &gateway, &site, &edits).await;
    let mut client = proxy.client_from("127.0.0.41").await;
    for status in [200, 200, 429] {
        assert_eq!(client.send(get("/")).await.status, status);
    }
    let lines = gateway.access_lines(3).await;
    let refused = lines.iter().find(|line| line["outcome"] == "rate-limited");
    let refused = refused.unwrap();
    assert_eq!(refused["tier"]["site"], "2/minute", "{refused}");
    let expected = format!("429 site {}", refused["id"].as_str().unwrap());
    let log = proxy.directory.path().join("access.log");
    eventually("Envoy logs the rejection", async || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.lines().any(|line| line == expected).then_some(())
    })
    .await;
}
