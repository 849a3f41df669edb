//! Maps code points to 16 bits by direct index: a character costs two reads, whichever it is.

/// Bits of a code point that choose an entry of its block.
const BLOCK_BITS: u32 = 6;
const BLOCK: usize = 1 << BLOCK_BITS;

/// A map from code points, of which most have the entry 0, to entries.
pub(super) struct CodePointMap {
    /// The block of entries for each 64 code points. The first block has no entries, and all code points without one share it.
    blocks: Vec<u16>,
    entries: Vec<u16>,
}

impl CodePointMap {
    pub(super) fn new() -> Self {
        Self {
            blocks: vec![0; (char::MAX as usize >> BLOCK_BITS) + 1],
            entries: vec![0; BLOCK],
        }
    }

    pub(super) fn insert(&mut self, letter: char, entry: u16) {
        let code = letter as usize;
        let Some(block) = self.blocks.get_mut(code >> BLOCK_BITS) else {
            return;
        };
        if *block == 0 {
            *block = u16::try_from(self.entries.len() >> BLOCK_BITS).unwrap_or(0);
            self.entries.resize(self.entries.len() + BLOCK, 0);
        }
        let at = (usize::from(*block) << BLOCK_BITS) | (code & (BLOCK - 1));
        self.entries[at] = entry;
    }

    /// Returns the entry of a character; 0 where none was inserted.
    #[inline]
    pub(super) fn get(&self, letter: char) -> u16 {
        let code = letter as usize;
        let block = self.blocks[code >> BLOCK_BITS];
        self.entries[(usize::from(block) << BLOCK_BITS) | (code & (BLOCK - 1))]
    }
}
