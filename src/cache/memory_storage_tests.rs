//! Tests the memory of stored answers: its bound, its order of eviction, and removal while an answer is being stored.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use pingora::cache::trace::Span;
use pingora::http::ResponseHeader;

use super::*;

fn storage(memory: usize) -> &'static MemoryStorage {
    Box::leak(Box::new(MemoryStorage::new(memory)))
}

fn key(url: &str) -> CacheKey {
    CacheKey::new([url.as_bytes(), b"\0route\0"].concat(), "")
}

fn meta() -> CacheMeta {
    let fresh_until = SystemTime::now() + Duration::from_secs(60);
    let header = ResponseHeader::build(200, None).unwrap();
    CacheMeta::new(fresh_until, UNIX_EPOCH, 0, 0, header)
}

fn span() -> SpanHandle {
    Span::inactive().handle()
}

async fn begin(storage: &'static MemoryStorage, url: &str) -> MissHandler {
    let begun = storage.get_miss_handler(&key(url), &meta(), &span()).await;
    begun.unwrap_or_else(|error| panic!("{error}"))
}

async fn store(storage: &'static MemoryStorage, url: &str, size: usize) {
    let mut writer = begin(storage, url).await;
    let body = Bytes::from(vec![b'x'; size]);
    writer.write_body(body, true).await.unwrap();
    writer.finish().await.unwrap();
}

async fn body(storage: &'static MemoryStorage, url: &str) -> Option<Vec<u8>> {
    let (_, mut reader) = storage.lookup(&key(url), &span()).await.unwrap()?;
    let mut whole = Vec::new();
    while let Some(piece) = reader.read_body().await.unwrap() {
        assert!(piece.len() <= sluicegate_base::bounds::STORED_PIECE);
        whole.extend_from_slice(&piece);
    }
    Some(whole)
}

/// Goal: the memory is bounded, and unused answers are evicted. Method: ten times as much as fits, one of them read all the
/// time.
#[tokio::test]
async fn what_is_used_stays_and_the_rest_makes_room() {
    let storage = storage(1_000_000);
    for number in 0..1_000 {
        store(storage, &format!("http://a/{number}"), 10_000).await;
        store(storage, "http://a/hot", 100).await;
        assert!(body(storage, "http://a/hot").await.is_some());
        let usage = storage.usage();
        assert!(usage.bytes <= usage.memory, "{usage:?}");
    }
    let usage = storage.usage();
    assert!(usage.objects > 80 && usage.bytes > 900_000, "{usage:?}");
    assert!(body(storage, "http://a/hot").await.is_some());
    storage.resize(0);
    let usage = storage.usage();
    assert_eq!((usage.bytes, usage.objects), (0, 0));
}

/// Goal: in a small memory too, where a shard may have one answer, an answer in use stays, and a new one is stored. Method: many
/// memories of five answers, and for each the last that came.
#[tokio::test]
async fn what_is_alone_in_its_part_does_not_make_room_first() {
    for _ in 0..100 {
        let storage = storage(50_000);
        store(storage, "http://a/hot", 100).await;
        for number in 0..20 {
            store(storage, &format!("http://a/{number}"), 9_000).await;
            assert!(body(storage, "http://a/hot").await.is_some(), "{number}");
        }
        assert!(body(storage, "http://a/19").await.is_some());
    }
}

/// Goal: answers that are being stored count too, and leave nothing when they are dropped. Method: writers that hold more than
/// there is.
#[tokio::test]
async fn what_is_being_stored_is_part_of_the_memory() {
    let storage = storage(100_000);
    let mut writers = Vec::new();
    for number in 0..20 {
        let mut writer = begin(storage, &format!("http://a/{number}")).await;
        let piece = Bytes::from(vec![b'x'; 10_000]);
        writer.write_body(piece, false).await.unwrap();
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
#[tokio::test]
async fn answers_are_visible_when_they_are_complete() {
    let storage = storage(1_000_000);
    let mut writer = begin(storage, "http://a/").await;
    for _ in 0..3 {
        writer
            .write_body(Bytes::from(vec![b'x'; 70_000]), false)
            .await
            .unwrap();
        assert!(body(storage, "http://a/").await.is_none());
    }
    writer.finish().await.unwrap();
    assert_eq!(
        body(storage, "http://a/").await.map(|body| body.len()),
        Some(210_000)
    );
    let (found, _) = storage
        .lookup(&key("http://a/"), &span())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.headers()["content-length"], "210000");

    let mut announced = meta();
    let header = announced.response_header_mut();
    header.insert_header("content-length", "5").unwrap();
    let mut writer = storage
        .get_miss_handler(&key("http://a/short"), &announced, &span())
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    writer
        .write_body(Bytes::from_static(b"1234"), true)
        .await
        .unwrap();
    writer.finish().await.unwrap();
    assert!(body(storage, "http://a/short").await.is_none());
}

/// Goal: a purge also removes answers that were requested before it. Method: purge and write to a URL while it is being stored;
/// another stays.
#[tokio::test]
async fn what_is_taken_away_does_not_come_back() {
    let storage = storage(1_000_000);
    for spoil in [
        (|storage| assert_eq!(storage.invalidate(b"http://a/"), 0)) as fn(&MemoryStorage),
        |storage| assert_eq!(storage.purge(&PurgeScope::All), 1),
        |storage| {
            let purge = PurgeScope::prefix("http://a/").unwrap();
            assert_eq!(storage.purge(&purge), 0);
        },
    ] {
        store(storage, "http://b/", 1).await;
        let writer = begin(storage, "http://a/").await;
        spoil(storage);
        writer.finish().await.unwrap();
        assert!(body(storage, "http://a/").await.is_none());
    }
    store(storage, "http://a/", 1).await;
    assert!(body(storage, "http://a/").await.is_some());
}

/// Goal: a reader returns the requested ranges, one after the other. Method: seek twice in one reader, and outside.
#[tokio::test]
async fn parts_of_a_body_can_be_sought() {
    let storage = storage(1_000_000);
    store(storage, "http://a/", 10).await;
    let (_, mut reader) = storage
        .lookup(&key("http://a/"), &span())
        .await
        .unwrap()
        .unwrap();
    for (from, to, length) in [(2, Some(5), 3), (8, None, 2), (8, Some(100), 2)] {
        reader.seek(from, to).unwrap();
        let piece = reader.read_body().await.unwrap().unwrap();
        assert_eq!(piece.len(), length);
        assert!(reader.read_body().await.unwrap().is_none());
    }
    assert!(reader.seek(10, None).is_err());
}
