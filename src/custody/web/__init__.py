"""The API and the dashboard: one process, no build step, every asset local.

`custody.web.app.build_app(store, options)` makes the application, `custody.web.server.Server` runs it.
"""
