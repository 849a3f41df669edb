//! Real Redis servers, from the system's package: one, a master with replicas, a cluster.
//!
//! Ports lie below those that the system hands out by itself, so that a server that was killed finds its own free when it starts
//! again. Nothing is written to disk unless a test asks for it. A server is ended by its own process id when it is dropped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::eventually::{PATIENCE, eventually};
use super::gateway::START_ATTEMPTS;
use super::ports::free_port;

/// A running `redis-server`.
pub struct Redis {
    child: Child,
    directory: TempDir,
    port: u16,
    arguments: Vec<String>,
    /// The one of `--requirepass`.
    password: Option<String>,
}

/// The masters of a cluster, which hold all slots between them.
pub struct Cluster {
    /// In the order of their slots.
    pub nodes: Vec<Redis>,
}

/// Sentinels that watch one master, which they call `gateway`.
pub struct Sentinels {
    children: Vec<Child>,
    ports: Vec<u16>,
    /// What they ask for.
    password: Option<String>,
    _directory: TempDir,
}

impl Redis {
    /// Starts a server that keeps nothing on disk, and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// As [`Self::start`], with arguments of the command line: `&["--maxmemory", "2mb"]`. `{directory}` stands for its own.
    pub async fn start_with(arguments: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let place = directory.path().display().to_string();
        let arguments: Vec<String> = arguments
            .iter()
            .map(|argument| argument.replace("{directory}", &place))
            .collect();
        let port = free_port();
        let mut words = arguments.iter().skip_while(|word| *word != "--requirepass");
        let mut redis = Self {
            child: spawn(directory.path(), port, &arguments),
            directory,
            port,
            password: words.nth(1).cloned(),
            arguments,
        };
        // A free port can be lost to another run of the tests before the server has it.
        for attempt in 1.. {
            match redis.answers().await {
                Ok(()) => break,
                Err(log) => assert!(log.contains("in use") && attempt < START_ATTEMPTS, "{log}"),
            }
            redis.port = free_port();
            redis.child = spawn(redis.directory.path(), redis.port, &redis.arguments);
        }
        redis
    }

    /// Starts a replica of `master` with the same password, and waits until it has what the master has.
    pub async fn replica_of(master: &Redis) -> Self {
        let place = format!("127.0.0.1 {}", master.port);
        let mut arguments = vec!["--replicaof", &place, "--repl-diskless-sync-delay", "0"];
        if let Some(password) = &master.password {
            arguments.extend(["--requirepass", password, "--masterauth", password]);
        }
        let replica = Self::start_with(&arguments).await;
        eventually("the replica follows", async || {
            let info = replica.command(&["INFO", "replication"]);
            info.as_str()?
                .contains("master_link_status:up")
                .then_some(())
        })
        .await;
        // The master counts it only once the replica has confirmed what it got.
        eventually("the master knows the replica", async || {
            let port = json!(replica.port.to_string());
            let role = master.command(&["ROLE"]);
            let known = role[2].as_array()?;
            known.iter().any(|one| one[1] == port).then_some(())
        })
        .await;
        replica
    }

    /// Starts a cluster of so many masters.
    pub async fn cluster(masters: u16) -> Cluster {
        Self::cluster_with(masters, "yes").await
    }

    /// As [`Self::cluster`], one that answers for the slots that are left when a master is lost.
    pub async fn cluster_that_serves_in_part(masters: u16) -> Cluster {
        Self::cluster_with(masters, "no").await
    }

    async fn cluster_with(masters: u16, full_coverage: &str) -> Cluster {
        let mut nodes = Vec::new();
        for _ in 0..masters {
            let arguments = [
                "--cluster-require-full-coverage",
                full_coverage,
                "--cluster-enabled",
                "yes",
                "--cluster-config-file",
                "nodes.conf",
                "--cluster-node-timeout",
                "2000",
            ];
            nodes.push(Self::start_with(&arguments).await);
        }
        for (at, node) in nodes.iter().enumerate() {
            let edge = |at: usize| at * 16_384 / usize::from(masters);
            let (from, to) = (edge(at), edge(at + 1) - 1);
            node.command(&[
                "CLUSTER",
                "ADDSLOTSRANGE",
                &from.to_string(),
                &to.to_string(),
            ]);
            // Distinct epochs from the start spare the nodes a vote.
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
            node.command(&["CLUSTER", "MEET", "127.0.0.1", &nodes[0].port.to_string()]);
        }
        for node in &nodes {
            eventually("the cluster stands", async || {
                let known = node.command(&["CLUSTER", "SLOTS"]);
                let info = node.command(&["CLUSTER", "INFO"]);
                let stands = info.as_str()?.contains("cluster_state:ok");
                (stands && known.as_array()?.len() == nodes.len()).then_some(())
            })
            .await;
        }
        Cluster { nodes }
    }

