//! Reads the login of the gateway at a server: `user`, and `password_file` or `password_env`. The store has them, and Sentinels have their
//! own.

use sluicegate_base::secret::Secret;

use super::store::flipped;
use crate::field::{KeyField, quoted, text_of};
use crate::report::{KeyPlace, ProblemReport};
use crate::rules::StoreLogin;
use crate::section::TableSection;

/// Examples of both, as TOML.
pub(super) struct LoginExamples {
    /// For `password_file`.
    pub(super) file: &'static str,
    /// For `password_env`.
    pub(super) variable: &'static str,
}

/// The keys as they are written.
pub(super) struct LoginKeys<'d> {
    /// `user`, so that one can point at it.
    pub(super) user: Option<KeyField<'d>>,
    name: Option<Option<String>>,
    password: Option<Option<Secret>>,
    examples: LoginExamples,
}

impl<'d> LoginKeys<'d> {
    /// Reads the keys of a table.
    pub(super) fn read(section: &TableSection<'d>, examples: LoginExamples) -> Self {
        let user = section.field("user", "\"gateway\"");
        Self {
            name: flipped(user.as_ref().map(name)),
            user,
            password: password(section, &examples),
            examples,
        }
    }

    /// The two, `elsewhere` being a user who is named in another place; what is wrong with them together is reported at `place`.
    pub(super) fn together(
        self,
        elsewhere: Option<String>,
        report: &ProblemReport<'_>,
        place: &KeyPlace,
    ) -> Option<StoreLogin> {
        let user = self.name?.or(elsewhere);
        let password = self.password?;
        if let (Some(name), None) = (&user, &password) {
            let LoginExamples { file, variable } = self.examples;
            report.error(
                place,
                format!("the user {} has no password", quoted(name)),
                format!("write password_file = {file}, or password_env = {variable}"),
            );
            return None;
        }
        Some(StoreLogin { user, password })
    }
}

fn name(field: &KeyField<'_>) -> Option<String> {
    match field.text()? {
        "" => field.refuse(
            "the user has no name",
            "leave it out: a password is then asked for alone",
        ),
        name => Some(name.to_owned()),
    }
}

/// The password, from a file or the environment; `None` inside where there is none.
fn password(section: &TableSection<'_>, examples: &LoginExamples) -> Option<Option<Secret>> {
    let file = section.field("password_file", examples.file);
    let variable = section.field("password_env", examples.variable);
    let (field, text) = match (file, variable) {
        (None, None) => return Some(None),
        (Some(_), Some(variable)) => {
            return variable.refuse(
                "there is a password_file too, and a password comes from one of the two",
                "leave one out",
            );
        }
        (Some(file), None) => {
            let (_, text) = text_of(
                &file,
                "put the password there, readable for the user that runs the gateway",
            )?;
            (file, text)
        }
        (None, Some(variable)) => {
            let name = variable.text()?;
            if variable.report.environment.is_offline() {
                return None;
            }
            let Some(text) = variable.report.environment.variable(name) else {
                return variable.refuse(
                    format!("the environment has no variable {}", quoted(name)),
                    format!("set it for the gateway and for `sluicegate check`: {name}=…"),
                );
            };
            (variable, text)
        }
    };
    // Editors end a file with a line end; a password does not.
    match text.trim_end_matches(['\r', '\n']) {
        "" => field.refuse(
            "the password is empty",
            "write one, or leave this out where none is asked for",
        ),
        password => Some(Some(Secret::new(password))),
    }
}
