//! A line with a broken time spoils neither a replay nor a suggestion.

use super::*;

const BEGIN: u64 = 1_795_245_000;
/// A second of the year 2099.
const FUTURE: u64 = 4_070_908_800;

/// Returns the line of a format for a request of a client that begins in a second.
type WriteLine = fn(u64, &str) -> String;

/// Returns a second in the words of `format`.
fn time(second: u64, format: &str) -> String {
    let second = jiff::Timestamp::from_second(second.try_into().unwrap()).unwrap();
    second.strftime(format).to_string()
}

/// Each format whose lines have another time: at the begin, at the end, with a duration and without.
const FORMATS: [(&str, WriteLine); 7] = [
    ("common", common_line),
    ("sluicegate", |second, client| {
        let time = time(second, "%Y-%m-%dT%H:%M:%S.000Z");
        format!(
            "{{\"time\":\"{time}\",\"client\":\"{client}\",\"method\":\"GET\",\"target\":\"/a\",\"outcome\":\"forwarded\",\
             \"status\":200,\"duration_ms\":900.000}}\n"
        )
    }),
    ("nginx-json", |second, client| {
        format!(
            "{{\"msec\":\"{second}.500\",\"remote_addr\":\"{client}\",\"request\":\"GET /a HTTP/1.1\",\"status\":\"200\",\
             \"request_time\":\"0.500\"}}\n"
        )
    }),
    ("caddy", |second, client| {
        format!(
            "{{\"ts\":{second}.25,\"request\":{{\"client_ip\":\"{client}\",\"method\":\"GET\",\"uri\":\"/a\"}},\"duration\":0.25,\
             \"status\":200}}\n"
        )
    }),
    ("envoy-json", |second, client| {
        let time = time(second, "%Y-%m-%dT%H:%M:%S.000Z");
        format!(
            "{{\"downstream_remote_address\":\"{client}:4000\",\"method\":\"GET\",\"path\":\"/a\",\"response_code\":200,\
             \"start_time\":\"{time}\",\"duration\":900}}\n"
        )
    }),
    ("haproxy", |second, client| {
        let time = time(second, "%d/%b/%Y:%H:%M:%S.000");
        format!(
            "haproxy[1]: {client}:33317 [{time}] a b/c 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 \"GET /a HTTP/1.1\"\n"
        )
    }),
    ("cloudfront", |second, client| {
        let time = time(second, "%Y-%m-%d\t%H:%M:%S");
        format!(
            "#Fields: date time c-ip cs-method cs-uri-stem sc-status time-taken\n{time}\t{client}\tGET\t/a\t200\t0.000\n"
        )
    }),
];

/// The lines of some clients over two hours, nearly in order.
fn lines(write: WriteLine, shift: u64) -> Vec<String> {
    let seconds = (0..240).map(|step: u64| (step ^ 3) * 30 + shift);
    seconds
        .map(|second| write(BEGIN + second, &format!("192.0.2.{}", second % 7)))
        .collect()
}

#[tokio::test]
async fn a_line_of_another_century_is_left_out_of_every_format() {
    // Goal: a broken clock or a damaged line costs one line: decisions, times and keys are those of the log without it. Method: a log of
    // each format, beside another of the same hours, with and without a line of the year 2099 as the first, in the middle, and as the
    // last.
    let files = Files::new();
    let config = files.config(
        "new.toml",
        &limited("rates = [\"3 per 10m\"]\nalgorithm = \"exact\""),
    );
    let other = files.write("other.log", lines(common_line, 7).concat());
    for (format, write) in FORMATS {
        let clean = lines(write, 0);
        let log = files.write("clean.log", clean.concat());
        let expected = report(&[&log, &other, "--config", &config]).await;
        assert_eq!(
            (&expected["log"]["late"], &expected["log"]["misdated"]),
            (&0.into(), &0.into()),
            "{format}"
        );
        assert!(expected["rejected"].as_u64() > Some(100), "{format}");
        for at in [0, 120, 240] {
            let mut broken = clean.clone();
            broken.insert(at, write(FUTURE, "192.0.2.1"));
            let log = files.write("broken.log", broken.concat());
            let found = report(&[&log, &other, "--config", &config]).await;
            assert_eq!(found["log"]["misdated"], 1, "{format} at {at}");
            for same in ["limits", "requests", "admitted", "rejected"] {
                assert_eq!(found[same], expected[same], "{format} at {at}: {same}");
            }
            for same in ["first", "last", "late", "broken"] {
                assert_eq!(
                    found["log"][same], expected["log"][same],
                    "{format}: {same}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_line_that_is_left_out_is_named() {
    // Goal: an operator finds the line, and a suggestion is not made of it. Method: a log of two hours with a line of the year 2099; the
    // text of the replay, its page, and the days and the text of the suggestion.
    let files = Files::new();
    let mut log = lines(common_line, 0);
    log.insert(100, common_line(FUTURE, "198.51.100.9"));
    let log = files.write("access.log", log.concat());
    let config = files.config("new.toml", &limited("rates = [\"3 per 10m\"]"));
    let page = files.path("report.html");
    let (code, text, stderr) = replay(&[&log, "--config", &config, "--html", &page]).await;
    assert_eq!(code, 0, "{stderr}");
    let place =
        format!("{log}:101: the time is far from that of the lines around it: 198.51.100.9");
    for part in ["misdated  1 line left out; the first:", &*place] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("Misdated lines") && page.contains(&place),
        "{page}"
    );
    let mut process = Process::run(&["suggest", &log, "--json"]);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    let found: Value = serde_json::from_str(&process.stdout()).unwrap();
    assert_eq!(
        (&found["misdated"], &found["keys"], &found["confidence"]),
        (&1.into(), &7.into(), &"low".into())
    );
    assert!(found["seconds"].as_u64() < Some(7_500), "{found}");
    let mut process = Process::run(&["suggest", &log]);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    let text = process.stdout();
    assert!(text.contains("# 1 line is left out"), "{text}");
}

#[tokio::test]
async fn a_pause_in_a_log_is_none_of_that() {
    // Goal: a quiet night, and logs of another year, lose no line. Method: hours of requests with a day between them, then more than a
    // year, and a last request a week later.
    let files = Files::new();
    let config = files.config("new.toml", &limited("rates = [\"3 per 10m\"]"));
    let mut log = String::new();
    for begin in [0, 86_400, 500 * 86_400] {
        let seconds = (0..40).map(|step: u64| BEGIN + begin + step * 90);
        log.extend(seconds.map(|second| common_line(second, "192.0.2.1")));
    }
    log += &common_line(BEGIN + 508 * 86_400, "192.0.2.1");
    let log = files.write("access.log", log);
    let found = report(&[&log, "--config", &config]).await;
    assert_eq!(
        (
            &found["requests"],
            &found["log"]["misdated"],
            &found["log"]["late"]
        ),
        (&121.into(), &0.into(), &0.into())
    );
}
