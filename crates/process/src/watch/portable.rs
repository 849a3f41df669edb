//! Watches names in directories where there is no inotify.

use std::collections::BTreeSet;
use std::path::Path;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode};
use tokio::sync::mpsc;
use tracing::warn;

use super::WatchedName;

/// A watch over names in directories.
pub(super) struct PortableWatcher {
    changes: mpsc::Receiver<()>,
    /// The system's watcher, which stops when it is dropped.
    _system: Option<RecommendedWatcher>,
    complete: bool,
}

impl PortableWatcher {
    /// Watches the directories of `names`, and warns of each that cannot be watched.
    pub(super) fn new(names: &BTreeSet<WatchedName>) -> Self {
        // One pending event is enough: it means "check again".
        let (events, changes) = mpsc::channel(1);
        let watched = names.clone();
        let notice = move |event: notify::Result<Event>| {
            if event.map_or(true, |event| concerns(&event, &watched)) {
                drop(events.try_send(()));
            }
        };
        let mut system = notify::recommended_watcher(notice)
            .inspect_err(|failure| told(Path::new("the configuration"), failure))
            .ok();
        let mut complete = system.is_some();
        let directories: BTreeSet<_> = names.iter().map(|name| &name.directory).collect();
        for directory in directories {
            if let Some(system) = &mut system
                && let Err(failure) =
                    notify::Watcher::watch(system, directory, RecursiveMode::NonRecursive)
            {
                told(directory, &failure);
                complete = false;
            }
        }
        Self {
            changes,
            _system: system,
            complete,
        }
    }

    /// Watches other names.
    pub(super) fn replace(&mut self, names: &BTreeSet<WatchedName>) {
        *self = Self::new(names);
    }

    /// Returns true if every directory is watched.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns true if directories must be watched again.
    pub(super) fn is_lost(&self) -> bool {
        false
    }

    /// Completes when one of the names may have another content.
    pub(super) async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

fn told(what: &Path, failure: &notify::Error) {
    warn!(
        "{} cannot be watched ({failure}), so the files are looked at every second",
        what.display()
    );
}

fn concerns(event: &Event, names: &BTreeSet<WatchedName>) -> bool {
    let named = |path: &Path| {
        names
            .iter()
            .any(|name| path.file_name() == Some(&name.name))
    };
    !matches!(event.kind, EventKind::Access(_)) && event.paths.iter().any(|path| named(path))
}
