//! Adds up the memory that a configuration may take, and compares the sum with the memory that the process may use.
//!
//! The sum is an upper bound: tables take memory as keys use them. The bound is the least of the cgroup's limits, of either version and of
//! every level, and of the machine's memory.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sluicegate_base::usage_share::UsageShare;

use super::rules::Rules;

/// The memory that a configuration may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryPlan {
    /// Bytes of the tables of all limits, with their bans and their requests in flight.
    pub limits: u64,
    /// Bytes of the samples of what keys used of each limit.
    pub usage: u64,
    /// Bytes of the lists of addresses.
    pub lists: u64,
    /// Bytes of stored answers.
    pub cache: u64,
    /// The sum.
    pub total: u64,
    /// The memory that the process may use; `None` where the system does not say.
    pub available: Option<AvailableMemory>,
}

/// The memory that the process may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AvailableMemory {
    /// In bytes.
    pub bytes: u64,
    /// The file that says so.
    pub source: PathBuf,
}

impl MemoryPlan {
    /// Adds up what `rules` may take on this machine.
    #[must_use]
    pub fn new(rules: &Rules) -> Self {
        Self::within(rules, AvailableMemory::of_the_process())
    }

    fn within(rules: &Rules, available: Option<AvailableMemory>) -> Self {
        let limits = rules.limits.values().map(|limit| limit.bytes());
        let limits = limits.fold(0, u64::saturating_add);
        let tables = rules.limits.values().map(|limit| match limit.shadow_rates {
            Some(_) => 2,
            None => 1,
        });
        let tables: u64 = tables.sum();
        let usage = UsageShare::new(tables).bytes;
        let lists = rules.lists.values().map(|list| list.bytes() as u64);
        let lists = lists.fold(0, u64::saturating_add);
        let stores = rules.routes.iter().any(|route| route.cache.is_some());
        let cache = if stores {
            rules.cache.max_bytes as u64
        } else {
            0
        };
        Self {
            limits,
            usage,
            lists,
            cache,
            total: [usage, lists, cache]
                .into_iter()
                .fold(limits, u64::saturating_add),
            available,
        }
    }

    /// A warning where the sum is more than the process may use.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let available = self.available.as_ref()?;
        (self.total > available.bytes).then(|| {
            format!(
                "the configuration may take {}, more than the {} of {}: lower the `capacity` of limits or the memory of the cache, or \
                 allow more memory",
                bytes_text(self.total),
                bytes_text(available.bytes),
                available.source.display()
            )
        })
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at most {}: {} for limits, {} for samples of their use, {} for lists, {} for the cache",
            bytes_text(self.total),
            bytes_text(self.limits),
            bytes_text(self.usage),
            bytes_text(self.lists),
            bytes_text(self.cache)
        )?;
        match &self.available {
            Some(AvailableMemory { bytes, source }) => {
                write!(f, "; {} allows {}", source.display(), bytes_text(*bytes))
            }
            None => Ok(()),
        }
    }
}

impl AvailableMemory {
    /// Returns the memory that this process may use.
    #[must_use]
    pub fn of_the_process() -> Option<Self> {
        Self::from_root(Path::new("/"))
    }

    /// The least bound that the files under `root` name.
    fn from_root(root: &Path) -> Option<Self> {
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let bounds = groups.lines().flat_map(|line| Self::of_group(root, line));
        bounds
            .chain(Self::of_machine(root))
            .min_by_key(|available| available.bytes)
    }

    /// The bounds of a cgroup and of all above it, from its line in /proc/self/cgroup.
    fn of_group(root: &Path, line: &str) -> Vec<Self> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            return Vec::new();
        };
        let (mount, name) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            of_v1 if of_v1.split(',').any(|one| one == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let mount = root.join(mount);
        let path = Path::new(path.trim_start_matches('/'));
        // In a container the path may be one of the host's: then only the mount's own file is there.
        let levels = path.ancestors().map(|level| mount.join(level).join(name));
        levels
            .filter_map(|source| {
                // Version 2 says "max" where there is no bound, version 1 a number near 2^63.
                let bytes = fs::read_to_string(&source).ok()?.trim().parse().ok()?;
                (bytes < 1 << 62).then_some(Self { bytes, source })
            })
            .collect()
    }

    fn of_machine(root: &Path) -> Option<Self> {
        let source = root.join("proc/meminfo");
        let text = fs::read_to_string(&source).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        let bytes = kibibytes.saturating_mul(1024);
        Some(Self { bytes, source })
    }
}

