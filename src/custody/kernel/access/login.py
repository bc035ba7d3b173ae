"""The [login] part of custody.toml: where people log in besides with tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LoginConfig:
    """The [login] part of custody.toml. Paths are relative to the file."""

    issuer: str = ""  # such as https://login.example.org/realms/archive; empty: tokens only
    client: str = "custody"
    secret_file: Path = Path("oidc.secret")  # what the issuer gave us to prove that we are that client
    address: str = "http://127.0.0.1:7337"  # of this dashboard, as browsers reach it
    name: str = "preferred_username"  # the claim that names somebody
    claim: str = "groups"  # the claim with their groups
    roles: Mapping[str, str | Sequence[str]] = field(default_factory=dict)  # of each group: "reader", ["operator@maps"]
