//! Shows the certificates that the listeners serve: their names and their validity.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_base::pki::Validity;
use sluicegate_decide::rfc3339;
use sluicegate_limiter::Timestamp;
use sluicegate_telemetry::exposition::SampledFamily;

use sluicegate_process::snapshot::Snapshot;

const LAST_DAY: Duration = Duration::from_secs(24 * 60 * 60);
const LAST_WEEKS: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CertificateView {
    /// The listener that serves it; `None` where it came at run time, for all.
    pub listener: Option<SocketAddr>,
    /// The names that it is served for.
    pub names: Vec<Box<str>>,
    /// The time in which it is valid.
    pub validity: Validity,
}

/// A certificate in `/status`.
#[derive(Serialize)]
pub(super) struct CertificateSection {
    listener: Option<String>,
    names: Vec<Box<str>>,
    not_before: String,
    not_after: String,
    expired: bool,
    near_end: bool,
}

impl CertificateView {
    /// Returns every certificate of `snapshot`, those of its listeners first.
    pub(super) fn all(snapshot: &Snapshot) -> Vec<Self> {
        let mut all = Vec::new();
        for (address, listener) in &snapshot.listeners {
            let tls = listener.rules.tls.iter();
            all.extend(
                tls.flat_map(|tls| &tls.certificates)
                    .map(|certificate| Self {
                        listener: Some(*address),
                        names: certificate.names().to_vec(),
                        validity: certificate.validity(),
                    }),
            );
        }
        let installed = snapshot.certificates.installed().into_iter();
        all.extend(installed.map(|(name, validity)| Self {
            listener: None,
            names: vec![name],
            validity,
        }));
        all
    }
}

/// The nearness of a certificate's end. One that is renewed in time never comes near it, however short its life is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CertificateEnd {
    /// It holds for long.
    Far,
    /// It ends within two weeks, and within a quarter of its life.
    Near,
    /// It ends within a day, and within an eighth of its life, or has expired.
    Now,
}

impl CertificateEnd {
    /// Judges a certificate of this validity.
    pub(super) fn from_validity(validity: Validity, wall: Timestamp) -> Self {
        let left = clock::between(wall, validity.ends);
        let life = clock::between(validity.begins, validity.ends);
        if left <= LAST_DAY.min(life / 8) {
            Self::Now
        } else if left <= LAST_WEEKS.min(life / 4) {
            Self::Near
        } else {
            Self::Far
        }
    }
}

impl CertificateSection {
    pub(super) fn new(view: CertificateView, wall: Timestamp) -> Self {
        Self {
            listener: view.listener.map(|address| address.to_string()),
            not_before: rfc3339::format(view.validity.begins),
            not_after: rfc3339::format(view.validity.ends),
            expired: wall > view.validity.ends,
            near_end: CertificateEnd::from_validity(view.validity, wall) > CertificateEnd::Far,
            names: view.names,
        }
    }
}

/// Returns the remaining lifetime by name; negative once the certificate has expired. Of two certificates for one name on one listener
/// the first is served.
pub(super) fn expiry(certificates: &[CertificateView], wall: Timestamp) -> SampledFamily {
    let mut family = SampledFamily::gauge(
        "sluicegate_tls_certificate_expiry_seconds",
        "How long the certificate for a name still holds; negative once it has expired.",
    );
    let mut shown = Vec::new();
    for certificate in certificates {
        let listener = certificate
            .listener
            .map_or_else(String::new, |address| address.to_string());
        let ends = certificate.validity.ends.as_nanos() as f64;
        let left = (ends - wall.as_nanos() as f64) / 1e9;
        for name in &certificate.names {
            let labels = (listener.clone(), name.clone());
            if !shown.contains(&labels) {
                family.push(&[("listener", &listener), ("name", name)], left.round());
                shown.push(labels);
            }
        }
    }
    family
}

#[cfg(test)]
mod tests {
    use sluicegate_telemetry::exposition;

    use super::*;

    fn view(names: &[&str], ends: u64) -> CertificateView {
        CertificateView {
            listener: Some("0.0.0.0:443".parse().unwrap()),
            names: names.iter().map(|name| (*name).into()).collect(),
            validity: Validity {
                begins: Timestamp::from_secs(0),
                ends: Timestamp::from_secs(ends),
            },
        }
    }

    /// Goal: a certificate is near its end only where its renewal is late, whatever its life is. Method: lives of 90 and of 6 days.
    #[test]
    fn an_end_is_near_by_the_life_of_the_certificate() {
        const DAY: u64 = 24 * 60 * 60;
        for (life, left, end) in [
            (90, 15, CertificateEnd::Far),
            (90, 14, CertificateEnd::Near),
            (90, 1, CertificateEnd::Now),
            (6, 2, CertificateEnd::Far),
            (6, 1, CertificateEnd::Near),
            (6, 0, CertificateEnd::Now),
        ] {
            let validity = Validity {
                begins: Timestamp::from_secs(DAY),
                ends: Timestamp::from_secs(DAY * (1 + life)),
            };
            let wall = Timestamp::from_secs(DAY * (1 + life - left));
            assert_eq!(
                CertificateEnd::from_validity(validity, wall),
                end,
                "{left} of {life}"
            );
            let later = Timestamp::from_secs(DAY * (2 + life));
            assert_eq!(
                CertificateEnd::from_validity(validity, later),
                CertificateEnd::Now
            );
        }
    }

    /// Goal: an operator sees in time what is about to end. Method: a certificate that holds, one that has ended, and one that is never
    /// served, since an earlier one has its name.
    #[test]
    fn what_is_left_of_a_certificate_is_told_by_name() {
        let wall = Timestamp::from_secs(1_000);
        let all = [view(&["a.test", "*.b.test"], 1_060), view(&["c.test"], 990)];
        let hidden = view(&["a.test"], 5_000);
        let text = exposition::text([expiry(&[&all[..], &[hidden]].concat(), wall)]);
        let text = String::from_utf8(text).unwrap();
        for (name, left) in [("a.test", "60"), ("*.b.test", "60"), ("c.test", "-10")] {
            let labels = format!("{{listener=\"0.0.0.0:443\",name=\"{name}\"}} {left}\n");
            assert!(text.contains(&labels), "{text}");
        }
        assert_eq!(text.matches("a.test").count(), 1);
        let [_, ended] = all;
        assert!(CertificateSection::new(ended, wall).expired);
    }
}
