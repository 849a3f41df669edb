//! Scans JSON for the number behind a pointer, byte by byte and without recursion.
//!
//! The scanner follows brackets, strings and names; it does not check that the text is JSON. A text that is none yields a number that
//! stands where the pointer leads in the part that is read, or none.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::ReportedNumber;
use crate::bounds::COST_NUMBER_BYTES;

/// Bytes of an escaped character: `\u0075`.
const ESCAPED: usize = 6;

/// Finds the number behind the steps of a pointer.
#[derive(Debug)]
pub(super) struct NumberScanner {
    steps: Arc<[Arc<str>]>,
    /// Objects and lists on the way to the value, the outermost first; as many as steps at most.
    path: Vec<OpenContainer>,
    /// Depth in objects and lists that are not on the way.
    skipped_depth: u64,
    token: ScannedToken,
    /// The name of the current member as it stands between its quotes, as far as it can match.
    name: Vec<u8>,
    /// The text of the number, as far as it fits.
    digits: ArrayVec<u8, COST_NUMBER_BYTES>,
    found: Option<ReportedNumber>,
}

/// An object or a list on the way to the value.
#[derive(Clone, Copy, Debug)]
enum OpenContainer {
    Object(MemberPart),
    /// The index of the current element.
    List(usize),
}

/// The place in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberPart {
    /// Before or in a name.
    Name,
    /// Behind a name, which is that of the next step or not.
    Value { is_next: bool },
}

/// The current token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScannedToken {
    /// Between tokens, or in one that does not matter.
    None,
    /// In a string, behind a backslash or not.
    String { is_name: bool, escaped: bool },
    /// In the number.
    Number,
}

impl NumberScanner {
    /// Returns a scanner for the number behind these steps.
    pub(super) fn new(steps: Arc<[Arc<str>]>) -> Self {
        Self {
            steps,
            path: Vec::new(),
            skipped_depth: 0,
            token: ScannedToken::None,
            name: Vec::new(),
            digits: ArrayVec::new(),
            found: None,
        }
    }

    /// Returns the steps of the pointer.
    pub(super) fn steps(&self) -> &[Arc<str>] {
        &self.steps
    }

    /// Returns the number of the last text that has one.
    pub(super) fn number(&self) -> Option<ReportedNumber> {
        self.found
    }

    /// Begins another text.
    pub(super) fn begin_text(&mut self) {
        self.path.clear();
        self.skipped_depth = 0;
        self.token = ScannedToken::None;
    }

    /// Reads the next piece of the text.
    pub(super) fn read(&mut self, mut piece: &[u8]) {
        while let Some((byte, rest)) = piece.split_first() {
            piece = match self.token {
                ScannedToken::String {
                    is_name: false,
                    escaped: false,
                } => {
                    // The bulk of a body.
                    match memchr::memchr2(b'"', b'\\', piece) {
                        None => return,
                        Some(at) => {
                            self.read_in_string(piece[at], false);
                            &piece[at + 1..]
                        }
                    }
                }
                ScannedToken::String { is_name, .. } => {
                    self.read_in_string(*byte, is_name);
                    rest
                }
                ScannedToken::Number if is_of_number(*byte) => {
                    if self.digits.try_push(*byte).is_err() {
                        self.found = Some(ReportedNumber::Malformed);
                    }
                    rest
                }
                ScannedToken::Number => {
                    self.end_number();
                    self.read_between(*byte);
                    rest
                }
                ScannedToken::None => {
                    self.read_between(*byte);
                    rest
                }
            };
        }
    }

    fn read_in_string(&mut self, byte: u8, is_name: bool) {
        let ScannedToken::String { escaped, .. } = self.token else {
            return;
        };
        if byte == b'"' && !escaped {
            self.token = ScannedToken::None;
            if is_name {
                self.end_name();
            }
            return;
        }
        self.token = ScannedToken::String {
            is_name,
            escaped: byte == b'\\' && !escaped,
        };
        if is_name && self.name.len() <= self.longest_name() {
            self.name.push(byte);
        }
    }

    /// Returns the length of the longest spelling of the next step.
    fn longest_name(&self) -> usize {
        self.next_step().map_or(0, |step| step.len() * ESCAPED)
    }

