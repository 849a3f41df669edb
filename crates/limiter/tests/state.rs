//! C4 at the file system: what is found is trusted only if it is whole, ours, and means the same.
#![cfg(all(feature = "mmap", not(miri)))]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use sluicegate_limiter::{
    BootId, BootTime, ClockReading, FileIdentity, LayoutId, OpenOutcome, Region, Seed, StateDir,
    StateError, Timestamp, UNUSED_FILE_RETENTION, UntrustedFile, WallClock,
};
use tempfile::TempDir;

const NOW: Timestamp = Timestamp::from_secs(1_900_000_000);
const SEED: Seed = Seed::from_bytes([1; 16]);
const WORDS: usize = 1000;
const HEADER: usize = 4096;

fn identity(name: &str) -> FileIdentity {
    FileIdentity::new(name, LayoutId(1), WORDS, &[b"client.ip", b"60"])
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn state(at: &Path) -> StateDir {
    StateDir::open(at, SEED).expect("a state directory")
}

/// Opens a region that nobody has to heal.
fn open(state: &StateDir, identity: &FileIdentity) -> (Region, OpenOutcome) {
    state.region(identity, NOW, |_| {}).expect("a region")
}

/// A directory with one file, in which the first word counts 7.
fn counted() -> (TempDir, PathBuf) {
    let home = directory();
    let (region, adopted) = open(&state(home.path()), &identity("otp"));
    assert_eq!(adopted, OpenOutcome::Fresh);
    region[0].store(7, Ordering::Relaxed);
    let file = home.path().join(identity("otp").file_name());
    (home, file)
}

/// Why the file of `identity("otp")` is set aside; what takes its place counts nothing.
fn distrust(home: &Path) -> Option<UntrustedFile> {
    let state = state(home);
    let (region, adopted) = open(&state, &identity("otp"));
    match adopted {
        OpenOutcome::SetAside { reason, moved_to } => {
            assert!(moved_to.symlink_metadata().is_ok());
            assert!(region.iter().all(|word| word.load(Ordering::Relaxed) == 0));
            Some(reason)
        }
        _ => None,
    }
}

fn names(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home).expect("it is there");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a name");
    let mut names: Vec<_> = entries.map(|entry| name(entry.expect("one"))).collect();
    names.sort();
    names
}

/// Goal: counts outlive who counted. Method: write, close, open.
#[test]
fn words_are_found_again() {
    let (home, file) = counted();
    let state = state(home.path());
    let (region, adopted) = open(&state, &identity("otp"));
    assert_eq!(adopted, OpenOutcome::Continued);
    assert_eq!(region.len(), WORDS);
    assert_eq!(region[0].load(Ordering::Relaxed), 7);
    let (other, adopted) = open(&state, &identity("api"));
    assert_eq!(
        (adopted, other[0].load(Ordering::Relaxed)),
        (OpenOutcome::Fresh, 0)
    );
    for name in names(home.path()) {
        let found = fs::metadata(home.path().join(&name)).expect("it is there");
        assert_eq!(found.permissions().mode() & 0o777, 0o600, "{name}");
    }
    assert_eq!(
        fs::metadata(file).expect("it is there").len(),
        (HEADER + 8 * WORDS) as u64
    );
}

