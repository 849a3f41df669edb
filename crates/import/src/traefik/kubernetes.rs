//! Makes the tree of a file of the objects of Kubernetes that Traefik defines: IngressRoute, Middleware, TraefikService, TLSOption,
//! TLSStore, ServersTransport. Names of the tree are `NAMESPACE-NAME`, as Traefik makes them.

use std::collections::BTreeMap;

use super::account::TreeAccount;
use super::tree::{self, insert, map, member, scalar, text, unqualified};
use crate::ingress::kinds;
use crate::ingress::yaml::YamlNode;
use crate::ledger::EntryId;

/// The namespace of an object that names none.
const USUAL_NAMESPACE: &str = "default";

/// The objects of the input.
#[derive(Default)]
pub(super) struct ClusterObjects {
    objects: Vec<YamlNode>,
}

impl ClusterObjects {
    /// Adds a document: an object, or a list of objects.
    pub(super) fn add(&mut self, document: YamlNode, account: &mut TreeAccount<'_>) {
        match member(&document, "items").cloned() {
            Some(items) => {
                for object in items.elements() {
                    self.objects.push(object.clone());
                }
                for name in ["apiVersion", "kind"] {
                    if let Some(node) = member(&document, name) {
                        account.translated(node);
                    }
                }
                if let Some(node) = member(&document, "metadata") {
                    account.idle(node, "it describes a list");
                }
            }
            None => match document {
                YamlNode::List(objects) => self.objects.extend(objects),
                object => self.objects.push(object),
            },
        }
    }

    /// Returns the numbers and schemes of the ports of Services by namespace, name, and name or number of the port.
    fn ports(&self) -> BTreeMap<(String, String, String), (String, &'static str)> {
        let mut found = BTreeMap::new();
        let services = self.objects.iter();
        for service in services.filter(|it| text(it, "kind") == Some("Service")) {
            let (namespace, name) = place(service);
            let ports = tree::at(service, "spec.ports");
            for port in ports.map(YamlNode::elements).unwrap_or_default() {
                let Some(number) = text(port, "port") else {
                    continue;
                };
                let port_name = text(port, "name").unwrap_or_default();
                let is_tls = number == "443" || port_name.starts_with("https");
                let scheme = if is_tls { "https" } else { "http" };
                for key in [port_name, number] {
                    let key = (namespace.to_owned(), name.to_owned(), key.to_owned());
                    found.insert(key, (number.to_owned(), scheme));
                }
            }
        }
        found
    }
}

/// Returns the namespace and the name of an object.
fn place(object: &YamlNode) -> (&str, &str) {
    let namespace = text(object, "metadata.namespace").unwrap_or(USUAL_NAMESPACE);
    (
        namespace,
        text(object, "metadata.name").unwrap_or("unnamed"),
    )
}

/// Returns the kind of an object, or the object where it has none.
fn kind_node(object: &YamlNode) -> &YamlNode {
    member(object, "kind").unwrap_or(object)
}

/// Returns the tree of all objects.
pub(super) fn tree(cluster: &ClusterObjects, account: &mut TreeAccount<'_>) -> YamlNode {
    let mut builder = ClusterTree {
        root: YamlNode::Map(Vec::new()),
        ports: cluster.ports(),
    };
    for object in &cluster.objects {
        let kind = text(object, "kind").unwrap_or_default();
        for name in ["kind", "apiVersion", "metadata.name", "metadata.namespace"] {
            if let Some(node) = tree::at(object, name) {
                account.translated(node);
            }
        }
        if let Some(node) = member(object, "metadata") {
            account.idle(node, "it is about the object, not about requests");
        }
        builder.add(kind, object, account);
    }
    builder.root
}

struct ClusterTree {
    root: YamlNode,
    ports: BTreeMap<(String, String, String), (String, &'static str)>,
}

impl ClusterTree {
    fn add(&mut self, kind: &str, object: &YamlNode, account: &mut TreeAccount<'_>) {
        let spec = || member(object, "spec").cloned();
        let group = match kind {
            "IngressRoute" => return self.route(object, account),
            "Service" => {
                account.translated(object);
                return;
            }
            "TraefikService" => return self.service(object, account),
            "Middleware" => "http.middlewares",
            "ServersTransport" => "http.serversTransports",
            "TLSOption" => "tls.options",
            "TLSStore" => "tls.stores",
            "Ingress" => {
                let reason = "import the objects Ingress with --format ingress";
                return account.lost_with(object, kind_node(object), reason);
            }
            kind => {
                if let Some(reason) = kinds::idle_reason(kind) {
                    return account.idle(object, reason);
                }
                let reason = "objects of this kind have no counterpart";
                return account.lost_with(object, kind_node(object), reason);
            }
        };
        let (namespace, name) = place(object);
        // `default` is one for all namespaces.
        let name = match (kind, name) {
            ("TLSOption" | "TLSStore", "default") => name.to_owned(),
            _ => format!("{namespace}-{name}"),
        };
        let mut way: Vec<&str> = group.split('.').collect();
        way.push(&name);
        if let Some(spec) = spec() {
            let spec = match kind {
                "Middleware" => middleware(spec, namespace, account),
                _ => spec,
            };
            insert(&mut self.root, &way, spec);
        }
    }

