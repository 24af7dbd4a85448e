"""`python -m examples.demo`: a writer is killed in the middle of its work, and nothing acknowledged is lost.

One file per chapter; `__main__.py` lists them in the order they are played.
"""
