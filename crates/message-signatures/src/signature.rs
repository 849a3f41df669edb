//! Reads the signatures of a request, and verifies one.

use arrayvec::ArrayVec;
use http::{HeaderMap, HeaderName};
use sfv::{Dictionary, FieldType, InnerList, ListEntry, Parser};

use crate::components::{SignedRequest, joined, serialized};
use crate::fault::SignatureFault;
use crate::keys::VerifyingKey;
use crate::{CLOCK_SKEW, LONGEST_LIFE, MOST_BYTES, MOST_COMPONENTS, MOST_SIGNATURES};

/// The field that says what each signature covers.
pub const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");
/// The field that has the signatures.
pub const SIGNATURE: HeaderName = HeaderName::from_static("signature");
const AGENT: HeaderName = HeaderName::from_static("signature-agent");

/// The tag of the profile: draft-meunier-webbotauth-httpsig-protocol.
const TAG: &str = "web-bot-auth";
/// The name of Ed25519 in RFC 9421 §6.2.2.
const ALGORITHM: &str = "ed25519";

/// The signatures of a request with the tag of the profile.
pub type BotSignatures = ArrayVec<BotSignature, MOST_SIGNATURES>;

/// A signature with what it covers.
#[derive(Clone, Debug)]
pub struct BotSignature {
    covered: InnerList,
    bytes: Vec<u8>,
    key_id: String,
}

impl BotSignature {
    /// Returns the signatures of a request; none where it has no such fields.
    ///
    /// # Errors
    /// The fields are malformed or exceed the caps, or a signature with the tag names no key.
    pub fn read(headers: &HeaderMap) -> Result<BotSignatures, SignatureFault> {
        let mut found = BotSignatures::new();
        if !headers.contains_key(&SIGNATURE_INPUT) || !headers.contains_key(&SIGNATURE) {
            return Ok(found);
        }
        let lines = headers
            .get_all(&SIGNATURE_INPUT)
            .iter()
            .chain(headers.get_all(&SIGNATURE));
        if lines.map(|line| line.len() + 2).sum::<usize>() > MOST_BYTES {
            return Err(SignatureFault::Malformed);
        }
        let dictionary = |name: &HeaderName| {
            let whole = joined(headers, name).ok_or(SignatureFault::Malformed)?;
            let parsed = Parser::new(&whole).parse::<Dictionary>();
            parsed.map_err(|_| SignatureFault::Malformed)
        };
        let inputs = dictionary(&SIGNATURE_INPUT)?;
        let mut signatures = dictionary(&SIGNATURE)?;
        for (label, input) in inputs {
            let ListEntry::InnerList(covered) = input else {
                continue;
            };
            if text(&covered, "tag") != Some(TAG) || found.is_full() {
                continue;
            }
            let bytes = match signatures.swap_remove(&label) {
                Some(ListEntry::Item(item)) => {
                    item.bare_item.as_byte_sequence().map(<[u8]>::to_vec)
                }
                Some(ListEntry::InnerList(_)) | None => None,
            };
            let bytes = bytes.ok_or(SignatureFault::Malformed)?;
            let key_id = text(&covered, "keyid").map(str::to_owned);
            let key_id = key_id.ok_or(SignatureFault::Incomplete)?;
            found.push(Self {
                covered,
                bytes,
                key_id,
            });
        }
        Ok(found)
    }

    /// Returns the thumbprint of the key that it names.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Verifies it with `key` at `now`, in seconds since 1970. `key` is that of [`Self::key_id`].
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify(
        &self,
        key: &VerifyingKey,
        request: &SignedRequest<'_>,
        now: u64,
    ) -> Result<(), SignatureFault> {
        self.check_parameters(now)?;
        self.check_coverage(request.headers)?;
        key.verify(self.base(request)?.as_bytes(), &self.bytes, now)
    }

    fn check_parameters(&self, now: u64) -> Result<(), SignatureFault> {
        let time = |name: &str| {
            let seconds = self.covered.params.get(name);
            let seconds = seconds.and_then(|seconds| seconds.as_integer());
            seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .ok_or(SignatureFault::Incomplete)
        };
        // RFC 9421 §3.2 step 6: an algorithm that the key is not for is an error, whatever the request says.
        if self.covered.params.contains_key("alg") && text(&self.covered, "alg") != Some(ALGORITHM)
        {
            return Err(SignatureFault::Algorithm);
        }
        let created = time("created")?;
        let expires = time("expires")?;
        if created > now.saturating_add(CLOCK_SKEW) {
            return Err(SignatureFault::Early);
        }
        if now >= expires {
            return Err(SignatureFault::Expired);
        }
        if expires.saturating_sub(created) > LONGEST_LIFE {
            return Err(SignatureFault::LongLived);
        }
        Ok(())
    }

    fn check_coverage(&self, headers: &HeaderMap) -> Result<(), SignatureFault> {
        let items = &self.covered.items;
        if items.len() > MOST_COMPONENTS {
            return Err(SignatureFault::Malformed);
        }
        // RFC 9421 §2: each component identifier occurs once.
        let is_repeated = |at: usize| items.iter().take(at).any(|other| *other == items[at]);
        if (0..items.len()).any(is_repeated) {
            return Err(SignatureFault::Malformed);
        }
        let covers = |name: &str| {
            let mut names = items.iter().filter_map(|item| item.bare_item.as_string());
            names.any(|covered| covered.as_str() == name)
        };
        let has_authority = covers("@authority") || covers("@target-uri");
        if !has_authority || headers.contains_key(&AGENT) && !covers(AGENT.as_str()) {
            return Err(SignatureFault::Uncovered);
        }
        Ok(())
    }

    /// Returns the text that was signed: RFC 9421 §2.5.
    pub(crate) fn base(&self, request: &SignedRequest<'_>) -> Result<String, SignatureFault> {
        let mut base = String::new();
        for component in &self.covered.items {
            let identifier = component.serialize();
            let value = request.value(component)?;
            base.push_str(&format!("{identifier}: {value}\n"));
        }
        let parameters = serialized(ListEntry::InnerList(self.covered.clone()))?;
        base.push_str(&format!("\"@signature-params\": {parameters}"));
        Ok(base)
    }
}

/// Returns the parameter of a signature with this name, if it is a string.
fn text<'s>(covered: &'s InnerList, name: &str) -> Option<&'s str> {
    let value = covered.params.get(name)?.as_string()?;
    Some(value.as_str())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