/// Bytes in a unit that leaves few digits: `8.0 MB`.
#[must_use]
pub fn bytes_text(number: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let mut value = number as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 1_000.0 {
            break;
        }
        (value, unit) = (value / 1_000.0, next);
    }
    if unit == "bytes" {
        format!("{number} bytes")
    } else {
        format!("{value:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("room");
            fs::write(path, content).expect("room");
        }
        root
    }

    /// Goal: the least bound is found, of either version and of every level. Method: files as systems and containers have them.
    #[test]
    fn the_least_bound_holds() {
        let meminfo = ("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n");
        let v2 = ("proc/self/cgroup", "0::/system.slice/gateway.service\n");
        let v1 = (
            "proc/self/cgroup",
            "5:cpu,memory:/docker/abc\n1:name=systemd:/x\n",
        );
        let own = "sys/fs/cgroup/system.slice/gateway.service/memory.max";
        for (files, expected) in [
            (vec![], None),
            (vec![meminfo], Some(2 << 20)),
            (vec![meminfo, v2, (own, "max\n")], Some(2 << 20)),
            (vec![meminfo, v2, (own, "1000\n")], Some(1000)),
            (
                vec![
                    v2,
                    (own, "1000\n"),
                    ("sys/fs/cgroup/system.slice/memory.max", "900\n"),
                ],
                Some(900),
            ),
            // A container sees its own group at the mount.
            (
                vec![meminfo, v2, ("sys/fs/cgroup/memory.max", "800\n")],
                Some(800),
            ),
            (
                vec![
                    meminfo,
                    v1,
                    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "700\n"),
                ],
                Some(700),
            ),
            (
                vec![
                    v1,
                    (
                        "sys/fs/cgroup/memory/memory.limit_in_bytes",
                        "9223372036854771712\n",
                    ),
                ],
                None,
            ),
        ] {
            let root = root(&files);
            let found = AvailableMemory::from_root(root.path()).map(|available| available.bytes);
            assert_eq!(found, expected, "{files:?}");
        }
    }

    /// Goal: too much is said, and enough is not. Method: bounds around the sum of two limits.
    #[test]
    fn more_than_there_is_is_a_warning() {
        let text = "[[listener]]\naddress = \"127.0.0.1:1\"\n\
            [limit.a]\nkey = \"client.ip\"\nrates = [\"1 per 1s\"]\n\
            [limit.b]\nkey = \"client.ip\"\nrates = [\"1 per 1s\"]\n\
            [[route]]\npath = \"/\"\nlimits = [\"a\", \"b\"]\nrespond = { status = 200 }\n";
        let rules = crate::parse("test", text, crate::no_review)
            .expect("rules")
            .rules;
        let source = PathBuf::from("memory.max");
        let plan = |bytes| {
            let source = source.clone();
            MemoryPlan::within(&rules, Some(AvailableMemory { bytes, source }))
        };
        let sum = plan(0).total;
        assert!(
            (15_000_000..20_000_000).contains(&sum),
            "two default limits: {sum}"
        );
        assert_eq!(plan(0).usage, UsageShare::new(2).bytes);
        assert_eq!(plan(sum).warning(), None);
        let warning = plan(sum - 1).warning().expect("too much");
        assert!(
            warning.contains("MB of memory.max: lower the `capacity`"),
            "{warning}"
        );
    }

    /// Goal: numbers read as one would say them. Method: the edges of each unit.
    #[test]
    fn bytes_are_written_for_people() {
        for (number, text) in [
            (1, "1 bytes"),
            (999, "999 bytes"),
            (8_000_000, "8.0 MB"),
            (1 << 40, "1.1 TB"),
        ] {
            assert_eq!(bytes_text(number), text);
        }
    }
}
