//! Names the request fields in which a proxy in front names the client, and makes `[client]` of the limits that count by one.
//!
//! The gateway removes such a field from every request before a key is read, since every client can write it. A limit by the field
//! therefore counts `client.ip`: `client_ip_header` names the field, and `trusted_proxies` names the proxies that are believed. The
//! input seldom names these proxies, so they are to be filled in.

use sluicegate_base::proxy_fields::is_proxy_field;

use crate::ledger::{EntryId, Ledger};
use crate::model::ClientRules;

/// Endings of names of fields that hold one address, or a chain of addresses.
const ENDINGS: [&str; 10] = [
    "-addr",
    "-address",
    "-clientip",
    "-for",
    "-ip",
    "-ipv4",
    "-ipv6",
    "-remoteip",
    "-socketip",
    "forwarded",
];

/// Names that proxies give such a field, and that the gateway passes on.
const OTHERS: [&str; 3] = ["clientip", "realip", "remoteip"];

/// The ranges that Cloudflare publishes.
const CLOUDFLARE: &str = "173.245.48.0/20, 103.21.244.0/22, 103.22.200.0/22, 103.31.4.0/22, 141.101.64.0/18, 108.162.192.0/18, \
    190.93.240.0/20, 188.114.96.0/20, 197.234.240.0/22, 198.41.128.0/17, 162.158.0.0/15, 104.16.0.0/13, 104.24.0.0/14, 172.64.0.0/13, \
    131.0.72.0/22, 2400:cb00::/32, 2606:4700::/32, 2803:f800::/32, 2405:b500::/32, 2405:8100::/32, 2a06:98c0::/29, 2c0f:f248::/32; \
    compare them with https://www.cloudflare.com/ips/";

/// The ranges that Fastly publishes.
const FASTLY: &str = "23.235.32.0/20, 43.249.72.0/22, 103.244.50.0/24, 103.245.222.0/23, 103.245.224.0/24, 104.156.80.0/20, \
    140.248.64.0/18, 140.248.128.0/17, 146.75.0.0/17, 151.101.0.0/16, 157.52.64.0/18, 167.82.0.0/17, 167.82.128.0/20, 167.82.160.0/20, \
    167.82.224.0/20, 172.111.64.0/18, 185.31.16.0/22, 199.27.72.0/21, 199.232.0.0/16, 2a04:4e40::/32, 2a04:4e42::/32; compare them with \
    https://api.fastly.com/public-ip-list";

/// A limit that counts by a field which only a proxy may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyFieldUse {
    /// The field, in lower case.
    pub(crate) field: String,
    /// The directive that counts by it.
    pub(crate) source: EntryId,
}

/// Returns true if the gateway removes this field from requests unless `[client]` names it; `name` is in lower case.
pub(crate) fn is_removed(name: &str) -> bool {
    names_client(name) || is_proxy_field(name)
}

/// Returns true if a proxy names the client in this field; `name` is in lower case.
pub(crate) fn names_client(name: &str) -> bool {
    let holds_address = ENDINGS.iter().any(|ending| name.ends_with(ending));
    OTHERS.contains(&name) || (is_proxy_field(name) && holds_address)
}

/// Makes the fields by which limits count the source of the client's address. One field names the client for all routes.
pub(crate) fn identify_clients(
    client: &mut ClientRules,
    uses: &[ProxyFieldUse],
    ledger: &mut Ledger,
) {
    let (naming, others): (Vec<_>, Vec<_>) = uses.iter().partition(|it| names_client(&it.field));
    for ProxyFieldUse { field, source } in others {
        ledger.fill_in(format!(
            "[client] trusted_headers: {field}, and trusted_proxies that write it; the gateway removes the field from all other requests, \
             so {} counts none of them",
            ledger.comment(*source)
        ));
    }
    let counts = !naming.is_empty();
    for ProxyFieldUse { field, source } in naming {
        let known = client.header.get_or_insert_with(|| field.clone());
        if !client.remarks.sources.contains(source) {
            client.remarks.sources.push(*source);
        }
        if known != field {
            ledger.fill_in(format!(
                "[client] client_ip_header: {} counts by {field}, and the client is read from {known}; one field names the client for all \
                 routes",
                ledger.comment(*source)
            ));
        }
    }
    if let Some(field) = &client.header
        && client.trusted_proxies.is_empty()
        && counts
    {
        ledger.fill_in(format!(
            "[client] trusted_proxies: {}. Until they are written, {field} is not read, and all clients behind one proxy share a counter",
            writers(field)
        ));
    }
}

