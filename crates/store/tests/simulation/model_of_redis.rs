//! Compares the model of Redis with a real server, over random commands and random calls of the script.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluicegate_decide::store::{KeyName, StoreAsk, StoreCharge};
use sluicegate_limiter::{
    Algorithm, Alignment, Cost, KeyHash, Period, Policy, Rate, Rates, Settle, Timestamp,
};
use sluicegate_store::script::{self, Call, NodeId, PushNumber, ScriptAnswer};

use super::random::Random;
use super::redis::{RedisModel, Reply, ServerCondition, TextEdit};
use super::world::lock;

/// The time of the script lies in a key, so that both servers have the same.
const CLOCK: TextEdit = TextEdit {
    from: "local clock = redis.call('TIME')",
    to: "local clock = redis.call('HMGET', 'clock', 's', 'u')",
};

/// The longest wait for a server that starts or answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// The servers that this process has started.
static STARTED: AtomicU64 = AtomicU64::new(0);

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
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = format!("sluicegate-simulation-{}-{number}", std::process::id());
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

/// Returns the call that runs all of these, as the link makes it.
fn batch(calls: &[AskedCall]) -> Call {
    let number = |number: usize| number.to_string().into_bytes();
    let words = calls.iter().flat_map(|AskedCall { call, .. }| {
        let counts = [number(call.keys.len()), number(call.args.len())];
        counts.into_iter().chain(call.args.clone())
    });
    let begin = [b"batch".to_vec(), number(calls.len())];
    Call {
        args: begin.into_iter().chain(words).collect(),
        keys: calls
            .iter()
            .flat_map(|asked| asked.call.keys.clone())
            .collect(),
    }
}

/// Goal: calls that share a run of the script answer and write as they would alone. Method: the same random calls in batches and one by
/// one, with keys of another type, of an epoch that has passed, and of a server that refuses writes; to the model and, in batches, to a
/// real server.
#[test]
fn a_batch_does_what_its_calls_would_do_alone() {
    let text = script::TEXT.replace(CLOCK.from, CLOCK.to);
    let mut server = RealServer::start();
    for seed in 0..60 {
        let mut random = Random::new(seed, 10);
        let [mut together, mut alone] = [RedisModel::default(), RedisModel::default()];
        let mut caller = Caller {
            policies: (0..4).map(|_| policy(&mut random)).collect(),
            charges: Vec::new(),
        };
        let mut nanos = 1_800_000_000_000_000_000;
        let mut prepare = vec![words("FLUSHALL"), words("SET marker one")];
        for _ in 0..40 {
            nanos += random.between(0, 700_000) * 1_000;
            let micros = nanos / 1_000;
            let [seconds, micros] = [micros / 1_000_000, micros % 1_000_000];
            prepare.push(words(&format!("HSET clock s {seconds} u {micros}")));
            if random.one_in(20) {
                let key = KeyName::new("p", KeyHash::from_bits(1), "l1");
                prepare.push(words(&format!("DEL {}", key.as_str())));
                prepare.push(words(&format!("SET {} foreign", key.as_str())));
            }
            for command in prepare.drain(..) {
                together.execute(&command, 0);
                alone.execute(&command, 0);
                server.iter_mut().for_each(|server| {
                    server.execute(&command);
                });
            }
            let refuses = random.one_in(10);
            let condition = match refuses {
                true => ServerCondition::ReadOnly,
                false => ServerCondition::Serving,
            };
            together.condition = condition;
            alone.condition = condition;
            let now = Timestamp::from_nanos(nanos);
            let mut calls: Vec<_> = (0..random.between(2, 6))
                .map(|_| caller.call(&mut random, now))
                .collect();
            for asked in &mut calls {
                if random.one_in(3) {
                    let epoch = random.pick(&["one", "one", "two"]);
                    asked.call = script::guarded(asked.call.clone(), b"marker".to_vec(), epoch);
                }
            }
            let one_by_one = calls.iter().enumerate().map(|(place, asked)| {
                alone.free_at = 0;
                let mut reply = alone.execute(&eval(&asked.call, &text), 0);
                // Each answer of a batch is later than the one before.
                if let Reply::Array(numbers) = &mut reply
                    && let Some(Reply::Integer(micros)) = numbers.get_mut(2)
                {
                    *micros += place as i64;
                }
                reply
            });
            let one_by_one: Vec<Reply> = one_by_one.collect();
            let batch = eval(&batch(&calls), &text);
            together.free_at = 0;
            let replies = together.execute(&batch, 0);
            assert_eq!(replies, Reply::Array(one_by_one.clone()), "seed {seed}");
            if !refuses && let Some(server) = &mut server {
                assert_eq!(server.execute(&batch), replies, "seed {seed}");
            }
            for (asked, reply) in calls.iter().zip(&one_by_one) {
                caller.read(asked, reply);
            }
        }
        assert_eq!(*lock(&together.keys), *lock(&alone.keys), "seed {seed}");
    }
}

/// Goal: a call that the server refuses says why, alone and in a batch, so that the link knows what to do. Method: a server without memory,
/// then one that is a replica, real and modelled.
#[test]
fn a_refused_call_says_the_code_of_its_reason() {
    let mut server = RealServer::start();
    let mut random = Random::new(1, 11);
    let policy = policy(&mut random);
    let name = KeyName::new("p", KeyHash::from_bits(1), "l");
    let ask = StoreAsk {
        policy: &policy,
        name: &name,
        cost: Cost::ONE,
    };
    let call = script::decide(&[ask], Timestamp::from_nanos(1_800_000_000_000_000_000));
    let asked = || AskedCall {
        call: call.clone(),
        limits: vec![0],
        names: vec![name.clone()],
        cost: Cost::ONE,
    };
    let alone = eval(&call, script::TEXT);
    let together = eval(&batch(&[asked(), asked()]), script::TEXT);
    for (code, condition, begin, end) in [
        (
            "OOM ",
            ServerCondition::OutOfMemory,
            "CONFIG SET maxmemory 1",
            "CONFIG SET maxmemory 0",
        ),
        (
            "READONLY ",
            ServerCondition::ReadOnly,
            "REPLICAOF 127.0.0.1 1",
            "REPLICAOF NO ONE",
        ),
    ] {
        // Before Redis 7 the place in the script comes first.
        let earlier = format!("-{code}");
        let refuses = |reply: &Reply| match reply {
            Reply::Error(text) => text.starts_with(code) || text.contains(&earlier),
            _ => false,
        };
        let check = |alone: Reply, together: Reply| {
            assert!(refuses(&alone), "{alone:?}");
            assert!(
                matches!(&together, Reply::Array(all) if all.len() == 2 && all.iter().all(refuses)),
                "{together:?}"
            );
        };
        let mut model = RedisModel {
            condition,
            ..RedisModel::default()
        };
        check(model.execute(&alone, 0), model.execute(&together, 0));
        if let Some(server) = &mut server {
            server.execute(&words(begin));
            check(server.execute(&alone), server.execute(&together));
            server.execute(&words(end));
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
