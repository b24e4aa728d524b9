"""Small faults that can be put into a source: an operator, number, sign or order of arguments changed."""

import ast
import copy
from collections.abc import Iterator

BINARY = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
}
BINARY |= {ast.FloorDiv: ast.Mult, ast.And: ast.Or, ast.Or: ast.And}
COMPARED = {ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.GtE: ast.Lt, ast.Eq: ast.NotEq}
COMPARED |= {ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
NAMES = {"max": "min", "maximum": "minimum", "argmax": "argmin", "sqrt": "cbrt", "any": "all"}
NAMES |= {new: old for old, new in NAMES.items() if old != "sqrt"}


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """The node with one fault in it, in each way there is."""
    new = copy.deepcopy(node)
    match new:
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp() if type(new.op) in BINARY:
            new.op = BINARY[type(new.op)]()
            yield new
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            new.ops = [COMPARED[type(op)]()]
            yield new
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            # an index or a power one further; twice the size
            new.value = number + 1 if isinstance(number, int) else 2 * number or 1.0
            yield new
        case ast.Name(id=name) if name in NAMES:
            new.id = NAMES[name]
            yield new
        case ast.Attribute(attr=name) if name in NAMES:
            new.attr = NAMES[name]
            yield new
        case ast.Call(args=[first, second, *_]) if ast.dump(first) != ast.dump(second):
            if not any(
                isinstance(each, ast.Starred | ast.GeneratorExp) for each in (first, second)
            ):
                new.args[:2] = second, first
                yield new


def mutants(source: str) -> list[tuple[int, str, str, str]]:
    """Of each: line, the function it is in, what is changed, the changed source."""
    tree, found = ast.parse(source), []

    def visit(node: ast.AST, inside: tuple[str, ...]) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside = (*inside, node.name) if node is not tree else inside
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                # what is said where something is refused is no formula, nor is text
                if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.JoinedStr):
                    continue
                for new in changes(child):
                    put(node, field, at, new)
                    what = f"{ast.unparse(child)} -> {ast.unparse(new)}"
                    found.append((child.lineno, ".".join(inside), what, ast.unparse(tree)))
                    put(node, field, at, child)
                visit(child, inside)

    visit(tree, ())
    plain = ast.unparse(tree)
    return [each for each in found if each[3] != plain]


def put(node: ast.AST, field: str, at: int | None, child: ast.AST) -> None:
    if at is None:
        setattr(node, field, child)
    else:
        getattr(node, field)[at] = child
