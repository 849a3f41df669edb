//! The command itself: formats, files, exit codes, what it says.

use std::fs;

use tempfile::TempDir;

use crate::harness::*;

const INPUT: &str = "limit_req_zone $binary_remote_addr zone=one:1m rate=1r/s;
server { listen 8080; gzip on; location / { limit_req zone=one; proxy_pass http://127.0.0.1:3000; } }\n";

fn file(directory: &TempDir, name: &str, text: &str) -> String {
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn what_was_left_out_is_on_the_standard_error_and_in_the_file() {
    // Goal: nothing is dropped silently, and the output can be piped. Method: a file with a directive that has no counterpart.
    let directory = TempDir::new().unwrap();
    let input = file(&directory, "nginx.conf", INPUT);
    let mut process = Process::run(&["import", &input]);
    assert_eq!(process.exit_code().await, 0);
    let place = format!("{input}:2: gzip on");
    assert!(
        process.stdout().contains("[limit.one]"),
        "{}",
        process.stdout()
    );
    assert!(process.stdout().contains(&place));
    assert!(process.stderr().contains(&place), "{}", process.stderr());
    assert!(
        process.stderr().contains("<stdout>: good"),
        "{}",
        process.stderr()
    );
}

#[tokio::test]
async fn a_file_is_not_overwritten_without_force() {
    // Goal: an import never destroys a configuration. Method: the same output twice, then with --force.
    let directory = TempDir::new().unwrap();
    let input = file(&directory, "nginx.conf", INPUT);
    let output = file(&directory, "gateway.toml", "mine");
    let mut process = Process::run(&["import", &input, "--output", &output]);
    assert_eq!(process.exit_code().await, 1);
    assert!(process.stderr().contains("--force"), "{}", process.stderr());
    assert_eq!(fs::read_to_string(&output).unwrap(), "mine");
    let mut process = Process::run(&["import", &input, "--output", &output, "--force"]);
    assert_eq!(process.exit_code().await, 0);
    assert!(fs::read_to_string(&output).unwrap().contains("[limit.one]"));
}

#[tokio::test]
async fn included_files_are_read_from_beside_the_file() {
    // Goal: a configuration in several files is imported as a whole, and what is missing is to be filled in. Method: a pattern, one of an
    // empty folder, a file and a folder that are missing.
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("conf.d")).unwrap();
    fs::create_dir(directory.path().join("empty")).unwrap();
    file(&directory, "conf.d/site.conf", INPUT);
    let input = file(
        &directory,
        "nginx.conf",
        "http {\n include conf.d/*.conf;\n include missing.conf;\n include absent/*.conf;\n include empty/*.conf;\n}\n",
    );
    let mut process = Process::run(&["import", &input]);
    assert_eq!(process.exit_code().await, 2);
    assert!(process.stdout().contains("[limit.one]"));
    let stderr = process.stderr();
    for missing in [
        "nginx.conf:3: include missing.conf",
        "nginx.conf:4: include absent/*.conf",
    ] {
        let line = format!("{missing}: it cannot be read");
        assert!(stderr.contains(&line), "{stderr}");
    }
    assert!(!stderr.contains("empty"), "{stderr}");
}

#[tokio::test]
async fn a_guard_that_is_lost_makes_the_exit_code_2() {
    // Goal: an import is good only if nothing that limits, restricts, authenticates or encrypts is lost. Method: an input of each, and the
    // line of the report.
    let directory = TempDir::new().unwrap();
    for guard in [
        "limit_rate 100k;",
        "lingering_time 5s;",
        "auth_request /auth;",
        "auth_ldap staff;",
        "proxy_ssl_crl revoked.pem;",
    ] {
        let text = INPUT.replace("gzip on;", guard);
        let input = file(&directory, "nginx.conf", &text);
        let mut process = Process::run(&["import", &input]);
        assert_eq!(process.exit_code().await, 2, "{guard}");
        let stderr = process.stderr();
        let listed = stderr.split("To fill in:").nth(1).unwrap_or_default();
        let listed = listed.split("\n\n").next().unwrap_or_default();
        assert!(listed.contains(guard.trim_end_matches(';')), "{stderr}");
        assert!(stderr.contains("not complete"), "{stderr}");
    }
}

#[tokio::test]
async fn a_wrong_input_is_an_error_with_its_place() {
    // Goal: exit code 64 and the line. Method: an open block, a text of no format, a file that is missing, an input without routes.
    let directory = TempDir::new().unwrap();
    let open = file(&directory, "nginx.conf", "http {\n server {\n");
    let mut process = Process::run(&["import", &open]);
    assert_eq!(process.exit_code().await, 64);
    assert!(
        process.stderr().contains("nginx.conf:2:"),
        "{}",
        process.stderr()
    );
    assert!(
        process.stderr().contains("--format"),
        "{}",
        process.stderr()
    );
    let unknown = file(&directory, "a.txt", "hello\n");
    let mut process = Process::run(&["import", &unknown]);
    assert_eq!(process.exit_code().await, 64);
    assert!(
        process.stderr().contains("--format"),
        "{}",
        process.stderr()
    );
    assert_eq!(
        Process::run(&["import", "/nonexistent.conf"])
            .exit_code()
            .await,
        1
    );
    let empty = file(
        &directory,
        "zones.conf",
        "limit_req_zone $host zone=a:1m rate=1r/s;\n",
    );
    let mut process = Process::run(&["import", &empty]);
    assert_eq!(process.exit_code().await, 64);
    assert!(
        process.stderr().contains("not good yet"),
        "{}",
        process.stderr()
    );
}

#[tokio::test]
async fn a_configuration_that_lacks_a_guard_has_an_exit_code_of_its_own() {
    // Goal: a script sees that an import lets through what the other proxy does not. Method: a rule that authenticates, then without it.
    let directory = TempDir::new().unwrap();
    let text = "cache c\n total-max-size 4\nfrontend f\n bind 127.0.0.1:8080\n http-request auth realm x\n \
         default_backend b\nbackend b\n server s 127.0.0.1:8081\n";
    let input = file(&directory, "haproxy.cfg", text);
    let mut process = Process::run(&["import", &input]);
    assert_eq!(process.exit_code().await, 2);
    assert!(
        process.stderr().contains("not complete: 1 under"),
        "{}",
        process.stderr()
    );
    let input = file(
        &directory,
        "open.cfg",
        &text.replace(" http-request auth realm x\n", ""),
    );
    assert_eq!(Process::run(&["import", &input]).exit_code().await, 0);
}
