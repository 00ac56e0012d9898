"""`gpucluster describe`: what there is, without touching a cluster."""

from collections.abc import Sequence
from typing import Any

from pytest_gpucluster.cli import common
from pytest_gpucluster.requirement import Requirement, catalogue, row_ids

SUBJECTS = ("requirements", "defects", "keys", "profile")

DESCRIPTION = """Show what exists; no cluster is touched.

  requirements [ID ...]  every row of the catalogue, or some rows in full; with --module also your own
  defects                planted defects of the embedded cluster and the rows that each turns red
  keys [KEY ...]         every key that a profile may have, or those of some sections, such as fabric
  profile                the effective profile of --cluster, with the source of each value
"""

EXITS = {0: "shown", **common.MISTAKE}


def parser() -> common.Parser:
    """Return the parser of the command."""
    parser = common.Parser("describe", DESCRIPTION, EXITS)
    parser.add_argument("subject", metavar="|".join(SUBJECTS), help="what to show")
    parser.add_argument(
        "ids", metavar="ID", nargs="*", help="rows to show in full, or sections of the profile"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    common.add_module_option(parser)
    common.add_cluster_options(parser, default="embedded")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parser().parse_args(arguments)
    subject = common.choose(options.subject, SUBJECTS, "subject")
    if options.ids and subject not in ("requirements", "keys"):
        raise common.CliError(f"describe {subject} takes no ids, got {options.ids[0]!r}")
    if options.module and subject in ("keys", "profile"):
        raise common.CliError(f"describe {subject} takes no --module, got {options.module[0]!r}")
    match subject:
        case "requirements":
            _requirements(options.ids, options.module, as_json=options.json)
        case "defects":
            _defects(options.module, as_json=options.json)
        case "keys":
            _keys(options.ids, as_json=options.json)
        case _:
            _profile(options)
    return 0


def _requirements(ids: Sequence[str], modules: Sequence[str], *, as_json: bool) -> None:
    declared = {row.id: row for row in common.registry(modules)}
    known = sorted({*declared, *(row.id for row in catalogue.rows())}, key=catalogue.order)
    for row_id in ids:
        common.check_site(row_id, known, modules)
        if row_id not in known:
            raise common.CliError(f"unknown requirement {row_id!r}{row_ids.hint(row_id, known)}")
    rows = [_row(row_id, declared.get(row_id)) for row_id in ids or known]
    if as_json:
        common.say_json(rows)
    elif ids:
        for row in rows:
            _in_full(row)
    else:
        common.say_table(
            [
                ["ID", "LEVEL", "DOCUMENTS", "TEST", "TITLE"],
                *(
                    [
                        r["id"],
                        r["level"],
                        " ".join(r["documents"]),
                        "yes" if r["built"] else "not built",
                        r["title"],
                    ]
                    for r in rows
                ),
            ]
        )
        common.say(f"{len(declared)} of {len(known)} rows have a test")


def _row(row_id: str, declared: Requirement | None) -> dict[str, Any]:
    known = catalogue.row(row_id)
    row: dict[str, Any] = {**(known.as_dict() if known else {}), "built": declared is not None}
    if declared is None:
        return row
    from pytest_gpucluster.mutants import MUTANTS
    from pytest_gpucluster.report import record, suites

    mutants = {name: mutant.flips for name, mutant in MUTANTS.items()}
    return row | {
        "id": declared.id,
        "area": declared.area,
        "level": declared.level.value,
        "documents": list(declared.documents),
        "title": declared.title,
        "text": declared.text,
        "scenario": declared.scenario.name,
        "judge": record.judge_name(declared.judge),
        "presupposes": [record.judge_name(check) for check in declared.presupposes],
        "defects": list(suites.defects(declared, mutants)),
        "where": declared.where,
    }


def _in_full(row: dict[str, Any]) -> None:
    common.say(f"{row['id']} ({row['level']}) {row['title']}")
    for name in ("text", "documents", "runs", "scenario", "judge", "presupposes", "defects", "where"):
        value = row.get(name)
        if value:
            common.say(f"  {name:<12}{', '.join(value) if isinstance(value, list) else value}")
    if not row["built"]:
        common.say("  not built: it has no test in this version")


def _defects(modules: Sequence[str], *, as_json: bool) -> None:
    from pytest_gpucluster import provider
    from pytest_gpucluster.mutants import MUTANTS
    from pytest_gpucluster.report import suites

    common.registry(modules)
    known = {**provider.known_defects(), **{name: mutant.what for name, mutant in MUTANTS.items()}}
    flips = suites.flips({name: mutant.flips for name, mutant in MUTANTS.items()})
    rows = [
        {"defect": name, "does": known.get(name, "not planted by this version"), "flips": flips.get(name, {})}
        for name in sorted({*known, *flips})
    ]
    if as_json:
        common.say_json(rows)
        return
    for row in rows:
        common.say(f"{row['defect']}: {row['does']}")
        flipped = [f"{i} {verdict}".strip() for i, verdict in row["flips"].items()]  # type: ignore[attr-defined]
        common.say(f"    {', '.join(flipped) or 'turns no row red'}")


def _keys(asked: Sequence[str], *, as_json: bool) -> None:
    from pytest_gpucluster.profile import reference

    known = [key for section in reference.sections() for key in section.keys]
    paths = [key.path for key in known]
    for path in asked:
        common.choose(path, paths, "key")
    told = [
        {"key": key.path, "value": key.kind, "default": key.default_told, "meaning": key.meaning}
        for key in known
        if not asked or any(_is_in(key.path, path) for path in asked)
    ]
    if as_json:
        common.say_json(told)
        return
    for row in told:
        default = row["default"] if row["default"] in ("required", "none") else f"default {row['default']}"
        common.say(f"{row['key']}: {row['value']}; {default}".replace("`", ""))
        common.say(f"    {row['meaning']}".rstrip())


def _is_in(path: str, section: str) -> bool:
    """Report whether a key is another, or lies in its section, list or map."""
    return path == section or path.startswith((f"{section}.", f"{section}[]."))


def _profile(options: Any) -> None:
    from pytest_gpucluster.plain import redact

    loaded = common.load_profile(options.cluster, options.profiles, options.set)
    data = redact.clean(loaded.as_dict())
    if options.json:
        common.say_json(data)
        return
    common.say_table(
        [["SETTING", "VALUE", "SOURCE"], *_leaves(data["profile"], data["sources"], "")],
    )


def _leaves(value: Any, sources: dict[str, str], path: str) -> list[list[str]]:
    if isinstance(value, dict) and value:
        return [
            row
            for key, item in value.items()
            for row in _leaves(item, sources, f"{path}.{key}" if path else key)
        ]
    return [[path, "-" if value in (None, [], {}) else str(value), sources.get(path, "default")]]
