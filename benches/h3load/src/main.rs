//! The load generator of `h3.sh`: GETs over HTTP/3 as fast as they are answered, over some connections with some streams at once on each.
//!
//! h2load of most systems is built without HTTP/3. Here QUIC is quinn's. Each request is the same few bytes, and each answer is read to its
//! end. Connections are open before the time starts. Each has a socket of its own, as clients have, and accepts any certificate.
//!
//! `h3load [--seconds N] [--requests N] [--connections N] [--streams N] https://ADDRESS:PORT/PATH`
//!
//! The run ends after so many seconds or requests, whichever comes first; requests that are open then are counted with their answers.

mod answer;
mod client;
mod load;
mod tally;

use std::env;
use std::error::Error;
use std::io::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use client::Client;
use load::Load;
use tally::Tally;

/// What ends a run, or a request.
type Failure = Box<dyn Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let load = Load::from_arguments(env::args().skip(1))?;
    let (tally, elapsed) = LocalSet::new().run_until(run(load)).await?;
    if let Some(failure) = &tally.first_failure {
        eprintln!("{} requests failed, the first: {failure}", tally.failures);
    }
    let report = format!("{tally}seconds {:.3}\n", elapsed.as_secs_f64());
    std::io::stdout().write_all(report.as_bytes())?;
    Ok(())
}

/// Sends the load. Returns all answers, and the time that they took.
async fn run(load: Load) -> Result<(Tally, Duration), Failure> {
    let mut clients = Vec::new();
    for _ in 0..load.connections {
        clients.push(Rc::new(Client::connect(load.server, &load.host).await?));
    }
    let start = Instant::now();
    let budget = Rc::new(load.budget(start));
    let request = client::request(&load.authority, &load.path);
    let mut tasks = Vec::new();
    for client in &clients {
        for _ in 0..load.streams {
            let client = Rc::clone(client);
            let budget = Rc::clone(&budget);
            let request = request.clone();
            tasks.push(tokio::task::spawn_local(async move {
                let mut tally = Tally::default();
                while budget.take(Instant::now()) {
                    let result = client.get(&request).await;
                    let is_over = result.is_err() && client.is_gone();
                    tally.count(result);
                    if is_over {
                        break;
                    }
                }
                tally
            }));
        }
    }
    let mut all = Tally::default();
    for task in tasks {
        all.add(task.await?);
    }
    let elapsed = start.elapsed();
    for client in clients {
        client.close().await;
    }
    Ok((all, elapsed))
}
