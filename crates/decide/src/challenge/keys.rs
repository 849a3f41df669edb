//! Owns the keys that sign challenges: the one that signs, and the one before it, whose solutions still count.

use arrayvec::ArrayVec;
use ring::hmac;
use sluicegate_base::secret::Secret;
use sluicegate_limiter::{KeyHash, Seed};

use super::token::{MAC_BYTES, TERMS_BYTES};

/// Keys of a file, at most.
const MOST_KEYS: usize = 2;

/// The text that comes before everything that is signed, so that the key signs nothing else.
const CONTEXT: &[u8] = b"sluicegate challenge 1";

/// The hash of a key of a limit, the same in every gateway with the same signing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBinding(pub KeyHash);

/// The keys in force: the first signs, each verifies.
#[derive(Clone, Debug)]
pub struct SigningKeys(ArrayVec<SigningKey, MOST_KEYS>);

#[derive(Clone, Debug)]
pub(super) struct SigningKey {
    hmac: hmac::Key,
    /// The seed under which the keys of limits are hashed for binding.
    seed: Seed,
}

impl SigningKeys {
    /// Returns the keys of a configuration; without any, one that is made of `own`, a secret of this gateway.
    #[must_use]
    pub fn new(written: &[Secret], own: &Seed) -> Self {
        let mut keys: ArrayVec<SigningKey, MOST_KEYS> = written
            .iter()
            .take(MOST_KEYS)
            .map(|secret| SigningKey::new(secret.reveal().as_bytes()))
            .collect();
        if keys.is_empty() {
            keys.push(SigningKey::new(own.bytes()));
        }
        Self(keys)
    }

    /// Returns the key that signs.
    pub(super) fn signing(&self) -> Option<&SigningKey> {
        self.0.first()
    }

    /// Returns the keys that verify, the one that signs first.
    pub(super) fn verifying(&self) -> impl Iterator<Item = &SigningKey> {
        self.0.iter()
    }
}

impl SigningKey {
    fn new(secret: &[u8]) -> Self {
        let hmac = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let tag = hmac::sign(&hmac, b"sluicegate challenge binding");
        let mut seed = [0; 16];
        for (byte, of_tag) in seed.iter_mut().zip(tag.as_ref()) {
            *byte = *of_tag;
        }
        Self {
            hmac,
            seed: Seed::from_bytes(seed),
        }
    }

    /// Returns the seed under which the keys of limits are hashed for binding.
    pub(super) fn seed(&self) -> Seed {
        self.seed
    }

    /// Returns the MAC over terms that are bound to a limit and a key of it.
    pub(super) fn sign(
        &self,
        limit: &str,
        binding: KeyBinding,
        terms: &[u8; TERMS_BYTES],
    ) -> [u8; MAC_BYTES] {
        let tag = hmac::sign(&self.hmac, &signed(limit, binding, terms));
        let mut mac = [0; MAC_BYTES];
        for (byte, of_tag) in mac.iter_mut().zip(tag.as_ref()) {
            *byte = *of_tag;
        }
        mac
    }

    /// Returns whether `mac` is that of the terms. The time that it takes does not depend on the bytes.
    pub(super) fn verifies(
        &self,
        limit: &str,
        binding: KeyBinding,
        terms: &[u8; TERMS_BYTES],
        mac: &[u8; MAC_BYTES],
    ) -> bool {
        hmac::verify(&self.hmac, &signed(limit, binding, terms), mac).is_ok()
    }
}

/// Returns the bytes that are signed: the last two parts have fixed lengths, so no limit's name runs into them.
fn signed(limit: &str, binding: KeyBinding, terms: &[u8; TERMS_BYTES]) -> Vec<u8> {
    let key = binding.0.bits().to_le_bytes();
    [CONTEXT, limit.as_bytes(), &key, terms].concat()
}
