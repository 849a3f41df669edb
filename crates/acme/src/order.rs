//! Takes one order from its names to its certificate, RFC 8555 §7.4: proves each name, sends a request with a new key, fetches
//! the chain.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewOrder, Order, OrderStatus,
    RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::challenge::PresentedProof;
use super::order_error::OrderError;
use sluicegate_config::rules::{AcmeChallenge, NameSet};

/// The polling of an order: after a quarter of a second, then at twice the pause each, for two minutes.
const POLLS: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .timeout(Duration::from_secs(120));

/// The proof that the server requests for one name.
pub(super) struct RequestedProof<'a> {
    pub(super) domain: &'a str,
    pub(super) token: &'a str,
    pub(super) key_authorization: &'a str,
    /// The SHA-256 of the key authorization.
    pub(super) digest: &'a [u8],
}

/// A function that serves a proof as long as its result lives.
pub(super) type PresentProof<'a> =
    &'a (dyn Fn(&RequestedProof<'_>) -> Result<PresentedProof, OrderError> + Send + Sync);

/// Orders a certificate for `names`; returns its chain and its key, as PEM.
///
/// # Errors
/// The server rejects the order, fails to validate a name, or does not answer.
pub(super) async fn order(
    account: &Account,
    names: &NameSet,
    proof: AcmeChallenge,
    show: PresentProof<'_>,
) -> Result<String, OrderError> {
    let identifiers: Vec<_> = names
        .names()
        .iter()
        .map(|name| Identifier::Dns(name.to_string()))
        .collect();
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await?;
    let shown = prove(&mut order, proof, show).await?;
    match order.poll_ready(&POLLS).await {
        Ok(OrderStatus::Ready) => {}
        Ok(_) => return Err(reason(&mut order).await),
        // For an invalid order the server reports less than for the name that caused it.
        Err(instant_acme::Error::Api(_)) if order.state().status == OrderStatus::Invalid => {
            return Err(reason(&mut order).await);
        }
        Err(error) => return Err(error.into()),
    }
    drop(shown);
    let (request, key) = request(names).map_err(OrderError::failed)?;
    order.finalize_csr(&request).await?;
    let chain = order.poll_certificate(&POLLS).await?;
    Ok(format!("{}\n{key}", chain.trim_end()))
}

/// Serves every proof that the server requires, then asks the server to validate.
async fn prove(
    order: &mut Order,
    proof: AcmeChallenge,
    show: PresentProof<'_>,
) -> Result<Vec<PresentedProof>, OrderError> {
    let kind = match proof {
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
    };
    let mut shown = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Pending => {}
            // The server kept an earlier validation.
            AuthorizationStatus::Valid => continue,
            status => {
                return Err(OrderError::denied(format!(
                    "an authorization is {status:?} from the beginning"
                )));
            }
        }
        let domain = authorization.identifier().to_string();
        let Some(mut challenge) = authorization.challenge(kind.clone()) else {
            return Err(OrderError::denied(format!(
                "{domain}: the server does not offer {}; choose the other `challenge`",
                proof.name()
            )));
        };
        let authorization = challenge.key_authorization();
        shown.push(show(&RequestedProof {
            domain: &domain,
            token: &challenge.token,
            key_authorization: authorization.as_str(),
            digest: authorization.digest().as_ref(),
        })?);
        challenge.set_ready().await?;
    }
    Ok(shown)
}

/// Returns the reason for which the server calls the order invalid.
async fn reason(order: &mut Order) -> OrderError {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else {
            continue;
        };
        let failed = state
            .challenges
            .iter()
            .find_map(|challenge| challenge.error.as_ref());
        if let Some(problem) = failed {
            return OrderError::refused(&state.identifier().to_string(), problem);
        }
    }
    OrderError::denied("the server found the order invalid and does not say why")
}

/// Returns a signing request for `names` in DER, and its new key as PEM. ECDSA P-256: every current client supports it, and a
/// handshake costs a tenth of one with RSA.
fn request(names: &NameSet) -> Result<(Vec<u8>, String), rcgen::Error> {
    let names: Vec<String> = names.names().iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    let key = KeyPair::generate()?;
    let request = params.serialize_request(&key)?;
    Ok((request.der().to_vec(), key.serialize_pem()))
}
