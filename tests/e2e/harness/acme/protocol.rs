//! What the ACME server answers, RFC 8555 §7: resources by path, and the books behind them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::authority::SigningRequest;
use super::jws::{AccountKey, Signed, decode};
use super::{Fault, Shared, check};

/// What the server remembers.
#[derive(Default)]
pub(super) struct Books {
    /// Given out and not used yet.
    nonces: HashSet<String>,
    given: usize,
    accounts: Vec<Account>,
    orders: Vec<Order>,
    authorizations: Vec<Authorization>,
    pub(super) asked: usize,
}

struct Account {
    key: AccountKey,
    contact: Vec<String>,
}

struct Order {
    account: usize,
    names: Vec<String>,
    authorizations: Vec<usize>,
    certificate: Option<String>,
}

struct Authorization {
    name: String,
    token: String,
    status: &'static str,
    error: Option<Value>,
}

type Answer = Response<Full<Bytes>>;
/// A refusal: status, type, detail.
type Refusal = (StatusCode, &'static str, String);

impl Books {
    pub(super) fn issued(&self) -> usize {
        self.orders
            .iter()
            .filter(|order| order.certificate.is_some())
            .count()
    }

    pub(super) fn contacts(&self) -> Vec<Vec<String>> {
        self.accounts
            .iter()
            .map(|account| account.contact.clone())
            .collect()
    }

    pub(super) fn forget_accounts(&mut self) {
        self.accounts.clear();
    }

    fn nonce(&mut self) -> String {
        self.given += 1;
        let nonce = format!("nonce-{}", self.given);
        self.nonces.insert(nonce.clone());
        nonce
    }

    fn status(&self, order: &Order) -> &'static str {
        let of = |status| move |at: &usize| self.authorizations[*at].status == status;
        match () {
            () if order.certificate.is_some() => "valid",
            () if order.authorizations.iter().any(of("invalid")) => "invalid",
            () if order.authorizations.iter().all(of("valid")) => "ready",
            () => "pending",
        }
    }
}

/// Answers one request.
pub(super) async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Answer, hyper::Error> {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = head.uri.path().trim_start_matches('/').to_owned();
    let answered = match (&head.method, &*path) {
        (&Method::GET, "directory") => Ok(directory(&shared)),
        (&Method::HEAD, "nonce") => Ok(json_answer(StatusCode::OK, &Value::Null)),
        (&Method::POST, _)
            if head
                .headers
                .get(CONTENT_TYPE)
                .is_some_and(|kind| kind == "application/jose+json") =>
        {
            signed(&shared, &path, &body)
        }
        _ => Err(refusal(
            StatusCode::NOT_FOUND,
            "malformed",
            "no such resource",
        )),
    };
    let mut answer = answered.unwrap_or_else(|(status, kind, detail)| {
        let problem = json!({ "type": format!("urn:ietf:params:acme:error:{kind}"), "detail": detail, "status": status.as_u16() });
        let mut answer = json_answer(status, &problem);
        answer.headers_mut().insert(CONTENT_TYPE, "application/problem+json".parse().unwrap());
        if let Some(seconds) = detail.strip_prefix("retry after ") {
            answer.headers_mut().insert(RETRY_AFTER, seconds.parse().unwrap());
        }
        answer
    });
    let nonce = shared.books().nonce();
    answer
        .headers_mut()
        .insert("replay-nonce", nonce.parse().unwrap());
    Ok(answer)
}

fn directory(shared: &Shared) -> Answer {
    json_answer(
        StatusCode::OK,
        &json!({
            "newNonce": shared.url("nonce"),
            "newAccount": shared.url("account"),
            "newOrder": shared.url("order"),
            "revokeCert": shared.url("revoke"),
            "keyChange": shared.url("key-change"),
            "meta": { "externalAccountRequired": shared.external.is_some() },
        }),
    )
}

fn json_answer(status: StatusCode, value: &Value) -> Answer {
    let body = match value {
        Value::Null => Bytes::new(),
        value => value.to_string().into(),
    };
    let answer = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json");
    answer.body(Full::new(body)).unwrap()
}

fn refusal(status: StatusCode, kind: &'static str, detail: &str) -> Refusal {
    (status, kind, detail.to_owned())
}

fn malformed(detail: &str) -> Refusal {
    refusal(StatusCode::BAD_REQUEST, "malformed", detail)
}

