//! Translates Caddyfiles.
//!
//! Caddy evaluates the directives of a site in the order of its table, each for the requests that its matcher takes; the gateway takes the
//! most specific route. So the requests of a site are divided into cells in which every condition has one truth, and each cell becomes a
//! route with what the directives do in it, unless the route that would take its requests otherwise does the same.

mod addresses;
mod answers;
mod conditions;
mod detection;
mod division;
mod evaluation;
mod fields;
mod imports;
mod lexer;
mod listeners;
mod omissions;
mod options;
mod order;
mod paths;
mod placeholders;
mod proxies;
mod redirects;
mod routes;
mod servers;
mod steps;
mod tls;
mod transports;
mod tree;
mod units;
mod upstreams;
mod zones;

use self::conditions::MatcherTable;
pub(crate) use self::detection::begins;
use self::options::GlobalOptions;
use self::order::DirectiveOrder;
use self::proxies::OriginTable;
use self::routes::{ReadSite, SiteRouteMaker};
use self::steps::{ChainStep, StepKind, StepReader};
use self::zones::RateZoneTable;
use crate::client_fields;
use crate::ledger::Ledger;
use crate::model::GatewayModel;
use crate::position::SyntaxError;
use crate::source::IncludedFiles;

/// Translates a text.
pub(crate) fn read(
    name: &str,
    text: &str,
    files: &dyn IncludedFiles,
    ledger: &mut Ledger,
) -> Result<GatewayModel, SyntaxError> {
    let tree = tree::parse(name, text, files, ledger)?;
    let mut gateway = GatewayModel::default();
    let mut order = DirectiveOrder::new();
    let options = GlobalOptions::read(&tree.options, &mut order, &mut gateway, ledger);
    let groups = listeners::make(&tree, &options, &mut gateway, ledger);
    let mut reader = StepReader {
        order,
        routes: &tree.routes,
        origins: OriginTable::default(),
        zones: RateZoneTable::default(),
        open_routes: Vec::new(),
        steps: 0,
    };
    let sites: Vec<ReadSite> = (tree.sites.iter())
        .map(|site| ReadSite {
            id: site.id,
            steps: reader.block(&site.directives, &MatcherTable::default(), ledger),
        })
        .collect();
    for group in &groups {
        let maker = SiteRouteMaker {
            sites: &sites,
            limits: &reader.zones.limits,
            group,
        };
        maker.add_routes(&mut gateway, ledger);
    }
    for site in &sites {
        leave_unreached(&site.steps, ledger);
    }
    gateway.limits = reader.zones.limits;
    servers::believe_for_origins(&reader.origins.trusted, &mut gateway, ledger);
    servers::report_peers(&tree, &gateway.client, ledger);
    let client = &mut gateway.client;
    client_fields::identify_clients(client, &reader.zones.proxy_fields, ledger);
    gateway.origins = reader.origins.origins;
    for id in tree.entries {
        if ledger.has_lost_effect(id) {
            ledger.require(id);
        }
    }
    Ok(gateway)
}

/// Records the directives that no request reaches, since another one answers before them.
fn leave_unreached(steps: &[ChainStep], ledger: &mut Ledger) {
    for step in steps {
        ledger.without_effect(
            step.id,
            "no request reaches it: another directive answers before",
        );
        if let StepKind::Block(steps) = &step.kind {
            leave_unreached(steps, ledger);
        }
    }
}
