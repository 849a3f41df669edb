//! Reads messages with llhttp: Node's own server and client, over connections that exist in its memory alone.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{ReadEnd, ReadMessage, Reading};

/// The bytes of one connection, for the script.
pub(super) struct Sent(String);

impl Sent {
    /// Requests, in reads of at most `step` bytes.
    pub(super) fn requests(bytes: &[u8], step: usize) -> Self {
        Self(format!("request {step} {}\n", STANDARD.encode(bytes)))
    }

    /// A response.
    pub(super) fn response(bytes: &[u8], step: usize, is_head: bool) -> Self {
        let method = if is_head { "HEAD" } else { "GET" };
        Self(format!("{method} {step} {}\n", STANDARD.encode(bytes)))
    }
}

/// Returns how Node reads each of these connections.
pub(super) fn read_by_llhttp(connections: Vec<Sent>) -> Vec<Reading> {
    let mut node = Command::new("node")
        .args(["-e", include_str!("llhttp.js")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node does not start; `./dev test` installs it");
    let (mut input, output) = (node.stdin.take().unwrap(), node.stdout.take().unwrap());
    let expected = connections.len();
    let writing = thread::spawn(move || {
        for connection in connections {
            input.write_all(connection.0.as_bytes()).unwrap();
        }
    });
    let lines = BufReader::new(output).lines();
    let readings: Vec<_> = lines
        .map(|line| reading(&serde_json::from_str(&line.unwrap()).unwrap()))
        .collect();
    writing.join().unwrap();
    assert!(node.wait().unwrap().success());
    assert_eq!(readings.len(), expected);
    readings
}

fn reading(line: &Value) -> Reading {
    let read = line["messages"].as_array().unwrap();
    let is_whole = |message: &&Value| message["whole"] == true;
    let messages: Vec<_> = read.iter().take_while(is_whole).map(message).collect();
    let end = if !line["error"].is_null() {
        ReadEnd::Closed
    } else if messages.len() < read.len() {
        ReadEnd::Partial
    } else {
        // Of bytes behind the last message it does not tell whether they begin another one.
        ReadEnd::Over
    };
    Reading { messages, end }
}

fn message(read: &Value) -> ReadMessage {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let start = match read["status"].as_u64() {
        Some(0) | None => format!("{} {}", text(&read["method"]), text(&read["target"])),
        Some(status) => status.to_string(),
    };
    let pairs = read["fields"].as_array().unwrap().chunks(2);
    let fields = pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
    let data = STANDARD.decode(text(&read["data"])).unwrap();
    ReadMessage::new(start, fields, data)
}
