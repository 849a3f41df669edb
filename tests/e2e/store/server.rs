//! Starts a redis-server of its own and runs the script in it, by a clock that the test sets.
//!
//! On a Unix socket: no port to choose. The client is a few lines of RESP, since what is under test is the script.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sluicegate::store::script::{self, Call, Reply, ScriptAnswer};
use sluicegate_decide::store::{StoreAnswer, StoreAsk};
use sluicegate_limiter::Timestamp;
use tempfile::TempDir;

use crate::harness::redis_server;

/// What of the script reads the clock.
const CLOCK: &str = "redis.call('TIME')";
/// What the tests put in its place: two arguments behind all others.
const TOLD: &str = "{ ARGV[#ARGV - 1], ARGV[#ARGV] }";
const PATIENCE: Duration = Duration::from_secs(10);

/// A running redis-server.
pub struct Server {
    process: Child,
    connection: BufReader<UnixStream>,
    _folder: TempDir,
    /// The script by the test's clock, and by the server's own.
    scripts: [String; 2],
}

impl Server {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("redis.sock");
        let process = Command::new(redis_server())
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(folder.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts: `./dev test` installs it");
        let deadline = Instant::now() + PATIENCE;
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < deadline, "no redis-server: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut server = Self {
            process,
            connection: BufReader::new(stream),
            _folder: folder,
            scripts: Default::default(),
        };
        assert_eq!(
            script::TEXT.matches(CLOCK).count(),
            1,
            "the script reads the clock once"
        );
        server.scripts =
            [&script::TEXT.replace(CLOCK, TOLD), script::TEXT].map(|text| server.load(text));
        server
    }

    fn load(&mut self, text: &str) -> String {
        match self.command(&[b"SCRIPT", b"LOAD", text.as_bytes()]) {
            Ok(Reply::Bytes(hash)) => String::from_utf8(hash).unwrap(),
            other => panic!("the script loads: {other:?}"),
        }
    }

    /// Runs a command; an error is what the server says.
    pub fn command(&mut self, words: &[&[u8]]) -> Result<Reply, String> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            write!(request, "${}\r\n", word.len()).unwrap();
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.connection.get_mut().write_all(&request).unwrap();
        self.reply()
    }

    /// As `command`, of words of text.
    pub fn say(&mut self, words: &str) -> Result<Reply, String> {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.command(&words)
    }

    /// The number that a command answers.
    pub fn number(&mut self, words: &str) -> i64 {
        match self.say(words) {
            Ok(Reply::Integer(number)) => number,
            other => panic!("{words}: {other:?}"),
        }
    }

    /// The names of all keys.
    pub fn keys(&mut self) -> Vec<String> {
        let Ok(Reply::Rows(keys)) = self.say("KEYS *") else {
            panic!("KEYS lists keys");
        };
        let name = |key| match key {
            Reply::Bytes(name) => String::from_utf8(name).unwrap(),
            other => panic!("a key is no {other:?}"),
        };
        keys.into_iter().map(name).collect()
    }

    /// Runs the script at this moment of its clock.
    pub fn run_at(&mut self, call: &Call, now: Timestamp) -> Result<Reply, String> {
        let seconds = now.as_secs().to_string();
        let micros = (now.as_nanos() % 1_000_000_000 / 1_000).to_string();
        let mut call = call.clone();
        call.args.extend([seconds.into(), micros.into()]);
        let hash = self.scripts[0].clone();
        self.evaluate(&hash, &call)
    }

    /// Runs the script by the server's own clock.
    pub fn run(&mut self, call: &Call) -> Result<Reply, String> {
        let hash = self.scripts[1].clone();
        self.evaluate(&hash, call)
    }

    fn evaluate(&mut self, hash: &str, call: &Call) -> Result<Reply, String> {
        let keys = call.keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"EVALSHA", hash.as_bytes(), keys.as_bytes()];
        words.extend(call.keys.iter().chain(&call.args).map(Vec::as_slice));
        self.command(&words)
    }

    /// Runs the script at this moment; what it says of these asks.
    pub fn answer_at(
        &mut self,
        asks: &[StoreAsk<'_>],
        call: &Call,
        now: Timestamp,
    ) -> ScriptAnswer {
        let reply = self.run_at(call, now).unwrap();
        script::read(asks, reply).unwrap()
    }

    /// As `answer_at`, where it judges.
    pub fn decided_at(
        &mut self,
        asks: &[StoreAsk<'_>],
        call: &Call,
        now: Timestamp,
    ) -> StoreAnswer {
        match self.answer_at(asks, call, now) {
            ScriptAnswer::Decided(decided) => decided,
            other => panic!("it judges, and does not say {other:?}"),
        }
    }

    /// Decides at this moment.
    pub fn decide_at(&mut self, asks: &[StoreAsk<'_>], now: Timestamp) -> StoreAnswer {
        self.decided_at(asks, &script::decide(asks, now), now)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.connection.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn reply(&mut self) -> Result<Reply, String> {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        let length = || rest.parse::<i64>().unwrap();
        Ok(match kind {
            "+" => Reply::Bytes(rest.into()),
            "-" => return Err(rest.to_owned()),
            ":" => Reply::Integer(length()),
            "$" if length() < 0 => Reply::Nil,
            "$" => {
                let mut bytes = vec![0; length() as usize + 2];
                self.connection.read_exact(&mut bytes).unwrap();
                bytes.truncate(length() as usize);
                Reply::Bytes(bytes)
            }
            "*" if length() < 0 => Reply::Nil,
            "*" => {
                let rows = (0..length()).map(|_| self.reply());
                Reply::Rows(rows.collect::<Result<_, _>>()?)
            }
            other => panic!("RESP has no {other:?}"),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
