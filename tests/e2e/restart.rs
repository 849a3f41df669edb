//! Counters survive the process in `[server] state_dir`: C4, as far as `kill -9`, restarts and a second process go.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluicegate_limiter::{BootId, BootTime, ClockReading, Seed, StateDir, Timestamp, WallClock};
use tempfile::TempDir;

use crate::harness::*;

/// The limit `otp` on `/`, beside one that is large enough to be charged under load, on `/load`; from the first request on, so that no
/// window ends between two.
fn rules(server: &str, rate: &str) -> String {
    format!(
        r#"
        [server]
        {server}
        [limit.otp]
        key = "client.ip"
        rates = ["{rate}"]
        algorithm = "fixed-window"
        align = "first-request"
        [limit.load]
        key = "client.ip"
        rates = ["1000000 per 1h"]
        algorithm = "fixed-window"
        align = "first-request"
        [[route]]
        path = "/"
        limits = ["otp"]
        respond = {{ status = 200 }}
        [[route]]
        path = "/load"
        limits = ["load"]
        respond = {{ status = 200 }}
        "#
    )
}

const KEPT: &str = "state_dir = \"state\"";

/// Where a gateway with [`KEPT`] keeps its counters: beside its configuration.
fn state_of(gateway: &Gateway) -> PathBuf {
    gateway.config_path().with_file_name("state")
}

/// The file of the limit `otp`.
fn counters_in(state: &Path) -> PathBuf {
    let mut names = fs::read_dir(state)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("otp.") && name.ends_with(".counters")
    };
    names.find(is_it).expect("a file of counters")
}

/// What `/status` says of the limit `otp`.
async fn otp(gateway: &Gateway) -> serde_json::Value {
    let status = gateway.status().await;
    let limits = status["limits"].as_array().unwrap();
    let found = limits.iter().find(|limit| limit["name"] == "otp");
    found.unwrap().clone()
}

/// Makes the directory's clock go on, in this boot, from where a process would have left it whose wall clock was `wrong` seconds off.
fn set_clock(state: &Path, wrong: i64) {
    fs::remove_file(state.join("clock")).unwrap();
    let wall = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    let reading = ClockReading {
        boot: BootId::from_bytes(&fs::read("/proc/sys/kernel/random/boot_id").unwrap()),
        boottime: BootTime(Duration::from_secs_f64(uptime)),
        wall: WallClock::Unconfirmed(Timestamp::from_secs(wall.saturating_add_signed(wrong))),
    };
    let directory = StateDir::open(state, Seed::from_bytes([0; 16])).unwrap();
    directory.clock(reading).unwrap();
}

/// A gateway with five an hour, all of which 127.0.0.1 has used, and 127.0.0.5 two.
async fn one_is_refused(server: &str) -> Gateway {
    let gateway = Gateway::start(&rules(server, "5 per 1h")).await;
    let mut client = gateway.client().await;
    for left in [4, 3, 2, 1, 0] {
        assert_eq!(client.get("/").await.remaining("otp"), left);
    }
    assert_eq!(client.get("/").await.status, 429);
    let mut other = gateway.client_from("127.0.0.5").await;
    for left in [4, 3] {
        assert_eq!(other.get("/").await.remaining("otp"), left);
    }
    gateway
}

