//! A gateway whose time is set by the test: the same [`sluicegate::server::run`] that the program calls, in a process that follows another
//! clock.
//!
//! That process is this test binary, started once more with [`gateway_by_a_driven_clock`] as its only test. The program itself has no
//! switch for its time. Limits, durations and the log go by the driven clock, which stands still between two settings; timers run on.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sluicegate::config::load;
use sluicegate::server::{StartMode, run};
use sluicegate_base::clock;
use sluicegate_decide::route::review;
use sluicegate_limiter::{BootId, BootTime, Clock, ClockMark, ClockReading, Timestamp, WallClock};

use super::gateway::config_path;

/// The socket in the directory of the gateway at which its time is set.
const SOCKET: &str = "clock.sock";

/// Another run of this binary; what is added to its arguments does not matter.
pub(super) fn command() -> Command {
    let test = "harness::driven_clock::gateway_by_a_driven_clock";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored", "--nocapture", "--"]);
    command
}

/// The time of one gateway.
pub struct DrivenClock(BufReader<UnixStream>);

impl DrivenClock {
    /// The clock of the gateway in this directory, which is ready.
    pub(super) fn of(directory: &Path) -> Self {
        Self(BufReader::new(
            UnixStream::connect(directory.join(SOCKET)).unwrap(),
        ))
    }

    /// Sets the time, and returns when the gateway goes by it.
    pub fn set(&mut self, time: Timestamp) {
        writeln!(self.0.get_mut(), "{}", time.as_nanos()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        assert_eq!(answer, "set\n");
    }
}

/// A clock that stands still at `time`: it begins when no machine is up any more.
fn standing_at(time: Timestamp) -> Clock {
    let reading = ClockReading {
        boot: BootId::from_bytes(b"driven"),
        boottime: BootTime(Duration::MAX),
        wall: WallClock::Unconfirmed(time),
    };
    Clock::continued(ClockMark::new(time, reading), reading)
}

/// Sets the time of this process as the test asks for it.
fn obey(listener: &UnixListener) {
    for connection in listener.incoming() {
        let connection = BufReader::new(connection.unwrap());
        let mut answers = connection.get_ref().try_clone().unwrap();
        for line in connection.lines() {
            let nanos = line.unwrap().parse().unwrap();
            clock::follow(standing_at(Timestamp::from_nanos(nanos)));
            answers.write_all(b"set\n").unwrap();
        }
    }
}

#[test]
#[ignore = "the gateway of tests that drive its clock, which start it"]
fn gateway_by_a_driven_clock() {
    // No goal of its own. Without the files of such a test there is nothing to run.
    let config = config_path(Path::new("."));
    if config.exists() {
        let listener = UnixListener::bind(SOCKET).unwrap();
        std::thread::spawn(move || obey(&listener));
        let loaded = load(&config, review).unwrap();
        let Err(error) = run(&config, loaded.rules, StartMode::Alone);
        panic!("{error}");
    }
}
