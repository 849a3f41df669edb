//! Decides a schedule of requests in the plainest way for each algorithm, from its definition and without the limiter's code.

use std::collections::HashMap;

/// A request: its time in milliseconds, and its client.
pub type Arrival = (u64, String);

/// Returns which requests a rate of `count` in `period` milliseconds admits. Requests are in the order of time.
pub fn admitted(algorithm: &str, count: u64, period: u64, requests: &[Arrival]) -> Vec<bool> {
    let mut clients: HashMap<&str, Vec<u64>> = HashMap::new();
    let mut due: HashMap<&str, u64> = HashMap::new();
    let mut admitted = Vec::new();
    for (now, client) in requests {
        let (now, client) = (*now, client.as_str());
        let history = clients.entry(client).or_default();
        let in_window =
            |index: u64| history.iter().filter(|at| **at / period == index).count() as u64;
        let has_room = match algorithm {
            "exact" => {
                let counted = history.iter().filter(|at| now - **at < period).count() as u64;
                counted < count
            }
            "fixed-window" => in_window(now / period) < count,
            "sliding-window" => {
                let index = now / period;
                let left = period - now % period;
                let before = index.checked_sub(1).map_or(0, in_window);
                before * left / period + in_window(index) < count
            }
            "token-bucket" | "gcra" => {
                // The bucket is full with `count` tokens, one comes every period / count.
                let interval = period / count;
                let at = due.get(client).copied().unwrap_or(0).max(now);
                let has_room = at + interval <= now + count * interval;
                if has_room {
                    due.insert(client, at + interval);
                }
                has_room
            }
            "leaky-bucket" => {
                // Two requests may wait for the one that leaves.
                let interval = period / count;
                let leaves = due.get(client).copied().unwrap_or(0).max(now);
                let has_room = leaves + interval <= now + 3 * interval;
                if has_room {
                    due.insert(client, leaves + interval);
                }
                has_room
            }
            other => panic!("there is no algorithm {other}"),
        };
        if has_room {
            history.push(now);
        }
        admitted.push(has_room);
    }
    admitted
}

/// Returns a schedule of bursts and pauses of a few clients, the same each time, in the order of time.
pub fn schedule(requests: usize, step: u64) -> Vec<Arrival> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u64| {
        // Xorshift: any sequence without a pattern does.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut now = 1_795_245_000_000 - 1_795_245_000_000 % step;
    let arrivals = (0..requests).map(|_| {
        let pause = match random(40) {
            0 => 30_000,
            1..=4 => 3_000,
            _ => random(1_200),
        };
        now += pause - pause % step;
        (now, format!("192.0.2.{}", random(5)))
    });
    arrivals.collect()
}
