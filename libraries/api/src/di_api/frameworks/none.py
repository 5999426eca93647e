"""A group without a framework: its programs read its members from the file or from di-server."""

from typing import Final

from di_api.frameworks.declaration import Declaration

NONE: Final = Declaration(variables=lambda _: {})
