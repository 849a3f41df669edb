//! Imports a configuration: text in, TOML and an account of each directive out.

use crate::caddy;
use crate::certificate_keys;
use crate::final_slashes;
use crate::format::Format;
use crate::haproxy;
use crate::ingress;
use crate::ledger::Ledger;
use crate::letter_case;
use crate::model::GatewayModel;
use crate::nginx;
use crate::position::SyntaxError;
use crate::route_conditions;
use crate::route_order;
use crate::source::IncludedFiles;
use crate::toml;
use crate::traefik;

/// A configuration that was imported.
#[derive(Debug)]
pub struct Imported {
    /// The configuration of Sluicegate.
    pub toml: String,
    /// The account of each directive.
    pub ledger: Ledger,
}

/// Translates a configuration; `name` is what reports call the file.
///
/// # Errors
///
/// The first place at which the text is not of this format, or is larger than [`crate::bounds`] allows.
pub fn import(
    format: Format,
    name: &str,
    text: &str,
    files: &dyn IncludedFiles,
) -> Result<Imported, SyntaxError> {
    let mut ledger = Ledger::default();
    let mut gateway: GatewayModel = match format {
        Format::Nginx => nginx::read(name, text, files, &mut ledger)?,
        Format::Haproxy => haproxy::read(name, text, &mut ledger)?,
        Format::Ingress => ingress::read(name, text, &mut ledger)?,
        Format::Caddy => caddy::read(name, text, files, &mut ledger)?,
        Format::Traefik => traefik::read(name, text, files, &mut ledger)?,
    };
    for origin in &mut gateway.origins {
        origin.merge_servers();
    }
    certificate_keys::remove_absent(&mut gateway, &mut ledger);
    final_slashes::keep_apart(&mut gateway.routes, &gateway.limits, &mut ledger);
    letter_case::relax(&mut gateway.routes, &gateway.limits);
    route_order::keep(&mut gateway.routes, &mut ledger);
    route_conditions::remove_repeated(&mut gateway.routes);
    if gateway.routes.is_empty() {
        ledger.fill_in("[[route]]: nothing in the input became a route");
    }
    let toml = toml::write(&gateway, &ledger);
    Ok(Imported { toml, ledger })
}
