//! Makes limits of `rateLimit` and `inFlightReq`. Each router has an instance of its own, and so a limit of its own.
//!
//! Traefik has a token bucket for each source: `average` tokens a `period`, at most `burst`. That is `token-bucket`, but for two
//! properties of its code. A request that would have a token within half an interval waits for it. And a bucket is dropped after some
//! seconds without a request of its source, which then has the whole burst again.

use super::account::TreeAccount;
use super::tree::{self, member, number, text, texts};
use crate::bounds;
use crate::client_fields::{self, ProxyFieldUse};
use crate::ingress::yaml::YamlNode;
use crate::model::{KeyPart, Limit, LimitAction, LimitAlgorithm, TableRemarks};
use crate::own_fields::is_field_name;
use crate::shapes::LARGEST_COUNT;

const ADDRESSES: &str = "IPv6 clients are counted by /64; write \"client.ip/32,/128\" to count single addresses as Traefik does";

/// The source that a limit counts by.
pub(super) struct LimitSource {
    key: KeyPart,
    /// The field that names the client.
    pub(super) field: Option<ProxyFieldUse>,
    pub(super) address: SourceAddress,
    differences: Vec<String>,
}

/// The address that a source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SourceAddress {
    /// None.
    None,
    /// That of the connection.
    Peer,
    /// The last one of X-Forwarded-For that is none of these.
    Excluded(Vec<String>),
    /// The one of X-Forwarded-For at this place from the end.
    Depth(u64),
}

/// The source of a limit that names none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UsualSource {
    Client,
    Host,
}

/// Reads `sourceCriterion` of a middleware.
///
/// # Errors
///
/// The reason for which no key is this source.
pub(super) fn source(node: &YamlNode, usual: UsualSource) -> Result<LimitSource, String> {
    let criterion = member(node, "sourceCriterion");
    let with = |key| LimitSource {
        key,
        field: None,
        address: SourceAddress::None,
        differences: Vec::new(),
    };
    let name = criterion.and_then(|it| text(it, "requestHeaderName"));
    let name = name.filter(|it| !it.is_empty());
    let by_host = criterion.is_some_and(|it| tree::is_on(it, "requestHost"));
    let strategy = criterion.and_then(|it| member(it, "ipStrategy"));
    let many = [name.is_some(), by_host, strategy.is_some()];
    if many.iter().filter(|it| **it).count() > 1 {
        return Err("Traefik refuses several criteria of one source".to_owned());
    }
    if let (Some(name), Some(criterion)) = (name, criterion) {
        let field = name.to_ascii_lowercase();
        let source = member(criterion, "requestHeaderName").and_then(tree::entry);
        let source = source.ok_or("the field has no name")?;
        if !is_field_name(&field) {
            return Err(format!("no field is {name:?}"));
        }
        let is_removed = client_fields::is_removed(&field);
        let key = match client_fields::names_client(&field) {
            true => KeyPart::ClientIp,
            false => KeyPart::Header(field.clone()),
        };
        return Ok(LimitSource {
            field: is_removed.then_some(ProxyFieldUse { field, source }),
            ..with(key)
        });
    }
    if by_host || (strategy.is_none() && usual == UsualSource::Host) {
        return Ok(with(KeyPart::Host));
    }
    let lengths = [("ipv4Subnet", 32), ("ipv6Subnet", 64)].map(|(name, usual)| {
        let length = strategy.and_then(|it| number(it, name));
        length.map_or(Ok(usual), |it| u8::try_from(it).map_err(|_| name))
    });
    let [Ok(v4 @ 0..=32), Ok(v6 @ 0..=128)] = lengths else {
        return Err("a subnet has a prefix length".to_owned());
    };
    let key = match (v4, v6) {
        (32, 64) => KeyPart::ClientIp,
        (v4, v6) => KeyPart::ClientNetwork(v4, v6),
    };
    let mut found = with(key);
    if strategy.and_then(|it| member(it, "ipv6Subnet")).is_none() {
        found.differences.push(ADDRESSES.to_owned());
    }
    let excluded = strategy.map(|it| texts(member(it, "excludedIPs")));
    let excluded = excluded.unwrap_or_default();
    let depth = strategy.and_then(|it| number(it, "depth")).unwrap_or(0);
    found.address = match (depth, excluded.is_empty()) {
        (0, true) => SourceAddress::Peer,
        (0, false) => SourceAddress::Excluded(excluded),
        (depth, _) => SourceAddress::Depth(depth),
    };
    let by = strategy.filter(|_| found.address != SourceAddress::Peer);
    found.field = by.and_then(tree::entry).map(|source| ProxyFieldUse {
        field: "x-forwarded-for".to_owned(),
        source,
    });
    Ok(found)
}

