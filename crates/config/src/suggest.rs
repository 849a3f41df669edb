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
