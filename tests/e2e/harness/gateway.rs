//! The gateway under test: the real binary, in a directory and on ports of its own.
//!
//! Its standard error goes to a file there, which is printed when the test fails. It is killed by its own process id when the
//! test ends, however the test ends.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use super::client::{Client, Request, Response, Version, get, post};
use super::driven_clock::DrivenClock;
use super::eventually::{at_a_pace, clear_of_the_hours_end, eventually, within};
use super::h2c::H2cClient;
use super::metrics::Metrics;
use super::origin::Origin;
use super::ports::free_address;
use super::raw::RawConnection;
use super::setup::{Layout, Place, Setup, Writing};

pub(super) const BINARY: &str = env!("CARGO_BIN_EXE_sluicegate");

/// Reserved ports can be lost to another test between release and start.
pub(super) const START_ATTEMPTS: usize = 5;

/// Lines of the process log that a failing test prints, the last ones.
const SHOWN: usize = 200;

/// How long [`Gateway::metrics`] waits for requests in flight.
const MOMENT: Duration = Duration::from_millis(500);

/// One run of the binary with its captured standard error.
pub struct Process {
    child: Child,
    stderr: PathBuf,
    // Kept so that the directory lives as long as the process.
    _directory: Option<TempDir>,
}

/// A running gateway.
pub struct Gateway {
    process: Process,
    directory: TempDir,
    listener: SocketAddr,
    admin: SocketAddr,
    setup: Setup,
    writes: u32,
    spoken: Version,
}

impl Process {
    /// Runs the binary with these arguments, with its directory for relative paths.
    pub fn run(arguments: &[&str]) -> Self {
        Self::run_under(&Setup::new(), arguments)
    }

    /// As [`run`](Self::run), with the open files and the variables of a setup.
    pub fn run_under(setup: &Setup, arguments: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let mut process = Self::run_in(directory.path(), setup, arguments);
        process._directory = Some(directory);
        process
    }

    fn run_in(directory: &Path, setup: &Setup, arguments: &[&str]) -> Self {
        let stderr = directory.join("stderr.log");
        let child = setup
            .command(BINARY)
            .args(arguments)
            .current_dir(directory)
            .envs(setup.variables().iter().cloned())
            .env("TMPDIR", directory)
            .stdin(Stdio::null())
            .stdout(File::create(directory.join("stdout.log")).unwrap())
            .stderr(File::create(&stderr).unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("{BINARY}: {error}"));
        Self {
            child,
            stderr,
            _directory: None,
        }
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stderr).unwrap()).into_owned()
    }

    /// What it wrote to standard output so far.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.stderr.with_file_name("stdout.log")).unwrap())
            .into_owned()
    }

    /// Its exit status, once it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end; the exit code.
    pub async fn exit_code(&mut self) -> i32 {
        let status = eventually("the process ends", async || self.exited()).await;
        status
            .code()
            .unwrap_or_else(|| panic!("no exit code: {status}"))
    }

    /// Sends it this signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.id(), signal).unwrap();
    }

    /// Ends it without notice, as a crash does, and waits until it is gone.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.stderr();
            let skipped = log.lines().count().saturating_sub(SHOWN);
            eprintln!("--- standard error of the gateway, without {skipped} lines ---");
            log.lines()
                .skip(skipped)
                .for_each(|line| eprintln!("{line}"));
            eprintln!("--- end ---");
        }
    }
}

impl Gateway {
    /// A gateway without origins.
    pub async fn start(rules: &str) -> Self {
        Setup::new().rules(rules).start().await
    }

    /// A gateway before one origin, named `app` in the rules.
    pub async fn before(origin: &Origin, rules: &str) -> Self {
        Setup::new()
            .origin("app", origin)
            .rules(rules)
            .start()
            .await
    }

    /// As [`Self::before`], for clients that speak this version.
    pub async fn before_by(version: Version, origin: &Origin, rules: &str) -> Self {
        let setup = Setup::new().origin("app", origin).rules(rules);
        setup.spoken_to_by(version).start().await
    }

    /// A gateway that passes everything to one origin.
    pub async fn passing(origin: &Origin) -> Self {
        Self::before(origin, "[[route]]\npath = \"/*\"\norigin = \"app\"").await
    }

