//! Honors `Max-Forwards`, which bounds the hops of OPTIONS and TRACE (RFC 9110 §7.6.2).

use http::Method;
use http::header::{HeaderName, HeaderValue, MAX_FORWARDS};
use sluicegate_base::received::{FieldValue, ReceivedFields};

use sluicegate_origin::FieldEdit;

const NAME: HeaderName = MAX_FORWARDS;

/// Returns how many more gateways may forward a request; `None` without a valid number, or for a method that has no such bound. Only a
/// method with a bound looks the `number` up.
fn left<'a>(method: &Method, number: impl FnOnce() -> Option<FieldValue<'a>>) -> Option<u64> {
    if method != Method::OPTIONS && method != Method::TRACE {
        return None;
    }
    let digits = number()?.as_bytes();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // A number that does not fit is larger than any chain of gateways.
    let number = std::str::from_utf8(digits).ok()?.parse();
    Some(number.unwrap_or(u64::MAX))
}

/// Returns whether the gateway must answer the request itself.
pub(super) fn ends_here(method: &Method, fields: &ReceivedFields) -> bool {
    left(method, || fields.get(NAME)) == Some(0)
}

/// Decrements the number for the origin.
pub(super) fn count_down(method: &Method, fields: &mut dyn FieldEdit) {
    if let Some(left) = left(method, || fields.get(&NAME)) {
        fields.insert(NAME, HeaderValue::from(left.saturating_sub(1)));
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    /// Goal: the bound holds for the two methods that have one, and is a number. Method: methods and values, and the number that
    /// the next hop gets.
    #[test]
    fn options_and_trace_count_down() {
        for (method, value, ends, told) in [
            (Method::OPTIONS, "0", true, "0"),
            (Method::TRACE, "00", true, "0"),
            (Method::OPTIONS, "1", false, "0"),
            (Method::TRACE, "10", false, "9"),
            (Method::GET, "0", false, "0"),
            (Method::OPTIONS, "-1", false, "-1"),
            (Method::OPTIONS, "", false, ""),
            (
                Method::OPTIONS,
                "99999999999999999999",
                false,
                "18446744073709551614",
            ),
        ] {
            let mut fields = HeaderMap::from_iter([(NAME, HeaderValue::from_static(value))]);
            let received = ReceivedFields::from(fields.clone());
            assert_eq!(ends_here(&method, &received), ends, "{method} {value}");
            count_down(&method, &mut fields);
            assert_eq!(fields[NAME], told, "{method} {value}");
        }
    }
}
