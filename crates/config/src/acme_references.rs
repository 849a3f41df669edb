//! Judges what `[acme]` and the listeners say about each other: names to order, and who issues their certificates.

use super::field::quoted;
use super::report::{PlacedValue, ProblemReport};
use super::rules::{AcmeChallenge, AcmeRules, ListenerRules, NameSet};

/// The listeners that ask for a certificate, each with its names.
fn asking(
    listeners: &[PlacedValue<ListenerRules>],
) -> impl Iterator<Item = (&PlacedValue<ListenerRules>, &NameSet)> {
    listeners.iter().filter_map(|listener| {
        let names = listener.value.tls.as_ref()?.acme.as_ref()?;
        Some((listener, names))
    })
}

/// Warns of orders that no listener asks for.
pub(super) fn check_used(
    acme: &PlacedValue<Option<AcmeRules>>,
    listeners: &[PlacedValue<ListenerRules>],
    report: &ProblemReport<'_>,
) {
    if asking(listeners).next().is_none() {
        report.unused(
            &acme.place,
            "no listener asks for a certificate",
            "write acme = [\"www.example.com\"] in the [listener.tls] of one, or leave [acme] out",
        );
    }
}

/// Reports names that nobody orders a certificate for, or that two certificates would be ordered for.
pub(super) fn check(
    acme: Option<&PlacedValue<Option<AcmeRules>>>,
    listeners: &[PlacedValue<ListenerRules>],
    report: &ProblemReport<'_>,
) {
    let asking: Vec<_> = asking(listeners).collect();
    if let (None, Some((listener, names))) = (acme, asking.first()) {
        report.absent(
            &listener.place,
            format!("it asks for a certificate of {}, and nothing says from whom", quoted(names.first())),
            "write [acme] with accept_terms = true, once you have read the terms of who issues it: Let's Encrypt by default",
        );
    }
    for (at, (listener, names)) in asking.iter().enumerate() {
        let clash = asking[..at].iter().find_map(|(earlier, others)| {
            let both = names
                .names()
                .iter()
                .find(|name| others.names().contains(name));
            Some((earlier, both.filter(|_| others != names)?))
        });
        if let Some((earlier, name)) = clash {
            let line = report.line_of(&earlier.place);
            report.error(
                &listener.place,
                format!(
                    "{} is in another list of `acme` too, that of the listener on line {line}",
                    quoted(name)
                ),
                "write the same list in both, which is one certificate, or the name in one of them",
            );
        }
    }
    let in_clear = |listener: &PlacedValue<ListenerRules>| listener.value.tls.is_none();
    if let Some(acme) = acme
        && let Some(rules) = &acme.value
        && rules.challenge == AcmeChallenge::Http01
        && !asking.is_empty()
        && !listeners.iter().any(in_clear)
    {
        report.warning(
            &acme.place,
            "names are to be proved at port 80, in clear text, and every listener speaks TLS",
            "write a [[listener]] with address = \"0.0.0.0:80\" and redirect_to_https = true, or challenge = \"tls-alpn-01\"",
        );
    }
}
