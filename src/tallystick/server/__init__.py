"""The service: an open store over HTTP, with an API, a console, and what an operator needs.

`http` speaks HTTP, `api` and `console` have one file per noun, and `app` puts them together. The other modules are the
core: what handlers use, whatever they answer.
"""
