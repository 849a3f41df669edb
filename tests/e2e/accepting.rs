//! Connections on their way in: one thread has each, and those that cannot be accepted are not lost.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::harness::*;

const RULES: &str = "[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n";

#[tokio::test]
async fn a_request_is_served_by_the_thread_that_waits_for_it() {
    // Goal: with several threads a connection is read by the one that serves it. Method: the kernel counts calls; where another thread
    // waits for the bytes, it wakes the first one by a write, for three of four connections here.
    let rules = format!("[server]\nthreads = 4\n{RULES}");
    let gateway = Setup::new().rules(&rules).start().await;
    let mut clients = Vec::new();
    for _ in 0..16 {
        let mut client = gateway.client().await;
        client.get("/").await;
        clients.push(client);
    }
    let before = gateway.wakes();
    for _ in 0..25 {
        for client in &mut clients {
            assert_eq!(client.get("/").await.status, 200);
        }
    }
    let wakes = gateway.wakes().saturating_sub(before);
    assert!(wakes < 100, "{wakes} for 400 requests");
}

#[tokio::test]
async fn a_connection_waits_while_there_is_no_descriptor_for_it() {
    // Goal: where the process may open no more files, a connection stays in the queue, the lack has a line and a count, and the thread does
    // not try all the time. Method: the limit is lowered to nothing while a client connects, and raised again.
    let gateway = Setup::new().rules(RULES).start().await;
    let process = Pid::from_raw(gateway.id().into());
    let set = |current| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current, maximum };
        prlimit(process, Resource::Nofile, limit).unwrap()
    };
    assert_eq!(gateway.get("/").await.status, 200);
    let begun = Instant::now();
    let usual = set(Some(0));
    let mut client = gateway.client().await;
    let answer = tokio::spawn(async move { client.get("/").await.status });
    eventually("the lack is logged", async || {
        let line = "a connection cannot be accepted: Too many open files (os error 24)";
        gateway.stderr().contains(line).then_some(())
    })
    .await;
    assert!(!answer.is_finished());
    set(usual.current);
    assert_eq!(answer.await.unwrap(), 200);
    let metrics = gateway.metrics().await;
    let labels = [("reason", "descriptors")];
    let tries = metrics.sum("sluicegate_accept_errors_total", &labels);
    let most = begun.elapsed().as_secs_f64() / Duration::from_millis(100).as_secs_f64();
    assert!((1.0..=most + 1.0).contains(&tries), "{tries} of {most}");
}
