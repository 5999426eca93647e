"""A fault as data: in which workload, at which moment, what goes wrong.

A moment is named by what the operator does, not by time: "its second patch of dijobs/status of
a", "the first MODIFIED of pod a-work-0 that it is sent". So a plan hits the same window of less
than a millisecond in every run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from typing_extensions import override

ANY = "*"
"""Matches every verb, resource or name."""

EACH, NEXT = 0, -1
"""For ``nth``: all that match; the first that matches from now on."""

WRITES = frozenset({"create", "patch", "update", "delete"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of the component: the ``nth`` of its kind, from 1, or `EACH`, or `NEXT`.

    ``what`` is the plural, with the subresource (``dijobs/status``). ``name`` is that of the
    object, empty for a collection; Events have their reason for a name, because their own
    contains a UID.
    """

    verb: str
    what: str
    name: str
    nth: int = 1

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES

    @override
    def __str__(self) -> str:
        return f"{self.verb}-{self.what}" + (f"-{self.name}" if self.name else "") + f"#{self.nth}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An event of a watch that the component is about to be sent; ``nth`` as for a request."""

    what: str
    kind: str
    name: str
    nth: int = 1

    @override
    def __str__(self) -> str:
        return f"{self.kind}-{self.what}-{self.name}#{self.nth}"


Moment: TypeAlias = Request | Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """The world a killed component finds when it is back: collections as they were.

    ``what`` are the plurals shown as they were ``back`` changes ago, for ``seconds``; then the
    changes arrive. Other collections are shown as they are.
    """

    what: tuple[str, ...]
    back: int
    seconds: float = 1.0

    @override
    def __str__(self) -> str:
        return f"rewind-{'+'.join(self.what)}-{self.back}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """SIGKILL right after the API server has carried out the request; then a restart.

    Whether the component gets the answer first is ``answered``; nothing else it sends after that
    comes through. ``back`` is the identity's return: False leaves it dead.
    """

    answered: bool
    rewind: Rewind | None = None
    back: bool = True

    @override
    def __str__(self) -> str:
        text = "kill-answered" if self.answered else "kill-unanswered"
        return f"{text}-{self.rewind}" if self.rewind else text


@dataclass(frozen=True, slots=True)
class Refuse:
    """An error status instead of the request; ``retry_after`` in seconds."""

    code: int
    retry_after: int | None = None

    @override
    def __str__(self) -> str:
        return str(self.code)


@dataclass(frozen=True, slots=True)
class Lose:
    """The connection breaks: before the API server has the request, or before its answer."""

    carried_out: bool

    @override
    def __str__(self) -> str:
        return "answer-lost" if self.carried_out else "request-lost"


@dataclass(frozen=True, slots=True)
class Truncate:
    """Half of the answer's body, as if that were all."""

    @override
    def __str__(self) -> str:
        return "truncated"


@dataclass(frozen=True, slots=True)
class Slow:
    """The answer comes ``seconds`` late."""

    seconds: float

    @override
    def __str__(self) -> str:
        return f"slow-{self.seconds:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """SIGTERM to the component, which does not come back.

    It arrives before the request goes on to the API server, or after the component has its answer
    (``answered``).
    """

    answered: bool

    @override
    def __str__(self) -> str:
        return f"stop-{'answered' if self.answered else 'asking'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """SIGSTOP to the component, and SIGCONT after ``seconds``; ``answered`` as for `Stop`.

    What the component has asked for before is carried out, and answered, while it is frozen.
    """

    answered: bool
    seconds: float

    @override
    def __str__(self) -> str:
        return f"freeze-{'answered' if self.answered else 'asking'}-{self.seconds:g}"


@dataclass(frozen=True, slots=True)
class Drop:
    """This event never arrives; later ones do."""

    @override
    def __str__(self) -> str:
        return "drop"


@dataclass(frozen=True, slots=True)
class Repeat:
    """This event arrives twice."""

    @override
    def __str__(self) -> str:
        return "repeat"


@dataclass(frozen=True, slots=True)
class Hold:
    """This event and all later ones arrive ``seconds`` late; of its object only, or of the stream.

    Held for its object alone, an event comes after newer ones of others: an order that a real
    API server does not produce, and that a cache must survive.
    """

    seconds: float
    whole: bool = True

    @override
    def __str__(self) -> str:
        return f"hold-{'stream' if self.whole else 'object'}-{self.seconds:g}"


@dataclass(frozen=True, slots=True)
class Cut:
    """The stream breaks before this event, in the middle of a line if ``torn``."""

    torn: bool = False

    @override
    def __str__(self) -> str:
        return "torn" if self.torn else "cut"


@dataclass(frozen=True, slots=True)
class Expire:
    """The stream says 410 Gone instead of this event, and ends."""

    @override
    def __str__(self) -> str:
        return "gone"


@dataclass(frozen=True, slots=True)
class Empty:
    """The stream ends here, and so do the next ``streams`` of it, with 200 and no byte."""

    streams: int = 3

    @override
    def __str__(self) -> str:
        return f"empty-{self.streams}"


RequestAction: TypeAlias = Kill | Refuse | Lose | Truncate | Slow | Stop | Freeze
StreamAction: TypeAlias = Drop | Repeat | Hold | Cut | Expire | Empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Once ``at`` happens, ``do`` it; for ``seconds`` after that, do it to all that match.

    ``during`` says what matches then; the moment's own kind if not given.
    """

    at: Moment
    do: RequestAction | StreamAction
    seconds: float = 0.0
    during: Request | None = None

    @override
    def __str__(self) -> str:
        return f"{self.at}-{self.do}" + (f"-for-{self.seconds:g}" if self.seconds else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run of a workload with its faults; without any it is a clean run.

    ``rule`` says which rule made it. ``ends`` is the reason of the failure in which the job must
    end, where that is what the fault means (422 on a create: the template was refused).
    ``tolerates`` are reasons of Warnings that the fault may leave, each once.
    """

    workload: str
    rule: str = "clean"
    faults: tuple[Fault, ...] = ()
    ends: str | None = None
    tolerates: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_interrupted(self) -> bool:
        """Whether a fault takes the lease from the first replica: a second one has to stand by."""
        return any(isinstance(fault.do, Stop | Freeze) for fault in self.faults)

    @property
    def is_frozen(self) -> bool:
        """Whether most of the run's time is that of a freeze."""
        return any(isinstance(fault.do, Freeze) for fault in self.faults)

    @property
    def id(self) -> str:
        parts = [self.workload, self.rule, *(str(fault) for fault in self.faults)]
        return "/".join(parts).replace(" ", "")

    @override
    def __str__(self) -> str:
        return self.id