    pub(super) async fn start_with(setup: Setup) -> Self {
        clear_of_the_hours_end().await;
        for attempt in 1.. {
            let mut gateway = Self::spawn(setup.clone());
            if gateway.becomes_ready().await {
                return gateway;
            }
            assert!(
                has_lost_port(&gateway.stderr()) && attempt < START_ATTEMPTS,
                "the gateway does not start"
            );
        }
        unreachable!("every attempt returns or panics")
    }

    /// As [`Self::start`], at the moment when its listener is open: nothing answers yet.
    pub async fn as_it_opens(rules: &str) -> (Self, TcpStream) {
        clear_of_the_hours_end().await;
        let setup = Setup::new().rules(rules);
        for attempt in 1.. {
            let mut gateway = Self::spawn(setup.clone());
            let deadline = Instant::now() + Duration::from_secs(30);
            // No pause between two looks: the moment is short.
            while gateway.process.exited().is_none() && Instant::now() < deadline {
                if let Ok(first) = TcpStream::connect(gateway.listener) {
                    return (gateway, first);
                }
            }
            assert!(
                has_lost_port(&gateway.stderr()) && attempt < START_ATTEMPTS,
                "the gateway does not start"
            );
        }
        unreachable!("every attempt returns or panics")
    }

    fn spawn(setup: Setup) -> Self {
        let directory = TempDir::new().unwrap();
        let (listener, admin) = (free_address(), free_address());
        let file = config_path(directory.path());
        fs::create_dir(file.parent().unwrap()).unwrap();
        for (name, content) in setup.files() {
            fs::write(directory.path().join(name), content).unwrap();
        }
        let text = setup.render(&Place {
            listener,
            admin,
            directory: directory.path(),
        });
        match setup.layout() {
            Layout::File => fs::write(&file, text).unwrap(),
            Layout::ConfigMap => mount_config_map(&file, &text, 0),
        }
        let process = Process::run_in(
            directory.path(),
            &setup,
            &["run", "--config", file.to_str().unwrap()],
        );
        Self {
            process,
            directory,
            listener,
            admin,
            spoken: setup.spoken(),
            setup,
            writes: 0,
        }
    }

    /// Whether it is ready; not when it has ended instead.
    async fn becomes_ready(&mut self) -> bool {
        let admin = self.admin;
        within(
            Duration::from_secs(30),
            "the gateway is ready",
            async || {
                if self.process.exited().is_some() {
                    return Some(false);
                }
                let ready = one_shot(admin, get("/readyz"))
                    .await
                    .is_ok_and(|answer| answer.status == 200);
                ready.then_some(true)
            },
        )
        .await
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.listener
    }

    /// Where operators connect.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// A directory of the test's own, which holds the configuration, the logs and whatever the test puts there.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The configuration file.
    pub fn config_path(&self) -> PathBuf {
        config_path(self.directory.path())
    }

    /// The access log.
    pub fn access_log_path(&self) -> PathBuf {
        self.directory.path().join("access.log")
    }

    /// The time of a gateway that was started [`with_driven_clock`](Setup::with_driven_clock).
    pub fn clock(&self) -> DrivenClock {
        DrivenClock::of(self.directory.path())
    }

    /// The process log.
    pub fn stderr(&self) -> String {
        self.process.stderr()
    }

    // ── asking ──

    /// From now on, clients that are not asked for by a version speak this one, which the listener is made for.
    pub fn spoken_to_by(mut self, version: Version) -> Self {
        self.spoken = version;
        self
    }

    /// A kept-alive connection.
    pub async fn client(&self) -> Client {
        Client::connect_by(self.spoken, None, self.listener).await
    }

    /// A kept-alive connection from another loopback address.
    pub async fn client_from(&self, address: &str) -> Client {
        Client::connect_by(self.spoken, Some(address), self.listener).await
    }

    /// A connection that sends exactly the given bytes.
    pub async fn raw(&self) -> RawConnection {
        RawConnection::connect(self.listener).await
    }

