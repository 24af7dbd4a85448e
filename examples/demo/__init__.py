"""`python -m examples.demo`: a writer is killed in the middle of its work, and nothing it was told is lost.

One file a chapter; `chapters.py` lists them.
"""
