//! `sluicegate import FILE [--format NAME] [--output FILE [--force]]`

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use sluicegate_decide::route;
use sluicegate_import::bounds::INPUT_BYTES;
use sluicegate_import::{Format, Imported, IncludedFile, IncludedFiles, import};

use super::exit_code::{FAILED, INCOMPLETE, SUCCESS, USAGE};
use super::output::tell;
use crate::config::{self, Severity};

/// The names of the standard streams in reports.
const STDIN: &str = "<stdin>";
const STDOUT: &str = "<stdout>";

/// The arguments of `import`.
#[derive(Args)]
pub(super) struct ImportCommand {
    /// The configuration of the other proxy; `-` reads it from the standard input.
    file: PathBuf,
    /// Its format. Default: told by its first lines.
    #[arg(long, value_name = "NAME")]
    format: Option<FormatName>,
    /// Write the configuration to this file instead of the standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file of --output.
    #[arg(long, requires = "output")]
    force: bool,
}

/// The names of formats on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    /// nginx.conf, or a part of one.
    Nginx,
    /// haproxy.cfg.
    Haproxy,
    /// Manifests of Kubernetes with annotations of ingress-nginx.
    Ingress,
    /// A Caddyfile.
    Caddy,
    /// Files, labels of Compose and objects of Kubernetes of Traefik.
    Traefik,
}

impl FormatName {
    fn format(self) -> Format {
        match self {
            Self::Nginx => Format::Nginx,
            Self::Haproxy => Format::Haproxy,
            Self::Ingress => Format::Ingress,
            Self::Caddy => Format::Caddy,
            Self::Traefik => Format::Traefik,
        }
    }
}

impl ImportCommand {
    /// Writes the configuration, and to the standard error what was translated, what differs, and what was left out.
    pub(super) fn run(&self) -> u8 {
        match self.imported() {
            Ok(imported) => self.write(&imported),
            Err((code, message)) => {
                tell(&format_args!("sluicegate: {message}"));
                code
            }
        }
    }

    fn imported(&self) -> Result<Imported, (u8, String)> {
        let is_stdin = self.file == Path::new("-");
        let (name, text) = if is_stdin {
            (STDIN.to_owned(), read(&mut io::stdin()))
        } else {
            let text = File::open(&self.file).and_then(|mut file| read(&mut file));
            (self.file.display().to_string(), text)
        };
        let text = text.map_err(|error| (FAILED, format!("{name}: {error}")))?;
        let format = match self.format.map(FormatName::format) {
            Some(format) => format,
            None => Format::detect(&text).ok_or_else(|| {
                let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
                let message = format!(
                    "{name}: unknown format; write --format {}; docs/importing.md has the counterparts of rules of Cloudflare",
                    names.join(", --format ")
                );
                (USAGE, message)
            })?,
        };
        let directory = match self.file.parent() {
            Some(directory) if !is_stdin => directory.to_owned(),
            _ => PathBuf::new(),
        };
        import(format, &name, &text, &FilesBeside { directory }).map_err(|error| {
            let advice = match self.format {
                Some(_) => String::new(),
                None => format!(
                    "; its first lines are those of {}, and --format NAME names another format",
                    format.name()
                ),
            };
            (USAGE, format!("{error}{advice}"))
        })
    }

    fn write(&self, imported: &Imported) -> u8 {
        let written = match &self.output {
            None => io::stdout().write_all(imported.toml.as_bytes()),
            Some(path) => self.write_to(path, &imported.toml),
        };
        let name = match &self.output {
            None => STDOUT.to_owned(),
            Some(path) => path.display().to_string(),
        };
        if let Err(error) = written {
            let advice = match error.kind() {
                io::ErrorKind::AlreadyExists => "; --force overwrites it",
                _ => "",
            };
            tell(&format_args!("sluicegate: {name}: {error}{advice}"));
            return FAILED;
        }
        tell(&imported.ledger);
        let problems = config::parse_offline(&name, &imported.toml, route::review);
        if !problems.is_empty() {
            tell(&problems);
        }
        if problems.count(Severity::Error) > 0 {
            tell(&format_args!(
                "{name}: written, but not good yet: correct the errors above, then run `sluicegate check`"
            ));
            return USAGE;
        }
        let to_fill_in = imported.ledger.to_fill_in().len();
        if to_fill_in > 0 {
            tell(&format_args!(
                "{name}: written, but not complete: {to_fill_in} under \"To fill in\"; until then the gateway lets through what the other \
                 proxy does not, or lacks an answer that it gives"
            ));
            return INCOMPLETE;
        }
        tell(&format_args!(
            "{name}: good, as far as that can be told without names, certificates and keys; `sluicegate check` looks at these too"
        ));
        SUCCESS
    }

    fn write_to(&self, path: &Path, toml: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true);
        if self.force {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        options.open(path)?.write_all(toml.as_bytes())
    }
}

/// Included files; paths in them begin at the directory of the main file.
struct FilesBeside {
    directory: PathBuf,
}

impl IncludedFiles for FilesBeside {
    fn read(&self, pattern: &str) -> Result<Vec<IncludedFile>, String> {
        let path = self.directory.join(pattern);
        let paths = match is_pattern(Path::new(pattern)) {
            true => matching(&path)?,
            false => vec![path],
        };
        let files = paths.iter().map(|path| {
            let name = path.display().to_string();
            let text = File::open(path).and_then(|mut file| read(&mut file));
            let text = text.map_err(|error| format!("{name}: {error}"))?;
            Ok(IncludedFile { name, text })
        });
        files.collect()
    }
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// Returns the files that a pattern fits.
///
/// # Errors
///
/// A folder cannot be read: where the other proxy runs it may have files.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let found = glob::glob(&pattern.to_string_lossy()).map_err(|error| error.to_string())?;
    let found: Result<Vec<PathBuf>, _> = found.collect();
    let found = found.map_err(|error| error.to_string())?;
    if found.is_empty() {
        let folder = pattern.ancestors().find(|it| !is_pattern(it));
        let folder = folder.filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::read_dir(folder).map_err(|error| {
            format!(
                "{}: {error}; run the import where the other proxy runs",
                folder.display()
            )
        })?;
    }
    Ok(found)
}

/// Reads a text of bounded length.
fn read(from: &mut dyn Read) -> io::Result<String> {
    let most = INPUT_BYTES as u64 + 1;
    let mut text = String::new();
    from.take(most).read_to_string(&mut text)?;
    if text.len() as u64 == most {
        return Err(io::Error::other(format!("more than {INPUT_BYTES} bytes")));
    }
    Ok(text)
}
