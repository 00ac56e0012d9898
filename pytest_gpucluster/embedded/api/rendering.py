"""In which form objects are answered: whole, as metadata only, or as the rows of a table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from pytest_gpucluster.embedded.api.bodies import encode
from pytest_gpucluster.embedded.api.tables import Column, columns_of
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.resources import ResourceType

META = "meta.k8s.io/v1"


@dataclass
class Rendering:
    """How one request wants its objects.

    Attributes:
        form: `""` for whole objects, `Table` or `PartialObjectMetadata`.
        include: For tables, what each row carries: `Metadata`, `Object` or `None`.
        clock: The present time, for ages.
    """

    form: str
    include: str
    clock: Callable[[], datetime]
    _columns_sent: bool = field(default=False, repr=False)

    @property
    def plain(self) -> bool:
        """Whether objects are answered as they are."""
        return not self.form

    def one(self, row: ResourceType, obj: Obj) -> Obj:
        """Return one object."""
        if self.form == "Table":
            return self._table(row, [obj], {"resourceVersion": obj["metadata"]["resourceVersion"]})
        return _metadata_only(obj) if self.form else obj

    def many(self, row: ResourceType, objs: list[Obj], meta: Obj) -> Obj:
        """Return a list."""
        if self.form == "Table":
            return self._table(row, objs, meta)
        if self.form:
            items = [_metadata_only(o) for o in objs]
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": META,
                "metadata": meta,
                "items": items,
            }
        return {"kind": f"{row.kind}List", "apiVersion": row.api_version, "metadata": meta, "items": objs}

    def event(self, row: ResourceType, obj: Obj) -> bytes:
        """Return the object of a watch event as JSON; later tables omit their columns."""
        shown = self.one(row, obj)
        if self.form == "Table" and self._columns_sent:
            shown["columnDefinitions"] = None
        self._columns_sent = True
        return encode(shown)

    def _table(self, row: ResourceType, objs: list[Obj], meta: Obj) -> Obj:
        columns = columns_of(row)
        return {
            "kind": "Table",
            "apiVersion": META,
            "metadata": meta,
            "columnDefinitions": [_definition(c) for c in columns],
            "rows": [self._row(columns, o) for o in objs],
        }

    def _row(self, columns: Iterable[Column], obj: Obj) -> Obj:
        now = self.clock()
        out: Obj = {"cells": [c.cell(obj, now) for c in columns]}
        if self.include != "None":
            out["object"] = obj if self.include == "Object" else _metadata_only(obj)
        return out


def _definition(column: Column) -> Obj:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else "",
        "description": column.name,
        "priority": column.priority,
    }


def _metadata_only(obj: Obj) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": obj["metadata"]}


def rendering_of(accept: str, include: str, clock: Callable[[], datetime]) -> Rendering:
    """Return the rendering that an Accept header asks for first."""
    for part in accept.split(","):
        options = dict(p.strip().partition("=")[::2] for p in part.split(";")[1:])
        asked = options.get("as", "").removesuffix("List")
        if asked in ("Table", "PartialObjectMetadata") and options.get("v", "v1") == "v1":
            return Rendering(asked, include or "Metadata", clock)
        if part.split(";")[0].strip() in ("application/json", "*/*") and not asked:
            break
    return Rendering("", "", clock)
