//! Watches names in directories by inotify.
//!
//! The watch covers finished changes only: a written file is closed, a name is added or removed. A file that is written
//! continuously causes no work.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inotify::{Event, EventMask, Inotify, WatchDescriptor, WatchMask};
use tokio::io::unix::AsyncFd;
use tracing::warn;

use super::WatchedName;

/// The pause after a batch of events about other names: the kernel joins equal events meanwhile, and drops those beyond 16,384.
const PAUSE: Duration = Duration::from_millis(100);
/// The time in which a created file is expected to be closed: a symbolic link, and a hard link, never is.
const UNFINISHED: Duration = Duration::from_secs(1);
/// The size of the buffer that events are read into, in bytes.
const BUFFER: usize = 16 * 1024;

/// A watch over names in directories.
pub(super) struct InotifyWatcher {
    events: Option<Events>,
    /// The directories that cannot be watched, each logged once.
    unwatched: BTreeSet<PathBuf>,
    lost: bool,
}

/// An inotify instance.
struct Events {
    inotify: AsyncFd<Inotify>,
    names: HashMap<WatchDescriptor, BTreeSet<OsString>>,
}

impl InotifyWatcher {
    /// Watches the directories of `names`, and warns of each that cannot be watched.
    pub(super) fn new(names: &BTreeSet<WatchedName>) -> Self {
        let mut watcher = Self {
            events: None,
            unwatched: BTreeSet::new(),
            lost: false,
        };
        watcher.replace(names);
        watcher
    }

    /// Watches other names.
    pub(super) fn replace(&mut self, names: &BTreeSet<WatchedName>) {
        let told = std::mem::take(&mut self.unwatched);
        // The former instance is closed first, so that no more than one counts against the limit of the user.
        self.events = None;
        self.lost = false;
        let mut events = match Events::new() {
            Ok(events) => events,
            Err(failure) => {
                let everything = PathBuf::new();
                if !told.contains(&everything) {
                    warn!(
                        "the configuration cannot be watched ({failure}), so its files are looked at every second: raise \
                         fs.inotify.max_user_instances"
                    );
                }
                self.unwatched.insert(everything);
                return;
            }
        };
        for WatchedName { directory, name } in names {
            if let Err(failure) = events.add(directory, name) {
                if !told.contains(directory) && !self.unwatched.contains(directory) {
                    warn!(
                        "{} cannot be watched ({failure}), so the files in it are looked at every second",
                        directory.display()
                    );
                }
                self.unwatched.insert(directory.clone());
            }
        }
        self.events = Some(events);
    }

    /// Returns true if every directory is watched.
    pub(super) fn is_complete(&self) -> bool {
        self.unwatched.is_empty()
    }

    /// Returns true if directories must be watched again: one was removed, or could not be watched.
    pub(super) fn is_lost(&self) -> bool {
        self.lost || !self.is_complete()
    }

    /// Completes when one of the names may have another content.
    pub(super) async fn changed(&mut self) {
        match &mut self.events {
            Some(events) => match events.next().await {
                Ok(lost) => self.lost |= lost,
                Err(failure) => {
                    warn!("the configuration is not watched any more, and watched anew: {failure}");
                    self.lost = true;
                }
            },
            None => std::future::pending().await,
        }
    }
}

impl Events {
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for types whose descriptor may be another at each call: that of Inotify stays the same"
    )]
    fn new() -> io::Result<Self> {
        Ok(Self {
            inotify: AsyncFd::new(Inotify::init()?)?,
            names: HashMap::new(),
        })
    }

    fn add(&mut self, directory: &Path, name: &OsStr) -> io::Result<()> {
        let finished =
            WatchMask::CLOSE_WRITE | WatchMask::MOVE | WatchMask::CREATE | WatchMask::DELETE;
        let directory_itself = WatchMask::DELETE_SELF | WatchMask::MOVE_SELF | WatchMask::ONLYDIR;
        let mut watches = self.inotify.get_ref().watches();
        let descriptor = watches.add(directory, finished | directory_itself)?;
        // Two paths may lead to one directory.
        let names = self.names.entry(descriptor).or_default();
        names.insert(name.to_owned());
        Ok(())
    }

    /// Waits for an event about one of the names. Returns true if a directory was removed.
    async fn next(&mut self) -> io::Result<bool> {
        let mut found = self.batch().await?;
        if found == WatchEvent::Created
            && let Ok(next) = tokio::time::timeout(UNFINISHED, self.batch()).await
        {
            found = next?;
        }
        Ok(found == WatchEvent::Lost)
    }

    /// Waits for a batch of events in which one is about one of the names.
    async fn batch(&mut self) -> io::Result<WatchEvent> {
        loop {
            let mut ready = self.inotify.readable_mut().await?;
            match ready.try_io(|inotify| read(inotify.get_mut(), &self.names)) {
                Ok(Ok(WatchEvent::Nothing)) => tokio::time::sleep(PAUSE).await,
                Ok(found) => return found,
                Err(_would_block) => {}
            }
        }
    }
}

/// The most important of the events in a batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WatchEvent {
    Nothing,
    /// A name was added, and its file may still be written.
    Created,
    Finished,
    Lost,
}

/// Reads one batch of events.
fn read(
    inotify: &mut Inotify,
    names: &HashMap<WatchDescriptor, BTreeSet<OsString>>,
) -> io::Result<WatchEvent> {
    let mut buffer = [0; BUFFER];
    let events = inotify.read_events(&mut buffer)?;
    let found = events.map(|event| judge(&event, names)).max();
    Ok(found.unwrap_or(WatchEvent::Nothing))
}

/// Returns whether a name matches a pattern of `include`, which is one of the names.
fn fits(pattern: &OsStr, name: &OsStr) -> bool {
    let Some((pattern, name)) = pattern.to_str().zip(name.to_str()) else {
        return false;
    };
    pattern.contains(['*', '?', '['])
        && glob::Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(name))
}

fn judge(
    event: &Event<&OsStr>,
    names: &HashMap<WatchDescriptor, BTreeSet<OsString>>,
) -> WatchEvent {
    let gone =
        EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::IGNORED | EventMask::UNMOUNT;
    if event.mask.intersects(gone) {
        return WatchEvent::Lost;
    }
    if event.mask.contains(EventMask::Q_OVERFLOW) {
        return WatchEvent::Finished;
    }
    let named = |name: &OsStr| {
        names
            .get(&event.wd)
            .is_some_and(|names| names.contains(name) || names.iter().any(|each| fits(each, name)))
    };
    match event.name {
        Some(name) if named(name) && event.mask.contains(EventMask::CREATE) => WatchEvent::Created,
        Some(name) if named(name) => WatchEvent::Finished,
        _ => WatchEvent::Nothing,
    }
}
