//! Reads and writes settings, RFC 9114 §7.2.4.

use crate::frame::{FrameHead, FrameKind, write_head};
use crate::varint;
use crate::violation::RuleViolation;

/// The identifier of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingId(pub u64);

impl SettingId {
    /// The bytes of QPACK's dynamic table, RFC 9204 §5.
    pub const QPACK_MAX_TABLE_CAPACITY: Self = Self(0x01);
    /// The bytes of a list of fields, RFC 9114 §7.2.4.1.
    pub const MAX_FIELD_SECTION_SIZE: Self = Self(0x06);
    /// The streams that may wait for QPACK's encoder stream, RFC 9204 §5.
    pub const QPACK_BLOCKED_STREAMS: Self = Self(0x07);
    /// Extended CONNECT, RFC 9220 §5.
    pub const ENABLE_CONNECT_PROTOCOL: Self = Self(0x08);

    /// The settings with a meaning here.
    const KNOWN: [Self; 4] = [
        Self::QPACK_MAX_TABLE_CAPACITY,
        Self::MAX_FIELD_SECTION_SIZE,
        Self::QPACK_BLOCKED_STREAMS,
        Self::ENABLE_CONNECT_PROTOCOL,
    ];
}

/// The settings of the client that mean something to a server without a dynamic table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSettings {
    /// The bytes of a list of fields that the client takes, RFC 9114 §4.2.2; `None` where it says nothing.
    pub max_field_section: Option<u64>,
}

impl PeerSettings {
    /// Reads the payload of SETTINGS.
    ///
    /// # Errors
    /// A setting breaks a rule. Unknown ones are ignored.
    pub fn parse(payload: &[u8]) -> Result<Self, RuleViolation> {
        let mut settings = Self::default();
        let mut found = [false; SettingId::KNOWN.len()];
        let mut rest = payload;
        while !rest.is_empty() {
            let (id, behind) = varint::read(rest).ok_or(RuleViolation::FrameSize)?;
            let (value, behind) = varint::read(behind).ok_or(RuleViolation::FrameSize)?;
            rest = behind;
            // RFC 9114 §7.2.4.1, §11.2.2: those of HTTP/2 without a use here.
            if matches!(id, 0x00 | 0x02..=0x05) {
                return Err(RuleViolation::ReservedSetting);
            }
            let mut known = SettingId::KNOWN.iter().zip(&mut found);
            if let Some((_, is_found)) = known.find(|(known, _)| known.0 == id)
                && std::mem::replace(is_found, true)
            {
                return Err(RuleViolation::RepeatedSetting);
            }
            match SettingId(id) {
                SettingId::MAX_FIELD_SECTION_SIZE => settings.max_field_section = Some(value),
                SettingId::ENABLE_CONNECT_PROTOCOL if value > 1 => {
                    return Err(RuleViolation::SettingValue);
                }
                _ => {}
            }
        }
        Ok(settings)
    }
}

/// Writes SETTINGS.
pub fn write_settings(settings: &[(SettingId, u64)], out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    for (id, value) in settings {
        varint::write(id.0, &mut payload);
        varint::write(*value, &mut payload);
    }
    let length = payload.len() as u64;
    let kind = FrameKind::SETTINGS;
    write_head(FrameHead { kind, length }, out);
    out.extend_from_slice(&payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: settings are read, unknown ones ignored, wrong ones rejected. Method: a payload on each side of each rule.
    #[test]
    fn each_rule_has_two_sides() {
        use RuleViolation::{FrameSize, RepeatedSetting, ReservedSetting, SettingValue};
        for (payload, violation) in [
            (&[][..], None),
            (&[0x01, 0x40, 0xff, 0x07, 16], None),
            // Reserved identifiers, RFC 9114 §7.2.4.1, may repeat.
            (&[0x21, 1, 0x21, 1], None),
            (&[0x08, 1], None),
            (&[0x08, 2], Some(SettingValue)),
            (&[0x00, 0], Some(ReservedSetting)),
            (&[0x02, 0], Some(ReservedSetting)),
            (&[0x05, 0], Some(ReservedSetting)),
            (&[0x06, 1, 0x06, 1], Some(RepeatedSetting)),
            (&[0x06], Some(FrameSize)),
            (&[0x06, 0x40], Some(FrameSize)),
        ] {
            assert_eq!(PeerSettings::parse(payload).err(), violation, "{payload:?}");
        }
        let settings = PeerSettings::parse(&[0x06, 0x44, 0]).unwrap();
        assert_eq!(settings.max_field_section, Some(1024));
    }
}
