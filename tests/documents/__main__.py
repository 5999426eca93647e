"""Write what is generated of the documents: `python -m tests.documents`."""

from __future__ import annotations

from tests.documents import metrics

metrics.FILE.write_text(metrics.document())
