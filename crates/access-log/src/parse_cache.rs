//! Keeps what the lines of one log have in common, so that the next line is parsed in less time.

use crate::formats::sluicegate::LineMember;
use crate::member_order::MemberOrder;
use crate::minute_cache::MinuteCache;

/// The parts of earlier lines that later ones mostly repeat. A line is the same request with any cache.
#[derive(Debug, Default)]
pub(crate) struct ParseCache {
    pub(crate) minute: MinuteCache,
    pub(crate) members: MemberOrder<LineMember>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::LogFormat;
    use crate::line::ParsedLine;

    /// Members of our own lines, of which some are read, some are not, and some are broken.
    const MEMBERS: [&str; 24] = [
        r#""time":"2026-11-21T07:10:38.042Z""#,
        r#""time":"2026-11-21T07:10:39.5Z""#,
        r#""time":"2026-11-21T07:11:00+02:00""#,
        r#""id":"01a5""#,
        r#""client":"192.0.2.1""#,
        r#""client":"2001:db8::7""#,
        r#""method":"GET""#,
        r#""host":"shop.test""#,
        r#""target":"/a\"b\u00e9?c=d""#,
        r#""target" : "/""#,
        r#""outcome":"forwarded""#,
        r#""outcome":"rate-limited""#,
        r#""route":"all""#,
        r#""status":200"#,
        r#""status":99999"#,
        r#""bytes_out":345"#,
        r#""duration_ms":12.5"#,
        r#""duration_ms":0.000000001234"#,
        r#""origin_ttfb_ms":3.042"#,
        r#""fields":{"x-plan":"free","status":"1"}"#,
        r#""cost":{"otp":7}"#,
        r#""refunded":["a", "b"]"#,
        r#""a_name_that_is_longer_than_others":[{"time":1}]"#,
        r#""tim\u0065":null"#,
    ];

    /// Lines of one log: members in any order, mostly that of the line before, with a slip in some of them.
    fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let members = proptest::collection::vec(0..MEMBERS.len(), 0..12);
        let repeats = 1_usize..4;
        let slip = proptest::option::of((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()));
        let line = (members, repeats, slip);
        proptest::collection::vec(line, 1..8).prop_map(|drawn| {
            let mut lines = Vec::new();
            for (members, repeats, slip) in drawn {
                let members: Vec<&str> = members.iter().map(|member| MEMBERS[*member]).collect();
                let mut line = format!("{{{}}}", members.join(",")).into_bytes();
                lines.extend(std::iter::repeat_n(line.clone(), repeats));
                if let Some((at, byte, is_cut)) = slip {
                    let at = at.index(line.len());
                    line[at] = byte;
                    line.truncate(if is_cut { at } else { line.len() });
                    lines.push(line);
                }
            }
            lines
        })
    }

    /// Parses lines with a cache and without, and compares all that is read.
    fn compare(name: &str, lines: &[Vec<u8>]) {
        let mut cache = ParseCache::default();
        for line in lines {
            let parsed = |cache: &mut ParseCache| {
                let mut format = LogFormat::named(name).unwrap();
                let mut into = ParsedLine::default();
                let result = format.parse_next(line, cache, &mut into);
                format!("{result:?} {into:?}")
            };
            let with = parsed(&mut cache);
            assert_eq!(with, parsed(&mut ParseCache::default()));
        }
    }

    proptest! {
        /// Goal: our own lines are read alike with what earlier lines had in common, and without. Method: lines of any members in any
        /// order, repeated, cut, and with wrong bytes.
        #[test]
        fn lines_are_read_alike_with_a_cache(lines in lines()) {
            compare("sluicegate", &lines);
        }

        /// Goal: the same for lines of the combined format. Method: times close to one another, with wrong bytes.
        #[test]
        fn combined_lines_are_read_alike_with_a_cache(
            drawn in proptest::collection::vec(("[0-2]", "[0-6][0-9]", "(\\+0000|-0330)?", 0_usize..70, any::<u8>()), 1..12),
        ) {
            let mut lines = Vec::new();
            for (minute, second, zone, at, byte) in drawn {
                let text = format!(r#"192.0.2.1 - - [21/Nov/2026:07:1{minute}:{second} {zone}] "GET / HTTP/1.1" 200 5"#);
                let mut slip = text.clone().into_bytes();
                if let Some(place) = slip.get_mut(at) {
                    *place = byte;
                }
                lines.extend([text.into_bytes(), slip]);
            }
            compare("combined", &lines);
        }
    }
}
