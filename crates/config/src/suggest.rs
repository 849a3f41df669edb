//! Guesses what was meant by a name that does not exist: the known name at the least distance, where a swap of neighbors is one edit.

use strsim::osa_distance;

/// Names longer than this are not guessed about: the work grows with the square of the length.
const LONGEST: usize = 64;

/// Most names that are guessed.
const MOST_GUESSED: usize = 3;

/// Returns the known name that is nearest to `got`, if it is near enough to be a slip of the hand; else the only one that `got` is a
/// word of.
pub(super) fn nearest<'k>(got: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let known: Vec<&str> = known.into_iter().collect();
    let slip = slips(got, &known).first().copied();
    slip.or_else(|| match names_with_word(got, &known).as_slice() {
        [name] => Some(*name),
        _ => None,
    })
}

/// Returns the known names at the least distance from `got`, if it is near enough to be a slip of the hand; not more than a few.
pub(super) fn slips<'k>(got: &str, known: &[&'k str]) -> Vec<&'k str> {
    if got.len() > LONGEST {
        return Vec::new();
    }
    let folded = fold(got);
    let short = known.iter().filter(|name| name.len() <= LONGEST);
    let slips = short.filter_map(|name| {
        let distance = osa_distance(&folded, &fold(name));
        let is_slip = distance <= 1.max(name.len() / 3) && distance < got.len();
        is_slip.then_some((distance, *name))
    });
    let slips: Vec<(usize, &str)> = slips.collect();
    let least = slips.iter().map(|(distance, _)| *distance).min();
    let nearest = slips.iter().filter(|slip| Some(slip.0) == least);
    nearest.map(|(_, name)| *name).take(MOST_GUESSED).collect()
}

/// Returns the known names that `got` is a word of, not more than a few.
pub(super) fn names_with_word<'k>(got: &str, known: &[&'k str]) -> Vec<&'k str> {
    if got.is_empty() || got.len() > LONGEST {
        return Vec::new();
    }
    let folded = fold(got);
    let has_it = |name: &&&str| fold(name).split('_').any(|word| word == folded);
    let names = known.iter().filter(has_it).copied();
    names.take(MOST_GUESSED).collect()
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

    /// Goal: names that are equally near are all named, but never many. Method: a slip of one, a slip of two, a word of two and of many.
    #[test]
    fn names_that_are_equally_near_are_all_named() {
        let known = [
            "stale_if_error",
            "stale_in_error",
            "a_b",
            "a_c",
            "a_d",
            "a_e",
        ];
        assert_eq!(slips("stale_if_eror", &known), ["stale_if_error"]);
        assert_eq!(
            slips("stale_i_error", &known),
            ["stale_if_error", "stale_in_error"]
        );
        assert!(slips("stale", &known).is_empty());
        assert_eq!(
            names_with_word("stale", &known),
            ["stale_if_error", "stale_in_error"]
        );
        assert_eq!(names_with_word("a", &known), ["a_b", "a_c", "a_d"]);
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
