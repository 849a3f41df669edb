//! Owns the Huffman code of RFC 7541 Appendix B, and the tables that are derived from it when the crate is compiled.
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their symbols, and the first of a length follows the
//! last of the length before. So the lengths alone define it.

/// The symbols: all bytes, and the end of the string.
const SYMBOLS: usize = 257;
/// The symbol that stands for the end of a string, RFC 7541 §5.2.
pub(super) const END_OF_STRING: u16 = 256;
/// The length of the shortest and of the longest code.
const SHORTEST: usize = 5;
pub(super) const LONGEST: usize = 30;
/// The codes up to this length are found by one look at a table.
pub(super) const SHORT_BITS: u32 = 8;

/// The length of the code of each symbol, in bits.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22,
    23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22,
    21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26,
    27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26,
    26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The code of each symbol, in the lowest bits.
pub(super) const CODES: [u32; SYMBOLS] = CanonicalCode::NEW.codes;

/// The first code of each length, the number of codes of the length, and the place of its first symbol in [`SYMBOLS_BY_CODE`].
pub(super) const RANGES: [CodeRange; LONGEST + 1] = CanonicalCode::NEW.ranges;

/// The symbols in the order of their codes.
pub(super) const SYMBOLS_BY_CODE: [u16; SYMBOLS] = CanonicalCode::NEW.symbols;

/// The symbol of each short code, by the bits with which it begins; a length of 0 where a longer code begins.
pub(super) const SHORT_CODES: [ShortCode; 1 << SHORT_BITS] = short_codes();

/// Returns the length of the code of a byte, in bits.
#[inline]
pub(super) const fn code_length(byte: u8) -> u32 {
    LENGTHS[byte as usize] as u32
}

/// The codes of one length.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeRange {
    /// The first code.
    pub(super) first: u32,
    /// The number of codes.
    pub(super) count: u32,
    /// The place of its symbol.
    pub(super) place: u32,
}

/// The symbol of a short code.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortCode {
    /// A byte: the code of the end of a string is long.
    pub(super) symbol: u8,
    /// The length in bits; 0 where there is no short code.
    pub(super) length: u8,
}

struct CanonicalCode {
    codes: [u32; SYMBOLS],
    ranges: [CodeRange; LONGEST + 1],
    symbols: [u16; SYMBOLS],
}

impl CanonicalCode {
    const NEW: Self = Self::new();

    const fn new() -> Self {
        const EMPTY: CodeRange = CodeRange {
            first: 0,
            count: 0,
            place: 0,
        };
        let mut code = Self {
            codes: [0; SYMBOLS],
            ranges: [EMPTY; LONGEST + 1],
            symbols: [0; SYMBOLS],
        };
        let mut next = 0;
        let mut place = 0;
        let mut length = SHORTEST;
        while length <= LONGEST {
            next <<= 1;
            code.ranges[length].first = next;
            code.ranges[length].place = place as u32;
            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as usize == length {
                    code.codes[symbol] = next;
                    code.symbols[place] = symbol as u16;
                    code.ranges[length].count += 1;
                    next += 1;
                    place += 1;
                }
                symbol += 1;
            }
            length += 1;
        }
        code
    }
}

const fn short_codes() -> [ShortCode; 1 << SHORT_BITS] {
    const LONGER: ShortCode = ShortCode {
        symbol: 0,
        length: 0,
    };
    let mut table = [LONGER; 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        let length = LENGTHS[symbol] as u32;
        if length <= SHORT_BITS {
            let free = SHORT_BITS - length;
            let first = CODES[symbol] << free;
            let mut rest = 0;
            while rest < 1 << free {
                table[(first + rest) as usize] = ShortCode {
                    symbol: symbol as u8,
                    length: length as u8,
                };
                rest += 1;
            }
        }
        symbol += 1;
    }
    table
}
