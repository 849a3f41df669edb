"""Writes fold.tsv, the table of the normal form `fold`, and equal.tsv, the texts that it is tested with.

Texts that the Unicode collation algorithm compares equal at its primary strength fold to one text. The weights are those of UCA 5.2 to 10.0
(DUCET), which the PyPI package `pyuca` carries, and those of the root collation of CLDR in ICU, which `icukit-pyicu` carries:

    pip install pyuca icukit-pyicu && python tests/collation/fold.py

A character folds to its compatibility decomposition without marks and invisible characters, in lower case. Where this tells two texts apart that a
collation compares equal, the letters of one become those of the other.
"""

import pathlib
import re

import icu
import pyuca
from icu import Char, Collator, Locale, Normalizer2, UCharCategory, UnicodeString, UProperty

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "crates/base/src/normal_form/fold.tsv"
EQUAL = ROOT / "tests/collation/equal.tsv"

# All characters but the syllables of Hangul: `fold` takes them for the letters that they are composed of.
KNOWN = {*range(0x110000)} - {*range(0xAC00, 0xD7A4)} - {*range(0xD800, 0xE000)}
EVERY = [chr(code) for code in sorted(KNOWN)]

# The letters that syllables of Hangul are composed of, by arithmetic (The Unicode Standard, section 3.12).
JAMO = [chr(code) for start, end in ((0x1100, 0x1113), (0x1161, 0x1176), (0x11A8, 0x11C3)) for code in range(start, end)]

MARKS = (UCharCategory.NON_SPACING_MARK, UCharCategory.ENCLOSING_MARK, UCharCategory.COMBINING_SPACING_MARK)
INVISIBLE = (UCharCategory.FORMAT_CHAR, UCharCategory.CONTROL_CHAR)

# Letters that become plain ones though no collation here compares them equal: in pairs, the letters and what each becomes.
ALIKE = {
    letter: plain
    for letters, plain in [
        ("ⱥ", "a"), ("ƀ", "b"), ("ȼ", "c"), ("ɇ", "e"), ("ǥ", "g"), ("ɪɨ", "i"), ("ɉ", "j"), ("ɵ", "o"),
        ("ᵽ", "p"), ("ɍ", "r"), ("ŧ", "t"), ("þ", "th"), ("ʉ", "u"), ("ɏ", "y"), ("ƶ", "z"),
    ]
    for letter in letters
}
# UCA 4.0, as MySQL and MariaDB have it, compares the older alphabets of Georgian and Bengali currency numerators equal to others.
ALIKE |= {chr(0x2D00 + index): chr(0x10D0 + index) for index in range(38)}
ALIKE |= {chr(0x09F4 + index): str(1 + index) for index in range(4)}
# Versions differ in whether a hamza comes before or behind the letter that it is written on.
ALIKE |= {"\u0621": "", "\u0674": ""}


def is_mark(letter):
    return Char.charType(letter) in MARKS


def is_invisible(letter):
    """Whether nobody sees it, and it is no white space."""
    if Char.hasBinaryProperty(letter, UProperty.WHITE_SPACE):
        return False
    ignorable = Char.hasBinaryProperty(letter, UProperty.DEFAULT_IGNORABLE_CODE_POINT)
    return ignorable or Char.charType(letter) in INVISIBLE


def decomposed(text):
    return str(Normalizer2.getNFKDInstance().normalize(text))


def in_one_case(letter):
    """Upper case first: `ſ`, `ς` and the Kelvin sign have a lower case of their own, and share an upper case."""
    upper = str(UnicodeString(letter).toUpper(Locale.getRoot()))
    return "".join(str(UnicodeString(each).toLower(Locale.getRoot())) for each in upper)


def plain(text):
    folded = ""
    for letter in decomposed(text):
        if is_mark(letter) or is_invisible(letter):
            continue
        if Char.charType(letter) == UCharCategory.DECIMAL_DIGIT_NUMBER:
            folded += str(Char.charDigitValue(letter))
            continue
        folded += "".join(ALIKE.get(each, each) for each in in_one_case(letter))
    return folded if folded == text else plain(folded)


def ducet(version):
    """The primary weights of characters and contractions in a version of DUCET. A pair of implicit weights is one weight."""
    weights = {}
    path = pathlib.Path(pyuca.__file__).parent / f"allkeys-{version}.txt"
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = re.fullmatch(r"([0-9A-F ]+);([^#%]*).*", line)
        if not entry or not KNOWN.issuperset(int(code, 16) for code in entry[1].split()):
            continue
        primaries = [int(weight, 16) for weight in re.findall(r"\[[.*]([0-9A-F]{4})", entry[2])]
        joined = []
        for weight in filter(None, primaries):
            follows = joined and isinstance(joined[-1], int) and joined[-1] >= 0xFB40
            if follows:
                joined[-1] = (joined[-1], weight)
            else:
                joined.append(weight)
        weights["".join(chr(int(code, 16)) for code in entry[1].split())] = tuple(joined)
    return weights


def cldr():
    """The primary weights of each character in the root collation. A second element continues a long weight."""
    collator = Collator.createInstance(Locale.getRoot())
    collator.setStrength(Collator.PRIMARY)
    weights = {}
    for letter in EVERY:
        joined = []
        for element in collator.createCollationElementIterator(letter):
            primary = element >> 16 & 0xFFFF
            if primary and element & 0xFFFF == 0xC0:
                joined[-1] = (joined[-1], primary)
            elif primary:
                joined.append(primary)
        weights[letter] = tuple(joined)
    return weights


