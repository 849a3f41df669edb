"""Writes addresses.tsv: spellings of mail addresses, each with the mailboxes that real libraries read in it.

The libraries are Python's `email` package, in its old and its new interface, and the PyPI package `email-validator`:

    pip install email-validator && python tests/mail/addresses.py
"""

import itertools
import json
import pathlib
import random
import unicodedata
from email.headerregistry import HeaderRegistry
from email.utils import getaddresses, parseaddr

import idna
from email_validator import EmailNotValidError, validate_email

PATH = pathlib.Path(__file__).with_name("addresses.tsv")

LOCALS = ["victim", "vic.tim", "v'ictim", "víctim"]
DOMAINS = ["x.test", "bücher.test", "straße.test", "xn--bcher-kva.test", "gmail.com"]

WIDE = {chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)}

# What is done to a local part, to a domain and to the whole. Each keeps the mailbox for some reader.
OF_LOCALS = [
    str,
    str.upper,
    str.title,
    lambda local: f'"{local}"',
    lambda local: '"' + "".join("\\" + letter for letter in local) + '"',
    lambda local: f"{local}(comment)",
    lambda local: f"(comment){local}",
    lambda local: f" {local} ",
    lambda local: f"=?utf-8?q?{local}?=",
    lambda local: local[:1] + "\u00ad" + local[1:],
    lambda local: local[:1] + "\u200b" + local[1:],
    lambda local: "".join(WIDE.get(letter, letter) for letter in local),
    lambda local: unicodedata.normalize("NFD", local),
    lambda local: local.replace(".", " . "),
    lambda local: f"{local}+tag",
    lambda local: f"@relay.test:{local}",
    lambda local: f"{local}\0",
]
OF_DOMAINS = [
    str,
    str.upper,
    str.title,
    lambda domain: f"{domain}.",
    lambda domain: f" {domain}",
    lambda domain: f"{domain}(comment)",
    lambda domain: domain.replace(".", "\u3002"),
    lambda domain: domain.replace(".", "\uff0e"),
    lambda domain: "".join(WIDE.get(letter, letter) for letter in domain),
    lambda domain: unicodedata.normalize("NFD", domain),
    lambda domain: domain[:1] + "\u00ad" + domain[1:],
    lambda domain: domain[:1] + "\u200d" + domain[1:],
    lambda domain: idna.encode(domain, uts46=True).decode(),
    lambda domain: domain.replace(".", " . "),
]
OF_ADDRESSES = [
    str,
    lambda address: f"<{address}>",
    lambda address: f"Ann <{address}>",
    lambda address: f"x1<{address}>",
    lambda address: f"{address},y@z.test",
    lambda address: f"{address};",
    lambda address: f"\ufeff{address}\u00a0",
    lambda address: f"\t{address}\r\n",
]


def mailbox(address):
    """One text for each mailbox: without regard to case, with the domain as A-labels."""
    local, _, domain = address.rpartition("@")
    try:
        domain = idna.encode(domain, uts46=True).decode()
    except idna.IDNAError:
        pass
    return f"{unicodedata.normalize('NFC', local).lower()}@{domain.lower()}"


def readings(text):
    yield parseaddr(text)[1]
    yield from (address for _, address in getaddresses([text]))
    try:
        yield from (address.addr_spec for address in HeaderRegistry()("to", text).addresses)
    except (ValueError, IndexError, AttributeError):
        pass
    for quoted, named in itertools.product((False, True), repeat=2):
        try:
            options = {"allow_quoted_local": quoted, "allow_display_name": named, "test_environment": True}
            yield validate_email(text, check_deliverability=False, **options).normalized
        except EmailNotValidError:
            pass


def spellings():
    plain = [f"{local}@{domain}" for local in LOCALS for domain in DOMAINS]
    yield from plain
    chosen = random.Random(1)
    for local, domain in itertools.product(LOCALS, DOMAINS):
        for of_local in OF_LOCALS:
            yield f"{of_local(local)}@{domain}"
        for of_domain in OF_DOMAINS:
            yield f"{local}@{of_domain(domain)}"
        for of_address in OF_ADDRESSES:
            yield of_address(f"{local}@{domain}")
        for _ in range(8):
            address = f"{chosen.choice(OF_LOCALS)(local)}@{chosen.choice(OF_DOMAINS)(domain)}"
            yield chosen.choice(OF_ADDRESSES)(address)


def main():
    lines = ["# A spelling, then the mailboxes that libraries read in it, as JSON. Written by tests/mail/addresses.py."]
    for text in dict.fromkeys(spellings()):
        found = dict.fromkeys(mailbox(address) for address in readings(text) if "@" in address)
        if found:
            lines.append("\t".join(map(json.dumps, [text, *found])))
    PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