    /// Where it listens on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Its directory, for sockets, certificates, lists of users.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Makes the user `gateway`, with the password `hunter2`, the rights that docs/operations/store.md names, and these.
    pub fn add_gateway_user(&self, more: &[&str]) {
        let guide = include_str!("../../../docs/operations/store.md");
        let rights = guide.split("~sluicegate* ").nth(1).unwrap();
        let rights = rights.split('`').next().unwrap().split_whitespace();
        let user = [
            "ACL",
            "SETUSER",
            "gateway",
            "on",
            ">hunter2",
            "~sluicegate*",
        ];
        let words: Vec<_> = user
            .into_iter()
            .chain(rights)
            .chain(more.iter().copied())
            .collect();
        self.command(&words);
    }

    /// One command on a connection of its own; an error of the server fails the test.
    pub fn command(&self, words: &[&str]) -> Value {
        self.try_command(words)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// One command on a connection of its own: what is answered, or the server's error.
    pub fn try_command(&self, words: &[&str]) -> Result<Value, String> {
        ask(self.port, self.password.as_deref(), words)
    }

    /// Stops it from running, as a machine that hangs does; connections stay.
    pub fn pause(&self) {
        kill(id(&self.child), Signal::SIGSTOP).unwrap();
    }

    /// Lets it run on.
    pub fn resume(&self) {
        kill(id(&self.child), Signal::SIGCONT).unwrap();
    }

    /// Kills it without notice, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on its port, with its arguments and what it kept on disk, and waits until it answers.
    pub async fn restart(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.child = spawn(self.directory.path(), self.port, &self.arguments);
        self.answers().await.unwrap();
    }

    /// What a cluster calls it.
    fn name(&self) -> String {
        let name = self.command(&["CLUSTER", "MYID"]);
        name.as_str().unwrap().to_owned()
    }

    /// Waits until it answers; its log where it ends instead.
    async fn answers(&mut self) -> Result<(), String> {
        let log = self.log_path();
        eventually("redis-server answers", async || {
            if let Some(status) = self.child.try_wait().unwrap() {
                let log = fs::read_to_string(&log).unwrap_or_default();
                return Some(Err(format!("redis-server ended with {status}:\n{log}")));
            }
            // It may ask for a password, or still load. Another run of the tests may have a server on this port.
            let is_own = match self.try_command(&["INFO", "server"]) {
                Ok(info) => info
                    .as_str()?
                    .contains(&format!("process_id:{}\r", self.child.id())),
                Err(error) => error.starts_with("NOAUTH"),
            };
            is_own.then_some(Ok(()))
        })
        .await
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("redis.log")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cluster {
    /// Hands a slot over, as a resharding does. What was in it goes along.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to);
        let (from, to) = (&self.nodes[from], &self.nodes[to]);
        let slot = slot.to_string();
        let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000000"]);
        for key in keys.as_array().unwrap() {
            let (port, key) = (to.port.to_string(), key.as_str().unwrap());
            from.command(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
        }
        for node in [to, from] {
            node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &to.name()]);
        }
    }

    /// The first half of that: what is there stays, what is new is made at the other.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let (from, to) = (&self.nodes[from], &self.nodes[to]);
        let slot = slot.to_string();
        to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from.name()]);
        from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to.name()]);
    }

    /// `["127.0.0.1:PORT", …]`, as TOML.
    pub fn toml(&self) -> String {
        list(self.nodes.iter().map(Redis::port))
    }
}

impl Sentinels {
    /// Starts so many for `master`, of which a majority decides, and waits until each knows the master, its replicas, the others.
    pub async fn start(master: &Redis, count: usize) -> Self {
        Self::start_with(master, count, None, "").await
    }

