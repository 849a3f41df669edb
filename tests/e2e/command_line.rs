//! The commands besides a healthy run, and their exit codes.

use std::fs::{self, Permissions};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::harness::*;

const GOOD: &str = "[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/\"\nrespond = { status = 200 }\n";

/// A file in a directory of its own.
fn file(text: &str) -> (TempDir, String) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("gateway.toml");
    fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (directory, path)
}

#[tokio::test]
async fn check_accepts_a_good_file() {
    // Goal: exit code 0. Method: the smallest file.
    let (_directory, path) = file(GOOD);
    assert_eq!(Process::run(&["check", &path]).exit_code().await, 0);
}

#[tokio::test]
async fn check_reports_six_different_mistakes_at_once() {
    // Goal: all errors in one run, each with its place and the key. Method: six mistakes of six kinds on known lines.
    let text = r#"[[listener]]
address = "127.0.0.1:99999"
[origin.app]
servers = ["127.0.0.1:3000"]
retrys = 2
[limit.otp]
key = "client.pi"
rates = ["5 for 10s"]
[[route]]
path = "auth"
origin = "app"
[[route]]
path = "/x"
limits = ["top"]
origin = "app"
"#;
    let (_directory, path) = file(text);
    let mut process = Process::run(&["check", &path]);
    assert_eq!(process.exit_code().await, 64);
    let stderr = process.stderr();
    for (line, word) in [
        (2, "address"),
        (5, "retrys"),
        (7, "client.pi"),
        (8, "5 for 10s"),
        (10, "path"),
        (14, "top"),
    ] {
        let place = format!("gateway.toml:{line}:");
        let report = stderr.lines().find(|report| report.contains(&place));
        assert!(
            report.is_some_and(|report| report.contains(word)),
            "{place} {word} is not in:\n{stderr}"
        );
    }
}

#[tokio::test]
async fn run_refuses_a_bad_file_with_its_own_code() {
    // Goal: exit code 64 distinguishes a bad configuration from a failure. Method: a bad file, a missing file, no file.
    let (_directory, path) = file(&GOOD.replace("respond", "respnod"));
    let mut process = Process::run(&["run", "--config", &path]);
    assert_eq!(process.exit_code().await, 64);
    assert!(
        process.stderr().contains("gateway.toml:5:"),
        "{}",
        process.stderr()
    );
    assert_eq!(
        Process::run(&["run", "--config", "/nonexistent.toml"])
            .exit_code()
            .await,
        64
    );
    assert_eq!(Process::run(&["run"]).exit_code().await, 64);
    assert_eq!(Process::run(&["fly"]).exit_code().await, 64);
}

#[tokio::test]
async fn check_says_what_run_would_say() {
    // Goal: no file is good for `check` and a failed start for `run`. Method: paths at which the start opens or creates something, each
    // with a cause that is no lack of permission; both commands end with the same words.
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("file"), "").unwrap();
    for (table, cause) in [
        ("[log]\naccess = \"none/access.log\"", "does not exist"),
        ("[log]\naccess = \"file/access.log\"", "is not a directory"),
        ("[log]\naccess = \"folder/\"", "not the path of a file"),
        ("[log]\naccess = \"./folder\"", "is a directory"),
        (
            "[log]\naccess = \"syslog:server=10.0.0.1\"",
            "is not the path of a file",
        ),
        ("[server]\nstate_dir = \"none/state\"", "does not exist"),
        ("[server]\nstate_dir = \"file\"", "is not a directory"),
    ] {
        fs::write(path("gateway.toml"), format!("{GOOD}{table}\n")).unwrap();
        let file = path("gateway.toml");
        let mut check = Process::run(&["check", &file]);
        let mut run = Process::run(&["run", &file]);
        assert_eq!(check.exit_code().await, 64, "{table}");
        assert_eq!(run.exit_code().await, 64, "{table}");
        assert!(check.stderr().contains(cause), "{}", check.stderr());
        assert!(run.stderr().contains(cause), "{}", run.stderr());
    }
}

/// Runs a command to its end as a user without rights, since root may write everywhere; its exit code and what it says.
fn run_without_rights(arguments: &[&str]) -> (Option<i32>, String) {
    const NOBODY: u32 = 65534;
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null());
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

fn is_root() -> bool {
    TempDir::new().unwrap().path().metadata().unwrap().uid() == 0
}

