//! Decides when the configuration is read again: at SIGHUP, at a request of the admin listener, and when one of its files has
//! changed.
//!
//! Lists and the keys of tokens are in files of their own, which are read with it. Directories are watched rather than files, so
//! that atomic renames and the symbolic links of mounted config maps are detected: the directory of each file, and those of the
//! symbolic links on its path.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};
use tracing::info;

use super::{GatewayProcess, ReloadTrigger};

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(target_os = "linux")]
use self::inotify::InotifyWatcher as NameWatcher;
#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
use self::portable::PortableWatcher as NameWatcher;

/// The time from a change to the check of the files: several files are often written one after the other.
const SETTLE: Duration = Duration::from_millis(20);
/// The least time between two reloads that changes of files cause.
const REST: Duration = Duration::from_secs(1);
/// The period of checks of the files where a directory cannot be watched.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// The maximum number of symbolic links on the path of a file, as in Linux.
const MAX_LINKS: usize = 40;

/// The background service.
pub struct Reloads {
    process: Arc<GatewayProcess>,
    hangup: Arc<Notify>,
}

impl Reloads {
    /// Reloads `process` when its files change, and when `hangup` reports SIGHUP.
    #[must_use]
    pub fn new(process: Arc<GatewayProcess>, hangup: Arc<Notify>) -> Self {
        Self { process, hangup }
    }
}

#[async_trait]
impl BackgroundService for Reloads {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut watch = Watch::new(&self.process);
        // A change from before the watch began is checked for at once.
        let mut due = Some(Box::pin(sleep(Duration::ZERO)));
        let mut rest = Duration::ZERO;
        loop {
            tokio::select! {
                () = self.hangup.notified() => {
                    info!("SIGHUP: reloading");
                    watch.seen = FilesVersion::new(&self.process.files());
                    self.process.reload(ReloadTrigger::Hangup);
                }
                () = self.process.reloader.requests.requested() => {
                    info!("reloading, as asked for by the admin listener");
                    watch.seen = FilesVersion::new(&self.process.files());
                    let requests = &self.process.reloader.requests;
                    requests.fulfill(|peers| self.process.reload(ReloadTrigger::Requests(peers)));
                }
                () = watch.changed() => {
                    due.get_or_insert_with(|| Box::pin(sleep(SETTLE.max(rest))));
                    continue;
                }
                () = elapsed(&mut due) => {
                    due = None;
                    let reloaded = watch.look(&self.process);
                    rest = if reloaded { REST } else { Duration::ZERO };
                }
                _ = shutdown.changed() => return,
            }
            if watch.follow(&self.process) {
                due = Some(Box::pin(sleep(rest)));
            }
        }
    }
}

/// Waits for the time that is `due`, forever where none is.
async fn elapsed(due: &mut Option<Pin<Box<Sleep>>>) {
    match due {
        Some(due) => due.await,
        None => std::future::pending().await,
    }
}

/// The files of the configuration in force, and the watcher of their directories.
struct Watch {
    files: Vec<PathBuf>,
    names: BTreeSet<WatchedName>,
    watcher: NameWatcher,
    seen: FilesVersion,
}

impl Watch {
    fn new(process: &GatewayProcess) -> Self {
        let files = process.files();
        let names = names_of(&files);
        Self {
            watcher: NameWatcher::new(&names),
            files,
            names,
            seen: process.reloader.version_at_start.clone(),
        }
    }

    /// Completes when one of the names may have another content; every second where not every directory can be watched.
    async fn changed(&mut self) {
        if self.watcher.is_complete() {
            self.watcher.changed().await;
        } else {
            let _ = tokio::time::timeout(LOOK_PERIOD, self.watcher.changed()).await;
        }
    }

    /// Reloads `process` if a file has changed.
    fn look(&mut self, process: &GatewayProcess) -> bool {
        // The files at this moment: a pattern may match another file than before.
        let version = FilesVersion::new(&process.files());
        if version == self.seen {
            return false;
        }
        self.seen = version;
        process.reload(ReloadTrigger::Files);
        true
    }

