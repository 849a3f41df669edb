//! Writes the output of `sluicegate man`, `sluicegate completions SHELL` and `sluicegate version`, from the definition of the command
//! line.
//!
//! The man page ends with sections that no definition contains (FILES, SIGNALS, …); their texts are in `manual/`, in the format
//! of man(7).

use std::io::Write;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::Arguments;
use super::exit_code::{FAILED, SUCCESS};
use super::output::tell;

/// Writes the man page to the standard output: one page, with the help of each command in a section of its own.
pub(super) fn man() -> u8 {
    let mut command = Arguments::command();
    command.build();
    let mut page = Vec::new();
    let rendered = head(&command, &mut page);
    for each in command.get_subcommands_mut() {
        if each.get_name() == "help" {
            continue;
        }
        let help = each.render_long_help().to_string();
        page.extend(format!(".SH {}\n.nf\n", each.get_name().to_uppercase()).into_bytes());
        for line in help.lines() {
            // A line that begins with one of these would be a macro; `\&` is an empty character.
            let guard = if line.starts_with(['.', '\'']) {
                "\\&"
            } else {
                ""
            };
            let line = line.replace('\\', "\\e").replace('-', "\\-");
            page.extend(format!("{guard}{line}\n").into_bytes());
        }
        page.extend(b".fi\n");
    }
    for (title, text) in SECTIONS {
        page.extend(format!(".SH {title}\n{text}").into_bytes());
    }
    write(rendered.map(|()| page))
}

/// Sections that the command line does not define, each with its title and its text in man(7).
const SECTIONS: [(&str, &str); 6] = [
    ("FILES", include_str!("manual/files.man")),
    ("ENVIRONMENT", include_str!("manual/environment.man")),
    ("SIGNALS", include_str!("manual/signals.man")),
    ("EXIT STATUS", include_str!("manual/exit_status.man")),
    ("EXAMPLES", include_str!("manual/examples.man")),
    ("SEE ALSO", include_str!("manual/see_also.man")),
];

/// Writes all but the list of commands, which names a page for each, though there is only this one.
fn head(command: &Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    let man = Man::new(command.clone()).title("SLUICEGATE");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    man.render_version_section(page)
}

/// Writes the completions for a shell to the standard output.
pub(super) fn completions(shell: Shell) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "sluicegate", &mut script);
    write(Ok(script))
}

/// Writes name and version to the standard output, as `--version` does.
pub(super) fn version() -> u8 {
    write(Ok(Arguments::command().render_version().into_bytes()))
}

fn write(text: std::io::Result<Vec<u8>>) -> u8 {
    match text.and_then(|text| std::io::stdout().write_all(&text)) {
        Ok(()) => SUCCESS,
        Err(error) => {
            tell(&error);
            FAILED
        }
    }
}
