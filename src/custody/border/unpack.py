"""temporary"""

from pathlib import Path
from custody.border.folder import Folder


def unpack(source: Path, target: Folder) -> None:
    raise NotImplementedError
