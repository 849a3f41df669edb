//! The load generator of `fleet.sh`: requests at a steady pace, in bursts, or as fast as they are answered, spread over several gateways.
//!
//! wrk sends as fast as it can and tells nothing of single clients. Here every request has its moment, latency counts from that
//! moment (so a stalled gateway cannot hide the requests that it kept from being sent), and what each client got is known:
//! `peak` is the most that one client was admitted in any window of so many seconds.
//!
//! `paced --to ADDRESS[,ADDRESS…] [--path PATH] [--seconds N] [--connections N] [--rate N [--burst MILLIS]] [--clients N] [--window N]
//! [--network N] [--deadline MILLIS]`
//!
//! Without `--rate` every connection sends its next request when the last one is answered. With `--burst` each second's
//! requests are sent in its first so many milliseconds. Clients are told apart by `X-Forwarded-For`; with `--network` each has a /24 of its
//! own, and N is its first number. `in_time` counts what was admitted within `--deadline` of its moment.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// What is sent.
#[derive(Clone)]
struct Load {
    to: Vec<SocketAddr>,
    path: String,
    seconds: u64,
    connections: u64,
    /// Requests a second over all connections; `None` is as fast as they are answered.
    rate: Option<u64>,
    /// Milliseconds of each second in which its requests are sent.
    burst: u64,
    clients: u64,
    /// Seconds of the window that `peak` looks at.
    window: u64,
    /// The first number of the clients' addresses.
    network: Option<u8>,
    /// Microseconds after its moment in which an answer is of use.
    deadline: u64,
}

/// What one connection saw.
#[derive(Default)]
struct Seen {
    /// From the moment that a request was due to the end of its answer, in microseconds.
    latencies: Vec<u64>,
    /// Client and moment of what was admitted, in microseconds since the start.
    admitted: Vec<(u64, u64)>,
    refused: u64,
    in_time: u64,
    /// Answers that are neither, and requests without one.
    other: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let load = Load::from_arguments(env::args().skip(1))?;
    let start = Instant::now() + Duration::from_millis(50);
    let workers: Vec<_> = (0..load.connections)
        .map(|number| {
            let load = load.clone();
            thread::spawn(move || load.send(number, start))
        })
        .collect();
    let mut all = Seen::default();
    for worker in workers {
        let seen = worker
            .join()
            .map_err(|_| "a connection's thread panicked")?;
        all.latencies.extend(seen.latencies);
        all.admitted.extend(seen.admitted);
        all.refused += seen.refused;
        all.in_time += seen.in_time;
        all.other += seen.other;
    }
    all.latencies.sort_unstable();
    let at = |share: usize| {
        let index = (all.latencies.len() * share / 1000).min(all.latencies.len().saturating_sub(1));
        all.latencies.get(index).copied().unwrap_or(0)
    };
    let report = format!(
        "sent {} admitted {} refused {} other {} p50_us {} p99_us {} max_us {} peak {} in_time {}\n",
        all.latencies.len() as u64 + all.other,
        all.admitted.len(),
        all.refused,
        all.other,
        at(500),
        at(990),
        at(1000),
        peak(all.admitted, load.window * 1_000_000),
        all.in_time,
    );
    std::io::stdout().write_all(report.as_bytes())?;
    Ok(())
}

