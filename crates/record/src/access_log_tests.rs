//! The access log loses no line that it has room for, whatever happens to its target.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::example::Example;
use super::*;

/// More than any test needs on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn to(path: &Path) -> LogRules {
    LogRules::to(AccessLogTarget::File(path.to_owned()))
}

/// Writes a line whose target is `/n`.
fn record(log: &AccessLog, n: usize) {
    log.record(
        &Example {
            target: format!("/{n}").as_bytes(),
            ..Example::default()
        }
        .outcome(),
    );
}

/// The numbers in the lines of `path`, in order; every line must be whole.
fn numbers(path: &Path) -> Vec<usize> {
    let text = std::fs::read_to_string(path).expect("the log exists");
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "the last line is torn"
    );
    text.lines()
        .map(|line| {
            let object: Value = serde_json::from_str(line).expect("a line is JSON");
            let target = object["target"]
                .as_str()
                .expect("text")
                .strip_prefix('/')
                .expect("a path");
            target.parse().expect("a number")
        })
        .collect()
}

fn two_paths() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (dir.path().join("old.log"), dir.path().join("new.log"));
    (dir, old, new)
}

/// Goal: nothing is lost or doubled between threads and buffers. Method: eight threads, then the end of the log.
#[test]
fn the_end_of_the_log_writes_every_line_of_every_thread() {
    let (_dir, path, _) = two_paths();
    let log = AccessLog::start(&to(&path)).expect("the log starts");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let log = &log;
            scope.spawn(move || (0..1_000).for_each(|n| record(log, thread * 1_000 + n)));
        }
    });
    assert_eq!(
        log.counts(),
        AccessLogCounts {
            lines: 8_000,
            dropped: 0,
            write_errors: 0,
            left_out: LeftOut::default(),
        }
    );
    drop(log);
    let mut numbers = numbers(&path);
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..8_000));
}

/// Goal: rotation loses no line and tears none. Method: rename and reopen while a thread writes.
#[test]
fn reopening_after_a_rename_loses_no_line() {
    let (_dir, path, renamed) = two_paths();
    let log = AccessLog::start(&to(&path)).expect("the log starts");
    (0..10).for_each(|n| record(&log, n));
    std::fs::rename(&path, &renamed).expect("a rename within a directory");
    std::thread::scope(|scope| {
        scope.spawn(|| (10..5_000).for_each(|n| record(&log, n)));
        log.reopen();
        assert!(log.flush(PATIENCE));
    });
    drop(log);
    let mut all = numbers(&renamed);
    assert!(
        all.starts_with(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        "what came before the signal is in the old file"
    );
    all.extend(numbers(&path));
    assert!(all.into_iter().eq(0..5_000));
}

/// Goal: a reload moves the log, switches it off and on, and refuses a path it cannot open. Method: each in turn.
#[test]
fn a_reload_changes_the_target() {
    let (dir, old, new) = two_paths();
    let log = AccessLog::start(&to(&old)).expect("the log starts");
    record(&log, 1);
    assert!(log.retarget(&to(&dir.path().join("absent/x.log"))).is_err());
    record(&log, 2);
    log.retarget(&to(&new)).expect("a new file opens");
    assert!(log.flush(PATIENCE));
    record(&log, 3);
    log.retarget(&LogRules::to(AccessLogTarget::Off))
        .expect("nothing is opened");
    record(&log, 4);
    assert!(log.flush(PATIENCE));
    log.retarget(&to(&new)).expect("the file opens again");
    record(&log, 5);
    drop(log);
    assert_eq!((numbers(&old), numbers(&new)), (vec![1, 2], vec![3, 5]));
}

/// Goal: a full disk drops lines at the cap, counts them and the errors, and recovery writes what was kept. Method: a log
/// of one small buffer on `/dev/full`, moved to a file.
#[test]
fn a_full_disk_costs_lines_but_blocks_nobody() {
    let (_dir, _, path) = two_paths();
    let full = LogRules::to(AccessLogTarget::File("/dev/full".into()));
    let log = AccessLog::with(&full, 1, 2_000, line::write).expect("the device opens");
    record(&log, 0);
    assert!(!log.flush(PATIENCE), "the line cannot be written");
    (1..100).for_each(|n| record(&log, n));
    let counts = log.counts();
    assert_eq!(counts.lines + counts.dropped, 100);
    assert!(counts.dropped > 80 && counts.write_errors > 0, "{counts:?}");
    log.retarget(&to(&path)).expect("a file opens");
    assert!(log.flush(PATIENCE));
    record(&log, 100);
    drop(log);
    let numbers = numbers(&path);
    assert_eq!(
        numbers.len() as u64,
        counts.lines + 1,
        "every line that was taken is in the file"
    );
    assert_eq!((numbers.first(), numbers.last()), (Some(&0), Some(&100)));
}

/// Goal: a log that is off costs and keeps nothing. Method: record into it.
#[test]
fn a_log_that_is_off_takes_no_lines() {
    let log = AccessLog::start(&LogRules::to(AccessLogTarget::Off)).expect("nothing is opened");
    record(&log, 1);
    assert_eq!(log.counts(), AccessLogCounts::default());
}
