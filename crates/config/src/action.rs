//! Owns what happens at a limit, and how that is written: `action`, `mark`, `fallback_limit`, `challenge`, `unsolved`, `enforce` and
//! `shadow_rates`.
//!
//! They stand together because they exclude each other: whoever writes one that says nothing beside the others expects something
//! that would not happen, so it is an error.

use http::{HeaderName, header};
use sluicegate_limiter::{Algorithm, KeyHash, Policy};

use super::algorithm;
use super::field::{KeyField, quoted};
use super::problem::ParseError;
use super::rates;
use super::report::PlacedValue;
use super::rules::{ChallengeRules, Name};
use super::section::TableSection;

const ACTIONS: [&str; 5] = ["reject", "delay", "mark", "challenge", "shadow"];

/// The field that marks a request unless the file names another.
const MARK: HeaderName = HeaderName::from_static("x-sluicegate-limit");

/// The action for a request that a limit has no room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is refused.
    Reject,
    /// It waits for its turn, as far as the queue reaches, and is refused beyond: a leaky bucket.
    Delay,
    /// It is forwarded with a field that names the limit and its status.
    Mark {
        /// The field.
        field: HeaderName,
        /// A limit that is asked in place of the exceeded one, and may refuse.
        then: Option<Name>,
    },
    /// A browser gets a page with a challenge, whose solution gives it a quota of its own; every other client is refused.
    Challenge {
        /// The challenge.
        rules: ChallengeRules,
        /// The limit that counts the pages, and refuses the clients that solve none.
        unsolved: Name,
    },
    /// It is counted and reported, and nothing else.
    Shadow,
}

/// A share of keys, 0.01 % to all; which ones is decided by their hashes, so a key is always in or always out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    ten_thousandths: u16,
}

impl Action {
    /// Returns the word of the configuration.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Delay => "delay",
            Self::Mark { .. } => "mark",
            Self::Challenge { .. } => "challenge",
            Self::Shadow => "shadow",
        }
    }
}

impl Share {
    /// Nothing.
    pub const NONE: Self = Self { ten_thousandths: 0 };

    /// Every key.
    pub const ALL: Self = Self {
        ten_thousandths: 10_000,
    };

    /// Returns whether this key is in the share.
    #[must_use]
    pub fn takes(self, key: KeyHash) -> bool {
        // The upper half of a keyed hash is as even as it gets.
        self.holds((key.bits() >> 32) as u32)
    }

    /// Returns whether a number, evenly distributed, is in the share: it is scaled to 0..10,000 without a division.
    #[must_use]
    pub fn holds(self, even: u32) -> bool {
        let part = (u64::from(even) * 10_000) >> 32;
        part < u64::from(self.ten_thousandths)
    }

    /// Returns the share in hundredths of a percent.
    #[must_use]
    pub const fn ten_thousandths(self) -> u16 {
        self.ten_thousandths
    }

    /// Returns the share of so many of a hundred keys; 100 and more is every key.
    #[must_use]
    pub const fn percent(of_hundred: u16) -> Self {
        Self {
            ten_thousandths: if of_hundred < 100 {
                of_hundred * 100
            } else {
                10_000
            },
        }
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, into: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = self.ten_thousandths / 100;
        let rest = self.ten_thousandths % 100;
        match rest {
            0 => write!(into, "{whole}%"),
            _ if rest.is_multiple_of(10) => write!(into, "{whole}.{}%", rest / 10),
            _ => write!(into, "{whole}.{rest:02}%"),
        }
    }
}

/// The keys that say what happens at a limit.
pub(super) struct ActionKeys<'d> {
    action: Option<KeyField<'d>>,
    mark: Option<KeyField<'d>>,
    then: Option<KeyField<'d>>,
    challenge: Option<KeyField<'d>>,
    unsolved: Option<KeyField<'d>>,
    enforce: Option<KeyField<'d>>,
    shadow_rates: Option<KeyField<'d>>,
}

/// The settings that the keys of a limit give.
pub(super) struct ActionSettings {
    pub(super) action: Action,
    /// `fallback_limit` or `unsolved`, where one was written.
    pub(super) then: Option<PlacedValue<Name>>,
    pub(super) enforce: Share,
    pub(super) shadow_rates: Option<Policy>,
}

