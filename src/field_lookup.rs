//! Finds a field of a head. A header map hashes the name that is looked for, which costs more than a look at each of a few names.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// Fields among which one is found by a look at each name; among more, by the hash of its name.
const FEW: usize = 12;

/// Returns the first value of a field.
pub(crate) fn first<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    if fields.len() > FEW {
        return fields.get(name);
    }
    // Most fields that are looked for are not there, and a look at names alone costs least.
    if !fields.keys().any(|own| own == name) {
        return None;
    }
    let mut all = fields.iter();
    all.find(|(own, _)| *own == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the same value is found among few fields and among many. Method: maps of each size, with two values of one name.
    #[test]
    fn a_field_is_found_among_few_and_many() {
        let name = HeaderName::from_static("x-name");
        for others in [0, FEW - 1, FEW, 3 * FEW] {
            let mut fields = HeaderMap::new();
            for other in 0..others {
                let other =
                    HeaderName::from_bytes(format!("x-{other}").as_bytes()).expect("a name");
                fields.append(other, HeaderValue::from_static("other"));
            }
            assert_eq!(first(&fields, &name), None, "{others}");
            for value in ["one", "two"] {
                fields.append(&name, HeaderValue::from_static(value));
            }
            assert_eq!(first(&fields, &name), fields.get(&name), "{others}");
        }
    }
}