    /// As [`Self::start`], that ask for this password of users who have no name, and have these lines in their files.
    pub async fn start_with(
        master: &Redis,
        count: usize,
        password: Option<&str>,
        lines: &str,
    ) -> Self {
        let directory = TempDir::new().unwrap();
        let mut sentinels = Self {
            children: Vec::new(),
            ports: Vec::new(),
            password: password.map(str::to_owned),
            _directory: directory,
        };
        let home = sentinels._directory.path().to_owned();
        for number in 0..count {
            let port = free_port();
            let file = home.join(format!("{number}.conf"));
            let text = format!(
                "port {port}\nbind 127.0.0.1\nsentinel monitor gateway 127.0.0.1 {} {}\n\
                 sentinel down-after-milliseconds gateway 500\nsentinel failover-timeout gateway 2000\n",
                master.port,
                count / 2 + 1
            );
            let required = password.map(|password| format!("requirepass {password}\n"));
            let text = format!("{text}{}{lines}", required.unwrap_or_default());
            fs::write(&file, text).unwrap();
            let log = File::create(home.join(format!("{number}.log"))).unwrap();
            // What `redis-sentinel` is, whatever the server is called.
            let mut command = Command::new(redis_server());
            command.arg(&file).arg("--sentinel").current_dir(&home);
            sentinels.children.push(launched(command, log));
            sentinels.ports.push(port);
        }
        let replicas = master.command(&["ROLE"])[2].as_array().unwrap().len();
        for &port in &sentinels.ports {
            eventually("the sentinel knows everybody", async || {
                let known = sentinels
                    .ask(port, &["SENTINEL", "MASTER", "gateway"])
                    .ok()?;
                let fields: Vec<&str> =
                    known.as_array()?.iter().filter_map(Value::as_str).collect();
                let says = |name: &str, value: usize| {
                    let of = fields.chunks(2).find(|pair| pair[0] == name);
                    of.is_some_and(|pair| pair[1] == value.to_string())
                };
                (says("num-slaves", replicas) && says("num-other-sentinels", count - 1))
                    .then_some(())
            })
            .await;
        }
        sentinels
    }

    /// `["127.0.0.1:PORT", …]`, as TOML.
    pub fn toml(&self) -> String {
        list(self.ports.iter().copied())
    }

    /// Has them hand the master's role to a replica, as for an upgrade.
    pub async fn fail_over(&self) {
        eventually("a replica is fit to be promoted", async || {
            self.ask(self.ports[0], &["SENTINEL", "FAILOVER", "gateway"])
                .ok()
        })
        .await;
    }

    /// The port of the master, as the first of them sees it.
    pub fn master(&self) -> u16 {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "gateway"];
        let address = self.ask(self.ports[0], &words).unwrap();
        address[1].as_str().unwrap().parse().unwrap()
    }

    fn ask(&self, port: u16, words: &[&str]) -> Result<Value, String> {
        ask(port, self.password.as_deref(), words)
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn list(ports: impl Iterator<Item = u16>) -> String {
    let nodes: Vec<String> = ports.map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    format!("[{}]", nodes.join(", "))
}

fn spawn(directory: &Path, port: u16, arguments: &[String]) -> Child {
    let log = directory.join("redis.log");
    let log = File::options().create(true).append(true).open(log).unwrap();
    let mut command = Command::new(redis_server());
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--daemonize", "no"])
        .args(arguments)
        .current_dir(directory);
    launched(command, log)
}

fn launched(mut command: Command, log: File) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| {
            panic!("{command:?} does not start ({error}); `./dev test` installs it")
        })
}

fn id(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// The server under test: Valkey by `SLUICEGATE_TEST_REDIS=valkey-server`.
pub fn redis_server() -> String {
    std::env::var("SLUICEGATE_TEST_REDIS").unwrap_or_else(|_| "redis-server".to_owned())
}

/// Sends one command, behind the password if there is one, and reads its answer.
fn ask(port: u16, password: Option<&str>, words: &[&str]) -> Result<Value, String> {
    let fail = |error: std::io::Error| error.to_string();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(fail)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
    let mut stream = BufReader::new(stream);
    let mut said = Err("nothing was asked".to_owned());
    let greeting = password.map(|password| ["AUTH", password]);
    for words in greeting.iter().map(|words| &words[..]).chain([words]) {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.get_mut().write_all(bytes.as_bytes()).map_err(fail)?;
        said = answer(&mut stream);
        if said.is_err() {
            break;
        }
    }
    said
}

/// Reads RESP 2: numbers as numbers, strings as strings, nothing as null.
fn answer(from: &mut impl BufRead) -> Result<Value, String> {
    let fail = |error: std::io::Error| error.to_string();
    let mut line = String::new();
    from.read_line(&mut line).map_err(fail)?;
    let line = line.trim_end();
    let (Some(kind), Some(rest)) = (line.get(..1), line.get(1..)) else {
        return Err("the connection was closed".to_owned());
    };
    match (kind, rest) {
        ("+", text) => Ok(text.into()),
        ("-", error) => Err(error.to_owned()),
        (":", number) => Ok(number.parse::<i64>().unwrap().into()),
        ("$" | "*", "-1") => Ok(Value::Null),
        ("$", length) => {
            let mut bytes = vec![0; length.parse::<usize>().unwrap() + 2];
            from.read_exact(&mut bytes).map_err(fail)?;
            bytes.truncate(bytes.len() - 2);
            Ok(String::from_utf8_lossy(&bytes).into_owned().into())
        }
        ("*", count) => (0..count.parse::<usize>().unwrap())
            .map(|_| answer(from))
            .collect(),
        _ => panic!("not RESP: {line:?}"),
    }
}
