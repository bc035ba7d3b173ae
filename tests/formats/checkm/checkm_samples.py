"""Manifests for the tests, made from parts so that each test shows only what is odd about its own."""

from __future__ import annotations

import io

from custody.formats.checkm import form

SHOP = "https://archive.example/samples"
MD5 = "0b21c6d48e815dd537d42dc1cfac0111"
SHA256 = "8eb32b67483526906ff99036d9028aa5b6ab5e59e83ca439e63cc041284b6cc2"
JPG = f"{SHOP}/blocks.jpg | md5 | {MD5} |  |  | blocks.jpg"
TXT = f"{SHOP}/blocks.txt | sha-256 | {SHA256} |  |  | blocks.txt"


def manifest(
    *rows: str,
    kind: form.ManifestType = form.OBJECT,
    declaration: str = "#%checkm_0.7\n",
    profile: str | None = None,
    prefixes: str | None = None,
    fields: str | None = None,
    end: str = "#%eof\n",
) -> io.BytesIO:
    if profile is None:
        profile = f"#%profile | {kind.url}\n"
    if prefixes is None:
        prefixes = "".join(f"#%prefix | {name}: | {url}\n" for name, url in form.PREFIXES.items())
    if fields is None:
        fields = f"#%fields | {' | '.join(kind.columns)}\n"
    body = "".join(f"{row}\n" for row in rows)
    return io.BytesIO(f"{declaration}{profile}{prefixes}{fields}{body}{end}".encode())
