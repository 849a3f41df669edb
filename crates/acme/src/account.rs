//! Opens the account at the ACME server: the stored one, or a new one, which is stored before anything is ordered with it.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use serde::{Deserialize, Serialize};
use tracing::info;

use super::https::{HttpsClient, RetryAfterHint};
use super::order_error::OrderError;
use super::storage::CertificateStorage;
use sluicegate_config::rules::{AccountBinding, AcmeRules};

/// The account as it is stored on disk.
#[derive(Serialize, Deserialize)]
struct StoredAccount {
    /// The contact addresses that the server was given.
    contact: Vec<String>,
    credentials: AccountCredentials,
}

/// Opens the account of `rules`; stores the pause that an error asks for in `pauses`.
///
/// # Errors
/// The server rejects the account or does not answer, or the account cannot be read or stored.
pub(super) async fn open(
    rules: &AcmeRules,
    storage: &CertificateStorage,
    pauses: &RetryAfterHint,
) -> Result<Account, OrderError> {
    let way = HttpsClient::new(rules.trust.clone(), pauses.clone());
    let builder = Account::builder_with_http(Box::new(way));
    let Some(text) = storage.account().map_err(OrderError::failed)? else {
        storage.prepare().map_err(OrderError::failed)?;
        let contact: Vec<&str> = rules.contact.iter().map(String::as_str).collect();
        let asked = NewAccount {
            contact: &contact,
            // The configuration is invalid without `accept_terms`.
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let binding = rules.eab.as_ref().map(external_key).transpose()?;
        let directory = rules.directory.to_string();
        let (account, credentials) = builder.create(&asked, directory, binding.as_ref()).await?;
        keep(storage, rules, credentials)?;
        info!("acme: account {} created", account.id());
        return Ok(account);
    };
    let kept: StoredAccount = serde_json::from_str(&text).map_err(|error| {
        OrderError::failed(format!(
            "account.json holds no account ({error}); remove it, and a new one is made"
        ))
    })?;
    let account = builder.from_credentials(kept.credentials).await?;
    if kept.contact != rules.contact {
        let contact: Vec<&str> = rules.contact.iter().map(String::as_str).collect();
        account.update_contacts(&contact).await?;
        // Parsed again, since credentials cannot be copied.
        let StoredAccount { credentials, .. } =
            serde_json::from_str(&text).map_err(OrderError::failed)?;
        keep(storage, rules, credentials)?;
    }
    Ok(account)
}

fn keep(
    storage: &CertificateStorage,
    rules: &AcmeRules,
    credentials: AccountCredentials,
) -> Result<(), OrderError> {
    let kept = StoredAccount {
        contact: rules.contact.clone(),
        credentials,
    };
    let text = serde_json::to_string_pretty(&kept).map_err(OrderError::failed)?;
    storage.keep_account(&text).map_err(OrderError::failed)
}

fn external_key(binding: &AccountBinding) -> Result<ExternalAccountKey, OrderError> {
    // It was decoded once, when the configuration was read.
    let key = BASE64_URL_SAFE_NO_PAD
        .decode(binding.hmac_file.reveal())
        .map_err(OrderError::failed)?;
    Ok(ExternalAccountKey::new(binding.kid.to_string(), &key))
}
