//! Translates configurations of nginx.
//!
//! A whole file has its servers in `http { }`; a part of one, such as a file of `conf.d`, begins with them or with what stands in a server.

mod access;
mod cases;
mod choice;
mod elsewhere;
mod fields;
mod https_redirect;
mod keys;
mod lexer;
mod limits;
mod listens;
mod locations;
mod origins;
mod real_ip;
mod routes;
mod scope;
mod tree;
mod units;
mod variables;
mod zones;

use self::listens::ServerBlock;
use self::routes::RouteMaker;
use self::scope::SettingScope;
use self::tree::Directive;
use self::variables::VariableTable;
use self::zones::ZoneTable;
use crate::ledger::Ledger;
use crate::model::GatewayModel;
use crate::names::NamePool;
use crate::position::SyntaxError;
use crate::source::IncludedFiles;

/// Translates a text with everything that it includes.
pub(crate) fn read(
    name: &str,
    text: &str,
    files: &dyn IncludedFiles,
    ledger: &mut Ledger,
) -> Result<GatewayModel, SyntaxError> {
    let mut directives = tree::parse(name, text, files, ledger)?;
    say_where_else(&directives, ledger);
    let has = |name: &str| directives.iter().any(|it| it.name == name);
    let is_inside_server = !has("http") && !has("server") && (has("location") || has("listen"));
    if is_inside_server {
        // A part of a server block: the file itself stands for it.
        let id = ledger.enter(crate::position::Position::start(&name.into()), "server");
        ledger.translated(id);
        if !has("listen") {
            ledger.fill_in("[[listener]] address: the input says none, and nginx takes port 80");
        }
        directives = vec![Directive {
            id,
            position: crate::position::Position::start(&name.into()),
            name: "server".to_owned(),
            words: Vec::new(),
            block: Some(directives),
        }];
    }
    let mut http: Vec<&Directive> = Vec::new();
    for directive in &directives {
        if directive.name == "http" {
            ledger.translated(directive.id);
            http.extend(directive.children());
        } else {
            http.push(directive);
        }
    }
    Ok(translate(&http, ledger))
}

fn translate(http: &[&Directive], ledger: &mut Ledger) -> GatewayModel {
    let named = |name: &'static str| http.iter().copied().filter(move |it| it.name == name);
    let mut variables = VariableTable::default();
    for directive in named("geo").chain(named("map")) {
        variables.define(directive, ledger);
    }
    let mut zones = ZoneTable::default();
    for directive in named("limit_req_zone").chain(named("limit_conn_zone")) {
        zones.define(directive, &variables, ledger);
    }
    let outer: Vec<Directive> = http
        .iter()
        .filter(|it| !matches!(it.name.as_str(), "server" | "upstream" | "map" | "geo"))
        .map(|it| (*it).clone())
        .collect();
    let scope = SettingScope::default().within(&outer);
    let servers: Vec<ServerBlock<'_>> = named("server")
        .map(|directive| listens::server_block(directive, &scope, ledger))
        .collect();
    let mut gateway = GatewayModel {
        client: real_ip::client(http, &servers, ledger),
        ..GatewayModel::default()
    };
    let hosts = listens::hosts(&servers, ledger);
    let imported: Vec<&ServerBlock<'_>> = servers
        .iter()
        .zip(&hosts)
        .filter(|(server, hosts)| {
            https_redirect::is_all_of(server) || hosts.any || !hosts.names.is_empty()
        })
        .map(|(server, _)| server)
        .collect();
    gateway.listeners = listens::listeners(&imported, &gateway.client.trusted_proxies, ledger);
    let mut maker = RouteMaker {
        zones,
        limits: limits::LimitMaker::default(),
        origins: origins::OriginMaker::default(),
        lists: Vec::new(),
        list_names: NamePool::default(),
        routes: Vec::new(),
    };
    for directive in named("upstream") {
        maker.origins.define(directive, ledger);
    }
    for (number, (server, hosts)) in servers.iter().zip(&hosts).enumerate() {
        if https_redirect::is_all_of(server) {
            ledger.translated(server.directive.id);
            https_redirect::say_if_left_out(server.directive, ledger);
            continue;
        }
        if !hosts.any && hosts.names.is_empty() {
            leave_out(
                server.directive,
                "no host leads to this server block",
                ledger,
            );
            continue;
        }
        ledger.translated(server.directive.id);
        maker.add_server(server, number, hosts, ledger);
    }
    for name in maker.zones.used_variables(ledger) {
        variables.use_of(&name, ledger);
    }
    gateway.lists = maker.lists;
    gateway.origins = maker.origins.origins;
    gateway.limits = maker.limits.limits;
    gateway.routes = maker.routes;
    gateway
}

/// Records of each directive that is about something else where the gateway has that.
fn say_where_else(directives: &[Directive], ledger: &mut Ledger) {
    for directive in directives {
        if let Some(reason) = elsewhere::reason(&directive.name) {
            leave_out(directive, reason, ledger);
        } else {
            say_where_else(directive.children(), ledger);
        }
        if elsewhere::guards(&directive.name) && !https_redirect::is_in_condition(directive) {
            ledger.fill_in(format!(
                "{}: it may keep requests out, and is left out",
                ledger.comment(directive.id)
            ));
        }
    }
}

/// Leaves a directive out with everything in it, unless it is translated elsewhere or has a reason of its own.
fn leave_out(directive: &Directive, reason: &str, ledger: &mut Ledger) {
    ledger.left_out_with(directive.id, reason);
    for child in directive.children() {
        leave_out(child, reason, ledger);
    }
}
