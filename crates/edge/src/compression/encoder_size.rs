//! Chooses how much memory an encoder takes, and bounds it: by coding, level, and the length of the body where it is announced.
//!
//! A window larger than the body is of no use, and zstd makes its tables as small as the body once it has the length. Brotli takes its
//! tables with the first block that it encodes: a body that is shorter than a block is encoded at its end, at once.
//!
//! # Limits
//! The numbers are measured for text that does not compress, with the versions in `Cargo.lock`: zstd 1.5.7, brotli 3.5, zlib-ng 2.2. For
//! zstd, with a window of 1 MiB, and gzip they are sums of the allocations of one encoder. Brotli, with a window of 256 KiB, also takes
//! and frees buffers with each block, half of which stay with the allocator: its numbers are the growth of resident memory by 12 to 24
//! encoders.

use sluicegate_config::rules::{CompressionLevel, ContentCoding};

/// Bits of the largest window of zstd: 1 MiB; RFC 9659 requires every decoder to support 8 MiB.
pub(super) const ZSTD_WINDOW: u32 = 20;
/// Bits of the largest window of brotli: 256 KiB.
const BROTLI_WINDOW: u32 = 18;
/// Bits of the smallest window of brotli.
const BROTLI_LEAST_WINDOW: u32 = 10;
/// The first level of brotli that has other tables, of 33 MiB, for windows of up to 16 bits.
const BROTLI_CHAINS: u8 = 5;
/// Bits of the smallest window at these levels.
const BROTLI_CHAINS_WINDOW: u32 = 17;
/// Bytes of a block of brotli: a shorter body is encoded at its end.
const BROTLI_BLOCK: u64 = 1 << 16;

/// KiB of an encoder of zstd, by level.
const ZSTD: [u64; 9] = [1920, 2112, 2624, 3904, 4416, 4416, 6976, 6976, 12_096];
/// KiB of an encoder of brotli, by level.
const BROTLI: [u64; 9] = [1216, 6144, 6144, 6144, 6144, 6144, 12_288, 20_608, 40_960];
/// KiB of an encoder of brotli for a body that is shorter than a block, by level: above 3 it has no tables until the end.
const BROTLI_SHORT: [u64; 9] = [576, 1664, 1664, 960, 960, 960, 960, 960, 1152];
/// KiB of an encoder of gzip.
const GZIP: u64 = 384;

/// The decision how large the encoder of one body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EncoderSize {
    pub(super) coding: ContentCoding,
    /// The level, 1 to 9.
    pub(super) level: u8,
    /// The bytes of the body; `None` where they are not announced.
    pub(super) length: Option<u64>,
}

impl EncoderSize {
    /// Returns the size for a body of `length` bytes, at `level` or at the usual level of that coding.
    #[must_use]
    pub(crate) fn new(
        coding: ContentCoding,
        level: Option<CompressionLevel>,
        length: Option<u64>,
    ) -> Self {
        let usual = match coding {
            ContentCoding::Zstd => 3,
            ContentCoding::Brotli => 4,
            ContentCoding::Gzip => 5,
        };
        Self {
            coding,
            level: level.map_or(usual, |CompressionLevel(level)| level),
            length,
        }
    }

    /// Returns the most bytes of memory that the encoder holds between two pieces of the body.
    #[must_use]
    pub(crate) fn bytes(self) -> u64 {
        let of_level =
            |sizes: [u64; 9]| sizes[usize::from(self.level.clamp(1, 9)) - 1].saturating_mul(1024);
        match self.coding {
            // The window, blocks beside it, and two tables of four bytes for each of at most twice its positions.
            ContentCoding::Zstd => match self.length.and_then(|length| bits(length, 10)) {
                Some(window) if window < ZSTD_WINDOW => {
                    of_level(ZSTD).min((20 << window) + 40 * 1024)
                }
                _ => of_level(ZSTD),
            },
            ContentCoding::Brotli if self.length.is_some_and(|length| length < BROTLI_BLOCK) => {
                of_level(BROTLI_SHORT)
            }
            ContentCoding::Brotli => of_level(BROTLI),
            ContentCoding::Gzip => GZIP * 1024,
        }
    }

    /// Returns the bits of the window of brotli.
    pub(super) fn brotli_window(self) -> u32 {
        let least = if self.level >= BROTLI_CHAINS {
            BROTLI_CHAINS_WINDOW
        } else {
            BROTLI_LEAST_WINDOW
        };
        let needed = self.length.and_then(|length| bits(length, least));
        needed.map_or(BROTLI_WINDOW, |bits| bits.min(BROTLI_WINDOW))
    }
}

/// Returns the bits of the smallest window with so many bytes, at least `least`; `None` where there is none.
fn bits(length: u64, least: u32) -> Option<u32> {
    Some(length.checked_next_power_of_two()?.ilog2().max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a short body has a small encoder, and a longer one never a smaller one. Method: each coding and level, lengths that double.
    #[test]
    fn an_encoder_grows_with_its_body_up_to_the_level() {
        for coding in ContentCoding::ALL {
            for level in (1..=9).map(CompressionLevel) {
                let bytes = |length| EncoderSize::new(coding, Some(level), length).bytes();
                let sizes: Vec<_> = (10..40).map(|bits| bytes(Some(1 << bits))).collect();
                assert!(sizes.is_sorted(), "{coding:?} {level:?}: {sizes:?}");
                assert_eq!(sizes.last(), Some(&bytes(None)), "{coding:?} {level:?}");
                assert_eq!(bytes(Some(u64::MAX)), bytes(None));
            }
        }
        let zstd = |length| EncoderSize::new(ContentCoding::Zstd, None, length).bytes();
        assert_eq!(zstd(Some(4_000)), 120 * 1024);
        assert_eq!(zstd(None), 2_624 * 1024);
    }

    /// Goal: brotli gets no window for which it has tables of 33 MiB, and none that is larger than the body needs. Method: lengths around
    /// the bounds.
    #[test]
    fn a_window_of_brotli_is_as_large_as_the_body() {
        let window = |level, length| {
            EncoderSize::new(ContentCoding::Brotli, Some(CompressionLevel(level)), length)
                .brotli_window()
        };
        assert_eq!(window(4, Some(100)), 10);
        assert_eq!(window(4, Some(16_385)), 15);
        assert_eq!(window(5, Some(100)), 17);
        assert_eq!(window(9, Some(131_073)), 18);
        assert_eq!(window(4, Some(1 << 30)), 18);
        assert_eq!(window(4, None), 18);
    }
}
