//! Judges what crawlers and the other tables say about each other.

use std::collections::{BTreeMap, BTreeSet};

use sluicegate_base::bounds::CRAWLERS;
use sluicegate_base::crawler::{NONE, UNVERIFIED};

use super::field::quoted;
use super::report::{KeyPlace, ProblemReport};
use super::rules::{ClientRules, CrawlerRules, Name};
use super::section::is_name;
use super::suggest;
use super::tables::crawler::EXAMPLE;

/// Checks the names of crawlers and groups, and that every name that a route or a list writes is one.
pub(super) fn check_names<'r>(
    defined: &BTreeMap<Name, KeyPlace>,
    crawlers: impl Iterator<Item = (&'r Name, &'r CrawlerRules)>,
    report: &ProblemReport<'_>,
) {
    let mut groups = BTreeSet::new();
    for (name, rules) in crawlers {
        let Some(group) = &rules.group else { continue };
        groups.insert(&**group);
        if let (true, Some(place)) = (defined.contains_key(group), defined.get(name)) {
            let message = format!("its group {} is the name of a crawler", quoted(group));
            report.error(place, message, "give the group a name of its own");
        }
    }
    if let Some((name, place)) = defined.iter().nth(CRAWLERS) {
        let message = format!("{} is one crawler too many", quoted(name));
        report.error(place, message, format!("keep at most {CRAWLERS}"));
    }
    for (name, place) in defined {
        if [NONE, UNVERIFIED].contains(&&**name) {
            let message = format!("{} is a value of client.crawler already", quoted(name));
            report.error(place, message, "give the crawler another name");
        }
    }
    let known = || {
        let names = defined.keys().map(|name| &**name);
        names
            .chain(groups.iter().copied())
            .chain([NONE, UNVERIFIED])
    };
    for name in report.used_crawlers() {
        if known().any(|known| *known == *name.value) {
            continue;
        }
        let advice = match suggest::nearest(&name.value, known()) {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None if is_name(&name.value) => format!("define it with [crawler.{}]", name.value),
            None => {
                "write the name of one, as in [crawler.NAME], its group, \"unverified\" or \"none\""
                    .to_owned()
            }
        };
        let message = format!("there is no crawler {}", quoted(&name.value));
        report.absent(&name.place, message, advice);
    }
}

/// Checks that crawlers are defined where keys count by them, `reads` in the order of the file.
pub(super) fn check_keys<'p>(
    defined: usize,
    reads: impl Iterator<Item = &'p KeyPlace>,
    report: &ProblemReport<'_>,
) {
    if defined > 0 {
        return;
    }
    for place in reads {
        report.absent(
            place,
            "\"client.crawler\" is read here, and no crawler is defined",
            format!("write [crawler.NAME] {EXAMPLE}"),
        );
    }
}

/// Checks that signatures are for hosts of this gateway.
pub(super) fn check_signed_hosts<'p>(
    client: &ClientRules,
    signing: impl Iterator<Item = &'p KeyPlace>,
    everywhere: &KeyPlace,
    report: &ProblemReport<'_>,
) {
    let mut signing = signing.peekable();
    if signing.peek().is_none() && !client.signed_hosts.is_empty() {
        report.unused(
            everywhere,
            "hosts are named for which requests may be signed, and no crawler has keys",
            "write jwks_file in a [crawler.NAME], or leave signed_hosts out",
        );
    }
    if client.signed_hosts.is_empty() {
        for place in signing {
            report.absent(
                place,
                "its signatures would count for every host, also those that it made for other sites",
                "write the hosts of this gateway in [client], as signed_hosts = [\"www.example.com\"]",
            );
        }
    }
}

/// Warns of DNS servers that nobody asks.
pub(super) fn check_dns_servers<'r>(
    client: &ClientRules,
    mut crawlers: impl Iterator<Item = &'r CrawlerRules>,
    place: &KeyPlace,
    report: &ProblemReport<'_>,
) {
    if !client.dns_servers.is_empty() && crawlers.all(|crawler| crawler.domains.is_empty()) {
        report.unused(
            place,
            "DNS servers are named for the addresses of crawlers, and no crawler has domains",
            "write domains in a [crawler.NAME], or leave dns_servers out",
        );
    }
}

/// Warns of crawlers that nothing reads.
pub(super) fn check_used(
    defined: &BTreeMap<Name, KeyPlace>,
    is_read: impl FnOnce() -> bool,
    report: &ProblemReport<'_>,
) {
    let Some(place) = defined.values().next() else {
        return;
    };
    if !is_read() {
        report.unused(
            place,
            "nothing reads which crawler a client is",
            "write client.crawler in the key of a limit, or `crawlers` in a route or a list",
        );
    }
}
