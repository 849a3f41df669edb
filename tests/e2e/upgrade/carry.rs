//! Counters without a directory: an upgrade hands them over in memory, and nothing of them is left when nobody uses them.

use std::fs;

use nix::sys::signal::Signal;

use super::{upgrade, upgrade_with};
use crate::harness::*;

/// No state directory, but a socket for a successor.
const SOCKET: &str = "upgrade_socket = \"up.sock\"";

/// One limit with rates, one with logs, one that bans; each on a route of its own. None of their windows ends within a test.
fn rules(name: &str, count: &str) -> String {
    let aligned = "algorithm = \"fixed-window\"\nalign = \"first-request\"";
    let route = |path: &str, limit: &str| {
        format!(
            "[[route]]\npath = \"/{path}\"\nlimits = [\"{limit}\"]\nrespond = {{ status = 200 }}\n"
        )
    };
    format!(
        "[server]\n{SOCKET}\n\
         [limit.{name}]\nkey = \"client.ip\"\nrates = [\"{count}\"]\n{aligned}\n\
         [limit.logs]\nkey = \"client.ip\"\nrates = [\"3 per 1h\"]\nalgorithm = \"exact\"\n\
         [limit.login]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\n{aligned}\nban = {{ for = \"2h\" }}\n{}{}{}",
        route("counted", name),
        route("logged", "logs"),
        route("banned", "login")
    )
}

