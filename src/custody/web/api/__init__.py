"""The HTTP API, one file per noun; `routers` names them all."""
