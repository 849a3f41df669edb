//! The page on load tests: its commands run as printed, before the demo, a file, nginx and HAProxy, and print what it says.
//!
//! Only two things differ from the page: ports are free ones, and each run of wrk takes [`DURATION`].

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::harness::*;

const PAGE: &str = include_str!("../../docs/load-testing.md");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const DURATION: &str = "-d1s";
/// The ports of the gateway, nginx, HAProxy, the origin and the admin listener on the page.
const PORTS: [u16; 5] = [8080, 8081, 8082, 3000, 9180];
/// The limit of `benches/wrk/gateway.toml`, and of nginx and HAProxy beside it.
const LIMIT: u64 = 10;
/// The limit of the demo.
const DEMO_LIMIT: u64 = 5;
const DEMO_WINDOW: Duration = Duration::from_secs(10);
/// What each of a thousand clients may send, in all.
const ALL: u64 = 1000 * LIMIT;
/// Requests whose answers wrk no longer waits for at its end.
const CONNECTIONS: u64 = 32;

/// The page, in a directory that has what its commands name of a checkout.
struct LoadTest {
    directory: TempDir,
    ports: BTreeMap<u16, u16>,
}

/// A server of the page; it is killed by its own process id when dropped.
struct Server {
    child: Child,
    stderr: PathBuf,
}

/// One report of wrk.
struct Report {
    wrk: WrkReport,
    statuses: BTreeMap<u16, u64>,
}

/// The blocks of shell in a section of the page.
fn commands(heading: &str) -> Vec<&'static str> {
    blocks(section(PAGE, heading), "sh")
}

/// The text with other ports in place of those of the page.
fn with_ports(text: &str, ports: &BTreeMap<u16, u16>) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let words = text.split_inclusive(|c: char| !is_digit(c));
    words
        .map(|word| {
            let number = word.trim_end_matches(|c: char| !is_digit(c));
            let port = number.parse().ok().and_then(|port: u16| ports.get(&port));
            port.map_or_else(
                || word.to_owned(),
                |port| word.replacen(number, &port.to_string(), 1),
            )
        })
        .collect()
}

/// The command with a short duration for each run of wrk.
fn shortened(command: &str) -> String {
    let words = command.split_inclusive([' ', '\n']);
    words
        .map(|word| match word.trim_end().strip_prefix("-d") {
            Some(rest) if rest.ends_with('s') => word.replacen(&format!("-d{rest}"), DURATION, 1),
            _ => word.to_owned(),
        })
        .collect()
}