    /// A WebSocket through it to the origin's `/socket`; it is closed when dropped.
    pub async fn websocket(&self) -> RawConnection {
        let mut socket = self.raw().await;
        socket
            .write(
                "GET /socket HTTP/1.1\r\nHost: gateway.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            )
            .await;
        assert_eq!(socket.read_response_to_head().await.status, 101);
        socket
    }

    /// An HTTP/2 connection.
    pub async fn h2c(&self) -> H2cClient {
        H2cClient::connect(self.listener).await
    }

    /// One request on a connection of its own.
    pub async fn send(&self, request: Request) -> Response {
        self.client().await.send(request).await
    }

    /// GET on a connection of its own.
    pub async fn get(&self, target: &str) -> Response {
        self.send(get(target)).await
    }

    /// POST without a body on a connection of its own.
    pub async fn post(&self, target: &str) -> Response {
        self.send(post(target)).await
    }

    // ── operating ──

    /// Its process id.
    pub fn id(&self) -> Pid {
        self.process.id()
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits until it is ready.
    pub async fn ready(&mut self) {
        assert!(self.becomes_ready().await, "the gateway ends");
    }

    /// Waits until it takes no connections any more.
    pub async fn is_closed(&self) {
        eventually("new connections are refused", async || {
            Client::try_connect(self.listener)
                .await
                .is_err()
                .then_some(())
        })
        .await;
    }

    /// Waits for the end of the process; its exit code.
    pub async fn exit_code(&mut self) -> i32 {
        self.process.exit_code().await
    }

    /// Kills the process with SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Runs the binary again after the end of the process: in the same directory, with the same rules, on other ports, since the old
    /// ones may be lost by now. Waits until it is ready.
    pub async fn start_again(&mut self) {
        for attempt in 1.. {
            (self.listener, self.admin) = (free_address(), free_address());
            self.write_setup(self.setup.clone(), Writing::InPlace);
            let file = self.config_path();
            let arguments = ["run", "--config", file.to_str().unwrap()];
            self.process = Process::run_in(self.directory.path(), &self.setup, &arguments);
            if self.becomes_ready().await {
                return;
            }
            assert!(
                has_lost_port(&self.stderr()) && attempt < START_ATTEMPTS,
                "the gateway does not start again"
            );
        }
    }

    /// As [`Self::start_again`], without waiting until it is ready; the status of `/readyz` once it tells.
    pub async fn start_again_unready(&mut self) -> u16 {
        (self.listener, self.admin) = (free_address(), free_address());
        self.write_setup(self.setup.clone(), Writing::InPlace);
        let file = self.config_path();
        let arguments = ["run", "--config", file.to_str().unwrap()];
        self.process = Process::run_in(self.directory.path(), &self.setup, &arguments);
        let (listener, admin) = (self.listener, self.admin);
        eventually("the gateway answers", async || {
            Client::try_connect(listener).await.ok()?;
            let answer = one_shot(admin, get("/readyz")).await.ok()?;
            // While listeners are being opened, it says that it starts.
            (!answer.text().contains("no configuration")).then_some(answer.status)
        })
        .await
    }

    /// One request to the admin listener.
    pub async fn admin(&self, request: Request) -> Response {
        one_shot(self.admin, request)
            .await
            .unwrap_or_else(|error| panic!("admin: {error}"))
    }

    /// `/status`.
    pub async fn status(&self) -> Value {
        let answer = self.admin(get("/status")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// `/metrics`, parsed. A request is counted after its answer was sent, so those in flight are given a moment to end; some tests
    /// hold one in flight all the while.
    pub async fn metrics(&self) -> Metrics {
        let started = Instant::now();
        at_a_pace(Duration::from_millis(10), async || {
            let answer = self.admin(get("/metrics")).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            let metrics = Metrics::parse(answer.text());
            let is_settled = metrics.sum("sluicegate_requests_in_flight", &[]) == 0.0;
            (is_settled || started.elapsed() > MOMENT).then_some(metrics)
        })
        .await
    }

    /// Which configuration serves: it grows with every reload that succeeds.
    pub async fn generation(&self) -> u64 {
        let status = self.status().await;
        status["configuration"]["generation"]
            .as_u64()
            .unwrap_or_else(|| panic!("no generation: {status}"))
    }

    /// Replaces the rules in the file; the gateway notices in its own time.
    pub fn write_rules(&mut self, rules: &str, writing: Writing) {
        self.write_setup(self.setup.clone().rules(rules), writing);
    }

    /// Replaces the whole configuration in the file.
    pub fn write_setup(&mut self, setup: Setup, writing: Writing) {
        let place = Place {
            listener: self.listener,
            admin: self.admin,
            directory: self.directory.path(),
        };
        let text = setup.render(&place);
        self.setup = setup;
        self.writes += 1;
        let file = self.config_path();
        match writing {
            Writing::InPlace => fs::write(&file, text).unwrap(),
            Writing::Rename => {
                let beside = file.with_extension("new");
                fs::write(&beside, text).unwrap();
                fs::rename(&beside, &file).unwrap();
            }
            Writing::ConfigMap => mount_config_map(&file, &text, self.writes),
        }
    }

    /// Replaces the rules and waits until they serve.
    pub async fn reload(&mut self, rules: &str) {
        let before = self.generation().await;
        self.write_rules(rules, Writing::Rename);
        self.serves_after(before).await;
    }

    /// Waits until a configuration later than `generation` serves.
    pub async fn serves_after(&self, generation: u64) {
        eventually("the new configuration serves", async || {
            (self.generation().await > generation).then_some(())
        })
        .await;
    }

    // ── the access log ──

    /// The lines of the access log so far, parsed, in no certain order: each worker thread collects its own.
    pub fn access_log(&self) -> Vec<Value> {
        read_log(&self.access_log_path())
    }

    /// Waits for the lines of these answers, in their order.
    pub async fn lines_of(&self, answers: &[Response]) -> Vec<Value> {
        let ids: Vec<&str> = answers
            .iter()
            .map(|answer| answer.header("x-request-id").unwrap())
            .collect();
        eventually("every answer has its access line", async || {
            let lines = self.access_log();
            let line = |id: &&str| lines.iter().find(|line| line["id"] == **id).cloned();
            ids.iter().map(line).collect()
        })
        .await
    }

    /// Waits for exactly this many lines in the access log.
    pub async fn access_lines(&self, count: usize) -> Vec<Value> {
        let lines = eventually(&format!("{count} access lines"), async || {
            let lines = self.access_log();
            (lines.len() >= count).then_some(lines)
        })
        .await;
        assert_eq!(lines.len(), count, "{lines:?}");
        lines
    }

    /// Waits for the only line of the access log.
    pub async fn access_line(&self) -> Value {
        self.access_lines(1).await.remove(0)
    }
}

/// The whole lines of a log; a line still being written is left for the next look.
pub fn read_log(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |line| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON line ({error}): {line}"))
    };
    whole.lines().map(parse).collect()
}

/// One request to the admin listener, which is addressed by its IP unless the request names another host.
async fn one_shot(address: SocketAddr, mut request: Request) -> Result<Response, String> {
    let host = request.take_host();
    let host = host.unwrap_or_else(|| address.to_string());
    let request = request.header("host", &host);
    let mut client = Client::try_connect(address)
        .await
        .map_err(|error| error.to_string())?;
    client.try_send(request).await
}

pub(super) fn config_path(directory: &Path) -> PathBuf {
    directory.join("conf").join("gateway.toml")
}

/// Whether a process ended since a port that was free is not any more: another process has it, or it was given to another part of the
/// same
/// test.
fn has_lost_port(stderr: &str) -> bool {
    stderr.to_lowercase().contains("in use") || stderr.contains("is taken by the listener")
}

/// `gateway.toml → ..data/gateway.toml`, `..data → ..N`; only the second link is swapped.
fn mount_config_map(file: &Path, text: &str, version: u32) {
    use std::os::unix::fs::symlink;
    let directory = file.parent().unwrap();
    let name = format!("..{version}");
    fs::create_dir(directory.join(&name)).unwrap();
    fs::write(directory.join(&name).join("gateway.toml"), text).unwrap();
    symlink(&name, directory.join("..data_tmp")).unwrap();
    fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
    if !file.exists() {
        symlink("..data/gateway.toml", file).unwrap();
    }
}
