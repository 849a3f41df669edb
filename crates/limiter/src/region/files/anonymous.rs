//! Owns counters in files without a name in any file system: memory that another process can be given while this one uses it.
//!
//! They are files as those of a [`StateDir`](super::StateDir) are, header and all, and are told apart and trusted by the same
//! [`FileIdentity`]; but they lie in memory (memfd_create(2)), and the system frees one with its last user, however that ends: there is
//! nothing to sweep and nothing to repair. A process that is given some goes on counting in them, beside the one that gave them.
//!
//! # Invariants
//! 1. *As long as they are used.* Here they are known weakly: a table that no limit uses any more takes no memory.
//! 2. *Never shorter.* A file is sealed before it is used (fcntl(2), `F_SEAL_SHRINK`), and one that is not is not taken: touching a page
//!    that another process has cut off would be fatal.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::key::Seed;
use crate::region::Region;
use crate::time::Timestamp;

use super::error::{OpenOutcome, StateError};
use super::identity::{FileIdentity, HEADER_BYTES};
use super::open::recognise;

/// Counters in memory that can be given to another process.
#[derive(Debug)]
pub struct AnonymousFiles {
    seed: Seed,
    files: Mutex<NamedFiles>,
}

/// Files by the name of their identity.
pub(crate) type NamedFiles = BTreeMap<String, NamedFile>;

/// A file that is known here.
#[derive(Debug)]
pub(crate) enum NamedFile {
    /// The file was given, and no limit has asked for it yet.
    Given(File),
    /// A region lies in it, or did.
    Used(Weak<File>),
}

/// A file that has no name yet.
#[derive(Debug)]
pub(crate) struct UnnamedFile {
    name: String,
    file: Weak<File>,
}

