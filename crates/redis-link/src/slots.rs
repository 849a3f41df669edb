//! Computes the slot of a key in a Cluster, and reads which server has which slots.

use crate::address::HostPort;
use crate::call::Reply;

/// The number of slots.
pub(crate) const SLOTS: u16 = 16_384;

/// A master and the slots that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterShard {
    /// The address of the master.
    pub(crate) address: HostPort,
    /// The first and the last of each range.
    pub(crate) ranges: Vec<(u16, u16)>,
}

/// Returns the slot of a key.
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// Returns the part of a key that decides its slot: the text between its first `{` and the next `}`, if there is any; otherwise all of it.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
fn tag(key: &[u8]) -> &[u8] {
    let inside = key
        .iter()
        .position(|byte| *byte == b'{')
        .and_then(|open| key.get(open + 1..));
    let closed = inside.and_then(|rest| rest.get(..rest.iter().position(|byte| *byte == b'}')?));
    closed.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Computes CRC16/XMODEM, which the specification of the Cluster names.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

/// Finds a number whose decimal digits, as a hash tag, lie in one of these ranges; `None` where the search is too long.
pub(crate) fn number_in(ranges: &[(u16, u16)]) -> Option<u32> {
    // A master of one slot out of 16,384 has one of these but for odds of e^-12.
    (0..12 * u32::from(SLOTS)).find(|number| {
        let slot = slot(number.to_string().as_bytes());
        ranges
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&slot))
    })
}

/// Parses the answer of `CLUSTER SLOTS` of the server at `asked`. Ranges without a master that has an address are left out.
pub(crate) fn parse_shards(reply: &Reply, answered_by: &HostPort) -> Option<Vec<ClusterShard>> {
    let Reply::Rows(ranges) = reply else {
        return None;
    };
    let mut shards: Vec<ClusterShard> = Vec::new();
    for range in ranges {
        let Reply::Rows(fields) = range else {
            return None;
        };
        let [
            Reply::Integer(from),
            Reply::Integer(to),
            Reply::Rows(master),
            ..,
        ] = &fields[..]
        else {
            return None;
        };
        let [host, Reply::Integer(port), ..] = &master[..] else {
            return None;
        };
        let host = match host {
            Reply::Bytes(host) if host.is_empty() => answered_by.host.clone(),
            Reply::Bytes(host) => str::from_utf8(host).ok()?.into(),
            _ => continue,
        };
        let port = u16::try_from(*port).ok()?;
        let range = (u16::try_from(*from).ok()?, u16::try_from(*to).ok()?);
        let address = HostPort { host, port };
        match shards.iter_mut().find(|shard| shard.address == address) {
            Some(shard) => shard.ranges.push(range),
            None => shards.push(ClusterShard {
                address,
                ranges: vec![range],
            }),
        }
    }
    Some(shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: keys go where servers look for them. Method: the examples of the specification, and what `CLUSTER KEYSLOT` answers.
    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, counted) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
        ] {
            assert_eq!(tag(key.as_bytes()), counted.as_bytes());
        }
        assert_eq!(slot(b"a"), 15_495);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"sluicegate{foo}:otp"), 12_182);
    }

    /// Goal: every master has a key for heartbeats. Method: the narrowest ranges.
    #[test]
    fn a_number_is_found_in_any_range() {
        for edge in [0, 1, 8_191, 16_383] {
            let number = number_in(&[(edge, edge)]).expect("a number");
            assert_eq!(slot(number.to_string().as_bytes()), edge);
        }
        assert_eq!(number_in(&[]), None);
    }

    /// Goal: what servers answer is read, whatever they answer. Method: two ranges of one master, one without an address, nonsense.
    #[test]
    fn ranges_are_gathered_by_master() {
        let answered_by = HostPort {
            host: "h".into(),
            port: 1,
        };
        let range = |from, to, host: Reply| {
            let master = Reply::Rows(vec![host, Reply::Integer(7)]);
            Reply::Rows(vec![Reply::Integer(from), Reply::Integer(to), master])
        };
        let own = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        let reply = Reply::Rows(vec![
            range(0, 5, own("")),
            range(6, 9, own("a")),
            range(10, 10, own("h")),
            range(11, 12, Reply::Nil),
        ]);
        let shard = |host: &str, ranges: &[(u16, u16)]| ClusterShard {
            address: HostPort {
                host: host.into(),
                port: 7,
            },
            ranges: ranges.to_vec(),
        };
        let expected = vec![shard("h", &[(0, 5), (10, 10)]), shard("a", &[(6, 9)])];
        assert_eq!(parse_shards(&reply, &answered_by), Some(expected));
        assert_eq!(
            parse_shards(&Reply::Rows(vec![range(-1, 5, own("a"))]), &answered_by),
            None
        );
        assert_eq!(parse_shards(&Reply::Nil, &answered_by), None);
        assert_eq!(
            parse_shards(&Reply::Rows(vec![Reply::Rows(vec![])]), &answered_by),
            None
        );
    }
}
