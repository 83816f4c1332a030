"""States of deployments, replicas and machines, and the transitions allowed between them."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class State(models.TextChoices):
    """Of a deployment, and of each of its replicas."""

    REQUESTED = "requested", _("requested")
    RENTING = "renting", _("renting")
    BOOTING = "booting", _("booting")
    CHECKING = "checking", _("checking")
    INSTALLING = "installing", _("installing")
    DOWNLOADING = "downloading", _("downloading")
    LOADING = "loading", _("loading")
    RUNNING = "running", _("running")
    UNHEALTHY = "unhealthy", _("unhealthy")
    STOPPING = "stopping", _("stopping")
    STOPPED = "stopped", _("stopped")
    FAILED = "failed", _("failed")


STARTING = (
    State.REQUESTED,
    State.RENTING,
    State.BOOTING,
    State.CHECKING,
    State.INSTALLING,
    State.DOWNLOADING,
    State.LOADING,
)
SERVING = (State.RUNNING, State.UNHEALTHY)
ENDED = (State.STOPPED, State.FAILED)
LIVE = (*STARTING, *SERVING, State.STOPPING)


class MachineState(models.TextChoices):
    INTENT = "intent", _("about to be rented")
    UNKNOWN = "unknown", _("answer unclear")
    CREATED = "created", _("rented")
    READY = "ready", _("ready")
    RELEASING = "releasing", _("being released")
    GONE = "gone", _("released")
    LOST = "lost", _("lost")


MACHINE_LIVE = (
    MachineState.INTENT,
    MachineState.UNKNOWN,
    MachineState.CREATED,
    MachineState.READY,
    MachineState.RELEASING,
)

TRANSITIONS: dict[State, frozenset[State]] = {
    State.REQUESTED: frozenset({State.RENTING, State.STOPPING, State.FAILED}),
    State.RENTING: frozenset({State.BOOTING, State.STOPPING, State.FAILED}),
    State.BOOTING: frozenset({State.CHECKING, State.RENTING, State.STOPPING, State.FAILED}),
    State.CHECKING: frozenset({State.INSTALLING, State.RENTING, State.STOPPING, State.FAILED}),
    State.INSTALLING: frozenset({State.DOWNLOADING, State.STOPPING, State.FAILED}),
    State.DOWNLOADING: frozenset({State.LOADING, State.STOPPING, State.FAILED}),
    State.LOADING: frozenset({State.RUNNING, State.STOPPING, State.FAILED}),
    State.RUNNING: frozenset({State.UNHEALTHY, State.LOADING, State.STOPPING, State.FAILED}),
    State.UNHEALTHY: frozenset({State.RUNNING, State.LOADING, State.STOPPING, State.FAILED}),
    State.STOPPING: frozenset({State.STOPPED}),
    State.STOPPED: frozenset(),
    State.FAILED: frozenset(),
}
"""Where a replica may go from each state. Back to renting: the machine was not as ordered, the next offer is tried."""


def may_become(old: str, new: str) -> bool:
    """Whether the step is one of TRANSITIONS; staying is none."""
    return State(new) in TRANSITIONS[State(old)]