impl AnonymousFiles {
    /// None yet; keys are hashed under `seed`.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            files: Mutex::default(),
        }
    }

    /// The seed that all keys must be hashed under.
    #[must_use]
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Takes a file over that another process gives under this name. The region of that identity will lie in it.
    ///
    /// # Errors
    /// When it could be made shorter (invariant 2), or is none of this kind.
    pub fn take(&self, name: String, file: OwnedFd) -> io::Result<()> {
        if !is_sealed(&file)? {
            let message = "it could be made shorter while it is used";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        self.lock().insert(name, NamedFile::Given(File::from(file)));
        Ok(())
    }

    /// Duplicates of the files that are in use, with their names, for another process.
    ///
    /// # Errors
    /// The system's, out of descriptors.
    pub fn in_use(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        let mut duplicates = Vec::new();
        for (name, known) in &*self.lock() {
            if let NamedFile::Used(file) = known
                && let Some(file) = file.upgrade()
            {
                duplicates.push((name.clone(), file.try_clone()?.into()));
            }
        }
        Ok(duplicates)
    }

    /// Lets go of what was given and no limit has asked for; the names.
    pub fn forget_unused(&self) -> Vec<String> {
        let unused = |_: &String, known: &mut NamedFile| matches!(known, NamedFile::Given(_));
        let mut files = self.lock();
        files.extract_if(.., unused).map(|(name, _)| name).collect()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, NamedFiles> {
        // Every change of the map is one call of its own, so a poisoned lock still holds a whole one.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a region like `StateDir::region`. Nothing is recovered: the process that gave a file may still count in
    /// it, and no other can have it.
    pub(super) fn region(
        &self,
        files: &mut NamedFiles,
        identity: &FileIdentity,
        now: Timestamp,
    ) -> Result<(Region, OpenOutcome), StateError> {
        let name = identity.file_name();
        let path = shown(name);
        let fail = |action| StateError::io(action, &path);
        let found = match files.get(name) {
            Some(NamedFile::Given(file)) => {
                Some(Arc::new(file.try_clone().map_err(fail("share"))?))
            }
            Some(NamedFile::Used(file)) => file.upgrade(),
            None => None,
        };
        if let Some(file) = found
            // One that is not trusted gives way: the name says what it was to be, so it is another version's.
            && let Ok(words) = recognise(&file, identity, &self.seed).map_err(fail("read"))?
        {
            let used = NamedFile::Used(Arc::downgrade(&file));
            let region = Region::mapped(file, HEADER_BYTES, words).map_err(fail("map"))?;
            files.insert(name.to_owned(), used);
            return Ok((region, OpenOutcome::Joined));
        }
        let (region, unnamed) = self.draft(identity, now)?;
        Self::publish(files, unnamed);
        Ok((region, OpenOutcome::Fresh))
    }

    /// Makes a draft like `StateDir::draft`.
    pub(super) fn draft(
        &self,
        identity: &FileIdentity,
        now: Timestamp,
    ) -> Result<(Region, UnnamedFile), StateError> {
        let name = identity.file_name();
        let path = shown(name);
        let fail = |action| StateError::io(action, &path);
        let bytes = identity.file_bytes().ok_or_else(|| StateError::NoSpace {
            path: path.clone(),
            bytes: u64::MAX,
        })?;
        let file = make(name).map_err(fail("make"))?;
        // Pages take memory from their first write on: there is no disk that could be full.
        file.set_len(bytes).map_err(fail("size"))?;
        file.write_all_at(identity.header(&self.seed, now).bytes(), 0)
            .map_err(fail("write"))?;
        seal(&file).map_err(fail("seal"))?;
        let file = Arc::new(file);
        let unnamed = UnnamedFile {
            name: name.to_owned(),
            file: Arc::downgrade(&file),
        };
        let region = Region::mapped(file, HEADER_BYTES, identity.words()).map_err(fail("map"))?;
        Ok((region, unnamed))
    }

    /// Publishes a draft like `StateDir::publish`.
    pub(super) fn publish(files: &mut NamedFiles, unnamed: UnnamedFile) {
        // Invariant 1: names of what is gone would pile up with every edit.
        files
            .retain(|_, known| !matches!(known, NamedFile::Used(file) if file.strong_count() == 0));
        files.insert(unnamed.name, NamedFile::Used(unnamed.file));
    }
}

/// The path that `/proc/PID/maps` shows.
fn shown(name: &str) -> PathBuf {
    PathBuf::from(format!("/memfd:{name}"))
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod system {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};

    pub(super) fn make(name: &str) -> io::Result<File> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        Ok(File::from(memfd_create(name, flags)?))
    }

    pub(super) fn seal(file: &File) -> io::Result<()> {
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        Ok(fcntl_add_seals(file, seals)?)
    }

    pub(super) fn is_sealed(file: impl AsFd) -> io::Result<bool> {
        Ok(fcntl_get_seals(file)?.contains(SealFlags::SHRINK))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
mod system {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsFd;

    pub(super) fn make(_: &str) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn seal(_: &File) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn is_sealed(_: impl AsFd) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

use system::{is_sealed, make, seal};

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::StateLocation;
    use super::*;
    use crate::region::LayoutId;
    use crate::sync::Ordering;

    const SEED: Seed = Seed::from_bytes([5; 16]);
    const NOW: Timestamp = Timestamp::from_secs(1_900_000_000);

    fn identity(name: &str) -> FileIdentity {
        FileIdentity::new(name, LayoutId(1), 1000, &[b"client.ip"])
    }

    fn open(files: &AnonymousFiles, name: &str) -> (Region, OpenOutcome) {
        let mut turn = StateLocation::from(files).turn().expect("a turn");
        turn.region(&identity(name), NOW, |_| ()).expect("room")
    }

    /// Returns the files as another process would get them.
    fn given(files: &AnonymousFiles) -> AnonymousFiles {
        let other = AnonymousFiles::new(files.seed());
        for (name, file) in files.in_use().expect("descriptors") {
            other.take(name, file).expect("it is sealed");
        }
        other
    }

    /// Goal: who is given counters goes on in them while the giver does. Method: both add to one word; another name is new.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn both_count_in_what_was_given() {
        let giver = AnonymousFiles::new(SEED);
        let (ours, adopted) = open(&giver, "otp");
        assert_eq!(adopted, OpenOutcome::Fresh);
        ours[999].fetch_add(3, Ordering::Relaxed);
        let taker = given(&giver);
        let (theirs, adopted) = open(&taker, "otp");
        assert_eq!(adopted, OpenOutcome::Joined);
        assert_eq!(theirs[999].fetch_add(4, Ordering::Relaxed), 3);
        assert_eq!(ours[999].load(Ordering::Relaxed), 7);
        assert_eq!(open(&taker, "api").1, OpenOutcome::Fresh);
        drop((ours, giver));
        let third = given(&taker);
        assert_eq!(open(&third, "otp").0[999].load(Ordering::Relaxed), 7);
    }

    /// Goal: invariant 1. Method: regions come and go; what nobody uses is neither given nor found, and what was given in vain goes.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_table_that_nobody_uses_takes_no_memory() {
        let files = AnonymousFiles::new(SEED);
        let (region, _) = open(&files, "otp");
        let taker = given(&files);
        drop(region);
        assert!(files.in_use().expect("none").is_empty());
        assert_eq!(open(&files, "otp").1, OpenOutcome::Fresh);
        for name in ["one", "two", "three"] {
            drop(open(&files, name));
        }
        assert!(files.lock().len() <= 1, "the last one");
        assert!(taker.in_use().expect("none").is_empty(), "nobody asked yet");
        assert_eq!(taker.forget_unused(), [identity("otp").file_name()]);
        assert_eq!(open(&taker, "otp").1, OpenOutcome::Fresh);
    }

    /// Goal: an edit is found under its name once it is complete. Method: a draft beside the region of its name.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_draft_takes_the_place_of_what_has_its_name() {
        let files = AnonymousFiles::new(SEED);
        let (old, _) = open(&files, "otp");
        let place = StateLocation::from(&files);
        let (new, draft) = place.draft(&identity("otp"), NOW).expect("room");
        new[0].store(9, Ordering::Relaxed);
        assert_eq!(open(&files, "otp").0[0].load(Ordering::Relaxed), 0);
        draft.publish().expect("a place");
        assert_eq!(open(&files, "otp").0[0].load(Ordering::Relaxed), 9);
        assert_eq!(old[0].load(Ordering::Relaxed), 0);
    }

    /// Goal: nothing is taken that could kill this process, or means something else. Method: a file that is not sealed, a plain one, and
    /// one under another seed; a sealed one cannot be cut.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn what_cannot_be_trusted_is_not_taken() {
        let files = AnonymousFiles::new(SEED);
        let name = || identity("otp").file_name().to_owned();
        let loose = make("loose").expect("a file");
        assert!(files.take(name(), loose.into()).is_err());
        let plain = File::open("/dev/null").expect("it is there");
        assert!(files.take(name(), plain.into()).is_err());
        let foreign = AnonymousFiles::new(Seed::from_bytes([6; 16]));
        let (_theirs, _) = open(&foreign, "otp");
        let (_, file) = foreign.in_use().expect("one").remove(0);
        let cut = File::from(file.try_clone().expect("a duplicate")).set_len(4096);
        assert!(cut.is_err(), "it is sealed");
        files.take(name(), file).expect("it is sealed");
        assert_eq!(open(&files, "otp").1, OpenOutcome::Fresh);
    }
}