def ideograph(weight):
    """The ideograph whose implicit weight this is (UTS #10, section 10.1.3)."""
    if not isinstance(weight, tuple) or not 0xFB40 <= weight[0] <= 0xFBE1 or weight[1] < 0x8000:
        return None
    base = max(base for base in (0xFB40, 0xFB80, 0xFBC0) if base <= weight[0])
    return chr(weight[0] - base << 15 | weight[1] & 0x7FFF)


def equals(weights, has_implicit):
    """For each character and contraction another text that has the same primary weights, made of characters with one weight each."""
    simplest = sorted(weights, key=lambda text: (len(text), any(map(is_mark, text)), decomposed(text) != text, text))
    single = {}
    for text in simplest:
        if len(weights[text]) == 1:
            single.setdefault(weights[text][0], text)
    for text in sorted(weights):
        parts = [has_implicit and ideograph(weight) or single.get(weight) for weight in weights[text]]
        assert None not in parts, codes(text)
        if "".join(parts) != text:
            yield text, "".join(parts)


def pairs():
    """All characters and contractions, each with a text that some collation compares equal."""
    found = set(equals(cldr(), False))
    for version in ("5.2.0", "6.3.0", "8.0.0", "9.0.0", "10.0.0"):
        found.update(equals(ducet(version), True))
    return sorted(found)


class Fold:
    """What each character folds to."""

    # Vowels of Thai, Lao, New Tai Lue and Tai Viet are written in front of the consonant, and have their weight behind it. They go behind all
    # consonants around them.
    LATER = {*range(0xE40, 0xE45), *range(0xEC0, 0xEC5), *range(0x19B5, 0x19B8), 0x19BA, 0xAAB5, 0xAAB6, 0xAAB9, 0xAABB, 0xAABC}
    EARLIER = {*range(0xE01, 0xE2F), *range(0xE81, 0xEAF), 0xEDE, 0xEDF, *range(0x1980, 0x19AC), *range(0xAA80, 0xAAB0)}

    def __init__(self):
        self.letters = {letter: plain(letter) for letter in EVERY}

    def text(self, text):
        """Folds as `fold` does, apart from syllables of Hangul and white space at the ends."""
        folded = later = ""
        for letter in "".join(self.letters[letter] for letter in text):
            if ord(letter) in self.LATER:
                later += letter
            elif ord(letter) in self.EARLIER:
                folded += letter
            # `ŀ` is `l` with a dot that has no weight.
            elif letter != "\u00b7" or later or not folded.endswith("l"):
                folded += later + letter
                later = ""
        return folded + later

    def merge(self, pairs):
        # A mark that is a letter above another one, as in `ͣ`, has the weight of the letter.
        for letter, other in pairs:
            if len(letter) == 1 and is_mark(letter) and not all(map(is_mark, other)):
                self.letters[letter] = max(self.letters[letter], self.text(other), key=len)
        while apart := [pair for pair in pairs if self.text(pair[0]) != self.text(pair[1])]:
            become = {}
            for text, other in apart:
                one, two = sorted(map(self.text, (text, other)), key=self.rank)
                if len(two) == 1 and two not in one and (len(text) > 1 or decomposed(text) == text):
                    become.setdefault(two, one)
                else:
                    assert len(text) == 1, codes(text)
                    self.letters[text] = self.text(other)
            for letter, folded in self.letters.items():
                while become.keys() & set(folded):
                    folded = "".join(become.get(each, each) for each in folded)
                self.letters[letter] = folded

    @staticmethod
    def rank(text):
        """Prefers what stays: nothing and several letters, ASCII, letters, in this order."""
        if len(text) != 1:
            return 0, text
        kind = Char.charType(text)
        is_letter = UCharCategory.UPPERCASE_LETTER <= kind <= UCharCategory.OTHER_LETTER
        return 1 if text.isascii() else 2 if is_letter else 3, text


def codes(text):
    return " ".join(f"{ord(letter):04X}" for letter in text)


def runs(texts):
    """Characters in order, with `-` between the first and the last of a run, then longer texts with `+` between their characters."""
    found = []
    for code in sorted(ord(text) for text in texts if len(text) == 1):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    single = [f"{first:04X}" if first == last else f"{first:04X}-{last:04X}" for first, last in found]
    return " ".join(single + [codes(text).replace(" ", "+") for text in texts if len(text) > 1])


def write(path, title, groups):
    lines = [f"# {title} Written by tests/collation/fold.py."]
    lines += [f"{name}\t{runs(letters)}" for name, letters in sorted(groups.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    equal = pairs()
    fold = Fold()
    fold.merge(equal)
    assert all(fold.text(letter) == letter for letter in JAMO)
    groups = {}
    for letter in EVERY:
        folded = fold.text(letter)
        assert fold.text(folded) == folded, codes(letter)
        # Invisible characters are cut at the ends of any value, marks are not.
        name = codes(folded) or ("invisible" if is_invisible(letter) else "mark")
        if folded != letter:
            groups.setdefault(name, []).append(letter)
    version = f"Unicode {icu.UNICODE_VERSION}."
    write(TABLE, f"What characters fold to: the code points of the text, then the characters. {version}", groups)
    groups = {}
    for text, other in equal:
        groups.setdefault(codes(other) or "nothing", []).append(text)
    write(EQUAL, f"Texts that a collation compares equal: a text, then characters and contractions. {version}", groups)


if __name__ == "__main__":
    main()
