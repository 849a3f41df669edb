//! Puts a time together that a line has in parts, such as those of Apache's `%{%d/%b/%Y %T}t.%{msec_frac}t`.

use crate::time::{self, CivilTime, SECOND};

/// A part of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CalendarPart {
    Year,
    ShortYear,
    Month,
    MonthName,
    Day,
    Hour,
    Minute,
    Second,
    Zone,
    /// Digits behind the point of the second.
    Fraction(usize),
}

/// The parts that are known; without a zone they are read as UTC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CalendarTime {
    civil: CivilTime,
    nanos: u64,
    /// Seconds that the zone is before UTC.
    offset: i64,
}

impl CalendarPart {
    /// Returns the number of bytes that the part has.
    pub(crate) const fn width(self) -> usize {
        match self {
            Self::Year => 4,
            Self::MonthName => 3,
            Self::Zone => 5,
            Self::Fraction(digits) => digits,
            Self::ShortYear | Self::Month | Self::Day => 2,
            Self::Hour | Self::Minute | Self::Second => 2,
        }
    }
}

impl CalendarTime {
    /// Takes a part; `None` where it is malformed.
    pub(crate) fn set(&mut self, part: CalendarPart, text: &[u8]) -> Option<()> {
        let civil = &mut self.civil;
        // `%e` writes a space in place of a leading zero.
        let number = || time::number(text.trim_ascii_start());
        match part {
            CalendarPart::Year => civil.year = number()?,
            CalendarPart::ShortYear => civil.year = 2000 + number()?,
            CalendarPart::Month => civil.month = number()?,
            CalendarPart::MonthName => civil.month = time::month(text)?,
            CalendarPart::Day => civil.day = number()?,
            CalendarPart::Hour => civil.hour = number()?,
            CalendarPart::Minute => civil.minute = number()?,
            CalendarPart::Second => civil.second = number()?,
            CalendarPart::Zone => self.offset = time::zone_offset(text)?,
            CalendarPart::Fraction(_) => self.nanos = time::fraction_of_second(text)?,
        }
        Some(())
    }

    /// Returns the nanoseconds since the epoch; `None` without a date.
    pub(crate) fn nanos(self) -> Option<u64> {
        let seconds = self.civil.seconds()?.checked_add_signed(-self.offset)?;
        seconds.checked_mul(SECOND)?.checked_add(self.nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: parts in any order are a time, and parts without a date are none. Method: a time with a zone, with a day like that of `%e`,
    /// with a month that is none, and with a fraction alone.
    #[test]
    fn parts_are_a_time() {
        use CalendarPart::{Day, Fraction, Hour, Minute, Month, MonthName, Second, Year, Zone};
        let time = |parts: &[(CalendarPart, &str)]| {
            let mut time = CalendarTime::default();
            for (part, text) in parts {
                time.set(*part, text.as_bytes())?;
            }
            time.nanos()
        };
        let at = 1_431_857_103 * SECOND;
        let parts = [
            (Zone, "+0230"),
            (Fraction(3), "042"),
            (Day, "17"),
            (MonthName, "May"),
            (Year, "2015"),
            (Hour, "12"),
            (Minute, "35"),
            (Second, "03"),
        ];
        assert_eq!(time(&parts), Some(at + 42_000_000));
        assert_eq!(time(&[(Fraction(6), "042000")]), None);
        assert_eq!(
            time(&[(Year, "2015"), (Month, "05"), (Day, " 7")]),
            Some(1_430_956_800 * SECOND)
        );
        assert_eq!(time(&[(MonthName, "Mai")]), None);
        assert_eq!(time(&[(Zone, "Europe")]), None);
    }
}
