"""The API and the dashboard: one process, no build step, every asset local."""

from custody.web.app import Options, build_app

__all__ = ["Options", "build_app"]
