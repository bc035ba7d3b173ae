"""The storage nodes of an installation, by name; and what happens while one of them is away.

A job that is about to be stored is in the lane of its node. When a node that is reached over HTTP does not answer,
its lane is paused: its jobs wait, without using up their tries, and `why` says what they wait for. A chore asks the
node every now and then and lifts the pause, if it is ours; a pause that a person made is theirs to lift.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from custody.errors import BadInput, CustodyError, Unavailable
from custody.ingest.profile import Profile, kept_apart
from custody.ingest.storage.http_node import HttpNode, Window
from custody.ingest.storage.ocfl.durable import Durable
from custody.ingest.storage.ocfl.open_root import open_root
from custody.ingest.storage.ocfl.root import OcflRoot
from custody.kernel.stores import Store

OURS = "custody itself"
"""Who pauses a lane without being asked; no user is called that, and what people paused is theirs to lift."""


def lane_of(node: str) -> str:
    return f"node/{node}"


def open_nodes(
    roots: Mapping[str, Path], profiles: Mapping[str, Profile], home: Path, window: Window, shared: Collection[str] = ()
) -> dict[str, OcflRoot | HttpNode]:
    """OCFL roots as configured, and the services that profiles name. What crashes left in a root is put right."""
    nodes: dict[str, OcflRoot | HttpNode] = {}
    for name, path in roots.items():
        root = open_root((home / path).resolve(), disk=Durable(shared=name in shared))
        root.tidy()
        nodes[name] = root
    for profile in profiles.values():
        if profile.storage.service:
            _add_service(nodes, profile, home, window)
    return nodes


def _add_service(nodes: dict[str, OcflRoot | HttpNode], profile: Profile, home: Path, window: Window) -> None:
    storage = profile.storage
    known = nodes.get(storage.node)
    if isinstance(known, OcflRoot) or (known and known.service != storage.service.rstrip("/")):
        raise BadInput(
            f"storage node {storage.node!r} is two things: {storage.service} for {profile.name}, and another elsewhere",
            code="storage.node",
            where=f"profile {profile.name}",
            hint="give each node a name of its own",
        )
    if not window.url:
        raise BadInput(
            f"{storage.service} fetches what it stores from our working folder, and nobody has said how",
            code="storage.files",
            where=f"profile {profile.name}",
            hint="serve the folder `work` by HTTP to the service, and say where: [ingest] files = …",
        )
    key = f"{profile.name}: storage.token_file"
    token = kept_apart(key, home / storage.token_file).strip() if storage.token_file else ""
    nodes[storage.node] = known or HttpNode(storage.service, storage.node, window, token=token)


def pause(store: Store, node: str, trouble: Unavailable) -> None:
    """Nothing more is claimed for this node until it answers."""
    store.queue.hold("lane", lane_of(node), OURS, trouble.message)


def look_after(store: Store, nodes: Mapping[str, object]) -> int:
    """Lift the pauses of nodes that answer again; says how many."""
    lifted = 0
    for hold in store.queue.holds():
        node = nodes.get(hold.name.removeprefix("node/"))
        if hold.scope != "lane" or hold.who != OURS or not isinstance(node, HttpNode):
            continue
        try:
            node.check()
        except CustodyError:
            continue
        lifted += store.queue.lift("lane", hold.name, OURS, "it answers again")
    return lifted
