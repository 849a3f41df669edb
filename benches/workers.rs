//! The origin of `overload.sh`: a server that works on so many requests at a time, each for so long, and queues all others.
//!
//! It sleeps instead of working, so that what it can do is exact and does not depend on who else uses the machine.
//!
//! `workers --listen ADDRESS [--workers N] [--millis N]`

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The times at which the workers are free, the earliest first.
type Workers = Mutex<BinaryHeap<Reverse<Instant>>>;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut listen, mut workers, mut millis) = (None, 20, 50);
    let mut arguments = env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--listen" => listen = Some(value),
            "--workers" => workers = value.parse()?,
            "--millis" => millis = value.parse()?,
            _ => return Err(format!("{name} is not known").into()),
        }
    }
    let listener = TcpListener::bind(listen.ok_or("--listen is needed")?)?;
    let free = (0..workers).map(|_| Reverse(Instant::now())).collect();
    let workers: Arc<Workers> = Arc::new(Mutex::new(free));
    let service = Duration::from_millis(millis);
    for stream in listener.incoming() {
        let (stream, workers) = (stream?, Arc::clone(&workers));
        thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn(move || serve(stream, &workers, service))?;
    }
    Ok(())
}

/// Answers the requests of a connection until it ends.
fn serve(stream: TcpStream, workers: &Workers, service: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line == "\r\n" {
            let done = take(workers, service);
            thread::sleep(done.saturating_duration_since(Instant::now()));
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.get_mut().write_all(answer)?;
        }
    }
}

/// Gives the next request to the worker that is free first; returns when it is done.
fn take(workers: &Workers, service: Duration) -> Instant {
    let mut workers = workers.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let free = workers.pop().map_or(now, |Reverse(free)| free.max(now));
    workers.push(Reverse(free + service));
    free + service
}