    fn route(&mut self, object: &YamlNode, account: &mut TreeAccount<'_>) {
        let (namespace, name) = place(object);
        let routes = tree::at(object, "spec.routes").map(YamlNode::elements);
        for (at, route) in routes.unwrap_or_default().iter().enumerate() {
            let router_name = format!("{namespace}-{name}-{at}");
            let mut router = YamlNode::Map(Vec::new());
            for (from, to) in [
                ("match", "rule"),
                ("priority", "priority"),
                ("syntax", "ruleSyntax"),
                ("observability", "observability"),
            ] {
                if let Some(node) = member(route, from) {
                    insert(&mut router, &[to], node.clone());
                }
            }
            if let Some(node) = member(route, "kind") {
                account.translated(node);
            }
            for (from, to) in [("spec.entryPoints", "entryPoints"), ("spec.tls", "tls")] {
                if let Some(node) = tree::at(object, from) {
                    insert(&mut router, &[to], tls_names(node.clone(), namespace));
                }
            }
            let middlewares = references(member(route, "middlewares"), namespace, account);
            insert(&mut router, &["middlewares"], middlewares);
            let services = member(route, "services").map(YamlNode::elements);
            let services = services.unwrap_or_default();
            if let Some(id) = services.first().and_then(tree::entry) {
                let service = self.services((namespace, &router_name), services, account);
                insert(&mut router, &["service"], scalar(id, service));
            }
            insert(&mut self.root, &["http", "routers", &router_name], router);
        }
    }

    fn service(&mut self, object: &YamlNode, account: &mut TreeAccount<'_>) {
        let (namespace, name) = place(object);
        let name = format!("{namespace}-{name}");
        if let Some(weighted) = tree::at(object, "spec.weighted") {
            let services = member(weighted, "services").map(YamlNode::elements);
            let services = services.unwrap_or_default();
            self.weighted((namespace, &name), services, account);
            if let Some(sticky) = member(weighted, "sticky") {
                let way = ["http", "services", &name, "weighted", "sticky"];
                insert(&mut self.root, &way, sticky.clone());
            }
        }
        if let Some(mirroring) = tree::at(object, "spec.mirroring") {
            let main = self.one(namespace, mirroring, account);
            if let Some(id) = tree::entry(mirroring) {
                let way = ["http", "services", &name, "mirroring", "service"];
                insert(&mut self.root, &way, scalar(id, main));
            }
            if let Some(mirrors) = member(mirroring, "mirrors") {
                account.idle(mirrors, "the gateway sends a request to one origin");
            }
        }
    }

    /// Returns the name of the service that several references are.
    fn services(
        &mut self,
        (namespace, name): (&str, &str),
        services: &[YamlNode],
        account: &mut TreeAccount<'_>,
    ) -> String {
        match services {
            [one] => self.one(namespace, one, account),
            several => {
                self.weighted((namespace, name), several, account);
                name.to_owned()
            }
        }
    }

    fn weighted(
        &mut self,
        (namespace, name): (&str, &str),
        services: &[YamlNode],
        account: &mut TreeAccount<'_>,
    ) {
        let mut elements = Vec::new();
        for service in services {
            let Some(id) = tree::entry(service) else {
                continue;
            };
            let mut element = map([("name", scalar(id, self.one(namespace, service, account)))]);
            if let Some(weight) = member(service, "weight") {
                insert(&mut element, &["weight"], weight.clone());
            }
            elements.push(element);
        }
        let way = ["http", "services", name, "weighted", "services"];
        insert(&mut self.root, &way, YamlNode::List(elements));
    }

