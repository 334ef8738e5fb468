"""Tables in files: what comes in with holes, and what goes out complete, in the same family."""

from depthrank.files.atomic import atomic
from depthrank.files.reading import read
from depthrank.files.writing import write

__all__ = ["atomic", "read", "write"]
