//! Owns how a place is written whose days windows follow: a name of the IANA time zone database.
//!
//! The system's own database is asked first, since it is kept up to date, then the one that is built in, so that a small image
//! needs none.

use jiff::tz::{self, TimeZone};
use sluicegate_limiter::CalendarZone;

use super::field::quoted;
use super::problem::ParseError;
use super::suggest;

/// The years whose transitions are known to a running gateway: fixed, so that two readings of a file give equal zones.
const FIRST: &str = "2020-01-01T00:00:00Z";
const END: &str = "2120-01-01T00:00:00Z";

/// The offsets of a named place.
pub(super) fn zone(name: &str) -> Result<CalendarZone, ParseError> {
    let place = TimeZone::get(name).map_err(|_| unknown(name))?;
    let moment = |text: &str| -> Result<jiff::Timestamp, ParseError> {
        text.parse().map_err(|_| unknown(name))
    };
    let first = moment(FIRST)?;
    let end = moment(END)?;
    let transitions = place
        .following(first)
        .take_while(|transition| transition.timestamp() < end)
        .map(|transition| {
            (
                transition.timestamp().as_second(),
                transition.offset().seconds(),
            )
        });
    CalendarZone::new(place.to_offset(first).seconds(), transitions)
        .map_err(|error| ParseError::new(format!("the time zone {}: {error}", quoted(name))))
}

fn unknown(name: &str) -> ParseError {
    let message = format!("there is no time zone {}", quoted(name));
    let names: Vec<String> = tz::db().available().map(|name| name.to_string()).collect();
    match suggest::nearest(name, names.iter().map(String::as_str)) {
        Some(meant) => ParseError::with_advice(message, format!("did you mean \"{meant}\"?")),
        None => ParseError::with_advice(
            message,
            "write a name of the IANA database: \"Europe/Berlin\", \"UTC\"",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: names of the database, whatever the system has, and a guess for a slip. Method: some of each.
    #[test]
    fn places_are_known_by_their_names() {
        assert_eq!(zone("UTC").ok(), Some(CalendarZone::utc()));
        assert_ne!(zone("Europe/Berlin").ok(), Some(CalendarZone::utc()));
        assert_eq!(
            zone("Asia/Kolkata").ok(),
            CalendarZone::new(19_800, []).ok()
        );
        let advice = |name| zone(name).err().and_then(|mistake| mistake.advice);
        assert_eq!(
            advice("Europe/Berlim").as_deref(),
            Some("did you mean \"Europe/Berlin\"?")
        );
        assert!(advice("").is_some_and(|advice| advice.contains("IANA")));
    }
}
