//! Tests the memory of stored answers: its bound, its order of eviction, and removal while an answer is being stored.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use pingora::http::ResponseHeader;

use super::*;
use crate::freshness::FreshnessLifetime;

fn storage(memory: usize) -> &'static MemoryStorage {
    Box::leak(Box::new(MemoryStorage::new(memory)))
}

fn key(url: &str) -> CacheKey {
    CacheKey::new([url.as_bytes(), b"\0route\0"].concat(), "")
}

fn head() -> ResponseHeader {
    ResponseHeader::build(200, None).unwrap()
}

fn begin_with(storage: &'static MemoryStorage, url: &str, head: ResponseHeader) -> EntryWriter {
    let lifetime = FreshnessLifetime {
        born: UNIX_EPOCH,
        fresh_until: SystemTime::now() + Duration::from_secs(60),
        stale_while_revalidate: 0,
        stale_if_error: 0,
    };
    storage.write(&key(url), StoredHead::new(head, &lifetime, UNIX_EPOCH))
}

fn begin(storage: &'static MemoryStorage, url: &str) -> EntryWriter {
    begin_with(storage, url, head())
}

fn store(storage: &'static MemoryStorage, url: &str, size: usize) {
    let mut writer = begin(storage, url);
    writer.push(&vec![b'x'; size]);
    writer.store();
}

fn body(storage: &'static MemoryStorage, url: &str) -> Option<Bytes> {
    Some(storage.get(&key(url))?.body)
}

/// Goal: the memory is bounded, and unused answers are evicted. Method: ten times as much as fits, one of them read all the
/// time.
#[test]
fn what_is_used_stays_and_the_rest_makes_room() {
    let storage = storage(1_000_000);
    for number in 0..1_000 {
        store(storage, &format!("http://a/{number}"), 10_000);
        store(storage, "http://a/hot", 100);
        assert!(body(storage, "http://a/hot").is_some());
        let usage = storage.usage();
        assert!(usage.bytes <= usage.memory, "{usage:?}");
    }
    let usage = storage.usage();
    assert!(usage.objects > 80 && usage.bytes > 900_000, "{usage:?}");
    assert!(body(storage, "http://a/hot").is_some());
    storage.resize(0);
    let usage = storage.usage();
    assert_eq!((usage.bytes, usage.objects), (0, 0));
}

/// Goal: in a small memory too, where a shard may have one answer, an answer in use stays, and a new one is stored. Method: many
/// memories of five answers, and for each the last that came.
#[test]
fn what_is_alone_in_its_part_does_not_make_room_first() {
    for _ in 0..100 {
        let storage = storage(50_000);
        store(storage, "http://a/hot", 100);
        for number in 0..20 {
            store(storage, &format!("http://a/{number}"), 9_000);
            assert!(body(storage, "http://a/hot").is_some(), "{number}");
        }
        assert!(body(storage, "http://a/19").is_some());
    }
}

/// Goal: answers that are being stored count too, and leave nothing when they are dropped. Method: writers that hold more than
/// there is.
#[test]
fn what_is_being_stored_is_part_of_the_memory() {
    let storage = storage(100_000);
    let mut writers = Vec::new();
    for number in 0..20 {
        let mut writer = begin(storage, &format!("http://a/{number}"));
        writer.push(&[b'x'; 10_000]);
        assert!(storage.usage().bytes <= 110_000);
        writers.push(writer);
    }
    let abandoned = storage.stats.abandoned.load(Ordering::Relaxed);
    assert!((8..=12).contains(&abandoned), "{abandoned}");
    drop(writers);
    assert_eq!(storage.usage().bytes, 0);
}

/// Goal: no answer is visible before it is complete, or with another length than announced. Method: look between the pieces;
/// then a length that does not match.
#[test]
fn answers_are_visible_when_they_are_complete() {
    let storage = storage(1_000_000);
    let mut writer = begin(storage, "http://a/");
    for _ in 0..3 {
        writer.push(&[b'x'; 70_000]);
        assert!(body(storage, "http://a/").is_none());
    }
    writer.store();
    assert_eq!(
        body(storage, "http://a/").map(|body| body.len()),
        Some(210_000)
    );
    let found = storage.get(&key("http://a/")).unwrap();
    assert_eq!(found.head.fields()["content-length"], "210000");

    let mut announced = head();
    announced.insert_header("content-length", "5").unwrap();
    let mut writer = begin_with(storage, "http://a/short", announced);
    writer.push(b"1234");
    writer.store();
    assert!(body(storage, "http://a/short").is_none());
}

/// Goal: a purge also removes answers that were requested before it. Method: purge and write to a URL while it is being stored;
/// another stays.
#[test]
fn what_is_taken_away_does_not_come_back() {
    let storage = storage(1_000_000);
    for spoil in [
        (|storage| assert_eq!(storage.invalidate(b"http://a/"), 0)) as fn(&MemoryStorage),
        |storage| assert_eq!(storage.purge(&PurgeScope::All), 1),
        |storage| {
            let purge = PurgeScope::prefix("http://a/").unwrap();
            assert_eq!(storage.purge(&purge), 0);
        },
    ] {
        store(storage, "http://b/", 1);
        let writer = begin(storage, "http://a/");
        spoil(storage);
        writer.store();
        assert!(body(storage, "http://a/").is_none());
    }
    store(storage, "http://a/", 1);
    assert!(body(storage, "http://a/").is_some());
}
