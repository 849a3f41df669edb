//! Sends and receives the handover of a process without a state directory, among the lines of an upgrade.
//!
//! The seed is a secret; a receiver may start programs as this user anyway ([`serve`](super::serve)). No line that could contain
//! it is logged.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use sluicegate_decide::state::CounterHandover;
use sluicegate_limiter::{ClockMark, Seed};

use super::line::UpgradeChannel;

const SEED: &str = "seed ";
const CLOCK: &str = "clock ";
const COUNTERS: &str = "counters ";

/// Sends the handover, each table's memory with its line.
pub(super) fn send(lines: &UpgradeChannel, handover: &CounterHandover) -> io::Result<()> {
    lines.send_line(&format!("{SEED}{}", BASE64.encode(handover.seed.bytes())))?;
    lines.send_line(&format!(
        "{CLOCK}{}",
        BASE64.encode(handover.clock.to_bytes())
    ))?;
    for (name, memory) in &handover.counters {
        lines.send_with_descriptor(&format!("{COUNTERS}{name}"), memory)?;
    }
    Ok(())
}

/// The parts of a handover that have arrived so far.
#[derive(Default)]
pub(super) struct HandoverReader {
    seed: Option<Seed>,
    clock: Option<ClockMark>,
    counters: Vec<(String, std::os::fd::OwnedFd)>,
}

impl HandoverReader {
    /// Reads a line that was just received, if it is part of the handover. Returns whether it is.
    pub(super) fn take(&mut self, line: &str, lines: &mut UpgradeChannel) -> io::Result<bool> {
        if let Some(text) = line.strip_prefix(SEED) {
            let bytes = BASE64.decode(text).ok();
            let bytes = bytes.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
            self.seed = Some(Seed::from_bytes(bytes.ok_or_else(|| broken("seed"))?));
        } else if let Some(text) = line.strip_prefix(CLOCK) {
            let bytes = BASE64.decode(text).map_err(|_| broken("clock"))?;
            self.clock = Some(ClockMark::from_bytes(&bytes).map_err(|_| broken("clock"))?);
        } else if let Some(name) = line.strip_prefix(COUNTERS) {
            let memory = lines.descriptor().ok_or_else(|| broken("counters"))?;
            self.counters.push((name.to_owned(), memory));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Returns the complete handover, if the old process has one.
    pub(super) fn whole(self) -> Option<CounterHandover> {
        Some(CounterHandover {
            seed: self.seed?,
            clock: self.clock?,
            counters: self.counters,
        })
    }
}

fn broken(line: &str) -> io::Error {
    let message = format!("the line `{line}` of the handover cannot be read");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use sluicegate_base::clock;

    fn pair() -> (UpgradeChannel, UpgradeChannel) {
        let (one, other) = UnixStream::pair().expect("a pair");
        let patience = Duration::from_secs(10);
        let over = |stream| UpgradeChannel::over(stream, patience).expect("timeouts");
        (over(one), over(other))
    }

    /// Goal: a handover arrives complete. Method: sent at one end and received at the other, with two different pieces of
    /// memory.
    #[test]
    fn a_handover_arrives_complete() {
        let (said, mut heard) = pair();
        let piece = |bytes: &[u8]| {
            use std::io::Write;
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(bytes).expect("room");
            file.into()
        };
        let handover = CounterHandover {
            seed: Seed::from_bytes([9; 16]),
            clock: clock::mark(),
            counters: vec![
                ("one.counters".to_owned(), piece(b"1")),
                ("two.counters".to_owned(), piece(b"22")),
            ],
        };
        send(&said, &handover).expect("room");
        said.send_line("end").expect("room");
        let mut got = HandoverReader::default();
        loop {
            let line = heard.receive_line().expect("a line");
            if !got.take(&line, &mut heard).expect("it can be read") {
                assert_eq!(line, "end");
                break;
            }
        }
        let got = got.whole().expect("all of it");
        assert_eq!(got.seed.bytes(), handover.seed.bytes());
        assert_eq!(got.clock, handover.clock);
        let sizes = got.counters.into_iter().map(|(name, memory)| {
            let length = std::fs::File::from(memory).metadata().expect("it is open");
            (name, length.len())
        });
        let expected = [
            ("one.counters".to_owned(), 1),
            ("two.counters".to_owned(), 2),
        ];
        assert_eq!(sizes.collect::<Vec<_>>(), expected);
    }

    /// Goal: half a handover is rejected, and no secret is printed. Method: lines that are cut off, or lack their memory.
    #[test]
    fn a_broken_line_is_an_error_without_its_text() {
        for line in ["seed c2VjcmV0", "clock c2VjcmV0", "counters otp.counters"] {
            let (_said, mut lines) = pair();
            let error = HandoverReader::default()
                .take(line, &mut lines)
                .expect_err("it cannot be read");
            assert!(!error.to_string().contains("c2VjcmV0"), "{error}");
        }
        assert!(HandoverReader::default().whole().is_none());
    }
}
