//! Memory: taken as keys use it, added up for the operator, and compared with what the machine has.

use std::fmt::Write;
use std::fs;

use tempfile::TempDir;

use crate::harness::frames::{END_STREAM, HEADERS, SETTINGS, frame, get as get_block};
use crate::harness::*;

const LIMITS: u64 = 1_001;

/// A configuration with so many limits of the default capacity, and a route for each.
fn many_limits() -> String {
    (0..LIMITS).fold(String::new(), |mut rules, number| {
        write!(
            rules,
            "[limit.l{number}]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]\n\
             [[route]]\npath = \"/{number}\"\nlimits = [\"l{number}\"]\nrespond = {{ status = 200 }}\n"
        )
        .unwrap();
        rules
    })
}

#[tokio::test]
async fn a_thousand_limits_take_memory_as_keys_use_it() {
    // Goal: unused limits cost next to nothing, and the sum is logged. Method: 1,001 limits of the default capacity, whose tables
    // would take 9 GB; a client is counted by each of the first hundred.
    let gateway = Gateway::start(&many_limits()).await;
    for number in 0..100 {
        assert_eq!(
            gateway
                .get(&format!("/{number}"))
                .await
                .remaining(&format!("l{number}")),
            4
        );
    }
    let status = gateway.status().await;
    let planned = status["memory"]["limits"].as_u64().unwrap();
    assert!(planned > LIMITS * (7 << 20), "{planned}");
    let resident = gateway.resident_bytes();
    assert!(resident < planned / 20, "{resident} of {planned}");
    let start = gateway.stderr();
    let told = start.lines().find(|line| line.contains("memory: at most"));
    let told = told.unwrap_or_else(|| panic!("no line of memory: {start}"));
    assert!(told.contains("8.9 GB for limits"), "{told}");
}

#[tokio::test]
async fn check_warns_of_more_memory_than_the_machine_has() {
    // Goal: a capacity beyond the memory causes a warning. Method: 26 limits for a thousand million keys each.
    let limit = |name: &str| {
        format!(
            "[limit.{name}]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]\ncapacity = 1073741824\n"
        )
    };
    let limits: String = ('a'..='z').map(|name| limit(&name.to_string())).collect();
    let rest = "[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/\"\nlimits = [\"a\"]\nrespond = { status = 200 }\n";
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("gateway.toml");
    fs::write(&path, format!("{limits}{rest}")).unwrap();
    let mut process = Process::run(&["check", path.to_str().unwrap()]);
    assert_eq!(process.exit_code().await, 0);
    let told = process.stderr();
    assert!(
        told.contains("the configuration may take") && told.contains("lower the `capacity`"),
        "{told}"
    );
}

#[tokio::test]
async fn what_clients_hold_back_is_charged_as_it_is_held() {
    // Goal: the budgets of what clients send and the gateway holds count what is resident. Method: 200 connections each with most of a
    // head, most of a body that a key needs, most of a body that is kept for a retry, a block of fields without its end, and a whole head
    // whose origin hangs; resident memory grows by no more than is charged and 56 KiB a connection for its state, which is large where
    // nothing is optimized.
    const CONNECTIONS: u32 = 200;
    let long = "x".repeat(700);
    let fields: String = (0..40)
        .map(|number| format!("a{number}: {long}\r\n"))
        .collect();
    let head = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}");
    let json = "POST /key HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\n";
    let key = format!(
        "{json}Content-Length: 16000\r\n\r\n{{\"a\":\"{}",
        "q".repeat(15_900)
    );
    let put = "PUT / HTTP/1.1\r\nHost: a.test\r\n";
    let replay = format!("{put}Content-Length: 65000\r\n\r\n{}", "r".repeat(64_000));
    let field = [b'v'; 15_000];
    let mut block = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    block.extend(frame(SETTINGS, 0, 0, &[]));
    let opened = get_block(b"/", &[(b"x-a", &field)]);
    block.extend(frame(HEADERS, END_STREAM, 1, &opened));
    let origin = Origin::answering(|_| Reply::Hang);
    let rules = "[limit.account]\nkey = \"body.json.a\"\nrates = [\"5 per 1h\"]\non_missing = \"skip\"\n\
        [[route]]\npath = \"/key\"\nlimits = [\"account\"]\norigin = \"app\"\n\
        [[route]]\npath = \"/*\"\norigin = \"app\"\n";
    for (sent, gauge) in [
        (
            format!("{head}\r\n").into_bytes(),
            "sluicegate_received_bytes",
        ),
        (head.into_bytes(), "sluicegate_received_bytes"),
        (key.into_bytes(), "sluicegate_key_body_bytes"),
        (replay.into_bytes(), "sluicegate_replay_bytes"),
        (block, "sluicegate_received_bytes"),
    ] {
        let gateway = Gateway::before(&origin, rules).await;
        // The first of a kind brings pages of code and of tables.
        let mut held = Vec::new();
        let mut open = async |count: u32| {
            for _ in 0..count {
                let mut raw = RawConnection::connect(gateway.address()).await;
                raw.write(&sent).await;
                held.push(raw);
            }
        };
        open(8).await;
        let charged = async || gateway.metrics().await.sum(gauge, &[]);
        let first = settled(charged).await;
        let before = gateway.anonymous_bytes();
        open(CONNECTIONS).await;
        let grown_charge = f64::from(CONNECTIONS) / 8.0 * first;
        eventually("all is charged", async || {
            (charged().await >= first + grown_charge).then_some(())
        })
        .await;
        let grown = gateway.anonymous_bytes().saturating_sub(before) as f64;
        let states = f64::from(CONNECTIONS) * 56.0 * 1024.0;
        assert!(
            grown <= grown_charge + states,
            "{gauge}: {grown} resident, {grown_charge} charged"
        );
    }
}
