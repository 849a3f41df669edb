//! `sluicegate demo`: an origin and a gateway in one process, to see a limit at work.
//!
//! Requests are lines on the standard output. Errors and warnings of the process log are lines between them on the standard error, so that
//! a mistake in the edited file is reported where its author looks.

use std::fs::DirBuilder;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use http::Response;
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use pingora::server::Server;
use pingora::services::listening::Service;
use sluicegate_decide::route;
use tracing_subscriber::filter::LevelFilter;

use super::exit_code::{FAILED, USAGE};
use super::output::tell;
use super::process_log::ProcessLog;
use crate::config;
use crate::server::{self, ServerExtras, StartError, StartMode};
use sluicegate_record::live_view::ColorMode;
use sluicegate_record::{AccessLog, RequestRecorder};

/// Names that are tried for the directory of the rules.
const ATTEMPTS: u32 = 100;

/// Runs until Ctrl-C.
pub(super) fn demo() -> u8 {
    if let Err(bad) = ProcessLog::start(LevelFilter::WARN) {
        tell(&format_args!("sluicegate: {bad}"));
        return USAGE;
    }
    match DemoSetup::prepare() {
        Ok(demo) => demo.run(),
        Err(error) => {
            tell(&format_args!("sluicegate: {error}"));
            FAILED
        }
    }
}

struct DemoSetup {
    directory: PathBuf,
    gateway: SocketAddr,
    origin: SocketAddr,
    admin: SocketAddr,
}

impl DemoSetup {
    fn prepare() -> std::io::Result<Self> {
        let directory = private_directory()?;
        let demo = Self {
            directory,
            gateway: free_address(8080)?,
            origin: free_address(3000)?,
            admin: free_address(9180)?,
        };
        std::fs::write(demo.file(), demo.configuration())?;
        Ok(demo)
    }

    fn file(&self) -> PathBuf {
        self.directory.join("gateway.toml")
    }

    fn configuration(&self) -> String {
        let Self {
            gateway,
            origin,
            admin,
            ..
        } = self;
        format!(
            r#"# The demo of Sluicegate. Edit and save this file while it runs: the rules are reloaded, the counters stay.

[[listener]]
address = "{gateway}"

[admin]
address = "{admin}"

[origin.app]
servers = ["{origin}"]

[limit.otp]
key   = "client.ip"
rates = ["5 per 10s"]

[[route]]
path   = "/auth/sendOTP"
limits = ["otp"]
origin = "app"

[[route]]
path   = "/*"
origin = "app"
"#
        )
    }

    fn run(&self) -> u8 {
        let file = self.file();
        let rules = match config::load(&file, route::review) {
            Ok(loaded) => loaded.rules,
            Err(problems) => {
                tell(&problems);
                return FAILED;
            }
        };
        self.introduce(&file);
        let mut origin = Service::new("demo origin".to_owned(), DemoOrigin::default());
        origin.add_tcp(&self.origin.to_string());
        origin.threads = Some(1);
        let Err(error) = AccessLog::live(ColorMode::of_stdout())
            .map_err(StartError::AccessLog)
            .and_then(|log| {
                let recorder = RequestRecorder::new(Arc::default(), log);
                let extras = ServerExtras {
                    scratch: Some(self.directory.clone()),
                    add_services: |server: &mut Server| {
                        server.add_service(origin);
                    },
                };
                server::serve(&file, rules, recorder, StartMode::Alone, extras)
            });
        // The gateway, had it started, would have done this at its end.
        let _ = std::fs::remove_dir_all(&self.directory);
        tell(&format_args!("sluicegate: {error}"));
        FAILED
    }

    fn introduce(&self, file: &Path) {
        let Self { gateway, admin, .. } = self;
        tell(&format_args!(
            "Sluicegate stands at http://{gateway} before an origin, and lets each client POST /auth/sendOTP 5 times in 10 s.

Try in another terminal:

    curl -i -X POST http://{gateway}/auth/sendOTP
    for i in $(seq 8); do curl -s -o /dev/null -w '%{{http_code}}\\n' -X POST http://{gateway}/auth/sendOTP; done
    curl -i http://{gateway}/

The rules are in {file}; edit them while this runs.
A mistake in them is reported here, and the rules before it stay in force.
Metrics and status: http://{admin}/metrics and http://{admin}/status. Ctrl-C stops.
",
            file = file.display()
        ));
    }
}

/// Creates a new temporary directory that only this user may read.
fn private_directory() -> std::io::Result<PathBuf> {
    let id = std::process::id();
    let mut last = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
    for attempt in 0..ATTEMPTS {
        let path = std::env::temp_dir().join(format!("sluicegate-demo-{id}-{attempt}"));
        // Fails where anything of that name exists, a symbolic link included.
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns `port` on the loopback, or any other if it is taken.
fn free_address(port: u16) -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?
        .local_addr()
}

/// The demo's origin, which counts the SMS that it would have sent.
#[derive(Default)]
struct DemoOrigin {
    sent: AtomicU64,
}

#[async_trait]
impl ServeHttp for DemoOrigin {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let body = if session.req_header().uri.path() == "/auth/sendOTP" {
            // Relaxed: the number is only shown, and publishes nothing.
            let sent = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
            format!("SMS number {sent} sent\n")
        } else {
            "hello from the origin\n".to_owned()
        };
        let mut response = Response::new(body.into_bytes());
        let length = response.body().len();
        response
            .headers_mut()
            .insert(http::header::CONTENT_LENGTH, length.into());
        response.headers_mut().insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        response
    }
}