/// Processes that have memory of this name open or mapped.
fn who_has(name: &str) -> Vec<String> {
    let named = format!("memfd:{name}.");
    let has = |process: &std::path::Path| {
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten();
        let targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        maps.contains(&named)
            || targets
                .map(|target| target.to_string_lossy().into_owned())
                .any(|target| target.contains(&named))
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(Result::ok)
        .filter(|entry| {
            let is_process = entry.file_name().to_string_lossy().parse::<u32>().is_ok();
            is_process && has(&entry.path())
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// What lies beside the configuration, and its parts' names.
fn files_of(gateway: &Gateway) -> Vec<String> {
    let directory = gateway.config_path().parent().unwrap().to_owned();
    let names = fs::read_dir(directory).unwrap();
    names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn counters_logs_and_bans_go_on_without_a_directory() {
    // Goal: what a state directory carries, two upgrades in a row carry in memory. Method: part of each limit is used, one client is
    // banned; each successor goes on from there, warns of nothing, and status says what became of it. A reload between the two moves
    // the counters to another table, which is the one that is handed on.
    let mut gateway = Gateway::start(&rules("carried", "5 per 1h")).await;
    assert_eq!(gateway.get("/counted").await.remaining("carried"), 4);
    assert_eq!(gateway.get("/logged").await.remaining("logs"), 2);
    assert_eq!(gateway.get("/banned").await.status, 200);
    assert_eq!(gateway.get("/banned").await.status, 429);

    let first = upgrade(&gateway).await;
    assert_eq!(gateway.exit_code().await, 0);
    assert_eq!(gateway.get("/counted").await.remaining("carried"), 3);
    assert_eq!(gateway.get("/logged").await.remaining("logs"), 1);
    let banned = gateway.get("/banned").await;
    assert_eq!(banned.status, 429);
    // The ban outlasts the rate, so this is the ban; and the time is the one that it began by.
    assert!((7000..=7200).contains(&banned.retry_after()), "{banned:?}");

    gateway.reload(&rules("carried", "5 per 2h")).await;
    assert_eq!(gateway.get("/counted").await.remaining("carried"), 2);
    let second = upgrade(&gateway).await;
    first.ended().await;
    assert_eq!(gateway.get("/counted").await.remaining("carried"), 1);
    assert_eq!(gateway.get("/logged").await.remaining("logs"), 0);
    assert_eq!(gateway.get("/logged").await.status, 429);
    assert_eq!(gateway.get("/banned").await.status, 429);
    assert_eq!(gateway.get("/counted").await.remaining("carried"), 0);
    assert_eq!(gateway.get("/counted").await.status, 429);

    let log = gateway.stderr();
    assert!(!log.contains("WARN"), "{log}");
    let taken = "limit carried: counters taken over from the old process";
    assert_eq!(log.matches(taken).count(), 2, "{log}");
    let status = gateway.status().await;
    assert_eq!(status["limits"][0]["persistent"], false, "{status}");
    drop(second);
}

#[tokio::test]
async fn unused_memory_is_released() {
    // Goal: no file and no memory outlives the processes, however they end. Method: the new process is killed; no process has the
    // memory of
    // the limit any more, nothing lies beside the configuration, and the next gateway starts empty.
    let name = format!("left-{}", free_port());
    let mut gateway = Gateway::start(&rules(&name, "5 per 1h")).await;
    assert_eq!(gateway.get("/counted").await.remaining(&name), 4);
    let successor = upgrade(&gateway).await;
    assert_eq!(gateway.exit_code().await, 0);
    assert_eq!(gateway.get("/counted").await.remaining(&name), 3);
    assert_eq!(who_has(&name), [successor.0.to_string()]);
    successor.signal(Signal::SIGKILL);
    successor.ended().await;
    assert_eq!(who_has(&name), [""; 0]);
    let files = files_of(&gateway);
    assert!(
        !files.iter().any(|file| file.contains("counters")),
        "{files:?}"
    );
    gateway.start_again().await;
    assert_eq!(gateway.get("/counted").await.remaining(&name), 4);
}

#[tokio::test]
async fn a_limit_that_is_left_out_takes_no_memory_in_the_successor() {
    // Goal: counters that are handed over and not used are dropped. Method: the limit has another name in the new configuration; its
    // counts start anew, the
    // log says whose were left, and nobody has the old memory once the old process has ended.
    let (old, new) = (
        format!("old-{}", free_port()),
        format!("new-{}", free_port()),
    );
    let mut gateway = Gateway::start(&rules(&old, "5 per 1h")).await;
    assert_eq!(gateway.get("/counted").await.remaining(&old), 4);
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    let edited = gateway.config_path().with_file_name("edited.toml");
    fs::write(&edited, text.replace(&old, &new)).unwrap();
    let successor = upgrade_with(&edited).await;
    assert_eq!(gateway.exit_code().await, 0);
    assert_eq!(gateway.get("/counted").await.remaining(&new), 4);
    assert_eq!(who_has(&old), [""; 0]);
    assert_eq!(who_has(&new), [successor.0.to_string()]);
    let log = gateway.stderr();
    assert!(log.contains("no limit goes on with"), "{log}");
}

#[tokio::test]
async fn counters_that_an_edit_of_the_server_loses_are_logged() {
    // Goal: no silent loss. Method: a state directory is added together with the upgrade; then the next removes it.
    let mut gateway = Gateway::start(&rules("carried", "5 per 1h")).await;
    assert_eq!(gateway.get("/counted").await.remaining("carried"), 4);
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    let edited = gateway.config_path().with_file_name("edited.toml");
    let kept = format!("{SOCKET}\nstate_dir = \"state\"");
    fs::write(&edited, text.replace(SOCKET, &kept)).unwrap();
    let first = upgrade_with(&edited).await;
    assert_eq!(gateway.exit_code().await, 0);
    assert_eq!(gateway.get("/counted").await.remaining("carried"), 4);
    let log = gateway.stderr();
    assert!(log.contains("were in its memory"), "{log}");
    let second = upgrade(&gateway).await;
    first.ended().await;
    assert_eq!(gateway.get("/counted").await.remaining("carried"), 4);
    let log = gateway.stderr();
    assert!(log.contains("counters and bans start empty"), "{log}");
    drop(second);
}

#[tokio::test]
async fn the_number_of_gateways_goes_on_without_a_directory() {
    // Goal: a process that takes over while the store is away goes on with the share of the fleet. Method: two gateways that know of each
    // other; the store is killed, one gateway is replaced.
    let mut redis = Redis::start().await;
    let rules = format!(
        "[server]\n{SOCKET}\n[store]\nurl = \"{}\"\ntimeout = \"1s\"\n\
         [limit.shared]\nkey = \"client.ip\"\nrates = [\"8 per 1h\"]\nstore = \"shared-strict\"\n\
         [[route]]\npath = \"/*\"\nlimits = [\"shared\"]\nrespond = {{ status = 200 }}\n",
        redis.url()
    );
    let gateway = Gateway::start(&rules).await;
    let _other = Gateway::start(&rules).await;
    eventually("the gateways know of each other", async || {
        let status = gateway.status().await;
        (status["store"]["nodes"] == 2).then_some(())
    })
    .await;
    redis.kill();
    let _successor = upgrade(&gateway).await;
    for status in [200, 200, 200, 200, 429] {
        assert_eq!(gateway.get("/").await.status, status);
    }
}