#[tokio::test]
async fn check_says_what_this_machine_refuses_the_user() {
    // Goal: a path that the start cannot write is found by `check`. Method: directories and files without permission, and one in which
    // nobody can create a file; both commands end with the same words, and offline the file is good.
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    let set_mode = |name: &str, mode| {
        fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
    };
    fs::create_dir_all(path("closed/state")).unwrap();
    fs::create_dir(path("hidden")).unwrap();
    for name in ["closed/there.log", "closed/state/lock"] {
        fs::write(path(name), "").unwrap();
        set_mode(name, 0o444);
    }
    for (name, mode) in [
        ("", 0o755),
        ("closed/state", 0o555),
        ("closed", 0o555),
        ("hidden", 0),
    ] {
        set_mode(name, mode);
    }
    let file = path("gateway.toml");
    let file = file.to_str().unwrap();
    for (table, cause) in [
        ("[log]\naccess = \"closed/access.log\"", "can be created in"),
        ("[log]\naccess = \"closed/there.log\"", "cannot be written"),
        (
            "[log]\naccess = \"hidden/in/access.log\"",
            "cannot be written",
        ),
        (
            "[log]\naccess = \"/proc/x.log\"",
            "can be created in \"/proc\"",
        ),
        ("[server]\nstate_dir = \"closed/new\"", "can be created in"),
        (
            "[server]\nstate_dir = \"closed/state\"",
            "cannot be written",
        ),
        (
            "[server]\nstate_dir = \"/proc/state\"",
            "can be created in \"/proc\"",
        ),
    ] {
        fs::write(file, format!("{GOOD}{table}\n")).unwrap();
        for command in ["check", "run"] {
            let (code, said) = run_without_rights(&[command, file]);
            assert_eq!(code, Some(64), "{command} {table}: {said}");
            let report = said.lines().find(|line| line.contains(cause));
            let report = report.unwrap_or_else(|| panic!("{command} {table}: {said}"));
            assert!(report.contains("on this machine"), "{report}");
        }
        let (code, said) = run_without_rights(&["check", "--offline", file]);
        assert_eq!(code, Some(0), "{said}");
    }
    set_mode("closed", 0o755);
    set_mode("hidden", 0o755);
}