    /// Returns the name of the service that a reference is; it is made if it is a Service of Kubernetes.
    fn one(
        &mut self,
        namespace: &str,
        reference: &YamlNode,
        account: &mut TreeAccount<'_>,
    ) -> String {
        let name = text(reference, "name").unwrap_or_default();
        let namespace = text(reference, "namespace").unwrap_or(namespace);
        for known in ["name", "namespace", "kind", "port", "scheme", "weight"] {
            if let Some(node) = member(reference, known) {
                account.translated(node);
            }
        }
        if name.contains('@') {
            return unqualified(name).to_owned();
        }
        if text(reference, "kind") == Some("TraefikService") {
            return format!("{namespace}-{name}");
        }
        let port = text(reference, "port").unwrap_or_default();
        let made = format!("{namespace}-{name}-{port}");
        let key = (namespace.to_owned(), name.to_owned(), port.to_owned());
        let known = self.ports.get(&key).cloned();
        let number = known.as_ref().map(|(number, _)| number.clone());
        let number = number.or_else(|| port.parse::<u16>().ok().map(|it| it.to_string()));
        let number = number.unwrap_or_else(|| {
            account.ledger.fill_in(format!(
                "[origin.{made}] servers: the number of the port {port:?} of the service {name}"
            ));
            "80".to_owned()
        });
        let by_port = if number == "443" { "https" } else { "http" };
        let by_port = known.map_or(by_port, |(_, scheme)| scheme);
        let scheme = text(reference, "scheme").unwrap_or(by_port);
        let url = format!("{scheme}://{name}.{namespace}.svc.cluster.local:{number}");
        let way = |member| ["http", "services", made.as_str(), "loadBalancer", member];
        if let Some(id) = tree::entry(reference) {
            let servers = YamlNode::List(vec![map([("url", scalar(id, url))])]);
            insert(&mut self.root, &way("servers"), servers);
        }
        for (name, value) in reference.members() {
            let is_own = ["name", "namespace", "kind", "port", "scheme", "weight"];
            let is_own = is_own.iter().any(|it| it.eq_ignore_ascii_case(name));
            let is_mirror = ["mirrors", "percent", "mirrorBody", "maxBodySize"];
            if is_own || is_mirror.iter().any(|it| it.eq_ignore_ascii_case(name)) {
                continue;
            }
            let value = match value {
                YamlNode::Scalar { id, text } if name == "serversTransport" => {
                    scalar(*id, qualified(text, namespace))
                }
                value => value.clone(),
            };
            insert(&mut self.root, &way(name), value);
        }
        made
    }
}

/// Returns the name by which the tree has an object of a namespace.
fn qualified(name: &str, namespace: &str) -> String {
    match name.contains('@') {
        true => unqualified(name).to_owned(),
        false => format!("{namespace}-{name}"),
    }
}

/// Names what a chain refers to as the tree does.
fn middleware(mut spec: YamlNode, namespace: &str, account: &mut TreeAccount<'_>) -> YamlNode {
    if let YamlNode::Map(members) = &mut spec {
        let is_chain = |key: &str| key.eq_ignore_ascii_case("chain");
        for (_, chain) in members.iter_mut().filter(|(key, _)| is_chain(key)) {
            let names = references(member(chain, "middlewares"), namespace, account);
            *chain = map([("middlewares", names)]);
        }
    }
    spec
}

/// Returns the names of a list of references, each with the entry of its name.
fn references(list: Option<&YamlNode>, namespace: &str, account: &mut TreeAccount<'_>) -> YamlNode {
    if let Some(list) = list {
        account.translated(list);
    }
    let elements = list.map(YamlNode::elements).unwrap_or_default();
    let name = |reference: &YamlNode| {
        let own: EntryId = tree::entry(member(reference, "name")?)?;
        let namespace = text(reference, "namespace").unwrap_or(namespace);
        Some(scalar(own, qualified(text(reference, "name")?, namespace)))
    };
    YamlNode::List(elements.iter().filter_map(name).collect())
}

/// Names the options of `tls` as the tree does.
fn tls_names(mut node: YamlNode, namespace: &str) -> YamlNode {
    let Some(options) = tree::at(&node, "options.name").cloned() else {
        return node;
    };
    let namespace = text(&node, "options.namespace").unwrap_or(namespace);
    let name = options.text().unwrap_or_default();
    let name = match name {
        "default" => name.to_owned(),
        name => qualified(name, namespace),
    };
    if let (YamlNode::Map(members), Some(id)) = (&mut node, tree::entry(&options)) {
        for (key, value) in members {
            if key.eq_ignore_ascii_case("options") {
                *value = scalar(id, name.clone());
            }
        }
    }
    node
}
