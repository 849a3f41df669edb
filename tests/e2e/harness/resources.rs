//! What the gateway's process uses, as the kernel tells it.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::eventually::eventually;
use super::gateway::Gateway;

impl Gateway {
    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let [resident, _] = self.resident_pages();
        resident * 4096
    }

    /// Resident memory in bytes, without the pages of files: those of the program and of counters.
    pub fn anonymous_bytes(&self) -> u64 {
        let [resident, of_files] = self.resident_pages();
        resident.saturating_sub(of_files) * 4096
    }

    /// All resident pages, and those of files, proc(5).
    fn resident_pages(&self) -> [u64; 2] {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.id())).unwrap();
        let mut numbers = statm.split(' ').skip(1);
        [(); 2].map(|()| numbers.next().unwrap().parse().unwrap())
    }

    /// The CPU time of all its threads, in the kernel too, to a hundredth of a second.
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        // The name of the program may have spaces; the third field follows it (proc(5)).
        let (_, behind) = stat.rsplit_once(") ").unwrap();
        let ticks = behind.split(' ').skip(11).take(2);
        let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Bytes that the kernel keeps for clients who have not taken them.
    pub fn unsent_bytes(&self) -> u64 {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let port = format!(":{:04X}", self.address().port());
        let queues = table.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (local, queues) = (fields.get(1)?, fields.get(4)?);
            let unsent = local.ends_with(&port).then(|| queues.split(':').next());
            u64::from_str_radix(unsent??, 16).ok()
        });
        queues.sum()
    }

    /// Connections that the kernel has made and the gateway has not accepted.
    pub fn queued_connections(&self) -> u64 {
        const LISTENING: &str = "0A";
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let port = format!(":{:04X}", self.address().port());
        let queues = table.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (local, state, queues) = (fields.get(1)?, fields.get(3)?, fields.get(4)?);
            let is_own = local.ends_with(&port) && *state == LISTENING;
            let queued = is_own.then(|| queues.split(':').nth(1));
            u64::from_str_radix(queued??, 16).ok()
        });
        queues.sum()
    }

    /// How often its threads have called `write`, those apart that write the log: sockets take `send`, so these are threads that wake
    /// one another, or themselves.
    pub fn wakes(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
        let calls = tasks.filter_map(|task| {
            let task = task.unwrap().path();
            // A thread may have ended since it was listed.
            let name = fs::read_to_string(task.join("comm")).ok()?;
            let counts = fs::read_to_string(task.join("io")).ok()?;
            let writes = counts.lines().find_map(|line| line.strip_prefix("syscw: "));
            let writes: u64 = writes.unwrap().parse().unwrap();
            (!name.starts_with("access-log")).then_some(writes)
        });
        calls.sum()
    }

    /// Stops it from running, up to a SIGCONT; connections stay. Returns once each of its threads has stopped.
    pub async fn pause(&self) {
        self.signal(Signal::SIGSTOP);
        eventually("its threads stop", async || {
            let mut tasks = fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
            let are_stopped = tasks.all(|task| {
                let stat = fs::read_to_string(task.unwrap().path().join("stat"));
                // The state follows the name (proc(5)).
                stat.is_ok_and(|stat| stat.rsplit_once(") ").unwrap().1.starts_with('T'))
            });
            are_stopped.then_some(())
        })
        .await;
    }

    /// The number of times that its threads went to sleep.
    pub fn context_switches(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
        let switches = tasks.filter_map(|task| {
            // A thread may have ended since it was listed.
            let status = fs::read_to_string(task.unwrap().path().join("status")).ok()?;
            let count = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            count?.trim().parse::<u64>().ok()
        });
        switches.sum()
    }
}
