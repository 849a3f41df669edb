//! Decides when the configuration is read again: at SIGHUP, and when something happens in the directory of one of its files.
//!
//! Lists and the keys of tokens lie in files of their own, which are read with it. Directories are watched rather than files, so that
//! atomic renames and the symbolic links of mounted config maps are seen: that of each file, and that of what it leads to.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use log::{info, warn};
use notify::event::ModifyKind;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use tokio::sync::{Notify, mpsc};

use crate::live::Live;

/// How long the directory must be quiet before the file is read: an editor writes in several steps.
const SETTLE: Duration = Duration::from_millis(20);

/// The background service.
pub struct Reloads {
    live: Arc<Live>,
    hangup: Arc<Notify>,
}

impl Reloads {
    /// Reloads `live` when its files change, and when `hangup` says that SIGHUP came.
    #[must_use]
    pub fn new(live: Arc<Live>, hangup: Arc<Notify>) -> Self {
        Self { live, hangup }
    }
}

#[async_trait]
impl BackgroundService for Reloads {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        // One pending event is enough: it means "look again".
        let (events, mut changes) = mpsc::channel(1);
        // The first look is for what changed before anybody watched.
        let _ = events.try_send(());
        let mut files = self.live.files();
        let mut directories = directories_of(&files);
        let mut watcher = watch(&directories, &files, events.clone());
        let mut seen = self.live.version_at_start.clone();
        loop {
            tokio::select! {
                () = self.hangup.notified() => {
                    info!("SIGHUP: reloading");
                    seen = Version::of(&files);
                    self.live.reload();
                }
                Some(()) = changes.recv() => {
                    settle(&mut changes).await;
                    let version = Version::of(&files);
                    if version != seen {
                        seen = version;
                        self.live.reload();
                    }
                }
                _ = shutdown.changed() => return,
            }
            let named = self.live.files();
            let around = directories_of(&named);
            if named != files || around != directories {
                // The old watcher goes first, so that no directory is watched twice.
                drop(watcher.take());
                watcher = watch(&around, &named, events.clone());
                if named != files {
                    // A file that is named only now may have changed since it was read, so it is looked at once more.
                    seen = Version::default();
                }
                (files, directories) = (named, around);
                // What changed before the new watcher was there is looked for.
                let _ = events.try_send(());
            }
        }
    }
}

/// Tells two contents of the files apart without reading them; other files of their directories change too.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Version(Vec<Option<FileFacts>>);

/// Device, number, time of the last change in seconds and nanoseconds, size.
type FileFacts = (u64, u64, i64, i64, u64);

impl Version {
    /// Follows symbolic links, so that a swapped config map is a new version.
    #[must_use]
    pub fn of(files: &[PathBuf]) -> Self {
        let version = |file: &PathBuf| {
            let facts = std::fs::metadata(file).ok()?;
            Some((
                facts.dev(),
                facts.ino(),
                facts.mtime(),
                facts.mtime_nsec(),
                facts.size(),
            ))
        };
        Self(files.iter().map(version).collect())
    }
}

/// Waits until no event came for [`SETTLE`], at most ten times as long.
async fn settle(changes: &mut mpsc::Receiver<()>) {
    for _ in 0..10 {
        match tokio::time::timeout(SETTLE, changes.recv()).await {
            Ok(Some(())) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

/// Watches the `directories` for changes of `files`; without a watcher SIGHUP still works.
fn watch(
    directories: &[PathBuf],
    files: &[PathBuf],
    events: mpsc::Sender<()>,
) -> Option<RecommendedWatcher> {
    let watched = files.to_vec();
    let notice = move |event: notify::Result<notify::Event>| match event {
        Ok(event) if matches!(event.kind, EventKind::Access(_)) => {}
        // A log that lies beside the file is written to all the time.
        Ok(event)
            if matches!(event.kind, EventKind::Modify(ModifyKind::Data(_)))
                && !concerns(&event, &watched) => {}
        // A full channel already says "look again".
        Ok(_) => drop(events.try_send(())),
        Err(failure) => warn!("watching the configuration: {failure}"),
    };
    let told = |what: &dyn std::fmt::Display, failure: &notify::Error| {
        warn!("{what} cannot be watched, only SIGHUP reloads: {failure}");
    };
    let mut watcher = notify::recommended_watcher(notice)
        .inspect_err(|failure| told(&"the configuration", failure))
        .ok()?;
    for directory in directories {
        // The other directories are watched all the same.
        if let Err(failure) = watcher.watch(directory, RecursiveMode::NonRecursive) {
            told(&directory.display(), &failure);
        }
    }
    Some(watcher)
}

/// Whether what was written may be one of the files: a symbolic link may lead to any other.
fn concerns(event: &notify::Event, files: &[PathBuf]) -> bool {
    files.iter().any(|file| {
        let named = |path: &PathBuf| path.file_name() == file.file_name();
        event.paths.iter().any(named) || file.is_symlink()
    })
}

/// The directories that hold the files, and those that hold what symbolic links among them lead to.
fn directories_of(files: &[PathBuf]) -> Vec<PathBuf> {
    let mut all: Vec<_> = files.iter().map(|file| directory_of(file)).collect();
    let elsewhere = files.iter().filter_map(|file| {
        let target = directory_of(&file.canonicalize().ok()?);
        let own = directory_of(file).canonicalize().ok()?;
        (target != own).then_some(target)
    });
    all.extend(elsewhere);
    all.sort();
    all.dedup();
    all
}

fn directory_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
