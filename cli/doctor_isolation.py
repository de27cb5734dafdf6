"""The isolation section of `synth doctor`: a probe runs in a sandbox, as untrusted programs do, and reports its
limits."""

from __future__ import annotations

import os
from dataclasses import dataclass

from hipsynth.core.errors import HipsynthError
from hipsynth.toolchain import sandbox
from hipsynth.toolchain.sandbox import bubblewrap, cgroup, monitor

# Only what the shell does itself: the probe may not start a process.
_PROBE = """while read -r key value rest; do case $key in Uid:|CapEff:|Seccomp:) echo "$key $value";; esac
done < /proc/self/status
while read -r name rest; do case $name in *:) echo "Net: ${name%:}";; esac; done < /proc/net/dev
for path in /etc/passwd /etc/hostname /var/log /sys/kernel; do test -e $path && echo "Files: $path"; done; true"""


@dataclass(frozen=True)
class IsolationFact:
    """One line: what is enforced here, or `problem`: why it is not."""

    name: str
    value: str
    problem: str = ""


def isolation_facts() -> list[IsolationFact]:
    """The limits that the sandbox of this machine enforces. Every line has a problem if there is no sandbox."""
    names = ("user of programs", "network", "visible files", "system calls")
    why = bubblewrap.why_unavailable() or ("switched off by HIPSYNTH_SANDBOX" if bubblewrap.switched_off() else "")
    if why:
        return [*(IsolationFact(name, "", why) for name in names), *_limit_facts(why)]
    try:
        isolation = _probe_sandbox()
    except HipsynthError as error:
        return [*(IsolationFact(name, "", str(error).splitlines()[0]) for name in names), *_limit_facts("")]
    return [
        _make_fact(
            names[0],
            _user_text(isolation),
            "" if isolation.get("CapEff:", "").strip("0") == "" else "it has capabilities",
        ),
        _make_fact(names[1], "none", "" if isolation.get("Net:") == "lo" else f"it sees {isolation.get('Net:')}"),
        _make_fact(names[2], "its own folder, the compiler's and /usr", isolation.get("Files:", "")),
        _make_fact(
            names[3], "filtered (seccomp)", "" if isolation.get("Seccomp:") == "2" else "no filter on this processor"
        ),
        *_limit_facts(""),
    ]


def _make_fact(name: str, value: str, problem: str) -> IsolationFact:
    return IsolationFact(name, "" if problem else value, problem)


def _probe_sandbox() -> dict[str, str]:
    with sandbox.job_folder() as folder:
        sandboxed = sandbox.run_sandboxed(
            ["/bin/sh", "-c", _PROBE], folder, sandbox.SandboxLimits(**sandbox.time_limits(10))
        )
    facts: dict[str, str] = {}
    for line in sandboxed.stdout.splitlines():
        key, _, value = line.partition(" ")
        facts[key] = f"{facts[key]} {value}" if key in facts else value
    return facts


def _user_text(facts: dict[str, str]) -> str:
    """Inside a user namespace, the number is another than outside, where it is that of this user."""
    number = facts.get("Uid:", "?") if os.geteuid() == 0 else f"{os.geteuid()} (yours)"
    return f"{number}, without capabilities"


def _limit_facts(problem: str) -> list[IsolationFact]:
    names = ("memory limit", "process limit")
    try:
        group = cgroup.delegated_folder()
    except HipsynthError as error:
        return [IsolationFact(name, "", f"{error.what}: {error.cause}") for name in names]
    how = (
        f"by the kernel, in groups below {group}"
        if group
        else f"polled every {1000 * monitor.POLL_S:.0f} to {1000 * monitor.LONGEST_POLL_S:.0f} ms"
    )
    return [IsolationFact(name, "" if problem else how, problem) for name in names]
