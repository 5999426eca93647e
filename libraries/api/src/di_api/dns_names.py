"""DNS labels of RFC 1123 and names of ports, as Kubernetes bounds them."""

from __future__ import annotations

import re
from typing import Final

MAX_LABEL: Final = 63
"""Longest DNS label (RFC 1123) and label value: pod, host, Service and task names."""
DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
"""Pattern of DNS labels, without the length limit; the CRD has it too."""
PORT_NAME: Final = "([a-z0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*"
"""Pattern of IANA service names (RFC 6335), which are the names of a container's ports, without the
length limit; the CRD has it too."""
LONGEST_PORT_NAME: Final = 15


def job_name_of(program: str) -> str:
    """Return the name of the job for a program or a folder, given its name without suffix."""
    name = re.sub(r"[^a-z0-9]+", "-", program.lower()).strip("-")[:20].strip("-")
    return name or "job"


def is_dns_label(text: object) -> bool:
    """Return whether `text` is a DNS label of RFC 1123, as pod and host names must be."""
    # The length is checked first, so the expression never sees a long text.
    return isinstance(text, str) and len(text) <= MAX_LABEL and bool(re.fullmatch(DNS_LABEL, text))


def is_port_name(text: object) -> bool:
    """Return whether `text` is a valid name of a container's port."""
    if not isinstance(text, str) or len(text) > LONGEST_PORT_NAME:
        return False
    return bool(re.fullmatch(PORT_NAME, text))
