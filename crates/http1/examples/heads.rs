//! Measures how long a head takes to parse, beside `httparse` on the same bytes: `cargo run --release -p sluicegate-http1 --example heads`.
//!
//! Both judge names and values; this crate also finds the framing and the host, and checks the target. Quote the ratio, not the times.
#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use std::hint::black_box;
use std::time::Instant;

use sluicegate_http1::{HeadLimits, HeadProgress, RequestHead};

const LIMITS: HeadLimits = HeadLimits {
    bytes: 16 * 1024,
    fields: 100,
    target: 8 * 1024,
};

/// Heads that a turn parses.
const HEADS: u32 = 200_000;

/// What `wrk` sends, and what a browser sends.
const CASES: [(&str, &[u8]); 2] = [
    ("three fields", b"GET /auth/sendOTP HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: */*\r\nX-Key: 0123456789\r\n\r\n"),
    (
        "browser",
        b"GET /assets/app.3f2a1b.js?v=17 HTTP/1.1\r\nHost: www.example.com\r\nConnection: keep-alive\r\n\
          User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n\
          Accept: */*\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: script\r\n\
          Referer: https://www.example.com/\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
          Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=1\r\nIf-None-Match: \"3f2a1b-17\"\r\n\r\n",
    ),
];

/// Returns the nanoseconds of one call, the best of five turns.
fn nanoseconds(mut parse: impl FnMut()) -> f64 {
    let turns = (0..5).map(|_| {
        let begin = Instant::now();
        (0..HEADS).for_each(|_| parse());
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(HEADS)
    });
    turns.fold(f64::INFINITY, f64::min)
}

fn main() {
    for (name, read) in CASES {
        let mut head = RequestHead::new();
        let ours = nanoseconds(|| {
            head.clear();
            let parsed = head.parse(black_box(read), &LIMITS);
            assert_eq!(parsed, Ok(HeadProgress::Whole(read.len())));
        });
        let theirs = nanoseconds(|| {
            let mut fields = [httparse::EMPTY_HEADER; 64];
            let mut request = httparse::Request::new(&mut fields);
            assert!(request.parse(black_box(read)).is_ok());
            black_box(&request);
        });
        println!(
            "{name}: {ours:.0} ns, httparse {theirs:.0} ns, ratio {:.2}",
            ours / theirs
        );
    }
}
