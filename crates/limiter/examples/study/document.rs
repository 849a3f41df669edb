//! Puts what a study found into `results.md`: tables between two markers, pictures beside.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

/// Where results go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To standard output.
    Print,
    /// There, and into `results.md` beside this file.
    Write,
}

/// A picture of this name.
#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) name: &'static str,
    pub(crate) svg: String,
}

/// Prints `text`, and with [`Target::Write`] puts it into `results.md` between the markers of `study`, and each picture
/// into `limiter/`.
///
/// # Errors
/// Files that cannot be read or written, and a document without the markers.
pub(crate) fn publish(
    target: Target,
    study: &str,
    text: &str,
    pictures: &[Picture],
) -> Result<(), Box<dyn Error>> {
    write!(std::io::stdout().lock(), "{text}")?;
    if target == Target::Print {
        return Ok(());
    }
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/study"));
    fs::create_dir_all(folder.join("limiter"))?;
    for Picture { name, svg } in pictures {
        fs::write(folder.join("limiter").join(name), svg)?;
    }
    let path = folder.join("results.md");
    let document = fs::read_to_string(&path)?;
    let (begin, end) = (
        format!("<!-- {study}:begin -->\n"),
        format!("<!-- {study}:end -->"),
    );
    let parts = document.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or_else(|| format!("results.md: no {begin}"))?;
    fs::write(path, format!("{before}{begin}{text}{end}{after}"))?;
    Ok(())
}

/// A Markdown table.
#[derive(Debug)]
pub(crate) struct Table(String);

impl Table {
    pub(crate) fn with_columns<T: AsRef<str>>(columns: &[T]) -> Self {
        let mut table = Self(String::new());
        table.row(columns);
        table.0 += "|";
        table.0 += &"---|".repeat(columns.len());
        table.0 += "\n";
        table
    }

    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: &[T]) {
        for cell in cells {
            self.0 += "| ";
            self.0 += cell.as_ref();
            self.0 += " ";
        }
        self.0 += "|\n";
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// A share as a percentage with two digits that mean something.
pub(crate) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        _ if percent == 0.0 => "0".to_owned(),
        _ if percent < 0.01 => format!("{percent:.4} %"),
        _ if percent < 0.1 => format!("{percent:.3} %"),
        _ if percent < 10.0 => format!("{percent:.2} %"),
        _ => format!("{percent:.1} %"),
    }
}
