"""Writes docs/reference/families.md from the templates' headers and the policy."""

from __future__ import annotations

from hipsynth.core.cache import REPOSITORY
from hipsynth.synth.generate.headers import FamilyTemplate, TemplateParameter, load_templates
from hipsynth.synth.generate.policy import Policy, default_policy

PAGE = REPOSITORY / "docs" / "reference" / "families.md"
INTRODUCTION = """# Program families

Generated from the templates' headers by `python -m hipsynth.synth.generate.reference`. The share of a family is its
weight in `templates/policy/default.toml`, which also holds the distribution of each parameter. A program takes its
parameters of type `size` as arguments, so that one build is profiled at several (`synth generate --sizes`).

In most programs the inputs repeat a tile of 65,536 elements, and the host reads back the first so many of each output:
at a hundred million elements the host would otherwise take most of the time. Buffers of indices (gathers, pointer
chases) are written whole, and end at 16 million elements.

| family | share | what it is | launch | tags |
|---|---|---|---|---|
"""


def _format_values(parameter: TemplateParameter) -> str:
    return ", ".join(map(str, parameter.choices)) if parameter.choices else f"{parameter.lo} to {parameter.hi}"


def _family_section(template: FamilyTemplate) -> str:
    rows = [
        f"| `{p.name}` | {'size' if p.size else p.type} | {_format_values(p)} | {p.default} | {p.help} |"
        for p in template.parameters
    ]
    text = f"## {template.family}\n\n{template.summary}\n\n| parameter | type | values | default | meaning |\n"
    text += "|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    if template.constraints:
        text += "\nConstraints: " + "; ".join(f"`{c}`" for c in template.constraints) + ".\n"
    return text


def render_page(policy: Policy | None = None) -> str:
    """The page as Markdown."""
    weights = (policy or default_policy()).families
    total = sum(weights.values())
    rows = [
        f"| [{t.family}](#{t.family}) | {100 * weights[t.family] / total:.1f} % | {t.summary} | {t.launch} | "
        f"{', '.join(t.tags)} |"
        for t in load_templates().values()
    ]
    return INTRODUCTION + "\n".join(rows) + "\n\n" + "\n".join(_family_section(t) for t in load_templates().values())


def main() -> None:
    """Writes the page."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render_page())


if __name__ == "__main__":
    main()
