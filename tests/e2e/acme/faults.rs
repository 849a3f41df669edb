//! What fails is said once, is not hammered, and leaves what there is.

use super::{AcmeRules, Secured};
use crate::harness::{AcmeServer, Fault, eventually, free_address};

fn rules() -> AcmeRules<'static> {
    AcmeRules {
        names: &["example.com"],
        acme: "",
    }
}

fn lines_with(secured: &Secured, words: &str) -> usize {
    let log = secured.gateway.stderr();
    log.lines().filter(|line| line.contains(words)).count()
}

/// Goal: RFC 8555 §6.5: a nonce that is not good is no failure. Method: the server refuses two.
#[tokio::test]
async fn a_bad_nonce_is_retried() {
    let server = AcmeServer::start();
    server.fault(Fault::BadNonce);
    server.fault(Fault::BadNonce);
    let secured = Secured::start(server, rules()).await;
    secured.names_lead_to_tls();
    secured.serves("example.com").await;
    assert_eq!(
        (secured.server().faults_left(), secured.server().orders()),
        (0, 1)
    );
    assert_eq!(lines_with(&secured, "order failed:"), 0);
}

/// Goal: a rejected order is logged once, waits, and the current certificate stays in use; an edit of `[acme]` tries again at once.
/// Method: a certificate, then another name that the server refuses; then an edit.
#[tokio::test]
async fn a_rejected_order_waits_and_the_old_certificate_stays() {
    let mut secured = Secured::start(AcmeServer::start(), rules()).await;
    secured.names_lead_to_tls();
    let old = secured.serves("example.com").await;
    secured.server().fault(Fault::Rejected);
    let more = |acme| AcmeRules {
        names: &["example.com", "api.example.com"],
        acme,
    };
    secured.reload(more("")).await;
    let why = secured.failed("api.example.com", 1).await;
    assert!(
        why.contains("the server will not issue for such a name"),
        "{why}"
    );
    assert_eq!(secured.serves("example.com").await, old);
    assert_eq!(
        lines_with(&secured, "the server will not issue for such a name"),
        1
    );
    let metrics = secured.gateway.metrics().await;
    let refused = metrics.sum("sluicegate_acme_orders_total", &[("result", "refused")]);
    assert_eq!((refused, secured.server().orders()), (1.0, 2));

    secured
        .reload(more("contact = [\"mailto:ops@example.com\"]"))
        .await;
    secured.serves("api.example.com").await;
    assert_eq!(secured.status("api.example.com").await["failures"], 0);
    assert_eq!(secured.server().accounts(), [["mailto:ops@example.com"]]);
}

/// Goal: a server that counts is given the time that it asks for, and an edit does not shorten it. Method: rateLimited with a Retry-After
/// of two hours, then an edit.
#[tokio::test]
async fn a_rate_limit_is_not_hammered() {
    let server = AcmeServer::start();
    server.fault(Fault::RateLimited(7_200));
    let mut secured = Secured::start(server, rules()).await;
    secured.names_lead_to_tls();
    let why = secured.failed("example.com", 1).await;
    assert!(why.contains("rateLimited"), "{why}");
    let metrics = secured.gateway.metrics().await;
    let label = [("certificate", "example.com")];
    let next = metrics.sum("sluicegate_acme_next_order_timestamp_seconds", &label);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let wait = next - now.as_secs_f64();
    assert!((7_100.0..=7_201.0).contains(&wait), "{wait}");
    let edit = AcmeRules {
        acme: "contact = [\"mailto:ops@example.com\"]",
        ..rules()
    };
    secured.reload(edit).await;
    let status = secured.status("example.com").await;
    assert_eq!(
        (&status["failures"], secured.server().orders()),
        (&1.into(), 1)
    );
}

/// Goal: a failed validation is logged with the server's text. Method: names that lead to a closed port.
#[tokio::test]
async fn a_failed_validation_is_logged_with_the_servers_text() {
    let secured = Secured::start(AcmeServer::start(), rules()).await;
    secured.server().names_lead_to(free_address());
    let why = secured.failed("example.com", 1).await;
    assert!(
        why.starts_with("example.com: no handshake for example.com: "),
        "{why}"
    );
    assert_eq!(lines_with(&secured, "no handshake for example.com"), 1);
    assert!(secured.handshake("example.com").await.is_err());
}

/// Goal: an ACME server without a trusted certificate gets no request, and the log names the key to write. Method: the authority of
/// another server as `ca_file`.
#[tokio::test]
async fn the_wrong_authority_is_a_clear_error() {
    let (server, other) = (AcmeServer::start(), AcmeServer::start());
    let acme = "";
    let rules = AcmeRules { acme, ..rules() };
    let secured = Secured::start_with_file(server, rules, ("ca.pem", &other.ca())).await;
    let why = secured.failed("example.com", 1).await;
    assert!(
        why.contains("nobody whom the gateway believes has signed its certificate"),
        "{why}"
    );
    assert!(why.contains("[acme] ca_file"), "{why}");
    assert_eq!(
        (
            secured.server().requests(),
            secured.server().accounts().len()
        ),
        (0, 0)
    );
}

/// Goal: a server that has lost its accounts fails one order, not all later ones. Method: the server drops its accounts, another name
/// is asked
/// for; the account is put aside, and the next try, which an edit brings on, opens a new one.
#[tokio::test]
async fn an_account_that_the_server_lost_is_made_anew() {
    let mut secured = Secured::start(AcmeServer::start(), rules()).await;
    secured.names_lead_to_tls();
    secured.serves("example.com").await;
    secured.server().forget_accounts();
    let more = |acme| AcmeRules {
        names: &["example.com", "api.example.com"],
        acme,
    };
    secured.reload(more("")).await;
    let why = secured.failed("api.example.com", 1).await;
    assert!(why.contains("accountDoesNotExist"), "{why}");
    secured.reload(more("renew_before = \"20d\"")).await;
    secured.serves("api.example.com").await;
    assert_eq!(secured.server().accounts().len(), 1);
}

/// Goal: nothing is ordered that could not be kept. Method: a file where the directory should be; the server is asked for nothing that
/// leaves a trace there.
#[tokio::test]
async fn nothing_is_ordered_that_cannot_be_kept() {
    let server = AcmeServer::start();
    let rules = AcmeRules {
        acme: "dir = \"../full/below\"",
        ..rules()
    };
    let secured = Secured::start_with_file(server, rules, ("full", "")).await;
    let why = secured.failed("example.com", 1).await;
    assert!(why.contains("cannot be"), "{why}");
    assert_eq!(
        (secured.server().orders(), secured.server().accounts().len()),
        (0, 0)
    );
    eventually("the log says so", async || {
        (lines_with(&secured, "order failed:") == 1).then_some(())
    })
    .await;
}