impl<'d> ActionKeys<'d> {
    /// The keys of `[limit.NAME]`, asked for whatever is written.
    pub(super) fn from_section(section: &TableSection<'d>) -> Self {
        let mark = section.section("mark", "{ header = \"x-sluicegate-limit\" }");
        let header = mark.field("header", "\"x-sluicegate-limit\"");
        mark.finish();
        Self {
            action: section.field("action", "\"reject\""),
            mark: header,
            then: section.field("fallback_limit", "\"slow\""),
            challenge: section.field("challenge", "{ difficulty = 15 }"),
            unsolved: section.field("unsolved", "\"unsolved\""),
            enforce: section.field("enforce", "\"10%\""),
            shadow_rates: section.field("shadow_rates", "[\"3 per 1m\"]"),
        }
    }

    /// The algorithm of a limit that does not name one.
    pub(super) fn usual_algorithm(&self) -> &'static str {
        match self.action.as_ref().and_then(KeyField::written_text) {
            Some("delay") => algorithm::LEAKY_BUCKET,
            _ => algorithm::SLIDING_WINDOW,
        }
    }

    /// Returns the settings of a limit with this policy; `None` when something is wrong, which was reported then.
    pub(super) fn read(&self, policy: &Policy) -> Option<ActionSettings> {
        let leaky = matches!(policy.algorithm(), Algorithm::LeakyBucket { .. });
        let name = self.action.as_ref().map(action);
        let idle = self.refuse_idle(name.flatten().unwrap_or_default());
        let then = self.then.as_ref().or(self.unsolved.as_ref()).map(|field| {
            let name = Name::from(field.text()?);
            Some(field.placed(name))
        });
        let challenge = self.challenge.as_ref().map_or_else(
            || Some(ChallengeRules::default()),
            |field| ChallengeRules::read(field.section()?),
        );
        let header = self
            .mark
            .as_ref()
            .map_or(Some(MARK), |field| field.parsed(mark));
        let enforce = self
            .enforce
            .as_ref()
            .map_or(Some(Share::ALL), |field| field.parsed(share));
        let shadow_rates = self
            .shadow_rates
            .as_ref()
            .map(|field| shadow_rates(field, policy));
        let action = match (name.unwrap_or(Some("reject"))?, &self.action) {
            ("delay", Some(field)) if !leaky => field.refuse(
                "only a leaky bucket holds requests back",
                "leave `algorithm` out, or write algorithm = \"leaky-bucket\"",
            ),
            ("mark", Some(field)) if leaky => field.refuse(
                "a leaky bucket holds requests back, and those that are marked pass at once",
                "leave `algorithm` out, or write action = \"delay\"",
            ),
            ("challenge", Some(field)) if leaky => field.refuse(
                "a leaky bucket holds requests back, and a challenge is for requests that have no room",
                "leave `algorithm` out, or write action = \"delay\"",
            ),
            ("challenge", Some(field)) if self.unsolved.is_none() => field.refuse(
                "no limit counts the pages, so a client that solves none could ask for them without end",
                "write unsolved = \"NAME\", a limit that rejects after so many pages",
            ),
            ("challenge", _) if enforce.is_some_and(|share| share != Share::ALL) => {
                let field = self.enforce.as_ref()?;
                field.refuse(
                    "each solution counts under a key of its own, and that may be one for which the limit is in shadow",
                    "leave it out, or try the rates with action = \"shadow\" first",
                )
            }
            ("challenge", _) => Some(Action::Challenge {
                rules: challenge?,
                unsolved: then.as_ref()?.as_ref()?.value.clone(),
            }),
            ("mark", _) => Some(Action::Mark {
                field: header?,
                then: then
                    .as_ref()
                    .and_then(|then| Some(then.as_ref()?.value.clone())),
            }),
            ("shadow", _) => Some(Action::Shadow),
            _ if leaky => Some(Action::Delay),
            _ => Some(Action::Reject),
        };
        idle?;
        Some(ActionSettings {
            action: action?,
            then: then.map_or(Some(None), |then| then.map(Some))?,
            enforce: enforce?,
            shadow_rates: shadow_rates.map_or(Some(None), |rates| rates.map(Some))?,
        })
    }

    /// Reports what only another action has a use for.
    fn refuse_idle(&self, action: &str) -> Option<()> {
        let mut idle = Some(());
        for (field, owner, does) in [
            (&self.mark, "mark", "writes a field"),
            (&self.then, "mark", "asks a second limit"),
            (&self.challenge, "challenge", "has a challenge"),
            (
                &self.unsolved,
                "challenge",
                "has pages that may stay unsolved",
            ),
        ] {
            if let Some(field) = field
                && action != owner
            {
                idle = field.refuse(
                    format!("only action = \"{owner}\" {does}"),
                    format!("leave it out, or write action = \"{owner}\""),
                );
            }
        }
        idle
    }
}