#[tokio::test]
async fn kill_9_under_load_loses_nothing() {
    // Goal: C4 at its hardest. Method: SIGKILL while wrk charges a limit at full speed; in the next process the refused client is
    // refused at once, another goes on where it was, and no answered request is missing from the count of the load; what was charged
    // but not answered, at most one a connection, may be in it.
    let mut gateway = one_is_refused(KEPT).await;
    let address = gateway.address();
    let load = tokio::spawn(async move {
        Wrk::for_duration(Duration::from_secs(3))
            .connections(16)
            .run(address, "/load")
            .await
    });
    eventually("the load is on", async || {
        let metrics = gateway.metrics().await;
        let admitted = metrics.sum("sluicegate_limit_admitted_total", &[("limit", "load")]);
        (admitted > 1000.0).then_some(())
    })
    .await;
    gateway.kill();
    gateway.start_again().await;

    let refused = gateway.get("/").await;
    assert_eq!(refused.status, 429);
    assert!(refused.retry_after() <= 3600, "{refused:?}");
    let mut other = gateway.client_from("127.0.0.5").await;
    assert_eq!(other.get("/").await.remaining("otp"), 2);

    let answered = load.await.unwrap().requests;
    let used = 1_000_000 - gateway.get("/load").await.remaining("load") - 1;
    assert!(
        (answered..=answered + 16).contains(&used),
        "{answered} answered, {used} counted"
    );
    let status = otp(&gateway).await;
    assert_eq!(
        (&status["persistent"], &status["counters"]),
        (&true.into(), &"continued".into())
    );
    let metrics = gateway.metrics().await;
    assert_eq!(
        metrics.sum("sluicegate_limit_persistent", &[("limit", "otp")]),
        1.0
    );
    // One clock goes on: both ran in the same hour of the same machine.
    assert!(metrics.sum("sluicegate_clock_ahead_seconds", &[]).abs() < 60.0);
}

#[tokio::test]
async fn without_a_state_directory_a_restart_starts_from_zero() {
    // Goal: what is documented, and that the other tests could fail. Method: the same, without the directory.
    let mut gateway = one_is_refused("").await;
    gateway.kill();
    gateway.start_again().await;
    assert_eq!(gateway.get("/").await.remaining("otp"), 4);
    let status = otp(&gateway).await;
    assert_eq!(status["persistent"], false);
    let why = "in memory only: [server] state_dir is not set";
    assert_eq!(status["counters"], why);
}