/// Returns the proxies that write a field, with their ranges where the field belongs to one network.
fn writers(field: &str) -> String {
    let of = |network: &str, ranges: &str| format!("the ranges of {network}, {ranges}");
    match field {
        "cf-connecting-ip" | "cf-connecting-ipv6" | "cf-pseudo-ipv4" => of("Cloudflare", CLOUDFLARE),
        "true-client-ip" => format!(
            "the ranges of the network that writes true-client-ip. Akamai lists them in its Control Center under Origin IP Access Control \
             List. Those of Cloudflare are {CLOUDFLARE}"
        ),
        "fastly-client-ip" => of("Fastly", FASTLY),
        "x-azure-clientip" | "x-azure-socketip" => of(
            "Azure Front Door",
            "the service tag AzureFrontDoor.Backend of https://www.microsoft.com/download/details.aspx?id=56519; they are shared by all \
             its customers, so compare X-Azure-FDID too",
        ),
        "cloudfront-viewer-address" => of(
            "CloudFront",
            "CLOUDFRONT_ORIGIN_FACING of https://ip-ranges.amazonaws.com/ip-ranges.json; and write client_ip_header = \
             \"x-forwarded-for\", since cloudfront-viewer-address has a port behind the address",
        ),
        "x-sucuri-clientip" => of(
            "Sucuri",
            "192.88.134.0/23, 185.93.228.0/22, 66.248.200.0/22, 208.109.0.0/22, 2a02:fe80::/29; compare them with its documentation",
        ),
        "incap-client-ip" => of(
            "Imperva",
            "which https://my.imperva.com/api/integration/v1/ips lists",
        ),
        "do-connecting-ip" => "the addresses of DigitalOcean's ingress, which publishes no list; the access log has them as peers"
            .to_owned(),
        "fly-client-ip" => {
            "the addresses of Fly's proxy, which publishes no list; the access log has them as peers".to_owned()
        }
        _ => format!("the addresses of the proxies that write {field}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no limit counts by a field that the gateway removes. Method: fields of CDNs, clouds and balancers, and fields of clients.
    #[test]
    fn fields_that_name_the_client_are_found() {
        for name in [
            "ali-cdn-real-ip",
            "cf-connecting-ip",
            "cf-connecting-ipv6",
            "cf-pseudo-ipv4",
            "client-ip",
            "cloudfront-viewer-address",
            "do-connecting-ip",
            "fastly-client-ip",
            "fly-client-ip",
            "forwarded",
            "forwarded-for",
            "incap-client-ip",
            "remote-addr",
            "true-client-ip",
            "wl-proxy-client-ip",
            "x-appengine-user-ip",
            "x-azure-clientip",
            "x-azure-socketip",
            "x-client-ip",
            "x-cluster-client-ip",
            "x-envoy-external-address",
            "x-forwarded-for",
            "x-nf-client-connection-ip",
            "x-original-forwarded-for",
            "x-proxyuser-ip",
            "x-real-ip",
            "x-sucuri-clientip",
            "x-vercel-forwarded-for",
        ] {
            assert!(names_client(name), "{name}");
        }
        for name in [
            "authorization",
            "user-agent",
            "x-api-key",
            "x-client-id",
            "x-forwarded-host",
            "x-tenant",
        ] {
            assert!(!names_client(name), "{name}");
        }
    }

    /// Goal: who names the client is to be filled in once, and a second field is no silent change. Method: two fields, without proxies and
    /// with them.
    #[test]
    fn one_field_names_the_client() {
        let mut ledger = Ledger::default();
        let position = crate::position::Position::start(&"n".into());
        let uses = ["cf-connecting-ip", "x-real-ip"].map(|field| ProxyFieldUse {
            field: field.to_owned(),
            source: ledger.enter(position.clone(), field),
        });
        let mut client = ClientRules::default();
        identify_clients(&mut client, &uses[..1], &mut ledger);
        assert_eq!(client.header.as_deref(), Some("cf-connecting-ip"));
        assert_eq!(ledger.to_fill_in().len(), 1);
        assert!(ledger.to_fill_in()[0].contains("173.245.48.0/20"));
        identify_clients(&mut client, &uses, &mut ledger);
        assert_eq!(client.header.as_deref(), Some("cf-connecting-ip"));
        assert!(ledger.to_fill_in()[1].starts_with("[client] client_ip_header: n:1: x-real-ip"));
        let mut trusted = ClientRules {
            trusted_proxies: vec!["10.0.0.0/8".to_owned()],
            ..ClientRules::default()
        };
        let mut ledger = Ledger::default();
        identify_clients(&mut trusted, &uses[..1], &mut ledger);
        assert!(ledger.to_fill_in().is_empty());
    }
}
