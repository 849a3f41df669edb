//! Owns how keys are written: `"client.ip"`, `"client.ip/24,/56"`, `["client.ip", "path"]`.

use super::field::{Field, all, quoted};
use super::problem::Mistake;
use super::rules::{KeyPart, KeyTemplate};
use super::suggest;

/// Most parts of a key.
const MOST: usize = 8;

/// The parts that exist.
const PARTS: [&str; 5] = ["client.ip", "host", "path", "method", "global"];

/// The `key` of a limit: a part, or a list of them.
pub(super) fn template(field: &Field<'_>) -> Option<KeyTemplate> {
    if let toml::de::DeValue::String(_) = field.value {
        return Some(KeyTemplate(vec![field.parsed(part)?]));
    }
    let toml::de::DeValue::Array(_) = field.value else {
        return field.unexpected("a part of a key, or a list of them");
    };
    let elements = field.list()?;
    if elements.len() > MOST {
        let message = format!("{} parts are too many for a key", elements.len());
        return field.refuse(message, format!("keep at most {MOST}"));
    }
    let parts = all(elements.iter().map(|element| element.parsed(part)))?;
    let mut sound = true;
    for (at, (part, element)) in parts.iter().zip(&elements).enumerate() {
        let kind = std::mem::discriminant(part);
        if parts[..at]
            .iter()
            .any(|earlier| std::mem::discriminant(earlier) == kind)
        {
            let message = format!("the key has a part {} already", name(*part));
            element.refuse::<()>(message, "write it once, with the prefixes you want");
            sound = false;
        } else if *part == KeyPart::Global && parts.len() > 1 {
            element.refuse::<()>(
                "\"global\" means one counter for all, so no other part can stand beside it",
                "leave it out, or write key = \"global\" alone",
            );
            sound = false;
        }
    }
    sound.then_some(KeyTemplate(parts))
}

/// One part.
pub(super) fn part(text: &str) -> Result<KeyPart, Mistake> {
    match text {
        "host" => return Ok(KeyPart::Host),
        "path" => return Ok(KeyPart::Path),
        "method" => return Ok(KeyPart::Method),
        "global" => return Ok(KeyPart::Global),
        "client.ip" => return Ok(KeyPart::ClientIp { v4: 32, v6: 64 }),
        _ => {}
    }
    if let Some(prefixes) = text.strip_prefix("client.ip/") {
        return client_ip(text, prefixes);
    }
    let parts = "the parts are client.ip, client.ip/24,/56, host, path, method, global";
    let message = format!("{} is not a part of a key", quoted(text));
    let pieces: Vec<&str> = text
        .split([',', '+', ' '])
        .filter(|piece| !piece.is_empty())
        .collect();
    if pieces.len() > 1 && pieces.iter().all(|piece| PARTS.contains(piece)) {
        return Err(Mistake::with_advice(
            message,
            format!("write a list: key = {pieces:?}"),
        ));
    }
    Err(Mistake::with_advice(
        message,
        match suggest::nearest(text, PARTS) {
            Some(meant) => format!("did you mean \"{meant}\"? {parts}"),
            None => parts.to_owned(),
        },
    ))
}

/// The prefix lengths of `client.ip/24,/56`.
fn client_ip(text: &str, prefixes: &str) -> Result<KeyPart, Mistake> {
    let bits = |digits: &str, most: u8| {
        let plain =
            (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: Option<u8> = plain.then(|| digits.parse().ok()).flatten();
        bits.filter(|bits| *bits <= most)
    };
    let both = prefixes
        .split_once(",/")
        .and_then(|(v4, v6)| Some((bits(v4, 32)?, bits(v6, 128)?)));
    let (v4, v6) = both.ok_or_else(|| {
        let advice = match bits(prefixes, 32) {
            Some(v4) => format!("say both: \"client.ip/{v4},/64\""),
            None => "write 0 to 32 bits for IPv4, then 0 to 128 for IPv6: \"client.ip/24,/56\""
                .to_owned(),
        };
        Mistake::with_advice(
            format!("{} has no two prefix lengths", quoted(text)),
            advice,
        )
    })?;
    Ok(KeyPart::ClientIp { v4, v6 })
}

fn name(part: KeyPart) -> &'static str {
    match part {
        KeyPart::ClientIp { .. } => "\"client.ip\"",
        KeyPart::Host => "\"host\"",
        KeyPart::Path => "\"path\"",
        KeyPart::Method => "\"method\"",
        KeyPart::Global => "\"global\"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(text: &str) -> String {
        part(text).unwrap_err().advice.unwrap()
    }

    /// Goal: every part is known by its name. Method: all of them, prefixes at both ends of their range.
    #[test]
    fn parts_are_read_by_name() {
        assert_eq!(part("client.ip"), Ok(KeyPart::ClientIp { v4: 32, v6: 64 }));
        assert_eq!(
            part("client.ip/0,/128"),
            Ok(KeyPart::ClientIp { v4: 0, v6: 128 })
        );
        assert_eq!(part("global"), Ok(KeyPart::Global));
        for wrong in [
            "client.ip/33,/64",
            "client.ip/24,/129",
            "client.ip/",
            "client.ip/+4,/5",
            "IP",
            "",
        ] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }

    /// Goal: an unknown part never becomes another one, and the answer helps. Method: slips of several kinds.
    #[test]
    fn an_unknown_part_is_answered_with_those_that_exist() {
        assert!(advice("client.pi").starts_with("did you mean \"client.ip\"?"));
        assert!(advice("header.authorization").starts_with("the parts are client.ip,"));
        assert_eq!(
            advice("client.ip, path"),
            "write a list: key = [\"client.ip\", \"path\"]"
        );
        assert_eq!(advice("client.ip/24"), "say both: \"client.ip/24,/64\"");
    }
}
