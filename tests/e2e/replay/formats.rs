//! `replay` reads logs of other servers, compressed, from a pipe, and several at once.

use std::io::{Seek, SeekFrom, Write};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// Puts an envelope around a line.
type WrapLine<'w> = &'w dyn Fn(&str) -> String;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// The JSON report of a replay of `bytes` from a pipe.
fn judged_from_pipe(config: &str, bytes: &[u8]) -> Value {
    let mut process = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .args(["replay", "-", "--json", "--config", config])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn several_logs_are_merged_whatever_their_compression() {
    // Goal: logs of several servers and rotated ones are one stream. Method: the requests of one client, in turn in three logs of which
    // two are compressed, and a fourth an hour later; named in the wrong order.
    let files = Files::new();
    let mut logs = [String::new(), String::new(), String::new()];
    for second in 0..30 {
        logs[second as usize % 3] += &common_line(1_795_245_000 + second, "192.0.2.1");
    }
    let later = files.write("later.log", common_line(1_795_248_600, "192.0.2.1"));
    let gz = files.write("b.log.1.gz", gzip(&logs[0]));
    let zst = files.write("c.log", zstd::encode_all(logs[1].as_bytes(), 1).unwrap());
    let plain = files.write("a.log", &logs[2]);
    let config = files.config(
        "new.toml",
        &limited("rates = [\"10 per 20s\"]\nalgorithm = \"exact\""),
    );
    let out = files.path("decisions.json");
    let arguments = [
        &*later,
        &zst,
        &gz,
        &plain,
        "--config",
        &config,
        "--decisions",
        &out,
    ];
    let report = report(&arguments).await;
    // The first ten seconds, the ten that begin twenty seconds later, and the one of an hour later.
    assert_eq!(
        (&report["requests"], &report["admitted"]),
        (&31.into(), &21.into())
    );
    let times: Vec<u64> = decisions(&out)
        .iter()
        .map(|decision| decision["time_ns"].as_u64().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[tokio::test]
async fn a_log_that_breaks_off_and_one_that_is_late_are_reported() {
    // Goal: what is missing is said. Method: a gzip file without its end, and a log with a line that is ten minutes too late.
    let files = Files::new();
    let config = files.config("new.toml", &limited("rates = [\"10 per 20s\"]"));
    let mut bytes = gzip(&common_line(1_795_245_000, "192.0.2.1").repeat(50_000));
    bytes.truncate(bytes.len() - 20);
    let cut = files.write("cut.log.gz", bytes);
    let found = report(&[&cut, "--config", &config]).await;
    assert!(
        found["log"]["cut"][0]
            .as_str()
            .unwrap()
            .contains("cut.log.gz breaks off"),
        "{found}"
    );
    let seconds = (0..60).map(|step| step * 20).chain([1]);
    let late = seconds.map(|second| common_line(1_795_245_000 + second, "192.0.2.1"));
    let late = files.write("late.log", late.collect::<String>());
    let found = report(&[&late, "--config", &config]).await;
    assert_eq!(
        (&found["log"]["late"], &found["requests"]),
        (&1.into(), &61.into())
    );
}

#[tokio::test]
async fn a_value_that_first_comes_late_in_a_log_is_judged() {
    // Goal: a limit by a field that few requests have is judged, and a number is suggested for it. Method: logs whose first 3,000 requests
    // lack the field, as JSON and by a `log_format` that writes `-` for it; the same JSON by a pipe, which cannot be read twice.
    let files = Files::new();
    let key = |request: u32| if request < 3_000 { "" } else { "a" };
    let json = (0..3_004).map(|request| {
        let second = 1_795_245_000 + request / 10;
        format!(
            "{{\"msec\":\"{second}.000\",\"remote_addr\":\"192.0.2.1\",\"request\":\"GET /x HTTP/1.1\",\"status\":\"200\",\
             \"http_x_api_key\":\"{}\"}}\n",
            key(request)
        )
    });
    let text = (0..3_004).map(|request| {
        let key = match key(request) {
            "" => "-",
            key => key,
        };
        let second = 1_795_245_000 + request / 10;
        format!("192.0.2.1 {second}.000 \"GET /x HTTP/1.1\" 200 {key}\n")
    });
    let json = json.collect::<String>();
    let json_log = files.write("json.log", gzip(&json));
    let text_log = files.write("text.log", text.collect::<String>());
    let format = "$remote_addr $msec \"$request\" $status $http_x_api_key";
    let rules = "[limit.api]\nkey = \"header.x-api-key\"\non_missing = \"skip\"\nrates = [\"3 per 1h\"]\n[[route]]\npath = \"/x\"\n\
                 limits = [\"api\"]\nrespond = { status = 200 }\n";
    let config = files.config("new.toml", rules);
    for arguments in [&[&*json_log][..], &[&text_log, "--format", format]] {
        let report = report(&[arguments, &["--config", &config]].concat()).await;
        let limit = &report["limits"]["api"];
        assert_eq!(
            (&limit["requests"], &limit["rejected"]),
            (&4.into(), &1.into()),
            "{report}"
        );
    }
    let mut process = Process::run(&["suggest", &json_log, "--key", "header.x-api-key"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    let piped = judged_from_pipe(&config, json.as_bytes());
    assert_eq!(piped["not_judged"][0]["limit"], "api");
    let note = piped["notes"][0].as_str().unwrap();
    assert!(note.contains("pipe"), "{note}");
}

#[tokio::test]
async fn made_up_fields_hide_no_key_from_a_log() {
    // Goal: a client that sends many fields is counted by its key all the same. Method: Caddy's lines, which have all fields, with the key
    // behind hundreds of made-up ones, each time with other names; beside it a field that differs from the key's by an underscore.
    let files = Files::new();
    let lines = (0..100).map(|request| {
        let padding: String = (0..300)
            .map(|field| format!("\"X-{request}-{field}\":[\"1\"],"))
            .collect();
        let second = 1_795_245_000 + request;
        format!(
            "{{\"ts\":{second}.5,\"request\":{{\"client_ip\":\"192.0.2.{request}\",\"method\":\"GET\",\"uri\":\"/x\",\"headers\":{{\
             {padding}\"X_Api_Key\":[\"{request}\"],\"X-Api-Key\":[\"a\"]}}}},\"status\":200}}\n"
        )
    });
    let log = files.write("caddy.log", lines.collect::<String>());
    let rules = "[limit.api]\nkey = \"header.x-api-key\"\non_missing = \"skip\"\nrates = [\"3 per 1h\"]\n[[route]]\npath = \"/x\"\n\
                 limits = [\"api\"]\nrespond = { status = 200 }\n";
    let config = files.config("new.toml", rules);
    let found = report(&[&log, "--config", &config]).await;
    let limit = &found["limits"]["api"];
    assert_eq!(
        (&limit["requests"], &limit["rejected"], &limit["keys"]),
        (&100.into(), &97.into(), &1.into()),
        "{found}"
    );
    assert_eq!(limit["worst_keys"][0]["key"], "a");
    assert_eq!(found["log"]["cut_fields"], 0);
    let mut process = Process::run(&["suggest", &log, "--key", "header.x-api-key", "--json"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    let found: Value = serde_json::from_str(&process.stdout()).unwrap();
    assert_eq!(
        (&found["requests"], &found["keys"]),
        (&100.into(), &1.into())
    );
}

#[tokio::test]
async fn the_standard_input_is_a_log() {
    // Goal: `zcat … | sluicegate replay -`. Method: a real pipe, plain and compressed.
    let files = Files::new();
    let config = files.config("new.toml", &limited("rates = [\"3 per 1h\"]"));
    let text = common_line(1_795_245_000, "192.0.2.1").repeat(5);
    for bytes in [text.clone().into_bytes(), gzip(&text)] {
        let report = judged_from_pipe(&config, &bytes);
        assert_eq!(
            (&report["requests"], &report["rejected"]),
            (&5.into(), &2.into())
        );
    }
}

#[tokio::test]
async fn a_log_format_of_nginx_judges_what_it_logs() {
    // Goal: fields that an operator logs are keys of limits, and durations make requests in flight. Method: a real nginx writes a JSON
    // format of its own, which is given to replay as it stands in nginx.conf.
    let files = Files::new();
    let format = r#"log_format judged escape=json '{"at":"$msec","client":"$remote_addr","request":"$request",'
        '"status":$status,"took":$request_time,"host":"$host","plan":"$http_x_plan"}';"#;
    let nginx = Nginx::start_with(
        format,
        "location / { access_log judged.log judged; return 200 hello; }",
    )
    .await;
    let mut client = Client::connect(nginx.address()).await;
    for plan in ["a", "a", "a", "b \"q\""] {
        let answer = client.send(get("/x").header("x-plan", plan)).await;
        assert_eq!(answer.status, 200);
    }
    let log = eventually("nginx writes its lines", async || {
        let lines = nginx.log("judged.log");
        (lines.len() == 4).then(|| lines.join("\n"))
    })
    .await;
    let log = files.write("judged.log", log);
    let rules = "[limit.plan]\nkey = \"header.x-plan\"\non_missing = \"refuse\"\nrates = [\"2 per 1h\"]\n[[route]]\npath = \"/x\"\n\
                 limits = [\"plan\"]\nrespond = { status = 200 }\n";
    let config = files.config("new.toml", rules);
    let report = report(&[&log, "--config", &config, "--format", format]).await;
    let limit = &report["limits"]["plan"];
    assert_eq!(
        (&limit["requests"], &limit["rejected"], &limit["keys"]),
        (&4.into(), &1.into(), &2.into())
    );
    assert_eq!(limit["worst_keys"][0]["key"], "a");
}

#[tokio::test]
async fn a_failed_request_of_caddy_is_one_request_and_skipped_lines_have_kinds() {
    // Goal: one log of all of Caddy's loggers has each request once, and what is left out is said. Method: four requests that failed, each
    // with its line of the error log, two that did not, an attempt at an origin and a message; as text, as JSON, and by `suggest`.
    let files = Files::new();
    let line = |logger: &str, second: u32, status: u32| {
        format!(
            "{{\"level\":\"error\",\"ts\":{second}.10,\"logger\":\"{logger}\",\"msg\":\"handled request\",\"request\":{{\
             \"remote_ip\":\"203.0.113.5\",\"client_ip\":\"203.0.113.5\",\"method\":\"GET\",\"host\":\"a.test\",\"uri\":\"/x\",\
             \"headers\":{{}}}},\"duration\":0.001,\"size\":0,\"status\":{status}}}\n"
        )
    };
    let mut log = String::new();
    for second in 1_760_000_001..1_760_000_005 {
        log += &line("http.log.error", second, 502);
        log += &line("http.log.access", second, 502);
    }
    for second in 1_760_000_005..1_760_000_007 {
        log += &line("http.log.access.shop", second, 200);
    }
    log += &line("http.handlers.reverse_proxy", 1_760_000_006, 200);
    log += "{\"level\":\"info\",\"ts\":1760000007.1,\"msg\":\"serving initial configuration\"}\n";
    let log = files.write("caddy.log", log);
    let config = files.config("new.toml", &limited("rates = [\"100 per 10s\"]"));
    let found = report(&[&log, "--config", &config]).await;
    assert_eq!(
        (&found["requests"], &found["log"]["skipped"]),
        (
            &6.into(),
            &serde_json::json!({"message": 2, "error_record": 4})
        )
    );
    let said = "6 lines are no requests: 2 messages, 4 error records\n";
    let (_, text, _) = replay(&[&log, "--config", &config]).await;
    assert!(text.contains(&format!("skipped   {said}")), "{text}");
    let mut process = Process::run(&["suggest", &log]);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    assert!(process.stdout().contains(&format!("# {said}")));
}

#[tokio::test]
async fn a_log_format_is_taken_as_it_stands_in_the_file() {
    // Goal: the directive is read as nginx reads it. Method: a real nginx writes a log by each of several directives, in single and double
    // quotes, with tabs, over lines, with each option for escapes; each is given to replay as it stands in nginx.conf.
    let files = Files::new();
    let formats = [
        r#"log_format a '$remote_addr [$time_local] "$request" $status $request_time';"#,
        r#"log_format b "$remote_addr [$time_local] \"$request\" $status $request_time";"#,
        r"log_format c 'time:$time_iso8601\thost:$remote_addr\tstatus:$status\treq:$request\treqtime:$request_time';",
        r#"log_format d "time:$time_iso8601\thost:$remote_addr\tstatus:$status\treq:$request\treqtime:$request_time";"#,
        "log_format e $remote_addr|$msec|  # the begin\n    '$request|' \"${status}\"\n    ;",
        "log_format f escape=json '{\"at\": \"$msec\", \"from\": \"$remote_addr\", '\n    '\"request\": \"$request\"}';",
        "log_format g escape=none '$remote_addr $msec $request_method $scheme://$host:$server_port$request_uri';",
    ];
    let logs: String = (formats.iter())
        .map(|format| {
            let name = format.split(' ').nth(1).unwrap();
            format!("access_log {name}.log {name}; ")
        })
        .collect();
    let nginx = Nginx::start_with(
        &formats.join("\n"),
        &format!("location / {{ {logs} return 200 hello; }}"),
    )
    .await;
    let mut client = Client::connect(nginx.address()).await;
    for page in 0..4 {
        let answer = client.send(get(&format!("/p{page}?a=b"))).await;
        assert_eq!(answer.status, 200);
    }
    let config = files.config("new.toml", &limited("rates = [\"3 per 1h\"]"));
    for format in formats {
        let name = format.split(' ').nth(1).unwrap();
        let log = eventually("nginx writes its lines", async || {
            let lines = nginx.log(&format!("{name}.log"));
            (lines.len() == 4).then(|| lines.join("\n"))
        })
        .await;
        let log = files.write("own.log", log);
        let found = report(&[&log, "--config", &config, "--format", format]).await;
        assert_eq!(
            (
                &found["admitted"],
                &found["rejected"],
                &found["log"]["broken"]
            ),
            (&3.into(), &1.into(), &0.into()),
            "{format}: {found}"
        );
    }
}

#[tokio::test]
async fn a_log_of_apaches_virtual_hosts_needs_no_format() {
    // Goal: Debian's file of all virtual hosts is judged by host. Method: lines of two hosts, detected, and by the directive out of
    // apache2.conf; a route for one of the hosts.
    let files = Files::new();
    let line = |second: u64, host: &str| format!("{host}:80 {}", common_line(second, "192.0.2.1"));
    let log: String = (0..6)
        .map(|second| {
            line(
                1_795_245_000 + second,
                ["a.test", "b.test"][second as usize % 2],
            )
        })
        .collect();
    let log = files.write("other_vhosts_access.log", log);
    let rules = limited("rates = [\"2 per 1h\"]")
        .replace("path = \"/*\"", "path = \"/*\"\nhost = \"a.test\"");
    let config = files.config("new.toml", &rules);
    let directive = "LogFormat \"%v:%p %h %l %u %t \\\"%r\\\" %>s %O\" vhost_common";
    for format in [&[][..], &["--format", directive]] {
        let found = report(&[&[&*log, "--config", &config][..], format].concat()).await;
        assert_eq!(
            (&found["admitted"], &found["rejected"], &found["no_route"]),
            (&2.into(), &1.into(), &3.into()),
            "{found}"
        );
    }
}

#[tokio::test]
async fn lines_of_envoy_gateway_are_judged_and_a_wrong_detection_is_said() {
    // Goal: the default access log of Envoy Gateway is judged by its paths; a log whose paths nobody finds is no log of malformed requests.
    // Method: four of its lines by each name of the path; and lines of nginx's variables whose request is never a request.
    let files = Files::new();
    let config = files.config("new.toml", &limited("rates = [\"3 per 10s\"]"));
    let line = |path: &str| {
        format!(
            "{{\"start_time\":\"2025-08-30T19:39:16.694Z\",\"method\":\"GET\",\"{path}\":\"/get\",\"protocol\":\"HTTP/1.1\",\
             \"response_code\":\"200\",\"bytes_sent\":\"508\",\"duration\":\"1\",\"x-forwarded-for\":\"203.0.113.4\",\
             \":authority\":\"a.test\",\"downstream_remote_address\":\"203.0.113.4:53826\"}}\n"
        )
    };
    for path in [
        "x-envoy-origin-path",
        "x-envoy-original-path",
        "path",
        "request_uri",
    ] {
        let log = files.write("envoy.log", line(path).repeat(4));
        let found = report(&[&log, "--config", &config]).await;
        assert_eq!(
            (&found["admitted"], &found["rejected"], &found["malformed"]),
            (&3.into(), &1.into(), &0.into()),
            "{path}: {found}"
        );
        assert_eq!(found["log"]["misread"], serde_json::json!([]));
    }
    let unknown = files.write("unknown.log", line("route").repeat(4));
    let (code, _, stderr) = replay(&[&unknown, "--config", &config]).await;
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("--format"), "{stderr}");
    let no_request = "{\"remote_addr\":\"192.0.2.1\",\"msec\":\"1795245000.5\",\"request\":\"backend1\",\"status\":\"200\"}\n";
    let wrong = files.write("wrong.log", no_request.repeat(4));
    let part = "wrong.log was read as nginx-json, and none of its requests has a path";
    let (code, text, _) = replay(&[&wrong, "--config", &config]).await;
    assert_eq!(code, 0);
    assert!(text.contains(part), "{text}");
    let mut process = Process::run(&["suggest", &wrong]);
    assert_eq!(process.exit_code().await, 64);
    assert!(process.stderr().contains(part), "{}", process.stderr());
}

#[tokio::test]
async fn nuls_of_copytruncate_hide_no_line() {
    // Goal: a log that was emptied while its server wrote on is read whole. Method: a sparse file with 64 MiB of NULs before its lines, and
    // some between two of them, plain and by a pipe.
    let files = Files::new();
    let config = files.config("new.toml", &limited("rates = [\"3 per 1h\"]"));
    let path = files.path("sparse.log");
    let mut file = fs::File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    let line = common_line(1_795_245_000, "192.0.2.1");
    write!(file, "{line}{line}{}{line}{line}", "\0".repeat(100_000)).unwrap();
    let by_path = report(&[&path, "--config", &config]).await;
    let by_pipe = judged_from_pipe(&config, &fs::read(&path).unwrap());
    for found in [by_path, by_pipe] {
        assert_eq!(
            (
                &found["requests"],
                &found["rejected"],
                &found["log"]["broken"]
            ),
            (&4.into(), &1.into(), &0.into())
        );
        assert_eq!(found["log"]["nul_bytes"], (64 << 20) + 100_000);
    }
}

#[tokio::test]
async fn a_log_is_read_in_the_envelope_of_its_collector() {
    // Goal: what a log driver puts around lines is no obstacle. Method: the lines of a container with nginx, its messages between them, in
    // each common envelope; detected, and with the format given.
    let files = Files::new();
    let config = files.config("new.toml", &limited("rates = [\"3 per 1h\"]"));
    let mut lines = vec![
        "/docker-entrypoint.sh: Configuration complete; ready for start up".to_owned(),
        "2026/11/21 07:10:38 [notice] 1#1: start worker processes".to_owned(),
    ];
    for second in 0..5 {
        let line = common_line(1_795_245_000 + second, "192.0.2.1");
        lines.push(line.trim_end().to_owned());
    }
    let docker = |line: &str| {
        let log = Value::from(format!("{line}\n"));
        format!("{{\"log\":{log},\"stream\":\"stdout\",\"time\":\"2026-11-21T07:10:38.042Z\"}}\n")
    };
    let envelopes: [(&str, WrapLine<'_>); 7] = [
        ("json", &docker),
        ("cri", &|line| {
            format!("2026-11-21T07:10:38.042Z stdout F {line}\n")
        }),
        ("compose", &|line| format!("web-1  | {line}\n")),
        ("syslog", &|line| {
            format!("<190>Nov 21 07:10:38 web nginx: {line}\n")
        }),
        ("syslog", &|line| {
            format!("Nov 21 07:10:38 web nginx[7]: {line}\n")
        }),
        ("syslog", &|line| {
            format!("<190>1 2026-11-21T07:10:38.042Z web nginx 7 - - {line}\n")
        }),
        ("time", &|line| format!("2026-11-21T07:10:38.042Z {line}\n")),
    ];
    for (name, wrap) in envelopes {
        let log = lines.iter().map(|line| wrap(line)).collect::<String>();
        let log = files.write("enveloped.log", log);
        for format in [&[][..], &["--format", "common"]] {
            let found = report(&[&[&*log, "--config", &config][..], format].concat()).await;
            assert_eq!(
                (
                    &found["requests"],
                    &found["rejected"],
                    &found["log"]["broken"]
                ),
                (&5.into(), &2.into(), &0.into()),
                "{name}: {found}"
            );
            assert_eq!(found["log"]["formats"], serde_json::json!(["common"]));
            assert_eq!(found["log"]["envelopes"], serde_json::json!([name]));
            assert_eq!(found["log"]["skipped"], serde_json::json!({"message": 2}));
        }
    }
    let (_, text, _) = replay(&[&files.path("enveloped.log"), "--config", &config]).await;
    assert!(text.contains("7 lines, common in time, "), "{text}");
}

#[tokio::test]
async fn lines_of_other_services_are_counted_apart() {
    // Goal: the log of a whole Compose project has no broken lines but those of the service with the requests. Method: a proxy and a
    // database in colors, as `docker compose logs` writes them for a terminal.
    let files = Files::new();
    let config = files.config("new.toml", &limited("rates = [\"3 per 1h\"]"));
    let mut log = String::new();
    for second in 0..5 {
        let line = common_line(1_795_245_000 + second, "192.0.2.1");
        log += &format!("\u{1b}[36mproxy-1  | \u{1b}[0m{line}");
        log += "\u{1b}[33mdb-1     | \u{1b}[0mcheckpoint complete: wrote 3 buffers\n";
    }
    log += "\u{1b}[36mproxy-1  | \u{1b}[0mno request\n";
    let log = files.write("compose.log", log);
    let found = report(&[&log, "--config", &config]).await;
    let counts = &found["log"];
    assert_eq!(counts["envelopes"], serde_json::json!(["compose"]));
    assert_eq!(
        (&found["requests"], &counts["broken"]),
        (&5.into(), &1.into())
    );
    let skipped = serde_json::json!({"line_of_another_service": 5});
    assert_eq!(counts["skipped"], skipped);
    let (_, text, _) = replay(&[&log, "--config", &config]).await;
    assert!(
        text.contains("5 lines are no requests: 5 lines of other services\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_log_without_methods_is_judged_and_says_so() {
    // Goal: a log_format that logs the path alone is of use. Method: such a log under a limit by client, which is judged with a note, and
    // under one by method, which is not.
    let files = Files::new();
    let log = files.write("paths.log", "192.0.2.1 1795245000.5 /a 200\n".repeat(5));
    let rules = limited("rates = [\"3 per 1h\"]")
        .replace("[\"client\"]", "[\"client\", \"method\"]")
        + "[limit.method]\nkey = \"method\"\nrates = [\"1 per 1h\"]\n";
    let config = files.config("new.toml", &rules);
    let format = "$remote_addr $msec $request_uri $status";
    let found = report(&[&log, "--config", &config, "--format", format]).await;
    assert_eq!(
        (
            &found["admitted"],
            &found["rejected"],
            &found["not_judged"][0]["limit"]
        ),
        (&3.into(), &2.into(), &"method".into()),
        "{found}"
    );
    let note = "the log has no methods: every request counts as GET";
    assert_eq!(found["notes"], serde_json::json!([note]));
}