#[tokio::test]
async fn the_directory_is_for_its_user_alone() {
    // Goal: no other user can read the seed or write a counter. Method: permission bits of everything that was made.
    let gateway = one_is_refused(KEPT).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let state = state_of(&gateway);
    assert_eq!(mode(&state), 0o700);
    for entry in fs::read_dir(&state).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn a_torn_file_is_set_aside_and_the_gateway_serves() {
    // Goal: damage is neither trusted nor fatal. Method: the file is cut to its half, or one byte of its header is another; the next
    // process starts anew, says why in log and status, and keeps the old file for whoever wants to know.
    for damage in [
        (|file: &mut Vec<u8>| file.truncate(file.len() / 2)) as fn(&mut Vec<u8>),
        |file| file[40] ^= 1,
    ] {
        let mut gateway = one_is_refused(KEPT).await;
        gateway.kill();
        let file = counters_in(&state_of(&gateway));
        let mut bytes = fs::read(&file).unwrap();
        damage(&mut bytes);
        fs::write(&file, bytes).unwrap();
        gateway.start_again().await;

        assert_eq!(gateway.get("/").await.remaining("otp"), 4);
        let counters = otp(&gateway).await["counters"].clone();
        let counters = counters.as_str().unwrap();
        assert!(
            counters.contains("the old one is not trusted"),
            "{counters}"
        );
        let log = gateway.stderr();
        let warned = |line: &&str| line.contains("WARN") && line.contains(counters);
        assert_eq!(log.lines().filter(warned).count(), 1, "{log}");
        let name = format!("{}.set-aside-1", file.display());
        assert!(Path::new(&name).exists(), "{name}");
    }
}

#[tokio::test]
async fn a_file_of_another_directory_is_never_trusted() {
    // Goal: a gateway does not continue from the counts of another. Method: two gateways with the same rules; one gets the other's
    // file, which
    // has the right name, length and meaning, but keys under another seed.
    let mut gateway = one_is_refused(KEPT).await;
    let mut foreign = Gateway::start(&rules(KEPT, "5 per 1h")).await;
    foreign.get("/").await;
    gateway.kill();
    foreign.kill();
    let file = counters_in(&state_of(&gateway));
    let other = counters_in(&state_of(&foreign));
    assert_eq!(file.file_name(), other.file_name());
    fs::copy(other, &file).unwrap();
    gateway.start_again().await;
    assert_eq!(gateway.get("/").await.remaining("otp"), 4);
    let counters = otp(&gateway).await["counters"].clone();
    assert!(counters.as_str().unwrap().contains("seed"), "{counters}");
}

#[tokio::test]
async fn an_edit_and_then_kill_9_keeps_the_counts() {
    // Goal: a reload and a crash together. Method: the count is edited, which keeps the file, then the period, which moves the counters
    // to another; after each a kill.
    let mut gateway = one_is_refused(KEPT).await;
    for (rate, left) in [("8 per 1h", 2), ("9 per 2h", 2)] {
        gateway.reload(&rules(KEPT, rate)).await;
        gateway.kill();
        gateway.start_again().await;
        assert_eq!(gateway.get("/").await.remaining("otp"), left, "{rate}");
    }
    // A rule that is edited while nobody runs keeps its counts too, as long as only the count is another.
    gateway.kill();
    gateway.write_rules(&rules(KEPT, "7 per 2h"), Writing::InPlace);
    gateway.start_again().await;
    assert_eq!(gateway.get("/").await.status, 429);
}

#[tokio::test]
async fn two_gateways_over_one_directory_count_as_one() {
    // Goal: an upgrade, where both processes serve for a while. Method: two at once, asked in turn.
    let first = Gateway::start(&rules(KEPT, "5 per 1h")).await;
    let state = format!("state_dir = \"{}\"", state_of(&first).display());
    let second = Gateway::start(&rules(&state, "5 per 1h")).await;
    for (gateway, left) in [
        (&first, 4),
        (&second, 3),
        (&first, 2),
        (&second, 1),
        (&first, 0),
    ] {
        assert_eq!(gateway.get("/").await.remaining("otp"), left);
    }
    assert_eq!(first.get("/").await.status, 429);
    assert_eq!(second.get("/").await.status, 429);
    assert_eq!(
        otp(&second).await["counters"],
        "shared with another process"
    );
}

#[tokio::test]
async fn a_wall_clock_that_leaps_neither_opens_nor_blocks() {
    // Goal: limits go by the time that is kept with them. Method: a directory whose clock is ten days ahead of the wall clock, then one
    // that is thirty behind, as after a step of the wall clock. Who is refused before a kill is refused after it, and not for longer than
    // the period; log and metric tell how far the clocks are apart. Where systemd vouches for the wall clock, limits catch up with it.
    const DAY: i64 = 86_400;
    for (wrong, told) in [
        (10 * DAY + 1800, "the wall clock is 240 hours behind"),
        (-30 * DAY - 1800, "the wall clock is 720 hours ahead"),
    ] {
        if wrong < 0 && Path::new("/run/systemd/timesync/synchronized").exists() {
            continue;
        }
        let mut gateway = Gateway::start(&rules(KEPT, "2 per 1h")).await;
        gateway.kill();
        set_clock(&state_of(&gateway), wrong);
        gateway.start_again().await;
        assert_eq!(gateway.get("/").await.remaining("otp"), 1);
        assert_eq!(gateway.get("/").await.remaining("otp"), 0);
        gateway.kill();
        gateway.start_again().await;
        let refused = gateway.get("/").await;
        assert_eq!(refused.status, 429);
        assert!(
            (3000..=3600).contains(&refused.retry_after()),
            "{refused:?}"
        );
        let metrics = gateway.metrics().await;
        let ahead = metrics.sum("sluicegate_clock_ahead_seconds", &[]);
        assert!((ahead - wrong as f64).abs() < 600.0, "{ahead}");
        eventually("the log tells", async || {
            gateway.stderr().contains(told).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_directory_that_vanishes_takes_no_limit_with_it() {
    // Goal: nothing about files stops the gateway, or hides. Method: remove the directory, then an edit that needs a new file: the
    // counts go on in memory, and log, status and metrics say so; an edit that needs none leaves the limit as it was.
    let mut gateway = one_is_refused(KEPT).await;
    fs::remove_dir_all(state_of(&gateway)).unwrap();
    gateway.reload(&rules(KEPT, "8 per 2h")).await;
    assert_eq!(gateway.get("/").await.remaining("otp"), 2);
    let status = otp(&gateway).await;
    assert_eq!(status["persistent"], false);
    let counters = status["counters"].as_str().unwrap();
    assert!(
        counters.starts_with("in memory only: cannot "),
        "{counters}"
    );
    let log = gateway.stderr();
    assert!(
        log.contains("limit otp: its counters will not survive"),
        "{log}"
    );
    eventually("time cannot be kept, and that shows", async || {
        let metrics = gateway.metrics().await;
        let errors = metrics.sum("sluicegate_state_errors_total", &[]);
        let survives = metrics.sum("sluicegate_limit_persistent", &[("limit", "otp")]);
        (errors > 0.0 && survives == 0.0).then_some(())
    })
    .await;
    assert!(gateway.status().await["state"]["error"].is_string());
}

#[tokio::test]
async fn another_directory_waits_for_a_restart() {
    // Goal: counters do not move under requests. Method: the key is edited; status says what waits, and the counts continue.
    let mut gateway = one_is_refused(KEPT).await;
    gateway
        .reload(&rules("state_dir = \"elsewhere\"", "5 per 1h"))
        .await;
    let status = gateway.status().await;
    let waiting = &status["configuration"]["pending_restart"];
    assert_eq!(waiting, &serde_json::json!(["server.state_dir"]));
    assert_eq!(gateway.get("/").await.status, 429);
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_is_an_error_at_the_start() {
    // Goal: counters that are to be kept and cannot be are no surprise at the next restart. Method: a directory open to everybody, and
    // one whose parent is missing; the exit code of a bad configuration, and what to do.
    let directory = TempDir::new().unwrap();
    let open = directory.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    for (state, advice) in [("open", "chmod 700"), ("absent/state", "create it")] {
        let file = directory.path().join("gateway.toml");
        let (listener, admin) = (free_address(), free_address());
        let text = format!(
            "[server]\nstate_dir = \"{state}\"\n[[listener]]\naddress = \"{listener}\"\n[admin]\naddress = \"{admin}\"\n\
             [[route]]\npath = \"/\"\nrespond = {{ status = 200 }}\n"
        );
        fs::write(&file, text).unwrap();
        let mut process = Process::run(&["run", "--config", file.to_str().unwrap()]);
        assert_eq!(process.exit_code().await, 64);
        let stderr = process.stderr();
        assert!(stderr.contains("server.state_dir: "), "{stderr}");
        assert!(stderr.contains(advice), "{stderr}");
    }
}

#[tokio::test]
async fn counters_of_a_damaged_file_reject_no_client() {
    // Goal: entries more than a window ahead are dropped and reported. Method: every word of the file of an exact limit is
    // overwritten, by
    // times that are years ahead; clients that it knew and others are served, before a restart and after it.
    let rules = format!(
        "[server]\n{KEPT}\n[limit.otp]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]\nalgorithm = \"exact\"\n\
         [[route]]\npath = \"/\"\nlimits = [\"otp\"]\nrespond = {{ status = 200 }}\n"
    );
    let mut gateway = Gateway::start(&rules).await;
    assert_eq!(gateway.get("/").await.remaining("otp"), 4);
    gateway.kill();
    let file = counters_in(&state_of(&gateway));
    let mut bytes = fs::read(&file).unwrap();
    for word in bytes[HEADER..].chunks_exact_mut(4) {
        // Words that no key uses are zero.
        if word != [0; 4] {
            word.copy_from_slice(&(u32::MAX - 7).to_le_bytes());
        }
    }
    fs::write(&file, bytes).unwrap();
    for start in 0..2 {
        gateway.start_again().await;
        let told = gateway.stderr().contains("lay more than a window ahead");
        assert_eq!(told, start == 0, "{}", gateway.stderr());
        for client in ["127.0.0.1", "127.0.0.7"] {
            let mut client = gateway.client_from(client).await;
            assert_eq!(client.get("/").await.status, 200);
        }
        gateway.kill();
    }
}

/// Bytes before the first word of a file of counters.
const HEADER: usize = 4096;
