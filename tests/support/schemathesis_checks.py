"""A check that schemathesis loads by SCHEMATHESIS_HOOKS: what /openapi.json allows is not refused for its form."""

from __future__ import annotations

import json

import schemathesis

FORM = ("invalid", "usage", "bad_flag")  # errors of a request; others are of the program in it


@schemathesis.check  # type: ignore[untyped-decorator]
def allowed_form_is_accepted(
    _: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    positive = case.meta is not None and case.meta.generation.mode.is_positive
    if positive and response.status_code == 422:
        problem = json.loads(response.content)
        assert problem["error"] not in FORM, problem["message"]
