"""Resolves identifiers of a parsed file to the entities they refer to: one, several (overloads), or none."""

from __future__ import annotations

from dataclasses import dataclass

from hipsynth.source import clang
from hipsynth.source.clang import TU, CCursor, is_null
from hipsynth.source.cursor_kinds import Kind

# cursor kind -> category of the entity
_CATEGORIES = {
    Kind.STRUCT_DECL: "type",
    Kind.UNION_DECL: "type",
    Kind.CLASS_DECL: "type",
    Kind.ENUM_DECL: "type",
    Kind.CLASS_TEMPLATE: "type",
    Kind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION: "type",
    Kind.TYPEDEF_DECL: "type",
    Kind.TYPE_ALIAS_DECL: "type",
    Kind.TYPE_ALIAS_TEMPLATE_DECL: "type",
    Kind.CONCEPT_DECL: "type",
    Kind.FIELD_DECL: "field",
    Kind.ENUM_CONSTANT_DECL: "constant",
    Kind.FUNCTION_DECL: "function",
    Kind.FUNCTION_TEMPLATE: "function",
    Kind.CXX_METHOD: "method",
    Kind.VAR_DECL: "variable",
    Kind.PARM_DECL: "parameter",
    Kind.UNEXPOSED_DECL: "variable",  # a structured binding
    Kind.TEMPLATE_TYPE_PARAMETER: "type parameter",
    Kind.TEMPLATE_NON_TYPE_PARAMETER: "value parameter",
    Kind.TEMPLATE_TEMPLATE_PARAMETER: "type parameter",
    Kind.NAMESPACE: "namespace",
    Kind.NAMESPACE_ALIAS: "namespace",
    Kind.LABEL_STMT: "label",
    Kind.MACRO_DEFINITION: "macro",
}
CATEGORY = {kind.value: name for kind, name in _CATEGORIES.items()}
ALWAYS_LOCAL = {"parameter", "label", "type parameter", "value parameter"}

SHAPED = {"variable", "parameter", "field"}
# CXTypeKind -> shape: the numbers of libclang's Index.h
_SHAPES = (
    dict.fromkeys(range(3, 21), "integer")
    | dict.fromkeys((21, 22, 23, 30, 31, 32, 39), "real")
    | dict.fromkeys((101, 112, 114, 115, 116), "pointer")
    | {106: "integer"}
)

_FUNCTIONS = {
    k.value for k in (Kind.FUNCTION_DECL, Kind.FUNCTION_TEMPLATE, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.DESTRUCTOR)
} | {Kind.CONVERSION_FUNCTION.value, Kind.LAMBDA_EXPR.value}
_SCOPES = {Kind.TRANSLATION_UNIT.value, Kind.NAMESPACE.value, Kind.LINKAGE_SPEC.value}
_NAMED_BY_CLASS = {Kind.CONSTRUCTOR.value, Kind.DESTRUCTOR.value}
_OVERLOADED = Kind.OVERLOADED_DECL_REF.value
_MACRO = Kind.MACRO_DEFINITION.value
_LABEL = Kind.LABEL_STMT.value


@dataclass(frozen=True)
class Entity:
    """A declared entity. `place` is (file, byte offset) of its first declaration; file "" is the parsed file itself.

    `local`: visible inside one function only. `pinned`: code outside the file depends on its name (it is declared
    here but defined elsewhere, or overrides a library's virtual function). `shared`: a variable in LDS.
    `member`: belongs to a class. `external`: a function or variable with external linkage.
    """

    name: str
    place: tuple[str, int]
    category: str
    local: bool = False
    pinned: bool = False
    shared: bool = False
    member: bool = False
    external: bool = False
    shape: str = ""  # of a variable, parameter or field: "pointer", "integer", "real" or "other"

    def __hash__(self) -> int:  # of what tells almost all apart
        return hash(self.place)

    @property
    def user(self) -> bool:
        """Whether the parsed file itself declares it."""
        return self.place[0] == ""


NOTHING: frozenset[Entity] = frozenset()