#[tokio::test]
async fn check_says_which_address_is_of_another_machine() {
    // Goal: an address that cannot be bound is found, one that is in use is no fault, and a directory of another user is named.
    // Method: an address for documentation, for a listener and for the operator; one on which the test listens; a directory of nobody.
    let strange = "203.0.113.5:8080";
    let admin = format!("[admin]\naddress = \"{strange}\"\n");
    for text in [
        GOOD.replace("127.0.0.1:1", strange),
        format!("{GOOD}{admin}"),
    ] {
        let (_directory, path) = file(&text);
        let mut check = Process::run(&["check", &path]);
        assert_eq!(check.exit_code().await, 64);
        let said = check.stderr();
        assert!(
            said.contains("203.0.113.5 is no address of this machine; write an address of this"),
            "{said}"
        );
        let mut run = Process::run(&["run", &path]);
        assert_eq!(run.exit_code().await, 1);
        assert!(run.stderr().contains("cannot listen on 203.0.113.5:8080"));
        let mut offline = Process::run(&["check", "--offline", &path]);
        assert_eq!(offline.exit_code().await, 0);
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (directory, path) = file(&GOOD.replace("127.0.0.1:1", &address));
    assert_eq!(Process::run(&["check", &path]).exit_code().await, 0);
    if is_root() {
        let state = directory.path().join("state");
        fs::create_dir(&state).unwrap();
        fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
        chown(&state, Some(65534), None).unwrap();
        fs::write(&path, format!("{GOOD}[server]\nstate_dir = \"state\"\n")).unwrap();
        let mut check = Process::run(&["check", &path]);
        assert_eq!(check.exit_code().await, 0);
        let said = check.stderr();
        assert!(
            said.contains("belongs to user 65534 of this machine"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_configuration_of_another_program_is_named() {
    // Goal: one sentence with the command that helps. Method: a few lines of nginx.
    let (_directory, path) =
        file("worker_processes 1;\nevents {\n}\nhttp {\n    server {\n    }\n}\n");
    let mut check = Process::run(&["check", &path]);
    assert_eq!(check.exit_code().await, 64);
    let stderr = check.stderr();
    assert!(
        stderr.contains(&format!("`sluicegate import {path}`")),
        "{stderr}"
    );
    assert!(stderr.ends_with("1 error\n"), "{stderr}");
}

#[tokio::test]
async fn every_command_takes_its_file_in_the_same_two_ways() {
    // Goal: nobody has to remember which command takes FILE and which --config FILE. Method: a running gateway without an upgrade socket,
    // and each command in both ways with the same end; `run` finds the address taken.
    let rules = "[limit.otp]\nkey = \"client.ip\"\nrates = [\"5 per 10s\"]\n\
                 [[route]]\npath = \"/\"\nlimits = [\"otp\"]\nrespond = { status = 200 }";
    let gateway = Gateway::start(rules).await;
    let file = gateway.config_path().display().to_string();
    let log = gateway.directory().join("some.log");
    fs::write(
        &log,
        "192.0.2.1 - - [29/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 17\n",
    )
    .unwrap();
    let log = log.display().to_string();
    let commands: [(&[&str], &[&str], i32); 9] = [
        (&["check"], &[], 0),
        (&["explain"], &[], 0),
        (&["key"], &["otp", "192.0.2.1"], 0),
        (&["run"], &[], 1),
        (&["reload"], &[], 0),
        (&["upgrade"], &[], 1),
        (&["ping"], &[], 0),
        (&["replay"], &[&log], 0),
        (&["store", "check"], &[], 1),
    ];
    for (command, behind, code) in commands {
        let in_two_ways: [&[&str]; 2] = [&[&file], &["--config", &file]];
        for name in in_two_ways {
            let mut process = Process::run(&[command, name, behind].concat());
            assert_eq!(
                process.exit_code().await,
                code,
                "{command:?} {name:?}: {}",
                process.stderr()
            );
        }
    }
}

#[tokio::test]
async fn a_command_without_a_file_says_how_to_name_one() {
    // Goal: wrong usage, not a crash. Method: commands without a file, on a machine without that of the package.
    if std::path::Path::new("/etc/sluicegate/gateway.toml").exists() {
        return;
    }
    for command in [
        &["check"][..],
        &["run"],
        &["ping"],
        &["key", "otp"],
        &["replay", "some.log"],
    ] {
        let mut process = Process::run(command);
        assert_eq!(process.exit_code().await, 64, "{command:?}");
        let stderr = process.stderr();
        assert!(
            stderr.contains("/etc/sluicegate/gateway.toml; write FILE or --config FILE"),
            "{stderr}"
        );
    }
}

#[tokio::test]
async fn an_address_in_use_is_named_in_the_error() {
    // Goal: exit code 1, soon, and the address in the message. Method: the test holds the port.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let (_directory, path) = file(&GOOD.replace("127.0.0.1:1", &address));
    let mut process = Process::run(&["run", "--config", &path]);
    assert_eq!(process.exit_code().await, 1);
    let stderr = process.stderr();
    assert!(
        stderr.contains(&address) && stderr.to_lowercase().contains("in use"),
        "{stderr}"
    );
}

#[tokio::test]
async fn ping_distinguishes_a_running_gateway_from_a_stopped_one() {
    // Goal: the health check of containers. Method: ping while it runs and after its end.
    let mut gateway = Gateway::start("[[route]]\npath = \"/\"\nrespond = { status = 200 }").await;
    let path = gateway.config_path().display().to_string();
    assert_eq!(
        Process::run(&["ping", "--config", &path]).exit_code().await,
        0
    );
    gateway.signal(nix::sys::signal::Signal::SIGINT);
    gateway.exit_code().await;
    assert_eq!(
        Process::run(&["ping", "--config", &path]).exit_code().await,
        1
    );
}

/// A client of a demo whose origin answers already.
async fn client_of_the_demo(demo: &Process) -> Client {
    let address: SocketAddr = eventually("it says where it stands", async || {
        let told = demo.stderr();
        let (_, address) = told.split_once("stands at http://")?;
        address.split_whitespace().next()?.parse().ok()
    })
    .await;
    let mut client = eventually("it listens", async || {
        Client::try_connect(address).await.ok()
    })
    .await;
    eventually("its origin listens too", async || {
        (client.get("/begun").await.status == 200).then_some(())
    })
    .await;
    client
}

#[tokio::test]
async fn the_demo_shows_requests_until_ctrl_c() {
    // Goal: the demo shows a limit, and Ctrl-C ends it. Method: the printed address; posts until one is rejected,
    // which is the sixth, or the seventh where a window began meanwhile.
    let _turn = demo_turn().await;
    let mut demo = Process::run(&["demo"]);
    let mut client = client_of_the_demo(&demo).await;
    let mut passed = 0;
    let rejection = loop {
        let answer = client.post("/auth/sendOTP").await;
        if answer.status != 200 {
            break answer;
        }
        passed += 1;
    };
    assert_eq!(rejection.status, 429, "{rejection:?}");
    assert!(matches!(passed, 5 | 6), "{passed}");
    assert_eq!(client.get("/").await.status, 200);
    eventually("it shows them all", async || {
        let shown = demo.stdout();
        let lines = |of: &str| shown.lines().filter(|line| line.contains(of)).count();
        let posts = lines(" 200  POST /auth/sendOTP ") == passed;
        (posts && lines("rate-limited by otp") == 1 && lines(" 200  GET / ") == 1).then_some(())
    })
    .await;
    demo.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(demo.exit_code().await, 0);
}

#[tokio::test]
async fn the_demo_shows_what_is_wrong_with_its_edited_file() {
    // Goal: a mistake in the demo's file is reported where its author looks, as `run` reports it, and the next edit is in force. Method: a
    // period without a meaning, the messages of `run` for the same file, the rate of an answer; then another rate.
    let _turn = demo_turn().await;
    let mut demo = Process::run(&["demo"]);
    let mut client = client_of_the_demo(&demo).await;
    let printed = demo.stderr();
    let (_, rest) = printed.split_once("The rules are in ").unwrap();
    let file = Path::new(rest.split_once(';').unwrap().0);
    let rules = fs::read_to_string(file).unwrap();
    assert!(rules.contains("5 per 10s"), "{rules}");

    fs::write(file, rules.replace("5 per 10s", "5 per 10 parsecs")).unwrap();
    let mut run = Process::run(&["run", "--config", file.to_str().unwrap()]);
    assert_eq!(run.exit_code().await, 64);
    let report = run.stderr();
    assert!(
        report.contains("\"5 per 10 parsecs\" is not a rate; write a count and a period"),
        "{report}"
    );
    let shown = eventually("the mistake is shown", async || {
        Some(demo.stderr()).filter(|shown| shown.contains(&report))
    })
    .await;
    assert!(shown.contains("the old one stays in force"), "{shown}");
    let answer = client.post("/auth/sendOTP").await;
    let policy = answer.header("ratelimit-policy");
    assert_eq!(policy, Some("\"otp\";q=5;w=10"), "{answer:?}");

    fs::write(file, rules.replace("5 per 10s", "3 per 10s")).unwrap();
    eventually("the mended file is in force", async || {
        let answer = client.post("/auth/sendOTP").await;
        (answer.header("ratelimit-policy") == Some("\"otp\";q=3;w=10")).then_some(())
    })
    .await;
    eventually("requests are shown as before", async || {
        (demo.stdout().contains("POST /auth/sendOTP")).then_some(())
    })
    .await;
    demo.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(demo.exit_code().await, 0);
    let shown = demo.stderr();
    assert!(shown.starts_with(&printed), "{shown}");
    assert!(!shown.contains(" INFO "), "{shown}");
}

#[tokio::test]
async fn help_and_version_are_no_errors() {
    // Goal: exit code 0, on standard output. Method: both flags, and the command for the version.
    for argument in ["--help", "--version", "version"] {
        let mut process = Process::run(&[argument]);
        assert_eq!(process.exit_code().await, 0, "{argument}");
        assert!(process.stdout().contains("sluicegate"), "{argument}");
    }
}

#[tokio::test]
async fn help_lists_every_command() {
    // Goal: what there is can be found. Method: commands that packages and people of the shell need, too.
    let mut help = Process::run(&["--help"]);
    assert_eq!(help.exit_code().await, 0);
    for command in ["man", "completions", "version", "schema", "import"] {
        let listed = help
            .stdout()
            .lines()
            .any(|line| line.trim_start().starts_with(command));
        assert!(listed, "{command}: {}", help.stdout());
    }
}
