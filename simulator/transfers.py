"""Copies and fills of a run: the simulated time that data takes to and from a device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Transfer:
    """All copies or fills of one kind. `kind`: host_to_device, device_to_host, device_to_device or fill; `ns`: the sum
    of their times, each with the overhead of its command."""

    kind: str
    count: int
    bytes: int
    ns: int