impl Load {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut load = Self {
            to: Vec::new(),
            path: "/".to_owned(),
            seconds: 10,
            connections: 12,
            rate: None,
            burst: 1000,
            clients: 1,
            window: 10,
            network: None,
            deadline: u64::MAX,
        };
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--to" => {
                    let addresses = value.split(',').map(str::parse);
                    load.to = addresses.collect::<Result<_, _>>()?;
                }
                "--path" => load.path = value,
                "--seconds" => load.seconds = value.parse()?,
                "--connections" => load.connections = value.parse()?,
                "--rate" => load.rate = Some(value.parse()?),
                "--burst" => load.burst = value.parse()?,
                "--clients" => load.clients = value.parse()?,
                "--window" => load.window = value.parse()?,
                "--network" => load.network = Some(value.parse()?),
                "--deadline" => load.deadline = value.parse::<u64>()? * 1_000,
                _ => return Err(format!("{name} is not known").into()),
            }
        }
        let counts = [load.seconds, load.connections, load.clients, load.window];
        if load.to.is_empty() || counts.contains(&0) || load.rate == Some(0) {
            return Err("--to is needed, and no number may be 0".into());
        }
        Ok(load)
    }

    /// When request `number` is due, from the start; `None` when the time is over.
    fn due(&self, number: u64, elapsed: Duration) -> Option<Duration> {
        let due = match self.rate {
            None => elapsed,
            Some(rate) => {
                let within = self.burst * 1_000 * (number % rate) / rate;
                Duration::from_micros(number / rate * 1_000_000 + within)
            }
        };
        (due < Duration::from_secs(self.seconds)).then_some(due)
    }

    /// Sends the requests of connection `number`: each of as many as there are connections.
    fn send(&self, number: u64, start: Instant) -> Seen {
        let mut seen = Seen::default();
        let mut connection = None;
        let address = self.to[(number % self.to.len() as u64) as usize];
        let mut request = number;
        thread::sleep(start.saturating_duration_since(Instant::now()));
        while let Some(due) = self.due(request, start.elapsed()) {
            thread::sleep(due.saturating_sub(start.elapsed()));
            // Clients in blocks of connections, so that each of them meets every gateway.
            let client = request / self.connections % self.clients;
            match self.ask(&mut connection, address, client) {
                Ok(status) => {
                    let now = start.elapsed();
                    let latency = micros(now.saturating_sub(due));
                    seen.latencies.push(latency);
                    match status {
                        200..=299 => {
                            seen.admitted.push((client, micros(now)));
                            seen.in_time += u64::from(latency <= self.deadline);
                        }
                        429 => seen.refused += 1,
                        _ => seen.other += 1,
                    }
                }
                Err(_) => {
                    connection = None;
                    seen.other += 1;
                }
            }
            request += self.connections;
        }
        seen
    }

    /// Asks once and returns the status.
    fn ask(
        &self,
        connection: &mut Option<BufReader<TcpStream>>,
        address: SocketAddr,
        client: u64,
    ) -> std::io::Result<u16> {
        let stream = match connection {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(Duration::from_secs(5)))?;
                connection.insert(BufReader::new(stream))
            }
        };
        let [.., high, middle, low] = client.to_be_bytes();
        let address = match self.network {
            Some(network) => format!("{network}.{middle}.{low}.1"),
            None => format!("10.{high}.{middle}.{low}"),
        };
        let request = format!(
            "GET {} HTTP/1.1\r\nhost: fleet.test\r\nx-forwarded-for: {address}\r\n\r\n",
            self.path,
        );
        stream.get_mut().write_all(request.as_bytes())?;
        read_answer(stream)
    }
}

/// Reads an answer to its end and returns its status.
fn read_answer(stream: &mut BufReader<TcpStream>) -> std::io::Result<u16> {
    let malformed = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .ok_or_else(malformed)?;
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| malformed())?;
        }
    }
    std::io::copy(&mut stream.take(length), &mut std::io::sink())?;
    Ok(status)
}

/// The most that one client was admitted in any window of so many microseconds.
fn peak(mut admitted: Vec<(u64, u64)>, window: u64) -> usize {
    admitted.sort_unstable();
    let mut by_client: HashMap<u64, Vec<u64>> = HashMap::new();
    for (client, moment) in admitted {
        by_client.entry(client).or_default().push(moment);
    }
    let busiest = |moments: &Vec<u64>| {
        let windows = moments.iter().enumerate().map(|(first, begin)| {
            moments.partition_point(|moment| *moment < begin + window) - first
        });
        windows.max().unwrap_or(0)
    };
    by_client.values().map(busiest).max().unwrap_or(0)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
