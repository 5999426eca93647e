"""SQL expression for the bytes of a text or binary value, in either database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Integer
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class ByteLength(FunctionElement[int]):
    """Bytes of a column. `length` would count the characters of a text, which have up to four
    bytes.
    """

    type = Integer()
    inherit_cache = True


@compiles(ByteLength, "sqlite")
def _of_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    # octet_length exists since SQLite 3.43.
    return f"length(CAST({compiler.process(element.clauses, **options)} AS BLOB))"


@compiles(ByteLength, "postgresql")
def _of_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    return f"octet_length({compiler.process(element.clauses, **options)})"
