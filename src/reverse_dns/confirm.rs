//! Decides what the answers of DNS say about an address: forward-confirmed reverse DNS.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use sluicegate_base::bounds::LOOK_UP_NAMES;
use sluicegate_base::crawler::{LookUpResult, NamesFault};

use super::message::{DnsAnswer, DnsQuestion};

/// Looks up the names of `address`, and the addresses of those that `takes` accepts, by `ask`.
///
/// # Errors
/// DNS has no answer to the first question, or to a later one while no name has the address.
pub(super) async fn confirm<A>(
    address: IpAddr,
    takes: impl Fn(&str) -> bool,
    ask: impl Fn(DnsQuestion) -> A,
) -> io::Result<LookUpResult>
where
    A: Future<Output = io::Result<DnsAnswer>>,
{
    let reverse = ask(DnsQuestion::for_names(address)?).await?.names()?;
    let unconfirmed = |fault, ttl| Ok(LookUpResult::Unconfirmed { fault, ttl });
    if reverse.records == 0 {
        return unconfirmed(NamesFault::NoName, reverse.ttl);
    }
    let named = reverse.values.into_iter().filter(|name| takes(name));
    let named: Vec<String> = named.take(LOOK_UP_NAMES).collect();
    if named.is_empty() {
        return unconfirmed(NamesFault::OtherDomain, reverse.ttl);
    }
    let mut ttl = reverse.ttl;
    let mut names: Vec<Arc<str>> = Vec::new();
    let mut failure = None;
    for name in named {
        let answer = ask(DnsQuestion::for_addresses(&name, address)?).await;
        match answer.and_then(|answer| answer.addresses()) {
            Ok(forward) => {
                ttl = ttl.min(forward.ttl);
                if forward.values.contains(&address) {
                    names.push(name.into());
                }
            }
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        _ if !names.is_empty() => Ok(LookUpResult::Confirmed {
            names: Arc::from(names),
            ttl,
        }),
        Some(error) => Err(error),
        None => unconfirmed(NamesFault::Mismatch, ttl),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use domain::base::iana::Rcode;

    use super::super::message::tests::{TestRecord, answer};
    use super::*;

    const REVERSE: &str = "1.2.0.192.in-addr.arpa";

    fn address() -> IpAddr {
        "192.0.2.1".parse().unwrap()
    }

    /// The result where the first question has the first answer, and so on; with the number of questions.
    async fn confirmed(
        answers: Vec<io::Result<Vec<TestRecord<'_>>>>,
    ) -> (io::Result<LookUpResult>, usize) {
        let (left, asked) = (RefCell::new(answers.into_iter()), RefCell::new(0));
        let ask = |question: DnsQuestion| {
            *asked.borrow_mut() += 1;
            let records = left.borrow_mut().next().unwrap();
            let records = records.map(|records| answer(&question, Rcode::NOERROR, &records));
            std::future::ready(records)
        };
        let takes = |name: &str| name.ends_with(".googlebot.com");
        let result = confirm(address(), takes, ask).await;
        (result, asked.into_inner())
    }

    fn ptr<'a>(names: &[&'a str]) -> io::Result<Vec<TestRecord<'a>>> {
        Ok(names
            .iter()
            .map(|name| TestRecord::Ptr(REVERSE, 600, name))
            .collect())
    }

    fn has<'a>(name: &'a str, address: &str) -> io::Result<Vec<TestRecord<'a>>> {
        Ok(vec![TestRecord::Address(
            name,
            300,
            address.parse().unwrap(),
        )])
    }

    fn fault(result: io::Result<LookUpResult>) -> Option<NamesFault> {
        match result.unwrap() {
            LookUpResult::Unconfirmed { fault, .. } => Some(fault),
            LookUpResult::Confirmed { .. } | LookUpResult::Failed => None,
        }
    }

    /// Goal: both directions must agree, and each disagreement has its reason. Method: every answer that an owner of the address can give.
    #[tokio::test]
    async fn both_directions_must_agree() {
        let crawl = "crawl.googlebot.com";
        let (result, asked) = confirmed(vec![ptr(&[crawl]), has(crawl, "192.0.2.1")]).await;
        let names = Arc::from([crawl.into()]);
        assert_eq!(result.unwrap(), LookUpResult::Confirmed { names, ttl: 300 });
        assert_eq!(asked, 2);
        let (result, asked) = confirmed(vec![ptr(&[])]).await;
        assert_eq!((fault(result), asked), (Some(NamesFault::NoName), 1));
        let (result, asked) = confirmed(vec![ptr(&["host.evil.test"])]).await;
        assert_eq!((fault(result), asked), (Some(NamesFault::OtherDomain), 1));
        let (result, asked) = confirmed(vec![ptr(&[crawl]), has(crawl, "192.0.2.2")]).await;
        assert_eq!((fault(result), asked), (Some(NamesFault::Mismatch), 2));
    }

    /// Goal: many names cost a bounded number of questions. Method: twenty names in the domain, none with the address.
    #[tokio::test]
    async fn many_names_are_a_few_questions() {
        let names: Vec<String> = (0..20).map(|at| format!("a{at}.googlebot.com")).collect();
        let listed: Vec<&str> = names.iter().map(|name| &**name).collect();
        let mut answers = vec![ptr(&listed)];
        answers.extend(listed.iter().map(|name| has(name, "192.0.2.2")));
        let (result, asked) = confirmed(answers).await;
        assert_eq!(fault(result), Some(NamesFault::Mismatch));
        assert_eq!(asked, 1 + LOOK_UP_NAMES);
    }

    /// Goal: what DNS does not answer is no disagreement, and takes no confirmation away. Method: failures of each direction.
    #[tokio::test]
    async fn a_failure_is_no_answer() {
        let failed = || Err(io::ErrorKind::TimedOut.into());
        let (result, _) = confirmed(vec![failed()]).await;
        assert!(result.is_err());
        let (a, b) = ("a.googlebot.com", "b.googlebot.com");
        let (result, _) = confirmed(vec![ptr(&[a, b]), failed(), has(b, "192.0.2.2")]).await;
        assert!(result.is_err());
        let (result, _) = confirmed(vec![ptr(&[a, b]), failed(), has(b, "192.0.2.1")]).await;
        assert!(matches!(result, Ok(LookUpResult::Confirmed { .. })));
    }
}