/// A POST: the signature is verified before anything is looked at, RFC 8555 §6.2 to §6.5.
fn signed(shared: &Arc<Shared>, path: &str, body: &[u8]) -> Result<Answer, Refusal> {
    let body = serde_json::from_slice(body).map_err(|_| malformed("no JSON"))?;
    let signed = Signed::read(&body).ok_or_else(|| malformed("no JWS"))?;
    if signed.header["url"] != shared.url(path) {
        return Err(refusal(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "the JWS is for another URL",
        ));
    }
    let nonce = signed.header["nonce"].as_str().unwrap_or_default();
    let is_fresh = shared.books().nonces.remove(nonce);
    if !is_fresh
        || shared
            .takes_place(|fault| matches!(fault, Fault::BadNonce))
            .is_some()
    {
        return Err(refusal(
            StatusCode::BAD_REQUEST,
            "badNonce",
            "the nonce is not good",
        ));
    }
    let payload = signed.payload().ok_or_else(|| malformed("no payload"))?;
    if path == "account" {
        return new_account(shared, &signed, &payload);
    }
    let account = {
        let books = shared.books();
        let known = |(at, account): (usize, &Account)| {
            let is_named = signed.header["kid"] == shared.url(&format!("account/{at}"));
            is_named.then(|| (at, account.key.clone()))
        };
        let account = books.accounts.iter().enumerate().find_map(known);
        account.ok_or_else(|| {
            refusal(
                StatusCode::BAD_REQUEST,
                "accountDoesNotExist",
                "no such account",
            )
        })?
    };
    if !signed.is_of(&account.1) {
        return Err(malformed("the signature is not that of the account"));
    }
    let account = account.0;
    let words: Vec<&str> = path.split('/').collect();
    let number = |at: usize| {
        words
            .get(at)
            .and_then(|word| word.parse::<usize>().ok())
            .unwrap_or(usize::MAX)
    };
    match (words[0], words.get(2).copied()) {
        ("account", None) => {
            let mut books = shared.books();
            books.accounts[account].contact = contact(&payload);
            Ok(json_answer(StatusCode::OK, &json!({ "status": "valid" })))
        }
        ("order", None) if words.len() == 1 => new_order(shared, account, &payload),
        ("order", None) => shown_order(shared, account, number(1)),
        ("order", Some("finalize")) => finalize(shared, account, number(1), &payload),
        ("authorization", None) => shown_authorization(shared, number(1)),
        ("challenge", Some(kind)) => try_challenge(shared, account, number(1), kind),
        ("certificate", None) => {
            let books = shared.books();
            let order = books
                .orders
                .get(number(1))
                .filter(|order| order.account == account);
            let chain = order.and_then(|order| order.certificate.clone());
            let chain = chain.ok_or_else(|| malformed("there is no certificate"))?;
            let answer =
                Response::builder().header(CONTENT_TYPE, "application/pem-certificate-chain");
            Ok(answer.body(Full::new(chain.into())).unwrap())
        }
        _ => Err(refusal(
            StatusCode::NOT_FOUND,
            "malformed",
            "no such resource",
        )),
    }
}

fn contact(payload: &Value) -> Vec<String> {
    let all = payload["contact"].as_array().cloned().unwrap_or_default();
    all.iter()
        .filter_map(|contact| contact.as_str().map(str::to_owned))
        .collect()
}

/// RFC 8555 §7.3, and §7.3.4 where accounts are for customers only.
fn new_account(shared: &Shared, signed: &Signed, payload: &Value) -> Result<Answer, Refusal> {
    let jwk = &signed.header["jwk"];
    let key = AccountKey::read(jwk).filter(|key| signed.is_of(key));
    let key = key.ok_or_else(|| malformed("the signature is not that of the key"))?;
    if payload["termsOfServiceAgreed"] != true {
        return Err(refusal(
            StatusCode::FORBIDDEN,
            "userActionRequired",
            "agree to the terms",
        ));
    }
    if let Some((kid, secret)) = &shared.external {
        let binding = Signed::read(&payload["externalAccountBinding"]).filter(|binding| {
            binding.header["kid"] == **kid
                && binding.header["url"] == shared.url("account")
                && binding.is_of_secret(secret)
                && binding.payload().as_ref() == Some(jwk)
        });
        if binding.is_none() {
            return Err(refusal(
                StatusCode::FORBIDDEN,
                "externalAccountRequired",
                "customers only",
            ));
        }
    }
    let mut books = shared.books();
    let at = books.accounts.len();
    books.accounts.push(Account {
        key,
        contact: contact(payload),
    });
    let mut answer = json_answer(StatusCode::CREATED, &json!({ "status": "valid" }));
    let location = shared.url(&format!("account/{at}"));
    answer
        .headers_mut()
        .insert(LOCATION, location.parse().unwrap());
    Ok(answer)
}

/// RFC 8555 §7.4.
fn new_order(shared: &Shared, account: usize, payload: &Value) -> Result<Answer, Refusal> {
    let identifiers = payload["identifiers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let names = identifiers.iter().map(|identifier| {
        let is_name = identifier["type"] == "dns";
        identifier["value"]
            .as_str()
            .filter(|_| is_name)
            .map(str::to_owned)
    });
    let mut names: Vec<String> = names
        .collect::<Option<_>>()
        .ok_or_else(|| malformed("names only"))?;
    names.sort();
    let mut books = shared.books();
    books.asked += 1;
    match shared.takes_place(|fault| matches!(fault, Fault::RateLimited(_) | Fault::Rejected)) {
        Some(Fault::RateLimited(seconds)) => {
            let detail = format!("retry after {seconds}");
            return Err((StatusCode::TOO_MANY_REQUESTS, "rateLimited", detail));
        }
        Some(_) => {
            let detail = "the server will not issue for such a name";
            return Err(refusal(StatusCode::FORBIDDEN, "rejectedIdentifier", detail));
        }
        None => {}
    }
    let mut authorizations = Vec::new();
    for name in &names {
        authorizations.push(books.authorizations.len());
        let token = format!("token-{}", books.authorizations.len());
        books.authorizations.push(Authorization {
            name: name.clone(),
            token,
            status: "pending",
            error: None,
        });
    }
    let at = books.orders.len();
    books.orders.push(Order {
        account,
        names,
        authorizations,
        certificate: None,
    });
    drop(books);
    let mut answer = shown_order(shared, account, at)?;
    *answer.status_mut() = StatusCode::CREATED;
    let location = shared.url(&format!("order/{at}"));
    answer
        .headers_mut()
        .insert(LOCATION, location.parse().unwrap());
    Ok(answer)
}

