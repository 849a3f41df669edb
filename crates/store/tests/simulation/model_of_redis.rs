//! Compares the model of Redis with a real server, over random commands and random calls of the script.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sluicegate_decide::store::{KeyName, StoreAsk, StoreCharge};
use sluicegate_limiter::{
    Algorithm, Alignment, Cost, KeyHash, Period, Policy, Rate, Rates, Settle, Timestamp,
};
use sluicegate_store::script::{self, Call, NodeId, PushNumber, ScriptAnswer};

use super::random::Random;
use super::redis::{RedisModel, Reply, TextEdit};
use super::world::lock;

/// The time of the script lies in a key, so that both servers have the same.
const CLOCK: TextEdit = TextEdit {
    from: "local clock = redis.call('TIME')",
    to: "local clock = redis.call('HMGET', 'clock', 's', 'u')",
};

/// The longest wait for a server that starts or answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running redis-server; its folder is removed with it.
struct RealServer {
    process: Child,
    connection: BufReader<UnixStream>,
    folder: std::path::PathBuf,
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl RealServer {
    /// Starts a server; `None` where there is none on this machine.
    fn start() -> Option<Self> {
        let program = std::env::var("SLUICEGATE_TEST_REDIS");
        let program = program.unwrap_or_else(|_| "redis-server".to_owned());
        let folder = format!("sluicegate-simulation-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let socket = folder.join("redis.sock");
        let process = Command::new(program)
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(&socket)
            .arg("--dir")
            .arg(&folder)
            .stdout(Stdio::null())
            .spawn();
        let Ok(process) = process else {
            assert!(std::env::var_os("CI").is_none(), "no redis-server");
            eprintln!("no redis-server: the model is not compared with one");
            return None;
        };
        let deadline = Instant::now() + PATIENCE;
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < deadline, "no redis-server: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let connection = BufReader::new(stream);
        Some(Self {
            process,
            connection,
            folder,
        })
    }

    fn execute(&mut self, words: &[Vec<u8>]) -> Reply {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.connection
            .get_mut()
            .write_all(&bytes)
            .expect("a write");
        self.reply()
    }

    fn reply(&mut self) -> Reply {
        let mut line = Vec::new();
        self.connection
            .read_until(b'\n', &mut line)
            .expect("a reply");
        let text = String::from_utf8_lossy(&line[1..]).trim_end().to_owned();
        match (line[0], text.parse::<i64>()) {
            (b'+', _) => Reply::Status(text),
            (b'-', _) => Reply::Error(text),
            (b':', Ok(number)) => Reply::Integer(number),
            (b'$' | b'*', Ok(-1)) => Reply::Nil,
            (b'$', Ok(length)) => {
                let mut bytes = vec![0; length as usize + 2];
                self.connection.read_exact(&mut bytes).expect("a reply");
                bytes.truncate(length as usize);
                Reply::Bulk(bytes)
            }
            (b'*', Ok(length)) => Reply::Array((0..length).map(|_| self.reply()).collect()),
            _ => panic!("no reply: {text}"),
        }
    }
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

fn policy(random: &mut Random) -> Policy {
    let mut rate = || {
        let period = Period::from_secs(random.pick(&[1, 2, 10, 60])).expect("a period");
        Rate::new(random.between(1, 9) as u32, period).expect("a rate")
    };
    let rates = Rates::new([rate()]).expect("one rate");
    let algorithm = random.pick(&[
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow(Alignment::Epoch),
        Algorithm::FixedWindow(Alignment::FirstRequest),
        Algorithm::Gcra { burst: None },
        Algorithm::Exact,
    ]);
    Policy::new(algorithm, rates).expect("a policy")
}

/// What gateways know of one fleet of keys: the policies of limits, and the charges that may still be settled.
struct Caller {
    policies: Vec<Policy>,
    charges: Vec<StoreCharge>,
}

/// A call of the script with the asks that its answer is about.
struct AskedCall {
    call: Call,
    limits: Vec<usize>,
    names: Vec<KeyName>,
    cost: Cost,
}

impl Caller {
    /// Returns a call of the script, as gateways make them, at `now`.
    fn call(&mut self, random: &mut Random, now: Timestamp) -> AskedCall {
        let number = random.between(1, 2) as usize;
        let key = KeyHash::from_bits(random.between(1, 2));
        let policies = &self.policies;
        let first = random.between(0, policies.len() as u64 - 1) as usize;
        let limits = (0..number).map(|at| (first + at) % policies.len());
        let limits: Vec<usize> = limits.collect();
        let name = |limit: &usize| KeyName::new("p", key, &format!("l{limit}"));
        let names: Vec<KeyName> = limits.iter().map(name).collect();
        let cost = Cost::new(random.between(1, 3) as u32).expect("a cost");
        let asks = asks(policies, &limits, &names, cost);
        let call = match random.between(0, 11) {
            0..5 => script::decide(&asks, now),
            5 => script::peek(&asks, now),
            6 | 7 => {
                let number = PushNumber(random.between(1, 6));
                script::push(&asks[0], NodeId(random.between(1, 3)), number, now)
            }
            8 => script::charge_unchecked(&asks[0], now),
            9 if random.one_in(4) => script::forget(&names[0]),
            10 if !self.charges.is_empty() => {
                let charge = self.charges.swap_remove(0);
                let settle = random.pick(&[Settle::Refund, Settle::Adjust(Cost::ONE)]);
                let call = script::settle(&charge, settle, now);
                call.unwrap_or_else(|| script::peek(&asks, now))
            }
            11 if !self.charges.is_empty() => {
                let charge = self.charges.swap_remove(0);
                script::restore(&charge.ask(), charge.left(), now)
            }
            _ => script::decide(&asks[..1], now),
        };
        AskedCall {
            call,
            limits,
            names,
            cost,
        }
    }

    /// Keeps the charges of an answer.
    fn read(&mut self, asked: &AskedCall, reply: &Reply) {
        if asked.call.args[0] != b"decide" || asked.call.keys.is_empty() {
            return;
        }
        let asks = asks(&self.policies, &asked.limits, &asked.names, asked.cost);
        let Ok(ScriptAnswer::Decided(answer)) = script::read(&asks, link_reply(reply)) else {
            return;
        };
        let charges = answer
            .results
            .into_iter()
            .filter_map(|result| result.charge);
        self.charges.extend(charges);
    }
}

fn asks<'a>(
    policies: &'a [Policy],
    limits: &[usize],
    names: &'a [KeyName],
    cost: Cost,
) -> Vec<StoreAsk<'a>> {
    let named = limits.iter().zip(names);
    let asks = named.map(|(limit, name)| StoreAsk {
        policy: &policies[*limit],
        name,
        cost,
    });
    asks.collect()
}

/// Returns a reply as the link hands it over.
fn link_reply(reply: &Reply) -> script::Reply {
    match reply {
        Reply::Integer(number) => script::Reply::Integer(*number),
        Reply::Bulk(bytes) => script::Reply::Bytes(bytes.clone()),
        Reply::Array(items) => script::Reply::Rows(items.iter().map(link_reply).collect()),
        Reply::Nil | Reply::Status(_) | Reply::Error(_) => script::Reply::Nil,
    }
}

/// Returns a command as the scripts of the link use them.
fn command(random: &mut Random) -> Vec<Vec<u8>> {
    let key = random.between(1, 2);
    let item = random.between(1, 4);
    let number = random.between(0, 5) as i64 - 2;
    let text = random.pick(&[
        "HSET h{k} f{i} {n}",
        "HDEL h{k} f{i}",
        "HGET h{k} f{i}",
        "HMGET h{k} f{i} f1",
        "HGETALL h{k}",
        "HVALS h{k}",
        "HLEN h{k}",
        "ZADD z{k} {i} m{n}",
        "ZREVRANGE z{k} 0 {n} WITHSCORES",
        "ZREMRANGEBYSCORE z{k} -inf ({i}",
        "ZCARD z{k}",
        "LPUSH l{k} {i}",
        "RPUSH l{k} {i}",
        "LTRIM l{k} 0 {i}",
        "LREM l{k} 1 {i}",
        "LINDEX l{k} {n}",
        "LRANGE l{k} {n} {i}",
        "LLEN l{k}",
        "SET s{k} {i} NX",
        "SET s{k} {n}",
        "GET s{k}",
        "DEL s{k} h{k}",
        "PTTL s{k}",
        "GET h{k}",
        "LPUSH h{k} 1",
    ]);
    let text = text.replace("{k}", &key.to_string());
    let text = text.replace("{i}", &item.to_string());
    words(&text.replace("{n}", &number.to_string()))
}

fn eval(call: &Call, text: &str) -> Vec<Vec<u8>> {
    let mut words = words("EVAL");
    words.push(text.as_bytes().to_vec());
    words.push(call.keys.len().to_string().into_bytes());
    words.extend(call.keys.iter().chain(&call.args).cloned());
    words
}

/// Goal: what holds before the model holds before Redis. Method: the same random commands and calls, by one clock, to both: all replies,
/// and in the end all keys with their times to live.
#[test]
fn the_model_answers_as_redis_does() {
    let Some(mut server) = RealServer::start() else {
        return;
    };
    let text = script::TEXT.replace(CLOCK.from, CLOCK.to);
    assert_ne!(text, script::TEXT);
    for seed in 0..40 {
        let mut random = Random::new(seed, 9);
        let mut model = RedisModel::default();
        server.execute(&words("FLUSHALL"));
        let began = Instant::now();
        let mut caller = Caller {
            policies: (0..4).map(|_| policy(&mut random)).collect(),
            charges: Vec::new(),
        };
        let mut nanos = 1_800_000_000_000_000_000;
        for step in 0..150 {
            let mut asked = None;
            let command = match random.one_in(3) {
                true => command(&mut random),
                false => {
                    nanos += random.between(0, 700_000) * 1_000;
                    let micros = nanos / 1_000;
                    let [seconds, micros] = [micros / 1_000_000, micros % 1_000_000];
                    let clock = format!("HSET clock s {seconds} u {micros}");
                    server.execute(&words(&clock));
                    model.execute(&words(&clock), 0);
                    let call = caller.call(&mut random, Timestamp::from_nanos(nanos));
                    let command = eval(&call.call, &text);
                    asked = Some(call);
                    command
                }
            };
            let real = server.execute(&command);
            let modelled = model.execute(&command, began.elapsed().as_micros() as u64);
            if let (Reply::Error(_), Reply::Error(_)) = (&real, &modelled) {
                continue;
            }
            let mode = command.get(4);
            assert_eq!(modelled, real, "seed {seed}, step {step}: {mode:?}");
            if let Some(asked) = asked {
                caller.read(&asked, &real);
            }
        }
        let Reply::Array(keys) = server.execute(&words("KEYS *")) else {
            panic!("no keys");
        };
        assert_eq!(keys.len(), lock(&model.keys).len(), "seed {seed}");
        for key in keys {
            let Reply::Bulk(key) = key else { continue };
            let now = began.elapsed().as_micros() as u64;
            for read in ["HGETALL", "LRANGE", "PTTL"] {
                let mut command = vec![read.as_bytes().to_vec(), key.clone()];
                if read == "LRANGE" {
                    command.extend(words("0 -1"));
                }
                let real = server.execute(&command);
                match (model.execute(&command, now), real) {
                    (Reply::Integer(modelled), Reply::Integer(real)) => {
                        assert!(modelled.abs_diff(real) < 200, "{modelled} {real}");
                    }
                    (Reply::Error(_), Reply::Error(_)) => {}
                    (modelled, real) => assert_eq!(modelled, real, "seed {seed}, {read}"),
                }
            }
        }
    }
}

/// Goal: what an edit takes over from another field lives as long as it counts. Method: a rate of a second, then one of a minute.
#[test]
fn a_key_lives_as_long_as_the_rate_of_an_edit_counts() {
    let name = KeyName::new("p", KeyHash::from_bits(1), "l");
    let mut model = RedisModel::default();
    let micros = 1_800_000_030_000_000;
    for seconds in [1, 60] {
        let period = Period::from_secs(seconds).expect("a period");
        let rate = Rate::new(5, period).expect("a rate");
        let rates = Rates::new([rate]).expect("one rate");
        let policy = Policy::new(Algorithm::SlidingWindow, rates).expect("a policy");
        let ask = StoreAsk {
            policy: &policy,
            name: &name,
            cost: Cost::ONE,
        };
        let call = script::decide(&[ask], Timestamp::from_nanos(micros * 1_000));
        model.execute(&eval(&call, script::TEXT), micros);
    }
    let lives = model.execute(&words(&format!("PTTL {}", name.as_str())), micros);
    assert_eq!(lives, Reply::Integer(91_000));
}