class Resolver:
    """Maps cursors of one translation unit to entities; results are cached."""

    def __init__(self, tu: TU) -> None:
        self.tu = tu
        self.lib = tu.lib
        self.known: dict[tuple[int, int, int], Entity | None] = {}
        self.single: dict[Entity, frozenset[Entity]] = {}

    def named(self, cursor: CCursor, name: str) -> frozenset[Entity]:
        """Of the entities that a token's cursor refers to, those with this name."""
        entities = [entity for entity in self.referents(cursor) if entity.name == name]
        if len(entities) == 1:
            return self.single.setdefault(entities[0], frozenset(entities))
        return frozenset(entities) if entities else NOTHING

    def referents(self, cursor: CCursor) -> list[Entity]:
        """The entities a token's cursor refers to; several if overload resolution depends on template arguments."""
        target = cursor if cursor.kind in (_LABEL, _MACRO) else self.lib.clang_getCursorReferenced(cursor)
        if is_null(target):
            return []
        if target.kind == _OVERLOADED:
            entities = [self.entity(c) for c in self.tu.overloads(target)]
        else:
            entities = [self.entity(target)]
        return [e for e in entities if e is not None]

    def entity(self, cursor: CCursor) -> Entity | None:
        """The entity that a declaration cursor declares; None if it has no declaration."""
        key = (cursor.kind, cursor.data[0] or 0, cursor.data[1] or 0)
        if key not in self.known:
            self.known[key] = self._make_entity(cursor)
        return self.known[key]

    def _make_entity(self, cursor: CCursor) -> Entity | None:
        original = self._first_declaration(cursor)
        if is_null(original):
            return None
        file, offset = self.tu.spelling_place(original)
        name = clang.text_of(self.lib.clang_getCursorSpelling(original))
        inside = file == self.tu.file
        where = "" if inside else self.tu.name(file)
        category = CATEGORY.get(original.kind, "other")
        if not inside:
            return Entity(name, (where or "<builtin>", offset), category)
        local = category in ALWAYS_LOCAL or (category == "variable" and self._in_function(original))
        shared = category == "variable" and self._is_shared(original)
        pinned = self._is_pinned(original, category) and not shared
        member = CATEGORY.get(self.lib.clang_getCursorSemanticParent(original).kind) == "type"
        external = (
            category in ("function", "variable") and self.lib.clang_getCursorLinkage(original) == clang.LINKAGE_EXTERNAL
        )
        shape = _SHAPES.get(self.tu.type_kind(original), "other") if category in SHAPED else ""
        return Entity(name, ("", offset), category, local, pinned, shared, member, external, shape)

    def _first_declaration(self, cursor: CCursor) -> CCursor:
        """The first declaration of an entity: of the template for an instance, of the class for a constructor."""
        while True:
            template = self.lib.clang_getSpecializedCursorTemplate(cursor)
            if is_null(template):
                break
            cursor = template
        kind = cursor.kind
        if kind == Kind.FUNCTION_TEMPLATE.value and self._is_constructor_template(cursor):
            kind = Kind.CONSTRUCTOR.value
        if kind in _NAMED_BY_CLASS:
            return self._first_declaration(self.lib.clang_getCursorSemanticParent(cursor))
        if kind in (_LABEL, _MACRO):
            return cursor
        if kind == Kind.TYPE_ALIAS_TEMPLATE_DECL.value:
            # The template's location is the keyword `using`; the alias inside it is at the name.
            inner = self._find_child(cursor, Kind.TYPE_ALIAS_DECL.value)
            return cursor if inner is None else self._first_declaration(inner)
        canonical: CCursor = self.lib.clang_getCanonicalCursor(cursor)
        return canonical

    def _is_constructor_template(self, cursor: CCursor) -> bool:
        if self.lib.clang_getTemplateCursorKind(cursor) == Kind.CONSTRUCTOR.value:
            return True
        parent = self.lib.clang_getCursorSemanticParent(cursor)
        if CATEGORY.get(parent.kind) != "type":
            return False
        spelled = clang.text_of(self.lib.clang_getCursorSpelling(cursor))
        owner = clang.text_of(self.lib.clang_getCursorSpelling(parent))
        return spelled.split("<")[0] == owner

    def _in_function(self, cursor: CCursor) -> bool:
        return self.lib.clang_getCursorSemanticParent(cursor).kind in _FUNCTIONS

    def _is_pinned(self, cursor: CCursor, category: str) -> bool:
        if category == "method":
            return any(self._overrides_outside(c) for c in self.tu.overridden(cursor))
        if category not in ("function", "variable"):
            return False
        extern = self.lib.clang_Cursor_getStorageClass(cursor) == clang.STORAGE_EXTERN
        at_scope = self.lib.clang_getCursorSemanticParent(cursor).kind in _SCOPES
        if category == "variable" and not extern:
            return False
        if not at_scope and not extern:
            return False
        return is_null(self.lib.clang_getCursorDefinition(cursor))

    def _overrides_outside(self, cursor: CCursor) -> bool:
        file, _ = self.tu.spelling_place(cursor)
        return file != self.tu.file or any(self._overrides_outside(c) for c in self.tu.overridden(cursor))

    def _is_shared(self, cursor: CCursor) -> bool:
        """Whether a variable is __shared__: an extern LDS array is defined by the launch, not in another file."""
        return self._find_child(cursor, Kind.CUDASHARED_ATTR.value) is not None

    def _find_child(self, cursor: CCursor, kind: int) -> CCursor | None:
        """The first direct child of a cursor kind, or None."""
        cursors: list[CCursor] = []

        def visit(child: CCursor, _parent: CCursor, _data: object) -> int:
            if child.kind == kind:
                cursors.append(CCursor.from_buffer_copy(child))
            return 1 if child.kind != kind else 0

        self.lib.clang_visitChildren(cursor, clang.Visitor(visit), None)
        return cursors[0] if cursors else None