fn shown_order(shared: &Shared, account: usize, at: usize) -> Result<Answer, Refusal> {
    let books = shared.books();
    let order = books
        .orders
        .get(at)
        .filter(|order| order.account == account);
    let order = order.ok_or_else(|| malformed("no such order"))?;
    let urls = order
        .authorizations
        .iter()
        .map(|at| shared.url(&format!("authorization/{at}")));
    let mut shown = json!({
        "status": books.status(order),
        "authorizations": urls.collect::<Vec<_>>(),
        "finalize": shared.url(&format!("order/{at}/finalize")),
    });
    if order.certificate.is_some() {
        shown["certificate"] = shared.url(&format!("certificate/{at}")).into();
    }
    Ok(json_answer(StatusCode::OK, &shown))
}

fn shown_authorization(shared: &Shared, at: usize) -> Result<Answer, Refusal> {
    let books = shared.books();
    let about = books
        .authorizations
        .get(at)
        .ok_or_else(|| malformed("no such authorization"))?;
    let challenge = |kind: &str| {
        let mut shown = json!({
            "type": kind,
            "url": shared.url(&format!("challenge/{at}/{kind}")),
            "token": about.token,
            "status": about.status,
        });
        if let Some(error) = &about.error {
            shown["error"] = error.clone();
        }
        shown
    };
    let shown = json!({
        "status": about.status,
        "identifier": { "type": "dns", "value": about.name },
        "challenges": [challenge("http-01"), challenge("tls-alpn-01")],
    });
    Ok(json_answer(StatusCode::OK, &shown))
}

/// RFC 8555 §7.5.1: from now on the client may be asked; what comes of it, the authorization tells.
fn try_challenge(
    shared: &Arc<Shared>,
    account: usize,
    at: usize,
    kind: &str,
) -> Result<Answer, Refusal> {
    let (name, token, thumbprint) = {
        let books = shared.books();
        let about = books
            .authorizations
            .get(at)
            .ok_or_else(|| malformed("no such challenge"))?;
        let thumbprint = books.accounts[account].key.thumbprint.clone();
        (about.name.clone(), about.token.clone(), thumbprint)
    };
    let url = shared.url(&format!("challenge/{at}/{kind}"));
    let shown = json!({ "type": kind, "url": url, "token": token, "status": "processing" });
    let (shared, kind) = (Arc::clone(shared), kind.to_owned());
    tokio::spawn(async move {
        let mut lead = shared.lead.subscribe();
        let Ok(address) = lead.wait_for(Option::is_some).await.map(|lead| *lead) else {
            return;
        };
        let address = address.unwrap();
        let authorization = format!("{token}.{thumbprint}");
        let checked = match &*kind {
            "http-01" => check::http(address, &name, &token, &authorization).await,
            _ => check::tls(address, &name, &authorization).await,
        };
        let mut books = shared.books();
        let about = &mut books.authorizations[at];
        match checked {
            Ok(()) => about.status = "valid",
            Err(why) => {
                about.status = "invalid";
                about.error = Some(
                    json!({ "type": "urn:ietf:params:acme:error:unauthorized", "detail": why, "status": 403 }),
                );
            }
        }
    });
    Ok(json_answer(StatusCode::OK, &shown))
}

/// RFC 8555 §7.4: the request must ask for exactly the names of the order.
fn finalize(
    shared: &Shared,
    account: usize,
    at: usize,
    payload: &Value,
) -> Result<Answer, Refusal> {
    let request = payload["csr"].as_str().and_then(decode);
    let request = request.and_then(|der| SigningRequest::verified(&der));
    let bad = |detail| refusal(StatusCode::BAD_REQUEST, "badCSR", detail);
    let request = request.ok_or_else(|| bad("no request, or not signed by its key"))?;
    let lifetime = *shared.lifetime.lock().unwrap();
    let mut books = shared.books();
    let order = books
        .orders
        .get(at)
        .filter(|order| order.account == account);
    let order = order.ok_or_else(|| malformed("no such order"))?;
    if books.status(order) != "ready" {
        return Err(refusal(
            StatusCode::FORBIDDEN,
            "orderNotReady",
            "prove the names first",
        ));
    }
    if request.names != order.names {
        return Err(bad("these are other names"));
    }
    books.orders[at].certificate = Some(shared.authority.sign(&request, lifetime));
    drop(books);
    shown_order(shared, account, at)
}