impl LoadTest {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let ports = PORTS.map(|port| (port, free_port())).into();
        let files = directory.path().join("benches/wrk");
        fs::create_dir_all(&files).unwrap();
        for entry in fs::read_dir(Path::new(ROOT).join("benches/wrk")).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let copy = files.join(path.file_name().unwrap());
            fs::write(copy, with_ports(&text, &ports)).unwrap();
        }
        // The program is built already.
        let dev = directory.path().join("dev");
        fs::write(&dev, "#!/bin/sh\nexec sluicegate \"$@\"\n").unwrap();
        fs::set_permissions(&dev, fs::Permissions::from_mode(0o755)).unwrap();
        Self { directory, ports }
    }

    fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[&port]))
    }

    fn command(&self, text: &str) -> Command {
        let mut command = shell(&with_ports(&shortened(text), &self.ports));
        command
            .current_dir(self.directory.path())
            .env("TMPDIR", self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs commands to their end, and returns what they print.
    async fn run(&self, commands: &str) -> String {
        let mut command = self.command(commands);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = output.await.unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{commands}{printed}{errors}");
        printed
    }

    /// Runs commands of wrk to their end, and returns their reports.
    async fn load(&self, commands: &str) -> Vec<Report> {
        let printed = self.run(commands).await;
        let reports = printed.split("Running ").skip(1);
        reports.map(Report::parse).collect()
    }

    /// Starts the server of a line.
    fn serve(&self, line: &str, name: &str) -> Server {
        let stderr = self.directory.path().join(format!("{name}.log"));
        let child = self
            .command(&format!("exec {line}"))
            .stdout(Stdio::null())
            .stderr(File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        Server { child, stderr }
    }

    /// Starts the server of a line, and waits until it accepts at this port of the page.
    async fn serve_at(&self, line: &str, port: u16) -> Server {
        let mut server = self.serve(line, &port.to_string());
        let address = self.address(port);
        eventually(line, async || {
            server.assert_running();
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()
        })
        .await;
        server
    }

    /// Repeats a run of a thousand clients until it admits none, and returns the admitted requests of all runs, without those whose answers
    /// wrk did not wait for; their number is at most the second one.
    async fn exhaust(&self, command: &str) -> (u64, u64) {
        let mut admitted = 0;
        for runs in 1..=60 {
            let report = self.load(command).await.remove(0);
            report.assert_decided();
            admitted += report.admitted();
            if report.admitted() == 0 {
                return (admitted, runs * CONNECTIONS);
            }
        }
        panic!("{command}: each of 60 runs admitted requests, {admitted} in all");
    }
}

impl Server {
    fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    fn assert_running(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}: {}", self.stderr());
    }

    /// Presses Ctrl-C, and waits for the end.
    async fn interrupt(&mut self) {
        let process = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(process, Signal::SIGINT).unwrap();
        eventually("the server ends", async || self.child.try_wait().unwrap()).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Report {
    fn parse(text: &str) -> Self {
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("status ")?.split_once(": "));
        let statuses = lines.map(|(status, rest)| {
            let (count, rate) = rest.split_once(", ").unwrap();
            assert!(rate.ends_with(" a second"), "{text}");
            (status.parse().unwrap(), count.parse().unwrap())
        });
        Self {
            statuses: statuses.collect(),
            wrk: WrkReport::parse(text.to_owned()),
        }
    }

    fn count(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or_default()
    }

    fn admitted(&self) -> u64 {
        self.count(200)
    }

    /// Each answer is an admission or a rejection, and wrk counts them as the script does.
    fn assert_decided(&self) {
        let text = &self.wrk.text;
        assert_eq!(self.wrk.socket_errors, 0, "{text}");
        assert_eq!(
            self.admitted() + self.count(429),
            self.wrk.requests,
            "{text}"
        );
        assert_eq!(self.count(429), self.wrk.unsuccessful, "{text}");
    }

    /// All answers are of the origin, and the percentiles are there.
    fn assert_visit(&self) {
        let Self { wrk, .. } = self;
        assert!(wrk.requests > 0, "{}", wrk.text);
        assert_eq!(
            (wrk.unsuccessful, wrk.socket_errors),
            (0, 0),
            "{}",
            wrk.text
        );
        assert!(wrk.text.contains(" 99% "), "{}", wrk.text);
    }
}

/// The number of a window of the demo, which begins with a multiple of its period.
fn window() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() / DEMO_WINDOW.as_secs()
}

/// Runs the section on the demo: one client is admitted as often as the limit says in the windows that the run touches.
async fn load_the_demo(test: &mut LoadTest) {
    let [start, load] = commands("The demo")[..] else {
        panic!("other blocks");
    };
    let _turn = demo_turn().await;
    let mut demo = test.serve(start, "demo");
    let address = eventually("the demo names its address", async || {
        demo.assert_running();
        let printed = demo.stderr();
        let (_, address) = printed.split_once("stands at http://")?;
        address
            .split_whitespace()
            .next()?
            .parse::<SocketAddr>()
            .ok()
    })
    .await;
    eventually("its origin answers", async || {
        demo.assert_running();
        let mut client = Client::try_connect(address).await.ok()?;
        (client.get("/").await.status == 200).then_some(())
    })
    .await;
    let own = test.ports.insert(8080, address.port()).unwrap();
    let first = window();
    let report = test.load(load).await.remove(0);
    let windows = window() - first + 1;
    report.assert_decided();
    let admitted = report.admitted();
    assert!(
        (DEMO_LIMIT..=DEMO_LIMIT * windows).contains(&admitted),
        "{admitted} in {windows} windows"
    );
    assert!(report.wrk.text.contains(" 99% "), "{}", report.wrk.text);
    test.ports.insert(8080, own);
    demo.interrupt().await;
}

/// A file under load, with what the rest of the page needs of its section.
struct LoadedFile {
    _origin: Server,
    gateway: Server,
    /// The line that started the gateway.
    start: &'static str,
    /// The command of a thousand clients.
    many: &'static str,
}

/// Runs the section on a file: it admits exactly what the limit says, of one client and of each of a thousand.
async fn load_the_file(test: &LoadTest) -> LoadedFile {
    let [prepare, servers, load, metrics] = commands("Your own file")[..] else {
        panic!("other blocks");
    };
    test.run(prepare).await;
    let (origin, start) = servers.trim_end().split_once('\n').unwrap();
    let origin = test.serve_at(origin, 3000).await;
    let gateway = test.serve_at(start, 8080).await;
    let (one, many) = load.trim_end().split_once('\n').unwrap();
    for admitted in [LIMIT, 0] {
        let report = test.load(one).await.remove(0);
        report.assert_decided();
        assert_eq!(report.admitted(), admitted, "{}", report.wrk.text);
    }
    let (admitted, lost) = test.exhaust(many).await;
    assert!((ALL - lost..=ALL).contains(&admitted), "{admitted}");
    let counted = test.run(metrics).await;
    let line = format!(
        "sluicegate_limit_admitted_total{{route=\"/auth/sendOTP\",limit=\"otp\"}} {}\n",
        ALL + LIMIT
    );
    assert!(
        counted.contains(&line) && counted.contains("_refused_total{"),
        "{counted}"
    );
    LoadedFile {
        _origin: origin,
        gateway,
        start,
        many,
    }
}

/// Runs the section on latency: the visitor gets each answer, and the attacker none but rejections.
async fn visit_under_attack(test: &LoadTest) {
    let [commands] = commands("Latency under attack")[..] else {
        panic!("other blocks");
    };
    let [alone, beside, attack] = &test.load(commands).await[..] else {
        panic!("other reports");
    };
    alone.assert_visit();
    beside.assert_visit();
    attack.assert_decided();
    assert_eq!(attack.admitted(), 0, "{}", attack.wrk.text);
    assert!(attack.count(429) > 0, "{}", attack.wrk.text);
}

/// Runs the section on the other proxies, with the command of a thousand clients: each proxy forwards what has no limit, and the two others
/// admit ten requests of each client, nginx once more in each minute.
async fn compare(test: &LoadTest, many: &str) {
    let [servers, load] = commands("Beside nginx and HAProxy")[..] else {
        panic!("other blocks");
    };
    let (nginx, haproxy) = servers.trim_end().split_once('\n').unwrap();
    let _nginx = test.serve_at(nginx, 8081).await;
    let _haproxy = test.serve_at(haproxy, 8082).await;
    let reports = test.load(load).await;
    let [gateway, of_nginx, of_haproxy] = &reports[..3] else {
        panic!("other reports");
    };
    for report in [gateway, of_nginx, of_haproxy] {
        report.assert_decided();
        let is_each = report.admitted() > 2 * LIMIT;
        assert!(is_each, "the clients count as one: {}", report.wrk.text);
    }
    assert_eq!(reports.len(), 6);
    reports[3..].iter().for_each(Report::assert_visit);
    let (admitted, lost) = test.exhaust(&many.replace("8080", "8081")).await;
    let of_nginx = of_nginx.admitted() + admitted;
    assert!(of_nginx + lost + CONNECTIONS >= ALL, "nginx: {of_nginx}");
    let (admitted, lost) = test.exhaust(&many.replace("8080", "8082")).await;
    let of_haproxy = of_haproxy.admitted() + admitted;
    let expected = ALL - lost - CONNECTIONS..=ALL;
    assert!(expected.contains(&of_haproxy), "HAProxy: {of_haproxy}");
}

#[tokio::test]
async fn the_commands_of_the_page_on_load_tests_print_what_it_says() {
    // Goal: who load-tests by the page finds what it says. Method: its commands in their order with the real wrk, nginx and HAProxy; counts
    // of wrk, of the script and of the gateway. The limits of the file have a period of an hour, so their counts are exact.
    clear_of_the_hours_end().await;
    let mut test = LoadTest::new();
    load_the_demo(&mut test).await;
    let mut file = load_the_file(&test).await;
    visit_under_attack(&test).await;
    file.gateway.interrupt().await;
    file.gateway = test.serve_at(file.start, 8080).await;
    compare(&test, file.many).await;
}

#[test]
fn the_readme_has_commands_of_the_page_on_load_tests() {
    // Goal: the README starts the load test that the page explains. Method: each of its lines of wrk is one of the page.
    let readme = project_file("README.md");
    let lines = readme.lines().filter(|line| line.starts_with("wrk "));
    let commands: Vec<&str> = lines.collect();
    assert!(!commands.is_empty(), "the README has no command of wrk");
    for command in commands {
        let command = command.split("  #").next().unwrap().trim_end();
        assert!(PAGE.lines().any(|line| line == command), "{command}");
    }
}