/// Rates that the algorithm of `policy` judges as it judges that one's.
fn shadow_rates(field: &KeyField<'_>, policy: &Policy) -> Option<Policy> {
    let rates = rates::rates(field)?;
    let algorithm = policy.algorithm().clone();
    if let Algorithm::TokenBucket { burst: Some(_), .. } | Algorithm::Gcra { burst: Some(_) } =
        algorithm
        && rates.len() > 1
    {
        return field.refuse(
            "a burst belongs to one rate, and these are several",
            "try them one by one, or leave `burst` out",
        );
    }
    match Policy::new(algorithm, rates) {
        Ok(policy) => Some(policy),
        Err(error) => field.refuse(
            error.to_string(),
            "write rates that its algorithm can judge",
        ),
    }
}

fn action(field: &KeyField<'_>) -> Option<&'static str> {
    let words = ACTIONS.map(|name| (name, name));
    field.word(&words, |got| format!("there is no action {got}"))
}

/// Fields that frame a message, or that the gateway itself writes into requests.
const TAKEN: [HeaderName; 11] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    header::FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-request-id"),
];

fn mark(text: &str) -> Result<HeaderName, ParseError> {
    let advice = "write a name of its own, such as \"x-sluicegate-limit\"";
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| {
        ParseError::with_advice(
            format!("{} is not the name of a header", quoted(text)),
            advice,
        )
    })?;
    if TAKEN.contains(&name) {
        let message = format!("{} has a meaning already", quoted(text));
        return Err(ParseError::with_advice(message, advice));
    }
    Ok(name)
}

/// `10%`, `0.25%`, of keys that a limit is enforced for.
fn share(text: &str) -> Result<Share, ParseError> {
    let share = any_share(text)?;
    if share == Share::NONE {
        return Err(ParseError::with_advice(
            "a limit that is enforced for nobody refuses nobody",
            "write action = \"shadow\" if that is meant",
        ));
    }
    Ok(share)
}

/// `0%` to `100%`.
pub(super) fn any_share(text: &str) -> Result<Share, ParseError> {
    let wrong = || {
        ParseError::with_advice(
            format!("{} is not a share", quoted(text)),
            "write 0.01% to 100%, with at most two decimals: \"10%\", \"0.25%\"",
        )
    };
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |digits: &str, most: usize| {
        let plain = (1..=most).contains(&digits.len())
            && digits.bytes().all(|digit| digit.is_ascii_digit());
        plain.then(|| digits.parse::<u32>().ok()).flatten()
    };
    let hundredths =
        digits(decimals, 2).map(|rest| if decimals.len() == 1 { rest * 10 } else { rest });
    let (whole, hundredths) = digits(whole, 3).zip(hundredths).ok_or_else(wrong)?;
    match u16::try_from(whole * 100 + hundredths) {
        Ok(ten_thousandths) if ten_thousandths <= 10_000 => Ok(Share { ten_thousandths }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: shares are read to the hundredth of a percent and shown as written. Method: both ends, and what is no share.
    #[test]
    fn a_share_is_written_in_percent() {
        for text in ["10%", "100%", "0.01%", "2.5%", "33.33%"] {
            assert_eq!(share(text).expect(text).to_string(), text);
        }
        for wrong in [
            "10", "0%", "0.00%", "100.01%", "101%", "1.234%", ".5%", "5.%", "-1%", "%", "1e1%",
            "+1%", "999%", "656%",
        ] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    /// Goal: as many keys as the share says, always the same ones, and a larger share only adds. Method: evenly spread hashes.
    #[test]
    fn a_share_takes_its_part_of_the_keys() {
        let keys =
            || (0..100_000_u64).map(|n| KeyHash::from_bits(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let taken = |text| {
            keys()
                .filter(|key| share(text).expect(text).takes(*key))
                .count()
        };
        assert!(taken("10%").abs_diff(10_000) < 100);
        assert!(taken("0.25%").abs_diff(250) < 25);
        assert_eq!(keys().filter(|key| Share::ALL.takes(*key)).count(), 100_000);
        let (small, large) = (share("10%").expect("10%"), share("20%").expect("20%"));
        assert!(keys().all(|key| !small.takes(key) || large.takes(key)));
    }
}