/// Goal: nothing is trusted for its name. Method: every way in which a file can be wrong.
#[test]
fn every_wrong_file_is_set_aside_for_its_reason() {
    let whole = (HEADER + 8 * WORDS) as u64;
    let reason = |spoil: &dyn Fn(&Path)| {
        let (home, file) = counted();
        spoil(&file);
        distrust(home.path())
    };
    let write = |file: &Path, at: usize, byte: u8| {
        let mut bytes = fs::read(file).expect("it is there");
        bytes[at] = byte;
        fs::write(file, bytes).expect("it is ours");
    };
    let cut = |file: &Path, bytes| {
        let file = fs::File::options()
            .write(true)
            .open(file)
            .expect("it is there");
        file.set_len(bytes).expect("it is ours");
    };
    assert_eq!(reason(&|_| {}), None);
    assert_eq!(
        reason(&|file| cut(file, 0)),
        Some(UntrustedFile::Short { bytes: 0 })
    );
    assert_eq!(
        reason(&|file| cut(file, 4095)),
        Some(UntrustedFile::Short { bytes: 4095 })
    );
    for bytes in [4096, whole - 8, whole + 8] {
        assert_eq!(
            reason(&|file| cut(file, bytes)),
            Some(UntrustedFile::OtherLength { bytes })
        );
    }
    assert_eq!(
        reason(&|file| write(file, 0, b'x')),
        Some(UntrustedFile::Foreign)
    );
    assert_eq!(
        reason(&|file| write(file, 16, 9)),
        Some(UntrustedFile::OtherVersion { got: 9 })
    );
    assert_eq!(
        reason(&|file| write(file, 3000, 1)),
        Some(UntrustedFile::Damaged)
    );
    let swapped = |file: &Path| {
        let mut bytes = fs::read(file).expect("it is there");
        bytes[8..16].reverse();
        fs::write(file, bytes).expect("it is ours");
    };
    assert_eq!(reason(&swapped), Some(UntrustedFile::OtherMachine));
    let linked = |file: &Path| {
        let elsewhere = file.with_extension("elsewhere");
        fs::rename(file, &elsewhere).expect("it is ours");
        symlink(elsewhere, file).expect("it is ours");
    };
    assert_eq!(reason(&linked), Some(UntrustedFile::NotAFile));
    let folder = |file: &Path| {
        fs::remove_file(file).expect("it is ours");
        fs::create_dir(file).expect("it is ours");
    };
    assert_eq!(reason(&folder), Some(UntrustedFile::NotAFile));
    let open_to_all = |file: &Path| {
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    };
    assert_eq!(
        reason(&open_to_all),
        Some(UntrustedFile::Exposed { mode: 0o644 })
    );
    // Files of another identity that somebody moved here.
    let moved = |other: FileIdentity| {
        reason(&|file: &Path| {
            let state = state(file.parent().expect("it lies in one"));
            drop(open(&state, &other));
            fs::rename(state.path().join(other.file_name()), file).expect("it is ours");
        })
    };
    assert_eq!(moved(identity("api")), Some(UntrustedFile::OtherMeaning));
    let layout = FileIdentity::new("otp", LayoutId(2), WORDS, &[b"client.ip", b"60"]);
    assert_eq!(
        moved(layout),
        Some(UntrustedFile::OtherLayout { got: 1 + 1 })
    );
    let no_seed = |file: &Path| {
        fs::remove_file(file.with_file_name("seed")).expect("it is there");
        StateDir::open(
            file.parent().expect("it lies in one"),
            Seed::from_bytes([2; 16]),
        )
        .expect("a state directory");
    };
    assert_eq!(reason(&no_seed), Some(UntrustedFile::OtherSeed));
}

/// Goal: what is set aside does not fill the disk. Method: a file that is wrong at every start.
#[test]
fn only_the_last_untrusted_files_are_kept() {
    let (home, file) = counted();
    for round in 0..6_u8 {
        fs::write(&file, [round; 10]).expect("it is ours");
        assert_eq!(
            distrust(home.path()),
            Some(UntrustedFile::Short { bytes: 10 })
        );
    }
    let aside: Vec<u8> = names(home.path())
        .iter()
        .filter(|name| name.contains(".set-aside-"))
        .map(|name| fs::read(home.path().join(name)).expect("it is there")[0])
        .collect();
    assert_eq!(aside, [3, 4, 5]);
}

/// Goal: nobody else can have written what is read. Method: directories that others may write to, and what is none.
#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let home = directory();
    for mode in [0o770, 0o707, 0o1777] {
        fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).expect("it is ours");
        let refused = StateDir::open(home.path(), SEED);
        assert!(matches!(refused, Err(StateError::Exposed { mode: got, .. }) if got == mode));
    }
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    state(home.path());
    let file = home.path().join("seed");
    let refused = StateDir::open(&file, SEED);
    assert!(matches!(refused, Err(StateError::NotADirectory { .. })));
    state(&home.path().join("new"));
    let refused = StateDir::open(&home.path().join("far/away"), SEED);
    assert!(matches!(refused, Err(StateError::Io { .. })));
}

