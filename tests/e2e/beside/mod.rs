//! Beside a proxy that stays: nginx, ingress-nginx, Caddy, Envoy, HAProxy and Traefik forward requests themselves, and ask the gateway
//! about each beforehand.

mod caddy;
mod call_fields;
mod call_messages;
mod calls;
mod envoy;
mod haproxy;
mod health;
mod ingress_nginx;
mod nginx;
mod questions;
mod traefik;

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::*;

pub use self::caddy::has_caddy;

/// A file of `conf/examples/beside`, with other addresses in it.
fn example(name: &str, addresses: &[(&str, &str)]) -> String {
    let file = format!("conf/examples/beside/{name}");
    let mut text = project_file(&file);
    for (shipped, tested) in addresses {
        assert!(text.contains(shipped), "{file}: {shipped}");
        text = text.replace(shipped, tested);
    }
    text
}

/// The gateway of `gateway.toml`, and the address at which nginx asks; the others ask at [`Gateway::address`].
async fn gateway() -> (Gateway, SocketAddr) {
    gateway_with(&[]).await
}

/// The same with other lines in it.
async fn gateway_with(lines: &[(&str, &str)]) -> (Gateway, SocketAddr) {
    let of_nginx = free_address();
    let nginx = of_nginx.to_string();
    let addresses = [
        ("127.0.0.1:9000", "{listener}"),
        ("127.0.0.1:9001", &*nginx),
    ];
    let mut whole = example("gateway.toml", &[&addresses[..], lines].concat());
    whole
        .push_str("\n[admin]\naddress = \"{admin}\"\n[log]\naccess = \"{directory}/access.log\"\n");
    (Setup::new().whole(&whole).start().await, of_nginx)
}

/// The program that a variable names, or the one of this name; `None` where there is none, which continuous integration refuses. With
/// `version` it prints its version.
pub fn program(variable: &str, name: &str, version: &str) -> Option<String> {
    let program = std::env::var(variable).unwrap_or_else(|_| name.to_owned());
    let found = Command::new(&program)
        .arg(version)
        .stdout(Stdio::null())
        .status();
    if found.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    assert!(std::env::var_os("CI").is_none(), "{name} is not installed");
    eprintln!("There is no {name}: NOT tested with it. `./dev test` fetches it from PyPI.");
    None
}

/// A proxy that asks, in a directory of its own; it is killed by its own process id when dropped.
struct AskingProxy {
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl AskingProxy {
    /// Starts a program that will listen at `address`, in a directory with these files.
    async fn start(
        program: &str,
        arguments: &[&str],
        files: &[(&str, String)],
        address: SocketAddr,
    ) -> Self {
        let directory = TempDir::new().unwrap();
        let home = directory.path().display().to_string();
        for (name, text) in files {
            let text = text.replace("{home}", &home);
            fs::write(directory.path().join(name), text).unwrap();
        }
        let log = directory.path().join("stderr.log");
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(directory.path())
            .env("HOME", directory.path())
            .env("XDG_DATA_HOME", directory.path())
            .env("XDG_CONFIG_HOME", directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{program} does not start ({error}); `./dev test` installs it")
            });
        eventually("the proxy accepts", async || {
            let ended = child.try_wait().unwrap();
            let said = fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "{program} ended: {said}");
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()
        })
        .await;
        Self {
            child,
            address,
            directory,
        }
    }

    /// A kept connection from a loopback address.
    async fn client_from(&self, from: &str) -> Client {
        Client::connect_from(from, self.address).await
    }
}

impl Drop for AskingProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes a client through the limit of five codes: five pass, whatever it says about itself, the sixth is refused, and nobody else is.
/// Two requests more may pass where a window ends meanwhile.
async fn assert_limits(proxy: &AskingProxy, site: &Origin) -> Response {
    assert_limits_with(proxy, site, LimitFields::Copied).await
}

/// The RateLimit fields in responses to admitted requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitFields {
    /// The proxy copies them from the decision.
    Copied,
    /// The proxy cannot.
    Absent,
}

/// The same, for a proxy that treats the fields of decisions so.
async fn assert_limits_with(proxy: &AskingProxy, site: &Origin, fields: LimitFields) -> Response {
    let before = site.requests().len();
    let mut client = proxy.client_from("127.0.0.31").await;
    let lying = |n: usize| {
        post("/auth/sendOTP?n=1")
            .header("Host", "site.test")
            .header("X-Forwarded-Method", "GET")
            .header("X-Forwarded-Uri", "/elsewhere")
            .header("X-Forwarded-Host", "elsewhere.test")
            .header("X-Forwarded-For", &format!("192.0.2.{n}"))
            .header("X-Original-URI", "/elsewhere")
            .header("X-Original-Method", "GET")
            .body("phone=1")
    };
    let mut passed = 0;
    let refused = loop {
        let answer = client.send(lying(passed)).await;
        if answer.status != 200 {
            break answer;
        }
        let is_copied = answer.header("ratelimit").is_some();
        assert_eq!(is_copied, fields == LimitFields::Copied, "{answer:?}");
        passed += 1;
        assert!(passed <= 7, "nothing is refused");
    };
    assert!(passed >= 5, "{passed}");
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!((1..=600).contains(&refused.retry_after()), "{refused:?}");
    assert_eq!(refused.remaining("otp"), 0);
    // The proxy forwarded what was admitted, body and all, and nothing else.
    let requests = site.requests();
    assert_eq!(requests.len(), before + passed);
    for request in &requests[before..] {
        assert_eq!(
            (&*request.method, &*request.target),
            ("POST", "/auth/sendOTP?n=1")
        );
        assert_eq!(request.text(), "phone=1");
    }
    let elsewhere = client
        .send(get("/elsewhere").header("Host", "site.test"))
        .await;
    assert_eq!(elsewhere.status, 200, "{elsewhere:?}");
    let mut other = proxy.client_from("127.0.0.32").await;
    assert_eq!(other.send(lying(0)).await.status, 200);
    refused
}

/// The line of the access log about the last of these requests is that of the client's own request.
async fn assert_logged(gateway: &Gateway, client: &str) {
    let lines = eventually("the refusal is logged", async || {
        let lines = gateway.access_log();
        let refused = lines.iter().any(|line| line["outcome"] == "rate-limited");
        refused.then_some(lines)
    })
    .await;
    let refused = lines
        .iter()
        .find(|line| line["outcome"] == "rate-limited")
        .unwrap();
    assert_eq!(refused["client"], client, "{refused}");
    assert_eq!(refused["method"], "POST", "{refused}");
    assert_eq!(refused["route"], "POST /auth/sendOTP", "{refused}");
    assert_eq!(refused["limit"], "otp", "{refused}");
    assert!(
        lines.iter().any(|line| line["outcome"] == "allowed"),
        "{lines:?}"
    );
}

/// While the gateway does not answer, no request passes. The proxy's answer then.
async fn answer_without(mut gateway: Gateway, proxy: &AskingProxy, site: &Origin) -> u16 {
    let before = site.requests().len();
    gateway.kill();
    let answer = proxy.client_from("127.0.0.33").await.send(get("/")).await;
    assert_eq!(site.requests().len(), before);
    answer.status
}