    fn read_between(&mut self, byte: u8) {
        match byte {
            b'"' => self.begin_string(),
            b'{' | b'[' => self.open(byte),
            b'}' | b']' => self.close(),
            b',' if self.skipped_depth == 0 => match self.path.last_mut() {
                Some(OpenContainer::Object(member)) => *member = MemberPart::Name,
                Some(OpenContainer::List(index)) => *index = index.saturating_add(1),
                None => {}
            },
            b'-' | b'0'..=b'9' if self.is_at_target() => {
                self.digits.clear();
                self.digits.push(byte);
                self.token = ScannedToken::Number;
            }
            b't' | b'f' if self.is_at_target() => self.found = Some(ReportedNumber::Malformed),
            _ => {}
        }
    }

    fn begin_string(&mut self) {
        let is_name = self.skipped_depth == 0
            && matches!(
                self.path.last(),
                Some(OpenContainer::Object(MemberPart::Name))
            );
        if is_name {
            self.name.clear();
        } else if self.is_at_target() {
            self.found = Some(ReportedNumber::Malformed);
        }
        self.token = ScannedToken::String {
            is_name,
            escaped: false,
        };
    }

    fn end_name(&mut self) {
        let is_next = self
            .next_step()
            .is_some_and(|step| is_name(&self.name, step));
        if let Some(OpenContainer::Object(member)) = self.path.last_mut() {
            *member = MemberPart::Value { is_next };
        }
    }

    fn open(&mut self, bracket: u8) {
        let is_on_the_way = self.skipped_depth == 0 && (self.path.is_empty() || self.is_at_next());
        if self.is_at_target() {
            self.found = Some(ReportedNumber::Malformed);
        }
        if !is_on_the_way || self.path.len() >= self.steps.len() {
            self.skipped_depth = self.skipped_depth.saturating_add(1);
            return;
        }
        self.path.push(match bracket {
            b'{' => OpenContainer::Object(MemberPart::Name),
            _ => OpenContainer::List(0),
        });
    }

    fn close(&mut self) {
        match self.skipped_depth.checked_sub(1) {
            Some(skipped_depth) => self.skipped_depth = skipped_depth,
            None => {
                self.path.pop();
            }
        }
    }

    fn end_number(&mut self) {
        self.token = ScannedToken::None;
        if !self.digits.is_full() || self.found != Some(ReportedNumber::Malformed) {
            self.found = Some(number(&self.digits));
        }
    }

    /// Returns the step that leads out of the innermost object or list on the way.
    fn next_step(&self) -> Option<&str> {
        let at = self.path.len().checked_sub(1)?;
        self.steps.get(at).map(|step| &**step)
    }

    /// Returns whether the current value is that of the next step.
    fn is_at_next(&self) -> bool {
        self.skipped_depth == 0
            && match self.path.last() {
                Some(OpenContainer::Object(member)) => {
                    *member == MemberPart::Value { is_next: true }
                }
                Some(OpenContainer::List(index)) => {
                    self.next_step().is_some_and(|step| is_index(step, *index))
                }
                None => false,
            }
    }

    /// Returns whether the current value is that of the last step.
    fn is_at_target(&self) -> bool {
        self.path.len() == self.steps.len() && self.is_at_next()
    }
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E')
}

/// Returns whether a name is `step`, escapes resolved.
fn is_name(name: &[u8], step: &str) -> bool {
    if !name.contains(&b'\\') {
        return name == step.as_bytes();
    }
    let quoted = [b"\"", name, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|name| name == step)
}

/// RFC 6901 §4: digits without a leading zero.
fn is_index(step: &str, index: usize) -> bool {
    let is_plain = step == "0" || !step.starts_with(['0', '+']);
    is_plain && step.parse() == Ok(index)
}

fn number(digits: &[u8]) -> ReportedNumber {
    if digits.iter().all(u8::is_ascii_digit) {
        let add = |number: u64, digit: &u8| {
            number
                .saturating_mul(10)
                .saturating_add(u64::from(digit - b'0'))
        };
        return ReportedNumber::Found(digits.iter().fold(0, add));
    }
    let float = str::from_utf8(digits)
        .ok()
        .and_then(|text| text.parse().ok());
    match float {
        // The cast saturates.
        Some(number @ 0.0..) => ReportedNumber::Found(f64::ceil(number) as u64),
        _ => ReportedNumber::Malformed,
    }
}
