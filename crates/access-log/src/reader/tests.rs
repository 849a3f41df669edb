//! Tests the order in which requests of one log and of several come, and the counts of lines that are none.

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::line::MAX_FIELDS;

const BEGIN: i64 = 1_795_245_000;

fn line(second: i64, client: usize) -> String {
    let time = jiff::Timestamp::from_second(BEGIN + second).unwrap();
    let time = time.strftime("%d/%b/%Y:%H:%M:%S +0000");
    format!("192.0.2.{client} - - [{time}] \"GET /{client} HTTP/1.1\" 200 1 \"-\" \"a\\x22b\"\n")
}

/// Milliseconds from the begin and targets of all requests of these logs.
fn read(logs: &[String], options: &ReadOptions) -> (Vec<(u64, String)>, ReadStats) {
    let directory = TempDir::new().unwrap();
    let paths: Vec<PathBuf> = (0..logs.len())
        .map(|index| directory.path().join(index.to_string()))
        .collect();
    for (path, text) in paths.iter().zip(logs) {
        std::fs::write(path, text).unwrap();
    }
    let options = ReadOptions {
        fields: FieldSelection::new(["User-Agent"]),
        ..options.clone()
    };
    let mut reader = LogReader::open(&paths, &options).unwrap();
    let mut found = Vec::new();
    while let Some(request) = reader.next_request() {
        let millis = request.time / 1_000_000 - BEGIN as u64 * 1_000;
        let fields: Vec<_> = request.fields.iter().collect();
        assert_eq!(
            (fields.len(), fields[0].name, fields[0].value),
            (1, &b"user-agent"[..], &b"a\"b"[..])
        );
        let target = String::from_utf8(request.target.to_vec()).unwrap();
        assert_eq!(
            target,
            format!(
                "/{}",
                request.client.to_string().rsplit_once('.').unwrap().1
            )
        );
        found.push((millis, target));
    }
    (found, reader.stats())
}

/// So many lines a second apart, which confirm a time.
fn lines(from: i64, lines: i64) -> String {
    (from..from + lines).map(|second| line(second, 9)).collect()
}

/// Goal: a line that comes too late for its second is not before those of that second which were returned, spread or not. Method: a
/// line of the first second behind those that are minutes later.
#[test]
fn a_late_line_is_not_before_its_second() {
    let text = [line(0, 1), line(0, 2), lines(200, 40), line(0, 4)].concat();
    for (spread, second) in [(TimeSpread::AsLogged, 0), (TimeSpread::OverSecond, 500)] {
        let options = ReadOptions {
            spread,
            ..ReadOptions::default()
        };
        let (found, _) = read(std::slice::from_ref(&text), &options);
        let times = [(0, 1), (second, 2), (second, 4), (200_000, 9)];
        let times = times.map(|(time, client)| (time, format!("/{client}")));
        assert_eq!(found[..4], times);
    }
}

/// Goal: times say which order requests have, and whether they were too late. Method: a line two minutes out of order, one more than
/// that, a broken one, and an empty log beside.
#[test]
fn lines_are_sorted_within_the_window() {
    let text = [
        lines(0, 30),
        lines(200, 30),
        line(110, 1),
        line(100, 2),
        lines(300, 30),
        line(15, 3),
        "x\n".to_owned(),
    ]
    .concat();
    let (found, stats) = read(&[text, String::new()], &ReadOptions::default());
    let place = |client: &str| found.iter().position(|(_, target)| target == client);
    // The line of second 100 came in time: only requests of up to second 109 were returned when second 229 was reached.
    assert_eq!((place("/2"), place("/1")), (Some(30), Some(31)));
    // The line of second 15 came when second 329 was reached, so requests of up to second 208 were returned.
    assert_eq!(place("/3"), Some(41));
    assert_eq!(found[41].0, 208_000);
    assert_eq!((stats.order.sorted, stats.order.late), (2, 1));
    assert_eq!((stats.lines, stats.broken), (94, 1));
    assert_eq!(stats.broken_lines[0].number, 94);
}