/// Goal: room is asked for before it is used. Method: a table that no disk holds.
#[test]
fn a_table_that_does_not_fit_the_disk_is_an_error_at_the_start() {
    let home = directory();
    for words in [1 << 55, usize::MAX] {
        let identity = FileIdentity::new("vast", LayoutId(1), words, &[]);
        let refused = state(home.path()).region(&identity, NOW, |_| {});
        assert!(
            matches!(refused, Err(StateError::NoSpace { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(
        names(home.path()),
        ["lock", "seed"],
        "nothing is left of it"
    );
}

/// Goal: who starts at the same time ends up on the same file. Method: threads, each with a directory handle of its
/// own, as processes have; over and over.
#[test]
fn processes_that_start_together_share_one_file() {
    const THREADS: usize = 8;
    for _ in 0..20 {
        let home = directory();
        let (fresh, start) = (AtomicU32::new(0), Barrier::new(THREADS));
        let seeds = thread::scope(|scope| {
            let run = |thread: usize| {
                let (home, fresh, start) = (&home, &fresh, &start);
                scope.spawn(move || {
                    start.wait();
                    let state = StateDir::open(home.path(), Seed::from_bytes([thread as u8; 16]))
                        .expect("a state directory");
                    let (region, adopted) = open(&state, &identity("otp"));
                    if adopted == OpenOutcome::Fresh {
                        fresh.fetch_add(1, Ordering::Relaxed);
                    }
                    region[5].fetch_add(1, Ordering::Relaxed);
                    state.seed()
                })
            };
            let threads: Vec<_> = (0..THREADS).map(run).collect();
            let seeds = threads
                .into_iter()
                .map(|thread| thread.join().expect("it ends"));
            seeds.collect::<Vec<_>>()
        });
        assert!(seeds.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(fresh.into_inner(), 1);
        let (region, _) = open(&state(home.path()), &identity("otp"));
        assert_eq!(region[5].load(Ordering::Relaxed), THREADS as u64);
    }
}

/// Goal: nobody's change is finished for him while he is at it. Method: heal counts its calls, alone and in company.
#[test]
fn only_who_is_alone_with_a_file_heals_it() {
    let (home, _) = counted();
    let state = state(home.path());
    let healed = AtomicU32::new(0);
    let open = || {
        let heal = |region: &Region| {
            assert_eq!(region[0].load(Ordering::Relaxed), 7);
            healed.fetch_add(1, Ordering::Relaxed);
        };
        state.region(&identity("otp"), NOW, heal).expect("a region")
    };
    let (first, adopted) = open();
    assert_eq!(
        (adopted, healed.load(Ordering::Relaxed)),
        (OpenOutcome::Continued, 1)
    );
    let (second, adopted) = open();
    assert_eq!(
        (adopted, healed.load(Ordering::Relaxed)),
        (OpenOutcome::Joined, 1)
    );
    second[9].fetch_add(1, Ordering::Relaxed);
    assert_eq!(first[9].load(Ordering::Relaxed), 1);
    drop(first);
    assert_eq!(open().1, OpenOutcome::Joined, "one is still there");
    drop(second);
    assert_eq!(open().1, OpenOutcome::Continued);
    assert_eq!(healed.load(Ordering::Relaxed), 2);
}

/// Goal: an edit shows its file when it is whole. Method: a draft before and after its publication, over a file in use;
/// one that nobody publishes.
#[test]
fn a_draft_is_found_once_it_is_published() {
    let (home, _) = counted();
    let state = state(home.path());
    let (region, draft) = state.draft(&identity("otp"), NOW).expect("a draft");
    region[0].store(8, Ordering::Relaxed);
    let (current, _) = open(&state, &identity("otp"));
    assert_eq!(current[0].load(Ordering::Relaxed), 7);
    state.publish(&draft).expect("it can be renamed");
    drop(region);
    let (next, adopted) = open(&state, &identity("otp"));
    assert_eq!(
        (adopted, next[0].load(Ordering::Relaxed)),
        (OpenOutcome::Continued, 8)
    );
    assert_eq!(
        current[0].load(Ordering::Relaxed),
        7,
        "who has the old one keeps it"
    );

    let (region, _) = state.draft(&identity("otp"), NOW).expect("a draft");
    let drafts = || {
        names(home.path())
            .iter()
            .filter(|name| name.contains("draft"))
            .count()
    };
    StateDir::open(home.path(), SEED).expect("a state directory");
    assert_eq!(drafts(), 1, "somebody is at it");
    drop(region);
    StateDir::open(home.path(), SEED).expect("a state directory");
    assert_eq!(drafts(), 0);
}

/// Goal: only what nobody wants goes. Method: files in use, unused, open and set aside, before and after their time.
#[test]
fn a_sweep_removes_what_has_been_unused_for_long() {
    let (home, file) = counted();
    fs::write(file.with_extension("counters.set-aside-1"), "x").expect("it is ours");
    let foreign = home.path().join("notes.txt");
    fs::write(&foreign, "x").expect("it is ours");
    let state = state(home.path());
    drop(open(&state, &identity("used")));
    let open_one = open(&state, &identity("open"));
    let sweep = |wall| {
        state
            .sweep(&[identity("used")], wall)
            .expect("it can be listed")
    };
    let made = fs::metadata(&file)
        .and_then(|found| found.modified())
        .expect("a time");
    let made = made
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a time after 1970");
    let made = Timestamp::default().saturating_add(made);
    let swept = sweep(made.saturating_add(UNUSED_FILE_RETENTION));
    assert_eq!((swept.removed, swept.kept), (0, 3));
    let swept = sweep(made.saturating_add(UNUSED_FILE_RETENTION + Duration::from_secs(60)));
    assert_eq!((swept.removed, swept.kept), (2, 1));
    assert!(!file.exists() && foreign.exists());
    drop(open_one);
    let swept = sweep(made.saturating_add(UNUSED_FILE_RETENTION * 10));
    assert_eq!((swept.removed, swept.kept), (1, 0));
    assert_eq!(open(&state, &identity("used")).1, OpenOutcome::Continued);
}

fn reading(boot: u8, boottime: u64, wall: u64) -> ClockReading {
    ClockReading {
        boot: BootId::from_bytes(&[boot]),
        boottime: BootTime(Duration::from_secs(boottime)),
        wall: WallClock::Unconfirmed(Timestamp::from_secs(wall)),
    }
}

/// Goal: the clock goes on, whatever was cut off. Method: ticks, then each mark spoilt alone, then both.
#[test]
fn the_clock_goes_on_from_the_latest_whole_mark() {
    let home = directory();
    let file = home.path().join("clock");
    let start = NOW.as_secs();
    let now = |boottime: u64, boot| {
        let reading = reading(boot, boottime, 0);
        let (clock, adopted) = state(home.path()).clock(reading).expect("a clock");
        (clock.now(reading.boottime).as_secs(), adopted)
    };
    let state = state(home.path());
    let (clock, adopted) = state.clock(reading(1, 100, start)).expect("a clock");
    assert_eq!(adopted, OpenOutcome::Fresh);
    for tick in 1..=9 {
        state
            .tick(&clock, reading(1, 100 + tick, start + tick))
            .expect("it is written");
    }
    let ticked = fs::read(&file).expect("it is there");
    assert_eq!(now(150, 1), (start + 50, OpenOutcome::Continued));
    // Marks take turns, so the ninth lies first and the eighth second.
    for (spoilt, latest) in [(10, 8), (74, 9)] {
        let mut bytes = ticked.clone();
        bytes[spoilt] ^= 1;
        fs::write(&file, bytes).expect("it is ours");
        assert_eq!(now(1, 2), (start + latest, OpenOutcome::Continued));
    }
    fs::write(&file, &ticked[..100]).expect("it is ours");
    assert_eq!(
        now(150, 1).1,
        OpenOutcome::Continued,
        "the first mark is whole"
    );
    fs::write(&file, b"nonsense").expect("it is ours");
    assert!(matches!(now(150, 1).1, OpenOutcome::SetAside { .. }));
}

/// Goal: keys hash the same after a restart. Method: another fresh seed is offered; then the kept one is spoilt.
#[test]
fn the_first_seed_stays() {
    let home = directory();
    assert_eq!(*state(home.path()).seed_found(), OpenOutcome::Fresh);
    let other = Seed::from_bytes([2; 16]);
    let again = StateDir::open(home.path(), other).expect("a state directory");
    assert!(again.seed() == SEED && *again.seed_found() == OpenOutcome::Continued);
    fs::write(home.path().join("seed"), "mine").expect("it is ours");
    let anew = StateDir::open(home.path(), other).expect("a state directory");
    assert!(anew.seed() == other && matches!(anew.seed_found(), OpenOutcome::SetAside { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Goal: any file is set aside or right, and none panics. Method: files of any bytes, and of ours with some changed.
    #[test]
    fn any_file_of_the_name_is_either_ours_or_set_aside(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000),
        at in 0..HEADER, by in 1..=u8::MAX,
    ) {
        let (home, file) = counted();
        let mut ours = fs::read(&file).expect("it is there");
        ours[at] ^= by;
        fs::write(&file, ours).expect("it is ours");
        prop_assert!(distrust(home.path()).is_some());
        fs::write(&file, &bytes).expect("it is ours");
        prop_assert!(distrust(home.path()).is_some());
        fs::write(home.path().join("seed"), &bytes).expect("it is ours");
        fs::write(home.path().join("clock"), &bytes).expect("it is ours");
        state(home.path()).clock(reading(1, 1, 1)).expect("a clock");
    }
}
