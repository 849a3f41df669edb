//! Servers that listen on Unix sockets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use super::*;

/// An application of Node that shows what it got, and which of its connections carried it.
const NODE: &str = "let connections = 0;
const show = (request, response) => {
  let body = '';
  request.on('data', (piece) => { body += piece; });
  request.on('end', () => response.end(JSON.stringify({
    host: request.headers.host, target: request.url, body, connection: request.socket.number })));
};
const server = require('http').createServer(show);
server.keepAliveTimeout = 60000;
server.on('connection', (socket) => { socket.number = connections++; });
server.listen(process.argv[2]);
";

/// An application of Rack that shows what it got.
const RACK: &str = "require 'json'
run ->(env) {
  shown = { host: env['HTTP_HOST'], target: env['PATH_INFO'], body: env['rack.input'].read }
  [200, { 'content-type' => 'application/json' }, [shown.to_json]]
}
";

/// A program that listens on a socket; it is killed by its own process id when dropped.
struct SocketServer {
    child: Child,
    path: PathBuf,
}

impl SocketServer {
    /// Starts a server of Node at this path.
    async fn node(path: PathBuf) -> Self {
        let script = path.with_extension("js");
        fs::write(&script, NODE).unwrap();
        let mut command = Command::new("node");
        command.arg(script).arg(&path);
        Self::start(command, path).await
    }

    /// Starts Puma at this path; `None` where it is not installed.
    async fn puma(path: PathBuf) -> Option<Self> {
        let installed = Command::new("puma")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if !installed.is_ok_and(|status| status.success()) {
            eprintln!("Puma is not installed: not asked");
            return None;
        }
        let script = path.with_extension("ru");
        fs::write(&script, RACK).unwrap();
        let mut command = Command::new("puma");
        let address = format!("unix://{}", path.display());
        command.args(["--bind", &address]).arg(script);
        Some(Self::start(command, path).await)
    }

    async fn start(mut command: Command, path: PathBuf) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null());
        let server = Self {
            child: child.spawn().expect("what `./dev test` installs"),
            path,
        };
        eventually("it listens", async || {
            let connected = std::os::unix::net::UnixStream::connect(&server.path);
            connected.is_ok().then_some(())
        })
        .await;
        server
    }

    /// The text of its address.
    fn address(&self) -> String {
        address_of(&self.path)
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address_of(path: &Path) -> String {
    format!("unix:{}", path.display())
}

/// A gateway with a token for the operator, before servers with these addresses.
async fn before_addresses(addresses: &[&str], lines: &str) -> Gateway {
    let rules = format!("[origin.app]\nservers = {addresses:?}\n{lines}\n{PASS}");
    Setup::new().tokens(TOKEN).rules(&rules).start().await
}

async fn operate(gateway: &Gateway, request: Request) -> Value {
    let answer = gateway.admin(request.bearer(TOKEN)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The state of the only server.
async fn state(gateway: &Gateway) -> Value {
    let status = operate(gateway, get("/status")).await;
    status["origins"][0]["servers"][0].clone()
}

#[tokio::test]
async fn servers_at_sockets_get_requests() {
    // Goal: what listens on a Unix socket is an origin as any other. Method: Node, and Puma where it is installed; with and without a bound
    // on connections, which are dialed otherwise; bodies, kept connections, a request without a host; the address in log and status. (A
    // client has its answer a moment before the place of its request is left, so the next one may wait.)
    let directory = TempDir::new().unwrap();
    let mut servers = vec![SocketServer::node(directory.path().join("node.sock")).await];
    servers.extend(SocketServer::puma(directory.path().join("puma.sock")).await);
    for server in &servers {
        for lines in [
            "",
            "circuit_breaker = { max_connections = 1, max_pending = 1 }",
        ] {
            let gateway = before_addresses(&[&server.address()], lines).await;
            let mut client = gateway.client().await;
            let answers = [
                client.send(get("/a?b")).await,
                client.send(get("/a?b")).await,
            ];
            let [first, second] = answers.map(|answer| answer.json());
            assert_eq!(first["target"].as_str().unwrap()[..2], *"/a");
            assert_eq!(first["connection"], second["connection"], "{lines}");
            let answer = client.send(post("/").body("x".repeat(100_000))).await;
            assert_eq!(answer.json()["body"], "x".repeat(100_000));
            let mut raw = gateway.raw().await;
            raw.write("GET / HTTP/1.0\r\n\r\n").await;
            assert_eq!(raw.read_response().await.json()["host"], "localhost");

            let line = &gateway.access_lines(4).await[0];
            assert_eq!(line["origin_addr"], server.address());
            let shown = state(&gateway).await;
            assert_eq!(shown["address"], server.address());
            assert_eq!(shown["state"], "unchecked");
        }
    }
}

#[tokio::test]
async fn a_server_at_a_socket_comes_and_goes() {
    // Goal: health checks, failures and drains take a socket for the server that it is. Method: a socket that does not exist yet; then its
    // server, which is drained and undrained; then its end, after which the file is still there.
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("app.sock");
    let address = address_of(&path);
    let health = "health = { path = \"/healthz\", interval = \"100ms\", healthy_after = 1, unhealthy_after = 1 }";
    let gateway = before_addresses(&[&address], health).await;
    let becomes = async |wanted: &str| {
        eventually(wanted, async || {
            (state(&gateway).await["state"] == wanted).then_some(())
        })
        .await;
    };
    becomes("down").await;
    gateway.get("/").await.assert_problem(503);
    assert!(gateway.stderr().contains(&format!(
        "server {address} fails its health check and is taken out"
    )));

    let server = SocketServer::node(path.clone()).await;
    becomes("up").await;
    assert_eq!(gateway.get("/").await.json()["target"], "/");
    for (order, after) in [("drain", "draining"), ("undrain", "up")] {
        let escaped = address.replace('/', "%2F");
        for address in [&address, &escaped] {
            let target = format!("/origins/app/servers/{address}/{order}");
            let shown = operate(&gateway, post(&target)).await;
            assert_eq!(
                [&shown["address"], &shown["state"]],
                [&json!(address_of(&path)), &json!(after)]
            );
        }
    }
    drop(server);
    assert!(path.exists());
    becomes("down").await;
}

#[tokio::test]
async fn a_socket_without_a_server_is_the_origins_failure() {
    // Goal: the log says why there was no connection. Method: no socket, and one whose server is gone.
    let directory = TempDir::new().unwrap();
    let [none, dead] = ["none.sock", "dead.sock"].map(|name| directory.path().join(name));
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    for (path, reason) in [(none, "No such file"), (dead, "Connection refused")] {
        let gateway = before_addresses(&[&address_of(&path)], "").await;
        gateway.get("/").await.assert_problem(502);
        let line = gateway.access_line().await;
        assert_eq!(line["failure"], "connect");
        assert_eq!(line["origin_addr"], address_of(&path));
        assert!(
            line["reason"].as_str().unwrap().starts_with(reason),
            "{line}"
        );
    }
}