/// Goal: a line with a broken time makes no other line late, moves no other log, and is left out and shown. Method: two logs of the same
/// seconds with lines out of order, with and without a line of the year 2099 in one of them, in several places.
#[test]
fn a_line_of_another_time_spoils_nothing() {
    let log = |shift: usize| {
        let seconds = (0..200).map(|second: i64| second ^ 3);
        let lines = seconds.map(|second| line(second * 30, 1 + (second as usize + shift) % 200));
        lines.collect::<Vec<String>>()
    };
    let sorted = |mut found: Vec<(u64, String)>| {
        // Equal times of several logs have no order.
        found.sort();
        found
    };
    let (clean, other) = (log(0), log(50).concat());
    let (expected, clean_stats) = read(&[clean.concat(), other.clone()], &ReadOptions::default());
    assert!(clean_stats.order.sorted > 0);
    let expected = sorted(expected);
    for at in [0, 1, 100, 199, 200] {
        let mut broken = clean.clone();
        broken.insert(at, line(2_275_663_800, 7));
        let (found, stats) = read(&[broken.concat(), other.clone()], &ReadOptions::default());
        assert!(found.is_sorted_by_key(|(time, _)| *time));
        assert_eq!(sorted(found), expected, "at {at}");
        assert_eq!((stats.misdated, stats.broken), (1, 0));
        assert_eq!(stats.order.late, 0);
        let shown = &stats.misdated_lines[0];
        assert_eq!(
            (shown.number, shown.error),
            (at as u64 + 1, LineError::Misdated)
        );
        assert!(shown.text.contains("/2099:"), "{}", shown.text);
    }
}

/// Goal: a line that has more than is kept of what decides is counted. Method: lines of our own with keys of limits, one with too many.
#[test]
fn lines_with_too_many_values_are_counted() {
    let line = |keys: usize| {
        let keys: Vec<String> = (0..keys).map(|key| format!("\"{key}\":\"0\"")).collect();
        format!(
            "{{\"time\":\"2026-11-21T07:10:38.042Z\",\"client\":\"::1\",\"outcome\":\"forwarded\",\"key_hashes\":{{{}}}}}\n",
            keys.join(",")
        )
    };
    let text = [line(1), line(MAX_FIELDS + 1), line(MAX_FIELDS)].concat();
    let stream: Box<dyn Read> = Box::new(io::Cursor::new(text));
    let streams = vec![("log".to_owned(), stream)];
    let mut reader = LogReader::from_streams(streams, &ReadOptions::default()).unwrap();
    let mut kept = Vec::new();
    while let Some(request) = reader.next_request() {
        kept.push(request.fields.iter().count());
    }
    assert_eq!(kept, [1, MAX_FIELDS, MAX_FIELDS]);
    assert_eq!(reader.stats().cut_fields, 1);
}

/// Goal: requests of a second fill it. Method: four lines in one second, one in the next.
#[test]
fn requests_are_spread_over_their_second() {
    let text = [line(7, 1), line(7, 2), line(7, 3), line(7, 4), line(8, 5)].concat();
    let options = ReadOptions {
        spread: TimeSpread::OverSecond,
        ..ReadOptions::default()
    };
    let (found, _) = read(&[text], &options);
    let times: Vec<u64> = found.iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [7_000, 7_250, 7_500, 7_750, 8_000]);
}

/// Goal: a batch has the next requests of one second, no more than asked for. Method: five lines in one second, two in the next, out of
/// order.
#[test]
fn batches_are_of_one_second() {
    let lines = [line(8, 6), line(7, 1), line(7, 2), line(7, 3), line(7, 4)];
    let text = [lines.concat(), line(7, 5), line(8, 7)].concat();
    let stream: Box<dyn Read> = Box::new(io::Cursor::new(text));
    let streams = vec![("log".to_owned(), stream)];
    let mut reader = LogReader::from_streams(streams, &ReadOptions::default()).unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch(3) {
        let targets = batch.iter().map(|request| request.target.to_vec());
        batches.push(String::from_utf8(targets.collect::<Vec<_>>().concat()).unwrap());
    }
    assert_eq!(batches, ["/1/2/3", "/4/5", "/6/7"]);
}

proptest! {
    /// Goal: whatever the order within the window and the number of logs, requests come as a stable sort by time has them. Method: any
    /// seconds within two minutes of each other, in up to three logs.
    #[test]
    fn requests_come_in_the_order_of_time(
        jitter in proptest::collection::vec((0_i64..119, 0_i64..90), 1..60),
        logs in 1_usize..4,
    ) {
        let mut texts = vec![String::new(); logs];
        let mut expected = Vec::new();
        let mut base = 0;
        for (index, (back, step)) in jitter.iter().enumerate() {
            base += step;
            let second = (base - back).max(0);
            texts[index % logs] += &line(second, index % 200);
            expected.push((second as u64 * 1_000, format!("/{}", index % 200)));
        }
        expected.sort_by_key(|(millis, _)| *millis);
        let (mut found, stats) = read(&texts, &ReadOptions::default());
        if logs > 1 {
            // Equal times of several logs have no order.
            found.sort();
            expected.sort();
        }
        prop_assert_eq!(found, expected);
        prop_assert_eq!(stats.order.late, 0);
    }
}