/// Returns the limit of `rateLimit`; `None` where it limits nothing.
///
/// # Errors
///
/// The reason for which it has no counterpart.
pub(super) fn rate(
    node: &YamlNode,
    name: String,
    source: &LimitSource,
    account: &mut TreeAccount<'_>,
) -> Result<Option<Limit>, String> {
    let amount = |name: &str, usual: u64| match text(node, name) {
        None => Ok(usual),
        Some(text) => text
            .parse()
            .map_err(|_| format!("{name} is no number: {text:?}")),
    };
    let average = amount("average", 0)?;
    if average == 0 {
        account.idle(node, "an average of 0 limits nothing");
        return Ok(None);
    }
    let burst = amount("burst", 1)?.max(1);
    let period = text(node, "period").unwrap_or("1s");
    let millis = tree::millis(period).ok_or_else(|| format!("{period:?} is no duration"))?;
    let millis = if millis == 0 { 1_000 } else { millis };
    // A period has whole seconds, so several of them may be one.
    let factor = 1_000 / divisor(millis, 1_000);
    let count = average.saturating_mul(factor);
    let seconds = millis.saturating_mul(factor) / 1_000;
    if count > LARGEST_COUNT || seconds > bounds::PERIOD_SECONDS || burst > bounds::BURST {
        return Err(format!(
            "a rate has at most {LARGEST_COUNT} requests per 31 days, and a burst of {}",
            bounds::BURST
        ));
    }
    let mut limit = limit(node, name, source);
    limit.rate = (count, per(seconds));
    limit.algorithm = LimitAlgorithm::TokenBucket(burst);
    let wait = (millis / average / 2).min(500);
    limit.remarks.differences.push(format!(
        "a request that is at most {wait} ms early waits in Traefik; the gateway refuses it"
    ));
    // The rest of the bucket is dropped with it.
    let forgotten = match millis / 1_000 > average {
        true => 1 + millis / 1_000 / average,
        false => 2,
    };
    if forgotten.saturating_mul(1_000).saturating_mul(average) < burst.saturating_mul(millis) {
        limit.remarks.differences.push(format!(
            "after {forgotten} s without a request Traefik forgets a client, which has the whole burst again; \
             here it is refilled at the rate"
        ));
    }
    record(member(node, "average"), &limit, account);
    Ok(Some(limit))
}

/// Returns the limit of `inFlightReq`.
///
/// # Errors
///
/// The reason for which it has no counterpart.
pub(super) fn in_flight(
    node: &YamlNode,
    name: String,
    source: &LimitSource,
    account: &mut TreeAccount<'_>,
) -> Result<Limit, String> {
    let amount = number(node, "amount").filter(|it| (1..=LARGEST_COUNT).contains(it));
    let mut limit = limit(node, name, source);
    limit.concurrency = Some(amount.ok_or("an amount is at least 1")?);
    record(member(node, "amount"), &limit, account);
    Ok(limit)
}

fn limit(node: &YamlNode, name: String, source: &LimitSource) -> Limit {
    Limit {
        name,
        remarks: TableRemarks {
            sources: node.entries(),
            differences: source.differences.clone(),
        },
        key: vec![source.key.clone()],
        // Requests without the field are one source in Traefik.
        on_missing: source.key.can_be_absent().then_some("shared"),
        rate: (1, "second".to_owned()),
        algorithm: LimitAlgorithm::TokenBucket(1),
        action: LimitAction::Reject,
        capacity: None,
        concurrency: None,
        status: None,
        count_if: None,
    }
}

/// Records the differences of a limit at the member that its amount is.
fn record(amount: Option<&YamlNode>, limit: &Limit, account: &mut TreeAccount<'_>) {
    if let Some(amount) = amount {
        for difference in &limit.remarks.differences {
            account.differs(amount, difference);
        }
    }
}

/// Returns a period of seconds as the configuration writes it.
fn per(seconds: u64) -> String {
    match seconds {
        1 => "second".to_owned(),
        60 => "minute".to_owned(),
        3_600 => "hour".to_owned(),
        86_400 => "day".to_owned(),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

/// Returns the greatest common divisor.
pub(super) fn divisor(one: u64, other: u64) -> u64 {
    match other {
        0 => one.max(1),
        other => divisor(other, one % other),
    }
}
