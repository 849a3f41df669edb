//! Makes origins of the services that paths name.

use std::collections::BTreeMap;

use super::annotations::{IngressAnnotations, ServiceProtocol};
use super::yaml::YamlNode;
use crate::ledger::Ledger;
use crate::model::{Origin, Server};
use crate::names::NamePool;

/// A port that no server has, for services whose port the operator has to name.
const NO_PORT: u16 = 80;

/// ServiceOrigins of the input, and the origins that were made.
#[derive(Default)]
pub(super) struct ServiceOrigins {
    /// Ports by namespace, service and name.
    ports: BTreeMap<(String, String, String), u16>,
    names: NamePool,
    pub(super) origins: Vec<Origin>,
}

impl ServiceOrigins {
    /// Takes the names of the ports of a Service.
    pub(super) fn define(&mut self, service: &YamlNode, namespace: &str, ledger: &mut Ledger) {
        let name = service
            .at(&["metadata", "name"])
            .and_then(YamlNode::text)
            .unwrap_or_default();
        let ports = service
            .at(&["spec", "ports"])
            .map(YamlNode::elements)
            .unwrap_or_default();
        for port in ports {
            let number = port
                .get("port")
                .and_then(YamlNode::text)
                .and_then(|it| it.parse().ok());
            if let (Some(of_port), Some(number)) =
                (port.get("name").and_then(YamlNode::text), number)
            {
                let key = (namespace.to_owned(), name.to_owned(), of_port.to_owned());
                self.ports.insert(key, number);
                port.entries()
                    .into_iter()
                    .for_each(|id| ledger.translated(id));
            }
        }
    }

    /// Returns the origin of a backend; `None` where it names no service.
    pub(super) fn origin(
        &mut self,
        backend: &YamlNode,
        namespace: &str,
        annotations: &IngressAnnotations,
        ledger: &mut Ledger,
    ) -> Option<String> {
        // The second forms are those of v1beta1.
        let name = backend
            .at(&["service", "name"])
            .or_else(|| backend.get("serviceName"))?;
        let port = backend
            .at(&["service", "port", "number"])
            .or_else(|| backend.at(&["service", "port", "name"]))
            .or_else(|| backend.get("servicePort"));
        backend
            .entries()
            .into_iter()
            .for_each(|id| ledger.translated(id));
        let name = name.text()?;
        let port = port.and_then(YamlNode::text).unwrap_or_default();
        let key = (namespace.to_owned(), name.to_owned(), port.to_owned());
        let number = port.parse().ok().or_else(|| self.ports.get(&key).copied());
        let wanted = crate::names::plain(&format!("{namespace}-{name}-{port}"));
        let number = number.unwrap_or_else(|| {
            ledger.fill_in(format!(
                "[origin.{wanted}] servers: the number of the port {port:?} of the service {name}"
            ));
            NO_PORT
        });
        let mut origin = Origin {
            servers: vec![Server {
                address: format!("{name}.{namespace}.svc.cluster.local:{number}"),
                ..Server::default()
            }],
            timeouts: annotations.timeouts.clone(),
            ..Origin::default()
        };
        if matches!(
            annotations.protocol,
            ServiceProtocol::Https | ServiceProtocol::Grpcs
        ) {
            origin.tls = Some("{ verify = \"off\" }".to_owned());
            let difference = "certificates are not verified, as by ingress-nginx; leave `tls.verify` out to verify them";
            origin.remarks.differences.push(difference.to_owned());
        }
        origin.protocol = match annotations.protocol {
            ServiceProtocol::Grpc => Some("h2c"),
            ServiceProtocol::Grpcs => Some("h2"),
            ServiceProtocol::Http | ServiceProtocol::Https => None,
        };
        if let Some(known) = self.origins.iter().find(|it| it.serves_as(&origin)) {
            return Some(known.name.clone());
        }
        origin.remarks.sources = backend.entries();
        origin.name = self.names.unique(&wanted);
        let name = origin.name.clone();
        self.origins.push(origin);
        Some(name)
    }
}
