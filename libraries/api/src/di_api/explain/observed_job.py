"""A job with the observations about it: the one object that the steps of an explanation read."""

from __future__ import annotations

from functools import cached_property

from di_api.explain.history import (
    event_observations,
    kills_in_place,
    past_observations,
    probe_observations,
)
from di_api.explain.job import Job
from di_api.explain.observations import Observation, present_observations


class ObservedJob(Job):
    """A job with the observations of its pods, nodes, Events and logs, each read on first use."""

    @cached_property
    def present(self) -> tuple[Observation, ...]:
        """Return the observations of its phase, its unhealthy pods, their nodes and logs."""
        return present_observations(self)

    @cached_property
    def probes(self) -> tuple[Observation, ...]:
        """Return the failed probes for which the kubelet killed a container of an unhealthy pod."""
        return probe_observations(self)

    @cached_property
    def events(self) -> tuple[Observation, ...]:
        """Return the Events of its unhealthy pods, and of its phase, the newest first."""
        return event_observations(self)

    @cached_property
    def past(self) -> tuple[Observation, ...]:
        """Return why its pods were last replaced."""
        return past_observations(self)

    @cached_property
    def kills_in_place(self) -> tuple[Observation, ...]:
        """Return the failed probes for which a container of a pod that is ready was restarted."""
        return kills_in_place(self)
