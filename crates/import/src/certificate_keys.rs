//! Removes certificates of clients from keys where no listener asks for them, since the gateway rejects a key that no request can have.

use std::collections::BTreeSet;

use crate::ledger::Ledger;
use crate::model::{GatewayModel, KeyPart};

/// Why a key has no certificate.
const NOT_ASKED: &str = "no listener that is imported asks clients for certificates, so no key has a part of one; write client_ca_file in \
                         [listener.tls], and the limit with this part";

/// Removes the parts of certificates, and limits that hold only for requests with one.
pub(crate) fn remove_absent(gateway: &mut GatewayModel, ledger: &mut Ledger) {
    if gateway.listeners.iter().any(|it| it.client_ca.is_some()) {
        return;
    }
    let mut removed = BTreeSet::new();
    for limit in gateway
        .limits
        .iter_mut()
        .filter(|it| it.key.iter().any(is_certificate))
    {
        if let Some(source) = limit.remarks.sources.last() {
            ledger.fill_in_for(*source, NOT_ASKED);
        }
        if limit.on_missing == Some("skip") {
            removed.insert(limit.name.clone());
        }
        limit.key.retain(|it| !is_certificate(it));
        let mut left = limit.key.iter();
        limit.on_missing = limit
            .on_missing
            .filter(|_| left.any(KeyPart::can_be_absent));
    }
    gateway.limits.retain(|it| !removed.contains(&it.name));
    for route in &mut gateway.routes {
        route.limits.retain(|it| !removed.contains(it));
    }
}

fn is_certificate(part: &KeyPart) -> bool {
    matches!(
        part,
        KeyPart::CertificateSubject | KeyPart::CertificateFingerprint
    )
}

#[cfg(test)]
mod tests {
    use crate::{Format, NoFiles, import};

    /// Goal: a limit by certificates is no error of the result where nobody is asked for one. Method: keys of a certificate alone and
    /// beside an address, without and with a listener that asks.
    #[test]
    fn keys_have_certificates_that_a_listener_asks_for() {
        let keys = |key: &str, server: &str| {
            let text = format!(
                "limit_req_zone {key} zone=z:1m rate=1r/s; server {{ listen 443 ssl; ssl_certificate a; ssl_certificate_key b; {server} \
                 location / {{ limit_req zone=z; proxy_pass http://10.0.0.1:80; }} }}"
            );
            let imported = import(Format::Nginx, "n", &text, &NoFiles).unwrap();
            let lines = imported.toml.lines().filter(|it| it.starts_with("key "));
            let keys: Vec<String> = lines.map(str::to_owned).collect();
            (keys.join(""), imported.ledger.to_fill_in().len())
        };
        let asking = "ssl_verify_client optional; ssl_client_certificate c;";
        assert_eq!(keys("$ssl_client_s_dn", ""), (String::new(), 1));
        let (both, lines) = keys("$ssl_client_s_dn$binary_remote_addr", "");
        assert!(both.ends_with("= \"client.ip\"") && lines == 1, "{both}");
        let (certificate, lines) = keys("$ssl_client_s_dn", asking);
        assert!(certificate.contains("tls.client.subject") && lines == 0);
    }
}
