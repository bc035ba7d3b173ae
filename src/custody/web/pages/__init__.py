"""The dashboard, one file per noun; `routers` names them all."""
