//! Translates configurations of nginx.
//!
//! A whole file has its servers in `http { }`; a part of one, such as a file of `conf.d`, begins with them or with what stands in a server.

mod access;
mod access_log;
mod address_groups;
mod answers;
mod cases;
mod choice;
mod client_bounds;
mod directives;
mod divisions;
mod encryption;
mod fields;
mod front_controllers;
mod guards;
mod host_conditions;
mod hosts;
mod https_redirect;
mod jump_losses;
mod jumps;
mod keys;
mod lexer;
mod limits;
mod listener_tls;
mod listeners;
mod listens;
mod location_block;
mod location_index;
mod locations;
mod omissions;
mod origin_tls;
mod origins;
mod passes;
mod precedence;
mod real_ip;
mod redirects;
mod rewrites;
mod routes;
mod scope;
mod sent_path;
mod templates;
mod tree;
mod units;
mod variables;
mod zones;

use self::address_groups::AddressGroups;
use self::https_redirect::HttpsRedirects;
use self::listener_tls::requires_certificate;
use self::listens::ServerBlock;
use self::omissions::{leave_out, leave_without_effect};
use self::routes::{RouteMaker, ServerPlace};
use self::scope::SettingScope;
use self::tree::Directive;
use self::variables::VariableTable;
use self::zones::ZoneTable;
use crate::client_fields;
use crate::client_lists::ListMaker;
use crate::ledger::Ledger;
use crate::model::GatewayModel;
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
    let gateway = translate(&http, ledger);
    guards::require(&directives, ledger);
    Ok(gateway)
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
    let mut servers: Vec<ServerBlock<'_>> = named("server")
        .map(|directive| listens::server_block(directive, &scope, ledger))
        .collect();
    let addresses = AddressGroups::new(&servers);
    listens::share_properties(&mut servers, &addresses);
    let mut gateway = GatewayModel {
        client: real_ip::client(http, &servers, ledger),
        ..GatewayModel::default()
    };
    client_bounds::set(http, &servers, &mut gateway, ledger);
    access_log::set(http, &servers, &mut gateway, ledger);
    let redirects = HttpsRedirects::new(&servers, &addresses);
    let hosts = hosts::assign(&servers, &addresses, &redirects, ledger);
    let is_imported = |number: usize| {
        let is_listener_alone = redirects.contains(number) || servers[number].refuses_handshakes();
        !hosts[number].is_empty() || is_listener_alone
    };
    gateway.listeners = listeners::make(&servers, is_imported, &addresses, &redirects, ledger);
    let mut maker = RouteMaker {
        zones,
        limits: limits::LimitMaker::default(),
        origins: origins::OriginMaker::default(),
        lists: ListMaker::default(),
        routes: Vec::new(),
    };
    for directive in named("upstream") {
        maker.origins.define(directive, ledger);
    }
    let all_hosts = hosts.iter().flatten().map(|it| it.name.clone()).collect();
    let optional = listener_tls::optional_addresses(&gateway.listeners);
    for (number, (server, own)) in servers.iter().zip(&hosts).enumerate() {
        if redirects.contains(number) {
            ledger.translated(server.directive.id);
            continue;
        }
        if server.refuses_handshakes() {
            server_without_routes(server, ledger);
            continue;
        }
        if own.is_empty() {
            leave_server_out(server, number, &addresses, ledger);
            continue;
        }
        ledger.translated(server.directive.id);
        let place = ServerPlace {
            number,
            all_hosts: &all_hosts,
            hosts: own,
            requires_certificate: requires_certificate(server, &optional, &addresses),
            server,
        };
        maker.add_server(&place, ledger);
    }
    for name in maker.zones.used_variables(ledger) {
        variables.use_of(&name, ledger);
    }
    let fields = maker.zones.used_proxy_fields(ledger);
    client_fields::identify_clients(&mut gateway.client, &fields, ledger);
    gateway.lists = maker.lists.lists;
    gateway.origins = maker.origins.origins;
    gateway.limits = maker.limits.limits;
    gateway.routes = maker.routes;
    hosts::name_listeners(&mut gateway.listeners, &mut gateway.routes);
    gateway
}

/// Records a block whose clients fail to connect.
fn server_without_routes(server: &ServerBlock<'_>, ledger: &mut Ledger) {
    ledger.translated(server.directive.id);
    for child in server.directive.children() {
        match child.name.as_str() {
            "return" | "server_name" => ledger.translated(child.id),
            "location" => leave_without_effect(child, "no request comes to it", ledger),
            _ => {}
        }
    }
}

/// Leaves a server block out that no host leads to. It changes no answer where no request comes to it in nginx.
fn leave_server_out(
    server: &ServerBlock<'_>,
    number: usize,
    addresses: &AddressGroups,
    ledger: &mut Ledger,
) {
    let directive = server.directive;
    let is_default = addresses.is_default(number);
    let names = directive.children().iter();
    let mut names = names.filter(|it| it.name == "server_name");
    let is_of_another = |it: &Directive| ledger.reason(it.id) == Some(hosts::OF_ANOTHER_ADDRESS);
    if server.listens.is_empty() {
        leave_out(directive, "no listener has one of its addresses", ledger);
    } else if is_default || names.clone().any(is_of_another) {
        leave_out(directive, hosts::OF_ANOTHER_ADDRESS, ledger);
    } else if names.any(|it| ledger.has_lost_effect(it.id)) {
        leave_out(directive, "no host leads to this server block", ledger);
    } else {
        leave_without_effect(directive, "no request comes to it in nginx either", ledger);
    }
}

/// Records of each directive that is about something else where the gateway has that.
fn say_where_else(directives: &[Directive], ledger: &mut Ledger) {
    for directive in directives {
        if let Some(reason) = directives::reason(directive) {
            leave_out(directive, reason, ledger);
        } else {
            say_where_else(directive.children(), ledger);
        }
    }
}
