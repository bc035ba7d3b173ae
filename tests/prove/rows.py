"""What is claimed, and the figures that have to be reached before the claim may be believed.

A test that carries `@pytest.mark.proves("G4")` belongs to that row: it must pass, and what it tells (`tell("…",
kills=6)`) is added up. `make test` runs every such test at a small scale, `make prove` at the row's own, and
`make prove-long` for as long as it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Scale = Literal["test", "quick", "long"]
CASES = "cases"
"""Each passed test of the row is a case; the plugin counts them itself."""


@dataclass(frozen=True, slots=True)
class Target:
    """A figure to be reached by the sum of what was told, or a limit for the worst of it."""

    quick: float
    long: float
    at_most: bool = False

    def wanted(self, scale: Scale) -> float:
        return self.long if scale == "long" else self.quick

    def met(self, figure: float | None, scale: Scale) -> bool:
        if figure is None:
            return False
        return figure <= self.wanted(scale) if self.at_most else figure >= self.wanted(scale)


@dataclass(frozen=True, slots=True)
class Row:
    claim: str
    targets: Mapping[str, Target] = field(default_factory=dict)
    short: str = ""
    """Why it stands where it stands, if it does not reach its figure."""

    def figures(self, scale: Scale) -> str:
        """What is wanted, for a reader."""
        signs = {True: "≤", False: "≥"}
        return ", ".join(
            f"{what} {signs[each.at_most]} {each.wanted(scale):,.7g}" for what, each in self.targets.items()
        )


def least(quick: float, long: float | None = None) -> Target:
    return Target(quick, quick if long is None else long)


def most(quick: float, long: float | None = None) -> Target:
    return Target(quick, quick if long is None else long, at_most=True)


ROWS: dict[str, Row] = {
    "G1": Row(
        "Simulated worlds in which everything goes wrong, invariants checked after every step",
        {
            "seeds": least(5_000, 1_000_000),
            "crashes": least(100_000, 20_000_000),
            "virtual hours": least(20_000, 3_500_000),
        },
    ),
    "G2": Row(
        "A crash at every point of every story, and a second one during recovery",
        {"stories": least(25), "crashes": least(1_600), "double crashes": least(10_000, 100_000)},
    ),
    "G3": Row("Planted bugs are found", {CASES: least(24), "seconds to find": most(30)}),
    "G4": Row(
        "Workers and databases killed while they work: nothing lost, settled twice or stuck",
        {
            "kills": least(1_000, 100_000),
            "database crashes": least(50, 5_000),
            "zookeeper restarts": least(20, 2_000),
            "jobs": least(20_000, 2_000_000),
        },
    ),
    "G5": Row(
        "Whoever wakes after his lease is refused, and it is written down",
        {"resumes": least(600, 20_000)},
    ),
    "G6": Row("Work of the dead is in other hands two seconds after the lease", {"seconds late": most(2.0)}),
    "G7": Row("The power may go at any moment", {"images": least(50_000, 1_000_000)}),
    "G8": Row(
        "Connections cut, delayed, deaf in one direction, reset after the commit",
        {"fault windows": least(300, 30_000), "sorts": least(8)},
    ),
    "G9": Row(
        "Clocks that jump or stand still, and ten years of cron in four zones",
        {"jumps": least(500, 50_000), "far jumps": least(500, 50_000), "years of cron": least(40, 400)},
    ),
    "G10": Row(
        "The disk is full at any write: of the store, of a deposit, of the log",
        {"full disks": least(600, 6_000), "deposits": least(40), "logs": least(5)},
    ),
    "G11": Row("A worker that is asked to leave charges nobody", {"stops": least(200, 5_000)}),
    "G12": Row(
        "A job that kills its workers is put aside, and the others go on",
        {"deaths": most(3), "slower": most(0.10)},
    ),
    "G13": Row(
        "Without wake-ups everything is done all the same, after the next look",
        {"jobs": least(1_000, 100_000), "polls waited": most(1.1)},
    ),
    "G14": Row("Every store does what the model does", {"examples": least(2_000, 100_000)}),
    "G15": Row(
        "A migration may be killed at any point, and begin from any schema there was",
        {"kills": least(140), "schemas": least(14)},
    ),
    "G16": Row(
        "A million jobs beside a transaction that stays open",
        {"jobs": least(1_000_000), "slower": most(3.0), "size": most(5.0)},
    ),
    "G17": Row(
        "No folder of ZooKeeper grows beyond what can be listed", {"children": most(40_000), "listed": least(40_000)}
    ),
    "G18": Row(
        "Many wait for one: when it is done, a few statements tell them all, and one notice the other processes",
        {"waiters": least(200, 2_000), "calls": most(5), "notices": most(2)},
    ),
    "G19": Row("A channel is mirrored whole, whatever crashes", {CASES: least(40)}),
    "G20": Row("Revisions run in their order, however they are told", {"permutations": least(1_000, 100_000)}),
    "G21": Row(
        "Nothing grows while it runs",
        {"jobs": least(200_000, 10_000_000), "memory grown": most(0.01), "files left": most(0)},
    ),
    "G22": Row(
        "A line of robots gives each item exactly one event of each",
        {CASES: least(2), "items": least(20_000, 60_000), "troubles": least(6)},
    ),
    "H1": Row("Bad input gets the expected answer", {CASES: least(400)}),
    "H2": Row("Parsers raise typed errors only", {"inputs": least(1_000_000, 100_000_000)}),
    "H3": Row("Forbidden addresses are never called", {CASES: least(120)}),
    "H4": Row("Hostile containers stay inside", {CASES: least(60)}),
    "H5": Row("Abuse leaves nothing behind", {CASES: least(40)}),
    "H6": Row("Secrets are not told", {CASES: least(12)}),
    "H7": Row("Every route, every role", {CASES: least(150)}),
    "H8": Row("A request that comes twice is done once", {"duplicates": least(1_000, 100_000)}),
    "H9": Row("Callbacks are signed, and forgeries refused", {CASES: least(5)}),
    "H10": Row("Tampering with the history is found", {"attacks": least(40), "places": least(8_000, 400_000)}),
    "H11": Row("A restored backup verifies, an old one is called a rollback", {CASES: least(2)}),
    "H12": Row(
        "What is installed is what was locked and listed, and the doctor names what is unsafe", {CASES: least(15)}
    ),
    "H13": Row(
        "One caller cannot slow down the others",
        {CASES: least(9), "slower": most(2.0), "memory grown": most(0.25)},
        "one process answers everybody: a question waits for the answers to four others at most, which take two milliseconds each",
    ),
    "P1": Row(
        "Behind a pooler that gives every transaction another session, servers crash and nothing acknowledged is lost,"
        " nor any stranger hurt",
        {
            "crashes": least(20, 500),
            "acknowledged": least(1_000, 25_000),
            "lost": most(0),
            "strangers hurt": most(0),
            "lost by the old way": least(1),
        },
    ),
    "P2": Row(
        "A store opened before a fork answers every child for itself",
        {"forks": least(40, 2_000), "answers": least(1_600, 80_000), "wrong answers": most(0), "hung": most(0)},
    ),
    "P11": Row(
        "Only what a standby has is acknowledged, however the wait for it ends",
        {"tries": least(50, 2_500), "acknowledged too early": most(0), "by the old way": least(1)},
    ),
    "P3": Row(
        "A hostile chat service: what was kept never shrinks but by a confirmed, permitted deletion",
        {"seeds": least(9_000, 80_000), "sorts": least(60), "former": least(200, 2_000), "rules": least(14)},
    ),
    "P4": Row(
        "What is wished from outside becomes what the rules say: every role, kind, collection and way in",
        {"cells": least(8_000), "differences": most(0), "told": most(0), "mutants": least(10), "missed": most(0)},
    ),
    "P5": Row(
        "Hostile owners of repositories, hostile robots and tasks get nothing: no code, no bytes, no connection",
        {"tries": least(30), "got through": most(0)},
    ),
    "P6": Row(
        "The history that other systems kept arrives whole or is told by name, and goes on to the next as it came",
        {
            "events": least(200),
            "systems": least(4),
            "round trips": least(8),
            "told by name": least(9),
            "lost": most(0),
            "doubled": most(0),
        },
    ),
}
