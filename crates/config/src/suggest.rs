//! Guesses what was meant by a name that does not exist: the known name at the least distance, where a swap of neighbors is one edit.

use strsim::osa_distance;

/// Names longer than this are not guessed about: the work grows with the square of the length.
const LONGEST: usize = 64;

/// Returns the known name that is nearest to `got`, if it is near enough to be a slip of the hand; else the only one that `got` is a
/// word of.
pub(super) fn nearest<'k>(got: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if got.len() > LONGEST {
        return None;
    }
    let folded = fold(got);
    let known: Vec<(&str, String)> = known
        .into_iter()
        .filter(|name| name.len() <= LONGEST)
        .map(|name| (name, fold(name)))
        .collect();
    let slips = known
        .iter()
        .map(|(name, known)| (osa_distance(&folded, known), *name))
        .filter(|(distance, name)| *distance <= 1.max(name.len() / 3) && *distance < got.len());
    let slip = slips.min_by_key(|(distance, _)| *distance);
    slip.map(|(_, name)| name).or_else(|| {
        let has_it = |known: &str| known.split('_').any(|word| word == folded);
        let mut with_it = known.iter().filter(|(_, known)| has_it(known));
        match (with_it.next(), with_it.next()) {
            (Some((name, _)), None) if !got.is_empty() => Some(*name),
            _ => None,
        }
    })
}

/// Returns what to write in a table for a key that it does not have and that means something elsewhere.
pub(super) fn elsewhere(table: &str, key: &str) -> Option<&'static str> {
    let advice = match (table, key) {
        ("limit.NAME", "shadow" | "dry_run" | "dryrun" | "shadow_mode") => {
            "write action = \"shadow\""
        }
        ("limit.NAME", "period" | "window" | "requests" | "average" | "per" | "interval") => {
            "write count and period together: rates = [\"5 per 10s\"]"
        }
        ("limit.NAME", "nodelay") => {
            "leave it out: requests beyond the rate are rejected at once, unless action = \"delay\""
        }
        ("limit.NAME", "status" | "message" | "body") => "write refusal = { status = 429 }",
        ("listener[]", "cert" | "cert_file" | "certificate" | "ssl_certificate") => {
            "write tls.certificates = [{ cert_file = \"site.pem\", key_file = \"site.key\" }]"
        }
        ("listener[]", "key" | "key_file" | "ssl_certificate_key") => {
            "write it in tls.certificates, beside cert_file"
        }
        ("listener[]", "listen" | "bind" | "port") => "write address = \"0.0.0.0:8080\"",
        ("origin.NAME", "url" | "address" | "upstream" | "backend" | "host_port") => {
            "write servers = [\"127.0.0.1:3000\"]"
        }
        ("route[]", "upstream" | "backend" | "service" | "proxy_pass") => {
            "write origin = \"NAME\", and [origin.NAME] with its servers"
        }
        ("admin", "port" | "listen" | "bind") => "write address = \"127.0.0.1:9180\"",
        ("admin", "token") => "write it in a file, and token_file = \"FILE\"",
        _ => return None,
    };
    Some(advice)
}

/// Case and the choice between `-` and `_` are slips that cost nothing.
fn fold(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: slips are recognised, other words are not. Method: a few of each.
    #[test]
    fn the_nearest_name_is_a_slip_away() {
        let known = ["rates", "key", "capacity", "max_body_bytes"];
        let nearest = |got| nearest(got, known);
        assert_eq!(nearest("rate"), Some("rates"));
        assert_eq!(nearest("raets"), Some("rates"));
        assert_eq!(nearest("Max-Body-Bytes"), Some("max_body_bytes"));
        assert_eq!(nearest("capactiy"), Some("capacity"));
        assert_eq!(nearest("burst"), None);
        assert_eq!(nearest("k"), None);
        assert_eq!(nearest(""), None);
        assert_eq!(nearest(&"r".repeat(1000)), None);
    }

    /// Goal: who remembers half of a name is told the rest, and nobody is told one of several. Method: a word that one name has, and one
    /// that two have.
    #[test]
    fn a_word_of_one_name_alone_means_that_name() {
        let known = ["default_ttl", "stale_if_error", "stale_while_revalidate"];
        let nearest = |got| nearest(got, known);
        assert_eq!(nearest("ttl"), Some("default_ttl"));
        assert_eq!(nearest("TTL"), Some("default_ttl"));
        assert_eq!(nearest("stale"), None);
        assert_eq!(nearest("tt"), None);
        assert_eq!(nearest(""), None);
    }
}
