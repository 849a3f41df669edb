//! Changes of the configuration's files are seen when they are finished, and files that lie beside it cost nothing.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::*;

/// A route that answers with `name`.
fn version(name: &str) -> String {
    format!("[[route]]\npath = \"/\"\nrespond = {{ status = 200, body = \"{name}\" }}\n")
}

/// A route that blocks the clients in `file`.
fn blocking(file: &str) -> String {
    format!(
        "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\nblock = [\"bad\"]\n[list.bad]\nfile = \"{file}\"\n{}",
        version("blocking")
    )
}

async fn serves(gateway: &Gateway, name: &str) {
    eventually(&format!("{name} serves"), async || {
        (gateway.get("/").await.text() == name).then_some(())
    })
    .await;
}

async fn blocks(gateway: &Gateway, address: &str) {
    eventually(&format!("{address} is blocked"), async || {
        let answer = gateway.send(get("/").forwarded_for(address)).await;
        (answer.status == 403).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_busy_file_beside_the_configuration_causes_no_work() {
    // Goal: an access log in the folder of the configuration costs nothing. Method: one file is written 50,000 times while it is open,
    // another is opened, written and closed 50,000 times; the threads of the gateway slept all the while but for a few looks.
    const WRITES: u64 = 50_000;
    let gateway = Gateway::start(&version("quiet")).await;
    let directory = gateway.config_path().parent().unwrap().to_owned();
    let before = gateway.context_switches();
    tokio::task::spawn_blocking(move || {
        let mut open = File::create(directory.join("access.log")).unwrap();
        for _ in 0..WRITES {
            open.write_all(b"a line\n").unwrap();
            append(&directory.join("other.log"), "a line\n");
        }
    })
    .await
    .unwrap();
    let switches = gateway.context_switches() - before;
    assert!(
        switches < WRITES / 20,
        "{switches} switches for {WRITES} writes"
    );
}

#[tokio::test]
async fn a_file_that_is_written_slowly_is_read_when_it_is_closed() {
    // Goal: no half of a file serves. Method: the first part is valid by itself; before it is closed, a list of its own is changed,
    // closed and applied, so the part was there to be seen.
    let gateway = Setup::new()
        .file("bad.txt", "192.0.2.0\n")
        .rules(&blocking("../bad.txt"))
        .start()
        .await;
    // A reload shows that the watch has begun: a change before that is checked for at once, whether the file is closed or not.
    let path = gateway.directory().join("bad.txt");
    std::fs::write(&path, "192.0.2.1\n").unwrap();
    blocks(&gateway, "192.0.2.1").await;
    let generation = gateway.generation().await;
    let mut file = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .unwrap();
    file.write_all(b"192.0.2.2\n").unwrap();
    // The former watch reloaded within a tenth of a second.
    let half = Instant::now();
    while half.elapsed() < Duration::from_millis(500) {
        assert_eq!(gateway.generation().await, generation);
    }
    file.write_all(b"192.0.2.3\n").unwrap();
    drop(file);
    blocks(&gateway, "192.0.2.3").await;
    assert_eq!(gateway.generation().await, generation + 1);
}

#[tokio::test]
async fn a_file_that_never_settles_reloads_once_a_second() {
    // Goal: a script that writes on and on costs no more than a reload a second, and the last version serves. Method: for three seconds
    // the next version is written when the gateway has answered.
    let mut gateway = Gateway::start(&version("first")).await;
    let generation = gateway.generation().await;
    let begin = Instant::now();
    let mut number = 0;
    while begin.elapsed() < Duration::from_secs(3) {
        number += 1;
        gateway.write_rules(&version(&format!("version-{number}")), Writing::Rename);
        gateway.get("/").await;
    }
    serves(&gateway, &format!("version-{number}")).await;
    let reloads = gateway.generation().await - generation;
    let seconds = begin.elapsed().as_secs();
    assert!(
        reloads <= seconds + 2,
        "{reloads} reloads in {seconds} seconds"
    );
}

#[tokio::test]
async fn a_change_that_keeps_size_and_time_is_seen() {
    // Goal: tools that bring the time of a file along, such as `cp --preserve` and images whose files are all of one second, hide no
    // change. Method: one letter is another, in place, and the time of the content is set back.
    let gateway = Gateway::start(&version("one")).await;
    serves(&gateway, "one").await;
    let path = gateway.config_path();
    let text = fs::read_to_string(&path).unwrap();
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all(text.replace("\"one\"", "\"two\"").as_bytes())
        .unwrap();
    file.set_modified(time).unwrap();
    drop(file);
    serves(&gateway, "two").await;
}

#[tokio::test]
async fn a_link_to_a_directory_on_the_way_is_followed() {
    // Goal: deployments that swap a link such as `current` are seen. Method: a list lies under one; the link is renamed over.
    let mut gateway = Gateway::start(&version("first")).await;
    let directory = gateway.directory().to_owned();
    for (release, address) in [("one", "192.0.2.1"), ("two", "192.0.2.2")] {
        fs::create_dir(directory.join(release)).unwrap();
        fs::write(directory.join(release).join("bad.txt"), address).unwrap();
    }
    symlink("one", directory.join("current")).unwrap();
    gateway.reload(&blocking("../current/bad.txt")).await;
    blocks(&gateway, "192.0.2.1").await;
    symlink("two", directory.join("next")).unwrap();
    fs::rename(directory.join("next"), directory.join("current")).unwrap();
    blocks(&gateway, "192.0.2.2").await;
}

#[tokio::test]
async fn a_directory_that_is_replaced_is_watched_again() {
    // Goal: `mv lists old; mv new lists` is seen, and so is what is written there afterwards.
    let mut gateway = Gateway::start(&version("first")).await;
    let directory = gateway.directory().to_owned();
    for (folder, address) in [("lists", "192.0.2.1"), ("new", "192.0.2.2")] {
        fs::create_dir(directory.join(folder)).unwrap();
        fs::write(directory.join(folder).join("bad.txt"), address).unwrap();
    }
    gateway.reload(&blocking("../lists/bad.txt")).await;
    blocks(&gateway, "192.0.2.1").await;
    fs::rename(directory.join("lists"), directory.join("old")).unwrap();
    eventually("the directory is missed", async || {
        gateway.stderr().contains("cannot be watched").then_some(())
    })
    .await;
    fs::rename(directory.join("new"), directory.join("lists")).unwrap();
    blocks(&gateway, "192.0.2.2").await;
    fs::write(directory.join("lists/bad.txt"), "192.0.2.3").unwrap();
    blocks(&gateway, "192.0.2.3").await;
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}
