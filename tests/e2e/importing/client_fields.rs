//! Keys by fields in which a network names the client.

use super::peer::{Peer, imported};
use super::*;

/// A request of a client that a trusted proxy names.
fn named(field: &'static str, client: &'static str) -> Request {
    get("/").header(field, client)
}

#[tokio::test]
async fn clients_that_a_field_names_are_counted_apart() {
    // Goal: a limit by the field of a network counts its clients, once its addresses are filled in. Method: fields of some networks, each
    // with requests of two clients through one proxy, to nginx and to the gateway.
    for (variable, field) in [
        ("$http_cf_connecting_ip", "cf-connecting-ip"),
        ("$http_true_client_ip", "true-client-ip"),
        ("$http_x_azure_clientip", "x-azure-clientip"),
        ("$http_x_real_ip", "x-real-ip"),
        ("$http_x_forwarded_for", "x-forwarded-for"),
    ] {
        let text = nginx(
            &format!("limit_req_zone {variable} zone=one:1m rate=1r/m;"),
            "location / { limit_req zone=one; proxy_pass http://127.0.0.1:8081; }",
        );
        let origin = Origin::echo();
        let toml = imported(&text, &origin).await;
        assert!(
            toml.contains("# To fill in: [client] trusted_proxies: "),
            "{toml}"
        );
        let header = format!("client_ip_header = \"{field}\"\n");
        assert!(toml.contains(&header), "{toml}");
        let filled = format!("{header}trusted_proxies = [\"127.0.0.1\"]\n");
        let toml = toml
            .replace(&header, &filled)
            .replace("127.0.0.1:8080", "{listener}");
        let gateway = Setup::new()
            .whole(&format!("{toml}\n[admin]\naddress = \"{{admin}}\"\n"))
            .start()
            .await;
        let nginx = Peer::nginx(&text, &origin).await;
        for address in [nginx.address(), gateway.address()] {
            let mut found = Vec::new();
            for client in ["203.0.113.7", "203.0.113.7", "203.0.113.8"] {
                let mut connection = Client::connect(address).await;
                let status = connection.send(named(field, client)).await.status;
                found.push(status == 200);
            }
            assert_eq!(found, [true, false, true], "{field}");
        }
    }
}