    /// Watches the files that `process` names now. Returns true if they must be checked again, since they may have changed
    /// unwatched.
    fn follow(&mut self, process: &GatewayProcess) -> bool {
        let files = process.files();
        let names = names_of(&files);
        if files == self.files && names == self.names && !self.watcher.is_lost() {
            return false;
        }
        if files != self.files {
            // A file that is named only now may have changed since it was read.
            self.seen = FilesVersion::default();
        }
        self.watcher.replace(&names);
        (self.files, self.names) = (files, names);
        true
    }
}

/// A name in a directory: a file of the configuration, or a symbolic link on the way to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WatchedName {
    directory: PathBuf,
    name: OsString,
}

/// A version of the files, which differs if one changed, without reading them; other files of their directories change too.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FilesVersion(Vec<Option<FileFacts>>);

/// Device, number, time of the last change in seconds and nanoseconds, size. The time is that of the inode, which cannot be set
/// back: `cp --preserve` and archives copy the time of the content.
type FileFacts = (u64, u64, i64, i64, u64);

impl FilesVersion {
    /// Returns the version; follows symbolic links, so that a swapped config map is a new version.
    #[must_use]
    pub fn new(files: &[PathBuf]) -> Self {
        let version = |file: &PathBuf| {
            let facts = std::fs::metadata(file).ok()?;
            Some((
                facts.dev(),
                facts.ino(),
                facts.ctime(),
                facts.ctime_nsec(),
                facts.size(),
            ))
        };
        Self(files.iter().map(version).collect())
    }
}

/// Returns the names that lead to the files.
fn names_of(files: &[PathBuf]) -> BTreeSet<WatchedName> {
    let mut names = BTreeSet::new();
    for file in files {
        let mut links = MAX_LINKS;
        add_names(file, &mut links, &mut names);
    }
    names
}

/// Adds the last component of `path`, and every component that is a symbolic link with the names that lead to its target.
fn add_names(path: &Path, links: &mut usize, names: &mut BTreeSet<WatchedName>) {
    let mut directory = PathBuf::from(if path.is_absolute() { "/" } else { "." });
    let mut rest = path.components().peekable();
    while let Some(component) = rest.next() {
        let Component::Normal(name) = component else {
            directory.push(component);
            continue;
        };
        let here = directory.join(name);
        let target = std::fs::read_link(&here).ok();
        if target.is_some() || rest.peek().is_none() {
            names.insert(WatchedName {
                directory: directory.clone(),
                name: name.to_owned(),
            });
        }
        let Some(target) = target.filter(|_| *links > 0) else {
            directory = here;
            continue;
        };
        *links -= 1;
        let whole = directory.join(target).join(rest.collect::<PathBuf>());
        return add_names(&whole, links, names);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(path: &Path, root: &Path) -> Vec<String> {
        let shown = |name: &WatchedName| {
            let path = name.directory.join(&name.name);
            path.strip_prefix(root).unwrap().display().to_string()
        };
        names_of(&[path.to_owned()]).iter().map(shown).collect()
    }

    #[test]
    fn every_symbolic_link_on_the_way_is_a_name() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("map/..1")).unwrap();
        std::fs::write(root.join("map/..1/gateway.toml"), "").unwrap();
        symlink("..1", root.join("map/..data")).unwrap();
        symlink("..data/gateway.toml", root.join("map/gateway.toml")).unwrap();
        symlink("map", root.join("current")).unwrap();
        let found = names(&root.join("current/gateway.toml"), &root);
        let expected = [
            "current",
            "map/..1/gateway.toml",
            "map/..data",
            "map/gateway.toml",
        ];
        assert_eq!(
            found.iter().map(String::as_str).collect::<BTreeSet<_>>(),
            BTreeSet::from(expected)
        );
    }

    #[test]
    fn a_loop_of_symbolic_links_ends() {
        let root = tempfile::tempdir().unwrap();
        symlink("b", root.path().join("a")).unwrap();
        symlink("a", root.path().join("b")).unwrap();
        assert_eq!(names_of(&[root.path().join("a")]).len(), 2);
    }

    #[test]
    fn a_file_that_is_not_there_has_a_name() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        assert_eq!(names(&root.join("none.toml"), &root), ["none.toml"]);
    }
}
