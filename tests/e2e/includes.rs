//! Configurations of several files, of variables of the environment, and from the standard input.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::*;

const FIRST: &str = "include = [\"../inc-*.toml\"]\n[[listener]]\naddress = \"{listener}\"\n[admin]\naddress = \"{admin}\"\n\
    [log]\naccess = \"{directory}/access.log\"\n[[route]]\npath = \"/\"\nrespond = { status = 200, body = \"first\" }\n";

fn route(path: &str, body: &str) -> String {
    format!("[[route]]\npath = \"{path}\"\nrespond = {{ status = 200, body = \"{body}\" }}\n")
}

async fn serves(gateway: &Gateway, path: &str, body: &str) {
    eventually(&format!("{path} says {body}"), async || {
        (gateway.get(path).await.text() == body).then_some(())
    })
    .await;
}

#[tokio::test]
async fn files_that_a_pattern_names_come_and_go() {
    // Goal: a directory of files is one configuration, watched as a whole. Method: one file at the start; a second comes, changes,
    // breaks,
    // is mended and goes.
    let gateway = Setup::new()
        .whole(FIRST)
        .file("inc-a.toml", &route("/a", "one"))
        .start()
        .await;
    serves(&gateway, "/", "first").await;
    serves(&gateway, "/a", "one").await;
    let second = gateway.directory().join("inc-b.toml");
    let limit = "[limit.b]\nkey = \"global\"\nrates = [\"3 per 1h\"]\n";
    for body in ["two", "three"] {
        fs::write(&second, format!("{limit}{}", route("/b", body))).unwrap();
        serves(&gateway, "/b", body).await;
    }
    fs::write(&second, format!("{limit}\n{}", route("b", "four"))).unwrap();
    eventually("the mistake is told with its file and line", async || {
        let status = gateway.status().await;
        let error = status["configuration"]["last_reload"]["error"]
            .as_str()?
            .to_owned();
        error
            .contains("inc-b.toml:6:8: route[2].path")
            .then_some(())
    })
    .await;
    serves(&gateway, "/b", "three").await;
    fs::write(&second, route("/b", "five")).unwrap();
    serves(&gateway, "/b", "five").await;
    fs::remove_file(&second).unwrap();
    eventually("its route is gone", async || {
        (gateway.get("/b").await.status == 404).then_some(())
    })
    .await;
    serves(&gateway, "/a", "one").await;
}

#[tokio::test]
async fn variables_of_the_environment_are_filled_in_and_not_shown() {
    // Goal: one file for several places. Method: a variable that every process has, alone and amid text; /config shows its name.
    let path = std::env::var("PATH").unwrap();
    let rules = route("/", "at ${env.PATH} and $${env.PATH}");
    let gateway = Gateway::start(&rules).await;
    let body = gateway.get("/").await.text().to_owned();
    assert_eq!(body, format!("at {path} and ${{env.PATH}}"));
    let page = gateway.admin(get("/config")).await.text().to_owned();
    assert!(
        page.contains("at ${env.PATH} and") && !page.contains(&path),
        "{page}"
    );
}

/// What `sluicegate check` says to a text from its standard input: exit code, standard output, standard error.
fn check(text: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .args(["check", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn check_reads_the_standard_input_and_answers_programs() {
    // Goal: a generated file is checked without being written, and by programs. Method: a good text and one with two mistakes, a variable
    // that nobody set and a variable as shells have it.
    let good = format!(
        "[[listener]]\naddress = \"127.0.0.1:1\"\n{}",
        route("/", "x")
    );
    let (code, _, said) = check(&good, &[]);
    assert!(
        code == Some(0) && said.contains("<stdin>: good: 1 route,"),
        "{said}"
    );
    let (code, json, _) = check(&good, &["--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &report["result"]), (Some(0), &"good".into()));
    assert_eq!(report["counts"]["routes"], 1);

    let bad = format!(
        "{good}{}{}",
        route("/y", "${env.SLUICEGATE_NOBODY}"),
        route("/z", "${HOME}")
    );
    let (code, json, _) = check(&bad, &["--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &report["result"]), (Some(64), &"bad".into()));
    let problems = report["problems"].as_array().unwrap();
    let about = |at: usize, key: &str| problems[at][key].as_str().unwrap().to_owned();
    assert_eq!(problems.len(), 2, "{json}");
    assert_eq!(about(0, "severity"), "error");
    assert_eq!(problems[0]["line"], 8);
    assert!(about(0, "message").contains("SLUICEGATE_NOBODY"), "{json}");
    assert_eq!(about(1, "severity"), "warning");
    assert!(about(1, "advice").contains("${env.HOME}"), "{json}");
}

#[tokio::test]
async fn a_pattern_that_no_file_fits_is_warned_of() {
    // Goal: a slip in a pattern, which leaves limits and routes out, does not pass in silence; and `include` below a table says where it
    // belongs. Method: a directory that is not there; the key behind the head of a table.
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("gateway.toml");
    let check = async |text: &str| {
        fs::write(&file, text).unwrap();
        let mut check = Process::run(&["check", file.to_str().unwrap()]);
        (check.exit_code().await, check.stderr())
    };
    let rest = "[[listener]]\naddress = \"127.0.0.1:8080\"\n[[route]]\npath = \"/\"\nrespond = { status = 200 }\n";
    let (code, said) = check(&format!("include = [\"limit/*.toml\"]\n{rest}")).await;
    assert_eq!(code, 0);
    assert!(
        said.contains(":1:12: warning: include[0]: no file fits") && said.contains("limit/*.toml"),
        "{said}"
    );
    let (code, said) = check(&format!("[server]\ninclude = [\"limit/*.toml\"]\n{rest}")).await;
    assert_eq!(code, 64);
    assert!(
        said.contains("write `include` in the first lines"),
        "{said}"
    );
}
