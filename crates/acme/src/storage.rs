//! Owns the files: the account's key, and each certificate with its key in one file.
//!
//! One file, so that one rename replaces both: a certificate beside the key of another would be worse than none. Every server
//! has a directory of its own, so that a certificate of a staging server never replaces one of the real server.
//!
//! Directories are made with mode 0700, files with 0600. A file is written under another name, synced and renamed, and then the
//! directory is synced: after a crash there is the old one or the new one, complete.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sluicegate_base::bounds;

use sluicegate_config::rules::{AcmeRules, Name, NameSet};

/// The files of one ACME server.
pub(super) struct CertificateStorage {
    directory: PathBuf,
}

/// A file operation that failed, and its file.
#[derive(Debug)]
pub(super) struct StorageError {
    done: &'static str,
    path: PathBuf,
    cause: io::Error,
}

impl CertificateStorage {
    /// Returns the storage for the server and the directory of `rules`. Reads and creates nothing yet.
    pub(super) fn new(rules: &AcmeRules) -> Self {
        Self {
            directory: rules.dir.join(folder(&rules.directory)),
        }
    }

    /// Returns the account as it was stored; `None` where there is none yet.
    pub(super) fn account(&self) -> Result<Option<String>, StorageError> {
        read(&self.account_path())
    }

    /// Stores the account.
    pub(super) fn keep_account(&self, text: &str) -> Result<(), StorageError> {
        write(&self.account_path(), text)
    }

    /// Renames the account's file, when the server no longer knows the account.
    pub(super) fn set_account_aside(&self) -> Result<(), StorageError> {
        let path = self.account_path();
        let aside = path.with_extension("unknown");
        fs::rename(&path, aside).map_err(|cause| StorageError {
            done: "put aside",
            path,
            cause,
        })
    }

    /// Returns the chain and the key of the certificate `name`, as PEM; `None` where there is none yet.
    pub(super) fn certificate(&self, name: &Name) -> Result<Option<String>, StorageError> {
        read(&self.certificate_path(name))
    }

    /// Stores the chain and the key of a certificate.
    pub(super) fn keep_certificate(&self, names: &NameSet, pem: &str) -> Result<(), StorageError> {
        write(&self.certificate_path(names.first()), pem)
    }

    /// Checks that files can be written, before an order whose result could not be stored.
    pub(super) fn prepare(&self) -> Result<(), StorageError> {
        let path = self.directory.join("writable");
        write(&path, "")?;
        // A failed removal does not matter.
        let _ = fs::remove_file(path);
        Ok(())
    }

    fn account_path(&self) -> PathBuf {
        self.directory.join("account.json")
    }

    fn certificate_path(&self, name: &Name) -> PathBuf {
        // Names are letters, digits, hyphens and dots, and do not begin with a dot: none leads elsewhere.
        self.directory.join(format!("{name}.pem"))
    }
}

/// Returns a URL as the name of a directory: `acme-v02.api.letsencrypt.org-directory`.
fn folder(url: &str) -> String {
    let bare = url.strip_prefix("https://").unwrap_or(url);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let named: String = bare
        .trim_matches('/')
        .chars()
        .map(|c| if plain(c) { c } else { '-' })
        .collect();
    // File systems allow names of 255 bytes.
    named.trim_start_matches('.').chars().take(200).collect()
}

fn read(path: &Path) -> Result<Option<String>, StorageError> {
    let failed = |cause| StorageError {
        done: "read",
        path: path.to_owned(),
        cause,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    let mut text = String::new();
    file.take(bounds::ACME_ANSWER as u64)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(Some(text))
}

fn write(path: &Path, text: &str) -> Result<(), StorageError> {
    let failed = |cause| StorageError {
        done: "written",
        path: path.to_owned(),
        cause,
    };
    let directory = path.parent().unwrap_or(Path::new("."));
    let temporary = path.with_extension("new");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(failed)?;
    // A file that a crash left behind may have another mode.
    match fs::remove_file(&temporary) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(failed(cause)),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)?;
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(failed)
}

impl std::fmt::Display for StorageError {
    fn fmt(&self, into: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { done, path, cause } = self;
        write!(into, "{} cannot be {done}: {cause}", path.display())
    }
}

impl std::error::Error for StorageError {}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn storage(directory: &Path) -> CertificateStorage {
        CertificateStorage {
            directory: directory
                .join("acme")
                .join(folder("https://ca.test/directory")),
        }
    }

    fn names(name: &str) -> NameSet {
        NameSet::new(vec![name.into()]).unwrap()
    }

    /// Goal: stored files are readable by the gateway alone. Method: store into an empty directory, read back, look at the
    /// modes.
    #[test]
    fn what_is_stored_is_read_back_and_closed_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let storage = storage(directory.path());
        let names = names("example.com");
        assert_eq!(storage.certificate(names.first()).unwrap(), None);
        assert_eq!(storage.account().unwrap(), None);
        storage.keep_certificate(&names, "one").unwrap();
        storage.keep_certificate(&names, "two").unwrap();
        storage.keep_account("key").unwrap();
        assert_eq!(
            storage.certificate(names.first()).unwrap().as_deref(),
            Some("two")
        );
        assert_eq!(storage.account().unwrap().as_deref(), Some("key"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&storage.directory), 0o700);
        assert_eq!(mode(storage.directory.parent().unwrap()), 0o700);
        assert_eq!(mode(&storage.certificate_path(names.first())), 0o600);
        assert_eq!(mode(&storage.account_path()), 0o600);
    }

    /// Goal: a file that a crash left half-written is harmless, and its mode is not reused. Method: a file open to all where the
    /// next is written.
    #[test]
    fn a_half_written_file_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let storage = storage(directory.path());
        storage.prepare().unwrap();
        let left = storage.account_path().with_extension("new");
        fs::write(&left, "hal").unwrap();
        storage.keep_account("whole").unwrap();
        assert_eq!(storage.account().unwrap().as_deref(), Some("whole"));
        let mode = fs::metadata(storage.account_path()).unwrap().permissions();
        assert_eq!((mode.mode() & 0o777, left.exists()), (0o600, false));
    }

    /// Goal: an account that the server lost does not prevent a new one. Method: rename it.
    #[test]
    fn an_account_that_is_put_aside_is_kept_but_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let storage = storage(directory.path());
        storage.keep_account("key").unwrap();
        storage.set_account_aside().unwrap();
        assert_eq!(storage.account().unwrap(), None);
        let aside = storage.account_path().with_extension("unknown");
        assert_eq!(fs::read_to_string(aside).unwrap(), "key");
    }

    /// Goal: no URL leads out of the directory. Method: URLs that try.
    #[test]
    fn every_server_has_a_directory_of_its_own() {
        let long = format!("https://{}", "x".repeat(999));
        for (url, named) in [
            (
                "https://acme-v02.api.letsencrypt.org/directory",
                "acme-v02.api.letsencrypt.org-directory",
            ),
            ("https://[::1]:14000/dir", "---1--14000-dir"),
            ("https://../../etc", "-..-etc"),
            (&*long, &*"x".repeat(200)),
        ] {
            assert_eq!(folder(url), named);
        }
    }

    /// Goal: an error names the file. Method: a file where the directory should be.
    #[test]
    fn a_failure_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("acme"), "").unwrap();
        let error = storage(directory.path()).prepare().unwrap_err().to_string();
        assert!(
            error.contains("acme/ca.test-directory/writable cannot be written: "),
            "{error}"
        );
    }
}
