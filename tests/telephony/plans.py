"""Writes plans.tsv, the numbering plans that `e164` reads, and numbers.tsv, the numbers that it is tested with.

Both come from the metadata of Google's libphonenumber (Apache-2.0), which the PyPI package `phonenumbers` carries:

    pip install phonenumbers && python tests/telephony/plans.py
"""

import pathlib

import phonenumbers as p
from phonenumbers import PhoneMetadata, PhoneNumberFormat, PhoneNumberType

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Mexico dialled 1 before mobile numbers until 2019, and the old spelling still reaches the same telephone.
PREFIXES = {"MX": "0(?:[12]|4[45])|1"}


def plan(name, metadata):
    lengths = [n for n in metadata.general_desc.possible_length if n > 0]
    prefix = PREFIXES.get(name, metadata.national_prefix_for_parsing) or ""
    rule = (metadata.national_prefix_transform_rule or "").replace("\\", "$")
    main = "main" if metadata.main_country_for_code or len(regions(metadata)) == 1 else ""
    return [
        name,
        str(metadata.country_code),
        main,
        f"{min(lengths)}-{max(lengths)}",
        metadata.international_prefix or "",
        prefix,
        rule,
        metadata.general_desc.national_number_pattern,
    ]


def regions(metadata):
    return p.COUNTRY_CODE_TO_REGION_CODE.get(metadata.country_code, ())


def plans():
    for region in sorted(p.SUPPORTED_REGIONS):
        yield plan(region, PhoneMetadata.metadata_for_region(region))
    for code in sorted(p.COUNTRY_CODES_FOR_NON_GEO_REGIONS):
        yield plan("001", PhoneMetadata.metadata_for_nongeo_region(code))


def numbers():
    names = {value: name for name, value in vars(PhoneNumberType).items() if isinstance(value, int)}
    written = (PhoneNumberFormat.NATIONAL, PhoneNumberFormat.INTERNATIONAL, PhoneNumberFormat.E164)
    for region in sorted(p.SUPPORTED_REGIONS):
        for kind in sorted(names):
            number = p.example_number_for_type(region, kind)
            if number is None:
                continue
            e164 = p.format_number(number, PhoneNumberFormat.E164)
            for text in dict.fromkeys(p.format_number(number, form) for form in written):
                # A few national forms are those of another region: the library does not read them back itself.
                if p.format_number(p.parse(text, region), PhoneNumberFormat.E164) == e164:
                    yield [region, names[kind].lower(), text, e164]
    for code in sorted(p.COUNTRY_CODES_FOR_NON_GEO_REGIONS):
        number = p.example_number_for_non_geo_entity(code)
        e164 = p.format_number(number, PhoneNumberFormat.E164)
        yield ["001", "non_geographic", e164, e164]


def write(path, comment, rows):
    lines = [f"# {comment}", f"# Of libphonenumber {p.__version__} (Apache-2.0), written by tests/telephony/plans.py."]
    lines += ["\t".join(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


columns = "region, country code, main region of the code, least and most digits, international prefix, national prefix, its rule, numbers"
write(ROOT / "crates/base/src/telephony/plans.tsv", columns, plans())
write(ROOT / "tests/telephony/numbers.tsv", "region, kind, as written, as counted", numbers())
